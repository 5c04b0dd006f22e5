// parse(): takes the words line by line until the first mistake, and keeps what the lines build: tensors, statements,
// roles. The lines themselves are read in lines.cc.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/program/parser.h"

namespace ridge {

Result<Program> parse(std::string_view text, const ParseOptions& options) {
  return notation::Parser(text, options).run();
}

namespace notation {

Parser::Parser(std::string_view text, const ParseOptions& options) : source_{text, options.source}, options_(options) {
  program_.source = options.source;
  program_.text = std::string(text);
}

Result<Program> Parser::run() {
  Result<std::vector<Token>> tokens = tokenize(source_);
  if (!tokens) return tokens.error();
  tokens_ = *std::move(tokens);
  note_later_names();
  while (peek().kind != TokenKind::end) {
    if (peek().kind == TokenKind::newline)
      take();
    else if (!item() || !few_enough())
      return *error_;
  }
  if (!no_cycles() || !whole_stacks()) return *error_;
  if (program_.statements.empty()) {
    expected("a statement", "such as bf16[B, D] * bf16[D, F] -> bf16[B, F], or y: bf16[N] = cos(x)");
    return *error_;
  }
  set_roles();
  return std::move(program_);
}

bool Parser::few_enough() {
  if (program_.statements.size() <= max_statements) return true;
  return fail(program_.statements.back().span,
              fmt::format("expected at most {} statements, found more", max_statements),
              "split it into several programs");
}

// --- words

Token Parser::take() { return tokens_[next_ + 1 < tokens_.size() ? next_++ : next_]; }

bool Parser::take(std::string_view symbol) {
  if (!peek().is(symbol)) return false;
  take();
  return true;
}

bool Parser::fail(Span span, std::string message, std::string hint) {
  error_ = source_.error(span, std::move(message), std::move(hint));
  return false;
}

// What to write instead of a sign that other notations have and this one lacks.
static std::string cure(const Token& found) {
  static constexpr std::pair<std::string_view, std::string_view> cures[] = {
      {"@", "a product is written a * b; shared names say what is summed"},
      {";", "a line break ends a statement"},
      {"{", "partial sums, {U_X}, stand behind the brackets of a tensor"},
      {".", "functions are written cos(x); axes are matched by name, so no transpose is needed"},
      {"^", "a power is written as a product: x * x"},
      {"<", "put one of two comparisons in parentheses"},
      {"!", "unequal is written where(a == b, 0, 1)"},
      {"&", "both is a product: (a < b) * (b < c)"},
      {"|", "either is max(a, b)"},
      {"%", "a remainder has no sign here"},
  };
  if (found.kind == TokenKind::symbol)
    for (const auto& [sign, hint] : cures)
      if (found.text == sign) return std::string(hint);
  if (found.kind == TokenKind::suffix) return "a name begins with a letter";
  return {};
}

bool Parser::expected(const std::string& what, const std::string& hint) {
  std::string better = cure(peek());
  if (better.empty()) better = hint;
  if (better.empty() && (peek().is("]") || peek().is(")"))) better = "nothing is open that it could close";
  return fail(peek().span, fmt::format("expected {}, found {}", what, quoted(peek())), better);
}

bool Parser::expect(std::string_view symbol, const std::string& what, const std::string& hint) {
  return take(symbol) || expected(what, hint);
}

// The sign that closes what `open` began. Where the line ends first, the place to look at is the beginning.
bool Parser::close(const Token& open, std::string_view sign, const std::string& otherwise) {
  if (take(sign)) return true;
  if (!at_end_of_line()) return expected(otherwise);
  return fail(open.span, fmt::format("expected '{}' for this {}, found {}", sign, quoted(open), quoted(peek())),
              "close it on the same line");
}

bool Parser::at_end_of_line() const { return peek().kind == TokenKind::newline || peek().kind == TokenKind::end; }

// Words that are declared or written somewhere, to tell "not yet written" from "unknown".
void Parser::note_later_names() {
  int brackets = 0;
  for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
    brackets += tokens_[i].is("[") ? 1 : tokens_[i].is("]") ? -1 : 0;
    if (tokens_[i].kind != TokenKind::name) continue;
    if (brackets <= 0) words_.insert(std::string(tokens_[i].text));
    const bool weights = i >= 4 && tokens_[i - 4].text == "conv" && tokens_[i - 3].is("(") && tokens_[i - 1].is(",");
    if (weights) windows_.insert(std::string(tokens_[i].text));
    const bool first = i == 0 || tokens_[i - 1].kind == TokenKind::newline;
    const bool written = (brackets <= 0 && tokens_[i + 1].is(":")) || (first && tokens_[i + 1].is("[")) ||
                         (i > 0 && tokens_[i - 1].is("->"));
    if (written) later_names_.insert(std::string(tokens_[i].text));
  }
}

// --- what the lines build

int Parser::declare(const Mention& m, DType dtype, bool declared) {
  const int index = static_cast<int>(program_.tensors.size());
  tensor_index_.emplace(m.name, index);
  program_.tensors.push_back(
      {.name = m.name, .dtype = dtype, .declared = declared, .axes = m.axes, .partial = m.partial, .span = m.span});
  return index;
}

// The tensor that an arrow reads: one that exists, or a new input. Fills in the axes that the arrow does not repeat.
int Parser::operand(Mention& m) {
  if (const Stack* const whole = stack_named(m.name)) {
    read_in_parts(*whole, m.span);
    return -1;
  }
  const auto found = tensor_index_.find(m.name);
  if (found == tensor_index_.end()) {
    if (m.typed && !sizes_differ(m)) return -1;
    if (m.typed) return declare(m, m.dtype.value_or(options_.dtype), true);
    fail(
        m.span, fmt::format("the dimensions of '{}' are missing", m.name),
        fmt::format("write {}[B, D], or put the types behind a colon: X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]",
                    m.name));
    return -1;
  }
  const Tensor& known = program_.tensors[static_cast<std::size_t>(found->second)];
  const bool same =
      same_sharding(m.axes, known.axes) && m.partial == known.partial && m.dtype.value_or(known.dtype) == known.dtype;
  if (m.typed && !same) {
    fail(m.type_span,
         fmt::format("tensor '{}' is {}{}{} already", m.name, name(known.dtype), text(known.axes),
                     partial_text(known.partial)),
         "repeat it as it is, write its name alone, or use another name");
    return -1;
  }
  if (!repeats(found->second, m.span)) return -1;
  if (!m.typed) {
    m.axes = known.axes;
    for (Axis& a : m.axes) a.span = m.span;
  }
  return found->second;
}

// The tensor that a statement writes. One that names no dtype has its operands' widest.
int Parser::write_result(const Mention& m, const std::vector<int>& operands, bool quantizes) {
  if (tensor_index_.contains(m.name) || stack_named(m.name)) {
    fail(m.span, fmt::format("tensor '{}' is there already; a tensor is written once", m.name),
         "use another name; an output is declared where it is written: y: bf16[N, F] = …");
    return -1;
  }
  if (m.dtype && is_scaled(*m.dtype) && !quantizes) {
    fail(m.span, fmt::format("'{}' is {}, whose scales quantize alone makes", m.name, ridge::name(*m.dtype)),
         "store it as bf16, and quantize that in a statement of its own");
    return -1;
  }
  DType widest = program_.tensors[static_cast<std::size_t>(operands.front())].dtype;
  for (const int o : operands) widest = wider(widest, program_.tensors[static_cast<std::size_t>(o)].dtype);
  if (is_scaled(widest)) widest = DType::bf16;
  return declare(m, m.dtype.value_or(widest), m.dtype.has_value());
}

// X, Y, Z for what has no name; X2, X3 where they are taken.
std::string Parser::free_name(const std::string& wanted) const {
  std::string name = wanted;
  for (int i = 2; tensor_index_.contains(name) || words_.contains(name); ++i) name = wanted + std::to_string(i);
  return name;
}

void Parser::add_statement(std::variant<Contraction, Expression> op, std::size_t first) {
  const Token &from = tokens_[first], &to = tokens_[next_ - 1];
  const auto length = static_cast<std::size_t>(to.text.data() + to.text.size() - from.text.data());
  const std::string_view written(from.text.data(), length);
  program_.statements.push_back({.op = std::move(op),
                                 .text = std::string(written),
                                 .span = {from.span.line, from.span.column, static_cast<int>(length)}});
}

void Parser::set_roles() {
  std::vector<bool> read(program_.tensors.size());
  for (const Statement& s : program_.statements)
    for (const int o : operands(s)) read[static_cast<std::size_t>(o)] = true;
  for (const Statement& s : program_.statements) {
    const auto i = static_cast<std::size_t>(s.result());
    program_.tensors[i].role = !read[i] || program_.tensors[i].declared ? Role::output : Role::intermediate;
  }
}

}  // namespace notation
}  // namespace ridge

// Main loop of `parse`(), token handling, and the tables of tensors and statements. Lines are parsed in parse_lines.cc.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/program/parser.h"

namespace ridge {

Result<Program> parse(std::string_view text, const ParseOptions& options) {
  return program::Parser(text, options).parse_program();
}

namespace program {

Parser::Parser(std::string_view text, const ParseOptions& options) : source_{text, options.source}, options_(options) {
  program_.source = options.source;
  program_.text = std::string(text);
}

Result<Program> Parser::parse_program() {
  RIDGE_TRY(tokens, tokenize(source_));
  tokens_ = std::move(tokens);
  collect_later_names();
  while (peek().kind != TokenKind::end) {
    if (peek().kind == TokenKind::newline)
      consume_token();
    else if (!parse_item() || !check_statement_limit())
      return *error_;
  }
  if (!check_no_cycles() || !check_stacks_complete() || !check_replaced_last()) return *error_;
  if (program_.statements.empty()) {
    report_expected("a statement", "such as bf16[B, D] * bf16[D, F] -> bf16[B, F], or y: bf16[N] = cos(x)");
    return *error_;
  }
  set_roles();
  return std::move(program_);
}

bool Parser::check_statement_limit() {
  if (program_.statements.size() <= max_statements) return true;
  return report_error(program_.statements.back().span,
                      fmt::format("expected at most {} statements, found more", max_statements),
                      "split it into several programs");
}

// --- tokens

Token Parser::consume_token() { return tokens_[next_ + 1 < tokens_.size() ? next_++ : next_]; }

bool Parser::accept_symbol(std::string_view symbol) {
  if (!peek().is_symbol(symbol)) return false;
  consume_token();
  return true;
}

bool Parser::report_error(TextSpan span, std::string message, std::string hint) {
  error_ = source_.error_at(span, std::move(message), std::move(hint));
  return false;
}

// Returns a hint for a sign of other notations, or "".
static std::string hint_for_foreign_sign(const Token& found) {
  static constexpr std::pair<std::string_view, std::string_view> hints[] = {
      {"@", "a product is written a * b; shared names say what is summed"},
      {";", "a line break ends a statement"},
      {"{", "partial sums, {U_X}, are written after the brackets of a tensor"},
      {".", "functions are written cos(x); axes are matched by name, so no transpose is needed"},
      {"^", "a power is written as a product: x * x"},
      {"<", "put one of two comparisons in parentheses"},
      {"!", "unequal is written where(a == b, 0, 1)"},
      {"&", "'and' is written as a product: (a < b) * (b < c)"},
      {"|", "'or' is written max(a, b)"},
      {"%", "there is no remainder operator"},
  };
  if (found.kind == TokenKind::symbol)
    for (const auto& [sign, hint] : hints)
      if (found.text == sign) return std::string(hint);
  if (found.kind == TokenKind::suffix) return "a name begins with a letter";
  return {};
}

bool Parser::report_expected(const std::string& what, const std::string& hint) {
  std::string better = hint_for_foreign_sign(peek());
  if (better.empty()) better = hint;
  if (better.empty() && (peek().is_symbol("]") || peek().is_symbol(")"))) better = "there is no open bracket to close";
  return report_error(peek().span, fmt::format("expected {}, found {}", what, quote_token(peek())), better);
}

bool Parser::expect_symbol(std::string_view symbol, const std::string& what, const std::string& hint) {
  return accept_symbol(symbol) || report_expected(what, hint);
}

// Accepts the sign that closes `open`. If the line ends first, the error shows the opening sign.
bool Parser::close_bracket(const Token& open, std::string_view sign, const std::string& expected) {
  if (accept_symbol(sign)) return true;
  if (!is_at_end_of_line()) return report_expected(expected);
  return report_error(open.span,
                      fmt::format("expected '{}' for this {}, found {}", sign, quote_token(open), quote_token(peek())),
                      "close it on the same line");
}

bool Parser::is_at_end_of_line() const { return peek().kind == TokenKind::newline || peek().kind == TokenKind::end; }

// Collects all names that are declared or written, to distinguish "not yet written" from "unknown".
void Parser::collect_later_names() {
  int brackets = 0;
  for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
    brackets += tokens_[i].is_symbol("[") ? 1 : tokens_[i].is_symbol("]") ? -1 : 0;
    if (tokens_[i].kind != TokenKind::name) continue;
    if (brackets <= 0) used_names_.insert(std::string(tokens_[i].text));
    const bool first = i == 0 || tokens_[i - 1].kind == TokenKind::newline;
    const bool written = (brackets <= 0 && tokens_[i + 1].is_symbol(":")) || (first && tokens_[i + 1].is_symbol("[")) ||
                         (i > 0 && tokens_[i - 1].is_symbol("->"));
    if (written) later_names_.insert(std::string(tokens_[i].text));
  }
}

// --- tensors and statements

int Parser::declare_tensor(const TensorRef& m, DType dtype, bool declared) {
  const int index = static_cast<int>(program_.tensors.size());
  tensor_index_.emplace(m.name, index);
  program_.tensors.push_back({.name = m.name,
                              .dtype = dtype,
                              .declared = declared,
                              .axes = m.axes,
                              .partial = m.partial,
                              .span = m.span,
                              .declared_use = m.use});
  return index;
}

// Returns the tensor that an arrow product reads, existing or declared as a new input. Completes omitted axes.
int Parser::resolve_operand(TensorRef& m) {
  if (const StackedInput* const stack = find_stack(m.name)) {
    report_stack_read(*stack, m.span);
    return -1;
  }
  const auto found = tensor_index_.find(m.name);
  if (found == tensor_index_.end()) {
    if (m.has_axes && !check_ref_sizes_differ(m)) return -1;
    if (m.has_axes) return declare_tensor(m, m.dtype.value_or(options_.dtype), true);
    report_error(
        m.span, fmt::format("the dimensions of '{}' are missing", m.name),
        fmt::format("write {}[B, D], or put the types after a colon: X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]",
                    m.name));
    return -1;
  }
  const Tensor& known = program_.tensors[found->second];
  if (m.use && m.use != known.declared_use) {
    report_error(m.span, fmt::format("expected {} without a word before it: it exists already", quote_word(m.name)),
                 fmt::format("write {} where it is declared", input_use_word(*m.use)));
    return -1;
  }
  const bool same = has_same_sharding(m.axes, known.axes) && m.partial == known.partial &&
                    m.dtype.value_or(known.dtype) == known.dtype;
  if (m.has_axes && !same) {
    report_error(m.type_span,
                 fmt::format("tensor '{}' is {}{}{} already", m.name, dtype_name(known.dtype), format_axes(known.axes),
                             format_partial(known.partial)),
                 "repeat it as it is, write its name alone, or use another name");
    return -1;
  }
  if (!check_tensor_sizes_differ(found->second, m.span)) return -1;
  if (!m.has_axes) {
    m.axes = known.axes;
    for (Axis& a : m.axes) a.span = m.span;
  }
  return found->second;
}

// Declares the result of a statement. Its default dtype is the widest of its operands, but bf16 for block-scaled ones
// and for sums of products of floats below 16 bits.
int Parser::declare_result(const TensorRef& m, const std::vector<int>& operands, ResultKind kind) {
  if (m.use) {
    report_error(m.span,
                 fmt::format("expected an input after {}, found {}, which the program computes",
                             quote_word(input_use_word(*m.use)), quote_word(m.name)),
                 "only inputs are declared param, cache, state or data");
    return -1;
  }
  if (tensor_index_.contains(m.name) || find_stack(m.name)) {
    report_error(m.span, fmt::format("tensor '{}' exists already; a tensor is written only once", m.name),
                 "use another name; an output is declared where it is written: y: bf16[N, F] = …");
    return -1;
  }
  if (m.dtype && is_block_scaled(*m.dtype) && kind != ResultKind::quantized) {
    report_error(m.span,
                 fmt::format("'{}' is {}, whose scales only quantize can compute", m.name, ridge::dtype_name(*m.dtype)),
                 "store it as bf16, and quantize that in a statement of its own");
    return -1;
  }
  DType widest = program_.tensors[operands.front()].dtype;
  for (const int o : operands) widest = wider_dtype(widest, program_.tensors[o].dtype);
  const bool is_narrow_float = !dtype_info(widest).is_integer && dtype_bits(widest) < 16;
  if (is_block_scaled(widest) || (kind == ResultKind::product && is_narrow_float)) widest = DType::bf16;
  return declare_tensor(m, m.dtype.value_or(widest), m.dtype.has_value());
}

// Returns X, or X2, X3, … if the name is used.
std::string Parser::unused_name(const std::string& base_name) const {
  std::string name = base_name;
  for (int i = 2; tensor_index_.contains(name) || used_names_.contains(name); ++i) name = base_name + std::to_string(i);
  return name;
}

void Parser::add_statement(std::variant<Contraction, Expression> op, std::size_t first_token) {
  const Token &from = tokens_[first_token], &to = tokens_[next_ - 1];
  const std::size_t length = to.text.data() + to.text.size() - from.text.data();
  const std::string_view written(from.text.data(), length);
  program_.statements.push_back({.op = std::move(op),
                                 .text = std::string(written),
                                 .span = {from.span.line, from.span.column, static_cast<int>(length)}});
}

void Parser::set_roles() {
  std::vector<bool> read(program_.tensors.size());
  for (const Statement& s : program_.statements)
    for (const int o : statement_operands(s)) read[o] = true;
  for (const Statement& s : program_.statements) {
    const std::size_t i = s.result();
    program_.tensors[i].role = !read[i] || program_.tensors[i].declared ? TensorRole::output : TensorRole::intermediate;
  }
}

}  // namespace program
}  // namespace ridge

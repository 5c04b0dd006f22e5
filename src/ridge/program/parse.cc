// The lines of a program. Each is a list of dimensions, a declaration, a definition or an arrow:
//   dims N = 32768, D = 8192     x: bf16[N, D]     u[N, F] = x * up     bf16[B, D] * bf16[D, F] -> bf16[B, F]
// A definition whose right side is a product of two tensors and nothing else is a contraction, any other is pointwise.
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
    else if (!item())
      return *error_;
  }
  if (!no_cycles()) return *error_;
  if (program_.statements.empty()) {
    expected("a statement", "such as bf16[B, D] * bf16[D, F] -> bf16[B, F], or y: bf16[N] = cos(x)");
    return *error_;
  }
  set_roles();
  return std::move(program_);
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
      {"{", "partial sums such as {U_X} are not supported yet; leave them out for the whole tensor"},
      {".", "functions are written cos(x); axes are matched by name, so no transpose is needed"},
      {"^", "in expressions a power is written x * x"},
      {"<", "a comparison is written less(a, b)"},
      {">", "a comparison is written less(b, a)"},
  };
  if (found.kind == TokenKind::symbol)
    for (const auto& [sign, hint] : cures)
      if (found.text == sign) return std::string(hint);
  if (found.kind == TokenKind::suffix) return "a name begins with a letter";
  return {};
}

bool Parser::expected(const std::string& what, const std::string& hint) {
  const std::string better = cure(peek());
  return fail(peek().span, fmt::format("expected {}, found {}", what, quoted(peek())), better.empty() ? hint : better);
}

bool Parser::expect(std::string_view symbol, const std::string& what, const std::string& hint) {
  return take(symbol) || expected(what, hint);
}

bool Parser::at_end_of_line() const { return peek().kind == TokenKind::newline || peek().kind == TokenKind::end; }

// --- lines

// Words that are declared or written somewhere, to tell "not yet written" from "unknown".
void Parser::note_later_names() {
  int brackets = 0;
  for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
    brackets += tokens_[i].is("[") ? 1 : tokens_[i].is("]") ? -1 : 0;
    if (tokens_[i].kind != TokenKind::name) continue;
    if (brackets <= 0) words_.insert(std::string(tokens_[i].text));
    const bool first = i == 0 || tokens_[i - 1].kind == TokenKind::newline;
    const bool written =
        tokens_[i + 1].is(":") || (first && tokens_[i + 1].is("[")) || (i > 0 && tokens_[i - 1].is("->"));
    if (written) later_names_.insert(std::string(tokens_[i].text));
  }
}

bool Parser::item() {
  const Token& first = peek();
  if (first.kind != TokenKind::name)
    return expected("a declaration or a statement",
                    "such as x: bf16[N, D], u[N, F] = x * w, or bf16[B, D] * bf16[D, F] -> bf16[B, F]");
  if (first.text == "dims" && !peek(1).is(":") && !peek(1).is("[")) return dims();
  if (dtype_from(first.text) || peek(1).is("*")) return arrow();
  return declaration_or_definition();
}

bool Parser::declaration_or_definition() {
  const std::size_t first = next_;
  Mention m;
  m.name = std::string(peek().text);
  m.span = peek().span;
  if (!tensor_name(peek())) return false;
  take();
  if (take(":")) {
    if (!type(m)) return false;
  } else if (peek().is("[")) {
    m.type_span = peek().span;
    m.typed = true;
    if (!axes(m.axes)) return false;
    if (peek().is("*") || peek().kind == TokenKind::suffix) {
      next_ = first;
      return arrow();
    }
  } else if (peek().is("=")) {
    return expected("'[' or ':' and the dimensions of the result",
                    fmt::format("write {}[N, F] = …, or {}: bf16[N, F] = …", m.name, m.name));
  } else {
    return expected(fmt::format("':', '[' or '*' behind {}", quoted(m.name)), "a tensor is declared x: bf16[N, D]");
  }
  if (take("=")) return definition(m, first);
  if (tensor_index_.contains(m.name))
    return fail(m.span, fmt::format("tensor '{}' is declared twice", m.name), "use another name");
  declare(m, m.dtype.value_or(options_.dtype), true);
  const bool more = peek().kind == TokenKind::name;
  return more || at_end_of_line() || expected("'=', another declaration or the end of the line");
}

bool Parser::definition(const Mention& result, std::size_t first) {
  nodes_.clear();
  node_spans_.clear();
  if (sum(0) < 0) return false;
  if (!at_end_of_line()) return expected("an operator or the end of the line", "a statement ends its line");
  const bool product_of_two = nodes_.size() == 3 && nodes_[0].kind == Node::Kind::tensor &&
                              nodes_[1].kind == Node::Kind::tensor && nodes_[2].function == Function::multiply &&
                              nodes_[2].kind == Node::Kind::call;
  if (product_of_two) {
    const auto named = [&](std::size_t i) {
      const Tensor& t = program_.tensors[static_cast<std::size_t>(nodes_[i].tensor)];
      return Operand{nodes_[i].tensor, fmt::format("'{}'", t.name), false, node_spans_[i], t.axes};
    };
    Operand left = named(0), right = named(1);
    for (Axis& a : left.axes) a.span = left.span;
    for (Axis& a : right.axes) a.span = right.span;
    Contraction c;
    if (!contract(left, right, result, c)) return false;
    if ((c.result = write_result(result, {c.left, c.right})) < 0) return false;
    add_statement(std::move(c), first);
    return true;
  }
  if (!pointwise(result)) return false;
  Pointwise p;
  std::vector<int> operands;
  for (const Node& n : nodes_)
    if (n.kind == Node::Kind::tensor) operands.push_back(n.tensor);
  if ((p.result = write_result(result, operands)) < 0) return false;
  p.nodes = std::move(nodes_);
  add_statement(std::move(p), first);
  return true;
}

static constexpr const char* arrow_example = "such as bf16[B, D] * bf16[D, F] -> bf16[B, F]";

bool Parser::arrow() {
  const std::size_t first = next_;
  Mention left, right, result;
  if (!mention(left)) return false;
  if (!peek().is("*") && !peek().is("->")) return expected("'*' behind the left operand", arrow_example);
  if (peek().is("->"))
    return expected("'*'", "an arrow states a product; other operations are written y: bf16[N] = cos(x)");
  take();
  if (!mention(right)) return false;
  if (take("->")) {
    if (!mention(result)) return false;
    if (take(":") && !arrow_types(left, right, result)) return false;
  } else if (take(":")) {
    if (!arrow_types(left, right, result)) return false;
  } else {
    return expected("'->' and the result", arrow_example);
  }
  if (!at_end_of_line()) return expected("the end of the line", "a statement ends its line");
  if (result.suffix)
    return fail(result.suffix->span,
                fmt::format("expected no suffix behind the result, found {}", quoted(*result.suffix)),
                "a suffix behind an operand names what is contracted");

  Operand l{-1, "the left operand", left.name.empty(), left.span, {}},
      r{-1, "the right operand", right.name.empty(), right.span, {}};
  if (left.name.empty()) left.name = free_name("X");
  if ((l.tensor = operand(left)) < 0) return false;
  if (right.name.empty()) right.name = free_name("Y");
  if ((r.tensor = operand(right)) < 0) return false;
  l.axes = left.axes;
  r.axes = right.axes;
  if (!result.typed)
    return fail(
        result.span, fmt::format("the dimensions of the result '{}' are missing", result.name),
        fmt::format(
            "write {}[B, F], or put the types behind a colon: {} * {} -> {}: bf16[B, D], bf16[D, F] -> bf16[B, F]",
            result.name, left.name, right.name, result.name));
  Contraction c;
  if (!contract(l, r, result, c)) return false;
  if (left.suffix && !suffix_agrees(left, l, c)) return false;
  if (right.suffix && !suffix_agrees(right, r, c)) return false;
  if (result.name.empty()) result.name = free_name("Z");
  if ((c.result = write_result(result, {c.left, c.right})) < 0) return false;
  add_statement(std::move(c), first);
  return true;
}

// `X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]`: what stands behind the colon.
bool Parser::arrow_types(Mention& left, Mention& right, Mention& result) {
  for (Mention* m : {&left, &right, &result}) {
    if (m != &left && !expect(m == &right ? "," : "->",
                              m == &right ? "',' and the type of the right operand" : "'->' and the type of the result",
                              arrow_example))
      return false;
    if (m->typed)
      return fail(m->type_span, "the dimensions are given twice: here and behind the colon", "leave one of them out");
    if (!type(*m)) return false;
    if (m->span.line == 0) m->span = m->type_span;
  }
  return true;
}

// --- parts of a line

bool Parser::mention(Mention& out) {
  const Token first = peek();
  if (first.kind != TokenKind::name) return expected("a tensor", arrow_example);
  out.span = first.span;
  if (dtype_from(first.text)) return type(out);
  if (!tensor_name(first)) return false;
  take();
  out.name = std::string(first.text);
  return !peek().is("[") || type(out);
}

bool Parser::type(Mention& out) {
  out.type_span = peek().span;
  if (peek().kind == TokenKind::name) {
    out.dtype = dtype_from(peek().text);
    if (!out.dtype) {
      std::string known;
      for (const DTypeInfo& d : dtypes) known.append(known.empty() ? "" : " ").append(d.name);
      return fail(peek().span, fmt::format("expected a dtype, found {}", quoted(peek())), "one of " + known);
    }
    take();
  }
  out.typed = true;
  if (!peek().is("[")) return expected("'[' and the dimensions", "such as bf16[N, D]");
  if (!axes(out.axes)) return false;
  if (peek().kind == TokenKind::suffix) out.suffix = take();
  if (peek().is("{")) return expected("the end of the tensor");
  return true;
}

bool Parser::axes(std::vector<Axis>& out) {
  const Span bracket = take().span;
  if (peek().is("]")) return expected("a dimension", "a single number is bf16[1]");
  do {
    if (!axis(out)) return false;
    if (out.size() > max_axes)
      return fail(out.back().span, fmt::format("expected at most {} dimensions of one tensor", max_axes));
  } while (take(","));
  if (take("]")) return true;
  if (peek().is("*") || peek().is("+") || peek().is("-") || peek().is("/"))
    return expected("',' or ']'", "give the size a name: dims F = 4*D");
  if (at_end_of_line())
    return fail(bracket, fmt::format("expected ']' for this bracket, found {}", quoted(peek())),
                "close it on the same line");
  return expected("',' or ']'");
}

bool Parser::axis(std::vector<Axis>& out) {
  const Token token = peek();
  Axis a;
  a.span = token.span;
  if (token.kind == TokenKind::number) {
    if (!whole_number(a.literal, "a size")) return false;
    const bool twice = a.literal > 1 && std::find(out.begin(), out.end(), a) != out.end();
    if (twice)
      return fail(token.span, fmt::format("the size {} stands twice in one tensor", a.literal),
                  "give one of them a name, so that the two can be told apart");
  } else if (token.kind == TokenKind::name) {
    if (!dim_name(token)) return false;
    take();
    a.dim = std::string(token.text);
    if (std::find(out.begin(), out.end(), a) != out.end())
      return fail(token.span, fmt::format("dimension '{}' stands twice in one tensor", a.dim),
                  fmt::format("give one of them another name, such as {}2", a.dim));
    if (!dim(a.dim, token.span)) return false;
  } else {
    return expected("a dimension", token.is("-") ? "a size is at least 1" : "a name such as B, or a size such as 128");
  }
  out.push_back(std::move(a));
  return true;
}

bool Parser::tensor_name(const Token& token) {
  if (!reserved(token.text)) return true;
  return fail(token.span,
              fmt::format("expected the name of a tensor, found {}, which the notation uses itself", quoted(token)),
              "use another name, such as x");
}

// --- what the lines build

int Parser::declare(const Mention& m, DType dtype, bool declared) {
  const int index = static_cast<int>(program_.tensors.size());
  tensor_index_.emplace(m.name, index);
  program_.tensors.push_back({.name = m.name, .dtype = dtype, .declared = declared, .axes = m.axes, .span = m.span});
  return index;
}

// The tensor that an arrow reads: one that exists, or a new input. Fills in the axes that the arrow does not repeat.
int Parser::operand(Mention& m) {
  const auto found = tensor_index_.find(m.name);
  if (found == tensor_index_.end()) {
    if (m.typed) return declare(m, m.dtype.value_or(options_.dtype), true);
    fail(
        m.span, fmt::format("the dimensions of '{}' are missing", m.name),
        fmt::format("write {}[B, D], or put the types behind a colon: X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]",
                    m.name));
    return -1;
  }
  const Tensor& known = program_.tensors[static_cast<std::size_t>(found->second)];
  if (m.typed && (m.axes != known.axes || m.dtype.value_or(known.dtype) != known.dtype)) {
    fail(m.type_span, fmt::format("tensor '{}' is {}{} already", m.name, name(known.dtype), text(known.axes)),
         "repeat it as it is, write its name alone, or use another name");
    return -1;
  }
  if (!m.typed) {
    m.axes = known.axes;
    for (Axis& a : m.axes) a.span = m.span;
  }
  return found->second;
}

// The tensor that a statement writes. One that names no dtype has its operands' widest.
int Parser::write_result(const Mention& m, const std::vector<int>& operands) {
  if (tensor_index_.contains(m.name)) {
    fail(m.span, fmt::format("tensor '{}' is there already; a tensor is written once", m.name),
         "use another name; an output is declared where it is written: y: bf16[N, F] = …");
    return -1;
  }
  DType widest = program_.tensors[static_cast<std::size_t>(operands.front())].dtype;
  for (const int o : operands) widest = wider(widest, program_.tensors[static_cast<std::size_t>(o)].dtype);
  return declare(m, m.dtype.value_or(widest), m.dtype.has_value());
}

// X, Y, Z for what has no name; X2, X3 where they are taken.
std::string Parser::free_name(const std::string& wanted) const {
  std::string name = wanted;
  for (int i = 2; tensor_index_.contains(name) || words_.contains(name); ++i) name = wanted + std::to_string(i);
  return name;
}

void Parser::add_statement(std::variant<Contraction, Pointwise> op, std::size_t first) {
  const Token &from = tokens_[first], &to = tokens_[next_ - 1];
  const auto length = static_cast<std::size_t>(to.text.data() + to.text.size() - from.text.data());
  const std::string_view written(from.text.data(), length);
  program_.statements.push_back({.op = std::move(op),
                                 .text = std::string(written),
                                 .span = {from.span.line, from.span.column, static_cast<int>(length)}});
}

void Parser::set_roles() {
  std::vector<bool> read(program_.tensors.size());
  for (const Statement& s : program_.statements) {
    if (const auto* c = std::get_if<Contraction>(&s.op)) {
      read[static_cast<std::size_t>(c->left)] = read[static_cast<std::size_t>(c->right)] = true;
    } else {
      for (const Node& n : std::get<Pointwise>(s.op).nodes)
        if (n.kind == Node::Kind::tensor) read[static_cast<std::size_t>(n.tensor)] = true;
    }
  }
  for (const Statement& s : program_.statements) {
    const auto i = static_cast<std::size_t>(s.result());
    program_.tensors[i].role = !read[i] || program_.tensors[i].declared ? Role::output : Role::intermediate;
  }
}

}  // namespace notation
}  // namespace ridge

// The lines of a program. Each is a list of dimensions, a declaration, a definition or an arrow:
//   dims N = 32768, D = 8192     x: bf16[N, D]     u[N, F] = x * up     bf16[B, D] * bf16[D, F] -> bf16[B, F]
// A definition whose right side is a product of two tensors and nothing else is a contraction, any other is pointwise.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/program/parser.h"

namespace ridge::notation {

bool Parser::item() {
  const Token& first = peek();
  if (first.kind == TokenKind::string) return einsum();
  if (first.kind != TokenKind::name)
    return expected("a declaration or a statement",
                    "such as x: bf16[N, D], u[N, F] = x * w, or bf16[B, D] * bf16[D, F] -> bf16[B, F]");
  if (first.text == "dims" && !peek(1).is(":") && !peek(1).is("[")) return dims();
  if (first.text == "mesh" && !peek(1).is(":") && !peek(1).is("[")) return mesh();
  if (dtype_from(first.text) || peek(1).is("*")) return arrow();
  return declaration_or_definition();
}

bool Parser::declaration_or_definition() {
  const std::size_t first = next_;
  Mention m;
  m.name = std::string(peek().text);
  m.span = peek().span;
  m.may_stack = true;
  if (!tensor_name(peek())) return false;
  take();
  if (take(":")) {
    if (!type(m) || !no_suffix(m)) return false;
  } else if (peek().is("[")) {
    m.type_span = peek().span;
    m.typed = true;
    if (!axes(m)) return false;
    if (peek().is("{") && !partial(m)) return false;
    if (m.rows) return stack(m);
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
  if (m.rows) return stack(m);
  if (take("=")) return cut_ahead() ? part(m) : definition(m, first);
  if (tensor_index_.contains(m.name) || stack_named(m.name))
    return fail(m.span, fmt::format("tensor '{}' is declared twice", m.name), "use another name");
  declare(m, m.dtype.value_or(options_.dtype), true);
  const bool more = peek().kind == TokenKind::name;
  return more || at_end_of_line() || expected("'=', another declaration or the end of the line");
}

bool Parser::definition(const Mention& result, std::size_t first) {
  if (!sizes_differ(result)) return false;
  sizes_repeat_ = false;
  if (peek().kind == TokenKind::name && find_word(peek().text)) return routine(result, first);
  nodes_.clear();
  node_spans_.clear();
  if (expression(0) < 0) return false;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].kind == Node::Kind::tensor && !repeats(nodes_[i].tensor, node_spans_[i])) return false;
  if (!at_end_of_line()) return expected("an operator or the end of the line", "a statement ends its line");
  const bool product_of_two = nodes_.size() == 3 && nodes_[0].kind == Node::Kind::tensor &&
                              nodes_[1].kind == Node::Kind::tensor && nodes_[2].function == Function::multiply;
  if (is_chain(result)) {
    std::vector<Operand> factors;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].kind == Node::Kind::tensor) factors.push_back(operand(i));
    return chain(factors, result);
  }
  if (product_of_two || summed_product(result)) {
    Contraction c;
    if (!contract(operand(0), operand(1), result, c)) return false;
    if ((c.result = write_result(result, {c.left, c.right})) < 0) return false;
    add_statement(std::move(c), first);
    return true;
  }
  if (!verify(result)) return false;
  Expression p;
  std::vector<int> operands;
  for (const Node& n : nodes_)
    if (n.kind == Node::Kind::tensor) operands.push_back(n.tensor);
  if ((p.result = write_result(result, operands)) < 0) return false;
  p.nodes = std::move(nodes_);
  add_statement(std::move(p), first);
  return true;
}

// A tensor of the expression, as an operand whose dimensions are pointed at where it is named.
Operand Parser::operand(std::size_t node) const {
  const Tensor& t = program_.tensors[static_cast<std::size_t>(nodes_[node].tensor)];
  Operand o{nodes_[node].tensor, fmt::format("'{}'", t.name), false, node_spans_[node], t.axes};
  for (Axis& a : o.axes) a.span = o.span;
  return o;
}

static constexpr const char* arrow_example = "such as bf16[B, D] * bf16[D, F] -> bf16[B, F]";

bool Parser::arrow() {
  const std::size_t first = next_;
  Mention left, right, result;
  if (!mention(left)) return false;
  if (!take("*"))
    return expected("'*' behind the left operand", "an arrow states a product; others are written y: bf16[N] = a + b");
  if (!mention(right)) return false;
  if (peek().is("*")) {
    std::vector<Mention> factors{left, right};
    return arrow_chain(factors, result);
  }
  const bool named = take("->");
  if (named && !mention(result)) return false;
  if (take(":")) {
    if (!arrow_types(left, right, result)) return false;
  } else if (!named && !at_end_of_line()) {
    return expected("'->' and the result", arrow_example);
  }
  left_out_ = !named && !result.typed;
  if (!at_end_of_line()) return expected("the end of the line", "a statement ends its line");
  return no_suffix(result) && state_product(left, right, result, first);
}

// A[M, K] * B[K, N] * C[N, P] -> D[M, P]
bool Parser::arrow_chain(std::vector<Mention>& factors, Mention& result) {
  while (take("*")) {
    factors.emplace_back();
    if (!mention(factors.back())) return false;
  }
  if (!expect("->", "'*' or '->' and the result", arrow_example) || !mention(result)) return false;
  if (!at_end_of_line()) return expected("the end of the line", "a statement ends its line");
  std::vector<Operand> operands;
  for (Mention& m : factors) {
    if (!no_suffix(m)) return false;
    const bool unnamed = m.name.empty();
    if (unnamed) m.name = free_name(operands.empty() ? "X" : operands.size() == 1 ? "Y" : "W");
    const int tensor = operand(m);
    if (tensor < 0) return false;
    if (!whole_operand(tensor, m.span)) return false;
    operands.push_back({tensor, fmt::format("'{}'", m.name), unnamed, m.span, m.axes});
  }
  if (!no_suffix(result)) return false;
  if (!result.typed)
    return fail(result.span, fmt::format("the dimensions of the result '{}' are missing", result.name),
                fmt::format("write {}[A, D]", result.name));
  if (result.name.empty()) result.name = free_name("Z");
  return sizes_differ(result) && chain(operands, result);
}

bool Parser::no_suffix(const Mention& m) {
  if (!m.suffix) return true;
  return fail(m.suffix->span, fmt::format("expected no suffix here, found {}", quoted(*m.suffix)),
              "behind an operand of an arrow it names what is contracted: int8[B, D]_D");
}

bool Parser::state_product(Mention& left, Mention& right, Mention& result, std::size_t first) {
  Operand l{-1, "the left operand", left.name.empty(), left.span, {}};
  Operand r{-1, "the right operand", right.name.empty(), right.span, {}};
  if (left.name.empty()) left.name = free_name("X");
  if ((l.tensor = operand(left)) < 0) return false;
  if (right.name.empty()) right.name = free_name("Y");
  if ((r.tensor = operand(right)) < 0) return false;
  l.axes = left.axes;
  r.axes = right.axes;
  if (left_out_ && !leave_out(left, right, result)) return false;
  if (!result.typed)
    return fail(result.span, fmt::format("the dimensions of the result '{}' are missing", result.name),
                fmt::format("write {}[B, F], or put the types behind a colon: {} * {} -> {}: bf16[B, D], bf16[D, F] -> "
                            "bf16[B, F]",
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

static std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// bf61, BF16, uint8: nobody names a tensor so, and counting it as one of the default dtype would be silently wrong.
static bool looks_like_dtype(std::string_view text) {
  const std::string word = lower(text);
  if (dtype_from(word)) return true;
  for (std::string_view prefix : {"bfloat", "float", "uint", "int", "bf", "fp"})
    if (word.starts_with(prefix))
      return word.size() > prefix.size() && word.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
  return false;
}

bool Parser::mention(Mention& out) {
  const Token first = peek();
  if (first.kind != TokenKind::name) return expected("a tensor", arrow_example);
  out.span = first.span;
  if (dtype_from(first.text)) return type(out);
  if (looks_like_dtype(first.text) && peek(1).is("[")) return type(out);  // says what was expected
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
      std::vector<std::string> known;
      for (const DTypeInfo& d : dtypes) known.emplace_back(d.name);
      const auto exact = dtype_from(lower(peek().text));
      const std::string meant = exact ? std::string(name(*exact)) : suggestion(peek().text, known);
      return fail(
          peek().span, fmt::format("expected a dtype, found {}", quoted(peek())),
          meant.empty() ? fmt::format("one of {}", fmt::join(known, " ")) : fmt::format("did you mean '{}'?", meant));
    }
    take();
  }
  out.typed = true;
  if (!peek().is("[")) return expected("'[' and the dimensions", "such as bf16[N, D]");
  if (!axes(out)) return false;
  if (peek().kind == TokenKind::suffix) out.suffix = take();
  return !peek().is("{") || partial(out);
}

bool Parser::axes(Mention& m) {
  std::vector<Axis>& out = m.axes;
  const Token bracket = take();
  if (peek().is("]")) return expected("a dimension", "a single number is bf16[1]");
  sizes_repeat_ = windows_.contains(m.name);
  if (m.may_stack && computed_size()) {
    Extent rows;
    if (!extent(rows, 0)) return false;
    m.rows = std::move(rows.value);
    if (!take(",")) return close(bracket, "]", "an operator, ',' or ']'");
  }
  do {
    if (!axis(out)) return false;
    if (out.size() > max_axes)
      return fail(out.back().span, fmt::format("expected at most {} dimensions of one tensor", max_axes));
  } while (take(","));
  if (peek().is("*") || peek().is("+") || peek().is("-") || peek().is("/"))
    return expected("',' or ']'", "close the bracket; a computed size has a name: dims F = 4*D");
  return close(bracket, "]", "',' or ']'");
}

bool Parser::axis(std::vector<Axis>& out) {
  const Token token = peek();
  Axis a;
  a.span = token.span;
  if (token.kind == TokenKind::number) {
    if (!whole_number(a.literal, "a size")) return false;
    const bool twice = a.literal > 1 && std::find(out.begin(), out.end(), a) != out.end();
    if (twice && !sizes_repeat_) return size_twice(a);
  } else if (token.kind == TokenKind::name) {
    a.dim = std::string(token.text);
    if (!mesh_of(token.text).empty() ? !sharded_name(token, a, out) : !dim_name(token)) return false;
    take();
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

bool Parser::size_twice(const Axis& axis) {
  return fail(axis.span, fmt::format("the size {} stands twice in one tensor", axis.literal),
              "give one of them a name, so that the two can be told apart");
}

// Of what conv takes as its weights elsewhere.
bool Parser::sizes_differ(const Mention& m) {
  for (auto a = m.axes.begin(); a != m.axes.end(); ++a)
    if (a->literal > 1 && std::find(m.axes.begin(), a, *a) != a) return size_twice(*a);
  return true;
}

bool Parser::tensor_name(const Token& token) {
  if (!reserved(token.text)) return true;
  return fail(token.span,
              fmt::format("expected the name of a tensor, found {}, which the notation uses itself", quoted(token)),
              "use another name, such as x");
}

}  // namespace ridge::notation

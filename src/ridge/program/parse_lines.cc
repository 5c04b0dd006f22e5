// Parses the lines of a program. Each is a list of dimensions, a declaration, a definition or an arrow product:
//   dims N = 32768, D = 8192     x: bf16[N, D]     u[N, F] = x * up     bf16[B, D] * bf16[D, F] -> bf16[B, F]
// A definition whose right side is exactly a product of two tensors is a contraction; all others are expressions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/program/parser.h"

namespace ridge::program {

bool Parser::parse_item() {
  const Token& first = peek();
  if (first.kind == TokenKind::string) return parse_einsum();
  if (first.kind != TokenKind::name)
    return report_expected("a declaration or a statement",
                           "such as x: bf16[N, D], u[N, F] = x * w, or bf16[B, D] * bf16[D, F] -> bf16[B, F]");
  if (first.text == "dims" && !peek(1).is_symbol(":") && !peek(1).is_symbol("[")) return parse_dims();
  if (first.text == "mesh" && !peek(1).is_symbol(":") && !peek(1).is_symbol("[")) return parse_mesh();
  const std::size_t word = is_input_use_ahead() ? 1 : 0;
  if (parse_dtype(peek(word).text) || peek(word + 1).is_symbol("*")) return parse_arrow_product();
  return parse_declaration_or_definition();
}

bool Parser::parse_declaration_or_definition() {
  const std::size_t first_token = next_;
  TensorRef m;
  m.use = accept_input_use();
  m.name = std::string(peek().text);
  m.span = peek().span;
  m.may_have_computed_size = true;
  if (!check_tensor_name(peek())) return false;
  consume_token();
  if (accept_symbol(":")) {
    if (!parse_type(m) || !check_no_suffix(m)) return false;
  } else if (peek().is_symbol("[")) {
    m.type_span = peek().span;
    m.has_axes = true;
    if (!parse_axes(m)) return false;
    if (peek().is_symbol("{") && !parse_partial_sums(m)) return false;
    if (m.leading_size) return declare_stacked_input(m);
    if (peek().is_symbol("*") || peek().kind == TokenKind::suffix) {
      next_ = first_token;
      return parse_arrow_product();
    }
  } else if (peek().is_symbol("=")) {
    return report_expected("'[' or ':' and the dimensions of the result",
                           fmt::format("write {}[N, F] = …, or {}: bf16[N, F] = …", m.name, m.name));
  } else {
    return report_expected(fmt::format("':', '[' or '*' after {}", quote_word(m.name)),
                           "a tensor is declared x: bf16[N, D]");
  }
  if (m.leading_size) return declare_stacked_input(m);
  const std::optional<Token> replaced = accept_replaced();
  if (replaced) return parse_replacement(m, *replaced, first_token);
  if (accept_symbol("=")) return is_slice_ahead() ? parse_stack_part(m) : parse_definition(m, first_token);
  if (tensor_index_.contains(m.name) || find_stack(m.name))
    return report_error(m.span, fmt::format("tensor '{}' is declared twice", m.name), "use another name");
  declare_tensor(m, m.dtype.value_or(options_.dtype), true);
  const bool more = peek().kind == TokenKind::name;
  return more || is_at_end_of_line() || report_expected("'=', another declaration or the end of the line");
}

bool Parser::parse_definition(const TensorRef& result, std::size_t first_token) {
  if (peek().kind == TokenKind::name && find_routine(peek().text)) return parse_routine(result, first_token);
  nodes_.clear();
  node_spans_.clear();
  if (parse_expression(0) < 0) return false;
  if (!check_repeated_sizes(result) || !check_factor_sizes()) return false;
  if (!is_at_end_of_line()) return report_expected("an operator or the end of the line", "a statement ends its line");
  const bool product_of_two = nodes_.size() == 3 && nodes_[0].kind == Node::Kind::tensor &&
                              nodes_[1].kind == Node::Kind::tensor && nodes_[2].function == Function::multiply;
  if (is_product_chain(result)) {
    std::vector<ParsedOperand> factors;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].kind != Node::Kind::tensor) continue;
      if (!check_tensor_sizes_differ(nodes_[i].tensor, node_spans_[i])) return false;
      factors.push_back(operand_at_node(i));
    }
    return add_chain(factors, result);
  }
  if (product_of_two || is_summed_product(result)) {
    Contraction c;
    if (!make_contraction(operand_at_node(0), operand_at_node(1), result, c)) return false;
    if ((c.result = declare_result(result, {c.left, c.right}, ResultKind::product)) < 0) return false;
    add_statement(std::move(c), first_token);
    return true;
  }
  if (!check_expression(result)) return false;
  Expression p;
  std::vector<int> operands;
  for (const Node& n : nodes_)
    if (n.kind == Node::Kind::tensor) operands.push_back(n.tensor);
  if ((p.result = declare_result(result, operands)) < 0) return false;
  p.nodes = std::move(nodes_);
  add_statement(std::move(p), first_token);
  return true;
}

// Returns a tensor node as an operand whose axes have the position of its name.
ParsedOperand Parser::operand_at_node(std::size_t node) const {
  const Tensor& t = program_.tensors[nodes_[node].tensor];
  ParsedOperand o{nodes_[node].tensor, fmt::format("'{}'", t.name), false, node_spans_[node], t.axes};
  for (Axis& a : o.axes) a.span = o.span;
  return o;
}

static constexpr const char* arrow_example = "such as bf16[B, D] * bf16[D, F] -> bf16[B, F]";

bool Parser::parse_arrow_product() {
  const std::size_t first_token = next_;
  TensorRef left, right, result;
  if (!parse_tensor_ref(left)) return false;
  if (!accept_symbol("*"))
    return report_expected("'*' after the left operand",
                           "an arrow is a product; other expressions are written y: bf16[N] = a + b");
  if (!parse_tensor_ref(right)) return false;
  if (peek().is_symbol("*")) {
    std::vector<TensorRef> factors{left, right};
    return parse_arrow_chain(factors, result);
  }
  const bool named = accept_symbol("->");
  if (named && !parse_tensor_ref(result)) return false;
  if (accept_symbol(":")) {
    if (!parse_arrow_types(left, right, result)) return false;
  } else if (!named && !is_at_end_of_line()) {
    return report_expected("'->' and the result", arrow_example);
  }
  infers_result_ = !named && !result.has_axes;
  if (!is_at_end_of_line()) return report_expected("the end of the line", "a statement ends its line");
  return check_no_suffix(result) && add_arrow_product(left, right, result, first_token);
}

// Parses A[M, K] * B[K, N] * C[N, P] -> D[M, P].
bool Parser::parse_arrow_chain(std::vector<TensorRef>& factors, TensorRef& result) {
  while (accept_symbol("*")) {
    factors.emplace_back();
    if (!parse_tensor_ref(factors.back())) return false;
  }
  if (!expect_symbol("->", "'*' or '->' and the result", arrow_example) || !parse_tensor_ref(result)) return false;
  if (!is_at_end_of_line()) return report_expected("the end of the line", "a statement ends its line");
  std::vector<ParsedOperand> operands;
  for (TensorRef& m : factors) {
    if (!check_no_suffix(m)) return false;
    const bool unnamed = m.name.empty();
    if (unnamed) m.name = unused_name(operands.empty() ? "X" : operands.size() == 1 ? "Y" : "W");
    const int tensor = resolve_operand(m);
    if (tensor < 0) return false;
    if (!check_no_partial_sums(tensor, m.span)) return false;
    operands.push_back({tensor, fmt::format("'{}'", m.name), unnamed, m.span, m.axes});
  }
  if (!check_no_suffix(result)) return false;
  if (!result.has_axes)
    return report_error(result.span, fmt::format("the dimensions of the result '{}' are missing", result.name),
                        fmt::format("write {}[A, D]", result.name));
  if (result.name.empty()) result.name = unused_name("Z");
  return check_ref_sizes_differ(result) && add_chain(operands, result);
}

bool Parser::check_no_suffix(const TensorRef& m) {
  if (!m.suffix) return true;
  return report_error(m.suffix->span, fmt::format("expected no suffix here, found {}", quote_token(*m.suffix)),
                      "after an operand of an arrow product it names the contracted dimensions: int8[B, D]_D");
}

bool Parser::add_arrow_product(TensorRef& left, TensorRef& right, TensorRef& result, std::size_t first_token) {
  ParsedOperand l{-1, "the left operand", left.name.empty(), left.span, {}};
  ParsedOperand r{-1, "the right operand", right.name.empty(), right.span, {}};
  if (left.name.empty()) left.name = unused_name("X");
  if ((l.tensor = resolve_operand(left)) < 0) return false;
  if (right.name.empty()) right.name = unused_name("Y");
  if ((r.tensor = resolve_operand(right)) < 0) return false;
  l.axes = left.axes;
  r.axes = right.axes;
  if (infers_result_ && !infer_result_axes(left, right, result)) return false;
  if (!result.has_axes)
    return report_error(
        result.span, fmt::format("the dimensions of the result '{}' are missing", result.name),
        fmt::format("write {}[B, F], or put the types after a colon: {} * {} -> {}: bf16[B, D], bf16[D, F] -> "
                    "bf16[B, F]",
                    result.name, left.name, right.name, result.name));
  Contraction c;
  if (!check_ref_sizes_differ(result) || !make_contraction(l, r, result, c)) return false;
  if (left.suffix && !check_suffix(left, l, c)) return false;
  if (right.suffix && !check_suffix(right, r, c)) return false;
  if (result.name.empty()) result.name = unused_name("Z");
  if ((c.result = declare_result(result, {c.left, c.right}, ResultKind::product)) < 0) return false;
  add_statement(std::move(c), first_token);
  return true;
}

// Parses the types after the colon of `X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]`.
bool Parser::parse_arrow_types(TensorRef& left, TensorRef& right, TensorRef& result) {
  for (TensorRef* m : {&left, &right, &result}) {
    if (m != &left &&
        !expect_symbol(m == &right ? "," : "->",
                       m == &right ? "',' and the type of the right operand" : "'->' and the type of the result",
                       arrow_example))
      return false;
    if (m->has_axes)
      return report_error(m->type_span, "the dimensions are given twice: here and after the colon",
                          "leave one of them out");
    if (!parse_type(*m)) return false;
    if (m->span.line == 0) m->span = m->type_span;
  }
  return true;
}

// --- parts of a line

// True for bf61, BF16 or uint8. Such a name is a mistyped dtype; a tensor of that name would get the default dtype.
static bool looks_like_dtype(std::string_view text) {
  const std::string word = to_lower_case(text);
  if (parse_dtype(word)) return true;
  for (std::string_view prefix : {"bfloat", "float", "uint", "int", "bf", "fp"})
    if (word.starts_with(prefix))
      return word.size() > prefix.size() && word.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
  return false;
}

bool Parser::parse_tensor_ref(TensorRef& out) {
  out.use = accept_input_use();
  const Token first = peek();
  if (first.kind != TokenKind::name) return report_expected("a tensor", arrow_example);
  out.span = first.span;
  if (parse_dtype(first.text)) return parse_type(out);
  if (looks_like_dtype(first.text) && peek(1).is_symbol("[")) return parse_type(out);  // reports the expected dtypes
  if (!check_tensor_name(first)) return false;
  consume_token();
  out.name = std::string(first.text);
  return !peek().is_symbol("[") || parse_type(out);
}

bool Parser::parse_type(TensorRef& out) {
  out.type_span = peek().span;
  if (peek().kind == TokenKind::name) {
    out.dtype = parse_dtype(peek().text);
    if (!out.dtype) {
      std::vector<std::string> known;
      for (const DTypeInfo& d : dtypes) known.emplace_back(d.name);
      if (peek().text == "u4")
        return report_error(peek().span, "expected a dtype, found 'u4', which needs a block",
                            "u4_32, u4_64 and u4_128 share a scale and a zero point among 32, 64 or 128 elements");
      const auto exact = parse_dtype(to_lower_case(peek().text));
      const std::string suggestion = exact ? std::string(dtype_name(*exact)) : suggest_name(peek().text, known);
      return report_error(peek().span, fmt::format("expected a dtype, found {}", quote_token(peek())),
                          suggestion.empty() ? fmt::format("one of {}", fmt::join(known, " "))
                                             : fmt::format("did you mean '{}'?", suggestion));
    }
    consume_token();
  }
  out.has_axes = true;
  if (!peek().is_symbol("[")) return report_expected("'[' and the dimensions", "such as bf16[N, D]");
  if (!parse_axes(out)) return false;
  if (peek().kind == TokenKind::suffix) out.suffix = consume_token();
  return !peek().is_symbol("{") || parse_partial_sums(out);
}

bool Parser::parse_axes(TensorRef& m) {
  std::vector<Axis>& out = m.axes;
  const Token bracket = consume_token();
  if (peek().is_symbol("]")) return report_expected("a dimension", "a single number is bf16[1]");
  if (m.may_have_computed_size && has_computed_size()) {
    ExtentExpression rows;
    if (!parse_extent(rows, 0)) return false;
    m.leading_size = std::move(rows.value);
    if (!accept_symbol(",")) return close_bracket(bracket, "]", "an operator, ',' or ']'");
  }
  do {
    if (!parse_axis(out)) return false;
    if (out.size() > max_axes)
      return report_error(out.back().span, fmt::format("expected at most {} dimensions of one tensor", max_axes));
  } while (accept_symbol(","));
  if (peek().is_symbol("*") || peek().is_symbol("+") || peek().is_symbol("-") || peek().is_symbol("/"))
    return report_expected("',' or ']'", "close the bracket; a computed size has a name: dims F = 4*D");
  return close_bracket(bracket, "]", "',' or ']'");
}

bool Parser::parse_axis(std::vector<Axis>& out) {
  const Token token = peek();
  Axis a;
  a.span = token.span;
  if (token.kind == TokenKind::number) {
    if (!parse_positive_integer(a.literal, "a size")) return false;
    for (const Axis& before : out) a.repetition += a.literal > 1 && before.has_same_size(a);
  } else if (token.kind == TokenKind::name) {
    a.dim = std::string(token.text);
    if (!mesh_suffix(token.text).empty() ? !parse_sharded_axis(token, a, out) : !check_dim_name(token)) return false;
    consume_token();
    if (contains(out, a))
      return report_error(token.span, fmt::format("dimension '{}' appears twice in one tensor", a.dim),
                          fmt::format("give one of them another name, such as {}2", a.dim));
    if (!find_or_add_dim(a.dim, token.span)) return false;
  } else {
    return report_expected("a dimension",
                           token.is_symbol("-") ? "a size is at least 1" : "a name such as B, or a size such as 128");
  }
  out.push_back(std::move(a));
  return true;
}

bool Parser::check_tensor_name(const Token& token) {
  if (!is_reserved(token.text)) return true;
  return report_error(
      token.span, fmt::format("expected the name of a tensor, found {}, which is a reserved word", quote_token(token)),
      "use another name, such as x");
}

}  // namespace ridge::program

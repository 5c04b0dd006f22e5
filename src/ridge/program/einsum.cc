// Parses einsum strings such as 'bshd,bthd->bsht'. Each letter is a dimension; the operands are inputs X, Y, … of the
// default dtype, the result is Z.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "ridge/base/contains.h"
#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

constexpr const char* einsum_example = "such as 'bshd,bthd->bsht'";

}  // namespace

// Returns the position of one character of the string.
TextSpan Parser::span_inside(const Token& string, std::size_t at) {
  return {string.span.line, string.span.column + static_cast<int>(at), 1};
}

// Parses the letters from `at`; sets `at` to the first other character.
bool Parser::parse_einsum_axes(const Token& string, std::size_t& at, std::vector<Axis>& out) {
  const std::string_view text = string.text;
  for (; at < text.size() && (is_letter(text[at]) || text[at] == ' '); ++at) {
    if (text[at] == ' ') continue;
    Axis a{.dim = std::string(1, text[at]), .span = span_inside(string, at)};
    if (contains(out, a))
      return report_error(a.span, fmt::format("dimension '{}' appears twice in one tensor", a.dim),
                          "diagonals are not supported");
    if (out.size() == max_axes)
      return report_error(a.span, fmt::format("expected at most {} dimensions of one tensor", max_axes));
    if (!find_or_add_dim(a.dim, a.span)) return false;
    out.push_back(std::move(a));
  }
  return true;
}

bool Parser::parse_einsum() {
  const std::size_t first_token = next_;
  const Token string = consume_token();
  const std::string_view text = string.text;
  std::vector<ParsedOperand> factors;
  TensorRef result;
  std::size_t at = 1;
  const auto stops = [&](std::string_view sign) { return text.substr(at).starts_with(sign); };
  do {
    if (!factors.empty()) ++at;
    TensorRef m;
    if (!parse_einsum_axes(string, at, m.axes)) return false;
    if (m.axes.empty())
      return report_error(span_inside(string, at), "expected the letters of an operand in an einsum string",
                          einsum_example);
    m.name = unused_name(factors.empty() ? "X" : factors.size() == 1 ? "Y" : "W");
    m.span = m.axes.front().span;
    const int tensor = declare_tensor(m, options_.dtype, true);
    factors.push_back({tensor, fmt::format("'{}'", m.name), true, m.span, m.axes});
  } while (stops(","));
  if (!stops("->"))
    return report_error(
        span_inside(string, at),
        fmt::format("expected a letter, ',' or '->' in an einsum string, found {}", quote_word(text.substr(at, 1))),
        stops(".") ? "every dimension has a letter of its own" : einsum_example);
  at += 2;
  if (!parse_einsum_axes(string, at, result.axes)) return false;
  if (at + 1 != text.size())
    return report_error(
        span_inside(string, at),
        fmt::format("expected a letter or the end of the einsum string, found {}", quote_word(text.substr(at, 1))),
        einsum_example);
  if (!is_at_end_of_line()) return report_expected("the end of the line", "an einsum string is a statement of its own");
  if (result.axes.empty()) result.axes.push_back({.dim = {}, .literal = 1, .span = string.span});
  result.name = unused_name("Z");
  result.span = string.span;
  return factors.size() == 1 ? add_einsum_of_one_operand(factors[0], result, first_token)
                             : add_einsum_product(factors, result, first_token);
}

bool Parser::add_einsum_product(const std::vector<ParsedOperand>& factors, const TensorRef& result,
                                std::size_t first_token) {
  if (factors.size() > 2) return add_chain(factors, result);
  Contraction c;
  if (!make_contraction(factors[0], factors[1], result, c)) return false;
  if ((c.result = declare_result(result, {c.left, c.right}, ResultKind::product)) < 0) return false;
  add_statement(std::move(c), first_token);
  return true;
}

// Adds a copy for 'ij->ji', a sum for 'ij->i'.
bool Parser::add_einsum_of_one_operand(const ParsedOperand& x, const TensorRef& result, std::size_t first_token) {
  nodes_.clear();
  node_spans_.clear();
  add_node({.kind = Node::Kind::tensor, .tensor = x.tensor}, x.span);
  std::vector<Axis> over;
  for (const Axis& a : x.axes)
    if (!contains(result.axes, a)) over.push_back(a);
  if (!over.empty())
    add_node({.kind = Node::Kind::along_dims, .function = Function::sum, .arguments = {0}, .over = std::move(over)},
             x.span);
  if (!check_expression(result)) return false;
  Expression e;
  if ((e.result = declare_result(result, {x.tensor})) < 0) return false;
  e.nodes = std::move(nodes_);
  add_statement(std::move(e), first_token);
  return true;
}

}  // namespace ridge::program

// An einsum string as a program, 'bshd,bthd->bsht': each letter is a dimension, each operand an input X, Y, … of the
// default dtype, the result Z.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "ridge/program/parser.h"

namespace ridge::notation {
namespace {

constexpr const char* example = "such as 'bshd,bthd->bsht'";

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

}  // namespace

// A place in the string: of one character.
Span Parser::inside(const Token& string, std::size_t at) {
  return {string.span.line, string.span.column + static_cast<int>(at), 1};
}

// The letters from `at` on; stops behind them.
bool Parser::einsum_axes(const Token& string, std::size_t& at, std::vector<Axis>& out) {
  const std::string_view text = string.text;
  for (; at < text.size() && (letter(text[at]) || text[at] == ' '); ++at) {
    if (text[at] == ' ') continue;
    Axis a{.dim = std::string(1, text[at]), .span = inside(string, at)};
    if (std::find(out.begin(), out.end(), a) != out.end())
      return fail(a.span, fmt::format("dimension '{}' stands twice in one tensor", a.dim),
                  "a diagonal has no words here");
    if (out.size() == max_axes)
      return fail(a.span, fmt::format("expected at most {} dimensions of one tensor", max_axes));
    if (!dim(a.dim, a.span)) return false;
    out.push_back(std::move(a));
  }
  return true;
}

bool Parser::einsum() {
  const std::size_t first = next_;
  const Token string = take();
  const std::string_view text = string.text;
  std::vector<Operand> factors;
  Mention result;
  std::size_t at = 1;
  const auto stops = [&](std::string_view sign) { return text.substr(at).starts_with(sign); };
  do {
    if (!factors.empty()) ++at;
    Mention m;
    if (!einsum_axes(string, at, m.axes)) return false;
    if (m.axes.empty())
      return fail(inside(string, at), "expected the letters of an operand in an einsum string", example);
    m.name = free_name(factors.empty() ? "X" : factors.size() == 1 ? "Y" : "W");
    m.span = m.axes.front().span;
    const int tensor = declare(m, options_.dtype, true);
    factors.push_back({tensor, fmt::format("'{}'", m.name), true, m.span, m.axes});
  } while (stops(","));
  if (!stops("->"))
    return fail(inside(string, at),
                fmt::format("expected a letter, ',' or '->' in an einsum string, found {}", quoted(text.substr(at, 1))),
                stops(".") ? "every dimension has a letter of its own" : example);
  at += 2;
  if (!einsum_axes(string, at, result.axes)) return false;
  if (at + 1 != text.size())
    return fail(inside(string, at),
                fmt::format("expected a letter or the end of the einsum string, found {}", quoted(text.substr(at, 1))),
                example);
  if (!at_end_of_line()) return expected("the end of the line", "an einsum string is a statement of its own");
  if (result.axes.empty()) result.axes.push_back({.dim = {}, .literal = 1, .span = string.span});
  result.name = free_name("Z");
  result.span = string.span;
  return factors.size() == 1 ? einsum_of_one(factors[0], result, first) : einsum_product(factors, result, first);
}

bool Parser::einsum_product(const std::vector<Operand>& factors, const Mention& result, std::size_t first) {
  if (factors.size() > 2) return chain(factors, result);
  Contraction c;
  if (!contract(factors[0], factors[1], result, c)) return false;
  if ((c.result = write_result(result, {c.left, c.right})) < 0) return false;
  add_statement(std::move(c), first);
  return true;
}

// 'ij->ji' copies, 'ij->i' sums.
bool Parser::einsum_of_one(const Operand& x, const Mention& result, std::size_t first) {
  nodes_.clear();
  node_spans_.clear();
  add_node({.kind = Node::Kind::tensor, .tensor = x.tensor}, x.span);
  std::vector<Axis> over;
  for (const Axis& a : x.axes)
    if (std::find(result.axes.begin(), result.axes.end(), a) == result.axes.end()) over.push_back(a);
  if (!over.empty())
    add_node({.kind = Node::Kind::along, .function = Function::sum, .arguments = {0}, .over = std::move(over)}, x.span);
  if (!verify(result)) return false;
  Expression e;
  if ((e.result = write_result(result, {x.tensor})) < 0) return false;
  e.nodes = std::move(nodes_);
  add_statement(std::move(e), first);
  return true;
}

}  // namespace ridge::notation

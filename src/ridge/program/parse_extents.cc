// Parses `dims N = 32768, D = 8192, F = 4*D`: sizes are polynomials of other dimensions with + - * / and parentheses.
// Coefficients must stay below 2^63 and polynomials small, since (a + b)*(a + b)*… of a malicious program would grow
// exponentially.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

constexpr double max_coefficient = 9.2e18;  // slightly below 2^63
constexpr std::size_t max_terms = 64;

}  // namespace

bool Parser::parse_dims() {
  // Dimensions declared on the line are added before those that appear only in sizes. A printed program declares all
  // dimensions, so this keeps their order.
  for (std::size_t i = next_; i < tokens_.size() && tokens_[i].kind != TokenKind::newline; ++i) {
    const bool declared = i + 1 < tokens_.size() && (i == next_ || tokens_[i].is_symbol(","));
    if (!declared || tokens_[i + 1].kind != TokenKind::name) continue;
    const Token& name = tokens_[i + 1];
    if (!check_dim_name(name) || !find_or_add_dim(std::string(name.text), name.span)) return false;
  }
  consume_token();
  do {
    const Token name = peek();
    if (name.kind != TokenKind::name)
      return report_expected("the name of a dimension", "such as dims N = 32768, F = 4*D");
    if (!check_dim_name(name)) return false;
    consume_token();
    const std::string key(name.text);
    if (!declared_dims_.insert(key).second)
      return report_error(name.span, fmt::format("dimension '{}' is declared twice", key), "leave one of them out");
    if (!find_or_add_dim(key, name.span)) return false;
    if (!accept_symbol("=")) continue;
    const Token first = peek();
    if (peek().is_symbol("(") && peek(1).kind == TokenKind::number && peek(2).is_symbol(",")) {
      if (!parse_lengths(key)) return false;
      continue;
    }
    ExtentExpression value;
    if (!parse_extent(value, 0)) return false;
    const std::optional<Rational> constant = value.value.as_constant();
    if (constant && *constant < Rational(1))
      return report_error(first.span,
                          fmt::format("dimension '{}' must be at least 1, found {}", key, constant->to_string()),
                          "give it a size of 1 or more");
    Dimension& d = program_.dims[dim_index_.at(key)];
    d.value = std::move(value.value);
    d.span = name.span;
  } while (accept_symbol(","));
  return is_at_end_of_line() || report_expected("',' or the end of the line", "declare tensors on separate lines");
}

// Parses the lengths of packed sequences: dims S = (700, 200, 124).
bool Parser::parse_lengths(const std::string& name) {
  const Token open = consume_token();
  std::vector<std::int64_t> found;
  std::int64_t sum = 0;
  do {
    const Token number = peek();
    std::int64_t length = 0;
    if (!parse_positive_integer(length, "the length of a sequence")) return false;
    if (__builtin_add_overflow(sum, length, &sum))
      return report_error(number.span, "expected lengths whose sum is below 2^63, found more", "use shorter ones");
    found.push_back(length);
  } while (accept_symbol(","));
  if (!close_bracket(open, ")", "',' or ')'")) return false;
  Dimension& d = program_.dims[dim_index_.at(name)];
  d.value = Polynomial(sum);
  d.lengths = std::move(found);
  d.span = open.span;
  return true;
}

bool Parser::check_dim_name(const Token& token) {
  if (const std::string_view mesh = mesh_suffix(token.text); !mesh.empty())
    return report_error(token.span, fmt::format("expected a dimension that is not split, found {}", quote_token(token)),
                        fmt::format("write {}; its sharding is written in the brackets of a tensor",
                                    token.text.substr(0, token.text.size() - mesh.size() - 1)));
  if (!parse_dtype(token.text) && token.text != "dims" && token.text != "mesh") return true;
  return report_error(
      token.span,
      fmt::format("expected the name of a dimension, found {}, which is a reserved word", quote_token(token)),
      "use another name, such as N");
}

// Returns the dimension with this name; adds it at its first use.
Dimension* Parser::find_or_add_dim(const std::string& name, TextSpan span) {
  const auto is = [&](const MeshAxis& axis) { return axis.name == name; };
  if (std::any_of(program_.mesh.begin(), program_.mesh.end(), is)) {
    report_error(span, fmt::format("'{}' is a mesh axis already; -d {}=4 could mean either", name, name),
                 "give the dimension another name");
    return nullptr;
  }
  const auto [found, made] = dim_index_.try_emplace(name, program_.dims.size());
  if (!made) return &program_.dims[found->second];
  if (program_.dims.size() == max_dims) {
    report_error(span, fmt::format("expected at most {} dimensions in a program", max_dims));
    return nullptr;
  }
  program_.dims.push_back({.name = name, .value = std::nullopt, .span = span});
  return &program_.dims.back();
}

// Parses a literal from 1 to 2^63 - 1. `what` names it in errors: "a size".
bool Parser::parse_positive_integer(std::int64_t& out, const std::string& what) {
  const Token token = peek();
  if (token.kind != TokenKind::number) return report_expected("a whole number");
  const char* end = token.text.data() + token.text.size();
  const auto [stop, status] = std::from_chars(token.text.data(), end, out);
  if (stop != end)
    return report_error(token.span, fmt::format("expected a whole number, found {}", quote_token(token)),
                        "write all its digits, without point and exponent");
  if (status == std::errc::result_out_of_range)
    return report_error(token.span, fmt::format("expected {} below 2^63, found {}", what, quote_token(token)),
                        "use a smaller one");
  if (out < 1)
    return report_error(token.span, fmt::format("{} must be at least 1, found {}", what, token.text), "use 1 or more");
  consume_token();
  return true;
}

bool Parser::parse_extent(ExtentExpression& out, int depth) {
  if (!parse_extent_product(out, depth)) return false;
  while (peek().is_symbol("+") || peek().is_symbol("-")) {
    const Token sign = consume_token();
    ExtentExpression right;
    if (!parse_extent_product(right, depth) || !combine_extents(out, right, sign)) return false;
  }
  return true;
}

bool Parser::parse_extent_product(ExtentExpression& out, int depth) {
  if (!parse_extent_factor(out, depth)) return false;
  while (peek().is_symbol("*") || peek().is_symbol("/")) {
    const Token sign = consume_token();
    ExtentExpression right;
    if (sign.is_symbol("/")) {
      if (!parse_extent_quotient(out)) return false;
    } else if (!parse_extent_factor(right, depth) || !combine_extents(out, right, sign)) {
      return false;
    }
  }
  return true;
}

// Parses /8 in H/8. `bind_sizes` checks that the quotient is a whole number.
bool Parser::parse_extent_quotient(ExtentExpression& out) {
  const Token number = peek();
  if (number.kind != TokenKind::number) return report_expected("a whole number after '/'", "such as G = H/8");
  std::int64_t divisor = 0;
  if (!parse_positive_integer(divisor, "the divisor of a size")) return false;
  out.value = out.value * Rational(1, divisor);
  if (out.value.is_exact()) return true;
  return report_error(number.span, "expected a quotient whose parts are below 2^63, found a larger one",
                      "use smaller numbers");
}

bool Parser::parse_extent_factor(ExtentExpression& out, int depth) {
  const Token token = peek();
  if (depth > max_nesting)
    return report_error(token.span, fmt::format("expected at most {} levels of parentheses", max_nesting),
                        "name a part of it");
  if (token.kind == TokenKind::name) {
    if (!check_dim_name(token)) return false;
    consume_token();
    if (!find_or_add_dim(std::string(token.text), token.span)) return false;
    out = {Polynomial::make_symbol(std::string(token.text)), 1};
    return true;
  }
  if (token.kind == TokenKind::number) {
    std::int64_t value = 0;
    if (token.text.find_first_not_of('0') == std::string_view::npos)
      consume_token();  // a term may be 0; the total size is checked later
    else if (!parse_positive_integer(value, "a size"))
      return false;
    out = {Polynomial(value), static_cast<double>(value)};
    return true;
  }
  if (accept_symbol("-")) {
    ExtentExpression right;
    if (!parse_extent_factor(right, depth + 1)) return false;
    out = {Polynomial(0) - right.value, right.bound};
    return true;
  }
  if (!accept_symbol("(")) return report_expected("a size", "such as 8192, 4*D or D + 1");
  if (!parse_extent(out, depth + 1)) return false;
  return close_bracket(token, ")", "an operator or ')'");
}

bool Parser::combine_extents(ExtentExpression& left, const ExtentExpression& right, const Token& sign) {
  const bool product = sign.is_symbol("*");
  const double bound = product ? left.bound * right.bound : left.bound + right.bound;
  if (bound > max_coefficient)
    return report_error(sign.span, "expected a size below 2^63, found a larger one", "use smaller numbers");
  const std::size_t x = left.value.terms().size(), y = right.value.terms().size();
  if ((product ? x * y : x + y) > max_terms)
    return report_error(sign.span, fmt::format("expected a size of at most {} terms", max_terms),
                        "give a part of it a name");
  left.value = product               ? left.value * right.value
               : sign.is_symbol("+") ? left.value + right.value
                                     : left.value - right.value;
  left.bound = bound;
  return true;
}

bool Parser::check_no_cycles() {
  std::vector<int> state(program_.dims.size());  // 0: not visited, 1: being visited, 2: without cycle
  for (std::size_t i = 0; i < state.size(); ++i)
    if (!check_no_cycle_from(i, state)) return false;
  return true;
}

bool Parser::check_no_cycle_from(std::size_t start, std::vector<int>& state) {
  if (state[start] == 2) return true;
  const Dimension& d = program_.dims[start];
  if (state[start] == 1)
    return report_error(d.span, fmt::format("the size of dimension '{}' depends on itself", d.name),
                        "give it a number");
  state[start] = 1;
  if (d.value)
    for (const std::string& symbol : d.value->symbols())
      if (!check_no_cycle_from(dim_index_.at(symbol), state)) return false;
  state[start] = 2;
  return true;
}

}  // namespace ridge::program

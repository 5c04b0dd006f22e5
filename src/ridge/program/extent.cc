// `dims N = 32768, D = 8192, F = 4*D`: sizes as polynomials of other dimensions, with + - * and parentheses. Their
// coefficients are exact, so they are kept below 2^63, and the polynomials small: (a + b)*(a + b)*… of a malicious
// text would otherwise grow without end.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ridge/base/text.h"
#include "ridge/program/parser.h"

namespace ridge::notation {
namespace {

constexpr double largest_coefficient = 9.2e18;  // a little below 2^63
constexpr std::size_t most_terms = 64;

}  // namespace

bool Parser::dims() {
  // Those that the line declares come before those that its sizes only mention, so that a printed program, which
  // declares them all, keeps their order.
  for (std::size_t i = next_; i < tokens_.size() && tokens_[i].kind != TokenKind::newline; ++i) {
    const bool declared = i + 1 < tokens_.size() && (i == next_ || tokens_[i].is(","));
    if (!declared || tokens_[i + 1].kind != TokenKind::name) continue;
    const Token& name = tokens_[i + 1];
    if (!dim_name(name) || !dim(std::string(name.text), name.span)) return false;
  }
  take();
  do {
    const Token name = peek();
    if (name.kind != TokenKind::name) return expected("the name of a dimension", "such as dims N = 32768, F = 4*D");
    if (!dim_name(name)) return false;
    take();
    const std::string key(name.text);
    if (!declared_dims_.insert(key).second)
      return fail(name.span, fmt::format("dimension '{}' is declared twice", key), "leave one of them out");
    if (!dim(key, name.span)) return false;
    if (!take("=")) continue;
    const Token first = peek();
    if (peek().is("(") && peek(1).kind == TokenKind::number && peek(2).is(",")) {
      if (!lengths(key)) return false;
      continue;
    }
    Extent value;
    if (!extent(value, 0)) return false;
    const std::optional<Rational> constant = value.value.constant();
    if (constant && *constant < Rational(1))
      return fail(first.span, fmt::format("dimension '{}' must be at least 1, found {}", key, constant->text()),
                  "give it a size of 1 or more");
    Dimension& d = program_.dims[dim_index_.at(key)];
    d.value = std::move(value.value);
    d.span = name.span;
  } while (take(","));
  return at_end_of_line() ||
         expected("',' or the end of the line", "declarations of tensors stand on lines of their own");
}

// dims S = (700, 200, 124): sequences one behind the other.
bool Parser::lengths(const std::string& name) {
  const Token open = take();
  std::vector<std::int64_t> found;
  std::int64_t all = 0;
  do {
    const Token number = peek();
    std::int64_t length = 0;
    if (!whole_number(length, "the length of a sequence")) return false;
    if (__builtin_add_overflow(all, length, &all))
      return fail(number.span, "expected lengths whose sum is below 2^63, found more", "use shorter ones");
    found.push_back(length);
  } while (take(","));
  if (!close(open, ")", "',' or ')'")) return false;
  Dimension& d = program_.dims[dim_index_.at(name)];
  d.value = Polynomial(all);
  d.lengths = std::move(found);
  d.span = open.span;
  return true;
}

bool Parser::dim_name(const Token& token) {
  if (const std::string_view mesh = mesh_of(token.text); !mesh.empty())
    return fail(token.span, fmt::format("expected a whole dimension, found {}, which is split", quoted(token)),
                fmt::format("write {}; how it is split stands in the brackets of a tensor",
                            token.text.substr(0, token.text.size() - mesh.size() - 1)));
  if (!dtype_from(token.text) && token.text != "dims" && token.text != "mesh") return true;
  return fail(token.span,
              fmt::format("expected the name of a dimension, found {}, which the notation uses itself", quoted(token)),
              "use another name, such as N");
}

// The dimension of this name, made where it appears for the first time.
Dimension* Parser::dim(const std::string& name, Span span) {
  const auto is = [&](const MeshAxis& axis) { return axis.name == name; };
  if (std::any_of(program_.mesh.begin(), program_.mesh.end(), is)) {
    fail(span, fmt::format("'{}' is a mesh axis already; -d {}=4 could mean either", name, name),
         "give the dimension another name");
    return nullptr;
  }
  const auto [found, made] = dim_index_.try_emplace(name, program_.dims.size());
  if (!made) return &program_.dims[found->second];
  if (program_.dims.size() == max_dims) {
    fail(span, fmt::format("expected at most {} dimensions in a program", max_dims));
    return nullptr;
  }
  program_.dims.push_back({.name = name, .value = std::nullopt, .span = span});
  return &program_.dims.back();
}

// A literal of at least 1 and below 2^63. `what`: "a size".
bool Parser::whole_number(std::int64_t& out, const std::string& what) {
  const Token token = peek();
  if (token.kind != TokenKind::number) return expected("a whole number");
  const char* end = token.text.data() + token.text.size();
  const auto [stop, status] = std::from_chars(token.text.data(), end, out);
  if (stop != end)
    return fail(token.span, fmt::format("expected a whole number, found {}", quoted(token)),
                "write all its digits, without point and exponent");
  if (status == std::errc::result_out_of_range)
    return fail(token.span, fmt::format("expected {} below 2^63, found {}", what, quoted(token)), "use a smaller one");
  if (out < 1)
    return fail(token.span, fmt::format("{} must be at least 1, found {}", what, token.text), "use 1 or more");
  take();
  return true;
}

bool Parser::extent(Extent& out, int depth) {
  if (!extent_product(out, depth)) return false;
  while (peek().is("+") || peek().is("-")) {
    const Token sign = take();
    Extent right;
    if (!extent_product(right, depth) || !combine(out, right, sign)) return false;
  }
  return true;
}

bool Parser::extent_product(Extent& out, int depth) {
  if (!extent_factor(out, depth)) return false;
  while (peek().is("*") || peek().is("/")) {
    const Token sign = take();
    Extent right;
    if (sign.is("/")) {
      if (!extent_quotient(out)) return false;
    } else if (!extent_factor(right, depth) || !combine(out, right, sign)) {
      return false;
    }
  }
  return true;
}

// H/8: by a whole number. Whether it comes out whole is seen where H has a value.
bool Parser::extent_quotient(Extent& out) {
  const Token number = peek();
  if (number.kind != TokenKind::number) return expected("a whole number behind '/'", "such as G = H/8");
  std::int64_t by = 0;
  if (!whole_number(by, "what a size is divided by")) return false;
  out.value = out.value * Rational(1, by);
  if (out.value.exact()) return true;
  return fail(number.span, "expected a quotient whose parts are below 2^63, found a larger one", "use smaller numbers");
}

bool Parser::extent_factor(Extent& out, int depth) {
  const Token token = peek();
  if (depth > max_nesting)
    return fail(token.span, fmt::format("expected at most {} levels of parentheses", max_nesting), "name a part of it");
  if (token.kind == TokenKind::name) {
    if (!dim_name(token)) return false;
    take();
    if (!dim(std::string(token.text), token.span)) return false;
    out = {Polynomial::symbol(std::string(token.text)), 1};
    return true;
  }
  if (token.kind == TokenKind::number) {
    std::int64_t value = 0;
    if (token.text.find_first_not_of('0') == std::string_view::npos)
      take();  // 0 as a part of a size is well; whether the size is, shows at the end
    else if (!whole_number(value, "a size"))
      return false;
    out = {Polynomial(value), static_cast<double>(value)};
    return true;
  }
  if (take("-")) {
    Extent right;
    if (!extent_factor(right, depth + 1)) return false;
    out = {Polynomial(0) - right.value, right.bound};
    return true;
  }
  if (!take("(")) return expected("a size", "such as 8192, 4*D or D + 1");
  if (!extent(out, depth + 1)) return false;
  return close(token, ")", "an operator or ')'");
}

bool Parser::combine(Extent& left, const Extent& right, const Token& sign) {
  const bool product = sign.is("*");
  const double bound = product ? left.bound * right.bound : left.bound + right.bound;
  if (bound > largest_coefficient)
    return fail(sign.span, "expected a size below 2^63, found a larger one", "use smaller numbers");
  const std::size_t x = left.value.terms().size(), y = right.value.terms().size();
  if ((product ? x * y : x + y) > most_terms)
    return fail(sign.span, fmt::format("expected a size of at most {} terms", most_terms), "give a part of it a name");
  left.value = product ? left.value * right.value : sign.is("+") ? left.value + right.value : left.value - right.value;
  left.bound = bound;
  return true;
}

bool Parser::no_cycles() {
  std::vector<int> state(program_.dims.size());  // 0: not seen, 1: being followed, 2: sound
  for (std::size_t i = 0; i < state.size(); ++i)
    if (!no_cycle_from(i, state)) return false;
  return true;
}

bool Parser::no_cycle_from(std::size_t start, std::vector<int>& state) {
  if (state[start] == 2) return true;
  const Dimension& d = program_.dims[start];
  if (state[start] == 1)
    return fail(d.span, fmt::format("the size of dimension '{}' depends on itself", d.name), "give it a number");
  state[start] = 1;
  if (d.value)
    for (const std::string& symbol : d.value->symbols())
      if (!no_cycle_from(dim_index_.at(symbol), state)) return false;
  state[start] = 2;
  return true;
}

}  // namespace ridge::notation

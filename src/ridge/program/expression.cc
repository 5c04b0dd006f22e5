// Expressions, `(u + bu) * gelu(g + bg)`, as a postfix list of nodes: u, bu, add, g, bg, add, gelu, multiply. * and /
// bind tighter than + and -, those tighter than comparisons, a sign tighter than these, ** tightest; operators of one
// strength are taken from the left, ** from the right.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ridge/program/parser.h"

namespace ridge::notation {
int Parser::add_node(Node node, Span span) {
  nodes_.push_back(std::move(node));
  node_spans_.push_back(span);
  return static_cast<int>(nodes_.size()) - 1;
}

// One comparison at most: what a < b < c would mean is anybody's guess.
int Parser::expression(int depth) {
  static constexpr std::pair<std::string_view, Function> comparisons[] = {
      {"<", Function::less},           {"<=", Function::less_equal}, {">", Function::greater},
      {">=", Function::greater_equal}, {"==", Function::equal},
  };
  const int left = sum(depth);
  if (left < 0) return -1;
  for (const auto& [symbol, function] : comparisons) {
    if (!peek().is(symbol)) continue;
    const Token sign = take();
    const int right = sum(depth);
    if (right < 0) return -1;
    return add_node({.kind = Node::Kind::call, .function = function, .arguments = {left, right}}, sign.span);
  }
  return left;
}

int Parser::sum(int depth) {
  int left = product(depth);
  while (left >= 0 && (peek().is("+") || peek().is("-"))) {
    const Token sign = take();
    const int right = product(depth);
    if (right < 0) return -1;
    const Function f = sign.is("+") ? Function::add : Function::subtract;
    left = add_node({.kind = Node::Kind::call, .function = f, .arguments = {left, right}}, sign.span);
  }
  return left;
}

int Parser::product(int depth) {
  int left = unary(depth);
  while (left >= 0 && (peek().is("*") || peek().is("/"))) {
    const Token sign = take();
    const int right = unary(depth);
    if (right < 0) return -1;
    const Function f = sign.is("*") ? Function::multiply : Function::divide;
    left = add_node({.kind = Node::Kind::call, .function = f, .arguments = {left, right}}, sign.span);
  }
  return left;
}

int Parser::unary(int depth) {
  if (depth > max_nesting) {
    fail(peek().span, fmt::format("expected at most {} levels of nesting", max_nesting), "give a part of it a name");
    return -1;
  }
  if (!peek().is("-")) return power(depth);
  const Token sign = take();
  const int of = unary(depth + 1);
  if (of < 0) return -1;
  Node& node = nodes_[static_cast<std::size_t>(of)];
  if (node.kind != Node::Kind::number)
    return add_node({.kind = Node::Kind::call, .function = Function::negate, .arguments = {of}}, sign.span);
  node.number = -node.number;  // -2 is a number, not an operation on one
  return of;
}

// a ** b ** c is a ** (b ** c), and -a ** b is -(a ** b).
int Parser::power(int depth) {
  const int base = primary(depth);
  if (base < 0 || !peek().is("**")) return base;
  const Token sign = take();
  const int exponent = unary(depth + 1);
  if (exponent < 0) return -1;
  return add_node({.kind = Node::Kind::call, .function = Function::pow, .arguments = {base, exponent}}, sign.span);
}

int Parser::primary(int depth) {
  const Token token = peek();
  if (token.kind == TokenKind::number) return number();
  if (token.kind == TokenKind::name && token.text == "inf")
    return take(), add_node({.kind = Node::Kind::number, .number = HUGE_VAL}, token.span);
  if (token.kind == TokenKind::name) return peek(1).is("(") || reserved(token.text) ? call(depth) : tensor();
  if (!token.is("(")) return expected("a tensor, a number or a function", "such as (u + bu) * gelu(g + bg)"), -1;
  take();
  const int inside = expression(depth + 1);
  return inside >= 0 && close(token, ")", "an operator or ')'") ? inside : -1;
}

int Parser::number() {
  const Token token = take();
  double value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto [stop, status] = std::from_chars(token.text.data(), end, value);
  if (status == std::errc{} && stop == end) return add_node({.kind = Node::Kind::number, .number = value}, token.span);
  fail(token.span, fmt::format("expected a number that f64 can hold, found {}", quoted(token)),
       "the range is 2.3e-308 to 1.7e308");
  return -1;
}

int Parser::tensor() {
  const Token token = take();
  if (!scanned_.empty() && token.text == scanned_) return add_node({.kind = Node::Kind::previous}, token.span);
  const auto found = tensor_index_.find(std::string(token.text));
  if (found == tensor_index_.end()) return unknown_tensor(token);
  if (peek().is("[") || peek().kind == TokenKind::suffix)
    return expected("an operator or the end of the expression",
                    fmt::format("an expression names tensors without their dimensions: {}", token.text)),
           -1;
  return add_node({.kind = Node::Kind::tensor, .tensor = found->second}, token.span);
}

int Parser::call(int depth) {
  const Token name = take();
  if (name.text == "repeat") return repeat(depth);
  if (name.text == "index") return of_dimension(Node::Kind::index);
  if (name.text == "size") return of_dimension(Node::Kind::size);
  if (name.text == "sequence") return sequence();
  const FunctionRow* const f = find_function(name.text);
  if (!f) return no_function(name);
  if (!expect("(", fmt::format("'(' behind the function {}", quoted(name)), fmt::format("write {}", signature(*f))))
    return -1;
  const Token open = tokens_[next_ - 1];
  Node node{.kind = Node::Kind::call, .function = f->function};
  if (!peek().is(")")) do {
      const int argument = expression(depth + 1);
      if (argument < 0) return -1;
      node.arguments.push_back(argument);
      if (peek().kind == TokenKind::name && peek().text == "over") {
        if (!over(node, *f)) return -1;
        break;
      }
    } while (take(","));
  if (!close(open, ")", node.over.empty() ? "an operator, ',' or ')'" : "',' or ')'")) return -1;
  return add_call(std::move(node), name, *f);
}

int Parser::add_call(Node node, const Token& name, const FunctionRow& f) {
  const std::size_t found = node.arguments.size();
  const int expected = node.kind == Node::Kind::along ? 1 : f.arity;
  if (expected == 0)
    return fail(name.span, fmt::format("expected the dimensions that {} runs over, found none", f.name),
                fmt::format("write {}", signature(f))),
           -1;
  if (static_cast<int>(found) == expected) return add_node(std::move(node), name.span);
  fail(name.span,
       fmt::format("expected {} argument{} of {}, found {}", expected, expected == 1 ? "" : "s", name.text, found),
       fmt::format("write {}", signature(f)));
  return -1;
}

// `over D, E` behind an argument. Whether the argument has these dimensions shows when the whole expression is there.
bool Parser::over(Node& node, const FunctionRow& f) {
  if (!f.along)
    return fail(peek().span,
                fmt::format("expected no dimensions to run over, found 'over': {} takes each element by "
                            "itself",
                            f.name),
                fmt::format("write {}", signature(f)));
  take();
  node.kind = Node::Kind::along;
  do {
    if (peek().kind != TokenKind::name && peek().kind != TokenKind::number)
      return expected("a dimension", fmt::format("such as {}(x over D)", f.name));
    const Token dimension = peek();
    if (dimension.kind == TokenKind::name && !dim_index_.contains(std::string(dimension.text)))
      return unknown_dimension(dimension);
    const bool twice = std::any_of(node.over.begin(), node.over.end(),
                                   [&](const Axis& a) { return a.named() && a.dim == dimension.text; });
    if (twice)
      return fail(dimension.span, fmt::format("{} runs over {} twice", f.name, quoted(dimension)), "once will do");
    if (!axis(node.over)) return false;
  } while (take(","));
  return true;
}

// index(T), size(T)
int Parser::of_dimension(Node::Kind kind) {
  const Token word = tokens_[next_ - 1];
  const std::string example = fmt::format("write {}(T)", word.text);
  if (!expect("(", fmt::format("'(' behind '{}'", word.text), example)) return -1;
  if (peek().kind != TokenKind::name) return expected("the name of a dimension", example), -1;
  if (!dim_index_.contains(std::string(peek().text))) return unknown_dimension(peek()), -1;
  Node node{.kind = kind};
  if (!axis(node.over) || !expect(")", "')'", example)) return -1;
  return add_node(std::move(node), word.span);
}

// sequence(S): of a dimension with lengths.
int Parser::sequence() {
  const int node = of_dimension(Node::Kind::sequence);
  if (node < 0) return -1;
  const Axis& axis = nodes_[static_cast<std::size_t>(node)].over.front();
  if (!lengths_along(program_, axis.dim).empty()) return node;
  fail(axis.span, fmt::format("'{}' has no sequences", axis.dim),
       fmt::format("give it the lengths of some above: dims {} = (700, 200, 124)", axis.dim));
  return -1;
}

bool Parser::unknown_dimension(const Token& token) {
  std::vector<std::string> known;
  for (const Dimension& d : program_.dims) known.push_back(d.name);
  const std::string meant = suggestion(token.text, known);
  const std::string_view instead = instead_of(token.text);  // softmax(s over T, causal)
  return fail(token.span, fmt::format("unknown dimension {}", quoted(token)),
              !instead.empty() ? std::string(instead)
              : meant.empty()  ? "a dimension of a tensor is meant"
                               : fmt::format("did you mean '{}'?", meant));
}

// repeat(64, cos, x): cos of cos of … x, 64 times.
int Parser::repeat(int depth) {
  static constexpr const char* example = "write repeat(64, cos, x)";
  if (!expect("(", "'(' behind 'repeat'", example)) return -1;
  const Token times = peek();
  std::int64_t n = 0;
  if (times.kind != TokenKind::number) return expected("how often to repeat, a whole number", example), -1;
  if (!whole_number(n, "the count of repeat")) return -1;
  if (n > INT32_MAX)
    return fail(times.span, fmt::format("expected a count of repeat below 2^31, found {}", n), "use a smaller one"), -1;
  if (!expect(",", "',' and a function", example)) return -1;
  const Token name = peek();
  if (name.kind != TokenKind::name) return expected("a function", example), -1;
  const FunctionRow* const f = find_function(name.text);
  if (!f) return take(), unknown_function(name);
  if (f->arity != 1)
    return fail(name.span,
                fmt::format("expected a function of 1 argument, found {}, which takes {}", quoted(name),
                            f->arity == 0 ? "dimensions" : std::to_string(f->arity)),
                example),
           -1;
  take();
  if (!expect(",", "',' and what to begin with", example)) return -1;
  const int begin = expression(depth + 1);
  if (begin < 0 || !expect(")", "an operator or ')'", example)) return -1;
  return add_node(
      {.kind = Node::Kind::call, .function = f->function, .arguments = {begin}, .repeat = static_cast<int>(n)},
      name.span);
}

int Parser::no_function(const Token& word) {
  if (const std::string_view instead = instead_of(word.text); !instead.empty())
    return fail(word.span, fmt::format("unknown function {}", quoted(word)), std::string(instead)), -1;
  if (find_word(word.text)) {
    fail(word.span, fmt::format("expected {} alone behind the '=', found it inside of an expression", word.text),
         fmt::format("give it a statement of its own: t[N, D] = {}(…)", word.text));
    return -1;
  }
  if (!reserved(word.text)) return unknown_function(word);
  return fail(word.span, fmt::format("expected a tensor, a number or a function, found {}", quoted(word)),
              "the notation uses this word itself"),
         -1;
}

int Parser::unknown_function(const Token& token) {
  const std::vector<std::string> known = function_names();
  std::vector<std::string> all = known;
  for (std::string& word : word_names()) all.push_back(std::move(word));
  const std::string meant = suggestion(token.text, all);
  const bool is_tensor = tensor_index_.contains(std::string(token.text));
  fail(token.span, fmt::format("unknown function {}", quoted(token)),
       is_tensor        ? fmt::format("'{}' is a tensor; a product is written {} * (…)", token.text, token.text)
       : !meant.empty() ? fmt::format("did you mean '{}'?", meant)
                        : fmt::format("known are {}", fmt::join(known, " ")));
  return -1;
}

int Parser::unknown_tensor(const Token& token) {
  const std::string name(token.text);
  if (const Stack* const whole = stack_named(name)) {
    read_in_parts(*whole, token.span);
    return -1;
  }
  if (later_names_.contains(name)) {
    fail(token.span, fmt::format("tensor '{}' is used before it is declared or written", name), "move its line up");
    return -1;
  }
  std::vector<std::string> known;
  for (const Tensor& t : program_.tensors) known.push_back(t.name);
  const std::string meant = suggestion(name, known);
  fail(token.span, fmt::format("unknown tensor '{}'", name),
       dim_index_.contains(name)
           ? fmt::format("'{}' is a dimension; where an element lies along it is index({})", name, name)
       : !meant.empty() ? fmt::format("did you mean '{}'?", meant)
                        : fmt::format("declare it on a line above: {}: bf16[N, D]", name));
  return -1;
}

}  // namespace ridge::notation

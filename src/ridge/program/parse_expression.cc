// Parses expressions such as `(u + bu) * gelu(g + bg)` to postfix nodes: u, bu, add, g, bg, add, gelu, multiply.
// Precedence, from high to low: **, sign, * and /, + and -, comparisons. ** is right-associative, the others are
// left-associative.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ridge/program/parser.h"

namespace ridge::program {
int Parser::add_node(Node node, TextSpan span) {
  nodes_.push_back(std::move(node));
  node_spans_.push_back(span);
  return static_cast<int>(nodes_.size()) - 1;
}

// At most one comparison, because a < b < c is ambiguous.
int Parser::parse_expression(int depth) {
  static constexpr std::pair<std::string_view, Function> comparisons[] = {
      {"<", Function::less},           {"<=", Function::less_equal}, {">", Function::greater},
      {">=", Function::greater_equal}, {"==", Function::equal},
  };
  const int left = parse_sum(depth);
  if (left < 0) return -1;
  for (const auto& [symbol, function] : comparisons) {
    if (!peek().is_symbol(symbol)) continue;
    const Token sign = consume_token();
    const int right = parse_sum(depth);
    if (right < 0) return -1;
    return add_node({.kind = Node::Kind::call, .function = function, .arguments = {left, right}}, sign.span);
  }
  return left;
}

int Parser::parse_sum(int depth) {
  int left = parse_product(depth);
  while (left >= 0 && (peek().is_symbol("+") || peek().is_symbol("-"))) {
    const Token sign = consume_token();
    const int right = parse_product(depth);
    if (right < 0) return -1;
    const Function f = sign.is_symbol("+") ? Function::add : Function::subtract;
    left = add_node({.kind = Node::Kind::call, .function = f, .arguments = {left, right}}, sign.span);
  }
  return left;
}

int Parser::parse_product(int depth) {
  int left = parse_unary(depth);
  while (left >= 0 && (peek().is_symbol("*") || peek().is_symbol("/"))) {
    const Token sign = consume_token();
    const int right = parse_unary(depth);
    if (right < 0) return -1;
    const Function f = sign.is_symbol("*") ? Function::multiply : Function::divide;
    left = add_node({.kind = Node::Kind::call, .function = f, .arguments = {left, right}}, sign.span);
  }
  return left;
}

int Parser::parse_unary(int depth) {
  if (depth > max_nesting) {
    report_error(peek().span, fmt::format("expected at most {} levels of nesting", max_nesting),
                 "give a part of it a name");
    return -1;
  }
  if (!peek().is_symbol("-")) return parse_power(depth);
  const Token sign = consume_token();
  const int operand = parse_unary(depth + 1);
  if (operand < 0) return -1;
  Node& node = nodes_[operand];
  if (node.kind != Node::Kind::number)
    return add_node({.kind = Node::Kind::call, .function = Function::negate, .arguments = {operand}}, sign.span);
  node.number = -node.number;  // -2 is a literal, not an operation
  return operand;
}

// a ** b ** c is a ** (b ** c), and -a ** b is -(a ** b).
int Parser::parse_power(int depth) {
  const int base = parse_primary(depth);
  if (base < 0 || !peek().is_symbol("**")) return base;
  const Token sign = consume_token();
  const int exponent = parse_unary(depth + 1);
  if (exponent < 0) return -1;
  return add_node({.kind = Node::Kind::call, .function = Function::pow, .arguments = {base, exponent}}, sign.span);
}

int Parser::parse_primary(int depth) {
  const Token token = peek();
  if (token.kind == TokenKind::number) return parse_number();
  if (token.kind == TokenKind::name && token.text == "inf")
    return consume_token(), add_node({.kind = Node::Kind::number, .number = HUGE_VAL}, token.span);
  if (token.kind == TokenKind::name)
    return peek(1).is_symbol("(") || is_reserved(token.text) ? parse_call(depth) : parse_tensor_name();
  if (!token.is_symbol("("))
    return report_expected("a tensor, a number or a function", "such as (u + bu) * gelu(g + bg)"), -1;
  consume_token();
  const int inside = parse_expression(depth + 1);
  return inside >= 0 && close_bracket(token, ")", "an operator or ')'") ? inside : -1;
}

int Parser::parse_number() {
  const Token token = consume_token();
  double value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto [stop, status] = std::from_chars(token.text.data(), end, value);
  if (status == std::errc{} && stop == end) return add_node({.kind = Node::Kind::number, .number = value}, token.span);
  report_error(token.span, fmt::format("expected a number that f64 can hold, found {}", quote_token(token)),
               "the range is 2.3e-308 to 1.7e308");
  return -1;
}

int Parser::parse_tensor_name() {
  const Token token = consume_token();
  if (!scan_result_.empty() && token.text == scan_result_) return add_node({.kind = Node::Kind::previous}, token.span);
  const auto found = tensor_index_.find(std::string(token.text));
  if (found == tensor_index_.end()) return report_unknown_tensor(token);
  if (peek().is_symbol("[") || peek().kind == TokenKind::suffix)
    return report_expected("an operator or the end of the expression",
                           fmt::format("an expression names tensors without their dimensions: {}", token.text)),
           -1;
  return add_node({.kind = Node::Kind::tensor, .tensor = found->second}, token.span);
}

int Parser::parse_call(int depth) {
  const Token name = consume_token();
  if (name.text == "repeat") return parse_repeat(depth);
  if (name.text == "batch_norm") return parse_batch_norm(depth);
  if (name.text == "index") return parse_dimension_call(Node::Kind::index);
  if (name.text == "size") return parse_dimension_call(Node::Kind::size);
  if (name.text == "sequence") return parse_sequence_call();
  const FunctionInfo* const f = find_function(name.text);
  if (!f) return report_no_function(name);
  if (!expect_symbol("(", fmt::format("'(' after the function {}", quote_token(name)),
                     fmt::format("write {}", function_signature(*f))))
    return -1;
  const Token open = tokens_[next_ - 1];
  Node node{.kind = Node::Kind::call, .function = f->function};
  if (!peek().is_symbol(")")) do {
      const int argument = parse_expression(depth + 1);
      if (argument < 0) return -1;
      node.arguments.push_back(argument);
      if (peek().kind == TokenKind::name && peek().text == "over") {
        if (!parse_over(node, *f)) return -1;
        break;
      }
    } while (accept_symbol(","));
  if (!close_bracket(open, ")", node.over.empty() ? "an operator, ',' or ')'" : "',' or ')'")) return -1;
  return add_call(std::move(node), name, *f);
}

int Parser::add_call(Node node, const Token& name, const FunctionInfo& f) {
  const std::size_t found = node.arguments.size();
  const int expected = node.kind == Node::Kind::along_dims ? 1 : f.arity;
  if (expected == 0)
    return report_error(name.span, fmt::format("expected the dimensions that {} runs over, found none", f.name),
                        fmt::format("write {}", function_signature(f))),
           -1;
  if (static_cast<int>(found) == expected) return add_node(std::move(node), name.span);
  report_error(
      name.span,
      fmt::format("expected {} argument{} of {}, found {}", expected, expected == 1 ? "" : "s", name.text, found),
      fmt::format("write {}", function_signature(f)));
  return -1;
}

// Parses `over D, E` after an argument. `check_reduced_axes` later checks that the argument has these dimensions.
bool Parser::parse_over(Node& node, const FunctionInfo& f) {
  if (!f.takes_dims)
    return report_error(peek().span, fmt::format("expected no dimensions, found 'over': {} is elementwise", f.name),
                        fmt::format("write {}", function_signature(f)));
  consume_token();
  node.kind = Node::Kind::along_dims;
  do {
    if (peek().kind != TokenKind::name && peek().kind != TokenKind::number)
      return report_expected("a dimension", fmt::format("such as {}(x over D)", f.name));
    const Token dimension = peek();
    if (dimension.kind == TokenKind::name && !dim_index_.contains(std::string(dimension.text)))
      return report_unknown_dimension(dimension);
    const bool twice = std::any_of(node.over.begin(), node.over.end(),
                                   [&](const Axis& a) { return a.is_named() && a.dim == dimension.text; });
    if (twice)
      return report_error(dimension.span, fmt::format("{} runs over {} twice", f.name, quote_token(dimension)),
                          "remove one of them");
    if (!parse_axis(node.over)) return false;
  } while (accept_symbol(","));
  return true;
}

// index(T), size(T)
int Parser::parse_dimension_call(Node::Kind kind) {
  const Token keyword = tokens_[next_ - 1];
  const std::string example = fmt::format("write {}(T)", keyword.text);
  if (!expect_symbol("(", fmt::format("'(' after '{}'", keyword.text), example)) return -1;
  if (peek().kind != TokenKind::name) return report_expected("the name of a dimension", example), -1;
  if (!dim_index_.contains(std::string(peek().text))) return report_unknown_dimension(peek()), -1;
  Node node{.kind = kind};
  if (!parse_axis(node.over) || !expect_symbol(")", "')'", example)) return -1;
  return add_node(std::move(node), keyword.span);
}

// Parses sequence(S) of a ragged dimension.
int Parser::parse_sequence_call() {
  const int node = parse_dimension_call(Node::Kind::sequence);
  if (node < 0) return -1;
  const Axis& axis = nodes_[node].over.front();
  if (!lengths_along(program_, axis.dim).empty()) return node;
  report_error(axis.span, fmt::format("'{}' has no sequences", axis.dim),
               fmt::format("give it sequence lengths on a line above: dims {} = (700, 200, 124)", axis.dim));
  return -1;
}

bool Parser::report_unknown_dimension(const Token& token) {
  std::vector<std::string> known;
  for (const Dimension& d : program_.dims) known.push_back(d.name);
  const std::string suggestion = suggest_name(token.text, known);
  const std::string_view instead = suggest_alternative(token.text);  // softmax(s over T, causal)
  return report_error(token.span, fmt::format("unknown dimension {}", quote_token(token)),
                      !instead.empty()     ? std::string(instead)
                      : suggestion.empty() ? "use a dimension of a tensor"
                                           : fmt::format("did you mean '{}'?", suggestion));
}

// Parses batch_norm(x, mean, variance, weight, bias) as (x - mean) * (rsqrt(variance + 1e-5) * weight) + bias.
int Parser::parse_batch_norm(int depth) {
  const TextSpan span = tokens_[next_ - 1].span;
  static constexpr const char* example = "write batch_norm(x, mean, variance, weight, bias)";
  if (!expect_symbol("(", "'(' after 'batch_norm'", example)) return -1;
  const Token open = tokens_[next_ - 1];
  const auto parse_next = [&](std::string_view argument) {
    if (!accept_symbol(",")) return report_expected(fmt::format("',' and the {}", argument), example), -1;
    return parse_expression(depth + 1);
  };
  const auto add = [&](Function function, std::vector<int> arguments) {
    return add_node({.kind = Node::Kind::call, .function = function, .arguments = std::move(arguments)}, span);
  };
  const int x = parse_expression(depth + 1), mean = x < 0 ? -1 : parse_next("mean");
  if (mean < 0) return -1;
  const int centred = add(Function::subtract, {x, mean}), variance = parse_next("variance");
  if (variance < 0) return -1;
  const int epsilon = add_node({.kind = Node::Kind::number, .number = norm_epsilon}, span),
            reciprocal = add(Function::rsqrt, {add(Function::add, {variance, epsilon})}), weight = parse_next("weight");
  if (weight < 0) return -1;
  const int scaled = add(Function::multiply, {centred, add(Function::multiply, {reciprocal, weight})}),
            bias = parse_next("bias");
  if (bias < 0 || !close_bracket(open, ")", "an operator or ')'")) return -1;
  return add(Function::add, {scaled, bias});
}

// Parses repeat(64, cos, x): cos applied 64 times.
int Parser::parse_repeat(int depth) {
  static constexpr const char* example = "write repeat(64, cos, x)";
  if (!expect_symbol("(", "'(' after 'repeat'", example)) return -1;
  const Token times = peek();
  std::int64_t n = 0;
  if (times.kind != TokenKind::number) return report_expected("the number of repetitions", example), -1;
  if (!parse_positive_integer(n, "the count of repeat")) return -1;
  if (n > INT32_MAX)
    return report_error(times.span, fmt::format("expected a count of repeat below 2^31, found {}", n),
                        "use a smaller one"),
           -1;
  if (!expect_symbol(",", "',' and a function", example)) return -1;
  const Token name = peek();
  if (name.kind != TokenKind::name) return report_expected("a function", example), -1;
  const FunctionInfo* const f = find_function(name.text);
  if (!f) return consume_token(), report_unknown_function(name);
  if (f->arity != 1)
    return report_error(name.span,
                        fmt::format("expected a function of 1 argument, found {}, which takes {}", quote_token(name),
                                    f->arity == 0 ? "dimensions" : std::to_string(f->arity)),
                        example),
           -1;
  consume_token();
  if (!expect_symbol(",", "',' and the initial value", example)) return -1;
  const int begin = parse_expression(depth + 1);
  if (begin < 0 || !expect_symbol(")", "an operator or ')'", example)) return -1;
  return add_node(
      {.kind = Node::Kind::call, .function = f->function, .arguments = {begin}, .repeat = static_cast<int>(n)},
      name.span);
}

int Parser::report_no_function(const Token& keyword) {
  if (const std::string_view instead = suggest_alternative(keyword.text); !instead.empty())
    return report_error(keyword.span, fmt::format("unknown function {}", quote_token(keyword)), std::string(instead)),
           -1;
  if (find_routine(keyword.text)) {
    report_error(keyword.span, fmt::format("expected {} alone after '=', found it inside an expression", keyword.text),
                 fmt::format("give it a statement of its own: t[N, D] = {}(…)", keyword.text));
    return -1;
  }
  if (!is_reserved(keyword.text)) return report_unknown_function(keyword);
  return report_error(keyword.span,
                      fmt::format("expected a tensor, a number or a function, found {}", quote_token(keyword)),
                      "it is a reserved word"),
         -1;
}

int Parser::report_unknown_function(const Token& token) {
  const std::vector<std::string> known = function_names();
  std::vector<std::string> all = known;
  for (std::string& word : routine_names()) all.push_back(std::move(word));
  const std::string suggestion = suggest_name(token.text, all);
  const bool is_tensor = tensor_index_.contains(std::string(token.text));
  report_error(token.span, fmt::format("unknown function {}", quote_token(token)),
               is_tensor ? fmt::format("'{}' is a tensor; a product is written {} * (…)", token.text, token.text)
               : !suggestion.empty() ? fmt::format("did you mean '{}'?", suggestion)
                                     : fmt::format("known functions are {}", fmt::join(known, " ")));
  return -1;
}

int Parser::report_unknown_tensor(const Token& token) {
  const std::string name(token.text);
  if (const StackedInput* const stack = find_stack(name)) {
    report_stack_read(*stack, token.span);
    return -1;
  }
  if (later_names_.contains(name)) {
    report_error(token.span, fmt::format("tensor '{}' is used before it is declared or written", name),
                 "move its line up");
    return -1;
  }
  std::vector<std::string> known;
  for (const Tensor& t : program_.tensors) known.push_back(t.name);
  const std::string suggestion = suggest_name(name, known);
  report_error(token.span, fmt::format("unknown tensor '{}'", name),
               dim_index_.contains(name)
                   ? fmt::format("'{}' is a dimension; the position of an element along it is index({})", name, name)
               : !suggestion.empty() ? fmt::format("did you mean '{}'?", suggestion)
                                     : fmt::format("declare it on a line above: {}: bf16[N, D]", name));
  return -1;
}

}  // namespace ridge::program

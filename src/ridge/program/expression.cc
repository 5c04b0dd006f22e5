// Pointwise expressions, `(u + bu) * gelu(g + bg)`, as a postfix list of nodes: u, bu, add, g, bg, add, gelu, multiply.
// * and / bind tighter than + and -, a sign tightest; operators of one strength are taken from the left.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "ridge/program/parser.h"

namespace ridge::notation {
namespace {

constexpr std::array<FunctionName, 17> functions{{
    {"exp", Function::exp, 1},
    {"log", Function::log, 1},
    {"cos", Function::cos, 1},
    {"sin", Function::sin, 1},
    {"gelu", Function::gelu, 1},
    {"gelu_tanh", Function::gelu_tanh, 1},
    {"silu", Function::silu, 1},
    {"relu", Function::relu, 1},
    {"sigmoid", Function::sigmoid, 1},
    {"tanh", Function::tanh, 1},
    {"sqrt", Function::sqrt, 1},
    {"rsqrt", Function::rsqrt, 1},
    {"abs", Function::abs, 1},
    {"max", Function::max, 2},
    {"min", Function::min, 2},
    {"where", Function::where, 3},
    {"less", Function::less, 2},
}};

// Words of DESIGN section 2 that come later, and what to write until then.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> later_functions{{
    {"sum", "contract with a tensor of ones: y[N] = x * ones, with ones: bf16[D]"},
    {"mean", "contract with a tensor that holds 1/D: y[N] = x * w, with w: bf16[D]"},
    {"softmax", "compute it outside and declare its result as an input"},
    {"logsumexp", "compute it outside and declare its result as an input"},
    {"rmsnorm", "compute it outside and declare its result as an input"},
    {"layernorm", "compute it outside and declare its result as an input"},
    {"causal", "declare the mask as an input and multiply by it"},
}};

std::string signature(const FunctionName& f) {
  static constexpr std::string_view arguments[] = {"", "x", "a, b", "condition, a, b"};
  return fmt::format("{}({})", f.name, arguments[f.arguments]);
}

}  // namespace

std::optional<FunctionName> find_function(std::string_view name) {
  for (const FunctionName& f : functions)
    if (f.name == name) return f;
  return std::nullopt;
}

std::string_view function_name(Function function) {
  for (const FunctionName& f : functions)
    if (f.function == function) return f.name;
  return {};
}

bool reserved(std::string_view name) {
  const bool later =
      std::any_of(later_functions.begin(), later_functions.end(), [&](const auto& l) { return l.first == name; });
  return later || dtype_from(name) || find_function(name) || name == "dims" || name == "repeat" || name == "over";
}

int Parser::add_node(Node node, Span span) {
  nodes_.push_back(std::move(node));
  node_spans_.push_back(span);
  return static_cast<int>(nodes_.size()) - 1;
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
  if (!peek().is("-")) return primary(depth);
  const Token sign = take();
  const int of = unary(depth + 1);
  if (of < 0) return -1;
  Node& node = nodes_[static_cast<std::size_t>(of)];
  if (node.kind != Node::Kind::number)
    return add_node({.kind = Node::Kind::call, .function = Function::negate, .arguments = {of}}, sign.span);
  node.number = -node.number;  // -2 is a number, not an operation on one
  return of;
}

int Parser::primary(int depth) {
  const Token token = peek();
  if (token.kind == TokenKind::number) return number();
  if (token.kind == TokenKind::name) return peek(1).is("(") || reserved(token.text) ? call(depth) : tensor();
  if (!token.is("(")) return expected("a tensor, a number or a function", "such as (u + bu) * gelu(g + bg)"), -1;
  take();
  const int inside = sum(depth + 1);
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
  const std::optional<FunctionName> f = find_function(name.text);
  if (!f) return later(name);
  if (!expect("(", fmt::format("'(' behind the function {}", quoted(name)), fmt::format("write {}", signature(*f))))
    return -1;
  const Token open = tokens_[next_ - 1];
  Node node{.kind = Node::Kind::call, .function = f->function};
  if (!peek().is(")")) do {
      const int argument = sum(depth + 1);
      if (argument < 0) return -1;
      node.arguments.push_back(argument);
      if (peek().kind == TokenKind::name && peek().text == "over")
        return fail(peek().span, "reductions over a dimension are not supported yet",
                    fmt::format("without one it is written {}", signature(*f))),
               -1;
    } while (take(","));
  if (!close(open, ")", "an operator, ',' or ')'")) return -1;
  if (static_cast<int>(node.arguments.size()) == f->arguments) return add_node(std::move(node), name.span);
  fail(name.span,
       fmt::format("expected {} argument{} of {}, found {}", f->arguments, f->arguments == 1 ? "" : "s", name.text,
                   node.arguments.size()),
       fmt::format("write {}", signature(*f)));
  return -1;
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
  const std::optional<FunctionName> f = find_function(name.text);
  if (!f) return take(), unknown_function(name);
  if (f->arguments != 1)
    return fail(name.span,
                fmt::format("expected a function of 1 argument, found {}, which takes {}", quoted(name), f->arguments),
                example),
           -1;
  take();
  if (!expect(",", "',' and what to begin with", example)) return -1;
  const int begin = sum(depth + 1);
  if (begin < 0 || !expect(")", "an operator or ')'", example)) return -1;
  return add_node(
      {.kind = Node::Kind::call, .function = f->function, .arguments = {begin}, .repeat = static_cast<int>(n)},
      name.span);
}

int Parser::later(const Token& function) {
  for (const auto& [name, instead] : later_functions)
    if (function.text == name)
      return fail(function.span, fmt::format("'{}' is not supported yet", name), std::string(instead)), -1;
  if (function.text == "over" || function.text == "dims" || dtype_from(function.text))
    return fail(function.span, fmt::format("expected a tensor, a number or a function, found {}", quoted(function)),
                "the notation uses this word itself"),
           -1;
  return unknown_function(function);
}

int Parser::unknown_function(const Token& token) {
  std::vector<std::string> known{"repeat"};
  for (const FunctionName& f : functions) known.emplace_back(f.name);
  const std::string meant = suggestion(token.text, known);
  std::string all;
  for (const FunctionName& f : functions) all += std::string(f.name) + " ";
  const bool is_tensor = tensor_index_.contains(std::string(token.text));
  fail(token.span, fmt::format("unknown function {}", quoted(token)),
       is_tensor        ? fmt::format("'{}' is a tensor; a product is written {} * (…)", token.text, token.text)
       : !meant.empty() ? fmt::format("did you mean '{}'?", meant)
                        : fmt::format("known are {}repeat", all));
  return -1;
}

int Parser::unknown_tensor(const Token& token) {
  const std::string name(token.text);
  if (later_names_.contains(name)) {
    fail(token.span, fmt::format("tensor '{}' is used before it is declared or written", name), "move its line up");
    return -1;
  }
  std::vector<std::string> known;
  for (const Tensor& t : program_.tensors) known.push_back(t.name);
  const std::string meant = suggestion(name, known);
  fail(token.span, fmt::format("unknown tensor '{}'", name),
       dim_index_.contains(name) ? fmt::format("'{}' is a dimension; an expression holds tensors and numbers", name)
       : !meant.empty()          ? fmt::format("did you mean '{}'?", meant)
                                 : fmt::format("declare it on a line above: {}: bf16[N, D]", name));
  return -1;
}

}  // namespace ridge::notation

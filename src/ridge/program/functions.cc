// The words of expressions: functions of each element by itself, functions along dimensions, and names that other
// notations have.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ridge/program/parser.h"

namespace ridge::notation {
namespace {

constexpr std::array<FunctionName, 21> functions{{
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
    {"max", Function::max, 2, true},
    {"min", Function::min, 2, true},
    {"where", Function::where, 3},
    {"sum", Function::sum, 0, true},
    {"mean", Function::mean, 0, true},
    {"softmax", Function::softmax, 0, true},
    {"rmsnorm", Function::rmsnorm, 0, true},
    {"layernorm", Function::layernorm, 0, true},
}};

constexpr std::array<std::string_view, 3> other_words{"repeat", "index", "size"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> elsewhere{{
    {"less", "a comparison is written a < b"},
    {"logsumexp", "with m[N] = max(x over D) it is written m + log(sum(exp(x - m) over D))"},
    {"causal", "a causal mask is written softmax(where(index(T) <= index(S), s, -inf) over T)"},
    {"pow", "a power is written as a product: x * x"},
    {"erf", "the exact gelu is written gelu(x)"},
}};

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

std::string signature(const FunctionName& f) {
  static constexpr std::string_view arguments[] = {"", "x", "a, b", "condition, a, b"};
  const std::string each = fmt::format("{}({})", f.name, arguments[f.arguments]);
  const std::string along = fmt::format("{}(x over D)", f.name);
  return !f.along ? each : f.arguments == 0 ? along : fmt::format("{} or {}", each, along);
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const FunctionName& f : functions) names.emplace_back(f.name);
  names.insert(names.end(), other_words.begin(), other_words.end());
  return names;
}

bool reserved(std::string_view name) {
  const auto is = [&](std::string_view word) { return word == name; };
  return dtype_from(name) || find_function(name) || std::any_of(other_words.begin(), other_words.end(), is) ||
         std::any_of(elsewhere.begin(), elsewhere.end(), [&](const auto& e) { return is(e.first); }) || is("dims") ||
         is("mesh") || is("over") || is("inf");
}

std::string_view instead_of(std::string_view function) {
  for (const auto& [name, instead] : elsewhere)
    if (name == function) return instead;
  return {};
}

}  // namespace ridge::notation

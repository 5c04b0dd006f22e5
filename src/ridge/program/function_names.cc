// Names in expressions: elementwise functions, functions over dimensions, reserved words, and alternatives to names of
// other notations.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

bool has_name(const FunctionInfo& f) {
  return f.syntax == FunctionSyntax::call || f.syntax == FunctionSyntax::over_dims || f.syntax == FunctionSyntax::power;
}

constexpr std::array<std::string_view, 5> other_functions{"repeat", "index", "size", "sequence", "batch_norm"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> alternatives{{
    {"less", "a comparison is written a < b"},
    {"logsumexp", "with m[N] = max(x over D) it is written m + log(sum(exp(x - m) over D))"},
    {"causal", "a causal mask is written softmax(where(index(T) <= index(S), s, -inf) over T)"},
}};

}  // namespace

const FunctionInfo* find_function(std::string_view name) {
  for (const FunctionInfo& f : function_table)
    if (has_name(f) && f.name == name) return &f;
  return nullptr;
}

std::string function_signature(const FunctionInfo& f) {
  const std::string each = fmt::format("{}({})", f.name, f.arguments), along = fmt::format("{}(x over D)", f.name);
  if (!f.takes_dims) return each;
  return f.arity == 0 ? along : fmt::format("{} or {}", each, along);
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const FunctionInfo& f : function_table)
    if (has_name(f)) names.emplace_back(f.name);
  names.insert(names.end(), other_functions.begin(), other_functions.end());
  return names;
}

bool is_reserved(std::string_view name) {
  const auto is = [&](std::string_view word) { return word == name; };
  return parse_dtype(name) || find_function(name) || find_routine(name) ||
         std::any_of(other_functions.begin(), other_functions.end(), is) ||
         std::any_of(alternatives.begin(), alternatives.end(), [&](const auto& e) { return is(e.first); }) ||
         is("dims") || is("mesh") || is("over") || is("inf");
}

std::string_view suggest_alternative(std::string_view function) {
  for (const auto& [name, instead] : alternatives)
    if (name == function) return instead;
  return {};
}

}  // namespace ridge::program

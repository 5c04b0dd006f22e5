// The words of expressions: functions of each element by itself, functions along dimensions, and names that other
// notations have.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ridge/program/parser.h"

namespace ridge::notation {
namespace {

bool has_name(const FunctionRow& f) {
  return f.written == Written::called || f.written == Written::along || f.written == Written::power;
}

constexpr std::array<std::string_view, 4> other_words{"repeat", "index", "size", "sequence"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> elsewhere{{
    {"less", "a comparison is written a < b"},
    {"logsumexp", "with m[N] = max(x over D) it is written m + log(sum(exp(x - m) over D))"},
    {"causal", "a causal mask is written softmax(where(index(T) <= index(S), s, -inf) over T)"},
}};

}  // namespace

const FunctionRow* find_function(std::string_view name) {
  for (const FunctionRow& f : function_rows)
    if (has_name(f) && f.name == name) return &f;
  return nullptr;
}

std::string signature(const FunctionRow& f) {
  const std::string each = fmt::format("{}({})", f.name, f.arguments), along = fmt::format("{}(x over D)", f.name);
  if (!f.along) return each;
  return f.arity == 0 ? along : fmt::format("{} or {}", each, along);
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const FunctionRow& f : function_rows)
    if (has_name(f)) names.emplace_back(f.name);
  names.insert(names.end(), other_words.begin(), other_words.end());
  return names;
}

bool reserved(std::string_view name) {
  const auto is = [&](std::string_view word) { return word == name; };
  return dtype_from(name) || find_function(name) || find_word(name) ||
         std::any_of(other_words.begin(), other_words.end(), is) ||
         std::any_of(elsewhere.begin(), elsewhere.end(), [&](const auto& e) { return is(e.first); }) || is("dims") ||
         is("mesh") || is("over") || is("inf");
}

std::string_view instead_of(std::string_view function) {
  for (const auto& [name, instead] : elsewhere)
    if (name == function) return instead;
  return {};
}

}  // namespace ridge::notation

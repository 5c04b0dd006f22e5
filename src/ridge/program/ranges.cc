#include "ridge/program/ranges.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "ridge/base/reason.h"
#include "ridge/base/string_util.h"

namespace ridge {
namespace {

std::optional<std::int64_t> parse_positive(std::string_view text) {
  const auto value = parse_whole_number(text);
  return value && *value >= 1 ? value : std::nullopt;
}

// Returns why a range is empty or infinite.
Reason explain_empty_range(std::string_view text) {
  const std::size_t dots = text.find(".."), colon = text.find(':');
  if (dots == std::string_view::npos) return {};
  const auto first = parse_positive(text.substr(0, dots)),
             last = parse_positive(text.substr(dots + 2, colon == std::string_view::npos ? colon : colon - dots - 2));
  if (first && last && *last < *first) return fmt::format("{}..{} is empty: its end is below its start", *first, *last);
  if (colon != std::string_view::npos && (text.substr(colon + 1) == "*1" || text.substr(colon + 1) == "0"))
    return fmt::format("{} is infinite: a factor is 2 or more, a step 1 or more", text);
  return {};
}

// Adds the values of one item between commas. Returns false if it is invalid or too long.
bool add_values(std::string_view item, std::vector<std::int64_t>& values) {
  const std::size_t dots = item.find("..");
  if (dots == std::string_view::npos) {
    const auto one = parse_positive(item);
    if (one) values.push_back(*one);
    return one.has_value();
  }
  const std::size_t colon = item.find(':', dots);
  std::string_view step_text = colon == std::string_view::npos ? "1" : item.substr(colon + 1);
  const bool times = step_text.starts_with('*');
  if (times) step_text.remove_prefix(1);
  const auto first = parse_positive(item.substr(0, dots)), step = parse_positive(step_text),
             last = parse_positive(item.substr(dots + 2, colon == std::string_view::npos ? colon : colon - dots - 2));
  if (!first || !last || !step || *last < *first || (times && *step < 2)) return false;
  for (std::int64_t value = *first; value <= *last;) {
    if (static_cast<std::int64_t>(values.size()) > max_range_values) return false;
    values.push_back(value);
    if (times ? __builtin_mul_overflow(value, *step, &value) : __builtin_add_overflow(value, *step, &value)) break;
  }
  return true;
}

}  // namespace

Result<DimensionValues> parse_range(const std::string& text) {
  const auto syntax_error = [&] {
    return usage_error(fmt::format("expected NAME=VALUES, found '{}'", text),
                       "-d B=256, -d B=1,8,64, -d B=1..4096:*2, or -d B=128..512:128");
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return syntax_error();
  DimensionValues range{.dim = text.substr(0, equals), .values = {}};
  std::string_view rest = std::string_view(text).substr(equals + 1);
  while (true) {
    const std::size_t comma = rest.find(',');
    if (!add_values(rest.substr(0, comma), range.values)) {
      if (const Reason why = explain_empty_range(rest.substr(0, comma)))
        return usage_error(fmt::format("expected values of {}, found that {}", range.dim, why.text()),
                           fmt::format("-d {0}=1..4096:*2, or -d {0}=128..512:128", range.dim));
      if (static_cast<std::int64_t>(range.values.size()) <= max_range_values) return syntax_error();
      break;
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (static_cast<std::int64_t>(range.values.size()) > max_range_values)
    return usage_error(fmt::format("expected at most {} values of {}, found more", max_range_values, range.dim));
  return range;
}

}  // namespace ridge

#include "ridge/base/string_util.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "ridge/base/utf8.h"

namespace ridge {

std::string format_significant(double value, int digits) {
  if (value == 0) return "0";
  const double size = std::fabs(value);
  if (!(size >= 1e-4 && size < 1e15)) return fmt::format("{:.{}g}", value, digits);
  // Digits before the point are never rounded away: 98900.3 is "98900", not "9.89e+04".
  const int before = static_cast<int>(std::floor(std::log10(size))) + 1;
  std::string text =
      fmt::format("{:.{}f}", value, std::max(0, digits - std::max(before, 1) + (before < 1 ? 1 - before : 0)));
  if (text.find('.') != std::string::npos && value == std::round(value)) text.erase(text.find('.'));
  return text;
}

std::string format_with_prefix(double value, std::string_view unit) {
  static constexpr std::array prefixes{"p", "n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Z"};
  if (value == 0) return fmt::format("0 {}", unit);
  if (!std::isfinite(value)) return fmt::format("{} {}", value, unit);
  int power = std::clamp(static_cast<int>(std::floor(std::log10(std::fabs(value)) / 3)), -4, 7);
  double scaled = value / std::pow(1000.0, power);
  if (std::fabs(scaled) >= 999.95 && power < 7) scaled = value / std::pow(1000.0, ++power);
  const bool whole = power == 0 && scaled == std::round(scaled);  // 12 B, not 12.00 B
  int before = 1;
  if (std::fabs(scaled) >= 10) before = 2;
  if (std::fabs(scaled) >= 100) before = 3;
  return fmt::format("{:.{}f} {}{}", scaled, whole ? 0 : 4 - before, prefixes[power + 4], unit);
}

std::string group_digits(__int128 value) {
  std::string digits = fmt::format("{}", value);
  for (std::size_t position = digits.size(); position > 3 + (value < 0 ? 1u : 0u); position -= 3)
    digits.insert(position - 3, 1, ' ');
  return digits;
}

namespace {

// Returns the power of ten of a suffix: 3 for "k", 12 for "e12", 0 for ""; nullopt for any other text.
std::optional<int> power_of_ten(std::string_view text) {
  static constexpr std::pair<std::string_view, int> prefixes[] = {{"", 0}, {"k", 3}, {"M", 6}, {"G", 9}, {"T", 12}};
  for (const auto& [prefix, power] : prefixes)
    if (text == prefix) return power;
  if (text[0] != 'e' && text[0] != 'E') return std::nullopt;
  text.remove_prefix(text.size() > 1 && text[1] == '+' ? 2 : 1);
  int power = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), power);
  const bool read = failed == std::errc() && end == text.data() + text.size();
  return read && power >= 0 && power <= 18 ? std::optional(power) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> parse_whole_number(std::string_view text) {
  std::size_t at = 0;
  int fraction_digits = -1;  // digits after the point; -1 before a point is read
  std::int64_t value = 0;
  for (; at < text.size() && (text[at] == '.' || (text[at] >= '0' && text[at] <= '9')); ++at) {
    if (text[at] == '.' && fraction_digits >= 0) return std::nullopt;
    if (text[at] == '.' || fraction_digits >= 0) ++fraction_digits;
    if (text[at] == '.') continue;
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text[at] - '0', &value))
      return std::nullopt;
  }
  const auto power = at == 0 || text[0] == '.' ? std::nullopt : power_of_ten(text.substr(at));
  if (!power) return std::nullopt;
  for (int i = *power - std::max(fraction_digits, 0); i > 0; --i)
    if (__builtin_mul_overflow(value, 10, &value)) return std::nullopt;
  for (int i = *power - std::max(fraction_digits, 0); i < 0; ++i) {
    if (value % 10 != 0) return std::nullopt;
    value /= 10;
  }
  return value;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string make_printable(std::string_view line) {
  constexpr std::size_t max_characters = 400;
  std::string out;
  for (std::size_t characters = 0; !line.empty();) {
    if (++characters > max_characters) return {};
    const std::size_t size = character_bytes(line);
    const bool control = size == 1 && line[0] != '\t' && (line[0] < ' ' || line[0] == '\x7F');
    out += size == 0 || control ? "?" : line.substr(0, size);
    line.remove_prefix(std::max<std::size_t>(1, size));
  }
  return out;
}

std::string truncate_text(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t characters = 0, kept = 0;  // kept: bytes of the first `width` - 3 characters
  for (; !text.empty(); ++characters) {
    if (characters == width) return out.substr(0, kept) + "...";
    const std::size_t size = character_bytes(text);
    out += size == 0 ? "\xEF\xBF\xBD" : text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(1, size));
    if (characters + 1 + 3 == width) kept = out.size();
  }
  return out;
}

std::string_view trim_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return text.substr(0, 0);
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

std::string to_lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string align_columns(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right,
                          std::string_view separator) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], count_characters(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - count_characters(row[i]), ' ');
      const bool flush_right = i < right.size() && right[i];
      line.append(i > 0 ? separator : "").append(flush_right ? pad + row[i] : row[i] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

namespace {

// Returns the optimal string alignment distance: insertions, deletions, replacements and swaps of adjacent letters.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1] ? 1u : 0u)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string find_nearest(std::string_view typed, const std::vector<std::string>& candidates) {
  constexpr std::size_t max_characters = 64;  // longer input is no typing mistake; bounds the table
  if (typed.size() > max_characters) return "";
  std::string best;
  // A single letter must match, because replacing it changes everything.
  std::size_t min_distance = typed.size() < 2 ? 1 : std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > max_characters) continue;
    const std::size_t d = edit_distance(typed, candidate);
    if (d < min_distance) {
      min_distance = d;
      best = candidate;
    }
  }
  return best;
}

}  // namespace ridge

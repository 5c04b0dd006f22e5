// Formatting and parsing of numbers and text. Numbers have four digits and a prefix: 2.147e9 FLOP is "2.147 GFLOP".
// Prefixes are decimal (k = 1000) for rates and sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge {

std::string format_with_prefix(double value, std::string_view unit);  // "402.7 MB", "197.0 TFLOP/s", "0 B"
std::string format_significant(double value, int digits = 4);         // "255.5", "0.1667", "98900", "1.2e+21"
std::string group_digits(__int128 value);                             // "2 147 483 648"

// Parses "4096", "4k", "1.5M", "1e6" or "15e12"; the suffixes k, M, G, T are decimal. Returns nullopt if the text is
// not a whole number from 0 to 2^63 - 1.
std::optional<std::int64_t> parse_whole_number(std::string_view text);

// Returns the number of UTF-8 characters, one column each.
std::size_t count_characters(std::string_view text);

// Returns a line that is safe to print: control characters except tabs and invalid UTF-8 become '?'. Returns "" for a
// line of more than 400 characters.
std::string make_printable(std::string_view line);

// Returns at most `width` characters, ending with "..." if some were cut; invalid UTF-8 becomes U+FFFD.
std::string truncate_text(std::string_view text, std::size_t width);

// Returns the text without white space at its ends.
std::string_view trim_blanks(std::string_view text);
std::string to_lower_case(std::string_view text);  // ASCII letters only

// Formats rows of cells as lines with aligned columns, `separator` between two. Column i is right-aligned if right[i].
std::string align_columns(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right,
                          std::string_view separator = "  ");

// Returns the candidate with the smallest edit distance, or "" if more than a third of the letters differ. A swap of
// adjacent letters counts 1.
std::string find_nearest(std::string_view typed, const std::vector<std::string>& candidates);

}  // namespace ridge

// Numbers as people read them: four digits and a prefix, 2.147e9 FLOP is "2.147 GFLOP", 1.01e-3 s is "1.011 ms".
// Prefixes are decimal throughout (k = 1000), for rates and for sizes alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge {

std::string engineering(double value, std::string_view unit);  // "402.7 MB", "197.0 TFLOP/s", "0 B"
std::string significant(double value, int digits = 4);         // "255.5", "0.1667", "98900", "1.2e+21"
std::string grouped(__int128 value);                           // "2147483648" as "2 147 483 648"

// A whole number as people write it: "4096", "4k", "1.5M", "1e6", "15e12"; prefixes k, M, G, T are decimal. None: it is
// none, is negative, or leaves 2^63.
std::optional<std::int64_t> whole_number(std::string_view text);

// How many columns a UTF-8 text takes, one a character.
std::size_t columns(std::string_view text);

// One line of somebody's text, fit to stand in a message: control characters but the tab, and what is no UTF-8, become
// question marks; a line of more than 400 characters is not worth repeating and becomes "".
std::string printable(std::string_view line);

// At most `width` characters, the last three of them dots where there were more; what is no UTF-8 becomes U+FFFD.
std::string shortened(std::string_view text, std::size_t width);

// Rows of cells as lines; a column is as wide as its widest cell. right[i]: column i is flush right.
std::string aligned(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right);

// The candidate nearest to what was typed, by edit distance with neighbours swapped counting 1; empty: none is near
// (more than a third of the letters differ).
std::string nearest(std::string_view typed, const std::vector<std::string>& candidates);

}  // namespace ridge

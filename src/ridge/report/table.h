// Tables as text, Markdown and CSV. The first row is the header.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ridge {

using Cells = std::vector<std::vector<std::string>>;

// Numbers of a table: with a metric prefix and a unit, or bare in SI units, as in CSV.
enum class NumberStyle { readable, bare };

// Flattens JSON into rows: one per element of the array named `list`, or one per document if `list` is empty. Nested
// keys become columns: {"tile": {"m": 64}} is tile.m. Elements of an array are named by their "library" or "name", else
// by their index. Missing values are empty.
Cells flatten_json(const std::string& json, const std::string& list);
// Returns, for each column, true if it holds only numbers, which are right-aligned.
std::vector<bool> number_columns(const Cells& cells);

// Style of a text report.
struct TextStyle {
  bool color = false;
  bool show_all = false;       // Show every formula and threshold
  std::size_t line_width = 0;  // Maximum number of characters in a line of a table; 0 for no limit
};

// Layout of a text table. A table that is wider than `TextStyle::line_width` is shortened until it fits. A column of
// prose is cut to the space that is left, if that is at least 20 characters; otherwise a whole column is left out, but
// never the first. A line below the table names the columns that are left out.
struct TableLayout {
  std::vector<bool> right = {};                // right[i]: column i is right-aligned
  std::vector<std::string> omit_first = {};    // Headers of the least important columns, in this order; then rightmost
  std::string separator = "  ";                // Text between two columns
  std::vector<std::string> column_names = {};  // Names of the columns, if the first row is no header
  bool is_in_csv = true;                       // True if --csv prints the same columns
};
std::string text_table(const Cells& cells, const TableLayout& layout, const TextStyle& style);
// Breaks a text at blanks into lines of at most `width` characters, if possible; later lines begin with `indent`
// blanks. Width 0 means no limit.
std::string wrap_words(const std::string& text, std::size_t width, std::size_t indent = 0);
std::string markdown_table(const Cells& cells, const std::vector<bool>& right);
// Returns the number, or "-" if there is none.
template <class T> std::string or_dash(const std::optional<T>& value) { return value ? std::to_string(*value) : "-"; }
// Quotes a cell as in RFC 4180 if it holds a comma, a quote or a line end.
std::string csv_cell(const std::string& text);
std::string csv_table(const Cells& cells);

}  // namespace ridge

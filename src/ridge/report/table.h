// Tables as text, Markdown and CSV. The first row is the header.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ridge {

using Cells = std::vector<std::vector<std::string>>;

// Flattens JSON into rows: one per element of the array named `list`, or one per document if `list` is empty. Nested
// keys become columns: {"tile": {"m": 64}} is tile.m. Elements of an array are named by their "library" or "name", else
// by their index. Missing values are empty.
Cells flatten_json(const std::string& json, const std::string& list);
// Returns, for each column, true if it holds only numbers, which are right-aligned.
std::vector<bool> number_columns(const Cells& cells);

// right[i]: column i is right-aligned.
std::string text_table(const Cells& cells, const std::vector<bool>& right, bool color);
std::string markdown_table(const Cells& cells, const std::vector<bool>& right);
// Returns the number, or "-" if there is none.
template <class T> std::string or_dash(const std::optional<T>& value) { return value ? std::to_string(*value) : "-"; }
// Quotes a cell as in RFC 4180 if it holds a comma, a quote or a line end.
std::string csv_cell(const std::string& text);
std::string csv_table(const Cells& cells);

}  // namespace ridge

// Cells as a text table, as Markdown, and as CSV: the same rows wherever results print. The first row is the head.
#pragma once

#include <string>
#include <vector>

namespace ridge {

using Cells = std::vector<std::vector<std::string>>;

// What a verb prints as JSON, as rows: one for each element of the array called `list`, or, where that is empty, for
// each line of JSON. A number in an object has a column of its own: {"tile": {"m": 64}} is tile.m; in a list of objects
// it is called by its "library" or "name", else by its place. What a row lacks is empty.
Cells rows_of(const std::string& json, const std::string& list);
// Which columns hold numbers alone, and so are flush right.
std::vector<bool> number_columns(const Cells& cells);

// right[i]: column i is flush right.
std::string text_table(const Cells& cells, const std::vector<bool>& right, bool color);
std::string markdown_table(const Cells& cells, const std::vector<bool>& right);
// Quoted as RFC 4180 wants it where a cell holds a comma, a quote or a line end.
std::string csv_cell(const std::string& text);
std::string csv_table(const Cells& cells);

}  // namespace ridge

// Cells as a text table, as Markdown, and as CSV: the same rows wherever results print. The first row is the head.
#pragma once

#include <string>
#include <vector>

namespace ridge {

using Cells = std::vector<std::vector<std::string>>;

// right[i]: column i is flush right.
std::string text_table(const Cells& cells, const std::vector<bool>& right, bool color);
std::string markdown_table(const Cells& cells, const std::vector<bool>& right);
// Quoted as RFC 4180 wants it where a cell holds a comma, a quote or a line end.
std::string csv_table(const Cells& cells);

}  // namespace ridge

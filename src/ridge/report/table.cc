#include "ridge/report/table.h"

#include "ridge/base/text.h"

namespace ridge {

std::string text_table(const Cells& cells, const std::vector<bool>& right, bool color) {
  const std::string all = aligned(cells, right);
  const std::size_t end = all.find('\n');
  return color ? "\x1b[1m" + all.substr(0, end) + "\x1b[0m" + all.substr(end) : all;
}

std::string markdown_table(const Cells& cells, const std::vector<bool>& right) {
  std::string out;
  for (std::size_t row = 0; row < cells.size(); ++row) {
    for (const std::string& cell : cells[row]) {
      out += "| ";
      for (const char c : cell) out += c == '|' ? std::string("\\|") : std::string(1, c);
      out += ' ';
    }
    out += "|\n";
    if (row > 0) continue;
    for (std::size_t i = 0; i < cells[0].size(); ++i) out += i < right.size() && right[i] ? "| ---: " : "| --- ";
    out += "|\n";
  }
  return out;
}

std::string csv_table(const Cells& cells) {
  std::string out;
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out += ',';
      if (row[i].find_first_of(",\"\r\n") == std::string::npos) {
        out += row[i];
        continue;
      }
      out += '"';
      for (const char c : row[i]) out += c == '"' ? std::string("\"\"") : std::string(1, c);
      out += '"';
    }
    out += '\n';
  }
  return out;
}

}  // namespace ridge

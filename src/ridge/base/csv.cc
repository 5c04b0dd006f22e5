#include "ridge/base/csv.h"

#include <algorithm>

#include "ridge/base/string_util.h"

namespace ridge {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::vector<CsvCell> split_cells(std::string_view line) {
  std::vector<CsvCell> out;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = std::min(line.find(',', begin), line.size());
    std::size_t first = begin, last = comma;
    while (first < last && is_blank(line[first])) ++first;
    while (last > first && is_blank(line[last - 1])) --last;
    out.push_back(
        {std::string(line.substr(first, last - first)), static_cast<int>(count_characters(line.substr(0, first))) + 1});
    if (comma == line.size()) return out;
    begin = comma + 1;
  }
}

}  // namespace

std::vector<CsvLine> read_csv(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<CsvLine> out;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!std::all_of(line.begin(), line.end(), is_blank)) out.push_back({number, line, split_cells(line)});
  }
  return out;
}

Error error_at_cell(Error error, const std::string& source, const CsvLine& line, const CsvCell& cell) {
  error.source = source;
  error.span = {line.number, cell.column, std::max(1, static_cast<int>(count_characters(cell.text)))};
  error.line_text = make_printable(line.text);
  return error;
}

}  // namespace ridge

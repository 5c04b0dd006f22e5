#include "ridge/base/fitted_file.h"

#include <algorithm>
#include <charconv>

namespace ridge {

Result<FittedFile> parse_fitted_file(std::string_view text, const std::string& source, std::string_view columns) {
  FittedFile out{.source = source};
  bool header_seen = false;
  for (CsvLine& line : read_csv(text)) {
    if (line.text.starts_with('#')) {
      const std::size_t colon = line.text.find(": ");
      if (colon != std::string_view::npos && colon > 2)
        out.properties.emplace(line.text.substr(2, colon - 2), line.text.substr(colon + 2));
    } else if (!header_seen) {
      if (line.text != columns)
        return error_at_cell(input_error(fmt::format("expected the columns {}, found {}", columns, line.text)), source,
                             line, line.cells[0]);
      header_seen = true;
    } else {
      const auto cells = static_cast<std::size_t>(std::count(columns.begin(), columns.end(), ',')) + 1;
      if (line.cells.size() < cells)
        return error_at_cell(input_error(fmt::format("expected {} cells, found {}", cells, line.cells.size())), source,
                             line, line.cells.back());
      out.lines.push_back(std::move(line));
    }
  }
  return out;
}

Result<double> parse_cell(const FittedFile& file, const CsvLine& line, std::size_t cell) {
  const std::string& text = line.cells[cell].text;
  double number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec == std::errc{} && end.ptr == text.data() + text.size()) return number;
  return error_at_cell(input_error(fmt::format("expected a number, found '{}'", text)), file.source, line,
                       line.cells[cell]);
}

Result<NamedRows> read_named_rows(const FittedFile& file, std::size_t first, std::size_t count) {
  NamedRows out;
  for (const CsvLine& line : file.lines) {
    std::vector<double>& row = out[line.cells[0].text];
    if (!row.empty())
      return error_at_cell(input_error(fmt::format("expected each name once, found '{}' twice", line.cells[0].text)),
                           file.source, line, line.cells[0]);
    for (std::size_t i = first; i < first + count; ++i) {
      RIDGE_TRY(number, parse_cell(file, line, i));
      row.push_back(number);
    }
  }
  return out;
}

}  // namespace ridge

#include "ridge/program/bindings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "ridge/base/contains.h"
#include "ridge/base/csv.h"
#include "ridge/base/string_util.h"

namespace ridge {
namespace {

// Value of a text, or a description of the expected text: "a whole number of at least 1".
struct ParsedWholeNumber {
  std::int64_t value = 0;
  std::string expected = {};
};

ParsedWholeNumber parse_whole(std::string_view text, std::string_view otherwise) {
  if (const auto number = parse_whole_number(text)) return {*number};
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = end == text.data() + text.size() && failed != std::errc::invalid_argument;
  if (all && failed == std::errc()) return {value};
  return {0, all && text[0] != '-' ? "a whole number below 2^63" : std::string(otherwise)};
}

class CsvTableParser {
 public:
  CsvTableParser(std::string_view csv, const std::string& source) : lines_(read_csv(csv)), source_(source) {}

  Result<std::vector<Bindings>> parse_rows() {
    for (std::size_t i = 0; i < lines_.size(); ++i)
      RIDGE_TRY_STATUS(i == 0 ? read_header(lines_[0]) : read_row(lines_[i]));
    if (!rows_.empty()) return std::move(rows_);
    Error none =
        input_error("expected a header of dimension names and at least one row, found none", "B,D\n        1,8192");
    none.source = source_;
    return none;
  }

 private:
  Status read_header(const CsvLine& line) {
    for (const CsvCell& cell : line.cells) {
      if (contains(names_, cell.text))
        return error_at_cell(input_error(fmt::format("dimension '{}' appears twice in the header", cell.text)), source_,
                             line, cell);
      if (cell.text.empty() || (cell.text[0] >= '0' && cell.text[0] <= '9'))
        return error_at_cell(input_error(fmt::format("expected the name of a dimension, found '{}'", cell.text),
                                         "the first line names the dimensions: B,D"),
                             source_, line, cell);
      names_.push_back(cell.text);
    }
    return Done{};
  }

  Status read_row(const CsvLine& line) {
    if (line.cells.size() != names_.size())
      return error_at_cell(input_error(fmt::format("expected {} values, found {}", names_.size(), line.cells.size())),
                           source_, line, line.cells.back());
    Bindings dims;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const CsvCell& cell = line.cells[i];
      ParsedWholeNumber read = parse_whole(cell.text, "a whole number of at least 1");
      if (read.expected.empty() && read.value < 1) read.expected = "a whole number of at least 1";
      if (!read.expected.empty())
        return error_at_cell(
            input_error(fmt::format("expected {} for {}, found '{}'", read.expected, names_[i], cell.text)), source_,
            line, cell);
      dims[names_[i]] = read.value;
    }
    rows_.push_back(std::move(dims));
    return Done{};
  }

  std::vector<CsvLine> lines_;
  std::string source_;
  std::vector<std::string> names_;
  std::vector<Bindings> rows_;
};

}  // namespace

Result<Bindings> parse_assignments(const std::vector<std::string>& texts) {
  Bindings out;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return usage_error(fmt::format("expected NAME=VALUE after -d, found '{}'", text), "-d B=256");
    const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
    const ParsedWholeNumber read = parse_whole(value, "a whole number");
    if (!read.expected.empty())
      return usage_error(fmt::format("expected {} for {}, found '{}'", read.expected, name, value),
                         fmt::format("-d {}=256", name));
    if (const auto [existing, is_new] = out.emplace(name, read.value); !is_new)
      return usage_error(
          fmt::format("dimension '{}' is given twice, as {} and as {}", name, existing->second, read.value),
          "give each dimension once");
  }
  return out;
}

Result<std::vector<Bindings>> parse_table(std::string_view csv, const std::string& source) {
  return CsvTableParser(csv, source).parse_rows();
}

}  // namespace ridge

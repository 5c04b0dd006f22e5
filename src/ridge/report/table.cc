#include "ridge/report/table.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace ridge {
namespace {

struct Cell {
  std::string text;
  int column = 1;
};

std::vector<Cell> cells(std::string_view line) {
  std::vector<Cell> out;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t comma = std::min(line.find(',', begin), line.size());
    std::size_t first = begin, last = comma;
    while (first < last && (line[first] == ' ' || line[first] == '\t')) ++first;
    while (last > first && (line[last - 1] == ' ' || line[last - 1] == '\t')) --last;
    out.push_back({std::string(line.substr(first, last - first)), static_cast<int>(first) + 1});
    if (comma == line.size()) return out;
    begin = comma + 1;
  }
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class Table {
 public:
  explicit Table(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Bindings>> parse(std::string_view csv) {
    while (!csv.empty()) {
      const std::size_t end = std::min(csv.find('\n'), csv.size());
      line_ = csv.substr(0, end);
      if (line_.ends_with('\r')) line_.remove_suffix(1);
      csv.remove_prefix(std::min(end + 1, csv.size()));
      ++number_;
      if (line_.find_first_not_of(" \t") == std::string_view::npos) continue;
      const Status read = names_.empty() ? header() : row();
      if (!read) return read.error();
    }
    if (rows_.empty())
      return at({"", 0}, "expected a header of dimension names and at least one row, found none",
                "B,D\n        1,8192");
    return std::move(rows_);
  }

 private:
  Error at(const Cell& cell, std::string message, std::string hint = "") const {
    Error error = input_error(std::move(message), std::move(hint));
    error.source = source_;
    if (cell.column > 0) {
      error.span = {number_, cell.column, std::max(1, static_cast<int>(cell.text.size()))};
      error.line_text = line_;
    }
    return error;
  }

  Status header() {
    for (const Cell& cell : cells(line_)) {
      for (const std::string& name : names_)
        if (name == cell.text) return at(cell, fmt::format("dimension '{}' stands twice in the header", cell.text));
      if (cell.text.empty() || (cell.text[0] >= '0' && cell.text[0] <= '9'))
        return at(cell, fmt::format("expected the name of a dimension, found '{}'", cell.text),
                  "the first line names the dimensions: B,D");
      names_.push_back(cell.text);
    }
    return Done{};
  }

  Status row() {
    const std::vector<Cell> values = cells(line_);
    if (values.size() != names_.size())
      return at(values.back(), fmt::format("expected {} values, found {}", names_.size(), values.size()));
    Bindings dims;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = whole_number(values[i].text);
      if (!value || *value < 1)
        return at(values[i],
                  fmt::format("expected a whole number of at least 1 for {}, found '{}'", names_[i], values[i].text));
      dims[names_[i]] = *value;
    }
    rows_.push_back(std::move(dims));
    return Done{};
  }

  std::string source_;
  std::string_view line_;
  int number_ = 0;
  std::vector<std::string> names_;
  std::vector<Bindings> rows_;
};

}  // namespace

Result<std::vector<Bindings>> parse_table(std::string_view csv, const std::string& source) {
  return Table(source).parse(csv);
}

Result<std::pair<std::string, std::int64_t>> parse_assignment(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return usage_error(fmt::format("expected NAME=VALUE after -d, found '{}'", text), "-d B=256");
  const auto value = whole_number(std::string_view(text).substr(equals + 1));
  if (!value)
    return usage_error(
        fmt::format("expected a whole number for {}, found '{}'", text.substr(0, equals), text.substr(equals + 1)),
        fmt::format("-d {}=256", text.substr(0, equals)));
  return std::pair(text.substr(0, equals), *value);
}

}  // namespace ridge

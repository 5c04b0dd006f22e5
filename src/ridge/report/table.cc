#include "ridge/report/table.h"

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/report/json_values.h"

namespace ridge {
namespace {

class RowFlattener {
 public:
  void add_row(const Json& row) {
    cells_.emplace_back(cells_.empty() ? 0 : cells_[0].size());
    flatten("", row);
  }
  Cells cells() && {
    for (auto& row : cells_) row.resize(cells_[0].size());
    return std::move(cells_);
  }

 private:
  void flatten(const std::string& name, const Json& value) {
    if (value.is_object())
      for (const auto& [key, inner] : value.items()) flatten(name.empty() ? key : name + "." + key, inner);
    else if (value.is_array())
      for (std::size_t i = 0; i < value.size(); ++i) flatten(name + "." + element_name(value[i], i), value[i]);
    else if (value.is_string())
      cell_of(name) = value.get<std::string>();
    else if (!value.is_null())
      cell_of(name) = value.dump();
    else if (!has_parts(name))
      cell_of(name) = "";
  }
  bool has_parts(const std::string& name) const {
    return std::any_of(cells_[0].begin(), cells_[0].end(),
                       [&](const std::string& head) { return head.starts_with(name + "."); });
  }
  static std::string element_name(const Json& element, std::size_t index) {
    for (const char* key : {"library", "name"})
      if (element.is_object() && element.contains(key)) return element[key].get<std::string>();
    return std::to_string(index);
  }
  std::string& cell_of(const std::string& name) {
    const auto found = std::find(cells_[0].begin(), cells_[0].end(), name);
    const auto column = static_cast<std::size_t>(found - cells_[0].begin());
    if (found == cells_[0].end()) cells_[0].push_back(name);
    if (cells_.back().size() <= column) cells_.back().resize(column + 1);
    return cells_.back()[column];
  }
  Cells cells_{{}};
};

}  // namespace

Cells flatten_json(const std::string& json, const std::string& list) {
  RowFlattener rows;
  if (!list.empty()) {
    for (const Json& row : Json::parse(json).value(list, Json::array())) rows.add_row(row);
    return std::move(rows).cells();
  }
  // Consecutive documents, each on one line or indented. A document begins with '{' at the start of a line.
  for (std::size_t at = 0; at < json.size();) {
    const std::size_t close = json.find("\n{", at);
    const std::size_t end = close == std::string::npos ? json.size() : close + 1;
    Json row = Json::parse(json.substr(at, end - at));
    for (const char* key : {"schema", "verb", "provenance"}) row.erase(key);
    rows.add_row(row);
    at = end;
  }
  return std::move(rows).cells();
}

std::vector<bool> number_columns(const Cells& cells) {
  std::vector<bool> out(cells.empty() ? 0 : cells[0].size(), true);
  for (std::size_t row = 1; row < cells.size(); ++row)
    for (std::size_t i = 0; i < cells[row].size(); ++i)
      out[i] = out[i] && cells[row][i].find_first_not_of("+-.0123456789e") == std::string::npos;
  return out;
}

std::string text_table(const Cells& cells, const std::vector<bool>& right, bool color) {
  const std::string all = align_columns(cells, right);
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

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string csv_table(const Cells& cells) {
  std::string out;
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) out += (i > 0 ? "," : "") + csv_cell(row[i]);
    out += '\n';
  }
  return out;
}

}  // namespace ridge

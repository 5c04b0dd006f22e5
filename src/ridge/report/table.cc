#include "ridge/report/table.h"

#include <algorithm>
#include <sstream>

#include "ridge/base/contains.h"
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
    const std::size_t column = found - cells_[0].begin();
    if (found == cells_[0].end()) cells_[0].push_back(name);
    if (cells_.back().size() <= column) cells_.back().resize(column + 1);
    return cells_.back()[column];
  }
  Cells cells_{{}};
};

constexpr std::size_t min_text_width = 20;  // A column of prose is cut to this many characters, not to less
constexpr std::size_t min_last_width = 8;   // The same if no further column can be left out

// Shortens a table to the width of a terminal.
class TableFitter {
 public:
  TableFitter(Cells cells, const TableLayout& layout)
      : cells_(std::move(cells)), layout_(layout), names_(layout.column_names) {
    if (names_.empty() && !cells_.empty()) names_ = cells_.front();
    for (const auto& row : cells_) widths_.resize(std::max(widths_.size(), row.size()));
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      columns_.push_back(i);
      measure(i);
    }
  }

  void fit(std::size_t width) {
    while (total_width() > width) {
      if (cut_prose(width)) return;
      if (columns_.size() <= min_column_count()) break;
      omit(choose_omitted());
    }
    while (total_width() > width && cut_widest_text(total_width() - width)) continue;
  }

  std::string rendered() const {
    Cells shown(cells_.size());
    std::vector<bool> right;
    for (const std::size_t i : columns_) {
      right.push_back(is_right(i));
      for (std::size_t row = 0; row < cells_.size(); ++row)
        if (i < cells_[row].size()) shown[row].push_back(cells_[row][i]);
    }
    return align_columns(shown, right, layout_.separator);
  }

  // Returns the line that names the columns that are left out, or "". Cut cells end in "...".
  std::string note(std::size_t width) const {
    if (omitted_.empty() && (cut_.empty() || !has_header())) return {};
    std::string out = omitted_.empty() ? "" : "left out: " + join_names(omitted_);
    if (!cut_.empty()) out += (out.empty() ? "cut: " : "; cut: ") + join_names(cut_);
    out += std::string("; ") + (has_header() && layout_.is_in_csv ? "--csv or " : "") + "COLUMNS=0 shows all";
    return wrap_words("(" + out + ")", width) + "\n";
  }

 private:
  bool has_header() const { return layout_.column_names.empty(); }
  bool is_right(std::size_t column) const { return column < layout_.right.size() && layout_.right[column]; }

  void measure(std::size_t column) {
    widths_[column] = 0;
    for (const auto& row : cells_)
      if (column < row.size()) widths_[column] = std::max(widths_[column], count_characters(row[column]));
  }

  std::size_t total_width() const {
    std::size_t out = 0;
    for (const std::size_t i : columns_) out += widths_[i] + (i == columns_.front() ? 0 : layout_.separator.size());
    return out;
  }

  std::string name(std::size_t column) const {
    const std::string name = column < names_.size() ? names_[column] : "";
    const std::string trimmed(trim_blanks(name));
    return trimmed.empty() ? "notes" : trimmed;
  }

  std::string join_names(const std::vector<std::size_t>& columns) const {
    std::string out;
    for (std::size_t i = 0; i < widths_.size(); ++i)
      if (contains(columns, i)) out += (out.empty() ? "" : ", ") + name(i);
    return out;
  }

  // A comparison of two values keeps both if its labels are texts that can be cut, as in `explain --chain`.
  std::size_t min_column_count() const { return has_header() && has_words(columns_.front()) ? 3 : 2; }

  // True if a cut cell of the column is still useful: its longest cell has several words, so that it is no name.
  bool has_words(std::size_t column) const {
    if (is_right(column)) return false;
    for (const auto& row : cells_)
      if (column < row.size() && count_characters(row[column]) == widths_[column])
        return row[column].find(' ') != std::string::npos;
    return false;
  }

  // Returns the widest column that fulfills the condition.
  template <class Predicate> std::optional<std::size_t> widest_where(const Predicate& is_candidate) const {
    std::optional<std::size_t> widest;
    for (const std::size_t i : columns_)
      if (is_candidate(i) && (!widest || widths_[i] > widths_[*widest])) widest = i;
    return widest;
  }

  void cut(std::size_t column, std::size_t width) {
    for (auto& row : cells_)
      if (column < row.size()) row[column] = truncate_text(row[column], width);
    measure(column);
    cut_.push_back(column);
  }

  // Cuts the widest column of prose to the space that is left, if that is at least `min_text_width` characters. Returns
  // true if the table fits.
  bool cut_prose(std::size_t width) {
    const auto column = widest_where([&](std::size_t i) { return i != columns_.front() && has_words(i); });
    const std::size_t excess = total_width() - width;
    if (!column || widths_[*column] < min_text_width + excess) return false;
    cut(*column, widths_[*column] - excess);
    return true;
  }

  // Cuts the widest text column by at most `excess` characters, or by a third of its width. Returns false if it has
  // `min_last_width` characters already.
  bool cut_widest_text(std::size_t excess) {
    const auto column = widest_where([&](std::size_t i) { return !is_right(i); });
    if (!column || widths_[*column] <= min_last_width) return false;
    const std::size_t width = widths_[*column];
    cut(*column, std::max(min_last_width, width - std::min(excess, (width + 2) / 3)));
    return true;
  }

  std::size_t choose_omitted() const {
    for (const std::string& each : layout_.omit_first)
      for (const std::size_t i : columns_)
        if (i != columns_.front() && name(i) == each) return i;
    return columns_.back();
  }

  void omit(std::size_t column) {
    std::erase(columns_, column);
    omitted_.push_back(column);
  }

  Cells cells_;
  const TableLayout& layout_;
  std::vector<std::string> names_;
  std::vector<std::size_t> widths_;   // By column
  std::vector<std::size_t> columns_;  // Columns that remain
  std::vector<std::size_t> omitted_, cut_;
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

std::string text_table(const Cells& cells, const TableLayout& layout, const TextStyle& style) {
  TableFitter fitter(cells, layout);
  if (style.line_width > 0) fitter.fit(style.line_width);
  const std::string all = fitter.rendered();
  const std::size_t end = all.find('\n');
  const bool is_bold = style.color && layout.column_names.empty() && end != std::string::npos;
  return (is_bold ? "\x1b[1m" + all.substr(0, end) + "\x1b[0m" + all.substr(end) : all) + fitter.note(style.line_width);
}

std::string wrap_words(const std::string& text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t used = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t size = count_characters(word);
    if (!out.empty() && width > 0 && used + 1 + size > width) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else if (!out.empty()) {
      out += ' ';
      ++used;
    }
    out += word;
    used += size;
  }
  return out;
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

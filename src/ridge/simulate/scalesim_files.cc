#include "ridge/simulate/scalesim_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <map>

#include "ridge/base/string_util.h"

namespace ridge {
namespace {

constexpr std::int64_t max_cell_value = (std::int64_t{1} << 31) - 1;

struct TextLine {
  std::string_view text;
  int number = 0;
};

std::vector<TextLine> split_lines(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<TextLine> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back({line, number});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Returns an excerpt for messages, printable and at most 40 bytes long.
std::string printable_excerpt(std::string_view s) {
  std::string out;
  for (const char c : s.substr(0, 40)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return s.size() > 40 ? out + "…" : out;
}

// Returns the number of characters, so that carets align.
int count_columns(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Returns an error at `part`, which is a view into `line.text`, possibly empty at its end.
Error error_at(const TextLine& line, std::string_view part, std::string_view source, std::string message,
               std::string hint = {}) {
  Error error = input_error(std::move(message), std::move(hint));
  error.source = std::string(source);
  const std::size_t begin = std::min(static_cast<std::size_t>(part.data() - line.text.data()), line.text.size());
  error.span = {line.number, count_columns(line.text.substr(0, begin)) + 1, std::max(1, count_columns(part))};
  error.line_text = std::string(line.text);
  return error;
}

std::optional<std::int64_t> whole_number(std::string_view s) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (code != std::errc() || end != s.data() + s.size() || value < 0 || value > max_cell_value) return std::nullopt;
  return value;
}

std::vector<std::string_view> split_cells(std::string_view text) {
  const char separator = text.find(',') == std::string_view::npos ? '\t' : ',';
  std::vector<std::string_view> cells;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view cell = trim_blanks(text.substr(0, end));
    cells.push_back(cell);
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  while (!cells.empty() && cells.back().empty()) cells.pop_back();
  return cells;
}

struct TopologyHeader {
  bool has_products = false;
  bool has_two_strides = false;         // the stride's height and width
  std::vector<std::string_view> sizes;  // names of the required columns after the name
  std::size_t columns = 0;              // number of columns, the name included
  std::size_t batch_column = 0;         // index of the batch column; 0 without one
};

constexpr std::string_view convolution_columns[] = {"IFMAP height", "IFMAP width", "filter height", "filter width",
                                                    "channels",     "filters",     "stride"};
constexpr std::string_view product_columns[] = {"M", "N", "K"};
// Columns without an effect: dense weights are checked by their cells, and one of SCALE-Sim's files has outputs' sizes.
constexpr std::string_view ignored_columns[] = {"", "sparsity", "eh", "ew", "e2"};

bool names_stride(std::string_view cell, std::string_view direction) {
  const std::string name = to_lower_case(cell);
  return name.starts_with("stride") && name.find(direction) != std::string::npos;
}

// Returns an error at a column that is neither required, nor a batch, nor known to have no effect: its numbers would be
// dropped.
Result<TopologyHeader> parse_header(const TextLine& line, std::string_view source) {
  const std::vector<std::string_view> cells = split_cells(line.text);
  TopologyHeader header;
  header.columns = cells.size();
  header.has_products = cells.size() >= 4 && to_lower_case(cells[1]) == "m" && to_lower_case(cells[2]) == "n" &&
                        to_lower_case(cells[3]) == "k";
  if (header.has_products)
    header.sizes.assign(std::begin(product_columns), std::end(product_columns));
  else
    header.sizes.assign(std::begin(convolution_columns), std::end(convolution_columns));
  header.has_two_strides =
      !header.has_products && cells.size() > 8 && names_stride(cells[7], "height") && names_stride(cells[8], "width");
  if (header.has_two_strides) header.sizes.push_back("stride width");
  for (std::size_t i = header.sizes.size() + 1; i < cells.size(); ++i) {
    const std::string name = to_lower_case(cells[i]);
    if (name.starts_with("batch"))
      header.batch_column = i;
    else if (std::ranges::find(ignored_columns, name) == std::end(ignored_columns))
      return error_at(line, cells[i], source,
                      fmt::format("expected the columns {}, then Batch or Sparsity, found '{}'",
                                  fmt::join(header.sizes, ", "), printable_excerpt(cells[i])),
                      "name it Batch if each layer has that many rows or images, or remove the column");
  }
  return header;
}

// Numbers of a row, in column order, and its batch.
struct LayerNumbers {
  std::vector<std::int64_t> numbers;
  std::int64_t batch = 1;
};

Result<LayerNumbers> parse_numbers(const TextLine& line, const std::vector<std::string_view>& cells,
                                   const TopologyHeader& header, std::string_view source) {
  LayerNumbers layer_numbers;
  for (std::size_t i = 1; i <= header.sizes.size(); ++i) {
    const std::string_view column = header.sizes[i - 1];
    if (i >= cells.size())
      return error_at(line, line.text.substr(line.text.size()), source,
                      fmt::format("expected {} numbers after the name, found {}: {} is missing", header.sizes.size(),
                                  cells.size() - 1, column));
    const std::optional<std::int64_t> number = whole_number(cells[i]);
    if (!number || *number < 1)
      return error_at(line, cells[i], source,
                      fmt::format("expected a whole number from 1 to {} for {}, found '{}'", max_cell_value, column,
                                  printable_excerpt(cells[i])));
    layer_numbers.numbers.push_back(*number);
  }
  for (std::size_t i = header.sizes.size() + 1; i < cells.size(); ++i) {
    if (const std::size_t colon = cells[i].find(':'); colon != std::string_view::npos) {
      if (trim_blanks(cells[i].substr(0, colon)) != trim_blanks(cells[i].substr(colon + 1)))
        return error_at(line, cells[i], source,
                        fmt::format("expected dense weights (1:1), found {}", printable_excerpt(cells[i])),
                        "sparse weights are not simulated");
    } else if (i == header.batch_column) {
      const std::optional<std::int64_t> batch = whole_number(cells[i]);
      if (!batch || *batch < 1)
        return error_at(line, cells[i], source,
                        fmt::format("expected a whole number from 1 to {} for the batch, found '{}'", max_cell_value,
                                    printable_excerpt(cells[i])));
      layer_numbers.batch = *batch;
    } else if (i >= header.columns && !cells[i].empty()) {
      return error_at(
          line, cells[i], source,
          fmt::format("expected at most {} cells, as the header has, found {}", header.columns, cells.size()),
          "name the column, for example Batch");
    }
  }
  return layer_numbers;
}

Result<TopologyLayer> parse_layer(const TextLine& line, const std::vector<std::string_view>& cells,
                                  const TopologyHeader& header, std::string_view source) {
  RIDGE_TRY(layer_numbers, parse_numbers(line, cells, header, source));
  const std::vector<std::int64_t>& n = layer_numbers.numbers;
  TopologyLayer layer;
  layer.name = std::string(cells[0]);
  if (header.has_products) {
    layer.product = {n[0] * layer_numbers.batch, n[1], n[2]};
    return layer;
  }
  Convolution v{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[header.has_two_strides ? 7 : 6], layer_numbers.batch};
  if (cells[0].find("DP") != std::string_view::npos) {
    layer.copies = v.channels;
    v.channels = 1;
  }
  const Result<ProductSize> product = to_product_size(v);
  if (!product) return error_at(line, trim_blanks(line.text), source, product.error().message);
  layer.product = *product;
  layer.convolution = v;
  return layer;
}

}  // namespace

Result<std::vector<TopologyLayer>> parse_topology(std::string_view text, std::string_view source) {
  const std::vector<TextLine> lines = split_lines(text);
  std::vector<TopologyLayer> layers;
  if (lines.empty()) {
    Error error = input_error("expected a header and layers, found nothing");
    error.source = std::string(source);
    return error;
  }
  RIDGE_TRY(header, parse_header(lines[0], source));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string_view> cells = split_cells(lines[i].text);
    const bool is_title = cells.size() == 1 && whole_number(cells[0]) == std::nullopt;
    if (cells.empty() || is_title) continue;
    RIDGE_TRY(layer, parse_layer(lines[i], cells, header, source));
    layers.push_back(std::move(layer));
  }
  if (layers.empty()) return error_at(lines[0], lines[0].text, source, "expected layers after the header, found none");
  return layers;
}

namespace {

struct ConfigValue {
  TextLine line;
  std::string_view text;
};

// Maps "section.key", in lower case, to the value and its line.
using ConfigValues = std::map<std::string, ConfigValue>;

Result<ConfigValues> parse_ini(std::string_view text, std::string_view source) {
  ConfigValues values;
  std::string section;
  for (const TextLine& line : split_lines(text)) {
    const std::string_view content = trim_blanks(line.text);
    if (content.empty() || content[0] == '#' || content[0] == ';') continue;
    if (content.front() == '[' && content.back() == ']') {
      section = to_lower_case(trim_blanks(content.substr(1, content.size() - 2)));
      continue;
    }
    const std::size_t end = content.find_first_of("=:");
    if (end == std::string_view::npos || section.empty())
      return error_at(line, content, source,
                      section.empty()
                          ? fmt::format("expected a [section] first, found '{}'", printable_excerpt(content))
                          : fmt::format("expected 'key: value', found '{}'", printable_excerpt(content)));
    const std::string_view key = trim_blanks(content.substr(0, end));
    const bool is_new =
        values.emplace(section + "." + to_lower_case(key), ConfigValue{line, trim_blanks(content.substr(end + 1))})
            .second;
    if (!is_new)
      return error_at(line, key, source,
                      fmt::format("'{}' appears twice in [{}]", printable_excerpt(key), printable_excerpt(section)));
  }
  return values;
}

// Reads values of a configuration and keeps the first error.
class ConfigReader {
 public:
  ConfigReader(const ConfigValues& values, std::string_view source) : values_(values), source_(source) {}

  std::string_view read_word(const std::string& key, std::optional<std::string_view> fallback = std::nullopt) {
    const auto found = values_.find(to_lower_case(key));
    if (found != values_.end()) return found->second.text;
    if (!fallback) set_missing_error(key);
    return fallback.value_or("");
  }
  std::int64_t read_number(const std::string& key, std::optional<std::int64_t> fallback = std::nullopt) {
    const auto found = values_.find(to_lower_case(key));
    if (found == values_.end()) {
      if (!fallback) set_missing_error(key);
      return fallback.value_or(1);
    }
    // Bandwidth may be a list; SCALE-Sim uses the first number.
    const std::string_view first = trim_blanks(found->second.text.substr(0, found->second.text.find(',')));
    const std::optional<std::int64_t> value = whole_number(first);
    if (value && *value >= 1) return *value;
    set_error(found->second, fmt::format("expected a whole number from 1 to {} for {}, found '{}'", max_cell_value,
                                         key.substr(key.find('.') + 1), printable_excerpt(first)));
    return 1;
  }
  bool read_flag(const std::string& key) {
    const std::string value = to_lower_case(read_word(key, ""));
    return value == "true" || value == "yes" || value == "on" || value == "1";
  }
  template <class T>
  T read_choice(const std::string& key, const std::map<std::string, T>& choices, std::string_view expected) {
    const std::string_view value = read_word(key);
    const auto found = choices.find(to_lower_case(value));
    if (found != choices.end()) return found->second;
    if (const auto at = values_.find(to_lower_case(key)); at != values_.end())
      set_error(at->second, fmt::format("expected {} {}, found '{}'", key.substr(key.find('.') + 1), expected,
                                        printable_excerpt(value)));
    return choices.begin()->second;
  }
  const Status& status() const { return status_; }  // first error

 private:
  void set_error(const ConfigValue& value, std::string message) {
    if (status_) status_ = error_at(value.line, value.text, source_, std::move(message));
  }
  void set_missing_error(const std::string& key) {
    if (!status_) return;
    const std::size_t dot = key.find('.');
    Error error = input_error(fmt::format("expected {} in [{}], found none", key.substr(dot + 1), key.substr(0, dot)));
    error.source = std::string(source_);
    status_ = std::move(error);
  }
  const ConfigValues& values_;
  std::string_view source_;
  Status status_ = Done{};
};

}  // namespace

Result<ScaleSimConfig> parse_scalesim_config(std::string_view text, std::string_view source) {
  RIDGE_TRY(values, parse_ini(text, source));
  ConfigReader reader(values, source);
  ScaleSimConfig config;
  config.run_name = std::string(reader.read_word("general.run_name", ""));
  config.array.rows = reader.read_number("architecture_presets.ArrayHeight");
  config.array.cols = reader.read_number("architecture_presets.ArrayWidth");
  config.array.dataflow = reader.read_choice<Dataflow>(
      "architecture_presets.Dataflow",
      {{"os", Dataflow::output_stationary}, {"ws", Dataflow::weight_stationary}, {"is", Dataflow::input_stationary}},
      "os, ws or is");
  config.user_bandwidth =
      reader.read_choice<bool>("run_presets.InterfaceBandwidth", {{"user", true}, {"calc", false}}, "USER or CALC");
  Scratchpads& pads = config.scratchpads;
  pads.a.words = 1024 * reader.read_number("architecture_presets.IfmapSramSzkB");
  pads.b.words = 1024 * reader.read_number("architecture_presets.FilterSramSzkB");
  pads.c.words = 1024 * reader.read_number("architecture_presets.OfmapSramSzkB");
  pads.a.bandwidth = reader.read_number("layout.IfmapSRAMBankBandwidth", 10);
  pads.b.bandwidth = reader.read_number("layout.FilterSRAMBankBandwidth", 10);
  pads.c.bandwidth = config.user_bandwidth ? reader.read_number("architecture_presets.Bandwidth")
                                           : reader.read_number("architecture_presets.Bandwidth", 10);
  for (const std::string key : {"layout.IfmapCustomLayout", "layout.FilterCustomLayout",
                                "run_presets.UseRamulatorTrace", "sparsity.SparsitySupport"})
    if (reader.read_flag(key)) config.not_simulated.push_back(key.substr(key.find('.') + 1));
  RIDGE_TRY_STATUS(reader.status());
  if (const Status status = check_systolic(config.array, {1, 1, 1}); !status) {
    Error error = status.error();
    error.source = std::string(source);
    return error;
  }
  return config;
}

}  // namespace ridge

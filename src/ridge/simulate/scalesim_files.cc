#include "ridge/simulate/scalesim_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

namespace ridge {
namespace {

constexpr std::int64_t largest_number = (std::int64_t{1} << 31) - 1;

struct Line {
  std::string_view text;
  int number = 0;
};

std::vector<Line> lines_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<Line> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back({line, number});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string_view trimmed(std::string_view s) {
  constexpr std::string_view blank = " \t\v\f\r";
  const std::size_t first = s.find_first_not_of(blank);
  if (first == std::string_view::npos) return s.substr(0, 0);
  return s.substr(first, s.find_last_not_of(blank) - first + 1);
}

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// What a message quotes: printable, and short.
std::string shown(std::string_view s) {
  std::string out;
  for (const char c : s.substr(0, 40)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return s.size() > 40 ? out + "…" : out;
}

// Columns count characters, as carets do.
int columns_before(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// `part` is a view into line.text, or empty behind its end.
Error error_at(const Line& line, std::string_view part, std::string_view source, std::string message,
               std::string hint = {}) {
  Error error = input_error(std::move(message), std::move(hint));
  error.source = std::string(source);
  const std::size_t begin = std::min(static_cast<std::size_t>(part.data() - line.text.data()), line.text.size());
  error.span = {line.number, columns_before(line.text.substr(0, begin)) + 1, std::max(1, columns_before(part))};
  error.line_text = std::string(line.text);
  return error;
}

std::optional<std::int64_t> whole_number(std::string_view s) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (code != std::errc() || end != s.data() + s.size() || value < 0 || value > largest_number) return std::nullopt;
  return value;
}

std::vector<std::string_view> cells_of(std::string_view text) {
  const char separator = text.find(',') == std::string_view::npos ? '\t' : ',';
  std::vector<std::string_view> cells;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view cell = trimmed(text.substr(0, end));
    cells.push_back(cell);
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  while (!cells.empty() && cells.back().empty()) cells.pop_back();
  return cells;
}

struct Header {
  bool products = false;
  std::size_t sizes = 7;  // columns between the name and what is optional
  std::size_t batch = 0;  // its column; 0: none
};

constexpr std::string_view convolution_columns[] = {"IFMAP height", "IFMAP width", "filter height", "filter width",
                                                    "channels",     "filters",     "stride"};
constexpr std::string_view product_columns[] = {"M", "N", "K"};

Header header_of(std::string_view text) {
  const std::vector<std::string_view> cells = cells_of(text);
  Header header;
  header.products = cells.size() >= 4 && lower(cells[1]) == "m" && lower(cells[2]) == "n" && lower(cells[3]) == "k";
  if (header.products) header.sizes = 3;
  for (std::size_t i = header.sizes + 1; i < cells.size(); ++i)
    if (lower(cells[i]).starts_with("batch")) header.batch = i;
  return header;
}

// A row's numbers in the order of its columns, and its batch.
struct Sizes {
  std::vector<std::int64_t> numbers;
  std::int64_t batch = 1;
};

Result<Sizes> sizes_of(const Line& line, const std::vector<std::string_view>& cells, const Header& header,
                       std::string_view source) {
  Sizes sizes;
  for (std::size_t i = 1; i <= header.sizes; ++i) {
    const std::string_view column = header.products ? product_columns[i - 1] : convolution_columns[i - 1];
    if (i >= cells.size())
      return error_at(line, line.text.substr(line.text.size()), source,
                      fmt::format("expected {} numbers behind the name, found {}: {} is missing", header.sizes,
                                  cells.size() - 1, column));
    const std::optional<std::int64_t> number = whole_number(cells[i]);
    if (!number || *number < 1)
      return error_at(line, cells[i], source,
                      fmt::format("expected a whole number from 1 to {} for {}, found '{}'", largest_number, column,
                                  shown(cells[i])));
    sizes.numbers.push_back(*number);
  }
  for (std::size_t i = header.sizes + 1; i < cells.size(); ++i) {
    if (const std::size_t colon = cells[i].find(':'); colon != std::string_view::npos) {
      if (trimmed(cells[i].substr(0, colon)) != trimmed(cells[i].substr(colon + 1)))
        return error_at(line, cells[i], source, fmt::format("expected dense weights (1:1), found {}", shown(cells[i])),
                        "sparse weights are not simulated");
    } else if (i == header.batch) {
      const std::optional<std::int64_t> batch = whole_number(cells[i]);
      if (!batch || *batch < 1)
        return error_at(line, cells[i], source,
                        fmt::format("expected a whole number from 1 to {} for the batch, found '{}'", largest_number,
                                    shown(cells[i])));
      sizes.batch = *batch;
    }
  }
  return sizes;
}

Result<TopologyLayer> layer_of(const Line& line, const std::vector<std::string_view>& cells, const Header& header,
                               std::string_view source) {
  const Result<Sizes> sizes = sizes_of(line, cells, header, source);
  if (!sizes) return sizes.error();
  const std::vector<std::int64_t>& n = sizes->numbers;
  TopologyLayer layer;
  layer.name = std::string(cells[0]);
  if (header.products) {
    layer.product = {n[0] * sizes->batch, n[1], n[2]};
    return layer;
  }
  Convolution v{n[0], n[1], n[2], n[3], n[4], n[5], n[6], sizes->batch};
  if (cells[0].find("DP") != std::string_view::npos) {
    layer.copies = v.channels;
    v.channels = 1;
  }
  const Result<ProductSize> product = as_product(v);
  if (!product) return error_at(line, trimmed(line.text), source, product.error().message);
  layer.product = *product;
  layer.convolution = v;
  return layer;
}

}  // namespace

Result<std::vector<TopologyLayer>> parse_topology(std::string_view text, std::string_view source) {
  const std::vector<Line> lines = lines_of(text);
  std::vector<TopologyLayer> layers;
  if (lines.empty()) {
    Error error = input_error("expected a header and layers, found nothing");
    error.source = std::string(source);
    return error;
  }
  const Header header = header_of(lines[0].text);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string_view> cells = cells_of(lines[i].text);
    const bool title = cells.size() == 1 && whole_number(cells[0]) == std::nullopt;
    if (cells.empty() || title) continue;
    Result<TopologyLayer> layer = layer_of(lines[i], cells, header, source);
    if (!layer) return layer.error();
    layers.push_back(std::move(*layer));
  }
  if (layers.empty()) return error_at(lines[0], lines[0].text, source, "expected layers behind the header, found none");
  return layers;
}

namespace {

struct Value {
  Line line;
  std::string_view text;
};

// "section.key", both in lower case; where they stand, for messages.
using Values = std::map<std::string, Value>;

Result<Values> ini_values(std::string_view text, std::string_view source) {
  Values values;
  std::string section;
  for (const Line& line : lines_of(text)) {
    const std::string_view content = trimmed(line.text);
    if (content.empty() || content[0] == '#' || content[0] == ';') continue;
    if (content.front() == '[' && content.back() == ']') {
      section = lower(trimmed(content.substr(1, content.size() - 2)));
      continue;
    }
    const std::size_t end = content.find_first_of("=:");
    if (end == std::string_view::npos || section.empty())
      return error_at(line, content, source,
                      section.empty() ? fmt::format("expected a [section] first, found '{}'", shown(content))
                                      : fmt::format("expected 'key: value', found '{}'", shown(content)));
    const std::string_view key = trimmed(content.substr(0, end));
    const bool fresh = values.emplace(section + "." + lower(key), Value{line, trimmed(content.substr(end + 1))}).second;
    if (!fresh)
      return error_at(line, key, source, fmt::format("'{}' stands twice in [{}]", shown(key), shown(section)));
  }
  return values;
}

// Takes values out of a configuration; the first failure stays.
class Reader {
 public:
  Reader(const Values& values, std::string_view source) : values_(values), source_(source) {}

  std::string_view word(const std::string& key, std::optional<std::string_view> otherwise = std::nullopt) {
    const auto found = values_.find(lower(key));
    if (found != values_.end()) return found->second.text;
    if (!otherwise) fail_missing(key);
    return otherwise.value_or("");
  }
  std::int64_t number(const std::string& key, std::optional<std::int64_t> otherwise = std::nullopt) {
    const auto found = values_.find(lower(key));
    if (found == values_.end()) {
      if (!otherwise) fail_missing(key);
      return otherwise.value_or(1);
    }
    // Bandwidth may be a list; SCALE-Sim uses its first.
    const std::string_view first = trimmed(found->second.text.substr(0, found->second.text.find(',')));
    const std::optional<std::int64_t> value = whole_number(first);
    if (value && *value >= 1) return *value;
    fail(found->second, fmt::format("expected a whole number from 1 to {} for {}, found '{}'", largest_number,
                                    key.substr(key.find('.') + 1), shown(first)));
    return 1;
  }
  bool on(const std::string& key) {
    const std::string value = lower(word(key, ""));
    return value == "true" || value == "yes" || value == "on" || value == "1";
  }
  template <class T>
  T choice(const std::string& key, const std::map<std::string, T>& choices, std::string_view expected) {
    const std::string_view value = word(key);
    const auto found = choices.find(lower(value));
    if (found != choices.end()) return found->second;
    if (const auto at = values_.find(lower(key)); at != values_.end())
      fail(at->second,
           fmt::format("expected {} {}, found '{}'", key.substr(key.find('.') + 1), expected, shown(value)));
    return choices.begin()->second;
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  void fail(const Value& value, std::string message) {
    if (!error_) error_ = error_at(value.line, value.text, source_, std::move(message));
  }
  void fail_missing(const std::string& key) {
    if (error_) return;
    const std::size_t dot = key.find('.');
    error_ = input_error(fmt::format("expected {} in [{}], found none", key.substr(dot + 1), key.substr(0, dot)));
    error_->source = std::string(source_);
  }
  const Values& values_;
  std::string_view source_;
  std::optional<Error> error_;
};

}  // namespace

Result<ScaleSimConfig> parse_scalesim_config(std::string_view text, std::string_view source) {
  const Result<Values> values = ini_values(text, source);
  if (!values) return values.error();
  Reader read(*values, source);
  ScaleSimConfig config;
  config.run_name = std::string(read.word("general.run_name", ""));
  config.array.rows = read.number("architecture_presets.ArrayHeight");
  config.array.cols = read.number("architecture_presets.ArrayWidth");
  config.array.dataflow = read.choice<Dataflow>(
      "architecture_presets.Dataflow",
      {{"os", Dataflow::output_stationary}, {"ws", Dataflow::weight_stationary}, {"is", Dataflow::input_stationary}},
      "os, ws or is");
  config.user_bandwidth =
      read.choice<bool>("run_presets.InterfaceBandwidth", {{"user", true}, {"calc", false}}, "USER or CALC");
  Scratchpads& pads = config.scratchpads;
  pads.a.words = 1024 * read.number("architecture_presets.IfmapSramSzkB");
  pads.b.words = 1024 * read.number("architecture_presets.FilterSramSzkB");
  pads.c.words = 1024 * read.number("architecture_presets.OfmapSramSzkB");
  pads.a.bandwidth = read.number("layout.IfmapSRAMBankBandwidth", 10);
  pads.b.bandwidth = read.number("layout.FilterSRAMBankBandwidth", 10);
  pads.c.bandwidth = config.user_bandwidth ? read.number("architecture_presets.Bandwidth")
                                           : read.number("architecture_presets.Bandwidth", 10);
  for (const std::string key : {"layout.IfmapCustomLayout", "layout.FilterCustomLayout",
                                "run_presets.UseRamulatorTrace", "sparsity.SparsitySupport"})
    if (read.on(key)) config.not_simulated.push_back(key.substr(key.find('.') + 1));
  if (read.error()) return *read.error();
  if (const Status status = check_systolic(config.array, {}); !status) {
    Error error = status.error();
    error.source = std::string(source);
    return error;
  }
  return config;
}

}  // namespace ridge

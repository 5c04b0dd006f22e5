#include "ridge/ops/fitted.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ridge/base/check.h"

namespace ridge::ops {
namespace {

constexpr NamedNumber<KernelNumbers> kernel_number_fields[] = {
    {"gemv_line", &KernelNumbers::gemv_line},
    {"gemv_word", &KernelNumbers::gemv_word},
    {"backward_pass", &KernelNumbers::backward_pass},
    {"backward_bandwidth", &KernelNumbers::backward_bandwidth},
    {"plain_flops", &KernelNumbers::plain_flops},
    {"lanes", &KernelNumbers::lanes},
    {"multiplies", &KernelNumbers::multiplies},
    {"attention_multiplies", &KernelNumbers::attention_multiplies},
    {"attention_exponentials", &KernelNumbers::attention_exponentials},
    {"attention_l2", &KernelNumbers::attention_l2},
    {"attention_item", &KernelNumbers::attention_item},
    {"attention_merge", &KernelNumbers::attention_merge},
    {"attention_part", &KernelNumbers::attention_part},
    {"attention_backward_multiplies", &KernelNumbers::attention_backward_multiplies},
};
constexpr NamedNumber<DeviceFractions> device_fraction_fields[] = {
    {"clock", &DeviceFractions::clock},           {"busy_clock", &DeviceFractions::busy_clock},
    {"memory", &DeviceFractions::memory},         {"l2", &DeviceFractions::l2},
    {"launch", &DeviceFractions::launch},         {"clusters_1", &DeviceFractions::clusters_1},
    {"clusters_2", &DeviceFractions::clusters_2}, {"clusters_3", &DeviceFractions::clusters_3},
    {"clusters_4", &DeviceFractions::clusters_4}, {"clusters_5", &DeviceFractions::clusters_5},
    {"clusters_6", &DeviceFractions::clusters_6}, {"clusters_7", &DeviceFractions::clusters_7},
    {"clusters_8", &DeviceFractions::clusters_8},
};

const KernelNumbers* override_numbers = nullptr;

using FunctionCostTable = std::map<std::string, FunctionCost, std::less<>>;
using Spreads = std::map<std::string, PredictionSpread, std::less<>>;

// Returns the cells [first, first + count) of each line as numbers, by the name in the first cell.
Result<std::map<std::string, std::vector<double>, std::less<>>> read_table(const FittedFile& file,
                                                                           std::size_t first_call, std::size_t count) {
  std::map<std::string, std::vector<double>, std::less<>> out;
  for (const CsvLine& line : file.lines) {
    std::vector<double>& row = out[line.cells[0].text];
    if (!row.empty())
      return error_at_cell(input_error(fmt::format("expected each name once, found '{}' twice", line.cells[0].text)),
                           file.source, line, line.cells[0]);
    for (std::size_t i = first_call; i < first_call + count; ++i) {
      const auto number = parse_cell(file, line, i);
      if (!number) return number.error();
      row.push_back(*number);
    }
  }
  return out;
}

// Reads one number for each field in `names`. Errors: a name that is missing, repeated or unknown.
template <class Numbers, std::size_t count> Result<Numbers> parse_numbers(const NamedNumber<Numbers> (&names)[count],
                                                                          std::string_view csv,
                                                                          const std::string& source) {
  const auto file = read_fitted_file(csv, source, "number,unit,value,origin,meaning");
  if (!file) return file.error();
  auto rows = read_table(*file, 2, 1);
  if (!rows) return rows.error();
  Numbers out{};
  for (const NamedNumber<Numbers>& each : names) {
    const auto row = rows->find(each.name);
    if (row == rows->end()) return input_error(fmt::format("'{}' lacks {}", source, each.name));
    out.*(each.member) = row->second[0];
    rows->erase(row);
  }
  if (!rows->empty()) return input_error(fmt::format("'{}': unknown name {}", source, rows->begin()->first));
  return out;
}

template <class Numbers, std::size_t count>
Numbers parse_embedded(const NamedNumber<Numbers> (&names)[count], std::string_view csv, const std::string& source) {
  const auto parsed = parse_numbers(names, csv, source);
  RIDGE_CHECK(parsed, parsed.error().to_string());
  return *parsed;
}

FunctionCostTable load_function_costs() {
  const auto file = read_fitted_file(functions_csv(), "data/models/functions.csv", "function,first,again,rough,origin");
  RIDGE_CHECK(file, file.error().to_string());
  const auto rows = read_table(*file, 1, 3);
  RIDGE_CHECK(rows, rows.error().to_string());
  FunctionCostTable out;
  for (const auto& [name, row] : *rows) out[name] = {row[0], row[1], row[2]};
  return out;
}

void add_spreads(std::string_view csv, const char* source, Spreads& to) {
  const auto file = read_fitted_file(csv, source, "kind,low,middle,high,meaning");
  RIDGE_CHECK(file, file.error().to_string());
  const auto rows = read_table(*file, 1, 3);
  RIDGE_CHECK(rows, rows.error().to_string());
  for (const auto& [name, row] : *rows) to[name] = {row[0], row[1], row[2]};
}
Spreads load_spreads() {
  Spreads out;
  add_spreads(product_spread_csv(), "data/models/product_spread.csv", out);
  add_spreads(spreads_csv(), "data/models/spreads.csv", out);
  add_spreads(advice_csv(), "data/models/advice.csv", out);
  add_spreads(device_advice_csv(), "data/models/device_advice.csv", out);
  return out;
}

}  // namespace

Result<FittedFile> read_fitted_file(std::string_view text, const std::string& source, std::string_view columns) {
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

Result<KernelNumbers> parse_kernel_numbers(std::string_view csv, const std::string& source) {
  return parse_numbers(kernel_number_fields, csv, source);
}
Result<DeviceFractions> parse_device_fractions(std::string_view csv, const std::string& source) {
  return parse_numbers(device_fraction_fields, csv, source);
}

const KernelNumbers& kernel_numbers() {
  static const KernelNumbers all = parse_embedded(kernel_number_fields, kernels_csv(), "data/models/kernels.csv");
  return override_numbers == nullptr ? all : *override_numbers;
}
std::span<const NamedNumber<KernelNumbers>> named_kernel_numbers() { return kernel_number_fields; }

KernelNumbersOverride::KernelNumbersOverride(const KernelNumbers& numbers) { override_numbers = &numbers; }
KernelNumbersOverride::~KernelNumbersOverride() { override_numbers = nullptr; }

const DeviceFractions& device_fractions() {
  static const DeviceFractions all = parse_embedded(device_fraction_fields, devices_csv(), "data/models/devices.csv");
  return all;
}

FunctionCost function_cost(std::string_view function) {
  static const FunctionCostTable all = load_function_costs();
  const auto found = all.find(function);
  return found == all.end() ? FunctionCost{} : found->second;
}

const PredictionSpread& find_spread(std::string_view kind) {
  static const Spreads all = load_spreads();
  const auto found = all.find(kind);
  RIDGE_CHECK(found != all.end(), kind);
  return found->second;
}

}  // namespace ridge::ops

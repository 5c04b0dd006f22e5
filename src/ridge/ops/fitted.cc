#include "ridge/ops/fitted.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ridge/base/check.h"

namespace ridge::ops {
namespace {

constexpr NamedNumber<KernelNumbers> of_kernels[] = {
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
constexpr NamedNumber<DeviceShares> of_devices[] = {
    {"clock", &DeviceShares::clock},           {"busy_clock", &DeviceShares::busy_clock},
    {"memory", &DeviceShares::memory},         {"l2", &DeviceShares::l2},
    {"launch", &DeviceShares::launch},         {"clusters_1", &DeviceShares::clusters_1},
    {"clusters_2", &DeviceShares::clusters_2}, {"clusters_3", &DeviceShares::clusters_3},
    {"clusters_4", &DeviceShares::clusters_4}, {"clusters_5", &DeviceShares::clusters_5},
    {"clusters_6", &DeviceShares::clusters_6}, {"clusters_7", &DeviceShares::clusters_7},
    {"clusters_8", &DeviceShares::clusters_8},
};

const KernelNumbers* tried = nullptr;

using Costs = std::map<std::string, FunctionCost, std::less<>>;
using Spreads = std::map<std::string, Spread, std::less<>>;

// Returns the cells [first, first + count) of each line as numbers, by the name in the first cell.
Result<std::map<std::string, std::vector<double>, std::less<>>> table(const FittedFile& file, std::size_t first,
                                                                      std::size_t count) {
  std::map<std::string, std::vector<double>, std::less<>> out;
  for (const CsvLine& line : file.lines) {
    std::vector<double>& row = out[line.cells[0].text];
    if (!row.empty())
      return placed(input_error(fmt::format("expected each name once, found '{}' twice", line.cells[0].text)),
                    file.source, line, line.cells[0]);
    for (std::size_t i = first; i < first + count; ++i) {
      const auto number = number_in(file, line, i);
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
  const auto file = read_fitted(csv, source, "number,unit,value,origin,meaning");
  if (!file) return file.error();
  auto rows = table(*file, 2, 1);
  if (!rows) return rows.error();
  Numbers out{};
  for (const NamedNumber<Numbers>& each : names) {
    const auto row = rows->find(each.name);
    if (row == rows->end()) return input_error(fmt::format("'{}' lacks {}", source, each.name));
    out.*(each.place) = row->second[0];
    rows->erase(row);
  }
  if (!rows->empty()) return input_error(fmt::format("'{}': unknown name {}", source, rows->begin()->first));
  return out;
}

template <class Numbers, std::size_t count>
Numbers in_this_build(const NamedNumber<Numbers> (&names)[count], std::string_view csv, const std::string& source) {
  const auto parsed = parse_numbers(names, csv, source);
  RIDGE_CHECK(parsed, parsed.error().text());
  return *parsed;
}

Costs costs() {
  const auto file = read_fitted(functions_csv(), "data/models/functions.csv", "function,first,again,rough,origin");
  RIDGE_CHECK(file, file.error().text());
  const auto rows = table(*file, 1, 3);
  RIDGE_CHECK(rows, rows.error().text());
  Costs out;
  for (const auto& [name, row] : *rows) out[name] = {row[0], row[1], row[2]};
  return out;
}

void add_spreads(std::string_view csv, const char* source, Spreads& to) {
  const auto file = read_fitted(csv, source, "kind,low,middle,high,meaning");
  RIDGE_CHECK(file, file.error().text());
  const auto rows = table(*file, 1, 3);
  RIDGE_CHECK(rows, rows.error().text());
  for (const auto& [name, row] : *rows) to[name] = {row[0], row[1], row[2]};
}
Spreads spreads() {
  Spreads out;
  add_spreads(product_spread_csv(), "data/models/product_spread.csv", out);
  add_spreads(spreads_csv(), "data/models/spreads.csv", out);
  add_spreads(advice_csv(), "data/models/advice.csv", out);
  add_spreads(device_advice_csv(), "data/models/device_advice.csv", out);
  return out;
}

}  // namespace

Result<FittedFile> read_fitted(std::string_view text, const std::string& source, std::string_view columns) {
  FittedFile out{.source = source};
  bool below = false;
  for (CsvLine& line : read_csv(text)) {
    if (line.text.starts_with('#')) {
      const std::size_t colon = line.text.find(": ");
      if (colon != std::string_view::npos && colon > 2)
        out.facts.emplace(line.text.substr(2, colon - 2), line.text.substr(colon + 2));
    } else if (!below) {
      if (line.text != columns)
        return placed(input_error(fmt::format("expected the columns {}, found {}", columns, line.text)), source, line,
                      line.cells[0]);
      below = true;
    } else {
      const auto cells = static_cast<std::size_t>(std::count(columns.begin(), columns.end(), ',')) + 1;
      if (line.cells.size() < cells)
        return placed(input_error(fmt::format("expected {} cells, found {}", cells, line.cells.size())), source, line,
                      line.cells.back());
      out.lines.push_back(std::move(line));
    }
  }
  return out;
}

Result<double> number_in(const FittedFile& file, const CsvLine& line, std::size_t cell) {
  const std::string& text = line.cells[cell].text;
  double number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec == std::errc{} && end.ptr == text.data() + text.size()) return number;
  return placed(input_error(fmt::format("expected a number, found '{}'", text)), file.source, line, line.cells[cell]);
}

Result<KernelNumbers> parse_kernel_numbers(std::string_view csv, const std::string& source) {
  return parse_numbers(of_kernels, csv, source);
}
Result<DeviceShares> parse_device_shares(std::string_view csv, const std::string& source) {
  return parse_numbers(of_devices, csv, source);
}

const KernelNumbers& kernel_numbers() {
  static const KernelNumbers all = in_this_build(of_kernels, kernels_csv(), "data/models/kernels.csv");
  return tried == nullptr ? all : *tried;
}
std::span<const NamedNumber<KernelNumbers>> named_kernel_numbers() { return of_kernels; }

TriedNumbers::TriedNumbers(const KernelNumbers& numbers) { tried = &numbers; }
TriedNumbers::~TriedNumbers() { tried = nullptr; }

const DeviceShares& device_shares() {
  static const DeviceShares all = in_this_build(of_devices, devices_csv(), "data/models/devices.csv");
  return all;
}

FunctionCost cost_of(std::string_view function) {
  static const Costs all = costs();
  const auto found = all.find(function);
  return found == all.end() ? FunctionCost{} : found->second;
}

const Spread& spread_of(std::string_view kind) {
  static const Spreads all = spreads();
  const auto found = all.find(kind);
  RIDGE_CHECK(found != all.end(), kind);
  return found->second;
}

}  // namespace ridge::ops

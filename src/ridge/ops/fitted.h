// Reads the CSV files of data/models, which the build embeds. They hold numbers fitted to timings, each with its unit
// and meaning. Their header lines name the tool, timings, device and day. The numbers are cycles, bytes and fractions,
// the same on every Hopper; `DeviceNumbers` (model.h) holds what differs between machines.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/csv.h"
#include "ridge/base/result.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

struct FittedFile {
  std::string source;                                               // Name for messages: "data/models/kernels.csv"
  std::map<std::string, std::string, std::less<>> properties = {};  // Header lines such as "# device: NVIDIA H200"
  std::vector<CsvLine> lines = {};                                  // Lines after the line of column names
};
// The text must outlive the result. Errors: column names other than `columns`, a line with fewer cells.
Result<FittedFile> read_fitted_file(std::string_view text, const std::string& source, std::string_view columns);
// Returns a cell as a number.
Result<double> parse_cell(const FittedFile& file, const CsvLine& line, std::size_t cell);

// Values of data/models/kernels.csv; the fields have the names of its lines.
struct KernelNumbers {
  double gemv_line, gemv_word;
  double backward_pass, backward_bandwidth;
  double plain_flops, lanes, multiplies;
  double attention_multiplies, attention_exponentials, attention_l2, attention_item, attention_merge, attention_part;
  double attention_backward_multiplies;
};
const KernelNumbers& kernel_numbers();
Result<KernelNumbers> parse_kernel_numbers(std::string_view csv, const std::string& source);

template <class Numbers> struct NamedNumber {
  std::string_view name;
  double Numbers::*member;
};
std::span<const NamedNumber<KernelNumbers>> named_kernel_numbers();

// For fitting: kernel_numbers() returns `numbers` while this object exists. Not thread-safe; do not nest.
class KernelNumbersOverride {
 public:
  explicit KernelNumbersOverride(const KernelNumbers& numbers);
  ~KernelNumbersOverride();
  KernelNumbersOverride(const KernelNumbersOverride&) = delete;
  KernelNumbersOverride& operator=(const KernelNumbersOverride&) = delete;
};

// Values of data/models/devices.csv: measured rates as fractions of peak rates, assumed for untimed devices, too.
struct DeviceFractions {
  double clock, busy_clock, memory, l2, launch;
  double clusters_1, clusters_2, clusters_3, clusters_4, clusters_5, clusters_6, clusters_7, clusters_8;
};
const DeviceFractions& device_fractions();
Result<DeviceFractions> parse_device_fractions(std::string_view csv, const std::string& source);

// Values of data/models/functions.csv: instructions per lane for one call, for each further call in a chain of calls,
// and for a call whose result is stored in 16 bits.
struct FunctionCost {
  double first_call = 1, repeated_call = 1, approximate_call = 1;
};
FunctionCost function_cost(std::string_view function);

// Returns the spread of a kind, which must exist. Kinds by file in data/models: product_spread.csv: "product";
// advice.csv: "advice_order", …; device_advice.csv: "device_advice_order", …; spreads.csv: "streamed", "untimed", ….
const PredictionSpread& find_spread(std::string_view kind);

}  // namespace ridge::ops

namespace ridge {
// Contents of the files at build time.
std::string_view kernels_csv();
std::string_view devices_csv();
std::string_view functions_csv();
std::string_view spreads_csv();
std::string_view product_spread_csv();
std::string_view advice_csv();
std::string_view device_advice_csv();
}  // namespace ridge

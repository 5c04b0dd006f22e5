// Numbers that were found by looking at timings lie in data/models as CSV, which the build puts into the binary: each
// with its unit and its meaning, and above them who made the file, of which timings, on which device and day. This
// reads such files, and keeps the numbers of kernels that have no file of their own. All of them are cycles, bytes and
// shares, the same on every Hopper; what differs from one machine to the next is DeviceNumbers (model.h).
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
  std::string source;                                          // for messages: "data/models/kernels.csv"
  std::map<std::string, std::string, std::less<>> facts = {};  // of lines "# device: NVIDIA H200"
  std::vector<CsvLine> lines = {};                             // below the columns
};
// The text must outlive what is returned. Errors: other columns than these, a line with fewer cells.
Result<FittedFile> read_fitted(std::string_view text, const std::string& source, std::string_view columns);
// A cell as a number, blanks around it left out.
Result<double> number_in(const FittedFile& file, const CsvLine& line, std::size_t cell);

// data/models/kernels.csv, whose lines have these names.
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
  double Numbers::*place;
};
std::span<const NamedNumber<KernelNumbers>> named_kernel_numbers();

// For what fits them: kernel_numbers() are these until it goes. One at a time, and nothing else may plan meanwhile.
class TriedNumbers {
 public:
  explicit TriedNumbers(const KernelNumbers& numbers);
  ~TriedNumbers();
  TriedNumbers(const TriedNumbers&) = delete;
  TriedNumbers& operator=(const TriedNumbers&) = delete;
};

// data/models/devices.csv: what the timed devices have in common, which is assumed of others.
struct DeviceShares {
  double clock, busy_clock, memory, l2, launch;
  double clusters_1, clusters_2, clusters_3, clusters_4, clusters_5, clusters_6, clusters_7, clusters_8;
};
const DeviceShares& device_shares();
Result<DeviceShares> parse_device_shares(std::string_view csv, const std::string& source);

// data/models/functions.csv: instructions of a lane for one application, for each further one of a chain of them, and
// for one whose result is stored in 16 bits.
struct FunctionCost {
  double first = 1, again = 1, rough = 1;
};
FunctionCost cost_of(std::string_view function);

// data/models/product_spread.csv: "product"; advice.csv: "advice_order", …; device_advice.csv:
// "device_advice_order", …; spreads.csv: "streamed", "attention",
// "untimed", "library_elsewhere".
const Spread& spread_of(std::string_view kind);

}  // namespace ridge::ops

namespace ridge {
// The files' texts at build time.
std::string_view kernels_csv();
std::string_view devices_csv();
std::string_view functions_csv();
std::string_view spreads_csv();
std::string_view product_spread_csv();
std::string_view advice_csv();
std::string_view device_advice_csv();
}  // namespace ridge

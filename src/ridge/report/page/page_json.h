// Parts of the data that the pages' scripts evaluate (page.h, model_page.h). A count is
// [denominator, [coefficient, index, ...], ...], a polynomial in the values with these indices.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ridge/machine/machine.h"
#include "ridge/report/json_values.h"
#include "ridge/roofline/sending/transfer_cost.h"
#include "ridge/roofline/sizes/flat_program.h"

namespace ridge {

// Returns an integer, as a string if it is too large for JavaScript's numbers, which hold 53 bits.
Json integer_json(std::int64_t value);
Json count_json(const FlatCount& count);

// Counts of a page, each listed once. `sizes` has the indices and must outlive the table or be replaced.
class CountTable {
 public:
  explicit CountTable(const FlatSizes& sizes) : sizes_(&sizes) {}
  void set_sizes(const FlatSizes& sizes) { sizes_ = &sizes; }
  // Return the index of the count.
  std::size_t add(const Polynomial& polynomial) { return add(sizes_->compile(polynomial)); }
  std::size_t add(const FlatCount& count);
  Json json() const { return all_; }

 private:
  const FlatSizes* sizes_;
  Json all_ = Json::array();
  std::map<std::string, std::size_t> indices_;
};

// Returns the name of a peak rate, "matrix bf16".
std::string rate_name(ComputeUnit unit, DType dtype);
// Returns [seconds, seconds per byte].
Json line_json(const LinearTime& line);
// Returns a machine's name, peaks, memory levels and time of a launch.
Json machine_json(const Machine& machine);

}  // namespace ridge

// Compares elements of a result with their reference, and says where a right result is of no use: elements that lie
// outside their dtype's range (300 * 300 * 4 in f16 is stored as inf) and elements without a right digit (1e8 + 1 - 1e8
// in f32 is 0). Neither is a mistake of the kernel, so both are warnings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/measure/reference.h"

namespace ridge {

struct OpMeasurement;

// Elements of one kind, and the first of them by its position in the compared indices.
struct ElementFinding {
  std::int64_t count = 0, first_position = -1;
};

// Result of comparing elements with their expected values. If the expected value is infinite or NaN, or overflows the
// dtype, only the same infinity, or NaN, is correct.
struct ElementComparison {
  double max_rel_error = 0;                // infinite if exactly one of the two is finite
  std::int64_t first_wrong_position = -1;  // position in `indices` of the first element beyond its bound, or -1
  ElementFinding out_of_range = {};        // right, but stored as an infinity or as the dtype's limit
  ElementFinding lost_digits = {};         // within the bound, but off by half of the value or more
};
ElementComparison compare_elements(const Array& result, const std::vector<std::int64_t>& indices,
                                   const std::vector<Expected>& expected);

// A result that is checked, as messages describe it.
struct CheckedResult {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string text;  // text of the statement
};

// Compares the elements `indices` of `array` and adds what was found to `op`: the largest error, the counts, a warning
// if an element is out of range or if a fiftieth of them lost all digits. Returns the first wrong element as an error.
std::optional<Error> check_elements(const CheckedResult& result, const Array& array,
                                    const std::vector<std::int64_t>& indices, const std::vector<Expected>& expected,
                                    OpMeasurement& op);

// Adds the checks of one operation to those of the program.
void add_check(OpMeasurement& total, const OpMeasurement& op);

}  // namespace ridge

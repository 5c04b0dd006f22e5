#include "ridge/measure/element_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/measure/run.h"

namespace ridge {
namespace {

// Share of a result's elements that may lose all digits without a warning: where operands of 16 bits are rounded inside
// a kernel, some 0.5 % of the sums of random numbers are so close to 0.
constexpr double tolerated_lost_share = 0.02;

// Values of at least this size round to infinity: the largest number plus half a step.
double overflow_threshold(DType dtype) {
  if (dtype == DType::f16) return 65520.0;
  if (dtype == DType::bf16) return 0x1.FFp127;
  return 0x1.FFFFFFp127;
}

// The smallest number with all digits; smaller ones may be 0.
double min_normal_number(DType dtype) { return dtype == DType::f16 ? 0x1p-14 : 0x1p-126; }

// Returns |got - expected|: 0 if both are the same, infinite if exactly one is finite. If the expected value overflows
// the dtype, infinity is correct; within its error bound of that limit, infinity and the largest number are both
// correct.
double error_with_overflow(double got, const Expected& expected, DType dtype) {
  if (got == expected.value || (std::isnan(got) && std::isnan(expected.value))) return 0;
  if (!std::isfinite(expected.value)) return INFINITY;
  // An f32 sum that overflows midway is infinite or NaN, whatever the exact sum is.
  if (!std::isfinite(got) && expected.scale >= overflow_threshold(DType::f32)) return 0;
  const double size = std::fabs(expected.value), edge = overflow_threshold(dtype);
  if (std::isinf(got) && std::signbit(got) == std::signbit(expected.value) && size + expected.bound >= edge) return 0;
  if (!std::isfinite(got) || size - expected.bound >= edge) return INFINITY;
  return std::fabs(got - expected.value);
}

// Returns the root mean square of the expected values, without those that overflow the dtype.
double root_mean_square(const std::vector<Expected>& expected, DType dtype) {
  double squares = 0, count = 0;
  for (const Expected& e : expected)
    if (std::fabs(e.value) < overflow_threshold(dtype)) {
      squares += e.value * e.value;
      ++count;
    }
  return std::sqrt(squares / std::max(count, 1.0));
}

void add_finding(ElementFinding& finding, std::size_t position) {
  if (finding.count++ == 0) finding.first_position = static_cast<std::int64_t>(position);
}

bool is_out_of_range(double got, const Expected& expected) {
  return expected.before_limit || (!std::isfinite(got) && std::isfinite(expected.value));
}

bool lost_all_digits(double off, const Expected& expected, DType dtype) {
  const double size = std::fabs(expected.value);
  return off >= size / 2 && size >= min_normal_number(dtype) && !dtype_info(dtype).is_integer;
}

// "y[0, 3]"
std::string element_name(const CheckedResult& result, std::int64_t index) {
  std::vector<std::int64_t> position(result.shape.size());
  for (std::size_t axis = position.size(); axis-- > 0; index /= result.shape[axis])
    position[axis] = index % result.shape[axis];
  return fmt::format("{}[{}]", result.name, fmt::join(position, ", "));
}

// "y: 3 of 8 checked results"
std::string count_text(const CheckedResult& result, std::int64_t count, std::size_t checked) {
  return fmt::format("{}: {} of {} checked results", result.name, group_digits(count),
                     group_digits(static_cast<std::int64_t>(checked)));
}

std::string range_warning(const CheckedResult& result, const Array& array, const std::vector<std::int64_t>& indices,
                          const std::vector<Expected>& expected, const ElementFinding& finding) {
  const std::int64_t index = indices[finding.first_position];
  const Expected& first = expected[finding.first_position];
  return fmt::format("{} are outside the range of {}; {} is {:.6g}, stored as {:.6g}",
                     count_text(result, finding.count, indices.size()), dtype_info(array.dtype).name,
                     element_name(result, index), first.before_limit.value_or(first.value), read_element(array, index));
}

std::string digits_warning(const CheckedResult& result, const Array& array, const std::vector<std::int64_t>& indices,
                           const std::vector<Expected>& expected, const ElementFinding& finding) {
  const std::int64_t index = indices[finding.first_position];
  return fmt::format(
      "{} have no right digit, because numbers that are nearly equal are subtracted; {} is {:.6g}, exactly {:.6g}",
      count_text(result, finding.count, indices.size()), element_name(result, index), read_element(array, index),
      expected[finding.first_position].value);
}

Error mismatch_error(const CheckedResult& result, std::int64_t index, const Expected& expected, double found) {
  return {.kind = ErrorKind::mismatch,
          .message = fmt::format("{} is wrong: expected {:.9g} within {:.2g}, found {:.9g}, in '{}'",
                                 element_name(result, index), expected.value, expected.bound, found, result.text)};
}

}  // namespace

ElementComparison compare_elements(const Array& result, const std::vector<std::int64_t>& indices,
                                   const std::vector<Expected>& expected) {
  const double rms = root_mean_square(expected, result.dtype);
  ElementComparison out;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const double got = read_element(result, indices[i]);
    const double off = error_with_overflow(got, expected[i], result.dtype);
    if (off == 0) {
      if (is_out_of_range(got, expected[i])) add_finding(out.out_of_range, i);
      continue;
    }
    const double scale = expected[i].scale > 0 ? expected[i].scale : std::max(std::fabs(expected[i].value), rms);
    const double error = std::isfinite(off) ? off / scale : INFINITY;
    out.max_rel_error = std::max(out.max_rel_error, std::isnan(error) ? INFINITY : error);
    if (std::isfinite(off) && off <= expected[i].bound) {
      if (is_out_of_range(got, expected[i])) add_finding(out.out_of_range, i);
      if (lost_all_digits(off, expected[i], result.dtype)) add_finding(out.lost_digits, i);
    } else if (out.first_wrong_position < 0) {
      out.first_wrong_position = static_cast<std::int64_t>(i);
    }
  }
  return out;
}

std::optional<Error> check_elements(const CheckedResult& result, const Array& array,
                                    const std::vector<std::int64_t>& indices, const std::vector<Expected>& expected,
                                    OpMeasurement& op) {
  const ElementComparison found = compare_elements(array, indices, expected);
  op.max_rel_error = std::max(op.max_rel_error, found.max_rel_error);
  op.checked += static_cast<std::int64_t>(indices.size());
  op.elements += array.elements;
  op.out_of_range += found.out_of_range.count;
  op.lost_digits += found.lost_digits.count;
  if (found.out_of_range.count > 0)
    op.warnings.push_back(range_warning(result, array, indices, expected, found.out_of_range));
  if (static_cast<double>(found.lost_digits.count) > tolerated_lost_share * static_cast<double>(indices.size()))
    op.warnings.push_back(digits_warning(result, array, indices, expected, found.lost_digits));
  if (found.first_wrong_position < 0) return std::nullopt;
  const std::size_t wrong = found.first_wrong_position;
  return mismatch_error(result, indices[wrong], expected[wrong], read_element(array, indices[wrong]));
}

void add_check(OpMeasurement& total, const OpMeasurement& op) {
  total.max_rel_error = std::max(total.max_rel_error, op.max_rel_error);
  total.checked += op.checked;
  total.elements += op.elements;
  total.out_of_range += op.out_of_range;
  total.lost_digits += op.lost_digits;
}

}  // namespace ridge

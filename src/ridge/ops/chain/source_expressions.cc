#include "ridge/ops/chain/source.h"

#include <bit>
#include <cstdio>

#include "ridge/base/check.h"

namespace ridge::ops::generated {

std::string_view number_format_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "NumberFormat::f32";
    case DType::bf16: return "NumberFormat::bf16";
    case DType::f16: return "NumberFormat::f16";
    default: RIDGE_CHECK(false, dtype_name(dtype));
  }
}

std::string float_literal(float x) {
  char text[64];
  std::snprintf(text, sizeof text, "__uint_as_float(0x%08xu)", std::bit_cast<std::uint32_t>(x));
  return text;
}

std::string step_expression(const ChainStep& step, const StepOperands& with) {
  const std::string times = "<" + std::to_string(step.repeat) + ">(";
  if (step.repeat > 1 && step.op == ChainOp::cos) return "repeated_cos" + times + with.a + ")";
  std::string function(function_info(step.op).name);
  if (function_info(step.op).has_approximate_form && with.approximate) function += "_16";
  if (step.repeat > 1) return "repeated" + times + "[](float x) { return " + function + "(x); }, " + with.a + ")";
  std::string out = function + "(" + with.a;
  for (const std::string& more : {with.b, with.c})
    if (!more.empty()) out += ", " + more;
  return out + ")";
}

int vector_width(const void* data, DType dtype, std::span<const std::int64_t> strides, int max_width) {
  const int size = dtype_bits(dtype) / 8;
  int width = max_width;
  const auto fits = [&] {
    if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(width * size) != 0) return false;
    for (const std::int64_t stride : strides)
      if (stride % width != 0) return false;
    return true;
  };
  while (width > 1 && (width * size > vector_bytes || !fits())) width /= 2;
  return width;
}

std::uint64_t encode_divisor(std::int64_t d, bool wide_indices) {
  if (wide_indices) return static_cast<std::uint64_t>(d);
  unsigned log = 0;  // log2(d), rounded up.
  while ((std::int64_t{1} << log) < d) ++log;
  const auto by = static_cast<std::uint64_t>(d);
  const std::uint64_t power = std::uint64_t{1} << (31 + log), factor = (power + by - 1) / by;
  return factor | std::uint64_t{31 + log} << 32;
}

std::string axis_index_code(ArgumentWords& words, std::span<const std::int64_t> extents, std::string index,
                            bool wide_indices) {
  std::string out;
  std::vector<std::size_t> long_axes;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (extents[axis] > 1) long_axes.push_back(axis);
  for (std::size_t i = long_axes.size(); i-- > 0;) {
    const std::string axis = std::to_string(long_axes[i]);
    if (i == 0) return out + "    const Index i" + axis + " = " + index + ";\n";
    const std::int64_t extent = extents[long_axes[i]];
    out += "    const Index r" + axis + " = divide_by(" + index + ", " +
           words.add_argument(encode_divisor(extent, wide_indices)) + ");\n";
    out += "    const Index i" + axis + " = " + index + " - r" + axis + " * (Index)" +
           words.add_argument(static_cast<std::uint64_t>(extent)) + ";\n";
    index = "r" + axis;
  }
  return out;
}

}  // namespace ridge::ops::generated

// Limits of the copy engine (TMA) for the windows of a convolution with channels last. CUDA driver API,
// cuTensorMapEncodeIm2col.
#include <fmt/format.h>

#include "ridge/base/dtype_set.h"
#include "ridge/base/operand_type.h"
#include "ridge/ops/product/problem.h"

namespace ridge::ops {
namespace {

constexpr std::int64_t max_step = 8;            // distance of two outputs' pixels
constexpr std::int64_t engine_unit_bytes = 16;  // alignment of all strides

// The distance from the border to a window's first element has so many bits, and so has that to its other elements.
std::int64_t offset_bits(const PixelWindows& windows) { return windows.has_three_axes() ? 5 : 8; }

Reason validate_axis(const WindowAxis& axis, std::int64_t bits) {
  const std::int64_t reach = axis.dilation * (axis.kernel - 1), half = std::int64_t{1} << (bits - 1);
  if (axis.stride > max_step)
    return fmt::format("windows: expected a stride of at most {}, found {}", max_step, axis.stride);
  if (axis.padding > half || reach - axis.padding > half || axis.padding - reach >= half || reach >= 2 * half)
    return fmt::format("windows: expected a padding of at most {} and windows of at most {} elements, found {} and {}",
                       half, 2 * half, axis.padding, reach + 1);
  return {};
}

}  // namespace

Reason validate_pixel_windows(const MatmulProblem& p) {
  const PixelWindows& w = *p.pixel_windows;
  if (!SixteenBitFloats::contains(p.a.dtype))
    return fmt::format("windows: expected {}, found {}", SixteenBitFloats::names(), dtype_name(p.a.dtype));
  std::int64_t outputs = w.images;
  for (const WindowAxis& axis : w.axes) outputs *= axis.out;
  if (p.grouped || p.size.m != outputs || p.size.k != w.count_taps() * w.channels)
    return fmt::format("windows: expected {} rows and {} columns, found {} and {}", outputs,
                       w.count_taps() * w.channels, p.size.m, p.size.k);
  const int box = swizzled_elements(p.a.dtype);
  if (p.batch > 1 && w.channels % box != 0)
    return fmt::format("windows: expected groups of a multiple of {} channels, found {}", box, w.channels);
  const std::int64_t unit = engine_unit_bytes / operand_bytes(p.a.dtype);
  for (const std::int64_t stride : {w.axis_strides[0], w.axis_strides[1], w.axis_strides[2], w.image_stride,
                                    w.tap_stride, p.b.col_stride, p.b.batch_stride})
    if (stride % unit != 0) return fmt::format("windows: expected strides of multiples of {}, found {}", unit, stride);
  if (p.b.row_stride != 1)
    return fmt::format("windows: expected contiguous columns of B, found a stride of {}", p.b.row_stride);
  for (const WindowAxis& axis : w.axes)
    if (auto reason = validate_axis(axis, offset_bits(w))) return reason;
  return {};
}

}  // namespace ridge::ops

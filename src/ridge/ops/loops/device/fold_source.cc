// Generates a fold's kernel: fold_kernels.h with the windows and the formats as constants.
#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/chain/source.h"
#include "ridge/ops/loops/device/limits.h"
#include "ridge/ops/loops/device/source.h"

namespace ridge::ops {
namespace {

using namespace generated;
using cuda::max_device_fold_axes;

// Returns a list of one value for each axis, which `write` formats: "{2, 2, 1, 1, 1, 1}". Missing axes have the values
// of a default axis.
template <class Write> std::string list_axes(const std::vector<FoldAxis>& axes, const Write& write) {
  std::string out = "{";
  for (std::size_t i = 0; i < max_device_fold_axes; ++i)
    out += (i == 0 ? "" : ", ") + write(i < axes.size() ? axes[i] : FoldAxis{});
  return out + "}";
}

std::string write_shape(const FoldLoops& fold, const std::vector<FoldAxis>& axes) {
  const auto list = [&](std::int64_t FoldAxis::*of) {
    return list_axes(axes, [&](const FoldAxis& axis) { return std::to_string(axis.*of); });
  };
  return "  constexpr ops::cuda::FoldShape shape{" + std::string(number_format_name(fold.columns)) + ", " +
         std::string(number_format_name(fold.y)) + ", " + std::to_string(axes.size()) + ", " +
         list_axes(axes, [](const FoldAxis& axis) { return std::string(axis.has_window() ? "true" : "false"); }) +
         ", " + list(&FoldAxis::taps) + ", " + list(&FoldAxis::stride) + ", " + list(&FoldAxis::padding) + ", " +
         list(&FoldAxis::dilation) + "};\n";
}

std::string write_sizes(const std::vector<FoldAxis>& axes, std::span<void* const> data, bool is_wide,
                        ArgumentWords& arguments) {
  const auto list = [&](const std::string& type, std::int64_t FoldAxis::*of) {
    return list_axes(axes, [&](const FoldAxis& axis) {
      return "(" + type + ")" + arguments.add_argument(static_cast<std::uint64_t>(axis.*of));
    });
  };
  std::string out = "  const ops::cuda::FoldSizes<Index> sizes{";
  for (void* const each : data.first(2)) out += arguments.add_argument(each) + ", ";
  out += list("Index", &FoldAxis::positions) + ", ";
  out += list("Index", &FoldAxis::out) + ", ";
  out +=
      list_axes(axes, [&](const FoldAxis& axis) { return arguments.add_argument(encode_divisor(axis.out, is_wide)); });
  out += ", " + list("i64", &FoldAxis::position_stride);
  out += ", " + list("i64", &FoldAxis::tap_stride);
  out += ", " + list("i64", &FoldAxis::y_stride);
  return out + "};\n";
}

}  // namespace

device::GeneratedKernel generate_fold_kernel(const FoldLoops& fold, std::span<void* const> data) {
  constexpr int threads = 128;
  constexpr std::int64_t max_narrow_index = std::int64_t{1} << 30;  // limit of positions and of padded outputs
  const std::vector<FoldAxis> axes = merge_fold_axes(fold.axes);
  std::int64_t items = 1, longest = 1;
  for (const FoldAxis& axis : axes) {
    items *= axis.out;
    longest = std::max({longest, axis.positions, axis.taps * axis.dilation});
  }
  device::GeneratedKernel out;
  if (items == 0) return out;
  const bool is_wide = std::max(items, longest) >= max_narrow_index;
  ArgumentWords arguments(out.arguments);
  std::string body = write_shape(fold, axes) + write_sizes(axes, data, is_wide, arguments);
  body += "  const Index item = blockIdx.x * Index{" + std::to_string(threads) +
          "} + threadIdx.x;\n  if (item < (Index)" + arguments.add_argument(static_cast<std::uint64_t>(items)) +
          ") ops::cuda::fold<shape>(sizes, item);\n";
  out.threads = threads;
  out.blocks = ceil_div(items, std::int64_t{threads});
  out.source = device::make_kernel_source(out, "ridge/ops/loops/device/fold_kernels.h", is_wide, body);
  return out;
}

}  // namespace ridge::ops

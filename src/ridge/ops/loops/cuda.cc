#include "ridge/ops/loops/cuda.h"

#include "ridge/device/device.h"
#include "ridge/device/run_generated.h"
#include "ridge/ops/loops/device/limits.h"
#include "ridge/ops/loops/device/source.h"
#include "ridge/ops/loops/lines.h"

namespace ridge::ops::cuda {
namespace {

Reason too_many_axes_reason(const std::vector<LoopAxis>& axes) {
  const std::size_t count = merge_loop_axes(axes).size();
  if (count <= max_device_axes) return {};
  return "its tensors have " + std::to_string(count) + " axes that cannot be merged; expected at most " +
         std::to_string(max_device_axes) + "; --on cpu takes any number";
}

Reason generated_kernel_reason(const char* what) {
  if (const Reason why = device::generation_unavailable_reason())
    return std::string("NVRTC compiles ") + what + " when they are first run: " + why.text();
  return {};
}

}  // namespace

Reason unsupported_reason(const GatherScatterLoops& l) {
  if (const Reason why = too_many_axes_reason(l.axes)) return why;
  std::int64_t rows = 1, targets = l.index_extent;  // Rows that are added, and rows of the result
  for (const LoopAxis& axis : l.axes)
    if (axis.indices != 0) {
      rows *= axis.extent;
      if (axis.result != 0) targets *= axis.extent;
    }
  if (!l.is_scatter || (rows <= max_sorted_elements && targets <= max_sorted_elements)) return {};
  return "it adds " + std::to_string(rows) + " rows to " + std::to_string(targets) + "; a device takes at most " +
         std::to_string(max_sorted_elements) + " of either; --on cpu runs it";
}
Reason unsupported_reason(const RunningSumLoops& l) { return too_many_axes_reason(l.axes); }
Reason unsupported_reason(const TopKLoops& l) {
  if (const Reason why = too_many_axes_reason(l.axes)) return why;
  if (l.axis.extent <= max_sorted_elements) return {};
  return "its lines have " + std::to_string(l.axis.extent) + " elements; a device takes at most " +
         std::to_string(max_sorted_elements) + "; --on cpu runs it";
}
Reason unsupported_reason(const PoolLoops& l) {
  std::vector<LoopAxis> axes;
  for (const PoolAxis& axis : l.axes)
    if (!axis.is_pooled()) axes.push_back({axis.out, axis.x_stride, 0, axis.y_stride});
  return too_many_axes_reason(axes);
}
Reason unsupported_reason(const RotaryLoops& l) { return too_many_axes_reason(l.axes); }
Reason unsupported_reason(const RoutedProductLoops& l) {
  for (const DType dtype : {l.values, l.weights, l.result})
    if (!StoredFloats::contains(dtype))
      return "expected f32, bf16 or f16, found " + std::string(dtype_name(dtype)) + "; --on cpu takes any";
  if (l.capacity > 0)
    return "a limit on the rows of an expert needs rows that are sorted by expert, which their layouts do not allow; "
           "--on cpu runs it";
  return too_many_axes_reason(l.axes);
}
Reason unsupported_reason(const QuantizeLoops& l) { return too_many_axes_reason(l.axes); }
Reason unsupported_reason(const DequantizeLoops&) { return {}; }
Reason unsupported_reason(const ConvLoops& conv) {
  if (conv.channels_last && !can_convolve_channels_last(conv))
    return "expected channels in second place, found them last with " + std::to_string(conv.groups) + " groups of " +
           std::to_string(conv.channels / conv.groups) +
           " channels; they may be last if each channel is a group of a small window";
  return generated_kernel_reason("direct convolutions");
}
Reason unsupported_reason(const FoldLoops& fold) {
  const std::size_t count = merge_fold_axes(fold.axes).size();
  if (count > max_device_fold_axes)
    return "its tensors have " + std::to_string(count) + " axes that cannot be merged; expected at most " +
           std::to_string(max_device_fold_axes) + "; --on cpu takes any number";
  return generated_kernel_reason("folds");
}
Reason unsupported_reason(const RecurrenceLoops&) { return generated_kernel_reason("recurrences"); }

Status run_loops(const ConvLoops& conv, std::span<void* const> data, CUstream_st* stream) {
  return device::launch_generated(generate_convolution_kernel(conv, data, device::multiprocessor_count()), stream);
}
Status run_loops(const FoldLoops& fold, std::span<void* const> data, CUstream_st* stream) {
  return device::launch_generated(generate_fold_kernel(fold, data), stream);
}
Status run_loops(const RecurrenceLoops& scan, std::span<void* const> data, CUstream_st* stream) {
  return device::launch_generated(generate_recurrence_kernel(scan, data, device::multiprocessor_count()), stream);
}

}  // namespace ridge::ops::cuda

// Compares the device's chain and row kernels with the copy rate of its memory. Each kernel takes turns with a plain
// copy of as many bytes, both as graphs of a few launches over arrays many times larger than the caches. A ratio of
// 0.97 means that the kernel moves its bytes at 0.97 of the copy's rate.
#include "ridge/bench/bench.h"
#include "ridge/bench/device_arrays.h"

namespace ridge {
namespace {

using ops::ChainOp;

constexpr int launches_per_replay = 4;

std::vector<VectorKernel> device_kernels() {
  std::vector<VectorKernel> all;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    all.push_back({.name = "affine", .dtype = dtype, .is_affine = true});
    all.push_back({.name = "gelu", .dtype = dtype, .function = ChainOp::gelu});
    all.push_back({.name = "silu_gate", .dtype = dtype, .function = ChainOp::silu, .has_gate = true});
    if (dtype == DType::f32)
      for (const int repeats : {1, 4, 16, 64}) all.push_back(cosine_kernel(repeats));
    for (const char* name : {"softmax", "rmsnorm"})
      for (std::int64_t columns = 1024; columns <= 131072; columns *= 2)
        all.push_back({.name = name, .dtype = dtype, .columns = columns});
  }
  return all;
}

// Returns the fraction of the copy's rate that no change may fall below; null if arithmetic takes longer.
Json min_allowed_ratio(const VectorKernel& kernel) {
  if (kernel.columns != 0) return 0.90;
  return kernel.repeats > 1 ? Json(nullptr) : Json(0.97);
}

Result<ComparisonRow> compare_kernel(const VectorKernel& kernel, std::int64_t elements, int rounds) {
  RIDGE_TRY(arrays, DeviceArrays::make(kernel.dtype, elements, kernel.array_count(),
                                       static_cast<std::size_t>(kernel.arrays_read()), 0));
  const double bytes = kernel.traffic_bytes(elements);
  const KernelStep step{kernel, 0, kernel.array_count() - 1};
  const auto check_result = [&]() -> Result<double> {
    RIDGE_TRY_STATUS(arrays.launch_kernel(step));
    return check_kernel(kernel,
                        {.elements = elements, .read_values = [&](auto... at) { return arrays.read_values(at...); }});
  };
  RIDGE_TRY(error_before, check_result());
  RIDGE_TRY(ours, record_work(arrays.queue(), launches_per_replay, [&](auto) { return arrays.launch_kernel(step); }));
  // A copy reads and writes, so half as many bytes make the same traffic.
  const auto copied = static_cast<std::int64_t>(bytes) / 2;
  RIDGE_TRY(copy, record_work(arrays.queue(), launches_per_replay, [&](auto) { return arrays.launch_copy(copied); }));
  ComparisonRow row{
      .labels = {{"kernel", kernel.name}, {"dtype", dtype_name(kernel.dtype)}, {"columns", kernel.columns}}};
  row.competitors = {{.name = "ridge", .bytes = bytes}, {.name = "copy", .bytes = bytes}};
  const auto time_call = [&](std::size_t i) { return time_work(arrays.queue(), i == 0 ? ours : copy); };
  RIDGE_TRY_STATUS(warm_up(row.competitors, 0, time_call));
  RIDGE_TRY_STATUS(time_in_turns(row.competitors, rounds, time_call));
  RIDGE_TRY(error_after, check_result());
  set_ratio(row, 1);
  row.numbers = {{"bytes", bytes},
                 {"bar", min_allowed_ratio(kernel)},
                 {"max_error", std::max(error_before, error_after)},
                 {"allowed_error", kernel.allowed_error()}};
  return row;
}

}  // namespace

Result<Comparison> compare_device_streams(const BenchOptions& options) {
  RIDGE_TRY(kernels, select_kernels(device_kernels(), options.only_kernel));
  RIDGE_TRY(properties, device::device_properties());
  Comparison out = start_comparison("stream", options, 9);
  describe_device(out, properties);
  out.measures = {Comparison::Measure::gb_per_s};
  out.columns = {{"bar", "bar"}};
  out.ratio_meaning = "the time of a copy of as many bytes over ridge's";
  const std::int64_t elements = options.elements > 0 ? options.elements : std::int64_t{1} << 28;
  out.settings["elements"] = elements;
  out.notes = {fmt::format("arrays of {} elements", elements)};
  RIDGE_TRY_STATUS(time_rows(out, kernels, options,
                             [&](const VectorKernel& kernel) { return compare_kernel(kernel, elements, out.rounds); }));
  out.clocks_after = read_device_clocks();
  return out;
}

}  // namespace ridge

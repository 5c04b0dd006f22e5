#include "ridge/ops/attention/cuda.h"

#include "ridge/base/ceil_div.h"
#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/device/tensor_maps.h"
#include "ridge/ops/attention/sm90.h"

namespace ridge::ops::cuda {

namespace {

// Encodes the tensor maps of uniform sequences; returns false if the driver rejects one.
bool encode_maps(AttentionMaps& maps, const AttentionCall& call, const AttentionProblem& p, const AttentionConfig& c) {
  const auto encode_map = [&](CUtensorMap& map, const void* data, const HeadsLayout& x, std::int64_t rows,
                              std::int64_t heads, int box) {
    const device::MatrixBatch2D shape{const_cast<void*>(data), p.width, rows, heads, p.outer, x.row, x.head, x.outer};
    return device::encode_tensor_map(map, shape, p.dtype, {swizzled_elements(p.dtype), box});
  };
  return encode_map(maps.q, call.q, p.q, p.rows, p.heads, c.m) &&
         encode_map(maps.k, call.k, p.k, p.keys, p.key_heads, c.kv) &&
         encode_map(maps.v, call.v, p.v, p.keys, p.key_heads, c.kv) &&
         encode_map(maps.o, call.o, p.o, p.rows, p.heads, 64);
}

// Sizes of a tensor map whose loads stop at the end of a matrix of any length n. Row r has the coordinate max_rows - n
// + r on one axis, which ends at max_rows, and the matrix's first row + n on the next axis. Both axes have the stride
// of one row and begin `max_rows` rows before the first row.
struct BoundedRows {
  std::int64_t max_rows, total_rows, matrices;
  std::int64_t heads;
  int box;
};
bool encode_bounded_map(CUtensorMap& map, const void* data, const HeadsLayout& x, const AttentionProblem& p,
                        const BoundedRows& ending) {
  const std::int64_t element_bytes = operand_bytes(p.dtype), unit = 16 / element_bytes;
  const std::int64_t row_stride = ending.total_rows == 1 ? ceil_div(p.width, unit) * unit : x.row;
  const auto* const shifted_data = static_cast<const char*>(data) - ending.max_rows * row_stride * element_bytes;
  const device::FiveAxisTensor axes{const_cast<char*>(shifted_data),
                                    {p.width, ending.max_rows, ending.total_rows + 1, ending.heads, ending.matrices},
                                    {row_stride, row_stride, x.head, x.outer},
                                    {swizzled_elements(p.dtype), ending.box, 1}};
  return device::encode_tensor_map(map, axes, p.dtype);
}

// Encodes the tensor maps of ragged sequences, where `heads_per_tile` heads share a tile.
bool encode_ragged_maps(AttentionMaps& maps, const AttentionCall& call, const AttentionProblem& p,
                        const AttentionConfig& c, int heads_per_tile) {
  const auto encode_rows = [&](CUtensorMap& map, const void* data, const HeadsLayout& x, int box) {
    if (p.packed) return encode_bounded_map(map, data, x, p, {p.rows, p.packed->rows, 1, p.heads, box});
    const device::FiveAxisTensor axes{const_cast<void*>(data),
                                      {p.width, heads_per_tile, p.rows, p.heads / heads_per_tile, p.outer},
                                      {x.head, x.row, x.head * heads_per_tile, x.outer},
                                      {swizzled_elements(p.dtype), heads_per_tile, box / heads_per_tile}};
    return device::encode_tensor_map(map, axes, p.dtype);
  };
  const auto encode_keys = [&](CUtensorMap& map, const void* data, const HeadsLayout& x) {
    BoundedRows ending{p.keys, p.keys, p.outer, p.key_heads, c.kv};
    if (p.pages)
      ending = {p.pages->rows, p.pages->rows, p.pages->count, p.key_heads, keys_per_box(p, c)};
    else if (p.packed)
      ending = {p.keys, p.packed->keys, 1, p.key_heads, c.kv};
    return encode_bounded_map(map, data, x, p, ending);
  };
  return encode_rows(maps.q, call.q, p.q, c.m) && encode_keys(maps.k, call.k, p.k) &&
         encode_keys(maps.v, call.v, p.v) && encode_rows(maps.o, call.o, p.o, 64);
}

}  // namespace

Status launch(const AttentionCall& call, const AttentionPlan& plan, const device::DeviceWorkspace& workspace,
              CUstream_st* stream) {
  const AttentionProblem p = fold_heads(call.problem);
  const AttentionConfig& c = attention_kernel_configs[plan.config];
  RIDGE_TRY_STATUS(device::check_workspace(workspace, device::counter_bytes + plan.workspace_bytes));
  if ((p.lengths && (!p.packed || p.pages) && call.lengths == nullptr) || (p.pages && call.pages == nullptr) ||
      (p.packed && (call.row_starts == nullptr || (!p.pages && call.key_starts == nullptr))))
    return input_error("attention: expected lengths, starts and pages of ragged sequences, found one of them missing");
  AttentionMaps maps{};
  if (!(plan.is_ragged ? encode_ragged_maps(maps, call, p, c, plan.heads_per_tile) : encode_maps(maps, call, p, c)))
    return device::tensor_map_error();
  auto* const states = reinterpret_cast<float*>(static_cast<char*>(workspace.data) + device::counter_bytes);
  const AttentionLaunchArgs launch_args{maps,   p,
                                        call.o, call.lse,
                                        plan,   c,
                                        call,   static_cast<int*>(workspace.data),
                                        states, device::multiprocessor_count(),
                                        stream};
  // The kernels of each type are instantiated in the objects of sm90.cu.
  return SixteenBitFloats::dispatch_or_error("attention", p.dtype, [&]<class T>() {
    return device::to_status(attention_launchers<T>(plan.is_ragged)[plan.config](launch_args), "launching attention");
  });
}

}  // namespace ridge::ops::cuda

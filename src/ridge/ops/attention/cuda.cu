#include "ridge/ops/attention/cuda.h"

#include "ridge/device/device.h"
#include "ridge/device/tensor_maps.h"
#include "ridge/ops/attention/sm90.h"

namespace ridge::ops::cuda {

template <> const std::array<LaunchAttention, attention_kernel_configs.size()>& attention_kernels<Bf16>(bool is_ragged);
template <> const std::array<LaunchAttention, attention_kernel_configs.size()>& attention_kernels<F16>(bool is_ragged);

namespace {

// Encodes the tensor maps of uniform sequences; returns false if the driver rejects one.
bool encode_maps(AttentionMaps& maps, const AttentionCall& call, const AttentionProblem& p, const AttentionConfig& c) {
  const auto encode_map = [&](CUtensorMap& map, const void* data, const HeadsLayout& x, std::int64_t rows,
                              std::int64_t heads, int box) {
    const device::MatrixBatch2D shape{
        const_cast<void*>(data), p.width, rows, heads, p.outer, x.row, x.head, x.outer};
    return device::encode_tensor_map(map, shape, p.dtype, {64, box});
  };
  return encode_map(maps.q, call.q, p.q, p.rows, p.heads, c.m) &&
         encode_map(maps.k, call.k, p.k, p.keys, p.key_heads, c.kv) &&
         encode_map(maps.v, call.v, p.v, p.keys, p.key_heads, c.kv) &&
         encode_map(maps.o, call.o, p.o, p.rows, p.heads, 64);
}

// A tensor map whose loads stop at the end of a matrix of any length n: row r has coordinate max_rows - n + r on one
// axis, which ends at max_rows, and the matrix's first row + n on the next axis. Both axes have the stride of one row
// and begin `max_rows` rows before the first row.
struct EndingRows {
  std::int64_t max_rows, total_rows, matrices;  // Maximum rows of a matrix, total rows, number of matrices
  std::int64_t heads;
  int box;
};
bool encode_ending_map(CUtensorMap& map, const void* data, const HeadsLayout& x, const AttentionProblem& p,
                       const EndingRows& ending) {
  const std::int64_t row_stride = ending.total_rows == 1 ? (p.width + 7) / 8 * 8 : x.row;
  const auto* const shifted_data = static_cast<const std::uint16_t*>(data) - ending.max_rows * row_stride;
  const device::FiveAxisTensor axes{const_cast<std::uint16_t*>(shifted_data),
                                    {p.width, ending.max_rows, ending.total_rows + 1, ending.heads, ending.matrices},
                                    {row_stride, row_stride, x.head, x.outer},
                                    {64, ending.box, 1}};
  return device::encode_tensor_map(map, axes, p.dtype);
}

// Encodes the tensor maps of ragged sequences, with the heads of a group as lines of a row.
bool encode_ragged_maps(AttentionMaps& maps, const AttentionCall& call, const AttentionProblem& p,
                        const AttentionConfig& c, int group) {
  const auto encode_rows = [&](CUtensorMap& map, const void* data, const HeadsLayout& x, int box) {
    if (p.packed) return encode_ending_map(map, data, x, p, {p.rows, p.packed->rows, 1, p.heads, box});
    const device::FiveAxisTensor axes{const_cast<void*>(data),
                                      {p.width, group, p.rows, p.heads / group, p.outer},
                                      {x.head, x.row, x.head * group, x.outer},
                                      {64, group, box / group}};
    return device::encode_tensor_map(map, axes, p.dtype);
  };
  const auto encode_keys = [&](CUtensorMap& map, const void* data, const HeadsLayout& x) {
    EndingRows ending{p.keys, p.keys, p.outer, p.key_heads, c.kv};
    if (p.pages)
      ending = {p.pages->rows, p.pages->rows, p.pages->count, p.key_heads, rows_per_box(p, c)};
    else if (p.packed)
      ending = {p.keys, p.packed->keys, 1, p.key_heads, c.kv};
    return encode_ending_map(map, data, x, p, ending);
  };
  return encode_rows(maps.q, call.q, p.q, c.m) && encode_keys(maps.k, call.k, p.k) &&
         encode_keys(maps.v, call.v, p.v) && encode_rows(maps.o, call.o, p.o, 64);
}

}  // namespace

std::optional<std::string> launch(const AttentionCall& call, const AttentionPlan& plan,
                                  const device::DeviceWorkspace& workspace, CUstream_st* stream) {
  const AttentionProblem p = fold_heads(call.problem);
  const AttentionConfig& c = attention_kernel_configs[static_cast<std::size_t>(plan.config)];
  if (workspace.bytes < device::counter_bytes + plan.workspace_bytes)
    return "attention: expected a workspace of " + std::to_string(device::counter_bytes + plan.workspace_bytes) +
           " bytes, found " + std::to_string(workspace.bytes);
  if ((p.lengths && (!p.packed || p.pages) && call.lengths == nullptr) || (p.pages && call.pages == nullptr) ||
      (p.packed && (call.row_starts == nullptr || (!p.pages && call.key_starts == nullptr))))
    return "attention: expected lengths, starts and pages of ragged sequences, found one of them missing";
  AttentionMaps maps{};
  if (!(plan.is_ragged ? encode_ragged_maps(maps, call, p, c, plan.group) : encode_maps(maps, call, p, c)))
    return "attention: the driver rejected a tensor map of an operand";
  auto* const states = reinterpret_cast<float*>(static_cast<char*>(workspace.data) + device::counter_bytes);
  const AttentionLaunch launch_args{maps,   p,
                                    call.o, call.lse,
                                    plan,   c,
                                    call,   static_cast<int*>(workspace.data),
                                    states, device::multiprocessor_count(),
                                    stream};
  const auto& kernels =
      p.dtype == DType::bf16 ? attention_kernels<Bf16>(plan.is_ragged) : attention_kernels<F16>(plan.is_ragged);
  const cudaError_t e = kernels[static_cast<std::size_t>(plan.config)](launch_args);
  if (e == cudaSuccess) return std::nullopt;
  return std::string("launching attention: ") + cudaGetErrorString(e);
}

}  // namespace ridge::ops::cuda

#include "ridge/ops/attention/cuda.h"

#include "ridge/device/device.h"
#include "ridge/device/tensor_maps.h"
#include "ridge/ops/attention/sm90.h"

namespace ridge::ops::cuda {

template <> const std::array<LaunchAttention, attention_menu.size()>& attention_kernels<Bf16>();
template <> const std::array<LaunchAttention, attention_menu.size()>& attention_kernels<F16>();

std::optional<std::string> launch(const AttentionCall& call, const AttentionPlan& plan, const Workspace& workspace,
                                  CUstream_st* stream) {
  const AttentionProblem p = folded(call.problem);
  const AttentionConfig& c = attention_menu[static_cast<std::size_t>(plan.config)];
  if (workspace.bytes < counter_bytes + plan.workspace_bytes)
    return "attention: expected a workspace of " + std::to_string(counter_bytes + plan.workspace_bytes) +
           " bytes, found " + std::to_string(workspace.bytes);
  AttentionMaps maps{};
  const auto encoded = [&](CUtensorMap& map, const void* data, const HeadsLayout& x, std::int64_t rows,
                           std::int64_t heads, int box) {
    const Stacked lines{const_cast<void*>(data), p.width, rows, heads, p.outer, x.row, x.head, x.outer};
    return encode(map, lines, p.dtype, {64, box});
  };
  if (!encoded(maps.q, call.q, p.q, p.rows, p.heads, c.m) || !encoded(maps.k, call.k, p.k, p.keys, p.key_heads, c.kv) ||
      !encoded(maps.v, call.v, p.v, p.keys, p.key_heads, c.kv) || !encoded(maps.o, call.o, p.o, p.rows, p.heads, 64))
    return "describing the operands of attention to the copy engine";
  auto* const states = reinterpret_cast<float*>(static_cast<char*>(workspace.data) + counter_bytes);
  const AttentionLaunch launch{maps,       p,
                               call.o,     call.lse,
                               plan.width, plan.parts,
                               plan.items, static_cast<int*>(workspace.data),
                               states,     multiprocessors(),
                               stream};
  const auto& kernels = p.dtype == DType::bf16 ? attention_kernels<Bf16>() : attention_kernels<F16>();
  const cudaError_t e = kernels[static_cast<std::size_t>(plan.config)](launch);
  if (e == cudaSuccess) return std::nullopt;
  return std::string("launching attention: ") + cudaGetErrorString(e);
}

}  // namespace ridge::ops::cuda

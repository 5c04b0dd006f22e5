#include <array>

#include "ridge/device/device.h"
#include "ridge/device/tensor_maps.h"
#include "ridge/ops/attention/backward_sm90.h"
#include "ridge/ops/attention/cuda.h"

namespace ridge::ops::cuda {

using AttentionBackwardKernels = std::array<LaunchAttentionBackward, attention_backward_menu.size()>;
template <> const AttentionBackwardKernels& attention_backward_kernels<Bf16>(bool ordered);
template <> const AttentionBackwardKernels& attention_backward_kernels<F16>(bool ordered);

std::optional<std::string> launch(const AttentionBackwardCall& call, const AttentionBackwardPlan& plan,
                                  const Workspace& workspace, CUstream_st* stream) {
  const AttentionBackwardProblem& all = call.problem;
  const AttentionProblem& p = all.forward;
  const AttentionBackwardConfig& c = attention_backward_menu[static_cast<std::size_t>(plan.config)];
  if (workspace.bytes < counter_bytes + plan.workspace_bytes)
    return "attention backward: expected a workspace of " + std::to_string(counter_bytes + plan.workspace_bytes) +
           " bytes, found " + std::to_string(workspace.bytes);
  AttentionBackwardMaps maps{};
  const auto encoded = [&](CUtensorMap& map, const void* data, const HeadsLayout& x, bool of_rows, int box) {
    const Stacked lines{const_cast<void*>(data),
                        p.width,
                        of_rows ? p.rows : p.keys,
                        of_rows ? p.heads : p.key_heads,
                        p.outer,
                        x.row,
                        x.head,
                        x.outer};
    return encode(map, lines, p.dtype, {64, box});
  };
  const AttentionBackwardData& d = call.data;
  if (!encoded(maps.q, d.q, p.q, true, c.q) || !encoded(maps.dout, d.dout, all.dout, true, c.q) ||
      !encoded(maps.k, d.k, p.k, false, c.m) || !encoded(maps.v, d.v, p.v, false, c.m) ||
      !encoded(maps.dk, d.dk, all.dk, false, 64) || !encoded(maps.dv, d.dv, all.dv, false, 64))
    return "attention backward: the driver rejected a tensor map of an operand";
  char* const sums = static_cast<char*>(workspace.data) + counter_bytes;
  char* const numbers = sums + plan.sums_bytes;
  int* const turns = all.ordered ? reinterpret_cast<int*>(numbers + plan.numbers_bytes) : nullptr;
  const AttentionBackwardLaunch launch{maps,
                                       all,
                                       d,
                                       plan,
                                       static_cast<int*>(workspace.data),
                                       reinterpret_cast<float*>(sums),
                                       reinterpret_cast<float*>(numbers),
                                       turns,
                                       multiprocessors(),
                                       stream};
  const auto& kernels = p.dtype == DType::bf16 ? attention_backward_kernels<Bf16>(all.ordered)
                                               : attention_backward_kernels<F16>(all.ordered);
  const cudaError_t e = kernels[static_cast<std::size_t>(plan.config)](launch);
  if (e == cudaSuccess) return std::nullopt;
  return std::string("launching attention backward: ") + cudaGetErrorString(e);
}

}  // namespace ridge::ops::cuda

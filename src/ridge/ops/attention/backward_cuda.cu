#include <array>

#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/device/tensor_maps.h"
#include "ridge/ops/attention/backward_sm90.h"
#include "ridge/ops/attention/cuda.h"

namespace ridge::ops::cuda {

Status launch(const AttentionBackwardCall& call, const AttentionBackwardPlan& plan,
              const device::DeviceWorkspace& workspace, CUstream_st* stream) {
  const AttentionBackwardProblem& problem = call.problem;
  const AttentionProblem& p = problem.forward;
  const AttentionBackwardConfig& c = attention_backward_kernel_configs[plan.config];
  RIDGE_TRY_STATUS(device::check_workspace(workspace, device::counter_bytes + plan.workspace_bytes));
  AttentionBackwardMaps maps{};
  const auto encode_map = [&](CUtensorMap& map, const void* data, const HeadsLayout& x, bool has_rows, int box) {
    const device::MatrixBatch2D shape{const_cast<void*>(data),
                                      p.width,
                                      has_rows ? p.rows : p.keys,
                                      has_rows ? p.heads : p.key_heads,
                                      p.outer,
                                      x.row,
                                      x.head,
                                      x.outer};
    return device::encode_tensor_map(map, shape, p.dtype, {swizzled_elements(p.dtype), box});
  };
  const AttentionBackwardData& d = call.data;
  if (!encode_map(maps.q, d.q, p.q, true, c.q) || !encode_map(maps.dout, d.dout, problem.dout, true, c.q) ||
      !encode_map(maps.k, d.k, p.k, false, c.m) || !encode_map(maps.v, d.v, p.v, false, c.m) ||
      !encode_map(maps.dk, d.dk, problem.dk, false, 64) || !encode_map(maps.dv, d.dv, problem.dv, false, 64))
    return device::tensor_map_error();
  char* const dq_sums = static_cast<char*>(workspace.data) + device::counter_bytes;
  char* const row_stats = dq_sums + plan.dq_sums_bytes;
  int* const add_counts = problem.ordered ? reinterpret_cast<int*>(row_stats + plan.row_stats_bytes) : nullptr;
  const BackwardLaunchArgs launch_args{maps,
                                       problem,
                                       d,
                                       plan,
                                       static_cast<int*>(workspace.data),
                                       reinterpret_cast<float*>(dq_sums),
                                       reinterpret_cast<float*>(row_stats),
                                       add_counts,
                                       device::multiprocessor_count(),
                                       stream};
  // The kernels of each type are instantiated in the objects of backward_sm90.cu.
  return SixteenBitFloats::dispatch_or_error("the gradients of attention", p.dtype, [&]<class T>() {
    return device::to_status(backward_launchers<T>(problem.ordered)[plan.config](launch_args),
                             "launching the gradients of attention");
  });
}

}  // namespace ridge::ops::cuda

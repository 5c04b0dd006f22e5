#include "ridge/matmul.h"

#include "ridge/device/device.h"

namespace ridge {

Result<MatmulPlan> plan_matmul(const MatmulCall& call, std::size_t most_workspace_bytes, const TuneOptions& tune) {
  if (const auto refusal = ops::cuda::refuse(call)) return input_error(*refusal);
  if (const Status there = ops::cuda::require_device(); !there) return there.error();
  const auto chosen = choose_plan(call, most_workspace_bytes, tune);
  return chosen ? Result(chosen->plan) : chosen.error();
}

Status matmul(CUstream_st* stream, const MatmulCall& call, const MatmulPlan& plan, const Workspace& workspace) {
  if (const auto refusal = ops::cuda::refuse(call)) return input_error(*refusal);
  if (const auto failure = ops::cuda::launch(call, plan, workspace, stream)) return absent_error(*failure);
  return Done{};
}

Status matmul(CUstream_st* stream, const MatmulCall& call, const Workspace& workspace) {
  const auto plan = plan_matmul(call, workspace.bytes);
  if (!plan) return plan.error();
  return matmul(stream, call, *plan, workspace);
}

}  // namespace ridge

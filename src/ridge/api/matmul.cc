#include "ridge/matmul.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/api/tune_options.h"
#include "ridge/device/device.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/describe.h"
#include "ridge/plan/kernel_list.h"
#include "ridge/run/tune.h"

namespace ridge {

struct MatmulPlan::Impl {
  ops::cuda::MatmulPlan plan;
};

namespace {

ops::MatrixLayout to_internal(const MatrixLayout& x) { return {x.dtype, x.row_stride, x.col_stride, x.batch_stride}; }

ops::EpilogueOperand to_internal(const EpilogueOperand& x) {
  return {x.data, x.dtype, x.row_stride, x.col_stride, x.batch_stride};
}

ops::EpilogueActivation to_internal(Activation x) {
  switch (x) {
    case Activation::none: return ops::EpilogueActivation::none;
    case Activation::relu: return ops::EpilogueActivation::relu;
    case Activation::gelu: return ops::EpilogueActivation::gelu;
    case Activation::gelu_tanh: return ops::EpilogueActivation::gelu_tanh;
    case Activation::silu: return ops::EpilogueActivation::silu;
  }
  return ops::EpilogueActivation::none;
}

ops::MatmulCall to_internal(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  const MatmulEpilogue& e = call.epilogue;
  ops::MatmulCall out;
  out.problem = {p.batch, {p.m, p.n, p.k}, to_internal(p.a), to_internal(p.b), to_internal(p.d), p.grouped};
  out.a = call.a;
  out.b = call.b;
  out.d = call.d;
  out.epilogue = {e.alpha,
                  e.beta,
                  to_internal(e.activation),
                  to_internal(e.scale),
                  to_internal(e.bias),
                  to_internal(e.gate),
                  to_internal(e.addend)};
  out.constant_b = call.constant_b;
  out.starts = call.starts;
  return out;
}

// Returns why a device cannot compute the call. The order of blocks with scales in memory is internal to programs.
Reason unsupported_reason(const ops::MatmulCall& call) {
  for (const DType dtype : {call.problem.a.dtype, call.problem.b.dtype})
    if (is_block_scaled(dtype))
      return fmt::format("expected operands without block scales, found {}", dtype_name(dtype));
  return ops::cuda::unsupported_reason(call);
}

std::size_t to_size(std::int64_t bytes) { return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)); }

}  // namespace

MatmulPlan::Path MatmulPlan::path() const {
  switch (impl_->plan.path) {
    case ops::cuda::MatmulPlan::Path::nothing: return Path::nothing;
    case ops::cuda::MatmulPlan::Path::tiles:
    case ops::cuda::MatmulPlan::Path::register_loads:
    case ops::cuda::MatmulPlan::Path::weight_only: return Path::tiles;
    case ops::cuda::MatmulPlan::Path::gemv: return Path::gemv;
    case ops::cuda::MatmulPlan::Path::plain: break;
  }
  return Path::plain;
}
std::int64_t MatmulPlan::workspace_bytes() const { return static_cast<std::int64_t>(impl_->plan.workspace_bytes); }
std::string MatmulPlan::kernel() const { return path() == Path::nothing ? "" : plan_name(impl_->plan); }
int MatmulPlan::splits() const { return impl_->plan.splits; }
std::int64_t MatmulPlan::tiles() const { return impl_->plan.tiles; }
double MatmulPlan::predicted_seconds() const { return impl_->plan.predicted_s; }

Result<MatmulPlan> plan_matmul(const MatmulCall& call, std::int64_t max_workspace_bytes, const Tuning& tuning) {
  const ops::MatmulCall internal = to_internal(call);
  if (const auto reason = unsupported_reason(internal)) return input_error(reason.text());
  RIDGE_TRY_STATUS(device::require_device());
  RIDGE_TRY(chosen, choose_matmul_plan(internal, to_size(max_workspace_bytes), to_tune_options(tuning)));
  return MatmulPlan(std::make_shared<const MatmulPlan::Impl>(MatmulPlan::Impl{chosen.plan}));
}

Status matmul(CUstream_st* stream, const MatmulCall& call, const MatmulPlan& plan, const Workspace& workspace) {
  const ops::MatmulCall internal = to_internal(call);
  if (const auto reason = unsupported_reason(internal)) return input_error(reason.text());
  const device::DeviceWorkspace given{workspace.data, to_size(workspace.bytes), workspace.prepared};
  return ops::cuda::launch(internal, plan.impl().plan, given, stream);
}

Status matmul(CUstream_st* stream, const MatmulCall& call, const Workspace& workspace) {
  RIDGE_TRY(plan, plan_matmul(call, workspace.bytes));
  return matmul(stream, call, plan, workspace);
}

}  // namespace ridge

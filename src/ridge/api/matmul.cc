#include "ridge/matmul.h"

#include <algorithm>

#include "ridge/api/tune_options.h"
#include "ridge/device/device.h"
#include "ridge/measure/tune.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/describe.h"
#include "ridge/plan/menu_list.h"

namespace ridge {

struct MatmulPlan::Parts {
  ops::cuda::MatmulPlan plan;
};

namespace {

ops::MatrixLayout inner(const MatrixLayout& x) { return {x.dtype, x.row_stride, x.col_stride, x.batch_stride}; }

ops::EpilogueOperand inner(const EpilogueOperand& x) {
  return {x.data, x.dtype, x.row_stride, x.col_stride, x.batch_stride};
}

ops::Activation inner(Activation x) {
  switch (x) {
    case Activation::none: return ops::Activation::none;
    case Activation::relu: return ops::Activation::relu;
    case Activation::gelu: return ops::Activation::gelu;
    case Activation::gelu_tanh: return ops::Activation::gelu_tanh;
    case Activation::silu: return ops::Activation::silu;
  }
  return ops::Activation::none;
}

ops::MatmulCall inner(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  const MatmulEpilogue& e = call.epilogue;
  ops::MatmulCall out;
  out.problem = {p.batch, p.m, p.n, p.k, inner(p.a), inner(p.b), inner(p.d), p.grouped};
  out.a = call.a;
  out.b = call.b;
  out.d = call.d;
  out.epilogue = {e.alpha, e.beta, inner(e.activation), inner(e.scale), inner(e.bias), inner(e.gate), inner(e.addend)};
  out.constant_b = call.constant_b;
  out.starts = call.starts;
  return out;
}

std::size_t size_of(std::int64_t bytes) { return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)); }

}  // namespace

MatmulPlan::Path MatmulPlan::path() const {
  switch (parts_->plan.path) {
    case ops::cuda::MatmulPlan::Path::nothing: return Path::nothing;
    case ops::cuda::MatmulPlan::Path::tiles: return Path::tiles;
    case ops::cuda::MatmulPlan::Path::gemv: return Path::gemv;
    case ops::cuda::MatmulPlan::Path::plain: break;
  }
  return Path::plain;
}
std::int64_t MatmulPlan::workspace_bytes() const { return static_cast<std::int64_t>(parts_->plan.workspace_bytes); }
std::string MatmulPlan::kernel() const { return path() == Path::nothing ? "" : plan_name(parts_->plan); }
int MatmulPlan::splits() const { return parts_->plan.splits; }
std::int64_t MatmulPlan::tiles() const { return parts_->plan.tiles; }
double MatmulPlan::predicted_seconds() const { return parts_->plan.predicted_s; }

Result<MatmulPlan> plan_matmul(const MatmulCall& call, std::int64_t most_workspace_bytes, const Tuning& tuning) {
  const ops::MatmulCall asked = inner(call);
  if (const auto refusal = ops::cuda::refuse(asked)) return input_error(*refusal);
  if (const Status there = ops::cuda::require_device(); !there) return there.error();
  const auto chosen = choose_plan(asked, size_of(most_workspace_bytes), tune_options(tuning));
  if (!chosen) return chosen.error();
  return MatmulPlan(std::make_shared<const MatmulPlan::Parts>(MatmulPlan::Parts{chosen->plan}));
}

Status matmul(CUstream_st* stream, const MatmulCall& call, const MatmulPlan& plan, const Workspace& workspace) {
  const ops::MatmulCall asked = inner(call);
  if (const auto refusal = ops::cuda::refuse(asked)) return input_error(*refusal);
  const ops::cuda::Workspace given{workspace.data, size_of(workspace.bytes), workspace.prepared};
  if (const auto failure = ops::cuda::launch(asked, plan.parts().plan, given, stream)) return absent_error(*failure);
  return Done{};
}

Status matmul(CUstream_st* stream, const MatmulCall& call, const Workspace& workspace) {
  const auto plan = plan_matmul(call, workspace.bytes);
  if (!plan) return plan.error();
  return matmul(stream, call, *plan, workspace);
}

}  // namespace ridge

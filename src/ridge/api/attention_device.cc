// AttentionOnDevice of ridge/compute.h.
#include <fmt/format.h>

#include "ridge/api/device_guard.h"
#include "ridge/api/training.h"
#include "ridge/compute.h"
#include "ridge/device/stream.h"
#include "ridge/ops/attention/cuda.h"
#include "ridge/run/device_machine.h"

namespace ridge {

struct AttentionOnDevice::Impl {
  int device = 0;
  Sizes sizes;
  ops::AttentionBackwardProblem problem;  // Contains the forward problem
  ops::cuda::AttentionPlan forward;
  ops::cuda::AttentionBackwardPlan backward;
};

namespace {

namespace cuda = ops::cuda;
using Sizes = AttentionOnDevice::Sizes;
using AttentionImpl = AttentionOnDevice::Impl;

ops::AttentionBackwardProblem make_problem(const Sizes& s) {
  const ops::HeadsLayout row_layout{s.heads * s.rows * s.width, s.rows * s.width, s.width};
  const ops::HeadsLayout key_layout{s.heads * s.keys * s.width, s.keys * s.width, s.width};
  ops::AttentionBackwardProblem out;
  ops::AttentionProblem& p = out.forward;
  p.dtype = s.dtype;
  p.heads = p.key_heads = s.heads;
  p.rows = s.rows;
  p.keys = s.keys;
  p.width = s.width;
  p.scale = s.scale;
  if (s.causal) p.high = 0;
  p.q = p.o = out.dout = out.dq = row_layout;
  p.k = p.v = out.dk = out.dv = key_layout;
  return out;
}

Result<std::shared_ptr<const AttentionImpl>> plan_attention(int device, const Sizes& sizes) {
  if (sizes.heads < 1 || sizes.rows < 1 || sizes.keys < 1 || sizes.width < 1)
    return input_error(fmt::format("expected sizes of at least 1, found {} heads, {} rows, {} keys, width {}",
                                   sizes.heads, sizes.rows, sizes.keys, sizes.width));
  const ops::AttentionBackwardProblem problem = make_problem(sizes);
  for (const auto& reason : {cuda::unsupported_reason(problem.forward), cuda::unsupported_reason(problem)})
    if (reason) return input_error(reason.text());
  const device::RelaxedCaptureGuard capture_guard;
  const api::DeviceGuard device_guard(device);
  if (!device_guard.status()) return device_guard.status().error();
  RIDGE_TRY(numbers, current_device_numbers());
  return std::make_shared<const AttentionImpl>(AttentionImpl{
      device, sizes, problem, cuda::choose_plan(problem.forward, numbers), cuda::choose_plan(problem, numbers)});
}

template <class Call, class Plan> Status launch_attention(const AttentionImpl& impl, const Call& call, const Plan& plan,
                                                          void* scratch, CUstream_st* stream) {
  const api::DeviceGuard device_guard(impl.device);
  if (!device_guard.status()) return device_guard.status();
  RIDGE_TRY_STATUS(device::clear_on_stream(stream, scratch, static_cast<std::int64_t>(device::counter_bytes)));
  return launch(call, plan, {scratch, device::counter_bytes + plan.workspace_bytes, true}, stream);
}

}  // namespace

Result<AttentionOnDevice> AttentionOnDevice::make(int device, const Sizes& sizes) {
  static api::PlanCache<AttentionImpl> plans;
  RIDGE_TRY(impl, plans.find_or_plan(device, sizes, plan_attention));
  return AttentionOnDevice(std::move(impl));
}

std::int64_t AttentionOnDevice::forward_scratch_bytes() const {
  return static_cast<std::int64_t>(device::counter_bytes + impl_->forward.workspace_bytes);
}
std::int64_t AttentionOnDevice::backward_scratch_bytes() const {
  return static_cast<std::int64_t>(device::counter_bytes + impl_->backward.workspace_bytes);
}

Status AttentionOnDevice::queue(CUstream_st* stream, const Forward& a, void* scratch) const {
  RIDGE_TRY_STATUS(api::check_addresses({{"q", a.q}, {"k", a.k}, {"v", a.v}, {"o", a.o}, {"lse", a.lse}}, scratch,
                                        forward_scratch_bytes()));
  const cuda::AttentionCall call{impl_->problem.forward, a.q, a.k, a.v, a.o, static_cast<float*>(a.lse)};
  return launch_attention(*impl_, call, impl_->forward, scratch, stream);
}

Status AttentionOnDevice::queue(CUstream_st* stream, const Backward& a, void* scratch) const {
  RIDGE_TRY_STATUS(api::check_addresses({{"q", a.q},
                                         {"k", a.k},
                                         {"v", a.v},
                                         {"o", a.o},
                                         {"dout", a.dout},
                                         {"lse", a.lse},
                                         {"dq", a.dq},
                                         {"dk", a.dk},
                                         {"dv", a.dv}},
                                        scratch, backward_scratch_bytes()));
  const cuda::AttentionBackwardCall call{
      impl_->problem, {a.q, a.k, a.v, a.o, a.dout, static_cast<const float*>(a.lse), a.dq, a.dk, a.dv}};
  return launch_attention(*impl_, call, impl_->backward, scratch, stream);
}

}  // namespace ridge

// Attention of training steps in a device's memory, as ridge/compute.h has it.
#include <fmt/format.h>

#include "ridge/api/on_device.h"
#include "ridge/api/training.h"
#include "ridge/compute.h"
#include "ridge/device/stream.h"
#include "ridge/measure/device_machine.h"
#include "ridge/ops/attention/cuda.h"

namespace ridge {

struct AttentionOnDevice::Parts {
  int device = 0;
  Sizes sizes;
  ops::AttentionBackwardProblem problem;  // and the forward one in it
  ops::cuda::AttentionPlan forward;
  ops::cuda::AttentionBackwardPlan backward;
};

namespace {

namespace cuda = ops::cuda;
using Sizes = AttentionOnDevice::Sizes;
using Parts = AttentionOnDevice::Parts;

ops::AttentionBackwardProblem problem_of(const Sizes& s) {
  const ops::HeadsLayout of_rows{s.heads * s.rows * s.width, s.rows * s.width, s.width};
  const ops::HeadsLayout of_keys{s.heads * s.keys * s.width, s.keys * s.width, s.width};
  ops::AttentionBackwardProblem out;
  ops::AttentionProblem& p = out.forward;
  p.dtype = s.dtype;
  p.heads = p.key_heads = s.heads;
  p.rows = s.rows;
  p.keys = s.keys;
  p.width = s.width;
  p.scale = s.scale;
  if (s.causal) p.high = 0;
  p.q = p.o = out.dout = out.dq = of_rows;
  p.k = p.v = out.dk = out.dv = of_keys;
  return out;
}

Result<std::shared_ptr<const Parts>> chosen(int device, const Sizes& sizes) {
  if (sizes.heads < 1 || sizes.rows < 1 || sizes.keys < 1 || sizes.width < 1)
    return input_error(fmt::format("expected sizes of at least 1, found {} heads, {} rows, {} keys, width {}",
                                   sizes.heads, sizes.rows, sizes.keys, sizes.width));
  const ops::AttentionBackwardProblem problem = problem_of(sizes);
  for (const auto& why : {cuda::refuse(problem.forward), cuda::refuse(problem)})
    if (why) return input_error(*why);
  const cuda::OutsideCapture outside;
  const api::OnThatDevice there(device);
  if (!there.status()) return there.status().error();
  const auto numbers = device_numbers_here();
  if (!numbers) return numbers.error();
  return std::make_shared<const Parts>(
      Parts{device, sizes, problem, cuda::choose(problem.forward, *numbers), cuda::choose(problem, *numbers)});
}

template <class Call, class Plan>
Status launched(const Parts& parts, const Call& call, const Plan& plan, void* scratch, CUstream_st* stream) {
  const api::OnThatDevice there(parts.device);
  if (!there.status()) return there.status();
  const Status cleared = cuda::clear_on(stream, scratch, static_cast<std::int64_t>(cuda::counter_bytes));
  if (!cleared) return cleared;
  return api::launched(launch(call, plan, {scratch, cuda::counter_bytes + plan.workspace_bytes, true}, stream));
}

}  // namespace

Result<AttentionOnDevice> AttentionOnDevice::make(int device, const Sizes& sizes) {
  static api::KeptPlans<Parts> plans;
  auto parts = plans.get(device, sizes, chosen);
  if (!parts) return parts.error();
  return AttentionOnDevice(*std::move(parts));
}

std::int64_t AttentionOnDevice::forward_scratch_bytes() const {
  return static_cast<std::int64_t>(cuda::counter_bytes + parts_->forward.workspace_bytes);
}
std::int64_t AttentionOnDevice::backward_scratch_bytes() const {
  return static_cast<std::int64_t>(cuda::counter_bytes + parts_->backward.workspace_bytes);
}

Status AttentionOnDevice::queue(CUstream_st* stream, const Forward& a, void* scratch) const {
  const Status fits = api::check_addresses({{"q", a.q}, {"k", a.k}, {"v", a.v}, {"o", a.o}, {"lse", a.lse}}, scratch,
                                           forward_scratch_bytes());
  if (!fits) return fits;
  const cuda::AttentionCall call{parts_->problem.forward, a.q, a.k, a.v, a.o, static_cast<float*>(a.lse)};
  return launched(*parts_, call, parts_->forward, scratch, stream);
}

Status AttentionOnDevice::queue(CUstream_st* stream, const Backward& a, void* scratch) const {
  const Status fits = api::check_addresses({{"q", a.q},
                                            {"k", a.k},
                                            {"v", a.v},
                                            {"o", a.o},
                                            {"dout", a.dout},
                                            {"lse", a.lse},
                                            {"dq", a.dq},
                                            {"dk", a.dk},
                                            {"dv", a.dv}},
                                           scratch, backward_scratch_bytes());
  if (!fits) return fits;
  const cuda::AttentionBackwardCall call{
      parts_->problem, {a.q, a.k, a.v, a.o, a.dout, static_cast<const float*>(a.lse), a.dq, a.dk, a.dv}};
  return launched(*parts_, call, parts_->backward, scratch, stream);
}

}  // namespace ridge

// Gated layers of training steps in a device's memory, as ridge/compute.h has them.
#include "ridge/api/on_device.h"
#include "ridge/api/training.h"
#include "ridge/compute.h"
#include "ridge/device/stream.h"
#include "ridge/measure/device_machine.h"
#include "ridge/ops/gated/backward.h"

namespace ridge {

struct GegluOnDevice::Parts {
  int device = 0;
  Sizes sizes;
  ops::cuda::GatedPlan forward;
  ops::cuda::GatedBackwardPlan backward;
};

namespace {

namespace cuda = ops::cuda;
using Sizes = GegluOnDevice::Sizes;
using Forward = GegluOnDevice::Forward;
using Backward = GegluOnDevice::Backward;
using Parts = GegluOnDevice::Parts;

constexpr std::uintptr_t word = 16;                    // bytes that kernels read at once
constexpr std::int64_t line = 256;                     // bytes: where parts of the scratch begin
constexpr std::size_t beside = std::size_t{16} << 20;  // bytes that products may use beside what is made again of h

std::int64_t bytes_of_h(const Sizes& s) { return s.keeps_h ? (4 * s.rows * s.hidden + line - 1) / line * line : 0; }

ops::GatedLayer layer_of(const Sizes& s, const void* x, const void* w, const void* b) {
  const ops::GatedLayer layer{.n = s.rows, .f = s.hidden, .d = s.width, .dtype = s.dtype, .x = x};
  return with_one_matrix(layer, w, b);
}

cuda::GatedCall call_of(const Sizes& s, const Forward& a) {
  cuda::GatedCall call = cuda::gated_call(layer_of(s, a.x, a.w, a.b));
  call.y = a.y;
  call.h = s.keeps_h ? a.h : nullptr;
  return call;
}

cuda::GatedBackward call_of(const Sizes& s, const Backward& a, void* dh) {
  cuda::GatedBackward call = cuda::gated_backward(layer_of(s, a.x, a.w, a.b), a.dy, a.dx, a.dw, a.db);
  if (!s.keeps_h) return call;
  call.h = const_cast<void*>(a.h);  // only read, for dh has a place of its own
  call.dh = dh;
  return call;
}

Result<std::shared_ptr<const Parts>> chosen(int device, const Sizes& s) {
  void* const of_b = s.has_bias ? api::stand_in(2) : nullptr;
  void* const of_db = s.has_bias ? api::stand_in(3) : nullptr;
  const auto forward =
      call_of(s, Forward{api::stand_in(0), api::stand_in(1), of_b, api::stand_in(4), api::stand_in(5)});
  const auto backward = call_of(s,
                                Backward{api::stand_in(0), api::stand_in(1), of_b, api::stand_in(4), api::stand_in(5),
                                         api::stand_in(6), api::stand_in(7), of_db},
                                api::stand_in(8));
  if (const auto why = refuse(backward)) return input_error(*why);
  const cuda::OutsideCapture outside;
  const api::OnThatDevice there(device);
  if (!there.status()) return there.status().error();
  const auto numbers = device_numbers_here();
  if (!numbers) return numbers.error();
  const std::size_t third_of_h = static_cast<std::size_t>(4 * s.rows * s.hidden / 3);
  const std::size_t room = s.keeps_h ? ops::plan_workspace_bytes : third_of_h + beside;
  return std::make_shared<const Parts>(
      Parts{device, s, choose(forward, ops::plan_workspace_bytes, *numbers), choose(backward, room, *numbers)});
}

template <class Call, class Plan>
Status launched(const Parts& parts, const Call& call, const Plan& plan, void* workspace, CUstream_st* stream) {
  const api::OnThatDevice there(parts.device);
  if (!there.status()) return there.status();
  return api::launched(launch(call, plan, {workspace, plan.workspace_bytes, false}, stream));
}

}  // namespace

Result<GegluOnDevice> GegluOnDevice::make(int device, const Sizes& sizes) {
  static api::KeptPlans<Parts> plans;
  auto parts = plans.get(device, sizes, chosen);
  if (!parts) return parts.error();
  return GegluOnDevice(*std::move(parts));
}

std::int64_t GegluOnDevice::forward_scratch_bytes() const {
  return static_cast<std::int64_t>(parts_->forward.workspace_bytes);
}
std::int64_t GegluOnDevice::backward_scratch_bytes() const {
  return bytes_of_h(parts_->sizes) + static_cast<std::int64_t>(parts_->backward.workspace_bytes);
}

Status GegluOnDevice::queue(CUstream_st* stream, const Forward& a, void* scratch) const {
  const Sizes& s = parts_->sizes;
  const Status fits =
      api::check_addresses({{"x", a.x}, {"w", a.w}, {"b", a.b, s.has_bias}, {"y", a.y}, {"h", a.h, s.keeps_h}}, scratch,
                           forward_scratch_bytes());
  if (!fits) return fits;
  return launched(*parts_, call_of(s, a), parts_->forward, scratch, stream);
}

Status GegluOnDevice::queue(CUstream_st* stream, const Backward& a, void* scratch) const {
  const Sizes& s = parts_->sizes;
  const Status fits = api::check_addresses({{"x", a.x},
                                            {"w", a.w},
                                            {"b", a.b, s.has_bias},
                                            {"dy", a.dy},
                                            {"h", a.h, s.keeps_h},
                                            {"dx", a.dx},
                                            {"dw", a.dw},
                                            {"db", a.db, s.has_bias}},
                                           scratch, backward_scratch_bytes());
  if (!fits) return fits;
  return launched(*parts_, call_of(s, a, scratch), parts_->backward, static_cast<char*>(scratch) + bytes_of_h(s),
                  stream);
}

}  // namespace ridge

// GegluOnDevice of ridge/compute.h.
#include "ridge/api/device_guard.h"
#include "ridge/api/training.h"
#include "ridge/compute.h"
#include "ridge/device/stream.h"
#include "ridge/ops/gated/backward.h"
#include "ridge/run/device_machine.h"

namespace ridge {

struct GegluOnDevice::Impl {
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
using GegluImpl = GegluOnDevice::Impl;

constexpr std::int64_t scratch_alignment = 256;  // Bytes, of buffers in the scratch memory
constexpr std::size_t product_workspace_bytes = std::size_t{16}
                                                << 20;  // Workspace of the products, besides the recomputed part of h

std::int64_t h_bytes(const Sizes& s) {
  return s.keeps_h ? (4 * s.rows * s.hidden + scratch_alignment - 1) / scratch_alignment * scratch_alignment : 0;
}

ops::GatedLayer make_layer(const Sizes& s, const void* x, const void* w, const void* b) {
  const ops::GatedLayer layer{.n = s.rows, .f = s.hidden, .d = s.width, .dtype = s.dtype, .x = x};
  return with_joined_weights(layer, w, b);
}

cuda::GatedCall make_call(const Sizes& s, const Forward& a) {
  cuda::GatedCall call = cuda::make_gated_call(make_layer(s, a.x, a.w, a.b));
  call.y = a.y;
  call.h = s.keeps_h ? a.h : nullptr;
  return call;
}

cuda::GatedBackward make_call(const Sizes& s, const Backward& a, void* dh) {
  cuda::GatedBackward call = cuda::make_gated_backward_call(make_layer(s, a.x, a.w, a.b), a.dy, a.dx, a.dw, a.db);
  if (!s.keeps_h) return call;
  call.h = const_cast<void*>(a.h);  // Only read, because dh has its own buffer
  call.dh = dh;
  return call;
}

Result<std::shared_ptr<const GegluImpl>> plan_geglu(int device, const Sizes& s) {
  void* const bias = s.has_bias ? api::placeholder_address(2) : nullptr;
  void* const bias_gradient = s.has_bias ? api::placeholder_address(3) : nullptr;
  const auto forward = make_call(s, Forward{api::placeholder_address(0), api::placeholder_address(1), bias,
                                            api::placeholder_address(4), api::placeholder_address(5)});
  const auto backward = make_call(
      s,
      Backward{api::placeholder_address(0), api::placeholder_address(1), bias, api::placeholder_address(4),
               api::placeholder_address(5), api::placeholder_address(6), api::placeholder_address(7), bias_gradient},
      api::placeholder_address(8));
  if (const auto reason = unsupported_reason(backward)) return input_error(reason.text());
  const device::RelaxedCaptureGuard capture_guard;
  const api::DeviceGuard device_guard(device);
  if (!device_guard.status()) return device_guard.status().error();
  RIDGE_TRY(numbers, current_device_numbers());
  const std::size_t third_of_h = 4 * s.rows * s.hidden / 3;
  const std::size_t backward_workspace_bytes =
      s.keeps_h ? ops::plan_workspace_bytes : third_of_h + product_workspace_bytes;
  return std::make_shared<const GegluImpl>(GegluImpl{device, s,
                                                     choose_plan(forward, ops::plan_workspace_bytes, numbers),
                                                     choose_plan(backward, backward_workspace_bytes, numbers)});
}

template <class Call, class Plan>
Status launch_layer(const GegluImpl& impl, const Call& call, const Plan& plan, void* workspace, CUstream_st* stream) {
  const api::DeviceGuard device_guard(impl.device);
  if (!device_guard.status()) return device_guard.status();
  return launch(call, plan, {workspace, plan.workspace_bytes, false}, stream);
}

}  // namespace

Result<GegluOnDevice> GegluOnDevice::make(int device, const Sizes& sizes) {
  static api::PlanCache<GegluImpl> plans;
  RIDGE_TRY(impl, plans.find_or_plan(device, sizes, plan_geglu));
  return GegluOnDevice(std::move(impl));
}

std::int64_t GegluOnDevice::forward_scratch_bytes() const {
  return static_cast<std::int64_t>(impl_->forward.workspace_bytes);
}
std::int64_t GegluOnDevice::backward_scratch_bytes() const {
  return h_bytes(impl_->sizes) + static_cast<std::int64_t>(impl_->backward.workspace_bytes);
}

Status GegluOnDevice::queue(CUstream_st* stream, const Forward& a, void* scratch) const {
  const Sizes& s = impl_->sizes;
  const Status valid =
      api::check_addresses({{"x", a.x}, {"w", a.w}, {"b", a.b, s.has_bias}, {"y", a.y}, {"h", a.h, s.keeps_h}}, scratch,
                           forward_scratch_bytes());
  if (!valid) return valid;
  return launch_layer(*impl_, make_call(s, a), impl_->forward, scratch, stream);
}

Status GegluOnDevice::queue(CUstream_st* stream, const Backward& a, void* scratch) const {
  const Sizes& s = impl_->sizes;
  RIDGE_TRY_STATUS(api::check_addresses({{"x", a.x},
                                         {"w", a.w},
                                         {"b", a.b, s.has_bias},
                                         {"dy", a.dy},
                                         {"h", a.h, s.keeps_h},
                                         {"dx", a.dx},
                                         {"dw", a.dw},
                                         {"db", a.db, s.has_bias}},
                                        scratch, backward_scratch_bytes()));
  return launch_layer(*impl_, make_call(s, a, scratch), impl_->backward, static_cast<char*>(scratch) + h_bytes(s),
                      stream);
}

}  // namespace ridge

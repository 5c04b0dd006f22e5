// MatmulOnDevice of ridge/compute.h.
#include <array>
#include <mutex>
#include <unordered_map>

#include "ridge/api/device_guard.h"
#include "ridge/api/product.h"
#include "ridge/device/stream.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/tune.h"

namespace ridge {

struct MatmulOnDevice::Impl {
  int device = 0;
  ops::MatmulProblem problem;
  ops::cuda::MatmulPlan plan;
};

namespace {

namespace cuda = ops::cuda;
using MatmulImpl = MatmulOnDevice::Impl;

// Everything that determines the choice of kernels: sizes, strides, dtypes, device and alignment of the operands.
using Key = std::array<std::int64_t, 20>;
Key make_key(int device, const cuda::MatmulCall& call) {
  constexpr std::uintptr_t alignment = 16;  // Bytes; kernels access operands in vectors of this size
  const ops::MatmulProblem& p = call.problem;
  Key out{p.batch, p.size.m, p.size.n, p.size.k, device};
  std::size_t at = 5;
  for (const ops::MatrixLayout* x : {&p.a, &p.b, &p.d})
    for (const std::int64_t part : {static_cast<std::int64_t>(x->dtype), x->row_stride, x->col_stride, x->batch_stride})
      out[at++] = part;
  for (const void* data : {call.a, call.b, static_cast<const void*>(call.d)})
    out[at++] = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data) % alignment);
  return out;
}

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 14695981039346656037u;  // FNV-1a (Fowler, Noll, Vo)
    for (const std::int64_t word : key) hash = (hash ^ static_cast<std::uint64_t>(word)) * 1099511628211u;
    return hash ^ hash >> 32;
  }
};

Result<std::shared_ptr<const MatmulImpl>> plan_product(int device, const cuda::MatmulCall& call) {
  if (const auto reason = cuda::unsupported_reason(call)) return input_error(reason.text());
  const device::RelaxedCaptureGuard capture_guard;
  const api::DeviceGuard device_guard(device);
  if (!device_guard.status()) return device_guard.status().error();
  RIDGE_TRY(plan, choose_matmul_plan(call, ops::plan_workspace_bytes, {.use_stored = true}));
  return std::make_shared<const MatmulImpl>(MatmulImpl{device, call.problem, plan.plan});
}

Result<std::shared_ptr<const MatmulImpl>> find_or_plan(int device, const cuda::MatmulCall& call) {
  constexpr std::size_t max_cached = 4096;
  static std::mutex mutex;
  static std::unordered_map<Key, std::shared_ptr<const MatmulImpl>, KeyHash> plans;
  const Key key = make_key(device, call);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = plans.find(key); found != plans.end()) return found->second;
  }
  RIDGE_TRY(planned, plan_product(device, call));
  const std::lock_guard lock(mutex);
  if (plans.size() >= max_cached) plans.clear();
  plans.emplace(key, planned);
  return planned;
}

}  // namespace

bool MatmulOnDevice::can_read(const ArrayView& operand) { return api::layout_for_kernels(operand).has_value(); }

Result<MatmulOnDevice> MatmulOnDevice::make(int device, const ArrayView& a, const ArrayView& b, const ArrayView& d) {
  RIDGE_TRY_STATUS(api::check_product(a, b, d));
  for (const ArrayView* x : {&a, &b})
    if (is_block_scaled(x->dtype))
      return input_error("expected arrays without block scales, found " + std::string(dtype_name(x->dtype)),
                         "quantize inside a program");
  const auto left = api::layout_for_kernels(a), right = api::layout_for_kernels(b);
  if (!left || !right) return input_error("expected a and b with contiguous rows or columns");
  const cuda::MatmulCall call{api::make_problem(*left, *right, a, d), a.data, b.data, d.data};
  RIDGE_TRY(parts, find_or_plan(device, call));
  return MatmulOnDevice(std::move(parts), a, b, d);
}

std::int64_t MatmulOnDevice::scratch_bytes() const { return static_cast<std::int64_t>(impl_->plan.workspace_bytes); }

Status MatmulOnDevice::queue(CUstream_st* stream, void* scratch) const {
  const api::DeviceGuard device_guard(impl_->device);
  if (!device_guard.status()) return device_guard.status();
  const device::DeviceWorkspace workspace{scratch, impl_->plan.workspace_bytes, false};
  return cuda::launch({impl_->problem, a_, b_, d_}, impl_->plan, workspace, stream);
}

}  // namespace ridge

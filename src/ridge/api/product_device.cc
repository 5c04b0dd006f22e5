// Products of arrays in a device's memory, as ridge/compute.h has them.
#include <array>
#include <mutex>
#include <unordered_map>

#include "ridge/api/on_device.h"
#include "ridge/api/product.h"
#include "ridge/device/stream.h"
#include "ridge/measure/device_machine.h"
#include "ridge/measure/tune.h"
#include "ridge/ops/product/cuda.h"

namespace ridge {

struct MatmulOnDevice::Parts {
  int device = 0;
  ops::MatmulProblem problem;
  ops::cuda::MatmulPlan plan;
};

namespace {

namespace cuda = ops::cuda;
using Parts = MatmulOnDevice::Parts;

// All that a choice of kernels hangs on: sizes, strides, types, the device, and how the operands are aligned.
using Key = std::array<std::int64_t, 20>;
Key key_of(int device, const cuda::MatmulCall& call) {
  constexpr std::uintptr_t word = 16;  // bytes that kernels read at once
  const ops::MatmulProblem& p = call.problem;
  Key out{p.batch, p.m, p.n, p.k, device};
  std::size_t at = 5;
  for (const ops::MatrixLayout* x : {&p.a, &p.b, &p.d})
    for (const std::int64_t part : {static_cast<std::int64_t>(x->dtype), x->row_stride, x->col_stride, x->batch_stride})
      out[at++] = part;
  for (const void* data : {call.a, call.b, static_cast<const void*>(call.d)})
    out[at++] = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data) % word);
  return out;
}

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 14695981039346656037u;  // Fowler, Noll and Vo's
    for (const std::int64_t word : key) hash = (hash ^ static_cast<std::uint64_t>(word)) * 1099511628211u;
    return hash ^ hash >> 32;
  }
};

Result<std::shared_ptr<const Parts>> chosen(int device, const cuda::MatmulCall& call) {
  if (const auto why = cuda::refuse(call)) return input_error(*why);
  const cuda::OutsideCapture outside;
  const api::OnThatDevice there(device);
  if (!there.status()) return there.status().error();
  const auto plan = choose_plan(call, ops::plan_workspace_bytes, {.stored = true});
  if (!plan) return plan.error();
  return std::make_shared<const Parts>(Parts{device, call.problem, plan->plan});
}

Result<std::shared_ptr<const Parts>> kept(int device, const cuda::MatmulCall& call) {
  constexpr std::size_t most_kept = 4096;
  static std::mutex mutex;
  static std::unordered_map<Key, std::shared_ptr<const Parts>, KeyHash> all;
  const Key key = key_of(device, call);
  {
    const std::lock_guard lock(mutex);
    if (const auto known = all.find(key); known != all.end()) return known->second;
  }
  const auto made = chosen(device, call);
  if (!made) return made.error();
  const std::lock_guard lock(mutex);
  if (all.size() >= most_kept) all.clear();
  all.emplace(key, *made);
  return *made;
}

}  // namespace

bool MatmulOnDevice::reads(const ArrayView& operand) { return api::walked(operand).has_value(); }

Result<MatmulOnDevice> MatmulOnDevice::make(int device, const ArrayView& a, const ArrayView& b, const ArrayView& d) {
  if (const Status fits = api::check_product(a, b, d); !fits) return fits.error();
  const auto left = api::walked(a), right = api::walked(b);
  if (!left || !right)
    return input_error("expected a and b with rows or columns that lie side by side in the device's memory");
  const cuda::MatmulCall call{api::problem_of(*left, *right, a, d), a.data, b.data, d.data};
  auto parts = kept(device, call);
  if (!parts) return parts.error();
  return MatmulOnDevice(*std::move(parts), a, b, d);
}

std::int64_t MatmulOnDevice::scratch_bytes() const { return static_cast<std::int64_t>(parts_->plan.workspace_bytes); }

Status MatmulOnDevice::queue(CUstream_st* stream, void* scratch) const {
  const api::OnThatDevice there(parts_->device);
  if (!there.status()) return there.status();
  const cuda::Workspace workspace{scratch, parts_->plan.workspace_bytes, false};
  const auto failure = cuda::launch({parts_->problem, a_, b_, d_}, parts_->plan, workspace, stream);
  if (failure) return absent_error("the CUDA device failed at " + *failure, "`nvidia-smi` shows the device's state");
  return Done{};
}

}  // namespace ridge

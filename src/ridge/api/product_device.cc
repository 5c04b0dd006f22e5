// MatmulOnDevice of ridge/compute.h.
#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "ridge/api/device_guard.h"
#include "ridge/api/product.h"
#include "ridge/api/training.h"
#include "ridge/base/ceil_div.h"
#include "ridge/device/stream.h"
#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/tune.h"

namespace ridge {

struct MatmulOnDevice::Impl {
  int device = 0;
  ops::MatmulProblem problem;
  ops::cuda::MatmulPlan plan;
  bool constant_b = false;
  // Conversion of block-scaled weights to a's dtype at the start of the scratch memory, before the product
  std::optional<ops::DequantizeLoops> conversion = {};

  std::int64_t converted_bytes() const {
    constexpr std::int64_t alignment = 256;  // Alignment of the workspace that follows
    if (!conversion) return 0;
    return ceil_div(conversion->elements * (dtype_bits(conversion->result) / 8), alignment) * alignment;
  }
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

// Returns why block-scaled weights cannot be multiplied. Checks a single row, because weights are converted for
// products of more rows than a kernel reads stored weights for.
Reason unsupported_weights_reason(ops::MatmulProblem problem) {
  problem.size.m = std::min<std::int64_t>(problem.size.m, 1);
  if (auto reason = ops::validate_narrow_weights(problem)) return reason;
  return cuda::unsupported_reason(problem);
}

// Returns the conversion of the weights of a call to a's dtype, and changes the call to read its result.
ops::DequantizeLoops convert_weights(cuda::MatmulCall& call) {
  ops::MatmulProblem& p = call.problem;
  const ops::DequantizeLoops out{p.b.dtype, p.a.dtype, p.size.n * p.size.k};
  p.b.dtype = p.a.dtype;
  call.b = api::placeholder_address(0);
  call.constant_b = false;  // The conversion writes them just before the product
  return out;
}

Result<std::shared_ptr<const MatmulImpl>> plan_product(int device, cuda::MatmulCall call) {
  std::optional<ops::DequantizeLoops> conversion;
  if (is_block_scaled(call.problem.b.dtype)) {
    if (const auto reason = unsupported_weights_reason(call.problem)) return input_error(reason.text());
    if (ops::reason_to_convert_weights(call.problem)) conversion = convert_weights(call);
  }
  if (const auto reason = cuda::unsupported_reason(call)) return input_error(reason.text());
  const device::RelaxedCaptureGuard capture_guard;
  const api::DeviceGuard device_guard(device);
  if (!device_guard.status()) return device_guard.status().error();
  RIDGE_TRY(plan, choose_matmul_plan(call, ops::plan_workspace_bytes, {.use_stored = true}));
  return std::make_shared<const MatmulImpl>(MatmulImpl{device, call.problem, plan.plan, call.constant_b, conversion});
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

// Returns one product of the rows of all matrices of A, if they have equal distances; weights are then read once.
ops::MatmulProblem merge_rows(ops::MatmulProblem p) {
  const std::int64_t distance = p.size.m == 1 ? p.a.batch_stride : p.a.row_stride;
  if (p.batch <= 1 || p.a.col_stride != 1 || distance < p.size.k || p.a.batch_stride != p.size.m * distance) return p;
  p.a.row_stride = distance;
  p.a.batch_stride = p.d.batch_stride = 0;
  p.size.m *= p.batch;
  p.batch = 1;
  return p;
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
  return MatmulOnDevice(std::move(parts), a.data, b.data, d.data);
}

Result<MatmulOnDevice> MatmulOnDevice::make(int device, const ArrayView& a, const BlockScaledWeights& b,
                                            const ArrayView& d) {
  RIDGE_TRY_STATUS(api::check_product(a, b, d));
  constexpr std::uintptr_t alignment = 16;
  if (reinterpret_cast<std::uintptr_t>(b.data) % alignment != 0)
    return input_error("expected weights whose address on a device is a multiple of 16 bytes",
                       "allocate them as an array of their own");
  const auto left = api::layout_for_kernels(a);
  if (!left) return input_error("expected a with contiguous rows or columns");
  const ops::MatmulProblem problem = merge_rows(api::make_problem(*left, {b.dtype, 1, b.k, 0}, a, d));
  const cuda::MatmulCall call{.problem = problem, .a = a.data, .b = b.data, .d = d.data, .constant_b = true};
  RIDGE_TRY(parts, find_or_plan(device, call));
  return MatmulOnDevice(std::move(parts), a.data, b.data, d.data);
}

std::int64_t MatmulOnDevice::scratch_bytes() const {
  return impl_->converted_bytes() + static_cast<std::int64_t>(impl_->plan.workspace_bytes);
}

Status MatmulOnDevice::queue(CUstream_st* stream, void* scratch) const {
  const api::DeviceGuard device_guard(impl_->device);
  if (!device_guard.status()) return device_guard.status();
  const void* b = b_;
  if (impl_->conversion) {
    void* const data[] = {const_cast<void*>(b_), scratch};
    RIDGE_TRY_STATUS(cuda::run_loops(*impl_->conversion, data, stream));
    b = scratch;
  }
  const device::DeviceWorkspace workspace{static_cast<char*>(scratch) + impl_->converted_bytes(),
                                          impl_->plan.workspace_bytes, false};
  const cuda::MatmulCall call{.problem = impl_->problem, .a = a_, .b = b, .d = d_, .constant_b = impl_->constant_b};
  return cuda::launch(call, impl_->plan, workspace, stream);
}

}  // namespace ridge

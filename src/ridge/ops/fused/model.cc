#include "ridge/ops/fused/model.h"

#include "ridge/ops/fused/cuda.h"
#include "ridge/ops/gated/model.h"
#include "ridge/ops/product/describe.h"
#include "ridge/ops/product/model.h"
#include "ridge/ops/product/time/plan_properties.h"
#include "ridge/ops/product/trace.h"

namespace ridge::ops {
namespace {

// The general epilogue takes twice the time of the vectorized one: on an H200 (2026-11-22) the products of 4096 x 4096
// x 1024 with a bias took 90 us instead of 65, and 63 in two kernels. If the rows of the result are not aligned to 16
// bytes, the second kernel suffers as well (94 us in one kernel, 137 in two).
Reason slow_matmul_fusion_reason(const cuda::MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  const bool aligned = (p.d.col_stride == 1 ? p.d.row_stride : p.d.col_stride) % 8 == 0;
  if (p.a.dtype == DType::f32 || !aligned || has_narrow_weights(p) || cuda::has_vector_epilogue(call)) return {};
  return "a separate kernel is faster on the device for epilogue operands that are neither f32 nor of a 16-bit "
         "result's dtype, or that are not contiguous along its rows";
}

}  // namespace

// f32 products have no tiles, and their epilogue costs no measurable time. The gated layer's epilogue is hidden if all
// tensors have x's type; otherwise it takes 12 ps per element, against 1.1 to 1.7 of a pointwise kernel. Row sizes that
// are no multiple of 8 cost as much, and each of two separate products costs half of that.
Reason slow_fusion_reason(const FusedMatmul& fused) {
  const cuda::FusedCall call = cuda::make_fused_call(fused);
  if (const auto* gated = std::get_if<cuda::GatedCall>(&call)) {
    const bool has_biases = gated->bu != nullptr || gated->bg != nullptr;
    if (gated->out == gated->dtype && (!has_biases || gated->bias == gated->dtype)) return {};
    return "a separate kernel is faster on the device for a gate whose result or biases have another dtype than x";
  }
  return slow_matmul_fusion_reason(std::get<cuda::MatmulCall>(call));
}

Result<Forecast> forecast(const FusedMatmul& fused, const DeviceNumbers& device) {
  if (const auto reason = cuda::unsupported_reason(fused)) return input_error(reason.text());
  const cuda::FusedCall call = cuda::make_fused_call(fused);
  if (const auto* gated = std::get_if<cuda::GatedCall>(&call)) return cuda::forecast(*gated, device);
  Forecast out = cuda::forecast(std::get<MatmulCall>(call), device);
  out.plan.kernel += " + epilogue";
  return out;
}

CpuForecast cpu_forecast(const FusedMatmul& fused, int threads) {
  CpuForecast out{.kernel = fused.second ? "2 matmuls + chain" : "matmul + chain",
                  .requested_bytes = count_cpu_traffic(fused, threads).global_bytes()};
  if (!fused.second) out.properties = cpu_plan_properties(fused.product, threads);
  if (fused.product.windows) add_windows(out, fused.product);
  return out;
}

}  // namespace ridge::ops

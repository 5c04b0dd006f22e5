#include "ridge/ops/fused/model.h"

#include <fmt/format.h>

#include "ridge/ops/fused/cuda.h"
#include "ridge/ops/gated/model.h"
#include "ridge/ops/product/describe.h"
#include "ridge/ops/product/model.h"
#include "ridge/ops/product/time/plan_properties.h"
#include "ridge/ops/product/trace.h"

namespace ridge::ops {
namespace {

// Times of one kernel / two kernels on an H200 in us (2026-11-22):
//
//   m x n x k              bias            gelu and a bias   residual
//   512 x 512 x 512         4.6 /   6.1     5.0 /   6.3       6.5 /   6.4
//   256 x 4096 x 4096      22.3 /  21.0    23.5 /  21.6      23.3 /  21.7
//   4096 x 4096 x 1024     65.0 /  62.5    74.2 /  67.0      83.9 /  71.5
//   8192 x 4096 x 4096      373 /   408     383 /   413       394 /   403
//
// Fusing wins for few results, where a saved launch exceeds the epilogues, and for long k, where products hide them; in
// between it loses. Operands whose type or layout differs from the result's double the epilogue (4096 x 4096 x 1024: a
// bias 90, gelu and a bias 100), but if the result's rows are not 16-byte aligned, the second kernel suffers too (94 /
// 137).
Reason slow_matmul_fusion_reason(const cuda::MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  const bool aligned = (p.d.col_stride == 1 ? p.d.row_stride : p.d.col_stride) % 8 == 0;
  if (p.a.dtype == DType::f32 || !aligned) return {};
  if (!cuda::has_vector_epilogue(call))
    return "a separate kernel is faster on the device for epilogue operands whose dtype or layout differs from a "
           "16-bit result's";
  const double results = static_cast<double>(p.batch) * static_cast<double>(p.size.m) * static_cast<double>(p.size.n);
  if (results <= 0x1p18 || (results >= 0x1p22 && p.size.k >= 4096)) return {};
  return fmt::format(
      "a separate kernel is faster on the device for this many results with K = {}: products do not hide the epilogue",
      p.size.k);
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

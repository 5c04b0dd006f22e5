// Maxima and sums of rows and along rows, which the compiler vectorises. A NaN makes a maximum NaN. Compiled once for
// each instruction set.
#include <algorithm>
#include <limits>

#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/loops/float_types.h"
#include "ridge/ops/loops/isa_kernels.h"

namespace ridge::ops {
namespace {

template <bool is_maximum> void combine(const float* x, std::int64_t n, float* result) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (is_maximum)
      result[i] = (x[i] > result[i]) | (x[i] != x[i]) ? x[i] : result[i];
    else
      result[i] += x[i];
  }
}

template <class V, class T, bool is_maximum> void combine_rows(const PoolRows& run) {
  constexpr std::int64_t piece = 512;
  alignas(64) float wide[piece];
  for (std::int64_t first = 0; first < run.elements; first += piece) {
    const std::int64_t n = std::min(piece, run.elements - first);
    float* const result = run.result + first;
    std::fill_n(result, n, is_maximum ? -std::numeric_limits<float>::infinity() : 0.0f);
    for (const std::int64_t row : run.rows) {
      const T* const from = static_cast<const T*>(run.x) + row + first;
      if constexpr (std::is_same_v<T, float>) {
        combine<is_maximum>(from, n, result);
      } else {
        widen_array<V>(from, n, wide);
        combine<is_maximum>(wide, n, result);
      }
    }
  }
}

template <bool is_maximum> void combine_windows(const PoolWindows& run) {
  std::fill_n(run.result, run.outputs, is_maximum ? -std::numeric_limits<float>::infinity() : 0.0f);
  for (std::int64_t k = 0; k < run.kernel; ++k) {
    const std::int64_t at = k * run.dilation;
    combine<is_maximum>(run.padded + at % run.stride * run.phase + at / run.stride, run.outputs, run.result);
  }
}

}  // namespace

namespace RIDGE_BODY_ISA {
void pool_rows(const PoolRows& run) {
  with_float_types(run.dtype, DType::f32, [&](auto from, auto) {
    using From = decltype(from);
    run.is_maximum ? combine_rows<FloatLanes, From, true>(run) : combine_rows<FloatLanes, From, false>(run);
  });
}
void pool_windows(const PoolWindows& run) { run.is_maximum ? combine_windows<true>(run) : combine_windows<false>(run); }
}  // namespace RIDGE_BODY_ISA

}  // namespace ridge::ops

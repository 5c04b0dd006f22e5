// Angles are reduced in f64, because positions are large; the polynomials on [-pi/4, pi/4] are f32. The compiler
// vectorises all loops. Compiled once for each instruction set. Coefficients as in ops/function/vector_math.h.
#include <cstdint>

#include "ridge/ops/loops/isa_kernels.h"

namespace ridge::ops {
namespace {

constexpr double quarters_per_radian = 0x1.45f306dc9c883p-1, quarter = 0x1.921fb54442d18p0;  // 2/pi, pi/2
// Adding it rounds a double to an integer, whose low bits are then those of the sum.
constexpr double rounding = 0x1.8p52;

struct SinCos {
  float sine, cosine;
};

[[gnu::always_inline]] inline SinCos evaluate_sin_cos(double angle) {
  const double shifted = angle * quarters_per_radian + rounding;
  const auto quarters = static_cast<std::uint32_t>(__builtin_bit_cast(std::uint64_t, shifted));
  const auto r = static_cast<float>(angle - (shifted - rounding) * quarter);
  const float s = r * r;
  const float sine = r + r * s * (-0.166666538f + s * (0.00833209977f - s * 0.000195065106f));
  const float cosine = 1 - 0.5f * s + s * s * (0.0416666418f + s * (-0.00138871302f + s * 2.44120856e-05f));
  const bool swaps = (quarters & 1) != 0;
  const float a = swaps ? cosine : sine, b = swaps ? sine : cosine;
  return {(quarters & 2) != 0 ? -a : a, ((quarters + 1) & 2) != 0 ? -b : b};
}

}  // namespace

namespace RIDGE_BODY_ISA {
void fill_rotary_angles(const RotaryAngles& run) {
  const double* const frequencies = run.frequencies.data();
  const auto n = static_cast<std::int64_t>(run.frequencies.size());
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const SinCos found = evaluate_sin_cos(run.position * frequencies[i]);
    run.cosines[i] = found.cosine;
    run.sines[i] = found.sine;
  }
}

void rotate_pairs(const RotaryPairs& run) {
  const std::int64_t second = run.pairs;
  const float* const x = run.x;
  float* const y = run.y;
  if (!run.interleaved) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < run.pairs; ++i) {
      const float a = x[i], b = x[i + second], c = run.cosines[i], s = run.sines[i];
      y[i] = a * c - b * s;
      y[i + second] = b * c + a * s;
    }
    return;
  }
#pragma GCC ivdep
  for (std::int64_t i = 0; i < run.pairs; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1], c = run.cosines[i], s = run.sines[i];
    y[2 * i] = a * c - b * s;
    y[2 * i + 1] = b * c + a * s;
  }
}
}  // namespace RIDGE_BODY_ISA

}  // namespace ridge::ops

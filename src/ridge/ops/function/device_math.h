// Elementary functions on a CUDA device. nvcc and NVRTC (for kernels generated at run time) compile this same source,
// so results are identical to the bit; it therefore has no includes and uses no names from elsewhere. Errors are in
// units in the last place (ulp) of the exact value for the f32 argument: at most 2 for exp, log, cos, sin, tanh, sqrt,
// abs and arithmetic, which are CUDA's; otherwise as stated at the function. tests/gpu/functions.cu checks the errors.
// NaN gives NaN, infinities give the limits.
#pragma once

namespace ridge::ops::device_math {

#define RIDGE_FN __device__ __forceinline__

RIDGE_FN float approx_reciprocal(float x) {  // error 1 ulp for normal numbers
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

RIDGE_FN float max(float a, float b) {  // returns NaN if either operand is NaN
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
RIDGE_FN float min(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
RIDGE_FN float approx_exp2(float x) {  // does not flush subnormals, which may be multiplied by a large factor
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Returns x * Phi(x) = max(x, 0) - t * Phi(-t) with t = |x| and Phi(-t) = 2^(c*t^2) * u * S(u), u = 1/(1 + 0.3*t): one
// formula for every x, without a branch. The exponent and the divisor of u are kept in two floats; S was fitted to the
// f32 value of c. Error at most 7 ulp.
RIDGE_FN float gelu(float x) {
  constexpr float c = -0.72134752f;  // -log2(e) / 2
  const float t = min(fabsf(x), 15.0f), h = __fmul_rn(t, t), power = __fmul_rn(h, c);
  const float rest = fmaf(fmaf(t, t, -h), c, fmaf(h, c, -power)), approx_e = approx_exp2(power);
  const float e = fmaf(approx_e * 0.693147182f, rest, approx_e);
  const float d = fmaf(t, 0.3f, 1.0f), d_low = fmaf(t, 0.3f, 1.0f - d), approx_u = approx_reciprocal(d);
  const float u = fmaf(approx_u, fmaf(-d_low, approx_u, fmaf(-d, approx_u, 1.0f)), approx_u);
  float s = fmaf(u, -0.020433744f, 0.11133604f);
  s = fmaf(s, u, -0.22542855f);
  s = fmaf(s, u, 0.18773754f);
  s = fmaf(s, u, -0.0757016f);
  s = fmaf(s, u, 0.09390474f);
  s = fmaf(s, u, 0.07929073f);
  s = fmaf(s, u, 0.11000327f);
  s = fmaf(s, u, 0.11960747f);
  s = fmaf(s, u, 0.1196841f);
  return fmaf(-(s * u * t), e, fmaxf(x, 0.0f));
}

// Returns e^(x + low) for x <= 0, where low is the rounding error of x; the polynomial is that of vector_math.h.
RIDGE_FN float exp_nonpositive(float x, float low) {
  x = x < -150 ? -150 : x;
  const float n = rintf(x * 1.44269502f);
  const float r = fmaf(n, 1.90465421e-09f, fmaf(n, -0.693147182f, x)) + low;
  float p = fmaf(r, 0.0013820614f, 0.00836982392f);
  p = fmaf(p, r, 0.0416682996f);
  p = fmaf(p, r, 0.166665122f);
  p = fmaf(p, r, 0.49999994f);
  const int k = static_cast<int>(n), half = k / 2;
  return (fmaf(p, r * r, r) + 1) * __int_as_float((half + 127) << 23) * __int_as_float((k - half + 127) << 23);
}

// Returns x * logistic(u + low), computed as x/(1 + e) or x*e/(1 + e) with e = e^-|u|. The divisor is between 1 and 2,
// so a reciprocal and one correction step replace the division, whose slow path handles tiny numerators. Error at most
// 4 ulp for e above 2^-120.
RIDGE_FN float multiply_by_logistic(float x, float u, float low = 0) {
  const float e = exp_nonpositive(-fabsf(u), u < 0 ? low : -low), d = 1 + e;
  const float numerator = u < 0 ? x * e : x, inverse = __frcp_rn(d), q = numerator * inverse;
  return isinf(q) ? q : fmaf(fmaf(-q, d, numerator), inverse, q);
}
RIDGE_FN float silu(float x) { return multiply_by_logistic(x < -150 ? -150 : x, x); }
RIDGE_FN float sigmoid(float x) { return multiply_by_logistic(1, x); }

// Returns x * logistic(x*(a + b*x^2)), the argument in two floats; a = 2*sqrt(2/pi), b = 0.044715*a. Error at most 7
// ulp.
RIDGE_FN float gelu_tanh(float x) {
  if (x > 13) return x;
  if (x < -13) return -0.0f;
  constexpr float a = 1.59576917f, b = 0.0713548139f;
  // __fmul_rn keeps the compiler from fusing the product into a later sum, which would count its rounding error twice.
  const float s = __fmul_rn(x, x), s_low = fmaf(x, x, -s);
  const float p = __fmul_rn(b, s), p_low = fmaf(b, s_low, fmaf(b, s, -p));
  const float t = a + p, back = t - a, t_low = (a - (t - back)) + (p - back);
  const float rest = t_low + p_low + fmaf(s, 2.39883247e-09f, -4.53406805e-08f);
  const float v = __fmul_rn(x, t);
  return multiply_by_logistic(x, v, fmaf(x, rest, fmaf(x, t, -v)));
}

RIDGE_FN float relu(float x) { return x < 0 ? 0 : x; }
RIDGE_FN float rsqrt(float x) { return rsqrtf(x); }
RIDGE_FN float negate(float x) { return -x; }
RIDGE_FN float abs(float x) { return fabsf(x); }
RIDGE_FN float exp(float x) { return expf(x); }
RIDGE_FN float log(float x) { return logf(x); }
RIDGE_FN float tanh(float x) { return tanhf(x); }
RIDGE_FN float sqrt(float x) { return sqrtf(x); }

// Zeros in the first word, then 32 binary digits of 2/pi per word.
static __constant__ unsigned two_over_pi[] = {0,           0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                              0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};

// Returns x minus the nearest multiple of pi/2 for |x| > 2^16 and writes the index of that multiple to `quarter`: it
// multiplies the 24 bits of x by the 96 binary digits of 2/pi that determine the angle modulo 2*pi. NaN and infinities
// give NaN.
RIDGE_FN float reduce_large_angle(float x, int& quarter) {
  const unsigned bits = __float_as_uint(x), mantissa = (bits & 0x7fffffu) | 0x800000u;
  const int exponent = static_cast<int>(bits >> 23 & 255);
  if (exponent == 255) return x - x;
  const int bit_position = exponent - 120, word = bit_position >> 5, shift = bit_position & 31;
  const unsigned a = two_over_pi[word], b = two_over_pi[word + 1], c = two_over_pi[word + 2], d = two_over_pi[word + 3];
  const unsigned w2 = __funnelshift_l(b, a, shift), w1 = __funnelshift_l(c, b, shift),
                 w0 = __funnelshift_l(d, c, shift);
  using Wide = unsigned long long;
  const Wide low = static_cast<Wide>(mantissa) * w0, middle = static_cast<Wide>(mantissa) * w1 + (low >> 32);
  const Wide all =
      static_cast<Wide>(mantissa * w2 + static_cast<unsigned>(middle >> 32)) << 32 | (middle & 0xffffffffu);
  quarter = static_cast<int>(all >> 62);
  const long long rest = static_cast<long long>(all << 2);
  quarter += rest < 0;
  const float r = static_cast<float>(static_cast<double>(rest) * 8.5153039502163873e-20);  // pi/2 / 2^64
  if (static_cast<int>(bits) < 0) {
    quarter = -quarter;
    return -r;
  }
  return r;
}

// Returns sin(x + `extra_quarters` * pi/2): subtracts the nearest multiple of pi/2, which is kept in three floats, and
// evaluates the polynomial of the sine or the cosine.
RIDGE_FN float sin_plus_quarters(float x, int extra_quarters) {
  const float shifted = fmaf(x, 0.636619772f, 12582912.0f), n = shifted - 12582912.0f;
  int quarter = __float_as_int(shifted);
  float r = fmaf(n, 1.71512451e-15f, fmaf(n, 4.37113883e-08f, fmaf(n, -1.57079637f, x)));
  if (!(fabsf(x) < 65536.0f)) r = reduce_large_angle(x, quarter);
  quarter += extra_quarters;
  const bool cosine = quarter & 1;
  const float z = r * r;
  float p = fmaf(z, cosine ? 2.44327857e-05f : -0.000195149579f, cosine ? -0.0013887313f : 0.00833215844f);
  p = fmaf(p, z, cosine ? 0.0416666456f : -0.166666552f);
  const float one = cosine ? 1.0f : r, factor = cosine ? z : r;
  p = cosine ? fmaf(p, z, -0.5f) : p * z;
  p = fmaf(p, factor, one);
  return quarter & 2 ? -p : p;
}
RIDGE_FN float sin(float x) { return sin_plus_quarters(x, 0); }
RIDGE_FN float cos(float x) { return sin_plus_quarters(x, 1); }

// Returns cos(x) for x in [-1, 1], the range of the inner cos in cos(cos(x)): needs no range reduction. Error 1 ulp.
RIDGE_FN float cos_in_unit_range(float x) {
  const float z = x * x;
  float p = fmaf(z, 2.42003007e-5f, -1.3884675e-3f);
  p = fmaf(p, z, 4.16665748e-2f);
  p = fmaf(p, z, -0.5f);
  return fmaf(p, z, 1.0f);
}

// Returns f(f(…f(x))) with `times` calls. For cos only the first argument needs range reduction.
template <int times, class F> RIDGE_FN float repeated(F f, float x) {
#pragma unroll 16
  for (int i = 0; i < times; ++i) x = f(x);
  return x;
}
template <int times> RIDGE_FN float repeated_cos(float x) {
  x = cos(x);
#pragma unroll 16
  for (int i = 1; i < times; ++i) x = cos_in_unit_range(x);
  return x;
}

// Variants for results that are stored in 16 bits, with at most two thirds of the instructions. The relative error is
// at most 2^-18, or 2^-14 for results below 2^-24, which only bf16 can represent.
RIDGE_FN float gelu_16(float x) {
  const float t = min(fabsf(x), 15.0f), e = approx_exp2(t * t * -0.72134752f),
              u = approx_reciprocal(fmaf(t, 0.35f, 1.0f));
  float s = fmaf(u, 0.042030856f, -0.175984353f);
  s = fmaf(s, u, 0.20035167f);
  s = fmaf(s, u, 0.0156169869f);
  s = fmaf(s, u, 0.141033664f);
  s = fmaf(s, u, 0.137191638f);
  s = fmaf(s, u, 0.139758676f);
  return fmaf(-(u * t) * s, e, fmaxf(x, 0.0f));
}
RIDGE_FN float multiply_by_logistic_16(float x, float u) {
  const float e = approx_exp2(fabsf(u) * -1.44269504f);
  return (u < 0 ? x * e : x) * approx_reciprocal(1 + e);
}
RIDGE_FN float silu_16(float x) { return multiply_by_logistic_16(x < -150 ? -150 : x, x); }
RIDGE_FN float sigmoid_16(float x) { return multiply_by_logistic_16(1, x); }
RIDGE_FN float gelu_tanh_16(float x) {
  x = x < -20 ? -20 : x;
  return multiply_by_logistic_16(x, x * fmaf(x * x, 0.0713548139f, 1.59576917f));
}

RIDGE_FN float add(float a, float b) { return a + b; }
RIDGE_FN float subtract(float a, float b) { return a - b; }
RIDGE_FN float multiply(float a, float b) { return a * b; }
RIDGE_FN float divide(float a, float b) { return a / b; }
RIDGE_FN float less(float a, float b) { return a < b ? 1.0f : 0.0f; }
RIDGE_FN float less_equal(float a, float b) { return a <= b ? 1.0f : 0.0f; }
RIDGE_FN float equal(float a, float b) { return a == b ? 1.0f : 0.0f; }
RIDGE_FN float greater(float a, float b) { return less(b, a); }
RIDGE_FN float greater_equal(float a, float b) { return less_equal(b, a); }
RIDGE_FN float where(float condition, float yes, float no) { return condition == 0 ? no : yes; }
RIDGE_FN float clamp(float x, float lo, float hi) { return min(max(x, lo), hi); }

RIDGE_FN float pow(float a, float b) { return powf(a, b); }
RIDGE_FN float erf(float x) { return erff(x); }
RIDGE_FN float tan(float x) { return tanf(x); }
RIDGE_FN float atan(float x) { return atanf(x); }
RIDGE_FN float log1p(float x) { return log1pf(x); }
RIDGE_FN float expm1(float x) { return expm1f(x); }
RIDGE_FN float floor(float x) { return floorf(x); }
RIDGE_FN float round(float x) { return rintf(x); }
RIDGE_FN float sign(float x) {  // returns zeros and NaN unchanged
  if (x > 0) return 1.0f;
  return x < 0 ? -1.0f : x;
}
RIDGE_FN float leaky_relu(float x) { return x < 0 ? 0.01f * x : x; }
RIDGE_FN float softplus(float x) { return max(x, 0.0f) + log1pf(expf(-fabsf(x))); }
RIDGE_FN float hard_swish(float x) {
  x = x < -3 ? -3.0f : x;
  return x * (min(x + 3, 6.0f) / 6);
}

// For x < 0: x * e*(e + 2) / (e*(e + 2) + 2) with e = e^x; else x * (1 + 2*e) / (1 + 2*e + 2*e^2) with e = e^-x.
RIDGE_FN float mish(float x) {
  x = x < -150 ? -150.0f : x;
  const float e = expf(-fabsf(x)), numerator = x < 0 ? e + 2 : fmaf(2.0f, e, 1.0f);
  const float denominator = x < 0 ? fmaf(e, numerator, 2.0f) : fmaf(2 * e, e, numerator),
              ratio = numerator / denominator;
  return x < 0 ? x * ratio * e : x * ratio;
}

}  // namespace ridge::ops::device_math

// Overloads that select a function by its entry of function_table; kernels compiled at run time call functions by name.
#if !defined(__CUDACC_RTC__)
#include "ridge/base/function.h"

namespace ridge::ops::device_math {
RIDGE_FN float apply_function(FunctionTag<Function::add>, float a, float b) { return add(a, b); }
RIDGE_FN float apply_function(FunctionTag<Function::subtract>, float a, float b) { return subtract(a, b); }
RIDGE_FN float apply_function(FunctionTag<Function::multiply>, float a, float b) { return multiply(a, b); }
RIDGE_FN float apply_function(FunctionTag<Function::divide>, float a, float b) { return divide(a, b); }
RIDGE_FN float apply_function(FunctionTag<Function::pow>, float a, float b) { return pow(a, b); }
RIDGE_FN float apply_function(FunctionTag<Function::negate>, float x) { return negate(x); }
RIDGE_FN float apply_function(FunctionTag<Function::exp>, float x) { return exp(x); }
RIDGE_FN float apply_function(FunctionTag<Function::log>, float x) { return log(x); }
RIDGE_FN float apply_function(FunctionTag<Function::cos>, float x) { return cos(x); }
RIDGE_FN float apply_function(FunctionTag<Function::sin>, float x) { return sin(x); }
RIDGE_FN float apply_function(FunctionTag<Function::gelu>, float x) { return gelu(x); }
RIDGE_FN float apply_function(FunctionTag<Function::gelu_tanh>, float x) { return gelu_tanh(x); }
RIDGE_FN float apply_function(FunctionTag<Function::silu>, float x) { return silu(x); }
RIDGE_FN float apply_function(FunctionTag<Function::relu>, float x) { return relu(x); }
RIDGE_FN float apply_function(FunctionTag<Function::sigmoid>, float x) { return sigmoid(x); }
RIDGE_FN float apply_function(FunctionTag<Function::tanh>, float x) { return tanh(x); }
RIDGE_FN float apply_function(FunctionTag<Function::sqrt>, float x) { return sqrt(x); }
RIDGE_FN float apply_function(FunctionTag<Function::rsqrt>, float x) { return rsqrt(x); }
RIDGE_FN float apply_function(FunctionTag<Function::abs>, float x) { return abs(x); }
RIDGE_FN float apply_function(FunctionTag<Function::erf>, float x) { return erf(x); }
RIDGE_FN float apply_function(FunctionTag<Function::softplus>, float x) { return softplus(x); }
RIDGE_FN float apply_function(FunctionTag<Function::tan>, float x) { return tan(x); }
RIDGE_FN float apply_function(FunctionTag<Function::atan>, float x) { return atan(x); }
RIDGE_FN float apply_function(FunctionTag<Function::log1p>, float x) { return log1p(x); }
RIDGE_FN float apply_function(FunctionTag<Function::expm1>, float x) { return expm1(x); }
RIDGE_FN float apply_function(FunctionTag<Function::floor>, float x) { return floor(x); }
RIDGE_FN float apply_function(FunctionTag<Function::round>, float x) { return round(x); }
RIDGE_FN float apply_function(FunctionTag<Function::sign>, float x) { return sign(x); }
RIDGE_FN float apply_function(FunctionTag<Function::leaky_relu>, float x) { return leaky_relu(x); }
RIDGE_FN float apply_function(FunctionTag<Function::hard_swish>, float x) { return hard_swish(x); }
RIDGE_FN float apply_function(FunctionTag<Function::mish>, float x) { return mish(x); }
RIDGE_FN float apply_function(FunctionTag<Function::max>, float a, float b) { return max(a, b); }
RIDGE_FN float apply_function(FunctionTag<Function::min>, float a, float b) { return min(a, b); }
RIDGE_FN float apply_function(FunctionTag<Function::where>, float a, float b, float c) { return where(a, b, c); }
RIDGE_FN float apply_function(FunctionTag<Function::clamp>, float a, float b, float c) { return clamp(a, b, c); }
RIDGE_FN float apply_function(FunctionTag<Function::less>, float a, float b) { return less(a, b); }
RIDGE_FN float apply_function(FunctionTag<Function::less_equal>, float a, float b) { return less_equal(a, b); }
RIDGE_FN float apply_function(FunctionTag<Function::greater>, float a, float b) { return greater(a, b); }
RIDGE_FN float apply_function(FunctionTag<Function::greater_equal>, float a, float b) { return greater_equal(a, b); }
RIDGE_FN float apply_function(FunctionTag<Function::equal>, float a, float b) { return equal(a, b); }
}  // namespace ridge::ops::device_math
#endif

// Elementary functions on a vector of floats, written once for all vector types of vector_math_lanes.h. Each reduces
// its argument to an interval where a short polynomial suffices: exp(x) = 2^n * p(r) with x = n*ln 2 + r and |r| <=
// 0.347. If a result is the product of a power and a small factor, as gelu(-10) = -10 * Phi(-10) = -7.6e-23, the power
// of two is applied last, so that subnormal results are accurate too. Largest errors over all of f32
// (vector_math_test.cc): exp, log, cos, sin, tanh 2 ulp; gelu, gelu_tanh, silu, sigmoid, rsqrt 4 ulp. NaN gives NaN,
// infinities give the limits: gelu(-inf) and silu(-inf) are -0. The coefficients are minimax fits (Lawson's iteration)
// on the stated intervals, rounded one by one. Method: Muller, "Elementary Functions", 3rd ed., chapters 3 and 11.
#pragma once

#include "ridge/base/function.h"
#include "ridge/ops/function/vector_math_lanes.h"

namespace ridge::ops {
namespace {

template <class V> [[gnu::always_inline]] inline V broadcast(float x) { return V::broadcast(x); }

// Returns c0 + x*(c1 + x*(c2 + …)).
template <class V> [[gnu::always_inline]] inline V horner(V, float last) { return broadcast<V>(last); }
template <class V, class... C> [[gnu::always_inline]] inline V horner(V x, float c0, C... rest) {
  return fma(horner(x, rest...), x, broadcast<V>(c0));
}

template <class V> V negate(V x) { return as_float(as_int(x) ^ V::Int::broadcast(INT32_MIN)); }
template <class V> V abs(V x) { return as_float(as_int(x) & V::Int::broadcast(INT32_MAX)); }

#if !defined(__AVX512F__)
// Returns a * 2^n. It multiplies in two steps, so that neither factor overflows or underflows for n in -252 … 252.
template <class V> V scale_by_pow2(V a, V n) {
  const auto k = to_int(n), half = shift_right<1>(k), one = V::Int::broadcast(127);
  return a * as_float(shift_left<23>(half + one)) * as_float(shift_left<23>(k - half + one));
}
#endif

// Returns the integer nearest to x*y for |x*y| < 2^22: adding 3*2^22 rounds the product to an integer.
template <class V> [[gnu::always_inline]] inline V round_product(V x, float y) {
  return fma(x, broadcast<V>(y), broadcast<V>(0x1.8p23f)) - broadcast<V>(0x1.8p23f);
}

template <class V> struct ScaledFloat {  // the number mantissa * 2^exponent
  V mantissa, exponent;
  V value() const { return scale_by_pow2(mantissa, exponent); }
};

// Returns r and sets n such that x = n*ln 2 + r. x is first clamped to -150 … 89, where e^x is 0 or infinite as a
// float.
template <class V> V reduce_by_ln2(V x, V& n) {
  x = lane_max(broadcast<V>(-150), lane_min(broadcast<V>(89), x));  // both return the second operand, x, if x is NaN
  n = round_product(x, 1.44269502f);
  return fma(n, broadcast<V>(1.90465421e-09f), fma(n, broadcast<V>(-0.693147182f), x));
}
template <class V> V exp_polynomial(V r) {  // Returns (e^r - 1 - r) / r^2.
  return horner(r, 0.49999994f, 0.166665122f, 0.0416682996f, 0.00836982392f, 0.0013820614f);
}
// Returns e^x as a mantissa and a power of two.
template <class V> ScaledFloat<V> exp_scaled(V x) {
  V n;
  const V r = reduce_by_ln2(x, n);
  return {fma(exp_polynomial(r), r * r, r) + broadcast<V>(1), n};
}
// The number (1 + rest) * 2^exponent. 1 + rest has more bits than a float; q * (1 + rest) is fma(q, rest, q).
template <class V> struct ExpParts { V rest, exponent; };
// Returns e^(x + low) for x in -250 … 0, where low is the rounding error of x.
template <class V> [[gnu::always_inline]] inline ExpParts<V> exp_parts(V x, V low) {
  const V n = round_product(x, 1.44269502f);
  const V r = fma(n, broadcast<V>(-0.693147182f), x) + fma(n, broadcast<V>(1.90465421e-09f), low);
  return {fma(r * r, exp_polynomial(r), r), n};
}

template <class V> V exp(V x) { return exp_scaled(x).value(); }

// Returns 2^64 e^x for x <= 0, for rows that are divided by their own sum (softmax). With the factor 2^64 no power that
// affects a quotient is subnormal. So one shift makes the power of two (the low bits of t are n + 64 + 127; 127 is the
// exponent bias) and one fma scales by it: 13 AVX2 instructions instead of 22. NaN gives NaN. The relative error is
// 2^-21; ln 2 in one float adds 2.7e-9 of x, less than the 6e-8 that x has as a difference of two floats.
template <class V> [[gnu::always_inline]] inline V exp_times_2_64(V x) {
  x = lane_max(broadcast<V>(-130), x);
  const V integer = broadcast<V>(0x1.8p23f + 64 + 127), t = fma(x, broadcast<V>(1.44269502f), integer);
  const V r = fma(t - integer, broadcast<V>(-0.693147182f), x), power = as_float(shift_left<23>(as_int(t)));
  return fma(fma(exp_polynomial(r), r * r, r), power, power);
}

// Returns 2^64 e^x with relative error 2^-18, enough for results of 16 bits, in three instructions fewer.
template <class V> [[gnu::always_inline]] inline V exp_times_2_64_16bit(V x) {
  const V y = lane_max(broadcast<V>(-188), x * broadcast<V>(1.44269502f)), integer = broadcast<V>(0x1.8p23f + 64 + 127),
          t = y + integer;
  return horner(y - (t - integer), 0.999999285f, 0.693121791f, 0.240247443f, 0.0559178628f, 0.00957010221f) *
         as_float(shift_left<23>(as_int(t)));
}

// Returns log(x + low) for low much smaller than x; if !has_low, low is 0.
template <bool has_low, class V> [[gnu::always_inline]] inline V log_of_sum(V x, V low) {
  const auto subnormal = x < broadcast<V>(0x1p-126f);
  const V scaled = select(subnormal, x * broadcast<V>(0x1p23f), x);
  const auto root = V::Int::broadcast(0x3f3504f3);  // sqrt(1/2): the mantissa is in [sqrt(1/2), sqrt(2))
  const auto offset_bits = as_int(scaled) - root;
  const V k = to_float(shift_right<23>(offset_bits)) - select(subnormal, broadcast<V>(23), broadcast<V>(0));
  const V f = as_float((offset_bits & V::Int::broadcast(0x7fffff)) + root) - broadcast<V>(1), f2 = f * f;
  const V p = horner(f, 0.333333105f, -0.24999994f, 0.200022012f, -0.16668652f, 0.142187297f, -0.123961642f,
                     0.118852347f, -0.117219046f, 0.068030633f);
  V rest = fma(k, broadcast<V>(-1.90465421e-09f), fma(broadcast<V>(-0.5f), f2, f * f2 * p));
  if constexpr (has_low) rest = rest + low / x;
  const V regular = fma(k, broadcast<V>(0.693147182f), f + rest);
  const V infinity = broadcast<V>(__builtin_inff());
  const V edge =
      select(x == broadcast<V>(0), negate(infinity), select(x < broadcast<V>(0), broadcast<V>(__builtin_nanf("")), x));
  return select(broadcast<V>(0) < x, select(x < infinity, regular, x), edge);
}
template <class V> V log(V x) { return log_of_sum<false>(x, x); }
template <class V> V log1p(V x) {
  const V sum = x + broadcast<V>(1), low = x - (sum - broadcast<V>(1));  // wrong above 2^24, but negligible there
  return select(x == broadcast<V>(0), x, log_of_sum<true>(sum, low));
}

template <class V> struct ReducedAngle {  // x = quarters * pi/2 + rest, |rest| <= pi/4 up to rounding
  V rest;
  typename V::Int quarters;
};

// Returns x minus the nearest multiple of pi/2 for |x| >= 2^16; NaN for infinities. x is an integer m times 2^e, and
// only the bits of 2/pi that affect m * 2^e * 2/pi modulo 4 matter (Payne and Hanek). With 128 such bits the error is <
// 2^-100.
template <class V> float reduce_large_angle(float x, std::int32_t& quarters) {
  static constexpr std::uint64_t two_over_pi[] = {0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
                                                  0xfe5163abdebbc561};
  const auto u = __builtin_bit_cast(std::uint32_t, x);
  const int exponent = static_cast<int>(u >> 23 & 0xff) - 150;
  quarters = 0;
  if (exponent == 105) return x - x;                                         // NaN
  const int start = 64 + exponent - 2, word = start / 64, bit = start % 64;  // start: bit of weight 2
  const auto bits_from = [&](int i) {
    return bit == 0 ? two_over_pi[i] : two_over_pi[i] << bit | two_over_pi[i + 1] >> (64 - bit);
  };
  const std::uint64_t m = (u & 0x7fffff) | 0x800000;
  const unsigned __int128 low = static_cast<unsigned __int128>(bits_from(word + 1)) * m;
  const std::uint64_t top = bits_from(word) * m + static_cast<std::uint64_t>(low >> 64);  // modulo 4, unit 2^-62
  const std::uint64_t rounded = top + (std::uint64_t{1} << 61);                           // nearest quarter
  quarters = static_cast<std::int32_t>(rounded >> 62);
  const auto integer_part = static_cast<std::int64_t>(top - (static_cast<std::uint64_t>(quarters) << 62));
  const double fraction =
      static_cast<double>(integer_part) + static_cast<double>(static_cast<std::uint64_t>(low)) * 0x1p-64;
  const auto rest = static_cast<float>(fraction * (0x1p-62 * 1.5707963267948966));
  if ((u >> 31) == 0) return rest;
  quarters = -quarters;
  return -rest;
}

template <class V> ReducedAngle<V> reduce_angle(V x) {
  const V n = round_product(x, 0.636619747f);
  V r = fma(n, broadcast<V>(-1.57079637f), x);  // exact: both are multiples of 2^-24 and differ by less than 1
  r = fma(n, broadcast<V>(4.37113883e-08f), r);
  r = fma(n, broadcast<V>(1.71512451e-15f), r);
  auto q = to_int(n);
  const auto large = broadcast<V>(0x1p16f) < abs(x);
  if (any_lane(large)) [[unlikely]] {
    alignas(64) float xs[V::lanes], rs[V::lanes];
    alignas(64) std::int32_t qs[V::lanes];
    x.store(xs);
    r.store(rs);
    as_float(q).store(reinterpret_cast<float*>(qs));
    for (int i = 0; i < V::lanes; ++i)
      if (__builtin_fabsf(xs[i]) > 0x1p16f) rs[i] = reduce_large_angle<V>(xs[i], qs[i]);
    r = V::load(rs);
    q = V::Int::load(qs);
  }
  return {r, q};
}

// Returns sin(angle.quarters * pi/2 + angle.rest).
template <class V> V sin_of_reduced_angle(const ReducedAngle<V>& angle) {
  const V r = angle.rest, s = r * r;
  const V sin = fma(r * s, horner(s, -0.166666538f, 0.00833209977f, -0.000195065106f), r);
  const V cos = fma(s * s, horner(s, 0.0416666418f, -0.00138871302f, 2.44120856e-05f),
                    fma(s, broadcast<V>(-0.5f), broadcast<V>(1)));
  const V value = select(is_zero(angle.quarters & V::Int::broadcast(1)), sin, cos);
  return as_float(as_int(value) ^ shift_left<30>(angle.quarters & V::Int::broadcast(2)));
}
template <class V> V sin(V x) {
  return select(x == broadcast<V>(0), x, sin_of_reduced_angle(reduce_angle(x)));
}  // returns -0 for -0
template <class V> V cos(V x) {
  const ReducedAngle<V> angle = reduce_angle(x);
  return sin_of_reduced_angle(ReducedAngle<V>{angle.rest, angle.quarters + V::Int::broadcast(1)});
}

template <class V> V tanh(V x) {
  const V z = abs(x), s = z * z;
  const V near_zero =
      fma(z * s, horner(s, -0.333332807f, 0.133314058f, -0.0537365153f, 0.0206281673f, -0.00569229666f), z);
  const V beyond_5_8 = broadcast<V>(1) - broadcast<V>(2) / (exp(lane_min(broadcast<V>(20), z + z)) + broadcast<V>(1));
  const V value = select(z < broadcast<V>(0.625f), near_zero, beyond_5_8);
  return as_float(as_int(value) ^ (as_int(x) & V::Int::broadcast(INT32_MIN)));
}

template <class V> V sigmoid(V x) {  // 1/(1 + e) or e/(1 + e) with e = e^-|x|
  const ScaledFloat<V> e = exp_scaled(negate(abs(x)));
  const auto negative = x < broadcast<V>(0);
  return scale_by_pow2(select(negative, e.mantissa, broadcast<V>(1)) / (broadcast<V>(1) + e.value()),
                       select(negative, e.exponent, broadcast<V>(0)));
}

// Returns relu(x) - tail * 2^exponent. silu and gelu differ from relu by a tail that depends on |x| only. The result is
// exactly -tail for x < 0, and -0 for -0 and -infinity.
template <class V> V relu_minus_tail(V x, V tail, V exponent) {
  return lane_max(broadcast<V>(-0.0f), x) - scale_by_pow2(tail, exponent);
}

// Returns silu(x) = x/(1 + e^-x) given z = |x| and e = e^-z. The tail is z*e/(1 + e).
template <class V> V silu_from_exp(V x, V z, const ExpParts<V>& e) {
  const V power = scale_by_pow2(broadcast<V>(1) + e.rest, e.exponent);
  return relu_minus_tail(x, fma(z, e.rest, z) / (broadcast<V>(1) + power), e.exponent);
}
template <class V> V silu(V x) {
  const V z = lane_min(broadcast<V>(150), abs(x));
  return silu_from_exp(x, z, exp_parts(negate(z), broadcast<V>(0)));
}

// Returns x * Phi(x). The tail is z * Phi(-z) = e^(-z^2/2) * q * P(q), q = z/(z + 2.5), for z up to 14 and 0 above. P
// is expanded around q = 3/8, where its terms are small. (A quotient of two polynomials instead, whose rounding errors
// add up, had a largest error of 5.1 ulp.) z^2 is kept in two floats: in one, it and the power would be off by 2^-18 at
// z = 14.
template <class V> V gelu(V x) {
  const V z = lane_min(broadcast<V>(14.6f), abs(x)), h = z * z, low = fma(z, z, negate(h)), half = broadcast<V>(-0.5f);
  const ExpParts<V> e = exp_parts(h * half, low * half);
  const V q = z / (z + broadcast<V>(2.5f));
  const V tail = q * horner(q - broadcast<V>(0.375f), 0.82312268f, -0.993948758f, 0.477189869f, 0.191520661f,
                            -0.199347541f, -0.137368172f, 0.0632558987f, 0.121789925f, 0.0109371012f, -0.0802467912f);
  return relu_minus_tail(x, fma(tail, e.rest, tail), e.exponent);
}

// Returns x * sigmoid(z*(a + b*z^2)), the argument in two floats as in gelu; a = 2*sqrt(2/pi), b = 0.044715*a.
template <class V> V gelu_tanh(V x) {
  const V z = lane_min(broadcast<V>(12.5f), abs(x)), a = broadcast<V>(1.59576917f), b = broadcast<V>(0.0713548139f);
  const V s = z * z, s_low = fma(z, z, negate(s));
  const V p = b * s, p_low = fma(b, s_low, fma(b, s, negate(p)));
  const V t = a + p, back = t - a, t_low = (a - (t - back)) + (p - back);  // two-sum: t + t_low = a + p exactly
  const V rest = t_low + p_low + fma(s, broadcast<V>(2.39883247e-09f), broadcast<V>(-4.53406805e-08f));
  const V v = z * t, v_low = fma(z, rest, fma(z, t, negate(v)));
  return silu_from_exp(x, z, exp_parts(negate(v), negate(v_low)));
}

template <class V> V rsqrt(V x) { return broadcast<V>(1) / sqrt(x); }

// Returns NaN if either operand is NaN; for +0 and -0 it may return either.
template <class V> V max(V a, V b) { return select(is_nan(a), a, lane_max(a, b)); }
template <class V> V min(V a, V b) { return select(is_nan(a), a, lane_min(a, b)); }
template <class V> V relu(V x) { return lane_max(broadcast<V>(0), x); }
template <class V> V less(V a, V b) {
  return select(a < b, broadcast<V>(1), broadcast<V>(0));
}  // comparisons with NaN are false
template <class V> V equal(V a, V b) { return select(a == b, broadcast<V>(1), broadcast<V>(0)); }
template <class V> V less_equal(V a, V b) { return select(a == b, broadcast<V>(1), less(a, b)); }
template <class V> V where(V condition, V a, V b) { return select(condition == broadcast<V>(0), b, a); }

// Returns |x| with the sign of y.
template <class V> V with_sign(V x, V y) {
  return as_float(as_int(x) ^ ((as_int(x) ^ as_int(y)) & V::Int::broadcast(INT32_MIN)));
}
template <class V> V round(V x) {  // adding and subtracting 2^23 rounds to an integer
  const V z = abs(x), integer_part = (z + broadcast<V>(0x1p23f)) - broadcast<V>(0x1p23f);
  return with_sign(select(z < broadcast<V>(0x1p23f), integer_part, z), x);
}
template <class V> V floor(V x) {
  const V nearest = round(x);
  return nearest - select(x < nearest, broadcast<V>(1), broadcast<V>(0));
}
template <class V> V sign(V x) {
  return select(x < broadcast<V>(0), broadcast<V>(-1), select(broadcast<V>(0) < x, broadcast<V>(1), x));
}
template <class V> V clamp(V x, V lo, V hi) { return min(max(x, lo), hi); }
template <class V> V leaky_relu(V x) { return select(x < broadcast<V>(0), x * broadcast<V>(0.01f), x); }
template <class V> V hard_swish(V x) {
  x = lane_max(broadcast<V>(-3), x);
  return x * (lane_min(broadcast<V>(6), x + broadcast<V>(3)) / broadcast<V>(6));
}

// Returns e^x - 1 = 2^n * p + (2^n - 1) with p = e^r - 1; for x > 60 the -1 is negligible.
template <class V> V expm1(V x) {
  V n;
  const V r = reduce_by_ln2(x, n), p = fma(exp_polynomial(r), r * r, r), power = scale_by_pow2(broadcast<V>(1), n);
  const V value =
      select(broadcast<V>(60) < x, scale_by_pow2(p + broadcast<V>(1), n), fma(p, power, power - broadcast<V>(1)));
  return select(x == broadcast<V>(0), x, value);
}

// Evaluates an odd polynomial up to 15/16 and 1 - e^(-z + z*P(z)) above, which is 1 from 4 on.
template <class V> V erf(V x) {
  const V z = lane_min(broadcast<V>(4), abs(x)), s = z * z;
  const V near_zero =
      fma(z, horner(s, 0.128379151f, -0.376124799f, 0.112816207f, -0.0267587472f, 0.00498102885f, -0.000592712022f), z);
  const V power = fma(z,
                      horner(z, -0.128637075f, -0.635198057f, -0.106158964f, 0.0236944444f, -0.00361025869f,
                             0.000314830831f, -1.0429696e-05f),
                      negate(z));
  return with_sign(select(z < broadcast<V>(0.9375f), near_zero, broadcast<V>(1) - exp(power)), x);
}

// Evaluates the polynomial of t = min(|x|, 1) / max(|x|, 1).
template <class V> V atan(V x) {
  const V z = abs(x), t = lane_min(broadcast<V>(1), z) / lane_max(broadcast<V>(1), z), s = t * t;
  const V p = horner(s, -0.333332986f, 0.19998534f, -0.142641023f, 0.109515063f, -0.0840158165f, 0.0579272285f,
                     -0.0311489347f, 0.0108996928f, -0.00179040397f);
  const V base = fma(t * s, p, t), above_1 = broadcast<V>(1.57079637f) - (base + broadcast<V>(4.37113883e-08f));
  return with_sign(select(broadcast<V>(1) < z, above_1, base), x);
}

template <class V> V tan(V x) {
  const ReducedAngle<V> angle = reduce_angle(x);
  const V r = angle.rest, s = r * r;
  const V sin = fma(r * s, horner(s, -0.166666538f, 0.00833209977f, -0.000195065106f), r);
  const V cos = fma(s * s, horner(s, 0.0416666418f, -0.00138871302f, 2.44120856e-05f),
                    fma(s, broadcast<V>(-0.5f), broadcast<V>(1)));
  const auto even = is_zero(angle.quarters & V::Int::broadcast(1));
  return select(x == broadcast<V>(0), x, select(even, sin, negate(cos)) / select(even, cos, sin));
}

template <class V> V softplus(V x) { return max(x, broadcast<V>(0)) + log1p(exp(negate(abs(x)))); }

// Returns x * tanh(log(1 + e^x)) without subtractions. With e = e^-|x| it is x * e*(e + 2)/(e*(e + 2) + 2) for x < 0,
// the power of two applied last, and x * (1 + 2*e)/(1 + 2*e + 2*e^2) otherwise.
template <class V> V mish(V x) {
  x = lane_max(broadcast<V>(-150), x);
  const ScaledFloat<V> power = exp_scaled(negate(abs(x)));
  const V e = power.value(), two = broadcast<V>(2);
  const auto negative = x < broadcast<V>(0);
  const V numerator = select(negative, e + two, fma(two, e, broadcast<V>(1)));
  const V denominator = select(negative, fma(e, numerator, two), fma(two * e, e, numerator));
  return scale_by_pow2(x * (numerator / denominator) * select(negative, power.mantissa, broadcast<V>(1)),
                       select(negative, power.exponent, broadcast<V>(0)));
}

// Returns log z as result + low for z > 0, relative error 2^-31: z = m * 2^k, log m = 2*(s + s^3/3 + …) with
// s = (m - 1)/(m + 1).
template <class V> V log_two_floats(V z, V& low) {
  const auto subnormal = z < broadcast<V>(0x1p-126f);
  const V scaled = select(subnormal, z * broadcast<V>(0x1p23f), z);
  const auto root = V::Int::broadcast(0x3f3504f3), offset_bits = as_int(scaled) - root;
  const V k = to_float(shift_right<23>(offset_bits)) - select(subnormal, broadcast<V>(23), broadcast<V>(0));
  const V m = as_float((offset_bits & V::Int::broadcast(0x7fffff)) + root), f = m - broadcast<V>(1),
          g = m + broadcast<V>(1);
  const V g_low = m - (g - broadcast<V>(1)), s = f / g;
  const V s_low = fma(negate(s), g_low, fma(negate(s), g, f)) / g, s2 = s * s;
  const V more = horner(s2, 0.200000778f, 0.142733857f, 0.117137916f) * s2;  // terms after s^3/3
  const V cube = s * s2, third = broadcast<V>(0.333333343f), t = cube * third;
  const V cube_low = fma(s, fma(s, s, negate(s2)), fma(s, s2, negate(cube)));
  const V t_low = fma(cube, third, negate(t)) + fma(cube, broadcast<V>(-9.93410776e-09f), cube_low * third) +
                  cube * more + s2 * s_low;
  const V a = s + t, a_low = (t - (a - s)) + s_low + t_low;  // log(m) / 2
  const V log_of_exponent = k * broadcast<V>(0.693145752f), two_a = a + a,
          sum = log_of_exponent + two_a;  // ln 2 to 2^-16
  const V back = sum - log_of_exponent, error = (log_of_exponent - (sum - back)) + (two_a - back);
  low = error + (a_low + a_low) + k * broadcast<V>(1.42860677e-06f);
  return sum;
}

template <class V> V pow(V x, V y) {
  const V infinity = broadcast<V>(__builtin_inff()), zero = broadcast<V>(0), one = broadcast<V>(1), z = abs(x);
  V low;
  const V regular = log_two_floats(z, low);
  const V log = select(z == zero, negate(infinity), select(z == infinity, infinity, regular + (z - z)));
  const V product = y * log, rest = fma(y, log, negate(product)) + y * low;
  const V p = lane_max(broadcast<V>(-150), lane_min(broadcast<V>(100), product));
  const ExpParts<V> power = exp_parts(p, select(abs(product) < broadcast<V>(100), rest, zero));
  V value = select(z == one, select(is_nan(y), one, one), scale_by_pow2(one + power.rest, power.exponent));
  const V half = y * broadcast<V>(0.5f);
  const auto odd = select(floor(half) == half, zero, select(floor(y) == y, one, zero));  // 1 or 0: y is odd
  const V nan = broadcast<V>(__builtin_nanf(""));
  const V negative_base_value = select(x == negate(infinity), value, select(floor(y) == y, value, nan));
  value = select(x < zero, negative_base_value, value);
  const auto sign_bit = as_int(x) & V::Int::broadcast(INT32_MIN);
  value = select(odd == one, as_float(as_int(value) ^ sign_bit), value);
  return select(y == zero, one, select(x == one, one, select(is_nan(y), y, value)));
}

// Overloads that select a function by its entry of function_table (base/function.h).
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::add>, V a, V b) {
  return a + b;
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::subtract>, V a, V b) {
  return a - b;
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::multiply>, V a, V b) {
  return a * b;
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::divide>, V a, V b) {
  return a / b;
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::pow>, V a, V b) {
  return pow(a, b);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::negate>, V x) {
  return negate(x);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::exp>, V x) { return exp(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::log>, V x) { return log(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::cos>, V x) { return cos(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::sin>, V x) { return sin(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::gelu>, V x) { return gelu(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::gelu_tanh>, V x) {
  return gelu_tanh(x);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::silu>, V x) { return silu(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::relu>, V x) { return relu(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::sigmoid>, V x) {
  return sigmoid(x);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::tanh>, V x) { return tanh(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::sqrt>, V x) { return sqrt(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::rsqrt>, V x) {
  return rsqrt(x);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::abs>, V x) { return abs(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::erf>, V x) { return erf(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::softplus>, V x) {
  return softplus(x);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::tan>, V x) { return tan(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::atan>, V x) { return atan(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::log1p>, V x) {
  return log1p(x);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::expm1>, V x) {
  return expm1(x);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::floor>, V x) {
  return floor(x);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::round>, V x) {
  return round(x);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::sign>, V x) { return sign(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::leaky_relu>, V x) {
  return leaky_relu(x);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::hard_swish>, V x) {
  return hard_swish(x);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::mish>, V x) { return mish(x); }
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::max>, V a, V b) {
  return max(a, b);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::min>, V a, V b) {
  return min(a, b);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::where>, V a, V b, V c) {
  return where(a, b, c);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::clamp>, V a, V b, V c) {
  return clamp(a, b, c);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::less>, V a, V b) {
  return less(a, b);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::less_equal>, V a, V b) {
  return less_equal(a, b);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::greater>, V a, V b) {
  return less(b, a);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::greater_equal>, V a, V b) {
  return less_equal(b, a);
}
template <class V> [[gnu::always_inline]] inline V apply_function(FunctionTag<Function::equal>, V a, V b) {
  return equal(a, b);
}

}  // namespace
}  // namespace ridge::ops

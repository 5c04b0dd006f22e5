// Helpers of the gated layer's checks: reference arithmetic in f64, operands, canaries and random choices.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "values.h"

namespace ridge::gpu {

using ops::EpilogueActivation;

struct ErrorCounts {
  unsigned wrong, worst;  // number of wrong elements; bits of the largest error ratio, which are ordered as the ratio
  unsigned long long first;  // smallest index of a wrong element
};
// Returns the largest ulp of a format relative to the value; rounding to nearest has an error of half an ulp.
__host__ __device__ inline double relative_ulp(ElementFormat x) {
  if (x == ElementFormat::bf16) return 1 / 128.0;
  if (x == ElementFormat::f16) return 1 / 1024.0;
  return 1e-6;
}

__device__ inline double apply_activation(EpilogueActivation a, double g) {
  switch (a) {
    case EpilogueActivation::none: return g;
    case EpilogueActivation::relu: return g < 0 ? 0 : g;
    case EpilogueActivation::gelu: return 0.5 * g * erfc(-g * 0.70710678118654752);
    case EpilogueActivation::gelu_tanh: return g / (1 + exp(-2 * 0.79788456080286536 * (g + 0.044715 * g * g * g)));
    case EpilogueActivation::silu: return g / (1 + exp(-g));
  }
  return g;
}

__device__ inline double activation_slope(EpilogueActivation a, double g) {
  const double c = 0.79788456080286536,
               s = 1 / (1 + exp(a == EpilogueActivation::silu ? -g : -2 * c * (g + 0.044715 * g * g * g)));
  switch (a) {
    case EpilogueActivation::none: return 1;
    case EpilogueActivation::relu: return g > 0;
    case EpilogueActivation::gelu:
      return 0.5 * erfc(-g * 0.70710678118654752) + g * 0.3989422804014327 * exp(-g * g / 2);
    case EpilogueActivation::gelu_tanh: return s + g * s * (1 - s) * 2 * c * (1 + 3 * 0.044715 * g * g);
    case EpilogueActivation::silu: return s + g * s * (1 - s);
  }
  return 0;
}

static __global__ void fill_random(ElementFormat format, void* data, std::int64_t count, std::uint32_t seed,
                                   float scale) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count; i += step)
    write_element(format, data, i, scale * random_value(ValueKind::normal, static_cast<std::uint64_t>(i), seed));
}
static __global__ void set_element(ElementFormat format, void* data, std::int64_t i, float x) {
  write_element(format, data, i, x);
}
// Adds to `touched` the number of bytes between rows and at both ends that no longer contain the canary.
static __global__ void count_overwritten_bytes(const std::uint8_t* all, std::size_t bytes, std::size_t begin,
                                               std::int64_t lines, std::int64_t line, std::int64_t stride,
                                               unsigned* touched) {
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < bytes;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    if (i >= begin) {
      const std::int64_t at = static_cast<std::int64_t>(i - begin), l = stride ? at / stride : 0;
      if (l < lines && at - l * stride < line) continue;
    }
    if (all[i] != 0x5a) atomicAdd(touched, 1u);
  }
}

struct Random {
  std::uint32_t state;
  int below(int n) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>((state >> 8) % static_cast<std::uint32_t>(n));
  }
  bool one_in(int n) { return below(n) == 0; }
  template <class T> T pick(std::initializer_list<T> x) { return x.begin()[below(static_cast<int>(x.size()))]; }
};

bool check_one_backward(Random& r, int number);  // True if a random case of the full backward is correct.

}  // namespace ridge::gpu

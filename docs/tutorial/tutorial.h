// What every step needs and no step is about: data, and how a program ends.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

namespace tutorial {

using Index = std::int64_t;

// Integers from -3 to 3: their sums are exact in f32 in whatever order, so results are compared with ==.
inline std::vector<float> filled(Index count, std::uint32_t seed) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& each : x) {
    seed = seed * 1664525 + 1013904223;
    each = static_cast<float>(static_cast<int>((seed >> 16) % 7) - 3);
  }
  return x;
}

// D[m, n] = A[m, k] * B[n, k] transposed: the plain loop that a step is held against.
inline std::vector<float> plain_product(const std::vector<float>& a, const std::vector<float>& b, Index m, Index n,
                                        Index k) {
  std::vector<float> d(static_cast<std::size_t>(m * n));
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      float sum = 0;
      for (Index q = 0; q < k; ++q) sum += a[i * k + q] * b[j * k + q];
      d[i * n + j] = sum;
    }
  return d;
}

inline double mb(Index bytes) { return static_cast<double>(bytes) / 1e6; }

// The program's last line and its exit code.
inline int ends(bool right) {
  std::puts(right ? "right" : "WRONG");
  return right ? 0 : 1;
}

}  // namespace tutorial

// Shared by all steps: input data, reference loops and the exit code.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace tutorial {

using Index = std::int64_t;

// Returns integers from -3 to 3. Their sums are exact in f32 in any order, so results are compared with ==.
inline std::vector<float> filled(Index count, std::uint32_t seed) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& each : x) {
    seed = seed * 1664525 + 1013904223;
    each = static_cast<float>(static_cast<int>((seed >> 16) % 7) - 3);
  }
  return x;
}

// Returns D[m, n] = A[m, k] * B[n, k] transposed, computed by a plain loop.
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

// Computes softmax(scale * q * k^T) * v in double for t rows of d. Returns the largest difference from `out`, divided
// by the largest |v|, which is 3.
inline double worst_of_attention(Index t, Index d, double scale, const float* q, const float* k, const float* v,
                                 const float* out) {
  double most = 0;
  for (Index i = 0; i < t; ++i) {
    double sum = 0;
    std::vector<double> weighted(static_cast<std::size_t>(d));
    for (Index j = 0; j < t; ++j) {
      double s = 0;
      for (Index c = 0; c < d; ++c) s += static_cast<double>(q[i * d + c]) * k[j * d + c];
      const double p = std::exp(s * scale);
      sum += p;
      for (Index c = 0; c < d; ++c) weighted[c] += p * v[j * d + c];
    }
    for (Index c = 0; c < d; ++c) most = std::max(most, std::abs(weighted[c] / sum - out[i * d + c]) / 3);
  }
  return most;
}

inline double mb(Index bytes) { return static_cast<double>(bytes) / 1e6; }

// Prints the program's last line and returns its exit code.
inline int ends(bool right) {
  std::puts(right ? "right" : "WRONG");
  return right ? 0 : 1;
}

}  // namespace tutorial

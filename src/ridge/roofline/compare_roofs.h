// Compares two roofs exactly: flops/peak >= bytes/bandwidth is flops*bandwidth >= bytes*peak, and every factor is a
// whole number (a double is one times a power of two). With rounded times, B = 8505 against a boundary of
// 8505.000000000001 would depend on rounding.
#pragma once

#include <cstdint>

#include "ridge/base/result.h"
#include "ridge/symbol/polynomial.h"

namespace ridge {

// Rates of two roofs, both finite and above 0.
struct RoofRates {
  double peak = 0;       // FLOP/s
  double bandwidth = 0;  // B/s
  double ridge() const { return peak / bandwidth; }
};

// FLOPs and bytes divided by their common factor, with whole coefficients: 2*B*D*F and 2*B*D + 2*B*F give D*F and D +
// F.
struct Ratio {
  Polynomial flops, bytes;
};
Ratio cancel_common_factor(const Polynomial& flops, const Polynomial& bytes);

// Count slope*x + constant; both are at least 0.
struct LinearCount {
  std::int64_t slope = 0, constant = 0;
};

// True if flops/peak >= bytes/bandwidth at `x`.
bool is_compute_bound(LinearCount flops, LinearCount bytes, std::int64_t x, RoofRates rates);
bool is_compute_bound(Count flops, Count bytes, RoofRates rates);  // Both counts are at least 0
// True if an operation is compute-bound at `dims`. Errors: a count exceeds 10^38.
Result<bool> is_compute_bound(const Ratio& ratio, const Bindings& dims, RoofRates rates);

}  // namespace ridge

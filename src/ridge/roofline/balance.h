// Which roof is the lower one, decided without rounding. flops/peak >= bytes/bandwidth is flops*bandwidth >=
// bytes*peak; every factor is a whole number (a double is one times a power of two), so the products are compared to
// the last bit. With rounded times, B = 8505 against a boundary of 8505.000000000001 would be a coin toss.
#pragma once

#include <cstdint>

#include "ridge/base/result.h"
#include "ridge/symbol/polynomial.h"

namespace ridge {

// Both finite and above 0.
struct Roofs {
  double peak = 0;       // FLOP/s
  double bandwidth = 0;  // B/s
  double ridge() const { return peak / bandwidth; }
};

// FLOPs and bytes over their common factor, with whole coefficients: 2*B*D*F and 2*B*D + 2*B*F give D*F and D + F.
struct Ratio {
  Polynomial flops, bytes;
};
Ratio reduced(const Polynomial& flops, const Polynomial& bytes);

// slope*x + constant, none negative.
struct Line {
  std::int64_t slope = 0, constant = 0;
};

// flops/peak >= bytes/bandwidth at x.
bool compute_bound(Line flops, Line bytes, std::int64_t x, Roofs roofs);
bool compute_bound(Count flops, Count bytes, Roofs roofs);  // none negative
// The same of an operation; an error where a count leaves 10^38.
Result<bool> compute_bound(const Ratio& ratio, const Bindings& dims, Roofs roofs);

}  // namespace ridge

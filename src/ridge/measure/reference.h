// The slow, obvious executor: chosen elements of a statement's result, in fp64, straight from the statement and from
// its operands as they are stored. It never sees the lowering or the kernels, so it is their oracle. With each value
// comes the largest error that an honest f32 computation may make.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/measure/fill.h"
#include "ridge/program/program.h"

namespace ridge {

struct Expected {
  double value = 0;
  double scale = 0;  // what the error is taken relative to: |A||B| for a contraction; 0: max(|value|, rms) is used
  double bound = 0;  // an absolute error beyond it is a mismatch; without meaning where value is not finite
};

// How far a kernel's gelu and gelu_tanh of x may be off: `of_argument` |x|, and gelu by another `of_gelu` (1 + x*x/2)
// of itself; and whether these and silu give -inf its limit, -0, or a NaN, as x * Phi(x) and x / (1 + e^-x) do.
struct GeluSlack {
  double of_argument = 0, of_gelu = 0;
  bool limits = true;
};

struct Oracle {
  const Program& program;
  const Bindings& dims;        // every dimension
  std::vector<Array> tensors;  // of Program::tensors
  bool random_data = true;     // rounding errors of random data add like a random walk; of other data like a sum
  int threads = 1;
  // Statements that share a kernel, sorted: what one of them makes and another reads is computed again in fp64, for the
  // kernel never rounds it to what is stored.
  std::vector<int> inside = {};
  GeluSlack gelu = {};  // of that kernel

  // Of the elements `indices` (flat, row-major) of the statement's result.
  std::vector<Expected> evaluate(const Statement& statement, const std::vector<std::int64_t>& indices) const;
  // What makes this tensor inside the kernel; none: it is stored, or a sum of products.
  std::optional<Expression> made_inside(int tensor) const;
  // How many of `wanted` elements can be evaluated in about a second: where each takes a row of a long softmax, fewer.
  std::int64_t affordable(const Statement& statement, std::int64_t wanted) const;
};

// At least `wanted` of `elements`: all where there are no more, else one from each of `wanted` equal stretches, picked
// by the seed, and the corners of the index space.
std::vector<std::int64_t> sample(const std::vector<std::int64_t>& extents, std::int64_t wanted, std::uint64_t seed);

// A value that is not finite, or that rounds beyond the dtype, is right only where the result is the same infinity, or
// NaN as well.
struct Comparison {
  double max_rel_error = 0;       // infinite where one of the two is not finite and they differ
  std::int64_t first_wrong = -1;  // position in `indices` of the first element beyond its bound; -1: none
};
Comparison compare(const Array& result, const std::vector<std::int64_t>& indices,
                   const std::vector<Expected>& expected);

// The largest relative error of rounding to this dtype; 0: whole numbers.
double roundoff(DType dtype);

// The element at a flat index of a result, said to be wrong.
struct Judged {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string text;  // the statement
};
Error mismatch(const Judged& result, std::int64_t index, const Expected& expected, double found);

}  // namespace ridge

// A program's counts as a sweep computes them at millions of points: whole arithmetic on sizes that are known by index,
// with nothing looked up by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/roofline/masks.h"
#include "ridge/roofline/sweep.h"
#include "ridge/symbol/polynomial.h"

namespace ridge {

using Names = std::vector<std::string>;  // of the sizes of a point: those of the ranges, then those that hang on them

// A polynomial as a list of products: whole coefficients over one denominator, sizes as indices.
class FlatCount {
 public:
  FlatCount(const Polynomial& polynomial, const Names& names);

  bool zero() const { return terms_.empty(); }
  std::int64_t denominator() const { return denominator_; }

  // The value times the denominator; none: it leaves 10^38. Whole arithmetic wraps, and what a double says of the size
  // tells whether it did.
  std::optional<Count> scaled(const std::int64_t* sizes) const;

 private:
  struct Term {
    std::int64_t coefficient;
    std::vector<int> factors;
  };
  std::vector<Term> terms_;
  std::int64_t denominator_ = 1;
};

struct FlatOp {
  FlatCount flops, bytes, load, sent;
  double peak = 0;  // 0: the machine has none
};

// Counts of the whole program, by which times too near to tell are told apart.
struct FlatSum {
  FlatCount flops;  // weighed, at `peak`
  double peak = 0;  // 0: they cannot be weighed
  FlatCount bytes, load;
};

// A number of pairs that a mask lets through, behind the sizes on which it hangs.
struct FlatMask {
  Mask mask;
  Bindings fixed;                                   // sizes that no range moves
  std::vector<std::pair<std::string, int>> moving;  // others, with their places
};

// The largest part of a size over a mesh.
struct FlatPart {
  int name = 0;  // the size's
  std::int64_t parts = 1;
};

// Places of SweepLine::reasons; behind them those of derived sizes and then those of masks, in their order.
enum : std::uint16_t { nothing_unknown, beyond_range, beyond_size, first_derived };

struct FlatProgram {
  Names names;
  std::vector<FlatCount> derived;  // the sizes behind those of the ranges, each in what stands before it
  std::vector<FlatMask> masks;     // behind those
  std::vector<FlatPart> parts;     // behind those
  std::vector<FlatOp> ops;
  FlatSum sum;
  double bandwidth = 0, link = 1, launch_s = 0;
  std::vector<std::string> reasons;
  bool sends = false;
  std::string left_out = {};
};

// The point at `sizes`, which begins with those of the ranges and has room for the others; its reason tells why a count
// or a time is unknown.
SweepPoint evaluate(const FlatProgram& program, std::int64_t* sizes);

}  // namespace ridge

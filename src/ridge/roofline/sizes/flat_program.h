// A program's counts in the form that a sweep evaluates at millions of points: integer arithmetic on indexed sizes,
// without looking up names.
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

using SizeNames = std::vector<std::string>;  // Sizes of a point: those of the ranges, then those that depend on them

// Polynomial as a list of products: integer coefficients over one denominator, sizes as indices.
class FlatCount {
 public:
  FlatCount(const Polynomial& polynomial, const SizeNames& names);

  bool is_zero() const { return terms_.empty(); }
  std::int64_t denominator() const { return denominator_; }

  // Returns the value times the denominator, or nullopt if it exceeds 10^38. Integer arithmetic may wrap; the value as
  // a double shows whether it did.
  std::optional<Count> scaled_value(const std::int64_t* sizes) const;

 private:
  struct Term {
    std::int64_t coefficient;
    std::vector<int> factors;
  };
  std::vector<Term> terms_;
  std::int64_t denominator_ = 1;
};

struct FlatOp {
  FlatCount flops, bytes, link_load, bytes_sent;
  double peak = 0;  // 0 if the machine has none
};

// Counts of the whole program. They decide exactly if two times are too close for doubles.
struct FlatSum {
  FlatCount flops;  // FLOPs normalized to `peak`
  double peak = 0;  // 0 if they cannot be normalized
  FlatCount bytes, link_load;
};

// Number of unmasked pairs as a size; it follows the sizes that it depends on.
struct FlatMask {
  IndexMask mask;
  Bindings fixed;                                    // Sizes that no range changes
  std::vector<std::pair<std::string, int>> varying;  // Other sizes and their indices
};

// Largest shard of a size over a mesh.
struct FlatShard {
  int size = 0;  // Index of the size
  std::int64_t shards = 1;
};

// Indices into `SweepLine::reasons`; after them come those of derived sizes and then those of masks, in order.
enum : std::uint16_t { all_known, count_overflow, size_overflow, first_derived };

struct FlatProgram {
  SizeNames names;
  std::vector<FlatCount> derived;  // Sizes after those of the ranges, each in terms of preceding ones
  std::vector<FlatMask> masks;     // Sizes after the derived ones
  std::vector<FlatShard> shards;   // Sizes after those of the masks
  std::vector<FlatOp> ops;
  FlatSum sum;
  double bandwidth = 0, link_rate = 1, launch_s = 0;  // B/s, B/s, s
  std::vector<std::string> reasons;
  bool sends = false;
  std::string missing = {};
};

// Evaluates one point. `sizes` begins with the sizes of the ranges and has space for the dependent sizes, which are
// written. The point's reason says why a count or a time is unknown.
SweepPoint evaluate_point(const FlatProgram& program, std::int64_t* sizes);

}  // namespace ridge

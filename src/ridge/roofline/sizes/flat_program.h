// A program's counts in the form that a sweep evaluates at millions of points and the page at every slider position: a
// list of values, each computed from preceding ones by integer arithmetic, without looking up names.
//   dims B, D, F = 4*D        values B, D, then F = 4*D
//   bf16[B, D_X] with X = 4   then ceil(D/4), the largest shard
//   index(T) <= index(S)      then max(S, 0), max(S - T, 0) and others, and the pairs as a polynomial in them
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/roofline/masks.h"
#include "ridge/roofline/sweep.h"
#include "ridge/roofline/work.h"
#include "ridge/symbol/polynomial.h"

namespace ridge {

using SizeNames = std::vector<std::string>;  // Independent sizes, then the values computed from them

// Polynomial as a list of products: integer coefficients over one denominator, sizes as indices.
class FlatCount {
 public:
  struct Term {
    std::int64_t coefficient;
    std::vector<int> factors;
  };
  FlatCount(const Polynomial& polynomial, const SizeNames& names);

  const std::vector<Term>& terms() const { return terms_; }
  std::int64_t denominator() const { return denominator_; }

  // Returns the value times the denominator, or nullopt if it exceeds 10^38. Integer arithmetic may wrap; the value as
  // a double shows whether it did.
  std::optional<Count> scaled_value(const std::int64_t* sizes) const;

  // Returns the value rounded up, or nullopt if it exceeds 10^38.
  std::optional<Count> ceil_value(const std::int64_t* sizes) const;

 private:
  std::vector<Term> terms_;
  std::int64_t denominator_ = 1;
};

struct FlatTransfer {
  FlatCount bytes;  // V
  TransferCost cost;
};

struct FlatOp {
  FlatCount flops, math_load, bytes, bytes_sent;
  double peak = 0;  // 0 if the machine has none
  std::vector<FlatTransfer> transfers = {};
};

// Counts of the whole program. They decide exactly if two times are too close for doubles.
struct FlatSum {
  FlatCount flops;  // FLOPs normalized to `peak`
  double peak = 0;  // 0 if they cannot be normalized
  FlatCount bytes, link_load;
};

// Pairs that no polynomial counts: those of windows, routings, lists of lengths and regions.
struct FlatMask {
  IndexMask mask;
  Bindings constants;                                // Sizes without an index
  std::vector<std::pair<std::string, int>> indexed;  // Other sizes and their indices
};

// Indices into `SweepLine::reasons`; after them come those of single values.
enum : std::uint16_t { all_known, count_overflow, size_overflow };

// Value computed from preceding ones: `count` rounded up, at least `low` and at most `high`.
struct FlatValue {
  FlatCount count;
  std::optional<FlatCount> low = {}, high = {};
  bool is_size = false;                  // True for a derived size, which must be a whole number of at least 1
  std::optional<FlatMask> mask = {};     // Counted instead of `count`
  std::uint16_t reason = size_overflow;  // Index into `reasons` if `is_size` or `mask` has no value
};

// Values by index: the independent sizes, then the computed ones.
class FlatSizes {
 public:
  // `constants` holds sizes that have no index; polynomials contain their values.
  FlatSizes(SizeNames independent, Bindings constants);

  const SizeNames& names() const { return names_; }
  const std::vector<FlatValue>& computed() const { return computed_; }
  std::vector<FlatValue>& computed() { return computed_; }
  const Bindings& constants() const { return constants_; }
  int index_of(const std::string& name) const;  // Returns -1 if the name has no index
  bool has_name(const std::string& name) const { return index_of(name) >= 0; }
  // Unknown sizes count as 1; a sweep reports them when it compiles the counts of operations.
  FlatCount compile(Polynomial count) const;

  void add_derived_size(const std::string& name, const Polynomial& formula);
  void add_mask(const IndexMask& mask);     // Adds the number of unmasked pairs under the mask's symbol
  void add_shard(const DimShard& shard);    // Adds the shard's name as a constant if its size is one
  bool is_helper(std::size_t index) const;  // True for a value that only other values use

 private:
  std::int64_t constant(const std::string& name) const;
  void add_value(std::string name, FlatValue value);
  void add_indices(const IndexMask& mask);
  Polynomial add_helper(const Polynomial& count, const Polynomial& low, const std::optional<Polynomial>& high = {});
  Polynomial count_pairs_from(const Polynomial& c, const Polynomial& rows, const Polynomial& columns);

  SizeNames names_;
  std::vector<FlatValue> computed_;
  Bindings constants_;
};

struct FlatProgram {
  SizeNames names;
  std::vector<FlatValue> computed;  // Values after those of the ranges
  std::vector<FlatOp> ops;
  FlatSum sum;
  double bandwidth = 0, link_rate = 1, launch_s = 0;  // B/s, B/s, s
  std::vector<std::string> reasons;
  bool sends = false;
  std::string missing = {};
};

// Evaluates one point. `sizes` begins with the sizes of the ranges and has space for the computed values, which are
// written. The point's reason says why a count or a time is unknown.
SweepPoint evaluate_point(const FlatProgram& program, std::int64_t* sizes);

}  // namespace ridge

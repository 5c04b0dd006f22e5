// Results of analyses: the limit of an operation, thresholds of sizes, and sweeps. Plain structs, installed with
// ridge.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/symbol/dimensions.h"

namespace ridge {

enum class Limiter { compute, memory, network, overhead, quantization };
std::string_view name(Limiter limiter);

enum class Relation { at_least, at_most, always, never };
std::string_view name(Relation relation);  // ">=", "<=", "always", "never"

// Solution of T_math >= T_memory for one dimension, the others fixed: "compute-bound from B >= 256". Other pairs of
// roofs compare their times in the same way. A default that depends on the dimension (F = 4*D when D is solved for)
// changes with it, as under -d. If another dimension has no value, `value` and `value_real` are nullopt, and `relation`
// holds under `condition`.
struct Threshold {
  std::string dim;
  Relation relation = Relation::never;
  // Formula "r*D*F/(D*F - r*(D + F))", in which r (`ridge` if a dimension is called r) is `ratio`; empty for always and
  // never
  std::string exact = {};
  std::optional<std::int64_t> value = {};  // First (or last) whole number that satisfies the relation, exact
  std::optional<double> value_real = {};   // Boundary as a real number
  std::optional<double> approx = {};       // Limit of the boundary under `assuming`
  std::string assuming = {};               // "B << D, F"
  // Condition on dimensions without a value, without which the first roof is never the limit: "D*F > r*(D + F)". Empty
  // if none is needed.
  std::string condition = {};
  std::array<Limiter, 2> roofs = {Limiter::compute, Limiter::memory};
  double ratio = 0;  // r: rate of the first roof / rate of the second
  // Unit that computes, "matrix", if the units of a fused program are compared separately; otherwise empty.
  std::string unit = {};
  bool numerical = false;  // True if the whole number was found by search, without a closed form; `exact` is then empty
  // True if no other roof takes longer than these two, so that the operation is compute-bound or memory-bound; false if
  // the network or a launch may decide, and for sums of operations.
  bool decides_limiter = true;
};

// Number of FLOPs or bytes, exact up to 10^38.
using Count = __int128;

struct SweepPoint {
  Count flops = -1, bytes = -1;                 // -1 if unknown; `reason` says why
  double time_lower_s = -1, time_upper_s = -1;  // -1 if unknown; without what `SweepLine::missing` lists
  double time_network_s = 0, bytes_sent = 0;    // 0 if nothing is sent
  Limiter limiter = Limiter::memory;            // Roof with the largest sum of times, if the times are known
  bool limiter_changed = false;  // True if the limiter differs from that at the previous value of the last range
  std::uint16_t reason = 0;      // Index into `SweepLine::reasons`
};

// Change of the whole program's limiter along a dimension, found among all whole numbers between two requested sizes.
struct SweepChange {
  std::size_t point = 0;   // Index of the requested point after the change
  std::int64_t first = 0;  // First size with the new limiter
  Limiter from = Limiter::memory, to = Limiter::memory;
  double flops_per_s = 0;  // Attainable rate at that size
};

// Attainable rate along the range with the most values, at sizes dense enough to draw, including sizes not requested.
struct SweepCurve {
  struct CurvePoint {
    std::int64_t size = 0;
    double flops_per_s = 0;
  };
  std::size_t first_point =
      0;  // Index of the sweep point where the curve begins; it sets the values of the other ranges
  std::vector<CurvePoint> points;
  std::vector<CurvePoint> fused = {};  // Rates without stored intermediates; empty if there are none
  std::vector<SweepChange> changes = {};
};

// One machine, dtype and split at every combination of the ranges' values; the last range varies fastest.
struct SweepLine {
  std::string machine, dtype;                // Dtypes of the inputs: "bf16", "bf16 int8"
  std::optional<DimensionSplit> split = {};  // If set, the numbers are those of one chip
  std::vector<SweepPoint> points;
  // Reasons for unknown values: "" (all is known), "a count exceeds 10^38", "F = D - 5 is below 1" and others
  std::vector<std::string> reasons = {};
  std::vector<SweepChange> changes = {};  // Changes along the last range, at most `max_sweep_changes`
  std::vector<SweepCurve> curves = {};    // Curves if requested, at most `max_sweep_curves`
  bool sends = false;                     // True if anything is sent
  std::string missing = {};  // What the machine lacks, so the times leave it out: "vector f32 peak of tpu_v6e"
};

inline constexpr std::size_t max_sweep_changes = 64, max_sweep_curves = 12;

struct Sweep {
  std::string program_text;
  std::vector<DimensionValues> ranges;  // Dimensions, including those with one value
  std::vector<SweepLine> lines;
  std::string title = {};  // Name of the file, or the program itself if it is one line
  std::int64_t size_at(std::size_t point, std::size_t range) const;  // Size of that range's dimension
};

}  // namespace ridge

// In which words an answer is given: what binds an operation, from which size of a dimension on, and what a sweep
// holds. Plain structs, installed with ridge.h.
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

// "compute-bound from B >= 256 on": T_math >= T_memory solved for one dimension, the others held at their values; of
// another pair of roofs likewise, the first one's time against the second one's.
// A default that hangs on the dimension (F = 4*D, asked for D) follows it, as it does under -d. Without a value for
// some other dimension, `value` and `value_real` are null, and `relation` is what holds under `condition`.
struct Threshold {
  std::string dim;
  Relation relation = Relation::never;
  std::string exact = {};  // "r*D*F/(D*F - r*(D + F))"; r (or `ridge`, where a dimension is called r): `ratio`. Empty
                           // for always and never
  std::optional<std::int64_t> value = {};  // the first (last) whole number that satisfies it, exact
  std::optional<double> value_real = {};   // the boundary itself
  std::optional<double> approx = {};       // its limit under `assuming`
  std::string assuming = {};               // "B << D, F"
  // Where some other dimension has no value: "D*F > r*(D + F)", without which the first roof is never reached. Empty:
  // none is needed.
  std::string condition = {};
  std::array<Limiter, 2> roofs = {Limiter::compute, Limiter::memory};
  double ratio = 0;  // r: the first roof's rate over the second one's
  // Of a fused program whose matrix and vector unit are judged apart: the one that computes, "matrix". Empty: all.
  std::string unit = {};
  bool numerical = false;  // no closed form is known: the whole number was searched for, and `exact` is empty
};

// A number of FLOPs or bytes: exact up to 10^38.
using Count = __int128;

struct SweepPoint {
  Count flops = -1, bytes = -1;                 // -1, and nothing else is known: `reason` says why
  double time_lower_s = -1, time_upper_s = -1;  // -1 likewise; without what SweepLine::left_out says
  double time_network_s = 0, bytes_sent = 0;    // 0: nothing is sent
  Limiter limiter = Limiter::memory;            // where the times are known: what has the largest sum of times
  bool crossed = false;      // the limiter is another one than at the previous value of the last range
  std::uint16_t reason = 0;  // an index into SweepLine::reasons
};

// Where the limiter of the whole program changes along a dimension: at the first size that has the new one, found among
// all whole numbers between two that were asked for.
struct SweepChange {
  std::size_t point = 0;  // the one of the two that is behind the change
  std::int64_t first = 0;
  Limiter from = Limiter::memory, to = Limiter::memory;
  double flops_per_s = 0;  // attainable there
};

// What is attainable along the range with the most values, at sizes close enough to draw, whichever were asked for.
struct SweepCurve {
  struct Place {
    std::int64_t size = 0;
    double flops_per_s = 0;
  };
  std::size_t point = 0;  // where it begins; the other ranges have that point's values
  std::vector<Place> places;
  std::vector<Place> fused = {};  // with nothing stored in between; empty: nothing is
  std::vector<SweepChange> changes = {};
};

// One machine, dtype and split, over every combination of the ranges' values, the last range fastest.
struct SweepLine {
  std::string machine, dtype;       // of the inputs: "bf16", "bf16 int8"
  std::optional<Split> split = {};  // the numbers are then those of one chip
  std::vector<SweepPoint> points;
  // Why something may be unknown: "" (all is known), "a count leaves 10^38", "F = D - 5 is below 1", …
  std::vector<std::string> reasons = {};
  std::vector<SweepChange> changes = {};  // along the last range, the first most_sweep_changes of them
  std::vector<SweepCurve> curves = {};    // where they were asked for, the first most_sweep_curves of them
  bool sends = false;                     // whether anything is sent
  std::string left_out = {};  // what the machine lacks, so that times leave it out: "vector f32 peak of tpu_v6e"
};

inline constexpr std::size_t most_sweep_changes = 64, most_sweep_curves = 12;

struct Sweep {
  std::string program_text;
  std::vector<Range> ranges;  // dimensions with one value among them
  std::vector<SweepLine> lines;
  std::string title = {};  // the file's name, or the program itself where it is one line
  std::int64_t value(std::size_t point, std::size_t range) const;  // of that range's dimension
};

}  // namespace ridge

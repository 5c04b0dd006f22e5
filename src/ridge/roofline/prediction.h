// The bound of each operation on a machine, and from which size on the other roof binds.
//   time_lower = max(T_math, T_memory, T_network, a launch), time_upper = the sum of the first three; ridge = peak /
//   bandwidth.
// What the machine's file lacks is left out and named: the times are then bounds without it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/quantity.h"
#include "ridge/machine/machine.h"
#include "ridge/roofline/answers.h"
#include "ridge/roofline/masks.h"
#include "ridge/roofline/memory.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/sending/overlap.h"
#include "ridge/roofline/sending/small_messages.h"
#include "ridge/roofline/split.h"
#include "ridge/roofline/work.h"

namespace ridge {

// A FLOP on another unit than that of r, in FLOPs of r's: r's peak over this one.
struct Weight {
  Peak peak;
  double weight = 1;
};

struct Prediction {
  Work work;
  std::optional<Count> flops = {}, bytes = {};  // null where a dimension has no value
  std::optional<double> intensity = {};         // FLOP/B
  std::optional<double> ridge = {};             // FLOP/B; null where the machine lacks the peak
  std::optional<Peak> peak = {};                // the machine's number by which the operation is judged
  std::optional<double> bandwidth = {};         // B/s
  std::optional<double> link = {};              // B/s of the links used, one way; null where nothing is sent
  std::optional<double> bytes_sent = {};        // B
  std::optional<double> time_math_s = {}, time_memory_s = {}, time_network_s = {}, time_lower_s = {}, time_upper_s = {};
  double launch_s = 0;  // of the kernels; 0: none is on record
  std::optional<Limiter> limiter = {};
  std::optional<Limiter> runner_up = {};
  std::string intensity_formula = {};
  std::string missing = {};  // what the machine lacks, so that times leave it out: "vector f32 peak of tpu_v5e"
  // Of the total: where the sums of the operations' times meet, with the first operation's peak in r and the others'
  // FLOPs weighed. Of the fused program likewise, but each unit by itself, because they compute at once. None where the
  // sums have more than 64 terms.
  std::vector<Threshold> thresholds = {};
  std::vector<Weight> weights = {};
};

// A condition on two indices, and the pairs that it lets through: S*S/2 + S/2 of S*T. Of a convolution's windows that
// need no symbol, `through` is all of them.
struct MaskCount {
  Mask mask;
  Polynomial through, all;
  std::optional<std::int64_t> through_count = {}, all_count = {};  // null where a dimension has no value
};

struct Explanation {
  std::string program_text;
  Machine machine;
  std::vector<std::string> dim_names = {};   // all, in the program's order: the order in which formulas list symbols
  Bindings dims = {};                        // those that have values, and the sizes of mesh axes
  std::vector<std::string> mesh_names = {};  // empty: nothing is sharded; else everything is counted for one device
  std::vector<std::string> derived = {};     // "F = 4*D": what follows a threshold's dimension
  std::vector<std::string> unsolved = {};    // dimensions that an operation has and says no threshold of: open sizes
                                             // decide, or one is tied to it by a mask
  bool thresholds_left_out = false;          // all of them: the program is larger than max_threshold_work
  std::vector<Prediction> ops = {};
  Prediction total = {};  // the sum over the operations, each one stored; its limiter has the largest sum
  // From which size on every contraction is compute-bound, each for itself; of programs with several.
  std::vector<Threshold> products = {};
  std::optional<Network> network = {};    // where anything is sent
  std::vector<SmallMessages> small = {};  // of each kind of collective over each mesh axes: tree or ring
  std::vector<Overlap> overlaps = {};     // of products and collectives beside them, where sizes are known
  std::vector<MaskCount> masks = {};      // of which something is counted
  std::vector<std::string> remarks = {};  // of the program: the order that a chain of products takes
  std::optional<Memory> memory = {};      // what the program holds at once; none: bare numbers
  std::optional<Split> split = {};        // the counts and times are then those of one chip
  // The same with every undeclared intermediate kept inside (in f32, wherever that is) and never stored. None: there is
  // no such intermediate.
  std::optional<Prediction> fused = {};
};

// The sum over the statements of their dimensions squared, up to which thresholds are derived: each dimension of a
// statement has a threshold, as long as the statement has dimensions, and an answer takes at most a second.
inline constexpr std::size_t max_threshold_work = 1 << 16;

enum class Thresholds { solved, left_out };  // left out: where numbers alone are wanted, at a fraction of the cost

// Errors: the machine lacks the dtype of a contraction or its bandwidth; a count leaves 10^38.
// With a `cut`: one chip's part, sent over the machine's first link as network.h says; errors also: no such dimension,
// a machine without a link.
Result<Explanation> explain(const Program& program, const Machine& machine, const Bindings& given,
                            const std::optional<Split>& cut = {}, Thresholds thresholds = Thresholds::solved);
// The same with operations that share a kernel as one: its math one after the other, and what only it sees moved never.
// `groups`: statements of each kernel, in order; `stored`: tensors that are wanted in memory whoever reads them.
// Errors: a count leaves 10^38.
Result<Explanation> grouped(const Program& program, const Explanation& explanation,
                            const std::vector<std::vector<int>>& groups, const std::vector<int>& stored = {});
// What such a program holds; `given`: the sizes that it was explained with.
Memory memory_of(const Program& program, const Explanation& explanation, const Bindings& given, const Groups& groups);
// The bare numbers: `ridge explain --flops 1e12 --bytes 1e9`. dtype: whose peak.
Result<Explanation> explain(Flops flops, Bytes bytes, const Machine& machine, DType dtype);

}  // namespace ridge

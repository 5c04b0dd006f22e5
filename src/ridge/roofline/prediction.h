// Time bounds of each operation on a machine, and the sizes from which another roof is the limit.
//   time_lower = max(T_math, T_memory, T_network, a launch), time_upper = the sum of the first three; ridge = peak /
//   bandwidth.
// What the machine's file lacks is left out and listed in `missing`; the times are then bounds without it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/quantity.h"
#include "ridge/machine/machine.h"
#include "ridge/roofline/masks.h"
#include "ridge/roofline/memory.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/results.h"
#include "ridge/roofline/sending/overlap.h"
#include "ridge/roofline/sending/small_messages.h"
#include "ridge/roofline/split.h"
#include "ridge/roofline/work.h"

namespace ridge {

// Conversion of FLOPs of another unit: one FLOP at `peak` takes as long as `weight` FLOPs at the peak in r.
struct FlopWeight {
  Peak peak;
  double weight = 1;
};

struct Prediction {
  Work work;
  std::int64_t calls = 1;                       // Kernels whose work and times this is the sum of
  std::optional<Count> flops = {}, bytes = {};  // nullopt if a dimension has no value
  std::optional<double> intensity = {};         // FLOP/B
  std::optional<double> ridge = {};             // FLOP/B; nullopt if the machine lacks the peak
  std::optional<Peak> peak = {};                // Peak rate of the machine for this operation
  // FLOPs at the peak that take as long as the work: more than `work.flops` where functions take longer than they count
  Polynomial math_load = {};
  std::optional<double> bandwidth = {};   // B/s
  std::optional<double> link_rate = {};   // B/s of the links used, one way; nullopt if nothing is sent
  std::optional<double> bytes_sent = {};  // B
  std::optional<double> time_math_s = {}, time_memory_s = {}, time_network_s = {}, time_lower_s = {}, time_upper_s = {};
  double launch_s = 0;  // Seconds of the kernels' launches; 0 if not on record
  std::optional<Limiter> limiter = {};
  std::optional<Limiter> runner_up = {};
  std::string intensity_formula = {};
  std::string missing = {};  // What the machine lacks, so the times leave it out: "vector f32 peak of tpu_v5e"
  // Thresholds of the total compare sums of times, with FLOPs converted to the first operation's peak, which is in r.
  // Those of a fused program treat each unit separately, because units compute concurrently. Sums with more than 64
  // terms have none.
  std::vector<Threshold> thresholds = {};
  std::vector<FlopWeight> flop_weights = {};
};

// A mask and the number of pairs that it leaves: S*S/2 + S/2 of S*T. Equal to `all` for windows that need no symbol.
struct MaskCount {
  IndexMask mask;
  Polynomial unmasked, all;
  std::optional<std::int64_t> unmasked_count = {}, all_count = {};  // nullopt if a dimension has no value
  std::optional<std::int64_t> on_all_devices = {};  // Sum over the devices, if the mask's dimensions are split
  bool is_irregular = false;                        // True if counting takes too many steps, so all are counted
};

struct Explanation {
  std::string program_text;
  Machine machine;
  std::vector<std::string> dim_names = {};   // All dimensions in the program's order, which formulas follow
  Bindings dims = {};                        // Values of dimensions and sizes of mesh axes
  std::vector<std::string> mesh_names = {};  // Mesh axes; if there are any, everything is counted for one device
  std::vector<std::string> derived = {};     // Sizes that are derived from a threshold's dimension: "F = 4*D"
  // Dimensions of an operation that have no threshold: unknown sizes decide, or a mask ties them to others
  std::vector<std::string> unsolved = {};
  bool thresholds_skipped = false;  // True if the program exceeds `max_threshold_work`
  std::vector<Prediction> ops = {};
  // Sum over the operations with every result stored; its limiter is the roof with the largest sum
  Prediction total = {};
  // Sizes from which every contraction is compute-bound by itself; only for several contractions.
  std::vector<Threshold> product_thresholds = {};
  std::optional<Network> network = {};             // nullopt if nothing is sent
  std::vector<SmallMessages> small_messages = {};  // Tree or ring, one entry per kind of collective and mesh axes
  std::vector<Overlap> overlaps = {};              // Products that overlap with collectives, if sizes are known
  std::vector<MaskCount> masks = {};               // Masks with counted work
  std::vector<std::string> not_counted = {};       // Sentences about conditions on indices that exclude no work
  std::vector<std::string> remarks = {};           // Notes on the program: the order of a chain of products
  std::optional<MemoryUse> memory = {};            // Memory use; nullopt for bare numbers
  std::optional<DimensionSplit> split = {};        // If set, counts and times are those of one chip
  // Prediction with all statements in one kernel: undeclared intermediates are kept inside (in f32) and never stored,
  // and no result is read again. nullopt if no statement reads a result.
  std::optional<Prediction> fused = {};
};

// Returns the FLOPs at the vector peak that take as long as the work, with every function at the machine's cost; in
// f64, whose costs are not on record, with every call at the FLOP that it counts as.
Polynomial compute_math_load(const Work& work, const Machine& machine);

// Limit on the sum over statements of (number of dimensions)^2 up to which thresholds are derived. Every dimension of a
// statement has a threshold whose formula grows with the statement; with this limit an answer takes at most a second.
inline constexpr std::size_t max_threshold_work = 1 << 16;

enum class Thresholds { solved, skipped };  // skipped: only numbers are needed, at a fraction of the cost

// Predicts a program. Errors: the machine lacks the dtype of a contraction or its bandwidth; a count exceeds 10^38.
// With a `split`, predicts one chip's part, which sends over the machine's first link (network.h). Additional errors:
// no such dimension, a machine without a link.
Result<Explanation> explain(const Program& program, const Machine& machine, const Bindings& given,
                            const std::optional<DimensionSplit>& split = {},
                            Thresholds thresholds = Thresholds::solved);
// Predicts each group of statements as one kernel: its math runs one after another, and results that only it reads are
// never moved. `groups` lists the statements of each kernel in order, `stored` the tensors that must be stored in any
// case. Errors: a count exceeds 10^38.
Result<Explanation> predict_groups(const Program& program, const Explanation& explanation,
                                   const std::vector<std::vector<int>>& groups, const std::vector<int>& stored = {});
// Analyzes the memory use of such a program, or of several layers like it; `given` holds the sizes that it was
// explained with.
MemoryUse analyze_memory(const Program& program, const Explanation& explanation, const Bindings& given,
                         const KernelGroups& groups, std::int64_t layers = 1);
// Predicts bare numbers, `ridge explain --flops 1e12 --bytes 1e9`, at the peak of `dtype`.
Result<Explanation> explain(Flops flops, Bytes bytes, const Machine& machine, DType dtype);

}  // namespace ridge

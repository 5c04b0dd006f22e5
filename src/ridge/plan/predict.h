// Predicts which kernels run a program, their times, and the candidates that were not chosen. For a Hopper GPU the
// times come from each kernel's model (ops/*/model.h); no GPU is needed. For this CPU the roofline gives bounds with
// perfect overlap and without overlap; for pointwise chains the cost of the functions counts, too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/ops/model.h"
#include "ridge/plan/fuse.h"
#include "ridge/plan/kernel_list.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

enum class KernelLibrary { ridge, cublaslt };
inline std::string_view name(KernelLibrary library) { return library == KernelLibrary::ridge ? "ridge" : "cublaslt"; }

struct Interval {
  double low = 0, expected = 0, high = 0;  // seconds; on a device 90 % of measurements were within
};

using ops::Candidate, ops::PlanProperties, ops::TilePlan;

struct Overhead {
  std::string cause;   // such as "last wave"; the last cause is "unknown"
  double seconds = 0;  // negative if the kernel is faster than the known causes predict
};

// Prediction for one fused group, which runs as one kernel or a few.
struct GroupPrediction {
  Interval predicted_s = {};
  // False for plain loops over single elements (convolutions), whose time is not predicted: `predicted_s` then holds
  // their bound, which they exceed by far.
  bool has_model = true;
  TilePlan plan = {};
  // Bytes that the kernels request from the L2 (without reuse: memory), and bytes that miss the L2 or a CPU's caches.
  std::int64_t traffic_bytes = 0, memory_bytes = 0;
  std::vector<Candidate> candidates = {};  // alternatives, best first
  std::vector<std::string> copies = {};    // operands that are reordered or converted first; the time includes it
  std::optional<PlanProperties> properties = {};  // properties of a product that explain its time
  std::vector<std::string> operands = {};         // names of operands 0 and 1 of `properties`
  std::vector<double> cpu_formula_inputs = {};    // inputs of ops::cpu_formula(), on this CPU
  // If requested: the roofline bound and the overhead of each cause, which add up to the predicted time.
  double roofline_s = 0;
  std::vector<Overhead> overheads = {};
};

struct PlanRequest {
  KernelLibrary library = KernelLibrary::ridge;
  bool fuse = true;             // false gives each statement its own kernel
  bool with_overheads = false;  // true to fill GroupPrediction::overheads
  bool count_bytes =
      true;  // false to skip the bytes of device kernels, whose counting dominates the time of a prediction
};
struct PlannedProgram {
  FusionPlan fusion;
  std::vector<GroupPrediction> kernels;  // one for each of FusionPlan::groups
  std::vector<int> results;              // result tensor of each statement
  Interval predicted_s;                  // sum over the kernels, with `switch_s` for each
  double switch_s = 0;    // time that a kernel takes in addition after another one on a device; 0 if there is only one
  std::string remark;     // caveat about the machine's parameters, or empty
  bool has_model = true;  // false if a kernel has none
  Prediction bound = {};  // bound of these kernels, one after another

  // Returns the predicted time of a kernel after another one.
  Interval time_in_program(const GroupPrediction& kernel) const {
    const Interval& alone = kernel.predicted_s;
    return {alone.low + switch_s, alone.expected + switch_s, alone.high + switch_s};
  }
};

// Returns the prediction. `explanation` must belong to `program`. Errors: a machine that is neither a Hopper nor this
// CPU, nor, for kernels of cublaslt, a GPU of NVIDIA's; a dimension without a value, a dtype that no kernel takes.
Result<PlannedProgram> predict_program(const Program& program, const Explanation& explanation,
                                       const PlanRequest& request = {});

}  // namespace ridge

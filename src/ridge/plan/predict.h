// What would run, how long it would take, and what it was chosen over. On a Hopper device by what each kernel answers
// (ops/*/model.h), without a device. On this CPU from the roofs, between them overlapping perfectly and not at all, and
// a pointwise chain from what its functions take as well.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/ops/model.h"
#include "ridge/plan/fuse.h"
#include "ridge/plan/menu_list.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

enum class Library { ridge, cublaslt };
std::string_view name(Library library);

struct Interval {
  double low = 0, expected = 0, high = 0;  // s; on a device nine of ten measured times lay between low and high
};

using ops::Candidate, ops::PlanFacts, ops::TilePlan;

struct Lost {
  std::string cause;   // "last wave"; the last one is "unknown"
  double seconds = 0;  // below 0: faster than the others say
};

struct OpPlan {  // of a kernel, or of the few that a statement takes
  Interval predicted_s = {};
  TilePlan plan = {};
  // Bytes that the plan's kernels ask of the L2, or of memory where there is no reuse; and what remains for memory
  // behind the L2, or behind a CPU's caches.
  std::int64_t traffic_bytes = 0, memory_bytes = 0;
  std::vector<Candidate> candidates = {};  // the next best, best first
  std::vector<std::string> copies = {};    // operands reordered or converted first, included in the time
  std::optional<PlanFacts> facts = {};     // of a product: why it takes what it takes
  std::vector<std::string> operands = {};  // what PlanFacts calls 0 and 1
  std::vector<double> cpu_sizes = {};      // on this CPU: by what its time is predicted (ops::cpu_form())
  // Where it was asked for: the least that the roofs allow, and what is lost to each cause; together they are what is
  // predicted.
  double roof_s = 0;
  std::vector<Lost> lost = {};
};

struct PlanRequest {
  Library library = Library::ridge;
  bool fuse = true;   // false: one kernel a statement
  bool why = false;   // with OpPlan::lost
  bool bytes = true;  // false: without those of a device's kernels, which take longer to count than all the rest
};
struct PlannedProgram {
  Fusion fusion;
  std::vector<OpPlan> kernels;  // of Fusion::groups
  std::vector<int> results;     // of each statement: the tensor that it makes
  Interval predicted_s;         // the sum over them
  std::string remark;           // what a reader must know of the machine's numbers; empty: nothing
};

// `explanation` is of the same program. Errors: a machine that is neither a Hopper nor this CPU, a dimension without a
// value, a dtype that no kernel takes.
Result<PlannedProgram> predict(const Program& program, const Explanation& explanation, const PlanRequest& request = {});

}  // namespace ridge

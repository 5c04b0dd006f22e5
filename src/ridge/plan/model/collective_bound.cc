#include "ridge/plan/model/collective_bound.h"

#include "ridge/program/load.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

Result<CollectiveBound> predict_collective(const std::string& program, const Machine& machine) {
  RIDGE_TRY(loaded, load_program(program, DType::bf16));
  auto explained = explain(loaded.program, machine, {}, {}, Thresholds::skipped);
  if (!explained) return absent_error(explained.error().message);
  return CollectiveBound{explained->total.time_network_s.value_or(0), explained->total.bytes_sent.value_or(0)};
}

Result<CollectiveBound> find_collective_bound(const std::string& program, const Machine& machine,
                                              std::map<std::string, CollectiveBound>& known) {
  if (const auto found = known.find(program); found != known.end()) return found->second;
  RIDGE_TRY(bound, predict_collective(program, machine));
  known.emplace(program, bound);
  return bound;
}

}  // namespace ridge

#include "ridge/plan/model/pipeline_schedule.h"

#include <algorithm>

namespace ridge {
namespace {

// Arrivals of micro-batches that one stage sends to another, in their order.
struct Transfers {
  std::vector<double> arrivals = {};

  void send(double ready_s, double seconds) {
    const double link_free_s = arrivals.empty() ? 0 : arrivals.back();
    arrivals.push_back(std::max(ready_s, link_free_s) + seconds);
  }
};

// A stage that works off its passes: first `warm_up` forward passes, then one forward and one backward pass at a time,
// then the other backward passes.
struct StageState {
  std::int64_t warm_up = 0, forward = 0, backward = 0;  // The last two count finished passes
  double end_s = 0, exchange_end_s = 0;
  Transfers inputs = {}, gradients = {};  // Arrivals from the preceding and the next stage

  bool runs_forward_next(std::int64_t micro_batches) const {
    return forward < micro_batches && forward - backward <= warm_up;
  }
};

// Runs the stage's passes whose operands have arrived. Returns true if there was one.
bool advance_stage(std::span<const PipelineStage> stages, std::int64_t micro_batches, std::size_t index,
                   std::vector<StageState>& states) {
  const PipelineStage& stage = stages[index];
  StageState& state = states[index];
  const bool is_first = index == 0, is_last = index + 1 == stages.size();
  bool has_advanced = false;
  while (state.backward < micro_batches) {
    const bool is_forward = state.runs_forward_next(micro_batches);
    const std::int64_t micro_batch = is_forward ? state.forward : state.backward;
    const std::vector<double>& arrivals = (is_forward ? state.inputs : state.gradients).arrivals;
    const bool is_sent = is_forward ? !is_first : !is_last;
    if (is_sent && micro_batch >= std::ssize(arrivals)) break;
    const double arrival_s = is_sent ? arrivals[static_cast<std::size_t>(micro_batch)] : 0;
    const double start_s = std::max(state.end_s, arrival_s);
    state.end_s = start_s + (is_forward ? stage.forward_s : stage.backward_s);
    if (is_forward && (stage.gathers_each || micro_batch == 0)) {
      state.exchange_end_s += stage.gather_s;
      state.end_s = std::max(state.end_s, state.exchange_end_s);
    }
    // Other stages do not wait for the sums of gradients.
    if (!is_forward && (stage.reduces_each || micro_batch == micro_batches - 1))
      state.exchange_end_s = std::max(state.exchange_end_s, start_s + stage.reduce_after_s) + stage.reduce_s;
    ++(is_forward ? state.forward : state.backward);
    if (is_forward && !is_last) states[index + 1].inputs.send(state.end_s, stage.send_s);
    if (!is_forward && !is_first) states[index - 1].gradients.send(state.end_s, stages[index - 1].send_s);
    has_advanced = true;
  }
  return has_advanced;
}

}  // namespace

std::vector<double> schedule_pipeline(std::span<const PipelineStage> stages, std::int64_t micro_batches) {
  const std::int64_t count = std::ssize(stages);
  std::vector<StageState> states(stages.size());
  for (std::int64_t i = 0; i < count; ++i) states[static_cast<std::size_t>(i)].warm_up = count - 1 - i;
  for (bool has_advanced = true; has_advanced;) {
    has_advanced = false;
    for (std::size_t i = 0; i < stages.size(); ++i)
      has_advanced = advance_stage(stages, micro_batches, i, states) || has_advanced;
    for (std::size_t i = stages.size(); i-- > 0;)
      has_advanced = advance_stage(stages, micro_batches, i, states) || has_advanced;
  }
  std::vector<double> out;
  for (const StageState& state : states) out.push_back(std::max(state.end_s, state.exchange_end_s));
  return out;
}

std::int64_t count_kept_micro_batches(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches) {
  return std::min(stages - stage, micro_batches);
}

}  // namespace ridge

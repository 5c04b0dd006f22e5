// Search among the layouts of a language model on a number of chips: which numbers of tensor, pipeline, data and expert
// ranks, and which batch, give the most tokens per second. 4 chips are --tp 4, --tp 2 --pp 2, --tp 2 --dp 2, …
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/model/count.h"
#include "ridge/plan/model/machine.h"

namespace ridge {

// Layouts that a search keeps: all, the best of each number of chips, or the Pareto front over layouts and batches of
// 1, 2, 4, … sequences per data rank.
enum class LayoutSelection { all, best_of_each_count, pareto_front };

struct LayoutRequest {
  model::CountOptions counts = {};  // Must have a context
  ModelPhase phase = ModelPhase::decode;
  std::vector<std::int64_t> chips = {};
  bool is_chip_range = false;       // If set, counts that neither are a power of two nor divide the heads are skipped
  std::optional<double> rate = {};  // Tokens per second that each sequence must get; chooses the largest batch
  LayoutSelection selection = LayoutSelection::all;
};

// Bounds of one layout with one batch.
struct LayoutTimes {
  std::string machine;
  model::ChipLayout layout = {};
  std::optional<std::int64_t> hosts = {};
  ModelPhase phase = ModelPhase::decode;
  std::int64_t context = 1, batch = 1, micro_batches = 1;
  double token_s = 0;  // A token of each sequence
  // Prefill of one sequence of each data rank, or of the batch if prefill is the phase. In decoding, nullopt if the
  // layout does not fit or is too slow, or if the model has no program for prefill.
  std::optional<double> first_token_s = {};
  double network_share = 0;  // Part of the phase's time, but for other micro-batches
  double memory_bytes = 0;   // Memory of one chip of the fullest stage
  bool fits = true;
  bool reaches_rate = true;
  double step_s() const { return phase == ModelPhase::decode ? token_s : *first_token_s; }
  double tokens_per_s_per_chip() const;
};

// The layouts of one machine.
struct LayoutRanking {
  std::string machine;
  std::string unavailable = {};  // Reason why there are no numbers; all others are then empty
  // Layouts that fit and reach the rate: those with the most tokens per second and chip first, in prefill those with
  // the shortest time. Of several numbers of chips or of a Pareto front, in the order of chips or of time.
  std::vector<LayoutTimes> layouts = {};
  std::vector<LayoutTimes> unfit = {};  // Layouts that do not fit with one sequence per data rank, or with the batch
  std::vector<LayoutTimes> slow = {};   // Layouts that fit and do not reach the rate even with one sequence
  std::int64_t without_link = 0;        // Number of layouts that need a link that the machine's file lacks
  std::string link_error = {};          // Reason for the first of these
  std::optional<double> capacity_bytes = {};
  std::vector<std::string> not_on_record = {};
};

// Returns the layouts of this number of chips that divide the model and the batch. Experts are divided among data
// ranks; with tensor ranks, their columns are.
std::vector<model::ChipLayout> list_layouts(const model::ModelConfig& config, const model::StepOptions& options,
                                            std::int64_t chips);

// Returns the numbers of chips to try: of a range, only powers of two and divisors of the heads. Errors: numbers out of
// range, too many of them.
Result<std::vector<std::int64_t>> choose_chip_counts(const model::ModelConfig& config,
                                                     const std::vector<std::int64_t>& chips, bool is_range);

// Predicts all layouts of these chips. Errors: a machine without a peak or bandwidth, options out of range, chips that
// no layout has.
Result<LayoutRanking> rank_layouts(const model::ModelConfig& config, const LayoutRequest& request,
                                   const Machine& machine);

// Returns the layouts that no other one exceeds in tokens per second of a sequence and of a chip; of equal ones, that
// with the fewest chips.
std::vector<LayoutTimes> find_pareto_front(std::vector<LayoutTimes> layouts);

// An answer with its machine.
struct AnsweredMachine {
  const ModelOnMachine& answer;
  const Machine& machine;
};
// Returns the smallest batch from which another of two machines gives more tokens per second and chip in decoding, each
// with its layout, or nullopt if the same one does up to the largest batch that both hold, or if an answer has a
// prediction. The request is that of both answers: with served times or draft tokens, these are compared. Errors: those
// of `LayoutPredictor::predict`, `count_serving_work` and `predict_speculation_step`.
Result<std::optional<BreakEven>> find_break_even(const model::ModelConfig& config, const ModelRequest& request,
                                                 const AnsweredMachine& first, const AnsweredMachine& second);

}  // namespace ridge

// Answers for a language model on a machine: how many chips hold it, and how long prefill and decoding take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ridge/model/count.h"
#include "ridge/plan/model/images.h"
#include "ridge/plan/model/layout_predictor.h"
#include "ridge/plan/model/serving.h"
#include "ridge/plan/model/speculation.h"
#include "ridge/plan/model/step.h"

namespace ridge {

struct ModelRequest {
  model::CountOptions counts = {};  // Must have a context
  ModelPhase phase = ModelPhase::decode;
  std::optional<std::int64_t> tensor_parallel = {};  // Without it, the fewest chips whose memory holds the model
  std::int64_t expert_parallel = 1, data_parallel = 1, pipeline_parallel = 1;
  std::optional<PlanRequest> plan = {};                // If set, kernels are planned and predicted
  std::optional<ServingRequest> serving = {};          // If set, served times are predicted
  std::optional<SpeculationRequest> speculation = {};  // If set, the phase is decoding
  std::optional<ImageRequest> images = {};             // If set, the time of the prompts' images is predicted
  std::optional<double> price = {};                    // Price of a chip for an hour
  // Tokens per second that each sequence must get. Batch and chips are then those with the most tokens per second and
  // chip; `counts.batch` is not used.
  std::optional<double> rate = {};
};

// The batch from which the second of two machines or formats gives more tokens per second and chip, or gives fewer.
struct BreakEven {
  std::string better, other;  // Machines or formats; the first one gives more from `batch` on
  std::int64_t batch = 0;
};

struct ModelOnMachine {
  std::string machine;
  model::CountOptions counts = {};
  ModelPhase phase = ModelPhase::decode;
  model::ChipLayout layout = {};
  std::optional<double> rate = {};              // Requested tokens per second of each sequence
  ModelStep decode = {};                        // A token of each sequence
  ModelStep prefill = {};                       // All tokens of `prefill_sequences` sequences
  std::int64_t prefill_sequences = 1;           // The batch if prefill is the phase, else one of each data rank
  std::vector<std::string> not_on_record = {};  // Times that the machine's file lacks, so that they count as 0
  std::string unavailable = {};                 // Reason why there are no numbers; all others are then empty
  double scale_bytes = 0;                       // Bytes on one chip of scales of quantized weights and of encoders
  std::optional<std::int64_t> hosts = {};       // Hosts that have the chips; nullopt if not on record
  std::optional<double> capacity_bytes = {};    // Capacity of one chip's memory; nullopt if not on record
  std::optional<ServedTimes> served = {};       // Set if requested
  std::optional<Speculation> speculation = {};  // Set if requested
  std::optional<ImageStep> images = {};         // Images of the prompts of `prefill`; set if requested
  std::optional<AudioStep> audio = {};          // Clips of the prompts of `prefill`; set if the model has the encoder
  std::optional<double> price = {};             // Price of a chip for an hour
  std::optional<double> power_w = {};           // Power of a chip; nullopt if not on record
  // Largest batch at this context, and largest context at this batch, that the chips hold in decoding; 0 if not even 1
  std::optional<std::int64_t> max_batch = {}, max_context = {};

  std::optional<BreakEven> break_even = {};  // With the machine of the preceding answer, if there are two

  // Encoders whose time is part of that to the first token.
  std::vector<const ModelStep*> encoders() const {
    std::vector<const ModelStep*> out;
    if (images) out.push_back(&images->step);
    if (audio) out.push_back(&audio->step);
    return out;
  }
  // Time from the start of the encoders, or of prefill without encoders, to the first token.
  double first_token_bound_s() const {
    double out = prefill.bound_s;
    for (const ModelStep* encoder : encoders()) out += encoder->bound_s;
    return out;
  }
  // The same as predicted; nullopt without a prediction
  std::optional<Interval> first_token_predicted_s() const {
    std::optional<Interval> out = prefill.predicted_s;
    for (const ModelStep* encoder : encoders()) {
      if (!out || !encoder->predicted_s) return std::nullopt;
      add_interval(out, *encoder->predicted_s);
    }
    return out;
  }
  const ModelStep& step() const { return phase == ModelPhase::decode ? decode : prefill; }
  double memory_bytes() const {
    const double draft = speculation ? speculation->draft_weight_bytes + speculation->draft_cache_bytes : 0;
    return step().parameter_bytes + scale_bytes + step().cache_bytes + step().activation_bytes + draft;
  }
  // Time of a step of decoding: expected, or the bound without a prediction
  double step_seconds() const { return decode.predicted_s ? decode.predicted_s->expected : decode.bound_s; }
  // Time between two tokens of a sequence: as served or with draft tokens if that is requested, else that of a step
  double token_seconds() const {
    if (served) return served->token_s.expected;
    return speculation ? speculation->step.token_s() : step_seconds();
  }
  bool reaches_rate() const { return !rate || token_seconds() * *rate <= 1; }
  // Output tokens; as served, prefill and waiting take time, too
  double tokens_per_s_per_chip() const {
    const double all = served ? served->tokens_per_s : static_cast<double>(counts.batch) / token_seconds();
    return all / static_cast<double>(layout.chips());
  }
  bool fits() const { return !capacity_bytes || memory_bytes() <= *capacity_bytes; }
  // Tokens that the phase computes
  std::int64_t tokens() const {
    return phase == ModelPhase::decode ? counts.batch : prefill_sequences * *counts.context;
  }
};

// Returns how many hosts have these chips, or nullopt if the machine's file has no chips of a host.
std::optional<std::int64_t> count_hosts(const Machine& machine, std::int64_t chips);
// Returns the times that the machine's file lacks, so that they count as 0 for this number of chips.
std::vector<std::string> list_times_not_on_record(const Machine& machine, std::int64_t chips);

// Returns the answer. `shared` has the counts of other machines' answers with the same config, formats and context.
// Errors: a machine without a peak or bandwidth, chips that do not divide the model, options out of range.
Result<ModelOnMachine> predict_model(const model::ModelConfig& config, const ModelRequest& request,
                                     const Machine& machine, CountedChips* shared = nullptr);

}  // namespace ridge

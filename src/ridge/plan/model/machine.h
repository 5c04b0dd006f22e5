// Answers for a language model on a machine: how many chips hold it, and how long prefill and decoding take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ridge/model/count.h"
#include "ridge/plan/model/serving.h"
#include "ridge/plan/model/step.h"

namespace ridge {

enum class ModelPhase { prefill, decode };
inline std::string_view name(ModelPhase phase) { return phase == ModelPhase::prefill ? "prefill" : "decode"; }

struct ModelRequest {
  model::CountOptions counts = {};  // Must have a context
  ModelPhase phase = ModelPhase::decode;
  std::optional<std::int64_t> tensor_parallel = {};  // Without it, the fewest chips whose memory holds the model
  std::int64_t expert_parallel = 1, data_parallel = 1;
  std::optional<PlanRequest> plan = {};        // If set, kernels are planned and predicted
  std::optional<ServingRequest> serving = {};  // If set, served times are predicted
  // Tokens per second that each sequence must get. Batch and chips are then those with the most tokens per second and
  // chip; `counts.batch` is not used.
  std::optional<double> rate = {};
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
  double scale_bytes = 0;                       // Bytes of scales of quantized weights on one chip
  std::optional<double> capacity_bytes = {};    // Capacity of one chip's memory; nullopt if not on record
  std::optional<ServedTimes> served = {};       // Set if requested
  // Largest batch at this context, and largest context at this batch, that the chips hold in decoding; 0 if not even 1
  std::optional<std::int64_t> max_batch = {}, max_context = {};

  const ModelStep& step() const { return phase == ModelPhase::decode ? decode : prefill; }
  double memory_bytes() const {
    return step().parameter_bytes + scale_bytes + step().cache_bytes + step().activation_bytes;
  }
  // Time of a token: expected, or the bound without a prediction
  double token_seconds() const { return decode.predicted_s ? decode.predicted_s->expected : decode.bound_s; }
  bool reaches_rate() const { return !rate || token_seconds() * *rate <= 1; }
  double tokens_per_s_per_chip() const {
    return static_cast<double>(counts.batch) / token_seconds() / static_cast<double>(layout.chips());
  }
  bool fits() const { return !capacity_bytes || memory_bytes() <= *capacity_bytes; }
  // Tokens that the phase computes
  std::int64_t tokens() const {
    return phase == ModelPhase::decode ? counts.batch : prefill_sequences * *counts.context;
  }
};

// Returns the times of a step on this many chips that the machine's file lacks, so that they count as 0.
std::vector<std::string> list_unrecorded_times(const Machine& machine, std::int64_t chips);

// Returns the answer. Errors: a machine without a peak or bandwidth, chips that do not divide the model, options out of
// range.
Result<ModelOnMachine> predict_model(const model::ModelConfig& config, const ModelRequest& request,
                                     const Machine& machine);

}  // namespace ridge

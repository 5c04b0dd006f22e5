// Time, memory and cost of training a language model: a step (forward pass, backward pass, optimizer), and a run of
// many steps. Each module of a pass has the bound of one kernel. The optimizer is Adam: it reads gradients, two moments
// and, if the weights have 16 bits, their copies in f32 (mixed precision: Micikevicius et al. 2018; memory and
// sharding: Rajbhandari et al. 2020, ZeRO).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/model/count.h"
#include "ridge/plan/model/collective_bound.h"
#include "ridge/plan/model/scaling_laws.h"
#include "ridge/plan/model/training_part.h"

namespace ridge {

struct TrainingRequest {
  model::CountOptions counts = {};                   // Must have a context; `cache_dtype` is not used
  std::optional<std::int64_t> tensor_parallel = {};  // Without it, the fewest chips whose memory holds the step
  std::int64_t expert_parallel = 1, data_parallel = 1, pipeline_parallel = 1;
  // Parts of the batch that follow each other, whose gradients are added; each has its own forward and backward pass.
  // With stages they are the micro-batches. Without a number: one part, or with stages the number with the shortest
  // step among those that fit.
  std::optional<std::int64_t> accumulated = {};
  Recomputation recomputation = Recomputation::attention;
  // Stage of ZeRO. The data ranks divide: 0 nothing, 1 the optimizer's state, 2 also the gradients, 3 also the weights
  std::int64_t zero_stage = 0;
  std::optional<double> tokens = {};       // Tokens of a training run
  std::optional<double> utilisation = {};  // Model FLOPs of the run over those of the chips' peak; else the bound's
  std::optional<double> price = {};        // Price of a chip for an hour
  std::optional<PlanRequest> plan = {};    // If set, kernels are planned and predicted
};

// Bytes of one chip.
struct TrainingMemory {
  double weights = 0, gradients = 0, optimizer = 0;
  double activations = 0;  // Tensors of the forward pass that the backward pass reads, of all layers and micro-batches
  double working = 0;      // The largest part's other tensors; with ZeRO 3, also the gathered weights of one layer
  double total() const { return weights + gradients + optimizer + activations + working; }
};

struct TrainingRun {
  double tokens = 0, flops = 0;             // Model FLOPs of all chips
  double utilisation = 0;                   // Given, or that of the step
  bool is_given = false, is_bound = false;  // False, true: the utilisation is that of the step's bound
  double seconds = 0, chip_hours = 0;
  std::optional<double> cost = {}, energy_j = {};  // Energy at the chips' power, an upper bound
};

// Consecutive layers on chips of their own. Numbers are those of one chip.
struct TrainingStage {
  std::int64_t first_layer = 0, layers = 0;
  std::int64_t kept_micro_batches = 1;  // Micro-batches whose activations it keeps at a time
  TrainingTimes times = {};             // Times of one micro-batch; the optimizer's are those of the step
  double gather_s = 0, reduce_s = 0;    // Collectives between data ranks, during the forward and the backward pass
  double idle_s = 0;                    // Time of a step in which it waits
  TrainingMemory memory = {};
};

// With several stages, times, FLOPs and shares are the average of the stages' chips, and memory that of the fullest.
struct TrainingStep {
  std::string machine;
  std::string unavailable = {};  // Reason why there are no numbers; all others are then empty
  model::CountOptions counts = {};
  model::ChipLayout layout = {};
  bool is_tensor_chosen = false;  // True if the request did not say how many chips divide heads and columns
  Recomputation recomputation = Recomputation::attention;
  std::int64_t zero_stage = 0;
  std::int64_t accumulated = 1;
  std::vector<TrainingModule> modules = {};
  double forward_s = 0, recomputation_s = 0, backward_s = 0, optimizer_s = 0;  // With collectives between tensor ranks
  double gather_s = 0, reduce_s = 0;  // Collectives between data ranks, during the forward and the backward pass
  double idle_s = 0;                  // Time in which a chip waits for other stages
  double step_s = 0;
  std::optional<Interval> predicted_s = {};  // Time of planned kernels, with the network's bound
  std::string remark = {};                   // Reason why there is no prediction, or caveat about it
  std::vector<TrainingStage> stages = {};
  double flops = 0;        // FLOPs of one chip, including what is computed again
  double model_flops = 0;  // FLOPs of one chip: three times the forward pass's products
  double peak = 0;         // FLOP/s of one chip
  TrainingMemory memory = {};
  std::optional<double> capacity_bytes = {}, power_w = {};
  double parameters = 0;  // Active parameters of the model
  std::optional<TrainingRun> run = {};
  std::optional<std::vector<PredictedLoss>> loss = {};  // At the end of the run; nullopt for a model with experts
  std::vector<std::string> not_on_record = {}, notes = {};

  double tokens() const { return static_cast<double>(counts.batch) * static_cast<double>(*counts.context); }
  // Expected time, or the bound without a prediction
  double seconds() const { return predicted_s ? predicted_s->expected : step_s; }
  double utilisation() const { return model_flops / (step_s * peak); }
  double expected_utilisation() const { return model_flops / (seconds() * peak); }
  // Time in which a chip waits for collectives between data ranks
  double exposed_s() const {
    return std::max(0.0, step_s - forward_s - recomputation_s - backward_s - optimizer_s - idle_s);
  }
  double tokens_per_s_per_chip() const { return tokens() / seconds() / static_cast<double>(layout.chips()); }
  bool fits() const { return !capacity_bytes || memory.total() <= *capacity_bytes; }
};

// Predicts steps of one model on one machine. Programs and chips with the same sizes are analyzed once. Config,
// request, machine and programs must outlive the predictor.
class TrainingPredictor {
 public:
  // `programs` are those of the same config and request; predictors for other machines share them.
  TrainingPredictor(const model::ModelConfig& config, const TrainingRequest& request, const Machine& machine,
                    TrainingProgramCache& programs)
      : config_(config), request_(request), machine_(machine), programs_(programs) {}

  // Returns the step on this layout, without a run. `accumulated` is the number of parts of the batch. With
  // `is_planned`, kernels are planned if the request says so. Errors: those of `write_training_programs`, a machine
  // without a peak or a link, stages on more chips than links join.
  Result<TrainingStep> predict(const model::ChipLayout& layout, std::int64_t accumulated, bool is_planned = true);
  // Returns the step with the number of parts that is the fastest of those that fit, or that needs the least memory.
  Result<TrainingStep> predict_fastest(const model::ChipLayout& layout);
  // Returns the memory of a step, without its times. Errors: those of `write_training_programs`.
  Result<TrainingStep> size_step(const model::ChipLayout& layout, std::int64_t accumulated);

 private:
  Status check(const model::ChipLayout& layout, std::int64_t accumulated) const;
  Result<const SizedTrainingPrograms*> find_programs(const model::ChipLayout& layout, std::int64_t micro_batch);
  Result<const std::vector<TrainingPartStep>*> time_parts(const SizedTrainingPrograms& sized, bool is_planned);
  TrainingStep make_step(const SizedTrainingPrograms& sized, const model::ChipLayout& layout,
                         std::int64_t accumulated) const;

  const model::ModelConfig& config_;
  const TrainingRequest& request_;
  const Machine& machine_;
  TrainingProgramCache& programs_;
  std::map<std::pair<const SizedTrainingPrograms*, bool>, std::vector<TrainingPartStep>> parts_;
  std::map<std::string, CollectiveBound> collectives_;
};

// Errors: a batch that ranks or parts do not divide, options out of range, layers with a recurrence, a machine without
// a bandwidth.
Status check_training(const TrainingRequest& request, const Machine& machine);

// Returns the answer. `programs` are those of the same config and request. Errors: those of `write_training_programs`,
// a machine without a peak or bandwidth, a batch that the data ranks do not divide, options out of range.
Result<TrainingStep> predict_training(const model::ModelConfig& config, const TrainingRequest& request,
                                      const Machine& machine, TrainingProgramCache& programs);
inline Result<TrainingStep> predict_training(const model::ModelConfig& config, const TrainingRequest& request,
                                             const Machine& machine) {
  TrainingProgramCache programs;
  return predict_training(config, request, machine, programs);
}

}  // namespace ridge

// Time, memory and cost of training a language model: a step (forward pass, backward pass, optimizer), and a run of
// many steps. Each module of a pass has the bound of one kernel. The optimizer is Adam: it reads gradients, two moments
// and, if the weights have 16 bits, their copies in f32 (mixed precision: Micikevicius et al. 2018; memory and
// sharding: Rajbhandari et al. 2020, ZeRO).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/model/count.h"
#include "ridge/plan/model/scaling_laws.h"
#include "ridge/plan/model/step.h"
#include "ridge/plan/model/training_program.h"

namespace ridge {

struct TrainingRequest {
  model::CountOptions counts = {};                   // Must have a context; `cache_dtype` is not used
  std::optional<std::int64_t> tensor_parallel = {};  // Without it, the fewest chips whose memory holds the step
  std::int64_t expert_parallel = 1, data_parallel = 1;
  // Parts of the batch that follow each other, whose gradients are added; each has its own forward and backward pass
  std::int64_t accumulated = 1;
  Recomputation recomputation = Recomputation::attention;
  // Stage of ZeRO. The data ranks divide: 0 nothing, 1 the optimizer's state, 2 also the gradients, 3 also the weights
  std::int64_t zero_stage = 0;
  std::optional<double> tokens = {};       // Tokens of a training run
  std::optional<double> utilisation = {};  // Model FLOPs of the run over those of the chips' peak; else the bound's
  std::optional<double> price = {};        // Price of a chip for an hour
};

enum class TrainingPass { forward, recomputation, backward, optimizer };
std::string_view name(TrainingPass pass);

struct TrainingModule {
  TrainingPass pass = TrainingPass::forward;
  ModuleStep step = {};                // Numbers of one layer and one chip
  bool is_between_data_ranks = false;  // True for a collective that overlaps with the pass
  std::int64_t times = 1;              // Number of times in a step that all layers do it
  double count() const { return static_cast<double>(times) * static_cast<double>(step.layers); }
};

// Bytes of one chip.
struct TrainingMemory {
  double weights = 0, gradients = 0, optimizer = 0;
  double activations = 0;  // Tensors of the forward pass that the backward pass reads, of all layers
  double working = 0;      // The largest part's other tensors; with ZeRO 3, also the gathered weights of one layer
  double total() const { return weights + gradients + optimizer + activations + working; }
};

struct TrainingRun {
  double tokens = 0, flops = 0;  // Model FLOPs of all chips
  double utilisation = 0;        // Given, or that of the bound
  bool is_bound = false;         // True if no utilisation was given
  double seconds = 0, chip_hours = 0;
  std::optional<double> cost = {}, energy_j = {};  // Energy at the chips' power, an upper bound
};

struct TrainingStep {
  std::string machine;
  std::string unavailable = {};  // Reason why there are no numbers; all others are then empty
  model::CountOptions counts = {};
  model::ChipLayout layout = {};
  Recomputation recomputation = Recomputation::attention;
  std::int64_t zero_stage = 0;
  std::int64_t accumulated = 1;
  std::vector<TrainingModule> modules = {};
  double forward_s = 0, recomputation_s = 0, backward_s = 0, optimizer_s = 0;  // With collectives between tensor ranks
  double gather_s = 0, reduce_s = 0;  // Collectives between data ranks, during the forward and the backward pass
  double step_s = 0;
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
  double utilisation() const { return model_flops / (step_s * peak); }
  double exposed_s() const { return step_s - forward_s - recomputation_s - backward_s - optimizer_s; }
  bool fits() const { return !capacity_bytes || memory.total() <= *capacity_bytes; }
};

// Returns the answer. Errors: those of `write_training_programs`, a machine without a peak or bandwidth, a batch that
// the data ranks do not divide, options out of range.
Result<TrainingStep> predict_training(const model::ModelConfig& config, const TrainingRequest& request,
                                      const Machine& machine);

}  // namespace ridge

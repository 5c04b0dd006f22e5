// Time and memory of the parts of a model in a training step: the embedding, one layer of each kind, the head. A part
// is analyzed for one micro-batch on one chip.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/plan/model/step.h"
#include "ridge/plan/model/training_program.h"

namespace ridge {

enum class TrainingPass { forward, recomputation, backward, optimizer };
inline constexpr std::size_t training_passes = 4;
std::string_view name(TrainingPass pass);

struct TrainingModule {
  TrainingPass pass = TrainingPass::forward;
  ModuleStep step = {};        // Numbers of one layer and one chip
  bool is_overlapped = false;  // True for a collective or send that overlaps with the pass
  std::int64_t times = 1;      // Number of times in a step that all layers do it
  std::int64_t stages = 1;     // Number of stages among which the layers are divided
  // Returns how often the average chip does it in a step.
  double count() const {
    return static_cast<double>(times) * static_cast<double>(step.layers) / static_cast<double>(stages);
  }
};

// Seconds by TrainingPass.
using PassSeconds = std::array<double, training_passes>;
// Bound and planned times.
struct TrainingTimes {
  PassSeconds bound_s = {};
  std::optional<std::array<PassSeconds, 3>> predicted_s = {};  // Low, expected, high
  void add(const TrainingTimes& other, double times);
};

// Memory of one layer for one micro-batch on one chip.
struct TrainingPartMemory {
  double kept_bytes = 0;        // Tensors of the forward pass that the backward pass reads
  double working_bytes = 0;     // Other tensors that live at the peak of the passes
  double recomputed_bytes = 0;  // With full recomputation: tensors that the layer keeps between its two last passes
  // Elements of the parameters: those that each data rank has, and those of experts that data ranks divide. Parameters
  // of a head that the embedding has are counted separately.
  double shared_parameters = 0, divided_parameters = 0, embedding_parameters = 0;
};

// Counts of both passes of a part and, for full recomputation, of the forward pass alone.
struct TrainingPartCounts {
  CountedProgram passes = {};
  Program forward = {};
  CountedProgram forward_counts = {};
};

// The programs of one chip, and the memory of each part.
struct SizedTrainingPrograms {
  TrainingPrograms programs = {};
  std::vector<TrainingPartMemory> memory = {};
  Recomputation recomputation = Recomputation::attention;
  // Counts of each part, filled when the first machine's times are computed
  std::shared_ptr<std::vector<TrainingPartCounts>> counts = std::make_shared<std::vector<TrainingPartCounts>>();
};
// Programs of one model and request by tensor ranks, expert ranks and sequences of a micro-batch. They do not depend on
// the machine.
using TrainingProgramCache =
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::shared_ptr<const SizedTrainingPrograms>>;

// Returns the programs with their memory. Errors: those of `write_training_programs`.
Result<SizedTrainingPrograms> size_training_programs(const model::ModelConfig& config,
                                                     const model::StepOptions& options, Recomputation recomputation);

// Times of one layer for one micro-batch.
struct TrainingPartStep {
  std::int64_t layers = 1;  // Number of layers of this kind in the model
  std::vector<TrainingModule> modules = {};
  TrainingTimes times = {};
  std::string remark = {};   // Reason why there is no prediction, or caveat about it
  std::string missing = {};  // Rates that the machine lacks
  double model_flops = 0;    // Three times the products of the forward pass
};

// Returns the parts of these programs. With `plan`, kernels of both passes are planned and predicted; a kernel without
// a model leaves the prediction out. Errors: a machine without a peak, bandwidth or link.
Result<std::vector<TrainingPartStep>> predict_training_parts(const SizedTrainingPrograms& sized, const Machine& machine,
                                                             const std::optional<PlanRequest>& plan);

}  // namespace ridge

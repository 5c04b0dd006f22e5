// Time and memory of a step of a language model on one chip, from the programs of its parts. A step is prefill or
// decoding (model/program.h). Each module of a part, such as attention or experts, has the bound of one kernel: its
// intermediates are not stored. The step's bound is the sum over modules and layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/model/program.h"
#include "ridge/plan/predict.h"

namespace ridge {

// One module of one kind of layer, of the embedding, or of the head. Numbers are those of one layer and one chip.
struct ModuleStep {
  std::string part, module;  // "layer, full", "attention"
  std::int64_t layers = 1;
  double flops = 0, bytes = 0;
  double parameter_bytes = 0,
         cache_bytes = 0;  // Parts of `bytes`: parameters, and keys, values and states that are read
  double bytes_sent = 0;   // By one chip to others
  double bound_s = 0;
  Limiter limiter = Limiter::memory;
  std::optional<Interval> predicted_s = {};  // Time of the planned kernels that do most of their work in the module
};

struct ModelStep {
  std::vector<ModuleStep> modules = {};
  std::int64_t kernels = 0;  // Kernels of all layers: one for each module, or those that are planned
  double flops = 0, bytes = 0, bytes_sent = 0;
  double bound_s = 0, network_s = 0;         // The bound includes the network
  std::optional<Interval> predicted_s = {};  // With the network's bound; nullopt if not requested or without a model
  // Memory of one chip while the step runs. Activations are those of the part that needs the most.
  double parameter_bytes = 0, cache_bytes = 0, activation_bytes = 0;
  std::string missing = {};             // Rates that the machine lacks, so that the times leave them out
  std::string remark = {};              // Caveat about the prediction
  std::vector<std::string> notes = {};  // Sentences about what the programs leave out
};

// Returns the step's time on a machine. With `plan`, kernels are planned and predicted, too; a machine or a kernel
// without a model leaves the prediction out, and `remark` says why. Errors: the machine lacks a peak or its bandwidth.
Result<ModelStep> predict_model_step(const model::ModelPrograms& programs, const Machine& machine,
                                     const std::optional<PlanRequest>& plan = {});

}  // namespace ridge

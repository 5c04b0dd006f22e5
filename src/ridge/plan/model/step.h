// Time and memory of a step of a language model on one chip, from the programs of its parts. A step is prefill or
// decoding (model/program.h). Each module of a part, such as attention or experts, has the bound of one kernel: its
// intermediates are not stored. The step's bound is the sum over modules and layers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/model/program.h"
#include "ridge/plan/predict.h"
#include "ridge/roofline/sizes/counted_program.h"

namespace ridge {

enum class ModelPhase { prefill, decode };
inline std::string_view name(ModelPhase phase) { return phase == ModelPhase::prefill ? "prefill" : "decode"; }

// Adds an interval, times a number, to a sum that may be empty.
inline void add_interval(std::optional<Interval>& sum, const Interval& one, double times = 1) {
  const Interval so_far = sum.value_or(Interval{});
  sum = Interval{so_far.low + times * one.low, so_far.expected + times * one.expected, so_far.high + times * one.high};
}

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

// Time and memory on one chip of the embedding, of one layer of each kind, or of the head.
struct PartStep {
  std::int64_t layers = 1;  // Number of layers of this kind in the model
  std::vector<ModuleStep> modules = {};
  double parameter_bytes = 0, cache_bytes = 0, activation_bytes = 0;
  double embedding_bytes = 0;  // Parameters of the embedding that the head reads, too; not in `parameter_bytes`
  std::optional<Interval> predicted_s = {};  // Nullopt if not requested or without a model
  double bound_s = 0;                        // Bound of one layer, like the other numbers
  std::int64_t kernels = 0;
  std::string missing = {}, remark = {};  // Same meaning as in ModelStep
};

// Bytes of the cache of all layers of one kind.
struct StageCache {
  std::int64_t layer = 0;  // One of these layers
  double bytes = 0;
};

// Consecutive layers on chips of their own. Numbers are those of one chip; the bound is that of one micro-batch.
struct StageStep {
  std::int64_t first_layer = 0, layers = 0;
  double bound_s = 0;
  std::optional<Interval> predicted_s = {};
  double parameter_bytes = 0, scale_bytes = 0, cache_bytes = 0, activation_bytes = 0;
  std::vector<StageCache> caches = {};  // Kinds of layers that have a cache; their sum is `cache_bytes`
  double memory_bytes() const { return parameter_bytes + scale_bytes + cache_bytes + activation_bytes; }
};

struct ModelStep {
  std::vector<ModuleStep> modules = {};
  // With several stages, `modules` and their sums are those of one micro-batch that passes all stages.
  std::vector<StageStep> stages = {};
  std::int64_t micro_batches = 1, micro_batch = 0;  // Number of micro-batches, and sequences of one on a chip
  double slowest_stage_s = 0;                       // Bound of the slowest stage, or of a send if that takes longer
  double others_s = 0;                              // Part of the bound in which only other micro-batches are computed
  std::int64_t kernels = 0;  // Kernels of all layers: one for each module, or those that are planned
  double flops = 0, bytes = 0, bytes_sent = 0;
  double bound_s = 0, network_s = 0;         // The bound includes the network
  std::optional<Interval> predicted_s = {};  // With the network's bound; nullopt if not requested or without a model
  // Memory of one chip of the fullest stage while the step runs. Activations are those of the part that needs the most.
  double parameter_bytes = 0, cache_bytes = 0, activation_bytes = 0;
  double scale_bytes = 0;               // Scales of quantized weights, and encoders; 0 if nothing has counted them
  std::string missing = {};             // Rates that the machine lacks, so that the times leave them out
  std::string remark = {};              // Caveat about the prediction
  std::vector<std::string> notes = {};  // Sentences about what the programs leave out
};

// The program of a part with its counts, which hold on every machine.
struct CountedPart {
  model::PartProgram part;
  Program program;
  CountedProgram counts;
  KernelGroups groups = {};  // Statements of each module
  // By module: bytes of parameters, and of keys, values and states, that it reads
  std::vector<double> parameters_read = {}, cache_read = {};
  PartStep memory = {};  // Bytes of one layer; without modules and times
};
// Counts each part of the programs. Errors: a size without a value.
Result<std::vector<CountedPart>> count_parts(const model::ModelPrograms& programs);

// Returns time and memory of each counted part, in their order. With `plan`, kernels are planned and predicted,
// too; a machine or a kernel without a model leaves the prediction out, and `remark` says why. Errors: the machine
// lacks a peak or its bandwidth.
Result<std::vector<PartStep>> predict_parts(std::span<const CountedPart> parts, const Machine& machine,
                                            const std::optional<PlanRequest>& plan = {});
// Returns the step of all layers on one stage.
ModelStep add_parts(std::span<const PartStep> parts);
// Returns the same of the programs. Errors: those of `predict_parts`.
Result<ModelStep> predict_model_step(const model::ModelPrograms& programs, const Machine& machine,
                                     const std::optional<PlanRequest>& plan = {});

}  // namespace ridge

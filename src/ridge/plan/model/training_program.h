// Programs of a training step of a language model: the forward pass of each part (model/program.h) with its backward
// pass (program/gradient.h), for all tokens of each sequence. Keys and values are inputs of a layer's program, as in
// prefill; their gradients are results, and the gradients of the layer's own keys and values are inputs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/model/program.h"
#include "ridge/program/program.h"
#include "ridge/roofline/groups.h"

namespace ridge {

// Results of the forward pass that the backward pass computes again instead of reading them: none; the scores of
// attention; or all but the input of each layer.
enum class Recomputation { none, attention, full };
inline constexpr std::array recomputations = {Recomputation::none, Recomputation::attention, Recomputation::full};
inline std::string_view name(Recomputation x) {
  if (x == Recomputation::none) return "none";
  return x == Recomputation::attention ? "attention" : "full";
}

// A module of one pass: its statements run as one kernel.
struct TrainingGroup {
  std::string module;
  std::vector<int> statements = {};
};

struct TrainingPart {
  model::PartProgram forward = {};  // The forward pass alone
  std::string text = {};            // Forward and backward pass
  Program program = {};             // The parsed text
  std::vector<TrainingGroup> forward_groups = {}, backward_groups = {};
  std::vector<int> recomputed = {};  // Statements of the forward pass that are also in a group of the backward pass
  std::vector<bool> is_kept = {};    // By tensor: true for what the backward pass reads of the forward pass
  std::vector<bool> is_parameter_gradient = {};        // By tensor
  std::vector<std::string> backward_collectives = {};  // Programs of collectives of tensor and expert parallelism
  bool is_layer() const { return forward.name.starts_with("layer"); }
};

struct TrainingPrograms {
  std::vector<TrainingPart> parts = {};
  std::vector<std::size_t> layer_parts = {};  // Index in `parts` of each layer of the model
  std::vector<std::string> notes = {};
};

// Returns the programs of one chip; `options.new_tokens` and `options.has_all_logits` are not used. Full recomputation
// has the groups of `attention`. Errors: those of `write_programs`, a context of one token, weights of another format
// than f32, bf16 and f16, fewer rows than experts.
Result<TrainingPrograms> write_training_programs(const model::ModelConfig& config, const model::StepOptions& options,
                                                 Recomputation recomputation);
// Returns the forward and backward pass of one layer, or of the whole model. Same errors.
Result<std::string> write_training_layer(const model::ModelConfig& config, const model::StepOptions& options,
                                         std::int64_t layer);
Result<std::string> write_training_model(const model::ModelConfig& config, const model::StepOptions& options);

}  // namespace ridge

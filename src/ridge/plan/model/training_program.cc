#include "ridge/plan/model/training_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/program/backward/gradient.h"
#include "ridge/program/load.h"

namespace ridge {
namespace {

// The gradient of the cross entropy's sum over tokens with respect to the logits.
constexpr std::string_view logit_gradient = "softmax(logits over V) - (index(V) == labels)";

Result<model::StepOptions> make_training_options(const model::StepOptions& options) {
  model::StepOptions out = options;
  out.new_tokens = options.context;
  out.has_all_logits = true;
  out.cache_dtype = options.weight_dtype;
  // Chips that have all tokens have columns of all experts: with many tokens, whole experts are as fast.
  if (out.layout.tensor > 1 && out.layout.tensor % out.layout.expert == 0) out.layout.expert = 1;
  if (options.context < 2)
    return usage_error(
        fmt::format("expected --context of at least 2 tokens with --phase train, found {}", options.context));
  const DType dtype = options.weight_dtype;
  if (dtype != DType::bf16 && dtype != DType::f16 && dtype != DType::f32)
    return usage_error(
        fmt::format("expected --dtype bf16, f16 or f32 with --phase train, found {}", dtype_name(dtype)));
  return out;
}

// Weights are trained before they are quantized.
model::ModelConfig remove_quantization(const model::ModelConfig& config) {
  model::ModelConfig out = config;
  out.quantization = {};
  return out;
}

Result<BackwardPass> write_backward(const Program& forward, bool has_head) {
  if (!has_head) return write_backward_pass(forward);
  RIDGE_TRY(out, write_backward_pass(forward, {{"logits", std::string(logit_gradient)}}));
  out.declarations.insert(out.declarations.begin(), "data labels: int32[B, S]");
  return out;
}

Result<std::string> append_backward(const std::string& forward, bool has_head) {
  RIDGE_TRY(loaded, load_program(forward, DType::bf16));
  RIDGE_TRY(backward, write_backward(loaded.program, has_head));
  return fmt::format("{}# Backward pass\n{}", forward, backward.text());
}

// True for the results with an element for each pair of a token and a key, which attention kernels do not store.
bool is_score(const Tensor& tensor) {
  return has_dim(tensor.axes, "S") && (has_dim(tensor.axes, "T") || has_dim(tensor.axes, "U"));
}

// True for the results with a state for each token, as the scan of Mamba-1 has them. Its kernels do not store them: the
// backward pass computes them again from the scan's inputs (Gu 2023, arXiv 2312.00752, section 3.3.2).
bool is_state_of_tokens(const Tensor& tensor) {
  return has_dim(tensor.axes, "ST") && has_dim(tensor.axes, "IM") && has_dim(tensor.axes, "NM");
}

// Groups the statements of the backward pass by the module of their forward statements.
void add_groups(const BackwardPass& backward, Recomputation recomputation, TrainingPart& part) {
  int statement = 0;
  std::vector<std::size_t> module_of;
  for (const model::ProgramModule& module : part.forward.modules) {
    part.forward_groups.push_back({module.name});
    for (std::size_t i = 0; i < module.results.size(); ++i) {
      part.forward_groups.back().statements.push_back(statement++);
      module_of.push_back(part.forward_groups.size() - 1);
    }
  }
  std::size_t current = part.forward_groups.size();
  for (const GradientStatement& each : backward.statements) {
    const std::size_t module = module_of[static_cast<std::size_t>(each.forward)];
    if (module != current) {
      part.backward_groups.push_back({part.forward_groups[module].module});
      if (recomputation != Recomputation::none)
        for (const int s : part.forward_groups[module].statements)
          if (const Tensor& result = part.program.tensors[part.program.statements[s].result()];
              is_score(result) || is_state_of_tokens(result)) {
            part.backward_groups.back().statements.push_back(s);
            part.recomputed.push_back(s);
          }
    }
    current = module;
    part.backward_groups.back().statements.push_back(statement++);
  }
}

// Marks what the backward pass reads of the forward pass, and the gradients of parameters.
void mark_tensors(const BackwardPass& backward, TrainingPart& part) {
  const Program& program = part.program;
  part.is_kept.assign(program.tensors.size(), false);
  part.is_parameter_gradient.assign(program.tensors.size(), false);
  std::vector<bool> is_made(program.tensors.size(), false);
  for (const TrainingGroup& group : part.backward_groups)
    for (const int s : group.statements) is_made[program.statements[s].result()] = true;
  for (const TrainingGroup& group : part.backward_groups)
    for (const int s : group.statements)
      for (const int operand : statement_operands(program.statements[s])) {
        const Tensor& tensor = program.tensors[operand];
        const bool is_parameter = tensor.declared_use == InputUse::parameter;
        if (!is_made[operand] && !is_parameter && !contains(backward.gradients_given, tensor.name))
          part.is_kept[operand] = true;
      }
  std::vector<std::string> gradients;
  for (const Tensor& tensor : program.tensors)
    if (const auto found = backward.gradients.find(tensor.name);
        found != backward.gradients.end() && tensor.declared_use == InputUse::parameter)
      gradients.push_back(found->second);
  for (std::size_t i = 0; i < program.tensors.size(); ++i)
    part.is_parameter_gradient[i] = contains(gradients, program.tensors[i].name);
}

Result<TrainingPart> make_part(const model::PartProgram& forward, Recomputation recomputation) {
  TrainingPart out{.forward = forward};
  const bool has_head = forward.name == "head";
  RIDGE_TRY(loaded, load_program(forward.text, DType::bf16));
  RIDGE_TRY(backward, write_backward(loaded.program, has_head));
  out.text = fmt::format("{}# Backward pass\n{}", forward.text, backward.text());
  RIDGE_TRY(whole, load_program(out.text, DType::bf16));
  out.program = std::move(whole.program);
  add_groups(backward, recomputation, out);
  mark_tensors(backward, out);
  return out;
}

// Sums over the chips of tensor parallelism: the forward pass adds what each chip has of a layer's two results, the
// backward pass what it has of the gradients of their two inputs. The loss needs no gathered logits.
void set_collectives(const std::vector<std::string>& row_sum, TrainingPart& part) {
  if (part.is_layer()) part.backward_collectives = part.forward.collectives;
  if (part.forward.name != "head") return;
  part.forward.collectives.clear();
  part.backward_collectives = row_sum;
}

}  // namespace

Result<TrainingPrograms> write_training_programs(const model::ModelConfig& config, const model::StepOptions& options,
                                                 Recomputation recomputation) {
  RIDGE_TRY(training, make_training_options(options));
  RIDGE_TRY(programs, model::write_programs(remove_quantization(config), training));
  TrainingPrograms out{.layer_parts = programs.layer_parts, .notes = programs.notes};
  if (config.quantization)
    out.notes.push_back(
        fmt::format("weights are trained in {}; quantization_config is not used", dtype_name(options.weight_dtype)));
  for (const model::PartProgram& part : programs.parts) {
    RIDGE_TRY(made, make_part(part, recomputation));
    set_collectives(programs.parts.front().collectives, made);
    out.parts.push_back(std::move(made));
  }
  return out;
}

Result<std::string> write_training_layer(const model::ModelConfig& config, const model::StepOptions& options,
                                         std::int64_t layer) {
  RIDGE_TRY(training, make_training_options(options));
  RIDGE_TRY(text, model::write_layer_program(remove_quantization(config), training, layer));
  return append_backward(text, false);
}

Result<std::string> write_training_model(const model::ModelConfig& config, const model::StepOptions& options) {
  RIDGE_TRY(training, make_training_options(options));
  RIDGE_TRY(text, model::write_model_program(remove_quantization(config), training));
  return append_backward(text, true);
}

}  // namespace ridge

// Counts, times and programs of language models.
#include <algorithm>

#include "ridge/api/facade.h"

namespace ridge::api {
namespace {

// Calls `predict` with each machine. Of several machines, one without numbers says so in its answer, unless all are.
template <class Answer, class Predict>
Result<std::vector<Answer>> predict_on_each(const std::vector<MachineChoice>& machines, Predict&& predict) {
  std::vector<Answer> out;
  for (const MachineChoice& choice : machines) {
    RIDGE_TRY(machine, machine_of(choice));
    Result<Answer> answer = predict(machine);
    if (!answer && (machines.size() == 1 || answer.error().kind == ErrorKind::usage)) return answer.error();
    if (!answer) {
      out.emplace_back();
      out.back().machine = machine.name;
      out.back().unavailable = answer.error().message;
    }
    if (answer) out.push_back(*std::move(answer));
  }
  if (std::all_of(out.begin(), out.end(), [](const Answer& x) { return !x.unavailable.empty(); }))
    return absent_error(out.front().unavailable, "none of the machines has numbers");
  return out;
}

}  // namespace

Result<model::ModelCount> count_model(const std::string& config, const model::CountOptions& options) {
  RIDGE_TRY(found, model::find_config(config));
  return model::count_model(found, options);
}

Result<std::vector<ModelOnMachine>> predict_model(const std::string& config, const ModelRequest& request,
                                                  const std::vector<MachineChoice>& machines) {
  RIDGE_TRY(found, model::find_config(config));
  RIDGE_TRY(out, predict_on_each<ModelOnMachine>(
                     machines, [&](const Machine& machine) { return ridge::predict_model(found, request, machine); }));
  const auto lacks_numbers = [](const ModelOnMachine& x) { return !x.unavailable.empty(); };
  const bool is_decoding = request.phase == ModelPhase::decode && !request.rate;
  if (out.size() != 2 || !is_decoding || std::any_of(out.begin(), out.end(), lacks_numbers)) return out;
  RIDGE_TRY(first, machine_of(machines[0]));
  RIDGE_TRY(second, machine_of(machines[1]));
  RIDGE_TRY(break_even, find_break_even(found, {out[0], first}, {out[1], second}));
  out[1].break_even = break_even;
  return out;
}

Result<std::vector<LayoutRanking>> rank_layouts(const std::string& config, const LayoutRequest& request,
                                                const std::vector<MachineChoice>& machines) {
  RIDGE_TRY(found, model::find_config(config));
  return predict_on_each<LayoutRanking>(
      machines, [&](const Machine& machine) { return ridge::rank_layouts(found, request, machine); });
}

Result<std::string> write_model_program(const std::string& config, const model::StepOptions& options,
                                        const std::optional<std::int64_t>& layer) {
  RIDGE_TRY(found, model::find_config(config));
  if (layer) return model::write_layer_program(found, options, *layer);
  return model::write_model_program(found, options);
}

Result<model::ModelConfig> find_model_config(const std::string& config) { return model::find_config(config); }

Result<std::vector<TrainingStep>> predict_training(const std::string& config, const TrainingRequest& request,
                                                   const std::vector<MachineChoice>& machines) {
  RIDGE_TRY(found, model::find_config(config));
  return predict_on_each<TrainingStep>(
      machines, [&](const Machine& machine) { return ridge::predict_training(found, request, machine); });
}

Result<std::string> write_training_program(const std::string& config, const model::StepOptions& options,
                                           const std::optional<std::int64_t>& layer) {
  RIDGE_TRY(found, model::find_config(config));
  if (layer) return write_training_layer(found, options, *layer);
  return write_training_model(found, options);
}

}  // namespace ridge::api

// Counts, times and programs of language models.
#include "ridge/api/facade.h"

namespace ridge::api {

Result<model::ModelCount> count_model(const std::string& config, const model::CountOptions& options) {
  RIDGE_TRY(found, model::find_config(config));
  return model::count_model(found, options);
}

Result<std::vector<ModelOnMachine>> predict_model(const std::string& config, const ModelRequest& request,
                                                  const std::vector<MachineChoice>& machines) {
  RIDGE_TRY(found, model::find_config(config));
  std::vector<ModelOnMachine> out;
  for (const MachineChoice& choice : machines) {
    RIDGE_TRY(machine, machine_of(choice));
    RIDGE_TRY(answer, ridge::predict_model(found, request, machine));
    out.push_back(std::move(answer));
  }
  return out;
}

Result<std::string> write_model_program(const std::string& config, const model::StepOptions& options,
                                        const std::optional<std::int64_t>& layer) {
  RIDGE_TRY(found, model::find_config(config));
  if (layer) return model::write_layer_program(found, options, *layer);
  return model::write_model_program(found, options);
}

}  // namespace ridge::api

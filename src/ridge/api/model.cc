// Counts, times and programs of language models.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/api/facade.h"
#include "ridge/base/file.h"
#include "ridge/machine/system.h"

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
    auto answer = ridge::predict_model(found, request, machine);
    if (!answer && (machines.size() == 1 || answer.error().kind == ErrorKind::usage)) return answer.error();
    if (!answer) out.push_back({.machine = machine.name, .unavailable = answer.error().message});
    if (answer) out.push_back(*std::move(answer));
  }
  if (std::all_of(out.begin(), out.end(), [](const ModelOnMachine& x) { return !x.unavailable.empty(); }))
    return absent_error(out.front().unavailable, "none of the machines has numbers");
  return out;
}

Result<ModelPage> make_page(const std::string& config, const ModelRequest& request,
                            const std::vector<MachineChoice>& machines, std::vector<ModelOnMachine> answers) {
  RIDGE_TRY(found, model::find_config(config));
  RIDGE_TRY(count, model::count_model(found, request.counts));
  RIDGE_TRY(formulas, make_model_formulas(found, request.counts));
  const std::int64_t context = *request.counts.context;
  if (context < formulas.min_context || context > formulas.max_context)
    return usage_error(fmt::format("expected --context from {} to {} with --html, found {}", formulas.min_context,
                                   formulas.max_context, context),
                       "leave out --html for other contexts");
  ModelPage out{std::move(count), request, std::move(answers), std::move(formulas), {}};
  const auto add = [&](Machine machine) {
    const auto has_name = [&](const Machine& other) { return other.name == machine.name; };
    if (std::none_of(out.machines.begin(), out.machines.end(), has_name)) out.machines.push_back(std::move(machine));
  };
  for (const MachineChoice& choice : machines) {
    RIDGE_TRY(machine, machine_of(choice));
    add(std::move(machine));
  }
  for (const std::string& name : catalog_names())
    if (auto machine = find_machine(name); machine && machine->memory_bandwidth()) add(*std::move(machine));
  return out;
}

Result<ServingFit> fit_serving(const std::string& points, const std::string& out) {
  RIDGE_TRY(text, read_file(points));
  RIDGE_TRY(fit, fit_serving_file(text, points));
  if (!out.empty()) RIDGE_TRY_STATUS(write_file(out, format_serving_constants(fit, today_utc())));
  return fit;
}

Result<std::string> write_model_program(const std::string& config, const model::StepOptions& options,
                                        const std::optional<std::int64_t>& layer) {
  RIDGE_TRY(found, model::find_config(config));
  if (layer) return model::write_layer_program(found, options, *layer);
  return model::write_model_program(found, options);
}

}  // namespace ridge::api

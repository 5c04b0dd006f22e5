// Counts, times and programs of language models.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ridge/api/facade.h"
#include "ridge/base/file.h"
#include "ridge/machine/system.h"

namespace ridge::api {
namespace {

// Calls `predict` with each machine and each of `variants`. Of several answers, one without numbers says so, unless all
// are.
template <class Answer, class Variant, class Predict>
Result<std::vector<Answer>> predict_on_each(const std::vector<MachineChoice>& machines,
                                            const std::vector<Variant>& variants, Predict&& predict) {
  std::vector<Answer> out;
  std::optional<Error> first;
  for (const MachineChoice& choice : machines)
    for (const Variant& variant : variants) {
      RIDGE_TRY(machine, machine_of(choice));
      Result<Answer> answer = predict(machine, variant);
      if (!answer && !first) first = answer.error();
      const bool is_only = machines.size() * variants.size() == 1;
      if (!answer && (is_only || answer.error().kind == ErrorKind::usage)) return answer.error();
      if (!answer) {
        out.emplace_back();
        out.back().machine = machine.name;
        out.back().unavailable = answer.error().message;
      }
      if (answer) out.push_back(*std::move(answer));
    }
  if (std::all_of(out.begin(), out.end(), [](const Answer& x) { return !x.unavailable.empty(); })) return *first;
  return out;
}

template <class Answer, class Predict>
Result<std::vector<Answer>> predict_on_each(const std::vector<MachineChoice>& machines, Predict&& predict) {
  return predict_on_each<Answer>(machines, std::vector{0},
                                 [&](const Machine& machine, int) { return predict(machine); });
}

}  // namespace

Result<model::ModelCount> count_model(const std::string& config, const model::CountOptions& options) {
  RIDGE_TRY(found, model::find_config(config));
  return model::count_model(found, options);
}

Result<std::vector<ModelOnMachine>> predict_model(const std::string& config, const ModelRequest& request,
                                                  const std::vector<MachineChoice>& machines,
                                                  const std::vector<DType>& formats) {
  RIDGE_TRY(found, model::find_config(config));
  const std::vector<DType> variants = formats.empty() ? std::vector{request.counts.weight_dtype} : formats;
  std::map<DType, CountedChips> counted;
  RIDGE_TRY(out, predict_on_each<ModelOnMachine>(machines, variants, [&](const Machine& machine, DType format) {
              ModelRequest one = request;
              one.counts.weight_dtype = format;
              return ridge::predict_model(found, one, machine, machines.size() > 1 ? &counted[format] : nullptr);
            }));
  for (std::size_t i = 0; i < out.size(); ++i) out[i].counts.weight_dtype = variants[i % variants.size()];
  const bool is_decoding = request.phase == ModelPhase::decode && !request.rate;
  if (!is_decoding || (out.size() != 2 && variants.size() != 2)) return out;
  for (std::size_t i = 1; i < out.size(); i += 2) {
    if (!out[i - 1].unavailable.empty() || !out[i].unavailable.empty()) continue;
    RIDGE_TRY(first, machine_of(machines[(i - 1) / variants.size()]));
    RIDGE_TRY(second, machine_of(machines[i / variants.size()]));
    RIDGE_TRY(break_even, find_break_even(found, request, {out[i - 1], first}, {out[i], second}));
    out[i].break_even = break_even;
  }
  return out;
}

Result<std::vector<LayoutRanking>> rank_layouts(const std::string& config, const LayoutRequest& request,
                                                const std::vector<MachineChoice>& machines) {
  RIDGE_TRY(found, model::find_config(config));
  return predict_on_each<LayoutRanking>(
      machines, [&](const Machine& machine) { return ridge::rank_layouts(found, request, machine); });
}

Result<ModelPage> make_page(const std::string& config, const ModelRequest& request,
                            const std::vector<MachineChoice>& machines, std::vector<ModelOnMachine> answers) {
  RIDGE_TRY(found, model::find_config(config));
  RIDGE_TRY(count, model::count_model(found, request.counts));
  std::optional<std::int64_t> image_size;
  if (request.images) image_size = request.images->image_size;
  RIDGE_TRY(formulas, make_model_formulas(found, request.counts, image_size));
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

Result<std::string> write_vision_program(const std::string& config, const model::VisionOptions& options) {
  RIDGE_TRY(found, model::find_config(config));
  return model::write_vision_program(found, options);
}

Result<model::ModelConfig> find_model_config(const std::string& config) { return model::find_config(config); }

Result<std::vector<TrainingStep>> predict_training(const std::string& config, const TrainingRequest& request,
                                                   const std::vector<MachineChoice>& machines) {
  RIDGE_TRY(found, model::find_config(config));
  TrainingProgramCache programs;
  return predict_on_each<TrainingStep>(
      machines, [&](const Machine& machine) { return ridge::predict_training(found, request, machine, programs); });
}

Result<std::vector<TrainingRanking>> rank_training_layouts(const std::string& config,
                                                           const TrainingLayoutRequest& request,
                                                           const std::vector<MachineChoice>& machines) {
  RIDGE_TRY(found, model::find_config(config));
  TrainingProgramCache programs;
  return predict_on_each<TrainingRanking>(machines, [&](const Machine& machine) {
    return ridge::rank_training_layouts(found, request, machine, programs);
  });
}

Result<std::string> write_training_program(const std::string& config, const model::StepOptions& options,
                                           const std::optional<std::int64_t>& layer) {
  RIDGE_TRY(found, model::find_config(config));
  if (layer) return write_training_layer(found, options, *layer);
  return write_training_model(found, options);
}

}  // namespace ridge::api

#include "ridge/plan/model/training_layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/plan/model/layouts.h"

namespace ridge {
namespace {

// True if the layout's ranks divide the batch and its parts.
bool divides_batch(const TrainingRequest& request, const model::ChipLayout& layout) {
  return request.counts.batch % (layout.data * request.accumulated.value_or(1)) == 0;
}

void sort_best_first(TrainingRanking& out) {
  std::stable_sort(out.layouts.begin(), out.layouts.end(), [](const TrainingStep& a, const TrainingStep& b) {
    return a.tokens_per_s_per_chip() > b.tokens_per_s_per_chip();
  });
  std::stable_sort(out.unfit.begin(), out.unfit.end(),
                   [](const TrainingStep& a, const TrainingStep& b) { return a.memory.total() < b.memory.total(); });
}

void keep_best_of_each_count(std::vector<TrainingStep>& layouts) {
  const auto count = [](const TrainingStep& x) { return x.layout.chips(); };
  std::stable_sort(layouts.begin(), layouts.end(),
                   [&](const TrainingStep& a, const TrainingStep& b) { return count(a) < count(b); });
  const auto has_equal_chips = [&](const TrainingStep& a, const TrainingStep& b) { return count(a) == count(b); };
  layouts.erase(std::unique(layouts.begin(), layouts.end(), has_equal_chips), layouts.end());
}

}  // namespace

Result<TrainingRanking> rank_training_layouts(const model::ModelConfig& config, const TrainingLayoutRequest& request,
                                              const Machine& machine, TrainingProgramCache& programs) {
  if (config.audio)
    return input_error(fmt::format("{}: expected a model without an audio encoder for --phase train", config.name));
  RIDGE_TRY_STATUS(check_training(request.training, machine));
  RIDGE_TRY(counts, choose_chip_counts(config, request.chips, request.is_chip_range));
  const TrainingRequest& training = request.training;
  const model::StepOptions options{.batch = training.counts.batch, .context = *training.counts.context};
  TrainingPredictor predictor(config, training, machine, programs);
  TrainingRanking out{.machine = machine.name};
  std::optional<Error> first_error;
  bool has_layouts = false;
  for (const std::int64_t chips : counts)
    for (const model::ChipLayout& layout : list_layouts(config, options, chips)) {
      if (!divides_batch(training, layout)) continue;
      has_layouts = true;
      auto step =
          training.accumulated ? predictor.predict(layout, *training.accumulated) : predictor.predict_fastest(layout);
      if (!step) {
        if (!first_error) first_error = step.error();
        ++out.without_numbers;
        continue;
      }
      step->not_on_record = list_times_not_on_record(machine, chips);
      (step->fits() ? out.layouts : out.unfit).push_back(*std::move(step));
    }
  if (!has_layouts)
    return input_error(
        fmt::format("{}: expected --chips that divide the model and {} sequence{}, found {}", config.name,
                    training.counts.batch, training.counts.batch == 1 ? "" : "s", fmt::join(request.chips, ", ")),
        "a power of two up to --batch times the heads");
  if (out.layouts.empty() && out.unfit.empty()) return *first_error;
  if (first_error) out.first_error = first_error->message;
  sort_best_first(out);
  if (request.is_best_of_each_count) keep_best_of_each_count(out.layouts);
  return out;
}

}  // namespace ridge

#include "ridge/report/language_model/training_layouts.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/report/json_values.h"
#include "ridge/report/language_model/answer_texts.h"
#include "ridge/report/layouts/layouts.h"
#include "ridge/report/model.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

constexpr std::size_t max_training_rows = 10;

// Returns the layouts that fit, of all machines, in the order of the ranking or of each machine's chips.
std::vector<const TrainingStep*> list_fitting(const TrainingLayoutReport& report) {
  std::vector<const TrainingStep*> out;
  for (const TrainingRanking& ranking : report.rankings)
    for (const TrainingStep& x : ranking.layouts) out.push_back(&x);
  if (!report.request.is_best_of_each_count)
    std::stable_sort(out.begin(), out.end(), [](const TrainingStep* a, const TrainingStep* b) {
      return a->tokens_per_s_per_chip() > b->tokens_per_s_per_chip();
    });
  return out;
}

std::string describe_batch(const TrainingLayoutReport& report) {
  const model::CountOptions& counts = report.request.training.counts;
  return fmt::format("{} of {}", count_text(counts.batch, "sequence"), count_text(*counts.context, "token"));
}

std::string absence_text(const TrainingLayoutReport& report) {
  const TrainingStep* least = nullptr;
  for (const TrainingRanking& ranking : report.rankings)
    if (!ranking.unfit.empty() && (least == nullptr || ranking.unfit.front().memory.total() < least->memory.total()))
      least = &ranking.unfit.front();
  return fmt::format("{}: no layout fits in a training step of {}; {} on {} needs the least memory, {} a chip",
                     report.count.name, describe_batch(report), describe_layout(least->layout),
                     chips_text(least->machine, least->layout.chips()), format_with_prefix(least->memory.total(), "B"));
}

std::string best_text(const TrainingLayoutReport& report, const std::vector<const TrainingStep*>& layouts) {
  const TrainingStep& best = **std::max_element(layouts.begin(), layouts.end(), [](const auto* a, const auto* b) {
    return a->tokens_per_s_per_chip() < b->tokens_per_s_per_chip();
  });
  std::int64_t predicted = 0;
  for (const TrainingRanking& x : report.rankings) predicted += std::ssize(x.layouts) + std::ssize(x.unfit);
  const std::string of_all = report.request.is_best_of_each_count
                                 ? "gives the most tokens/s a chip"
                                 : fmt::format("is the best of {}", count_text(predicted, "layout"));
  return fmt::format("{} on {}: {}{} {}: a training step of {} takes {} at least, {} tokens/s a chip",
                     report.count.name, chips_text(best.machine, best.layout.chips()), describe_layout(best.layout),
                     best.accumulated > 1 ? fmt::format(" --accumulate {}", best.accumulated) : "", of_all,
                     describe_batch(report), format_with_prefix(best.step_s, "s"),
                     rate_text(best.tokens_per_s_per_chip()));
}

std::string training_layouts_table(const TrainingLayoutReport& report, const std::vector<const TrainingStep*>& layouts,
                                   std::size_t rows, const TextStyle& style) {
  const bool has_machines = report.rankings.size() > 1;
  const bool has_experts = report.count.active_parameters != report.count.parameters;
  Cells cells{{}};
  if (has_machines) cells[0].emplace_back("machine");
  cells[0].insert(cells[0].end(), {"chips", "tp", "pp", "dp"});
  if (has_experts) cells[0].emplace_back("ep");
  cells[0].insert(cells[0].end(), {"accumulate", "a step, at least", "tokens/s a chip", "utilisation", "idle",
                                   "data ranks not hidden", "memory a chip"});
  for (std::size_t i = 0; i < rows; ++i) {
    const TrainingStep& x = *layouts[i];
    std::vector<std::string> row;
    if (has_machines) row.push_back(x.machine);
    for (const std::int64_t number : {x.layout.chips(), x.layout.tensor, x.layout.pipeline, x.layout.data})
      row.push_back(group_digits(number));
    if (has_experts) row.push_back(group_digits(x.layout.expert));
    row.insert(row.end(),
               {group_digits(x.accumulated), format_with_prefix(x.step_s, "s"), rate_text(x.tokens_per_s_per_chip()),
                format_percent(x.utilisation()), format_percent(x.idle_s / x.step_s),
                format_percent(std::max(0.0, x.exposed_s()) / x.step_s), format_with_prefix(x.memory.total(), "B")});
    cells.push_back(std::move(row));
  }
  std::vector<bool> right(cells[0].size(), true);
  right[0] = !has_machines;
  return text_table(cells, {.right = right, .omit_first = {"data ranks not hidden", "idle", "a step, at least"}},
                    style);
}

// Returns sentences about layouts that are not in the table.
std::vector<std::string> list_training_omissions(const TrainingLayoutReport& report, std::size_t listed,
                                                 std::size_t shown) {
  std::vector<std::string> out;
  if (shown < listed) out.push_back(fmt::format("the best {} of {} layouts; --json and --csv have all", shown, listed));
  for (const TrainingRanking& x : report.rankings) {
    if (!x.unavailable.empty()) out.push_back(x.unavailable);
    if (!x.unfit.empty())
      out.push_back(fmt::format("{}: {} do{} not fit in {}; of these, {} needs the least, {}", x.machine,
                                count_text(std::ssize(x.unfit), "layout"), x.unfit.size() == 1 ? "es" : "",
                                format_with_prefix(x.unfit.front().capacity_bytes.value_or(0), "B"),
                                describe_layout(x.unfit.front().layout),
                                format_with_prefix(x.unfit.front().memory.total(), "B")));
    if (x.without_numbers > 0)
      out.push_back(
          fmt::format("{}: no numbers for {}: {}", x.machine, count_text(x.without_numbers, "layout"), x.first_error));
    if (!x.layouts.empty() && !x.layouts.front().not_on_record.empty())
      out.push_back(not_on_record_text(x.machine, x.layouts.front().not_on_record));
  }
  return out;
}

Json training_layout_json(const TrainingStep& x) {
  return {
      {"machine", x.machine},
      {"chips", x.layout.chips()},
      {"layout", {{"tp", x.layout.tensor}, {"pp", x.layout.pipeline}, {"ep", x.layout.expert}, {"dp", x.layout.data}}},
      {"phase", "train"},
      {"context_tokens", *x.counts.context},
      {"batch", x.counts.batch},
      {"micro_batches", x.accumulated},
      {"time_s", x.step_s},
      {"tokens_per_s_per_chip", x.tokens_per_s_per_chip()},
      {"utilisation", x.utilisation()},
      {"idle_s", x.idle_s},
      {"exposed_s", x.exposed_s()},
      {"memory_bytes", x.memory.total()},
      {"fits", x.fits()}};
}

}  // namespace

std::string render_text(const TrainingLayoutReport& report, const TextStyle& style) {
  const std::vector<const TrainingStep*> layouts = list_fitting(report);
  std::string out;
  const auto add_line = [&](const std::string& line) { out += wrap_words(line, style.line_width, 2) + "\n"; };
  add_line(layouts.empty() ? absence_text(report) : best_text(report, layouts));
  const std::size_t shown =
      report.request.is_best_of_each_count ? layouts.size() : std::min(layouts.size(), max_training_rows);
  if (shown > 0) out += training_layouts_table(report, layouts, shown, style);
  for (const std::string& line : list_training_omissions(report, layouts.size(), shown)) add_line(line);
  return out;
}

std::string render_json(const TrainingLayoutReport& report) {
  Json out = model_count_json(report.count);
  out["layouts"] = Json::array();
  for (const TrainingRanking& ranking : report.rankings) {
    if (!ranking.unavailable.empty())
      out["layouts"].push_back({{"machine", ranking.machine}, {"unavailable", ranking.unavailable}});
    for (const auto* list : {&ranking.layouts, &ranking.unfit})
      for (const TrainingStep& x : *list) out["layouts"].push_back(training_layout_json(x));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ridge

#include "ridge/report/language_model/training.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/report/language_model/answer_texts.h"
#include "ridge/report/model.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

std::string training_bytes(double bytes) { return format_with_prefix(bytes, "B"); }
std::string training_seconds(double seconds) { return format_with_prefix(seconds, "s"); }

std::string chips_of(const TrainingStep& x) { return chips_text(x.machine, x.layout.chips()); }

// " (--tp 2 is chosen: the fewest chips that hold the step)"; empty if it was given or is 1.
std::string chosen_text(const TrainingStep& x) {
  if (!x.is_tensor_chosen || x.layout.tensor < 2) return {};
  return fmt::format(" (--tp {} is chosen: the {})", x.layout.tensor,
                     x.fits() ? "fewest chips that hold the step" : "most chips that divide the model");
}
double tokens_per_s(const TrainingStep& x) { return x.tokens() / x.seconds(); }

// "33.1 days", "5.20 hours"
std::string duration_text(double seconds) {
  const double days = seconds / 86400;
  if (days < 2) return fmt::format("{} hours", rate_text(24 * days));
  return fmt::format("{} days", rate_text(days));
}

// "17.6 GWh"
std::string energy_text(double joules) { return format_with_prefix(joules / 3600, "Wh"); }

// "7.24e23 FLOP"
std::string flops_text(double flops) {
  std::string out = fmt::format("{:.3e} FLOP", flops);
  return out.erase(out.find('+'), 1);
}

// "24.3 ms at least", "27.1 ms (25.0 ms to 30.2 ms; at least 24.3 ms)"
std::string step_time_text(const TrainingStep& x) {
  if (!x.predicted_s) return training_seconds(x.step_s) + " at least";
  return fmt::format("{} ({} to {}; at least {})", training_seconds(x.predicted_s->expected),
                     training_seconds(x.predicted_s->low), training_seconds(x.predicted_s->high),
                     training_seconds(x.step_s));
}

std::string step_text(const TrainingStep& x) {
  const std::string a_chip =
      x.layout.chips() == 1 ? "" : fmt::format(", {} a chip", rate_text(x.tokens_per_s_per_chip()));
  return fmt::format("a training step of {} of {} takes {}: {} tokens/s{}", count_text(x.counts.batch, "sequence"),
                     count_text(*x.counts.context, "token"), step_time_text(x), rate_text(tokens_per_s(x)), a_chip);
}

std::string run_text(const TrainingStep& x) {
  const TrainingRun& run = *x.run;
  std::string source;  // Says where a utilisation that was not given comes from
  if (!run.is_given) source = run.is_bound ? ", the bound's" : ", as expected";
  std::string out =
      fmt::format("training with {} tokens takes {}{} at a utilisation of {}{}: {} chip hours",
                  format_with_prefix(run.tokens, ""), duration_text(run.seconds), run.is_bound ? " at least" : "",
                  format_percent(run.utilisation), source, rate_text(run.chip_hours));
  if (run.cost) out += fmt::format("; cost {}", rate_text(*run.cost));
  if (run.energy_j) out += fmt::format("; energy {} at most (chips at full power)", energy_text(*run.energy_j));
  return out;
}

std::string run_flops_text(const TrainingStep& x) {
  const double tokens = x.run->tokens;
  return fmt::format("{} with attention over {}; 6 N D = {} for {} active parameters, {} tokens per parameter",
                     flops_text(x.run->flops), count_text(*x.counts.context, "token"),
                     flops_text(6 * x.parameters * tokens), format_with_prefix(x.parameters, ""),
                     rate_text(tokens / x.parameters));
}

std::string loss_line(const TrainingStep& x) {
  if (!x.loss) return "not predicted: the scaling laws are for dense models";
  std::string out;
  for (const PredictedLoss& each : *x.loss)
    out += fmt::format("{}{:.3f} ({})", out.empty() ? "" : ", ", each.loss, each.source);
  return out + " nats per token, if the data is like Chinchilla's";
}

std::string utilisation_line(const TrainingStep& x) {
  const std::string expected =
      x.predicted_s ? fmt::format("{} of the peak expected, ", format_percent(x.expected_utilisation())) : "";
  return fmt::format("{}{} of the peak at most: {} of model FLOPs in {} of {}", expected,
                     format_percent(x.utilisation()), format_with_prefix(x.model_flops, "FLOP"),
                     format_with_prefix(x.flops, "FLOP"), x.layout.chips() == 1 ? "work" : "work a chip");
}

std::string time_line(const TrainingStep& x) {
  std::string out;
  const auto add = [&](std::string_view what, double seconds) {
    if (seconds < 0.0005 * x.step_s) return;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", what, format_percent(seconds / x.step_s));
  };
  add("forward", x.forward_s);
  add("recomputation", x.recomputation_s);
  add("backward", x.backward_s);
  add("optimizer", x.optimizer_s);
  add("data ranks not hidden", x.exposed_s());
  add("idle stages", x.idle_s);
  if (x.layout.data > 1)
    out += fmt::format("; data ranks exchange for {} during the passes", training_seconds(x.gather_s + x.reduce_s));
  return out;
}

// "4 of 20 layers; 32 micro-batches of 1 sequence; chips of a stage are idle 8.6 % of the time"; empty for one stage.
std::string training_stages_line(const TrainingStep& x) {
  if (x.stages.size() <= 1) return {};
  const std::int64_t most = x.stages.front().layers, fewest = x.stages.back().layers;
  const auto slowest =
      std::min_element(x.stages.begin(), x.stages.end(),
                       [](const TrainingStage& a, const TrainingStage& b) { return a.idle_s < b.idle_s; });
  return fmt::format(
      "{} of {}{}; {} of {} a data rank; idle {} of the time on average, {} in the slowest stage, which is number {}; "
      "the first keeps the activations of {}",
      x.stages.size(), most == fewest ? "" : fmt::format("{} or ", fewest), count_text(most, "layer"),
      count_text(x.accumulated, "micro-batch"), count_text(x.counts.batch / x.accumulated / x.layout.data, "sequence"),
      format_percent(x.idle_s / x.step_s), format_percent(slowest->idle_s / x.step_s), slowest - x.stages.begin() + 1,
      count_text(x.stages.front().kept_micro_batches, "micro-batch"));
}

std::string training_memory_line(const TrainingStep& x) {
  const TrainingMemory& m = x.memory;
  std::string out = fmt::format("{} a chip: weights {}, gradients {}, optimizer {}, activations {}, working {}",
                                training_bytes(m.total()), training_bytes(m.weights), training_bytes(m.gradients),
                                training_bytes(m.optimizer), training_bytes(m.activations), training_bytes(m.working));
  if (x.capacity_bytes)
    out += fmt::format("; {} in {}", x.fits() ? "fits" : "DOES NOT FIT", training_bytes(*x.capacity_bytes));
  return out;
}

std::string training_table(const TrainingStep& x, const TextStyle& style) {
  Cells cells{{"pass", "part", "module", "layers", "of time", "work", "bytes", "limiter", "bound"}};
  if (x.predicted_s) cells[0].emplace_back("expected");
  double shown_s = 0;  // Expected time of the rows
  for (const TrainingModule& each : x.modules) {
    const ModuleStep& m = each.step;
    const double layers = each.count(), seconds = layers * m.bound_s;
    const bool is_overlapped = each.is_overlapped;
    // An overlapped exchange has no part in the expected time, but its bound like the others.
    const double expected = m.predicted_s ? layers * m.predicted_s->expected : is_overlapped * seconds,
                 share = (x.predicted_s ? expected : seconds) / x.seconds();
    cells.push_back({std::string(name(each.pass)), m.part, m.module, is_overlapped ? "" : group_digits(m.layers),
                     is_overlapped ? "overlapped" : format_percent(share), format_with_prefix(layers * m.flops, "FLOP"),
                     training_bytes(layers * m.bytes), std::string(name(m.limiter)), training_seconds(seconds)});
    if (x.predicted_s) cells.back().push_back(m.predicted_s || is_overlapped ? training_seconds(expected) : "-");
    if (!is_overlapped) shown_s += expected;
  }
  if (x.layout.pipeline > 1) {
    const double share = x.predicted_s ? 1 - shown_s / x.predicted_s->expected : x.idle_s / x.step_s;
    cells.push_back({"", "stages", x.predicted_s ? "idle, data ranks" : "idle", "", format_percent(share), "", "", "",
                     training_seconds(x.idle_s)});
    if (x.predicted_s) cells.back().push_back(training_seconds(share * x.predicted_s->expected));
  }
  cells.push_back({"total", "", "", "", format_percent(1), format_with_prefix(x.flops, "FLOP"), "", "",
                   training_seconds(x.step_s)});
  if (x.predicted_s) cells.back().push_back(training_seconds(x.predicted_s->expected));
  return text_table(cells,
                    {.right = {false, false, false, true, true, true, true, false, true, true},
                     .omit_first = {"bytes", "work", "limiter", "layers"}},
                    style);
}

std::string training_machines_table(const std::vector<TrainingStep>& machines, const TextStyle& style) {
  const bool has_run = std::any_of(machines.begin(), machines.end(), [](const auto& x) { return x.run.has_value(); });
  const bool has_cost =
      has_run && std::any_of(machines.begin(), machines.end(), [](const auto& x) { return x.run && x.run->cost; });
  const bool is_predicted = std::any_of(machines.begin(), machines.end(), [](const auto& x) { return x.predicted_s; });
  Cells cells{{"machine", "chips"}};
  if (is_predicted) cells[0].emplace_back("a step, expected");
  cells[0].insert(cells[0].end(), {"a step, at least", "tokens/s a chip", "utilisation"});
  const bool is_bound =
      std::any_of(machines.begin(), machines.end(), [](const auto& x) { return x.run && x.run->is_bound; });
  if (has_run) cells[0].insert(cells[0].end(), {is_bound ? "run, at least" : "run", "chip hours"});
  if (has_cost) cells[0].emplace_back("cost");
  cells[0].emplace_back("memory a chip");
  for (const TrainingStep& x : machines) {
    if (!x.unavailable.empty()) {
      cells.push_back({x.machine});
      cells.back().resize(cells[0].size(), "-");
      continue;
    }
    std::vector<std::string> row{x.machine + (x.fits() ? "" : " (does not fit)"), group_digits(x.layout.chips())};
    if (is_predicted) row.push_back(x.predicted_s ? training_seconds(x.predicted_s->expected) : "-");
    row.insert(row.end(), {training_seconds(x.step_s), rate_text(x.tokens_per_s_per_chip()),
                           format_percent(x.expected_utilisation())});
    if (has_run) row.insert(row.end(), {duration_text(x.run->seconds), rate_text(x.run->chip_hours)});
    if (has_cost) row.push_back(rate_text(*x.run->cost));
    row.push_back(training_bytes(x.memory.total()));
    cells.push_back(std::move(row));
  }
  std::vector<bool> right(cells[0].size(), true);
  right[0] = false;
  return text_table(cells, {.right = right, .is_in_csv = false}, style);
}

// Returns sentences about what the times leave out, and about a run that is too fast.
std::vector<std::string> list_training_caveats(const TrainingStep& x) {
  if (!x.unavailable.empty()) return {x.unavailable};
  std::vector<std::string> out;
  if (x.run && x.run->utilisation > x.utilisation())
    out.push_back(fmt::format("{}: a utilisation of {} is impossible, because the bound is {}", x.machine,
                              format_percent(x.run->utilisation), format_percent(x.utilisation())));
  if (!x.not_on_record.empty()) out.push_back(not_on_record_text(x.machine, x.not_on_record));
  return out;
}

Json training_run_json(const TrainingStep& x) {
  const TrainingRun& run = *x.run;
  Json out{{"tokens", run.tokens},
           {"flops", run.flops},
           {"flops_6nd", 6 * x.parameters * run.tokens},
           {"utilisation", run.utilisation},
           {"utilisation_is_bound", run.is_bound},
           {"seconds", run.seconds},
           {"chip_hours", run.chip_hours},
           {"cost", or_null(run.cost)},
           {"energy_j", or_null(run.energy_j)},
           {"loss", nullptr}};
  if (!x.loss) return out;
  out["loss"] = Json::array();
  for (const PredictedLoss& each : *x.loss)
    out["loss"].push_back({{"source", each.source}, {"nats_per_token", each.loss}});
  return out;
}

Json training_module_json(const TrainingModule& each) {
  const ModuleStep& m = each.step;
  return {{"name", m.module},           {"layer", m.part},
          {"pass", name(each.pass)},    {"count", m.layers * each.times},
          {"flops", m.flops},           {"bytes", m.bytes},
          {"bytes_sent", m.bytes_sent}, {"limiter", name(m.limiter)},
          {"time_lower_s", m.bound_s},  {"predicted_s", m.predicted_s ? interval_json(*m.predicted_s) : Json(nullptr)}};
}

Json training_stage_json(const TrainingStage& x) {
  return {{"first_layer", x.first_layer},
          {"layers", x.layers},
          {"kept_micro_batches", x.kept_micro_batches},
          {"idle_s", x.idle_s},
          {"weight_bytes", x.memory.weights},
          {"gradient_bytes", x.memory.gradients},
          {"optimizer_bytes", x.memory.optimizer},
          {"activation_bytes", x.memory.activations},
          {"working_bytes", x.memory.working}};
}

Json training_json(const TrainingStep& x) {
  if (!x.unavailable.empty()) return {{"machine", x.machine}, {"unavailable", x.unavailable}};
  Json out{
      {"machine", x.machine},
      {"phase", "train"},
      {"context_tokens", *x.counts.context},
      {"batch", x.counts.batch},
      {"layout", {{"tp", x.layout.tensor}, {"pp", x.layout.pipeline}, {"ep", x.layout.expert}, {"dp", x.layout.data}}},
      {"training",
       {{"recompute", name(x.recomputation)},
        {"zero", x.zero_stage},
        {"accumulate", x.accumulated},
        {"step_s", x.step_s},
        {"predicted_s", x.predicted_s ? interval_json(*x.predicted_s) : Json(nullptr)},
        {"tokens_per_s", tokens_per_s(x)},
        {"forward_s", x.forward_s},
        {"recomputation_s", x.recomputation_s},
        {"backward_s", x.backward_s},
        {"optimizer_s", x.optimizer_s},
        {"data_ranks_s", x.gather_s + x.reduce_s},
        {"exposed_s", x.exposed_s()},
        {"idle_s", x.idle_s},
        {"utilisation", x.utilisation()},
        {"model_flops", x.model_flops * static_cast<double>(x.layout.chips())},
        {"flops", x.flops * static_cast<double>(x.layout.chips())},
        {"per_chip",
         {{"weight_bytes", x.memory.weights},
          {"gradient_bytes", x.memory.gradients},
          {"optimizer_bytes", x.memory.optimizer},
          {"activation_bytes", x.memory.activations},
          {"working_bytes", x.memory.working},
          {"bytes", x.memory.total()},
          {"capacity_bytes", or_null(x.capacity_bytes)},
          {"fits", x.fits()}}},
        {"stages", Json::array()},
        {"run", x.run ? training_run_json(x) : Json(nullptr)}}},
      {"not_on_record", x.not_on_record},
      {"remark", or_null(std::string_view(x.remark))},
      {"step_notes", x.notes},
      {"ops", Json::array()}};
  for (const TrainingModule& module : x.modules) out["ops"].push_back(training_module_json(module));
  if (x.stages.size() > 1)
    for (const TrainingStage& stage : x.stages) out["training"]["stages"].push_back(training_stage_json(stage));
  return out;
}

// Returns the line above the table: which machine gives the most tokens per second and chip, and how much more than the
// next.
std::string training_comparison_line(const model::ModelCount& count, const std::vector<TrainingStep>& machines) {
  const std::string step = fmt::format("a training step of {} of {}", count_text(count.options.batch, "sequence"),
                                       count_text(*count.options.context, "token"));
  std::vector<const TrainingStep*> ranked;
  for (const TrainingStep& x : machines)
    if (x.unavailable.empty() && x.fits()) ranked.push_back(&x);
  if (ranked.empty()) return fmt::format("{}: {} fits on none of the machines", count.name, step);
  std::stable_sort(ranked.begin(), ranked.end(), [](const TrainingStep* a, const TrainingStep* b) {
    return a->tokens_per_s_per_chip() > b->tokens_per_s_per_chip();
  });
  const auto predicted =
      std::count_if(ranked.begin(), ranked.end(), [](const TrainingStep* x) { return x->predicted_s.has_value(); });
  if (predicted > 0 && predicted < std::ssize(ranked))
    return fmt::format("{}: {}; machines with a prediction and those with a bound are not comparable", count.name,
                       step);
  const TrainingStep& best = *ranked.front();
  std::string out =
      fmt::format("{}: with {}, a chip of {} gives the most tokens/s: {}{}", count.name, step, best.machine,
                  best.predicted_s ? "" : "at most ", rate_text(best.tokens_per_s_per_chip()));
  if (ranked.size() > 1)
    out += times_as_many_text(best.tokens_per_s_per_chip() / ranked[1]->tokens_per_s_per_chip(), ranked[1]->machine);
  const bool lacks_more = std::any_of(ranked.begin(), ranked.end(), [&](const TrainingStep* x) {
    return x->not_on_record.size() < best.not_on_record.size();
  });
  if (lacks_more) out += fmt::format("; times of {} are too low to compare, see below", best.machine);
  for (const TrainingStep& x : machines)
    if (x.unavailable.empty() && !chosen_text(x).empty())
      out += fmt::format("; --tp {} is chosen on {}", x.layout.tensor, x.machine);
  return out;
}

}  // namespace

std::string render_text(const model::ModelCount& count, const std::vector<TrainingStep>& machines,
                        const TextStyle& style) {
  std::string out;
  const auto add_line = [&](const std::string& line) { out += wrap_words(line, style.line_width, 2) + "\n"; };
  if (machines.size() > 1) {
    add_line(training_comparison_line(count, machines));
    out += training_machines_table(machines, style);
    const bool is_predicted =
        std::any_of(machines.begin(), machines.end(), [](const TrainingStep& x) { return x.predicted_s.has_value(); });
    for (const TrainingStep& each : machines) {
      for (const std::string& caveat : list_training_caveats(each)) add_line(caveat);
      if ((is_predicted || !each.remark.empty()) && each.unavailable.empty() && !each.predicted_s)
        add_line(missing_prediction_text("tokens/s", each.machine, each.remark));
    }
    return out;
  }
  const TrainingStep& x = machines.front();
  add_line(fmt::format("{} on {}{}{}: {}", count.name, chips_of(x), chosen_text(x),
                       x.fits() ? "" : ", whose memory is too small", x.run ? run_text(x) : step_text(x)));
  if (x.run) {
    add_line("run  " + run_flops_text(x));
    add_line("loss  " + loss_line(x));
    add_line("step  " + step_text(x));
  }
  add_line("utilisation  " + utilisation_line(x));
  add_line("time  " + time_line(x));
  add_line("memory  " + training_memory_line(x));
  if (const std::string stages = training_stages_line(x); !stages.empty()) add_line("stages  " + stages);
  for (const std::string& caveat : list_training_caveats(x)) add_line(caveat);
  out += "\n" + training_table(x, style);
  for (const std::string& note : count.notes) add_line(note);
  if (x.layout.pipeline > 1) add_line("the table has the average of the stages' chips");
  if (!x.remark.empty()) add_line(x.remark);
  for (const std::string& note : x.notes) add_line(note);
  return out;
}

std::string render_table_json(const std::vector<TrainingStep>& machines) {
  Json out{{"machines", Json::array()}};
  for (const TrainingStep& machine : machines) {
    out["machines"].push_back(training_json(machine));
    for (const char* list : {"ops", "step_notes", "not_on_record"}) out["machines"].back().erase(list);
    if (machine.unavailable.empty()) out["machines"].back()["training"].erase("stages");
  }
  return out.dump();
}

std::string render_json(const model::ModelCount& count, const std::vector<TrainingStep>& machines) {
  Json out = model_count_json(count);
  if (machines.size() == 1) {
    out.update(training_json(machines.front()));
  } else {
    out["machines"] = Json::array();
    for (const TrainingStep& machine : machines) out["machines"].push_back(training_json(machine));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ridge

#include "ridge/report/language_model/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/report/model.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

std::string training_bytes(double bytes) { return format_with_prefix(bytes, "B"); }
std::string training_seconds(double seconds) { return format_with_prefix(seconds, "s"); }
std::string grouped(double number) {
  return number < 1e15 ? group_digits(static_cast<std::int64_t>(std::llround(number))) : format_significant(number);
}
std::string counted(double count, std::string_view what) {
  return fmt::format("{} {}{}", grouped(count), what, count == 1 ? "" : "s");
}

std::string chips_text(const TrainingStep& x) {
  return x.layout.chips() == 1 ? x.machine
                               : fmt::format("{} x {}", grouped(static_cast<double>(x.layout.chips())), x.machine);
}

double tokens_per_s(const TrainingStep& x) { return x.tokens() / x.step_s; }

// "33.1 days", "5.20 hours"
std::string duration_text(double seconds) {
  const double days = seconds / 86400;
  if (days < 2) return fmt::format("{} hours", format_significant(24 * days, 3));
  return fmt::format("{} days", days < 1000 ? format_significant(days, 3) : grouped(days));
}

std::string cost_text(double cost) { return cost < 100 ? format_significant(cost, 3) : grouped(cost); }
// "17.6 GWh"
std::string energy_text(double joules) { return format_with_prefix(joules / 3600, "Wh"); }

// "7.24e23 FLOP"
std::string flops_text(double flops) {
  std::string out = fmt::format("{:.3e} FLOP", flops);
  return out.erase(out.find('+'), 1);
}

std::string step_text(const TrainingStep& x) {
  const std::string a_chip =
      x.layout.chips() == 1
          ? ""
          : fmt::format(", {} a chip", grouped(tokens_per_s(x) / static_cast<double>(x.layout.chips())));
  return fmt::format("a training step of {} of {} takes {} at least: {} tokens/s{}",
                     counted(static_cast<double>(x.counts.batch), "sequence"),
                     counted(static_cast<double>(*x.counts.context), "token"), training_seconds(x.step_s),
                     grouped(tokens_per_s(x)), a_chip);
}

std::string run_text(const TrainingStep& x) {
  const TrainingRun& run = *x.run;
  std::string out =
      fmt::format("training with {} tokens takes {}{} at a utilisation of {}{}: {} chip hours",
                  format_with_prefix(run.tokens, ""), duration_text(run.seconds), run.is_bound ? " at least" : "",
                  format_percent(run.utilisation), run.is_bound ? ", the bound's" : "", grouped(run.chip_hours));
  if (run.cost) out += fmt::format("; cost {}", cost_text(*run.cost));
  if (run.energy_j) out += fmt::format("; energy {} at most (chips at full power)", energy_text(*run.energy_j));
  return out;
}

std::string run_flops_text(const TrainingStep& x) {
  const double tokens = x.run->tokens;
  return fmt::format("{} with attention over {}; 6 N D = {} for {} active parameters, {} tokens per parameter",
                     flops_text(x.run->flops), counted(static_cast<double>(*x.counts.context), "token"),
                     flops_text(6 * x.parameters * tokens), format_with_prefix(x.parameters, ""),
                     format_significant(tokens / x.parameters, 3));
}

std::string loss_line(const TrainingStep& x) {
  if (!x.loss) return "not predicted: the scaling laws are for dense models";
  std::string out;
  for (const PredictedLoss& each : *x.loss)
    out += fmt::format("{}{:.3f} ({})", out.empty() ? "" : ", ", each.loss, each.source);
  return out + " nats per token, if the data is like Chinchilla's";
}

std::string utilisation_line(const TrainingStep& x) {
  return fmt::format("{} of the peak at most: {} of model FLOPs in {} of {}", format_percent(x.utilisation()),
                     format_with_prefix(x.model_flops, "FLOP"), format_with_prefix(x.flops, "FLOP"),
                     x.layout.chips() == 1 ? "work" : "work a chip");
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
  if (x.layout.data > 1)
    out += fmt::format("; data ranks exchange for {} during the passes", training_seconds(x.gather_s + x.reduce_s));
  return out;
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
  for (const TrainingModule& each : x.modules) {
    const ModuleStep& m = each.step;
    const double layers = each.count(), seconds = layers * m.bound_s;
    const bool is_overlapped = each.is_between_data_ranks;
    cells.push_back({std::string(name(each.pass)), m.part, m.module, is_overlapped ? "" : std::to_string(m.layers),
                     is_overlapped ? "overlapped" : format_percent(seconds / x.step_s),
                     format_with_prefix(layers * m.flops, "FLOP"), training_bytes(layers * m.bytes),
                     std::string(name(m.limiter)), training_seconds(seconds)});
  }
  cells.push_back({"total", "", "", "", format_percent(1), format_with_prefix(x.flops, "FLOP"), "", "",
                   training_seconds(x.step_s)});
  return text_table(cells,
                    {.right = {false, false, false, true, true, true, true, false, true},
                     .omit_first = {"bytes", "work", "limiter", "layers"}},
                    style);
}

std::string training_machines_table(const std::vector<TrainingStep>& machines, const TextStyle& style) {
  const bool has_run = std::any_of(machines.begin(), machines.end(), [](const auto& x) { return x.run.has_value(); });
  const bool has_cost =
      has_run && std::any_of(machines.begin(), machines.end(), [](const auto& x) { return x.run && x.run->cost; });
  Cells cells{{"machine", "chips", "a step, at least", "tokens/s a chip", "utilisation"}};
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
    std::vector<std::string> row{
        x.machine + (x.fits() ? "" : " (does not fit)"), std::to_string(x.layout.chips()), training_seconds(x.step_s),
        grouped(tokens_per_s(x) / static_cast<double>(x.layout.chips())), format_percent(x.utilisation())};
    if (has_run) row.insert(row.end(), {duration_text(x.run->seconds), grouped(x.run->chip_hours)});
    if (has_cost) row.push_back(cost_text(*x.run->cost));
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
  if (!x.not_on_record.empty())
    out.push_back(fmt::format("{}: {} {} not on record and count{} as 0, so its times are too low", x.machine,
                              fmt::join(x.not_on_record, " and "), x.not_on_record.size() == 1 ? "is" : "are",
                              x.not_on_record.size() == 1 ? "s" : ""));
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
  return {
      {"name", m.module},         {"layer", m.part},  {"pass", name(each.pass)},    {"count", m.layers * each.times},
      {"flops", m.flops},         {"bytes", m.bytes}, {"bytes_sent", m.bytes_sent}, {"limiter", name(m.limiter)},
      {"time_lower_s", m.bound_s}};
}

Json training_json(const TrainingStep& x) {
  if (!x.unavailable.empty()) return {{"machine", x.machine}, {"unavailable", x.unavailable}};
  Json out{{"machine", x.machine},
           {"phase", "train"},
           {"context_tokens", *x.counts.context},
           {"batch", x.counts.batch},
           {"layout", {{"tp", x.layout.tensor}, {"pp", 1}, {"ep", x.layout.expert}, {"dp", x.layout.data}}},
           {"training",
            {{"recompute", name(x.recomputation)},
             {"zero", x.zero_stage},
             {"accumulate", x.accumulated},
             {"step_s", x.step_s},
             {"tokens_per_s", tokens_per_s(x)},
             {"forward_s", x.forward_s},
             {"recomputation_s", x.recomputation_s},
             {"backward_s", x.backward_s},
             {"optimizer_s", x.optimizer_s},
             {"data_ranks_s", x.gather_s + x.reduce_s},
             {"exposed_s", x.exposed_s()},
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
             {"run", x.run ? training_run_json(x) : Json(nullptr)}}},
           {"not_on_record", x.not_on_record},
           {"step_notes", x.notes},
           {"ops", Json::array()}};
  for (const TrainingModule& module : x.modules) out["ops"].push_back(training_module_json(module));
  return out;
}

// Returns the line above the table.
std::string training_comparison_line(const model::ModelCount& count, const std::vector<TrainingStep>& machines) {
  const auto value = [](const TrainingStep& x) {
    return x.unavailable.empty() && x.fits() ? tokens_per_s(x) / static_cast<double>(x.layout.chips()) : 0;
  };
  const auto best = std::max_element(machines.begin(), machines.end(),
                                     [&](const auto& a, const auto& b) { return value(a) < value(b); });
  const std::string step =
      fmt::format("a training step of {} of {}", counted(static_cast<double>(count.options.batch), "sequence"),
                  counted(static_cast<double>(*count.options.context), "token"));
  if (value(*best) == 0) return fmt::format("{}: {} fits on none of the machines", count.name, step);
  return fmt::format("{}: with {}, a chip of {} gives the most tokens/s: at most {}", count.name, step, best->machine,
                     grouped(value(*best)));
}

}  // namespace

std::string render_text(const model::ModelCount& count, const std::vector<TrainingStep>& machines,
                        const TextStyle& style) {
  std::string out;
  const auto add_line = [&](const std::string& line) { out += wrap_words(line, style.line_width, 2) + "\n"; };
  if (machines.size() > 1) {
    add_line(training_comparison_line(count, machines));
    out += training_machines_table(machines, style);
    for (const TrainingStep& each : machines)
      for (const std::string& caveat : list_training_caveats(each)) add_line(caveat);
    return out;
  }
  const TrainingStep& x = machines.front();
  add_line(fmt::format("{} on {}: {}", count.name, chips_text(x), x.run ? run_text(x) : step_text(x)));
  if (x.run) {
    add_line("run  " + run_flops_text(x));
    add_line("loss  " + loss_line(x));
    add_line("step  " + step_text(x));
  }
  add_line("utilisation  " + utilisation_line(x));
  add_line("time  " + time_line(x));
  add_line("memory  " + training_memory_line(x));
  for (const std::string& caveat : list_training_caveats(x)) add_line(caveat);
  out += "\n" + training_table(x, style);
  for (const std::string& note : count.notes) add_line(note);
  for (const std::string& note : x.notes) add_line(note);
  return out;
}

std::string render_table_json(const std::vector<TrainingStep>& machines) {
  Json out{{"machines", Json::array()}};
  for (const TrainingStep& machine : machines) {
    out["machines"].push_back(training_json(machine));
    for (const char* list : {"ops", "step_notes", "not_on_record"}) out["machines"].back().erase(list);
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

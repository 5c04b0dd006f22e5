#include "ridge/report/language_model/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/plan/model/serving.h"
#include "ridge/report/language_model/answer_texts.h"
#include "ridge/report/language_model/decoding.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

using Machines = std::vector<ModelOnMachine>;

std::string compared_seconds(double seconds) { return format_with_prefix(seconds, "s"); }

bool has_prediction(const ModelOnMachine& x) { return x.decode.predicted_s.has_value(); }

// The prediction of what the first line compares: prefill, or a token.
bool has_compared_prediction(const ModelOnMachine& x) {
  if (x.phase == ModelPhase::prefill) return x.first_token_predicted_s().has_value();
  return x.served || (x.speculation ? x.speculation->is_predicted : has_prediction(x));
}

template <class Has> bool any_has(const Machines& machines, Has&& has) {
  return std::any_of(machines.begin(), machines.end(), has);
}

bool has_several_formats(const Machines& machines) {
  return any_has(
      machines, [&](const ModelOnMachine& x) { return x.counts.weight_dtype != machines.front().counts.weight_dtype; });
}

// Returns the tokens per second and chip in the phase: of the prompts, or of the output.
double count_compared_rate(const ModelOnMachine& x) {
  if (x.phase == ModelPhase::decode) return x.tokens_per_s_per_chip();
  const std::optional<Interval> predicted_s = x.first_token_predicted_s();
  const double seconds = predicted_s ? predicted_s->expected : x.first_token_bound_s();
  return static_cast<double>(x.tokens()) / seconds / static_cast<double>(x.layout.chips());
}

// Returns the machines in the order of their rates, those that do not hold the model or reach the rate left out.
std::vector<const ModelOnMachine*> rank_machines(const Machines& machines) {
  std::vector<const ModelOnMachine*> out;
  for (const ModelOnMachine& x : machines)
    if (x.unavailable.empty() && x.reaches_rate() && x.fits()) out.push_back(&x);
  std::stable_sort(out.begin(), out.end(), [](const ModelOnMachine* a, const ModelOnMachine* b) {
    return count_compared_rate(*a) > count_compared_rate(*b);
  });
  return out;
}

// "1 sequence of 256 tokens", "50 tokens/s a sequence of 8 192 tokens"
std::string condition_text(const model::ModelCount& count, const Machines& machines) {
  const std::string tokens = count_text(*count.options.context, "token");
  const auto with_rate = std::find_if(machines.begin(), machines.end(), [](const auto& x) { return x.rate; });
  if (with_rate == machines.end()) return fmt::format("{} of {}", count_text(count.options.batch, "sequence"), tokens);
  return fmt::format("{} tokens/s a sequence of {}", rate_text(*with_rate->rate, 4), tokens);
}

std::string fits_nowhere_text(const model::ModelCount& count, const Machines& machines) {
  const std::string condition = condition_text(count, machines);
  if (any_has(machines, [](const ModelOnMachine& x) { return x.rate; }))
    return fmt::format("{}: no machine reaches {}", count.name, condition);
  return fmt::format("{}: no machine holds {}", count.name, condition);
}

std::vector<std::string> machine_row(const ModelOnMachine& x, bool has_formats) {
  std::vector<std::string> row{x.machine + (x.fits() ? "" : " (does not fit)")};
  if (has_formats) row.emplace_back(dtype_name(x.counts.weight_dtype));
  row.push_back(group_digits(x.layout.chips()));
  return row;
}

// Returns the reason why there is no prediction of the time to the first token.
const std::string& first_token_remark(const ModelOnMachine& x) {
  if (x.prefill.predicted_s)
    for (const ModelStep* encoder : x.encoders())
      if (!encoder->predicted_s) return encoder->remark;
  return x.prefill.remark;
}

}  // namespace

std::string comparison_line(const model::ModelCount& count, const Machines& machines) {
  const std::string condition = condition_text(count, machines);
  const std::vector<const ModelOnMachine*> ranked = rank_machines(machines);
  if (ranked.empty()) return fits_nowhere_text(count, machines);
  const auto predicted =
      std::count_if(ranked.begin(), ranked.end(), [](const ModelOnMachine* x) { return has_compared_prediction(*x); });
  if (predicted > 0 && predicted < std::ssize(ranked))
    return fmt::format("{}: {}; machines with a prediction and those with a bound are not comparable", count.name,
                       condition);
  const ModelOnMachine& best = *ranked.front();
  const bool has_formats = has_several_formats(machines);
  const auto name_of = [&](const ModelOnMachine& x) {
    return x.machine + (has_formats ? fmt::format(" with {}", dtype_name(x.counts.weight_dtype)) : "");
  };
  const bool is_prefill = best.phase == ModelPhase::prefill;
  std::vector<std::string> details;
  if (best.layout.chips() > 1 || best.rate)
    details.push_back(chips_text(best.machine, best.layout.chips(), best.hosts));
  if (best.rate) details.push_back(count_text(best.counts.batch, "sequence"));
  if (best.served) details.emplace_back("served");
  std::string out =
      fmt::format("{}: {} {}, a chip of {} {} the most {}tokens/s: {}{}", count.name,
                  is_prefill ? "in prefill of" : "with", condition, name_of(best), is_prefill ? "computes" : "gives",
                  is_prefill ? "prompt " : "", predicted > 0 ? "" : "at most ", rate_text(count_compared_rate(best)));
  if (!details.empty()) out += fmt::format(" ({})", fmt::join(details, ", "));
  if (ranked.size() > 1)
    out += times_as_many_text(count_compared_rate(best) / count_compared_rate(*ranked[1]), name_of(*ranked[1]));
  const bool lacks_more = std::any_of(ranked.begin(), ranked.end(), [&](const ModelOnMachine* x) {
    return x->not_on_record.size() < best.not_on_record.size();
  });
  if (lacks_more) out += fmt::format("; times of {} are too low to compare, see below", best.machine);
  return out;
}

std::string machines_table(const Machines& machines, const TextStyle& style) {
  const bool is_predicted = any_has(machines, has_prediction);
  const bool has_hosts = any_has(machines, [](const auto& x) { return x.hosts.value_or(1) > 1; });
  const bool has_formats = has_several_formats(machines);
  const bool is_served = any_has(machines, [](const auto& x) { return x.served.has_value(); });
  const bool is_speculated = any_has(machines, [](const auto& x) { return x.speculation.has_value(); });
  const bool has_price = any_has(machines, [](const auto& x) { return x.price.has_value(); });
  Cells cells{{"machine"}};
  if (has_formats) cells[0].emplace_back("weights");
  cells[0].emplace_back("chips");
  if (has_hosts) cells[0].emplace_back("hosts");
  const bool is_prefill = machines.front().phase == ModelPhase::prefill;
  cells[0].insert(cells[0].end(), {"sequences", "tokens/s a sequence", "tokens/s a chip"});
  if (is_prefill) cells[0].emplace_back("prompt tokens/s a chip");
  if (is_predicted) cells[0].insert(cells[0].end(), {"a token, expected", "first token, expected"});
  if (is_served) cells[0].insert(cells[0].end(), {"a token, served", "first token, served"});
  if (is_speculated) cells[0].emplace_back("speculated");
  if (has_price) cells[0].emplace_back("cost/1e6 tokens");
  cells[0].insert(cells[0].end(),
                  {"a token, at least", "first token, at least", "memory a chip", "sequences that fit"});
  for (const ModelOnMachine& x : machines) {
    if (!x.unavailable.empty()) {
      cells.push_back({x.machine});
      if (has_formats) cells.back().emplace_back(dtype_name(x.counts.weight_dtype));
      cells.back().resize(cells[0].size(), "-");
      continue;
    }
    std::vector<std::string> row = machine_row(x, has_formats);
    if (has_hosts) row.push_back(or_dash(x.hosts));
    row.insert(row.end(),
               {group_digits(x.counts.batch), rate_text(1 / x.token_seconds()) + (x.reaches_rate() ? "" : " (too few)"),
                rate_text(x.tokens_per_s_per_chip())});
    if (is_prefill) row.push_back(rate_text(count_compared_rate(x)));
    if (is_predicted)
      for (const std::optional<Interval>& time : {x.decode.predicted_s, x.first_token_predicted_s()})
        row.push_back(time ? compared_seconds(time->expected) : "-");
    if (is_served)
      for (const Interval& served : {x.served->token_s, x.served->first_token_s})
        row.push_back(compared_seconds(served.expected));
    if (is_speculated) row.push_back(compared_seconds(x.speculation->step.token_s()));
    if (has_price) {
      const TokenCost cost = compute_token_cost(x);
      row.push_back(rate_text(cost.served_per_million ? *cost.served_per_million : *cost.per_million));
    }
    row.push_back(compared_seconds(x.decode.bound_s));
    row.push_back(compared_seconds(x.first_token_bound_s()));
    row.push_back(format_with_prefix(x.memory_bytes(), "B"));
    row.push_back(x.max_batch ? group_digits(*x.max_batch) : "-");
    cells.push_back(std::move(row));
  }
  std::vector<bool> right(cells[0].size(), true);
  right[0] = false;
  return text_table(cells, {.right = right, .is_in_csv = false}, style);
}

std::vector<std::string> list_caveats(const Machines& machines) {
  std::vector<std::string> out;
  const bool is_predicted = any_has(machines, has_prediction);
  const bool has_first_token =
      any_has(machines, [](const ModelOnMachine& x) { return x.first_token_predicted_s().has_value(); });
  for (const ModelOnMachine& x : machines) {
    if (!x.unavailable.empty()) {
      out.push_back(x.unavailable);
      continue;
    }
    if (!x.not_on_record.empty()) out.push_back(not_on_record_text(x.machine, x.not_on_record));
    // One machine's remark is below its table.
    const bool is_planned = is_predicted || (machines.size() > 1 && !x.decode.remark.empty());
    if (is_planned && !has_prediction(x))
      out.push_back(missing_prediction_text("tokens/s", x.machine, x.decode.remark));
    else if ((is_predicted || has_first_token) && !x.first_token_predicted_s())
      out.push_back(missing_prediction_text("the first token", x.machine, first_token_remark(x)));
  }
  const auto is_bound_rate = [](const ModelOnMachine& x) {
    return x.rate && !has_prediction(x) && !x.served && !x.audio && contains(measured_serving_machines, x.machine);
  };
  if (std::any_of(machines.begin(), machines.end(), is_bound_rate))
    out.emplace_back("engines are slower than these bounds: --serve predicts one with --batch and --tp of the answer");
  return out;
}

std::vector<std::string> list_break_evens(const Machines& machines) {
  std::vector<std::string> out;
  for (const ModelOnMachine& each : machines)
    if (const auto& x = each.break_even)
      out.push_back(fmt::format("{}from {} on, {} gives more tokens/s a chip than {} with these chips",
                                machines.size() > 2 ? each.machine + ": " : "",
                                count_text(x->batch, each.served ? "request" : "sequence"), x->better, x->other));
  const auto is_planned_batch = [](const ModelOnMachine& x) {
    return x.phase == ModelPhase::decode && !x.rate && !x.served && x.decode.predicted_s.has_value();
  };
  if (machines.size() == 2 && std::any_of(machines.begin(), machines.end(), is_planned_batch))
    out.emplace_back(
        "with --plan the batch from which one machine gives more is not computed: kernels would be planned for each "
        "batch; without --plan it is, from bounds");
  return out;
}

}  // namespace ridge

// The summary at the top of `explain`: limiter, time bounds, largest operations, and next steps with the command for
// each. At most fifteen lines including the title.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

constexpr std::size_t max_largest = 5, max_gains = 4, max_sizes = 2;
constexpr std::size_t max_range_length = 60;
constexpr std::size_t line_width = 120;

// "expected 74.05 us (67.02 us .. 85.10 us)"
std::string expected_text(const PlannedProgram& planned) {
  if (!planned.has_model) return "time not known: plain loops";
  const Interval& t = planned.predicted_s;
  return fmt::format("expected {} ({} .. {})", format_with_prefix(t.expected, "s"), format_with_prefix(t.low, "s"),
                     format_with_prefix(t.high, "s"));
}

std::string kernels_text(std::int64_t count) { return fmt::format("{} kernel{}", count, count == 1 ? "" : "s"); }

// Returns the number of kernels if each call of an operation is one.
std::int64_t count_kernels(const Explanation& e) {
  std::int64_t out = 0;
  for (const Prediction& p : e.ops) out += p.calls;
  return out;
}

// "expected 67.32 us (62.09 us .. 71.89 us); memory-bound: at least 55.92 us in 1 kernel, 167.8 us in 4; 75.48 us
// without overlap"
std::string planned_line(const PlannedProgram& planned, const Explanation& e) {
  std::string out =
      fmt::format("{}; {}-bound: at least {} in {}", expected_text(planned), name(*planned.bound.limiter),
                  format_with_prefix(*planned.bound.time_lower_s, "s"), kernels_text(std::ssize(planned.kernels)));
  if (planned.kernels.size() < e.ops.size())
    out += fmt::format(", {} in {}", format_with_prefix(*e.total.time_lower_s, "s"), e.ops.size());
  return out + fmt::format("; {} without overlap\n", format_with_prefix(*planned.bound.time_upper_s, "s"));
}

// "compute-bound: at least 95.75 us (perfect overlap) in 4 kernels, 91.16 us in one; 176.9 us without overlap"
std::string limiter_line(const Report& report) {
  const Explanation& e = report.explanation;
  if (report.planned && report.planned->bound.limiter) return planned_line(*report.planned, e);
  std::string out = fmt::format("{}-bound: at least {} (perfect overlap)", name(*e.total.limiter),
                                format_with_prefix(*e.total.time_lower_s, "s"));
  if (const std::int64_t kernels = count_kernels(e); kernels > 1) {
    out += " in " + kernels_text(kernels);
    if (e.fused && e.fused->time_lower_s)
      out += fmt::format(", {} in one", format_with_prefix(*e.fused->time_lower_s, "s"));
  }
  return out + fmt::format("; {} without overlap\n", format_with_prefix(*e.total.time_upper_s, "s"));
}

// "largest  y 972.4 us (20.5 %), ..."
std::string largest_line(const Report& report) {
  const Explanation& e = report.explanation;
  if (e.ops.size() < 2) return {};
  std::vector<std::string> parts;
  for (const std::size_t i : ops_by_time(e)) {
    const auto share = time_fraction(e, e.ops[i]);
    if (!share || parts.size() == max_largest) break;
    parts.push_back(fmt::format("{} {} ({})", op_name(report, i), format_with_prefix(*e.ops[i].time_lower_s, "s"),
                                format_percent(*share)));
  }
  return fmt::format("largest  {}\n", fmt::join(parts, ", "));
}

// Returns a number of elements: "17.44 G".
std::string short_count(double count) {
  std::string text = format_with_prefix(count, "");
  if (text.ends_with(" ")) text.pop_back();
  return text;
}

std::string limit_text(const Threshold& t) {
  std::string range = fmt::format("{} {} {}", t.dim, name(t.relation), t.value ? std::to_string(*t.value) : t.exact);
  return t.value || t.condition.empty() ? range : range + " if " + t.condition;
}

// Returns the sizes that limits of one dimension leave: "S <= 8 or S from 586 to 6590". A lower limit holds up to the
// next upper limit of the same unit.
std::string format_limits(std::vector<const Threshold*> limits) {
  std::ranges::stable_sort(limits, {}, [](const Threshold* t) { return std::pair(t->unit, t->value); });
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const Threshold& t = *limits[i];
    const Threshold* next = i + 1 < limits.size() ? limits[i + 1] : nullptr;
    const bool is_range = t.relation == Relation::at_least && next && next->relation == Relation::at_most && t.value &&
                          next->value && t.unit == next->unit;
    ranges.push_back(is_range ? fmt::format("{} from {} to {}", t.dim, *t.value, *next->value) : limit_text(t));
    if (is_range) ++i;
  }
  return fmt::format("{}", fmt::join(ranges, " or "));
}

// Sizes of a dimension for which compute time exceeds memory time: every size, none, or those in `range`.
struct DimensionBalance {
  bool always = false, never = false;
  std::string range = {};
};

DimensionBalance find_dimension_balance(const std::vector<Threshold>& thresholds, const std::string& dim) {
  std::vector<const Threshold*> limits;
  DimensionBalance out;
  for (const Threshold& t : thresholds) {
    if (t.dim != dim || t.roofs[0] != Limiter::compute || t.roofs[1] != Limiter::memory) continue;
    out.always = out.always || t.relation == Relation::always;
    out.never = true;
    if (t.relation == Relation::at_least || t.relation == Relation::at_most) limits.push_back(&t);
  }
  out.never = out.never && !out.always && limits.empty();
  out.range = format_limits(std::move(limits));
  return out;
}

// Returns for which sizes compute time exceeds memory time, by the thresholds of one sum of times: "for B >= 233 or D
// >= 512", "for no B, D". At most `max_ranges` sizes are named.
std::string balance_text(const Report& report, const std::vector<Threshold>& thresholds, std::size_t max_ranges) {
  std::vector<std::string> ranges, always, never;
  bool has_long_range = false;
  for (const std::string& dim : report.explanation.dim_names) {
    if (!is_shown_dim(report, dim)) continue;
    DimensionBalance balance = find_dimension_balance(thresholds, dim);
    if (balance.always) always.push_back(dim);
    if (balance.never) never.push_back(dim);
    if (balance.always || balance.range.empty()) continue;
    if (balance.range.size() > max_range_length)
      has_long_range = true;
    else
      ranges.push_back(std::move(balance.range));
  }
  if (ranges.size() > max_ranges) ranges.resize(max_ranges);
  if (!ranges.empty()) return fmt::format("for {}", fmt::join(ranges, " or "));
  if (!always.empty()) return fmt::format("for every {}", fmt::join(always, ", "));
  return never.empty() || has_long_range ? std::string() : fmt::format("for no {}", fmt::join(never, ", "));
}

// Returns the line with at most `max_ranges` sizes for each question. With `only_sizes` it leaves out questions that no
// size answers.
std::string balance_line(const Report& report, std::size_t max_ranges, bool only_sizes) {
  const Explanation& e = report.explanation;
  std::vector<std::string> parts;
  const auto add = [&](const std::string& question, const std::vector<Threshold>& thresholds) {
    std::string sizes = balance_text(report, thresholds, max_ranges);
    if (!sizes.empty() && !(only_sizes && sizes.starts_with("for no "))) parts.push_back(question + std::move(sizes));
  };
  if (e.ops.size() > 1) add("each product ", e.product_thresholds);
  add(e.ops.size() > 1 ? kernels_text(count_kernels(e)) + " " : "", e.total.thresholds);
  if (e.fused) add("one kernel ", e.fused->thresholds);
  if (parts.empty()) return {};
  return fmt::format("balance  compute time exceeds memory time{} {}\n", e.ops.size() > 1 ? ":" : "",
                     fmt::join(parts, "; "));
}

// "balance  compute time exceeds memory time: each product for B >= 326; 4 kernels for B >= 346; one kernel for B >=
// 300"; times of kernels are summed. Says less if the line becomes too long.
std::string balance_line(const Report& report) {
  for (std::size_t max_ranges = 3; max_ranges > 0; --max_ranges)
    if (std::string line = balance_line(report, max_ranges, false); line.size() <= line_width + 1) return line;
  return balance_line(report, 1, true);
}

// Returns the largest sizes that fit and the number of chips: "; each dimension alone up to B = 69; needs 2 chips".
std::string capacity_text(const Report& report, const MemoryUse& memory) {
  if (!memory.capacity) return {};
  std::string out;
  const bool fits = *memory.peak_bytes <= *memory.capacity;
  std::vector<std::string> limits;
  for (const Threshold& t : memory.capacity_thresholds)
    if (t.value && is_shown_dim(report, t.dim)) limits.push_back(fmt::format("{} = {}", t.dim, *t.value));
  if (!limits.empty())
    out += fmt::format("; {} {}", fits ? "each dimension alone up to" : "fits if reduced to one of",
                       fmt::join(limits, ", "));
  if (!fits && memory.min_chips && *memory.min_chips > 1)
    out += fmt::format("; needs {} chips", group_digits(static_cast<long long>(*memory.min_chips)));
  return out;
}

// "in place m2 for m, w2 for w: 64.00 GB of hbm's 80.00 GB: fits; m2: f32[P] replaces m = ..."
std::string replacement_line(const MemoryUse& memory) {
  constexpr std::size_t max_pairs = 4;
  if (!memory.replaced_peak_bytes || !memory.capacity || *memory.peak_bytes <= *memory.capacity) return {};
  std::vector<std::string> pairs;
  for (const MemoryUse::Replacement& each : memory.possible_replacements)
    if (pairs.size() < max_pairs) pairs.push_back(fmt::format("{} for {}", each.result, each.input));
  const std::size_t others = memory.possible_replacements.size() - pairs.size();
  constexpr std::size_t max_length = 40;
  return fmt::format("in place {}{}: {}; '{} replaces {} = ...' says so\n",
                     truncate_text(fmt::format("{}", fmt::join(pairs, ", ")), max_length),
                     others > 0 ? fmt::format(" and {} more", others) : "",
                     memory_use_text(*memory.replaced_peak_bytes, memory), memory.possible_replacements.front().result,
                     memory.possible_replacements.front().input);
}

// "memory   2.835 GB of hbm's 80.00 GB: fits; each dimension alone up to B = 69, S = 17439"
std::string memory_line(const Report& report) {
  const auto& memory_use = report.explanation.memory;
  if (!memory_use || !memory_use->peak_bytes) return {};
  std::string out = "memory   " + memory_use_text(*memory_use->peak_bytes, *memory_use);
  if (!report.layers) out += capacity_text(report, *memory_use);
  if (memory_use->capacity && memory_use->parameter_count && *memory_use->parameter_count > 0)
    out += fmt::format("; {} parameters", short_count(*memory_use->parameter_count));
  return out + "\n" + (report.layers ? "" : replacement_line(*memory_use));
}

// Returns the names and bytes of the inputs with a use: "caches keys, values 16.78 MB".
std::string inputs_of_use(const MemoryUse& memory, InputUse use, std::string_view heading) {
  constexpr std::size_t max_names = 4, max_length = 30;
  std::vector<std::string> names;
  double bytes = 0;
  bool is_known = true;
  std::size_t count = 0;
  for (const TensorMemory& tensor : memory.tensors) {
    if (tensor.role != TensorRole::input || tensor.use != use) continue;
    if (++count <= max_names) names.push_back(tensor.name);
    is_known = is_known && tensor.device_bytes;
    bytes += tensor.device_bytes.value_or(0);
  }
  if (count == 0) return {};
  std::string out = fmt::format("{} {}", heading, truncate_text(fmt::format("{}", fmt::join(names, ", ")), max_length));
  if (count > max_names) out += fmt::format(" and {} more", count - max_names);
  return is_known ? out + " " + format_with_prefix(bytes, "B") : out;
}

// "inputs   parameters gate, up, down 352.3 MB; caches keys, values 16.78 MB; activations x 131.1 kB"
std::string inputs_line(const Report& report) {
  const auto& memory = report.explanation.memory;
  if (!memory) return {};
  std::vector<std::string> parts;
  for (const auto& [use, heading] : {std::pair{InputUse::parameter, "parameters"}, std::pair{InputUse::cache, "caches"},
                                     std::pair{InputUse::state, "state"}})
    if (std::string part = inputs_of_use(*memory, use, heading); !part.empty()) parts.push_back(std::move(part));
  if (parts.empty()) return {};
  if (std::string part = inputs_of_use(*memory, InputUse::activation, "activations"); !part.empty())
    parts.push_back(std::move(part));
  return fmt::format("inputs   {}\n", fmt::join(parts, "; "));
}

// "layers   80 of these: at least 41.20 ms (perfect overlap); 136.9 GB of hbm's 80.00 GB: ...; needs 2 chips"
std::string layers_line(const Report& report) {
  const auto& layers = report.layers;
  if (!layers || !layers->time_lower_s) return {};
  std::string out = fmt::format("layers   {} of these: ", layers->count);
  if (layers->predicted_s)
    out += fmt::format("{} predicted, {} .. {}", format_with_prefix(layers->predicted_s->expected, "s"),
                       format_with_prefix(layers->predicted_s->low, "s"),
                       format_with_prefix(layers->predicted_s->high, "s"));
  else
    out += fmt::format("at least {} (perfect overlap)", format_with_prefix(*layers->time_lower_s, "s"));
  if (!layers->memory || !layers->memory->peak_bytes) return out + "\n";
  const MemoryUse& memory = *layers->memory;
  return out + "; " + memory_use_text(*memory.peak_bytes, memory) + capacity_text(report, memory) + "\n" +
         replacement_line(memory);
}

// Returns the summary of a program whose times are unknown, because dimensions have no value.
std::string unknown_sizes_text(const Report& report, const TextStyler& styled) {
  const Explanation& e = report.explanation;
  std::vector<std::string> open;
  for (const std::string& dim : e.dim_names)
    if (!e.dims.contains(dim)) open.push_back(dim);
  if (open.empty()) return {};
  std::string out = styled.bold(fmt::format("no times yet: {} {} no value", fmt::join(open, ", "),
                                            open.size() == 1 ? "has" : "have")) +
                    fmt::format("; -d {}=16 sets {}\n", open.front(), open.size() == 1 ? "it" : "the first");
  out += balance_line(report);
  if (const auto& memory_use = e.memory; memory_use && memory_use->parameter_bytes && *memory_use->parameter_bytes > 0)
    out += "memory   parameters only: " + memory_use_text(*memory_use->parameter_bytes, *memory_use) + "\n";
  return out + inputs_line(report);
}

std::string gain_text(const NextStep& step) {
  if (!step.gain_s) return {};
  const double current_s = *step.time_s + *step.gain_s;
  if (*step.gain_s < 0.0005 * current_s) return "saves nothing";
  return fmt::format("{} -> {}, -{}", format_with_prefix(current_s, "s"), format_with_prefix(*step.time_s, "s"),
                     format_percent(*step.gain_s / current_s));
}

// Returns the options that follow the program on the command line.
std::string options_text(const NextStep& step) {
  std::string out = step.options;
  for (const auto& [dim, value] : step.dims) out += fmt::format("{}-d {}={}", out.empty() ? "" : " ", dim, value);
  return out;
}

std::vector<const SuggestedStep*> choose_shown_steps(const std::vector<SuggestedStep>& steps) {
  std::vector<const SuggestedStep*> out;
  std::size_t gains = 0, sizes = 0;
  for (const SuggestedStep& each : steps)
    if (each.step.gain_s ? gains++ < max_gains : sizes++ < max_sizes) out.push_back(&each);
  return out;
}

// Amount of detail: the whole command, only its options, or also only the percentage of the gain.
enum class StepDetail { full_command, options, percentage };

TextRows next_step_rows(const std::vector<const SuggestedStep*>& steps, StepDetail detail) {
  TextRows rows;
  for (const SuggestedStep* each : steps) {
    std::string command = each->command, gain = gain_text(each->step);
    if (detail != StepDetail::full_command) {
      const std::string options = options_text(each->step);
      command = options.empty() ? "see ridge advise" : "... " + options;  // another program has no options
    }
    if (const std::size_t comma = gain.find(", -"); detail == StepDetail::percentage && comma != std::string::npos)
      gain = gain.substr(comma + 2);
    rows.push_back({rows.empty() ? "next   " : "", truncate_text(each->step.description, 48), gain, command});
  }
  return rows;
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    longest = std::max(longest, count_characters(std::string_view(text).substr(at, text.find('\n', at) - at)));
  return longest;
}

std::string next_steps_text(const Report& report, const TextStyler& styled) {
  const std::vector<const SuggestedStep*> steps = choose_shown_steps(report.next_steps);
  if (steps.empty()) return {};
  const std::vector<bool> left(4, false);
  const std::vector<std::string> names{"", "next step", "gain", "options"};
  const std::size_t max_width = styled.line_width() > 0 ? std::min(styled.line_width(), line_width) : line_width;
  const std::string full_table = align_columns(next_step_rows(steps, StepDetail::full_command), left);
  const bool one_line_each = std::count(full_table.begin(), full_table.end(), '\n') == static_cast<long>(steps.size());
  if (one_line_each && longest_line(full_table) <= max_width) return full_table;
  const TextRows with_options = next_step_rows(steps, StepDetail::options);
  const bool fits = styled.line_width() == 0 || longest_line(align_columns(with_options, left)) <= styled.line_width();
  return styled.format_rows(fits ? with_options : next_step_rows(steps, StepDetail::percentage), left, names);
}

}  // namespace

std::string summary_text(const Report& report, const TextStyler& styled) {
  const Prediction& total = report.explanation.total;
  if (!total.limiter || !total.time_lower_s || !total.time_upper_s) return unknown_sizes_text(report, styled);
  return styled.bold(limiter_line(report)) + largest_line(report) + balance_line(report) + memory_line(report) +
         inputs_line(report) + layers_line(report) + next_steps_text(report, styled) + "\n";
}

}  // namespace ridge

// Times of a language model on machines.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/report/language_model/answer_texts.h"
#include "ridge/report/language_model/comparison.h"
#include "ridge/report/language_model/decoding.h"
#include "ridge/report/model.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

std::string readable_seconds(double seconds) { return format_with_prefix(seconds, "s"); }
std::string readable_bytes(double bytes) { return format_with_prefix(bytes, "B"); }

// The expected time, or the bound if there is no prediction.
double expected_or_bound(const ModelStep& step) { return step.predicted_s ? step.predicted_s->expected : step.bound_s; }

// "24.3 ms at least", "27.1 ms (25.0 to 30.2 ms; at least 24.3 ms)"
std::string time_text(double bound_s, const std::optional<Interval>& predicted_s) {
  if (!predicted_s) return readable_seconds(bound_s) + " at least";
  return fmt::format("{} ({} to {}; at least {})", readable_seconds(predicted_s->expected),
                     readable_seconds(predicted_s->low), readable_seconds(predicted_s->high),
                     readable_seconds(bound_s));
}
std::string time_text(const ModelStep& step) { return time_text(step.bound_s, step.predicted_s); }

std::string machine_text(const ModelOnMachine& x) { return chips_text(x.machine, x.layout.chips(), x.hosts); }

// Shares of the bound by what limits it. Time at the memory's rate is divided in proportion to the bytes. With stages,
// other micro-batches have the shares of the one whose modules are listed.
struct TimeShare {
  std::string_view name;
  double seconds = 0;
};
std::vector<TimeShare> divide_bound(const ModelStep& step) {
  std::vector<TimeShare> shares{{"weights"}, {"cache"}, {"other bytes"}, {"compute"}, {"network"}, {"launches"}};
  for (const ModuleStep& module : step.modules) {
    const double seconds = module.bound_s * static_cast<double>(module.layers);
    if (module.limiter == Limiter::compute) shares[3].seconds += seconds;
    if (module.limiter == Limiter::network) shares[4].seconds += seconds;
    if (module.limiter == Limiter::overhead) shares[5].seconds += seconds;
    if (module.limiter != Limiter::memory || module.bytes <= 0) continue;
    const double s_per_byte = seconds / module.bytes;
    shares[0].seconds += s_per_byte * module.parameter_bytes;
    shares[1].seconds += s_per_byte * module.cache_bytes;
    shares[2].seconds += s_per_byte * (module.bytes - module.parameter_bytes - module.cache_bytes);
  }
  if (step.others_s > 0)
    for (TimeShare& share : shares) share.seconds *= step.bound_s / (step.bound_s - step.others_s);
  return shares;
}

std::string shares_text(const ModelStep& step) {
  std::vector<TimeShare> shares = divide_bound(step);
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TimeShare& a, const TimeShare& b) { return a.seconds > b.seconds; });
  std::string out;
  for (const TimeShare& share : shares)
    if (share.seconds >= 0.0005 * step.bound_s)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", share.name, format_percent(share.seconds / step.bound_s));
  return out;
}

// "4 of 20 layers; 4 micro-batches of up to 8 sequences a data rank, …"; empty for one stage.
std::string stages_text(const ModelStep& step) {
  if (step.stages.size() <= 1) return {};
  const std::int64_t most = step.stages.front().layers, fewest = step.stages.back().layers;
  const double busy_s = static_cast<double>(step.micro_batches) * step.slowest_stage_s;
  return fmt::format("{} of {}{}; {} of {}, {} each in the slowest stage, which is idle {} of the time",
                     step.stages.size(), most == fewest ? "" : fmt::format("{} or ", fewest), count_text(most, "layer"),
                     count_text(step.micro_batches, "micro-batch"), count_text(step.micro_batch, "sequence"),
                     readable_seconds(step.slowest_stage_s), format_percent(std::max(0.0, 1 - busy_s / step.bound_s)));
}

// "; decoding holds up to 59 sequences of 8 192 tokens, or 16 sequences of 30 592 tokens"
std::string limits_text(const ModelOnMachine& x) {
  if (!x.max_batch) return {};
  const bool holds_one = *x.max_batch > 0;
  const std::string first =
      "; decoding holds " + (holds_one ? "up to " + count_text(*x.max_batch, "sequence") : "no sequence");
  if (!x.max_context) return first;
  const bool holds_batch = *x.max_context > 0;
  std::string_view joined_by = holds_one ? "or" : "but";
  if (!holds_batch) joined_by = "and not";
  return fmt::format("{} of {}, {} {} of {}", first, count_text(*x.counts.context, "token"), joined_by,
                     count_text(x.counts.batch, "sequence"),
                     count_text(std::max<std::int64_t>(*x.max_context, 1), "token"));
}

std::string memory_text(const ModelOnMachine& x) {
  const ModelStep& step = x.step();
  std::string out = fmt::format("{} a chip: weights {}, cache {}, activations {}", readable_bytes(x.memory_bytes()),
                                readable_bytes(step.parameter_bytes + x.scale_bytes), readable_bytes(step.cache_bytes),
                                readable_bytes(step.activation_bytes));
  if (x.speculation && !x.speculation->draft.empty())
    out +=
        fmt::format(", draft {}", readable_bytes(x.speculation->draft_weight_bytes + x.speculation->draft_cache_bytes));
  if (x.capacity_bytes)
    out += fmt::format("; {} in {}", x.fits() ? "fits" : "DOES NOT FIT", readable_bytes(*x.capacity_bytes));
  if (x.capacity_bytes && x.fits() && x.memory_bytes() > 0.9 * *x.capacity_bytes)
    out += " with less than 10 % left for prefill and the engine";
  return out + limits_text(x);
}

// "24.3 ms (20.1 to 30.2 ms)"
std::string interval_text(const Interval& x) {
  return fmt::format("{} ({} to {})", readable_seconds(x.expected), readable_seconds(x.low), readable_seconds(x.high));
}

// "2 images of 896 x 896 pixels take 3.2 ms at least: 12.3 TFLOP, 4 096 patches and 256 tokens each"
std::string images_text(const ImageStep& x) {
  const std::int64_t patches = x.image.patches_per_side * x.image.patches_per_side;
  return fmt::format("{0} of {1} x {1} pixels {2} {3}: {4}; {5} and {6} each", count_text(x.images_per_chip, "image"),
                     x.image.image_size, x.images_per_chip == 1 ? "takes" : "take", time_text(x.step),
                     format_with_prefix(x.step.flops, "FLOP"),
                     patches == 1 ? "1 patch" : fmt::format("{} patches", group_digits(patches)),
                     count_text(x.image.tokens, "token"));
}

// "1 clip takes 3.2 ms at least: 12.3 TFLOP; 3 000 frames become 1 500 vectors"
std::string audio_text(const AudioStep& x) {
  return fmt::format("{} {} {}: {}; {} become {}", count_text(x.clips_per_chip, "clip"),
                     x.clips_per_chip == 1 ? "takes" : "take", time_text(x.step),
                     format_with_prefix(x.step.flops, "FLOP"), count_text(x.frames, "frame"),
                     count_text(x.vectors, "vector"));
}

// "after 33.8 ms at least (1 024 tokens of one sequence, with 2 images)"
std::string first_token_text(const ModelOnMachine& x) {
  const bool is_one = x.prefill_sequences == 1;
  std::string images;
  if (x.images) images = fmt::format(", with {}{}", count_text(x.images->images, "image"), is_one ? "" : " each");
  return fmt::format("after {} ({} of {} sequence{}{})",
                     time_text(x.first_token_bound_s(), x.first_token_predicted_s()),
                     count_text(*x.counts.context, "token"), is_one ? "one" : group_digits(x.prefill_sequences),
                     is_one ? "" : "s", images);
}

std::string served_text(const ServedTimes& x) {
  const std::string waiting = x.batch == x.requests ? ""
                                                    : fmt::format("; the memory holds {} of {} requests, others wait",
                                                                  group_digits(x.batch), group_digits(x.requests));
  return fmt::format("{} per token, {} to the first token, {} tokens/s of output ({}, {} each{}){}",
                     interval_text(x.token_s), interval_text(x.first_token_s), rate_text(x.tokens_per_s),
                     name(x.engine), count_text(x.output_tokens, "token"),
                     x.source.empty() ? "" : ", constants of " + x.source, waiting);
}

std::string phase_line(const ModelOnMachine& x) {
  const double seconds = expected_or_bound(x.step());
  const double rate = static_cast<double>(x.tokens()) / seconds;
  if (x.phase == ModelPhase::prefill)
    return fmt::format("prefill of {} of {} takes {}: {} tokens/s", count_text(x.prefill_sequences, "sequence"),
                       count_text(*x.counts.context, "token"), time_text(x.prefill), rate_text(rate));
  return fmt::format("a token of {}{} takes {}: {} tokens/s{}", x.counts.batch == 1 ? "" : "each of ",
                     count_text(x.counts.batch, "sequence"), time_text(x.decode), rate_text(rate),
                     x.counts.batch == 1 ? "" : fmt::format(", {} a sequence", rate_text(1 / seconds)));
}

// Returns the expected time of one micro-batch in all stages.
double sum_predicted_modules(const ModelStep& step) {
  double seconds = 0;
  for (const ModuleStep& module : step.modules)
    if (module.predicted_s) seconds += static_cast<double>(module.layers) * module.predicted_s->expected;
  return seconds;
}

std::string modules_table(const ModelOnMachine& x, const TextStyle& style) {
  const ModelStep& step = x.step();
  Cells cells{{"part", "module", "layers", "of time", "work", "bytes", "limiter", "bound"}};
  if (step.predicted_s) cells[0].emplace_back("expected");
  const double total = expected_or_bound(step);
  const auto add_row = [&](const std::string& part, const std::string& module, std::int64_t layers, double flops,
                           double bytes, std::string_view limiter, double bound, const std::optional<Interval>& time) {
    const double seconds = time ? time->expected : bound;
    cells.push_back({part, module, layers > 0 ? group_digits(layers) : "", format_percent(seconds / total),
                     format_with_prefix(flops, "FLOP"), readable_bytes(bytes), std::string(limiter),
                     readable_seconds(bound)});
    if (step.predicted_s) cells.back().push_back(time ? readable_seconds(time->expected) : "-");
  };
  for (const ModuleStep& m : step.modules) {
    const double layers = static_cast<double>(m.layers);
    std::optional<Interval> time;
    if (m.predicted_s) time = Interval{0, layers * m.predicted_s->expected, 0};
    add_row(m.part, m.module, m.layers, layers * m.flops, layers * m.bytes, name(m.limiter), layers * m.bound_s, time);
  }
  if (step.others_s > 0) {
    const double expected_s = total - (step.predicted_s ? sum_predicted_modules(step) : step.bound_s - step.others_s);
    std::optional<Interval> time;
    if (step.predicted_s) time = Interval{0, expected_s, 0};
    add_row("stages", "other micro-batches", 0, 0, 0, "", step.others_s, time);
  }
  add_row("total", "", 0, step.flops, step.bytes, "", step.bound_s, step.predicted_s);
  return text_table(
      cells,
      {.right = {false, false, true, true, true, true, false, true, true}, .omit_first = {"work", "bytes", "limiter"}},
      style);
}

// Time as bound and prediction.
Json time_json(double bound_s, const std::optional<Interval>& predicted_s) {
  Json out{{"bound", bound_s}, {"low", nullptr}, {"expected", nullptr}, {"high", nullptr}};
  if (predicted_s) out.update(interval_json(*predicted_s));
  return out;
}
Json time_json(const ModelStep& step) { return time_json(step.bound_s, step.predicted_s); }

// Tokens per second at the bound and at the predicted times.
Json rate_json(double tokens, const ModelStep& step) {
  Json out{{"bound", tokens / step.bound_s}, {"low", nullptr}, {"expected", nullptr}, {"high", nullptr}};
  if (const auto& x = step.predicted_s)
    out.update(Json{{"low", tokens / x->high}, {"expected", tokens / x->expected}, {"high", tokens / x->low}});
  return out;
}

Json served_json(const ServedTimes& x) {
  Json out{{"engine", name(x.engine)},
           {"output_tokens", x.output_tokens},
           {"requests", x.requests},
           {"batch", x.batch},
           {"tpot_s", interval_json(x.token_s)},
           {"ttft_s", interval_json(x.first_token_s)},
           {"output_tokens_per_s", x.tokens_per_s},
           {"constants_file", or_null(std::string_view(x.source))},
           {"constants", Json::object()}};
  for (const auto& constant : named_serving_constants())
    out["constants"][std::string(constant.name)] = x.constants.*constant.member;
  return out;
}

Json module_json(const ModuleStep& m) {
  return {{"name", m.module},
          {"layer", m.part},
          {"count", m.layers},
          {"flops", m.flops},
          {"bytes", m.bytes},
          {"parameter_bytes", m.parameter_bytes},
          {"cache_bytes", m.cache_bytes},
          {"bytes_sent", m.bytes_sent},
          {"limiter", name(m.limiter)},
          {"time_lower_s", m.bound_s},
          {"predicted_s", m.predicted_s ? interval_json(*m.predicted_s) : Json(nullptr)}};
}

Json images_json(const ImageStep& x) {
  Json out{{"images", x.images},
           {"image_size", x.image.image_size},
           {"tokens_per_image", x.image.tokens},
           {"images_per_chip", x.images_per_chip},
           {"time_s", time_json(x.step)},
           {"flops", x.step.flops},
           {"bytes", x.step.bytes},
           {"ops", Json::array()}};
  for (const ModuleStep& module : x.step.modules) out["ops"].push_back(module_json(module));
  return out;
}

Json audio_json(const AudioStep& x) {
  Json out{{"frames", x.frames},          {"vectors", x.vectors},  {"clips_per_chip", x.clips_per_chip},
           {"time_s", time_json(x.step)}, {"flops", x.step.flops}, {"bytes", x.step.bytes},
           {"ops", Json::array()}};
  for (const ModuleStep& module : x.step.modules) out["ops"].push_back(module_json(module));
  return out;
}

Json stage_json(const StageStep& stage) {
  return {{"first_layer", stage.first_layer}, {"layers", stage.layers},
          {"time_lower_s", stage.bound_s},    {"weight_bytes", stage.parameter_bytes + stage.scale_bytes},
          {"cache_bytes", stage.cache_bytes}, {"activation_bytes", stage.activation_bytes}};
}

Json pipeline_json(const ModelStep& step) {
  Json out{{"micro_batches", step.micro_batches},
           {"micro_batch", step.micro_batch},
           {"slowest_stage_s", step.slowest_stage_s},
           {"others_s", step.others_s},
           {"stages", Json::array()}};
  for (const StageStep& stage : step.stages) out["stages"].push_back(stage_json(stage));
  return out;
}

Json break_even_json(const BreakEven& x) { return {{"machine", x.better}, {"other", x.other}, {"batch", x.batch}}; }

Json machine_json(const ModelOnMachine& x) {
  if (!x.unavailable.empty()) return {{"machine", x.machine}, {"unavailable", x.unavailable}};
  const ModelStep& step = x.step();
  // Each chip computes all micro-batches of one stage; the step has one micro-batch in all stages.
  const double per_chip = static_cast<double>(step.micro_batches) / static_cast<double>(x.layout.pipeline);
  Json out{
      {"machine", x.machine},
      {"phase", name(x.phase)},
      {"weight_dtype", dtype_name(x.counts.weight_dtype)},
      {"context_tokens", *x.counts.context},
      {"batch", x.counts.batch},
      {"rate_tokens_per_s", or_null(x.rate)},
      {"layout", {{"tp", x.layout.tensor}, {"pp", x.layout.pipeline}, {"ep", x.layout.expert}, {"dp", x.layout.data}}},
      {"time_s", time_json(step)},
      {"tokens_per_s", rate_json(static_cast<double>(x.tokens()), step)},
      {"ttft_s", time_json(x.first_token_bound_s(), x.first_token_predicted_s())},
      {"tpot_s", time_json(x.decode)},
      {"per_chip",
       {{"weight_bytes", step.parameter_bytes + x.scale_bytes},
        {"cache_bytes", step.cache_bytes},
        {"activation_bytes", step.activation_bytes},
        {"capacity_bytes", or_null(x.capacity_bytes)},
        {"fits", x.fits()},
        {"max_batch", or_null(x.max_batch)},
        {"max_context_tokens", or_null(x.max_context)},
        {"flops", per_chip * step.flops},
        {"bytes", per_chip * step.bytes},
        {"bytes_sent", per_chip * step.bytes_sent}}},
      {"hosts", or_null(x.hosts)},
      {"kernels", step.kernels},
      {"shares", Json::object()},
      {"not_on_record", x.not_on_record},
      {"missing", or_null(std::string_view(step.missing))},
      {"remark", or_null(std::string_view(step.remark))},
      {"ops", Json::array()}};
  for (const TimeShare& share : divide_bound(step))
    out["shares"][std::string(share.name)] = share.seconds / step.bound_s;
  if (x.layout.pipeline > 1) out["pipeline"] = pipeline_json(step);
  if (x.images) out["images"] = images_json(*x.images);
  if (x.audio) out["audio"] = audio_json(*x.audio);
  if (x.served) out["served"] = served_json(*x.served);
  if (x.speculation) out["speculation"] = speculation_json(*x.speculation);
  if (x.price) out["cost"] = token_cost_json(x);
  out["step_notes"] = step.notes;
  for (const ModuleStep& module : step.modules) out["ops"].push_back(module_json(module));
  return out;
}

}  // namespace

std::string render_text(const model::ModelCount& count, const std::vector<ModelOnMachine>& machines,
                        const TextStyle& style) {
  const auto add_line = [&](std::string& out, const std::string& line) {
    if (!line.empty()) out += wrap_words(line, style.line_width, 2) + "\n";
  };
  std::string out;
  if (machines.size() > 1) {
    add_line(out, comparison_line(count, machines));
    out += machines_table(machines, style);
    for (const std::string& line : list_break_evens(machines)) add_line(out, line);
    for (const std::string& caveat : list_caveats(machines)) add_line(out, caveat);
    return out;
  }
  const ModelOnMachine& x = machines.front();
  const std::string subject =
      fmt::format("{} on {}{}", count.name, machine_text(x), x.fits() ? "" : ", whose memory is too small");
  const std::string missed_rate =
      x.reaches_rate() ? "" : fmt::format("; {} tokens/s a sequence are not reached", rate_text(*x.rate, 4));
  if (x.speculation) {
    add_line(out, fmt::format("{}: {}", subject, speculation_text(x)));
    add_line(out, "speculation  " + speculation_details_text(x));
    for (const std::string& note : x.speculation->notes) add_line(out, note);
  }
  add_line(out, x.speculation ? "without speculation  " + phase_line(x)
                              : fmt::format("{}: {}{}", subject, phase_line(x), missed_rate));
  if (x.phase == ModelPhase::decode) add_line(out, "first token  " + first_token_text(x));
  if (x.images) add_line(out, "images  on one chip, " + images_text(*x.images));
  if (x.audio) add_line(out, "audio  on one chip, " + audio_text(*x.audio));
  if (x.served) add_line(out, "served  " + served_text(*x.served));
  if (x.price) add_line(out, "cost  " + token_cost_text(x));
  add_line(out, "memory  " + memory_text(x));
  if (const std::string stages = stages_text(x.step()); !stages.empty()) add_line(out, "stages  " + stages);
  add_line(out, "bound  " + shares_text(x.step()));
  if (!x.fits())
    add_line(out, x.audio ? "too large  for these chips"
                          : "too large  for these chips; --chips 64 --best also divides layers, sequences and experts");
  if (!x.reaches_rate())
    add_line(out, fmt::format("too slow  for {} tokens/s a sequence; these chips come closest", rate_text(*x.rate, 4)));
  for (const std::string& caveat : list_caveats(machines)) add_line(out, caveat);
  if (!x.step().missing.empty()) add_line(out, "without  " + x.step().missing);
  out += "\n" + modules_table(x, style);
  if (x.layout.pipeline > 1) add_line(out, "the table has one micro-batch in all stages");
  if (!x.step().remark.empty()) add_line(out, x.step().remark);
  for (const std::string& note : count.notes) add_line(out, note);
  for (const std::string& note : x.step().notes) add_line(out, note);
  return out;
}

std::string render_table_json(const std::vector<ModelOnMachine>& machines) {
  Json out{{"machines", Json::array()}};
  for (const ModelOnMachine& machine : machines) {
    out["machines"].push_back(machine_json(machine));
    for (const char* list : {"ops", "step_notes", "not_on_record", "pipeline"}) out["machines"].back().erase(list);
  }
  return out.dump();
}

std::string render_json(const model::ModelCount& count, const std::vector<ModelOnMachine>& machines) {
  Json out = model_count_json(count);
  if (machines.size() == 1) {
    out.update(machine_json(machines.front()));
  } else {
    out["machines"] = Json::array();
    for (const ModelOnMachine& machine : machines) {
      out["machines"].push_back(machine_json(machine));
      if (!machine.break_even) continue;
      (machines.size() == 2 ? out : out["machines"].back())["break_even"] = break_even_json(*machine.break_even);
    }
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ridge

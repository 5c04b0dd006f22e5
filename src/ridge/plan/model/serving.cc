#include "ridge/plan/model/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ridge/base/ceil_div.h"
#include "ridge/base/check.h"
#include "ridge/base/contains.h"
#include "ridge/plan/model/machine.h"

namespace ridge {
namespace {

constexpr std::int64_t max_output_tokens = std::int64_t{1} << 24;
// Tokens of a step of prefill in which reading the weights takes a small part of the time.
constexpr std::int64_t joining_tokens = 1 << 15;

constexpr NamedNumber<ServingConstants> constant_fields[] = {
    {"layer", &ServingConstants::layer_s},
    {"expert_layer", &ServingConstants::expert_layer_s},
    {"sequence", &ServingConstants::sequence_s},
    {"prefill", &ServingConstants::prefill_factor},
    {"expert_prefill", &ServingConstants::expert_prefill_factor},
    {"queued", &ServingConstants::queued_share},
    {"first_token_steps", &ServingConstants::first_token_steps},
    {"start", &ServingConstants::start_s},
    {"vllm_start", &ServingConstants::vllm_start_s},
    {"memory", &ServingConstants::memory_share},
    {"token_low", &ServingConstants::token_low},
    {"token_high", &ServingConstants::token_high},
    {"first_token_low", &ServingConstants::first_token_low},
    {"first_token_high", &ServingConstants::first_token_high},
};

// Bounds of a step, in which routed experts have their own.
struct StepBound {
  double seconds = 0, experts_s = 0;
};

StepBound split_bound(const ModelStep& step) {
  StepBound out{.seconds = step.bound_s};
  for (const ModuleStep& module : step.modules)
    if (module.module == "experts") out.experts_s += static_cast<double>(module.layers) * module.bound_s;
  out.seconds -= out.experts_s;
  return out;
}

// Returns the step in which `new_tokens` of each sequence are new.
Result<ModelStep> predict_step(const model::ModelConfig& config, const ModelRequest& request, std::int64_t batch,
                               std::int64_t new_tokens, std::int64_t context, const Machine& machine) {
  const model::StepOptions options{.weight_dtype = request.counts.weight_dtype,
                                   .cache_dtype = request.counts.cache_dtype,
                                   .batch = batch,
                                   .new_tokens = new_tokens,
                                   .context = context,
                                   .layout = {.tensor = *request.tensor_parallel}};
  RIDGE_TRY(programs, model::write_programs(config, options));
  return predict_model_step(programs, machine);
}

// Adds the time of prefill, alone and joining a large step.
Status add_prompts(const model::ModelConfig& config, const ModelRequest& request, const Machine& machine,
                   ServingWork& out) {
  const std::int64_t prompt = *request.counts.context, several = ceil_div(joining_tokens, prompt);
  const auto bound = [&](std::int64_t prompts) -> Result<StepBound> {
    RIDGE_TRY(step, predict_step(config, request, prompts, prompt, prompt, machine));
    return split_bound(step);
  };
  RIDGE_TRY(one, bound(1));
  RIDGE_TRY(some, bound(several));
  RIDGE_TRY(twice, bound(2 * several));
  const double count = static_cast<double>(several);
  out.prompt_s = one.seconds;
  out.prompt_experts_s = one.experts_s;
  out.joining_s = (twice.seconds - some.seconds) / count;
  out.joining_experts_s = (twice.experts_s - some.experts_s) / count;
  return Done{};
}

// Returns how many sequences of prompt and output the memory holds, or nullopt if its capacity is not on record.
Result<std::optional<std::int64_t>> count_requests_in_memory(const model::ModelConfig& config, ModelRequest request,
                                                             const Machine& machine) {
  *request.counts.context += request.serving->output_tokens;
  request.serving = {};
  request.counts.batch = 1;
  request.phase = ModelPhase::decode;
  request.plan = {};
  RIDGE_TRY(answer, predict_model(config, request, machine));
  return answer.max_batch;
}

Interval spread(double expected, double low, double high, double bound) {
  return {std::max(bound, low * expected), expected, high * expected};
}

}  // namespace

namespace {

Status check_ranges(const ServingConstants& constants, const std::string& source) {
  for (const NamedNumber<ServingConstants>& each : constant_fields)
    if (const double value = constants.*each.member; !(value >= 0 && value < 1e6))
      return input_error(fmt::format("'{}': expected {} from 0 to 1e6, found {}", source, each.name, value));
  if (!(constants.memory_share > 0 && constants.memory_share <= 1))
    return input_error(
        fmt::format("'{}': expected memory above 0 and up to 1, found {}", source, constants.memory_share));
  for (const auto& [name, low, high] : {std::tuple{"token", constants.token_low, constants.token_high},
                                        {"first_token", constants.first_token_low, constants.first_token_high}})
    if (!(low > 0 && low <= high))
      return input_error(fmt::format("'{0}': expected {1}_low above 0 and up to {1}_high, found {2} and {3}", source,
                                     name, low, high));
  return Done{};
}

}  // namespace

std::string_view name(ServingEngine engine) {
  if (engine == ServingEngine::vllm) return "vllm";
  return engine == ServingEngine::sglang ? "sglang" : "trtllm";
}

std::span<const NamedNumber<ServingConstants>> named_serving_constants() { return constant_fields; }

Result<ServingConstants> parse_serving_constants(std::string_view csv, const std::string& source) {
  RIDGE_TRY(out, parse_named_numbers(named_serving_constants(), csv, source));
  RIDGE_TRY_STATUS(check_ranges(out, source));
  return out;
}

const ServingConstants& serving_constants() {
  static const ServingConstants all = [] {
    const auto parsed = parse_serving_constants(serving_csv(), "data/models/serving.csv");
    RIDGE_CHECK(parsed, parsed.error().to_string());
    return *parsed;
  }();
  return all;
}

Status set_requests(const model::ModelConfig& config, const ModelRequest& request, const Machine& machine,
                    ServingWork& work) {
  const std::int64_t prompt = *request.counts.context;
  work.requests = work.batch = request.counts.batch;
  if (work.held) {
    const double usable = request.serving->used_constants().memory_share * static_cast<double>(*work.held);
    work.batch = std::min(work.requests, static_cast<std::int64_t>(usable));
  }
  if (work.batch < 1)
    return input_error(fmt::format("the memory of {} x {} holds no request of {} tokens", *request.tensor_parallel,
                                   machine.name, prompt + work.output_tokens),
                       "divide the model among more chips: --tp");
  const std::int64_t halfway = prompt + (work.output_tokens + 1) / 2;
  RIDGE_TRY(decode, predict_step(config, request, work.batch, 1, halfway, machine));
  work.decode_s = decode.bound_s - decode.network_s;
  return Done{};
}

Result<ServingWork> count_serving_work(const model::ModelConfig& config, const ModelRequest& request,
                                       const Machine& machine) {
  const ServingRequest& serving = *request.serving;
  if (serving.output_tokens < 1 || serving.output_tokens > max_output_tokens)
    return input_error(
        fmt::format("expected --output-tokens from 1 to {}, found {}", max_output_tokens, serving.output_tokens));
  const std::int64_t prompt = *request.counts.context;
  if (config.learned_positions > 0 && prompt + serving.output_tokens > config.learned_positions)
    return input_error(
        fmt::format("{}: expected --context and --output-tokens of at most {} together, the positions "
                    "that the model has, found {}",
                    config.name, config.learned_positions, prompt + serving.output_tokens));
  ServingWork out{.output_tokens = serving.output_tokens,
                  .layers = static_cast<std::int64_t>(config.layers.size()),
                  .engine = serving.engine};
  out.expert_layers = std::count_if(config.layers.begin(), config.layers.end(),
                                    [](const model::LayerConfig& layer) { return layer.has_experts; });
  RIDGE_TRY(held, count_requests_in_memory(config, request, machine));
  out.held = held;
  RIDGE_TRY_STATUS(set_requests(config, request, machine, out));
  RIDGE_TRY_STATUS(add_prompts(config, request, machine, out));
  return out;
}

ServedTimes predict_serving(const ServingWork& work, const ServingConstants& c) {
  const double requests = static_cast<double>(work.requests), batch = static_cast<double>(work.batch);
  const double outputs = static_cast<double>(work.output_tokens);
  const double step = work.decode_s + c.layer_s * static_cast<double>(work.layers) +
                      c.expert_layer_s * static_cast<double>(work.expert_layers) + c.sequence_s * batch;
  const double joining = c.prefill_factor * work.joining_s + c.expert_prefill_factor * work.joining_experts_s;
  const double prompt = c.prefill_factor * work.prompt_s + c.expert_prefill_factor * work.prompt_experts_s;
  // While a request receives its tokens, each other request of the batch ends once and a new prompt takes its place.
  const double token = step + (batch - 1) / outputs * joining;
  const double start = work.engine == ServingEngine::vllm ? c.vllm_start_s : c.start_s;
  // Requests that the memory does not hold wait until others end (Little's law).
  const double waiting = (requests - batch) / batch * outputs * token;
  const double first = start + prompt + c.queued_share * (batch - 1) * joining + c.first_token_steps * token + waiting;
  return {.engine = work.engine,
          .output_tokens = work.output_tokens,
          .requests = work.requests,
          .batch = work.batch,
          .token_s = spread(token, c.token_low, c.token_high, work.decode_s),
          .first_token_s = spread(first, c.first_token_low, c.first_token_high, work.prompt_s + work.prompt_experts_s),
          .tokens_per_s = requests * outputs / (first + outputs * token),
          .constants = c};
}

Result<ServedTimes> predict_served_model(const model::ModelConfig& config, const ModelRequest& request,
                                         const Machine& machine) {
  if (!request.serving->constants && !contains(measured_serving_machines, machine.name))
    return input_error(fmt::format("no engine was measured on {}; served times are known on {}", machine.name,
                                   fmt::join(measured_serving_machines, " and ")),
                       "leave out --serve for the bound, or give constants: --serving FILE");
  RIDGE_TRY(work, count_serving_work(config, request, machine));
  ServedTimes out = predict_serving(work, request.serving->used_constants());
  out.source = request.serving->source;
  return out;
}

}  // namespace ridge

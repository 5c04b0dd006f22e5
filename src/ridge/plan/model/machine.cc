#include "ridge/plan/model/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ridge/base/ceil_div.h"
#include "ridge/plan/model/layout_predictor.h"
#include "ridge/roofline/roofs.h"

namespace ridge {
namespace {

constexpr std::int64_t max_chips_tried = 64, max_chips_at_rate = 16, max_tokens = std::int64_t{1} << 32,
                       max_sequences = 1 << 24;

// The question with its predictors. Chips are chosen by bounds, which take less time than plans.
struct Question {
  const model::ModelConfig& config;
  const Machine& machine;
  LayoutPredictor &predictor, &bounds;
};

// `tensor` is the number of chips of tensor parallelism, here and below.
model::ChipLayout make_layout(const ModelRequest& request, std::int64_t tensor) {
  return {tensor, request.expert_parallel, request.data_parallel, request.pipeline_parallel};
}

// Returns the largest number from 0 to `limit` whose bytes fit, for bytes that grow with the number.
template <class CountBytes>
Result<std::int64_t> find_largest(std::int64_t limit, double free, CountBytes&& count_bytes) {
  std::int64_t fits = 0, exceeds = limit + 1;
  while (exceeds - fits > 1) {
    const std::int64_t middle = fits + (exceeds - fits) / 2;
    const Result<double> bytes = count_bytes(middle);
    RIDGE_TRY_STATUS(bytes);
    (*bytes <= free ? fits : exceeds) = middle;
  }
  return fits;
}

// Solves for the batch and the context that one stage holds. A sequence's activations in decoding do not depend on its
// context.
Status solve_limits(const model::ModelConfig& config, const ModelRequest& request, const StageStep& stage,
                    ModelOnMachine& out) {
  const double free = *out.capacity_bytes - stage.parameter_bytes - stage.scale_bytes;
  const std::int64_t ranks = request.data_parallel;
  const auto of_rank = static_cast<double>(ceil_div(request.counts.batch, ranks));
  model::ModelConfig layers = config;
  layers.layers.assign(config.layers.begin() + stage.first_layer,
                       config.layers.begin() + stage.first_layer + stage.layers);
  RIDGE_TRY(whole, model::count_model(layers, request.counts));
  const double per_sequence = (stage.cache_bytes + stage.activation_bytes) / of_rank;
  const std::int64_t batch =
      ranks * static_cast<std::int64_t>(std::clamp(free / per_sequence, 0.0, static_cast<double>(max_sequences)));
  out.max_batch = std::min(batch, out.max_batch.value_or(batch));
  if (whole.kv_bytes_per_token == 0) return Done{};  // A state is as large for every context
  const std::int64_t positions =
      config.learned_positions > 0 ? std::min(config.learned_positions, max_tokens) : max_tokens;
  RIDGE_TRY(context, find_largest(positions, free - stage.activation_bytes, [&](std::int64_t tokens) -> Result<double> {
              double bytes = 0;
              for (const StageCache& part : stage.caches) {
                layers.layers = {config.layers[static_cast<std::size_t>(part.layer)]};
                model::CountOptions counts = request.counts;
                RIDGE_TRY(now, model::count_cache_bytes(layers, counts));
                counts.context = tokens;
                const auto then = model::count_cache_bytes(layers, counts);
                if (!then) return std::numeric_limits<double>::infinity();  // More bytes than are counted
                bytes += part.bytes / static_cast<double>(now) * static_cast<double>(*then);
              }
              return bytes;
            }));
  out.max_context = std::min(context, out.max_context.value_or(context));
  return Done{};
}

struct SizedStep {
  std::int64_t tensor = 1;
  ModelStep decode;
  double bytes = 0;  // Memory of a chip in the requested phase
};

double count_memory(const ModelStep& step) {
  return step.parameter_bytes + step.scale_bytes + step.cache_bytes + step.activation_bytes;
}

Result<SizedStep> size_step(const Question& question, LayoutPredictor& predictor, const ModelRequest& request,
                            std::int64_t tensor) {
  const model::ChipLayout layout = make_layout(request, tensor);
  RIDGE_TRY(decode, predictor.predict(layout, request.counts.batch, ModelPhase::decode));
  SizedStep out{.tensor = tensor, .decode = std::move(decode)};
  out.bytes = count_memory(out.decode);
  if (request.phase == ModelPhase::decode) return out;
  RIDGE_TRY(prefill, question.bounds.predict(layout, request.counts.batch, ModelPhase::prefill));
  out.bytes = count_memory(prefill);
  return out;
}

// Returns the step on the fewest chips of tensor parallelism that hold it, or on the most that divide the model.
Result<SizedStep> choose_chips(const Question& question, const ModelRequest& request) {
  if (request.tensor_parallel) return size_step(question, question.predictor, request, *request.tensor_parallel);
  const auto& capacity = question.machine.memory.front().capacity;
  RIDGE_TRY(count, model::count_model(question.config, request.counts));
  const double bytes = static_cast<double>(count.weight_bytes + *count.cache_bytes);
  std::optional<SizedStep> found;
  // Fewer chips cannot hold the weights and the cache.
  const double fewest = capacity ? std::min(bytes / capacity->value / static_cast<double>(request.pipeline_parallel),
                                            static_cast<double>(max_chips_tried))
                                 : 1;
  const auto first = std::max<std::int64_t>(1, static_cast<std::int64_t>(fewest));
  for (std::int64_t chips = first; chips <= max_chips_tried; ++chips) {
    auto step = size_step(question, question.bounds, request, chips);
    if (!step && chips == 1) return step.error();
    if (!step) continue;  // These chips do not divide the model
    found = *std::move(step);
    if (!capacity || found->bytes <= capacity->value) break;
  }
  for (std::int64_t chips = first - 1; chips > 0 && !found; --chips)
    if (auto step = size_step(question, question.bounds, request, chips)) found = *std::move(step);
  if (found && !request.plan) return *std::move(found);
  return size_step(question, question.predictor, request, found ? found->tensor : 1);
}

struct BatchChoice {
  std::int64_t tensor = 0, batch = 0;  // Sequences of a data rank; 0 if even one is too slow or does not fit
  double seconds = 0;                  // Time of a token
  double tokens_per_s_per_chip() const { return static_cast<double>(batch) / seconds / static_cast<double>(tensor); }
};

// Returns the choice with this batch, or without one if it is too slow or too large.
Result<BatchChoice> try_batch(const Question& question, ModelRequest request, std::int64_t tensor, std::int64_t batch) {
  request.counts.batch = batch * request.data_parallel;
  RIDGE_TRY(step, size_step(question, question.predictor, request, tensor));
  const double seconds = step.decode.predicted_s ? step.decode.predicted_s->expected : step.decode.bound_s;
  const auto& capacity = question.machine.memory.front().capacity;
  const bool fits = !capacity || step.bytes <= capacity->value;
  return BatchChoice{tensor, fits && seconds * *request.rate <= 1 ? batch : 0, seconds};
}

// Returns the choice with the largest batch. Time and memory grow with the batch.
Result<BatchChoice> find_batch(const Question& question, const ModelRequest& request, std::int64_t tensor) {
  RIDGE_TRY(best, try_batch(question, request, tensor, 1));
  std::int64_t exceeds = 2;
  for (; best.batch > 0 && exceeds * request.data_parallel <= max_sequences; exceeds *= 2) {
    const auto next = try_batch(question, request, tensor, exceeds);
    if (!next || next->batch == 0) break;  // Too slow, too large, or more than is counted
    best = *next;
  }
  exceeds = std::min(exceeds, max_sequences / request.data_parallel + 1);
  while (best.batch > 0 && exceeds - best.batch > 1) {
    const std::int64_t middle = best.batch + (exceeds - best.batch) / 2;
    const auto next = try_batch(question, request, tensor, middle);
    if (next && next->batch > 0)
      best = *next;
    else
      exceeds = middle;
  }
  return best;
}

// Returns the request with the chips and the batch that give the most tokens per second and chip at the rate, or those
// that come closest to it with one sequence.
Result<ModelRequest> choose_batch(const Question& question, ModelRequest request) {
  std::optional<BatchChoice> best;
  const std::int64_t first = request.tensor_parallel.value_or(1),
                     last = request.tensor_parallel.value_or(max_chips_at_rate);
  for (std::int64_t tensor = first; tensor <= last; ++tensor) {
    const auto found = find_batch(question, request, tensor);
    if (!found && tensor == first) return found.error();
    if (!found) continue;  // These chips do not divide the model
    const bool is_better = !best || (best->batch == 0 && (found->batch > 0 || found->seconds < best->seconds)) ||
                           (found->batch > 0 && found->tokens_per_s_per_chip() > best->tokens_per_s_per_chip());
    if (is_better) best = *found;
  }
  request.counts.batch = std::max<std::int64_t>(best->batch, 1) * request.data_parallel;
  request.tensor_parallel = best->tensor;
  return request;
}

// Returns the request with the chips of tensor parallelism that data and expert ranks imply.
ModelRequest complete_request(ModelRequest request) {
  if (!request.tensor_parallel && request.data_parallel > 1) request.tensor_parallel = 1;
  if (!request.tensor_parallel && request.expert_parallel > 1) request.tensor_parallel = request.expert_parallel;
  return request;
}

}  // namespace

std::optional<std::int64_t> count_hosts(const Machine& machine, std::int64_t chips) {
  const auto found = machine.numbers.find("host_chips");
  if (found == machine.numbers.end()) return std::nullopt;
  return ceil_div(chips, static_cast<std::int64_t>(std::llround(found->second.value)));
}

std::vector<std::string> list_times_not_on_record(const Machine& machine, std::int64_t chips) {
  std::vector<std::string> out;
  if (launch_seconds(machine) == 0) out.emplace_back("the time of a launch");
  const bool has_collectives = machine.numbers.contains("collective_call_s");
  if (chips > 1 && !has_collectives && (machine.links.empty() || !machine.links.front().latency))
    out.emplace_back("the latency of its links");
  return out;
}

Result<ModelOnMachine> predict_model(const model::ModelConfig& config, const ModelRequest& asked,
                                     const Machine& machine, CountedChips* shared) {
  RIDGE_TRY_STATUS(machine.memory_bandwidth());
  if (config.audio && (asked.serving || asked.speculation))
    return input_error(
        fmt::format("{}: expected a model without an audio encoder for --serve and --speculate", config.name));
  ModelRequest request = complete_request(asked);
  const model::StepOptions options{.weight_dtype = request.counts.weight_dtype,
                                   .cache_dtype = request.counts.cache_dtype,
                                   .context = *request.counts.context};
  CountedChips own;
  CountedChips* const counted = shared != nullptr || !request.plan ? shared : &own;
  LayoutPredictor predictor(config, options, machine, request.plan, counted),
      bounds(config, options, machine, {}, counted);
  const Question question{config, machine, predictor, request.plan ? bounds : predictor};
  if (request.rate) {
    RIDGE_TRY(chosen, choose_batch(question, request));
    request = chosen;
  }
  RIDGE_TRY(sized, choose_chips(question, request));
  ModelOnMachine out{.machine = machine.name,
                     .counts = request.counts,
                     .phase = request.phase,
                     .layout = make_layout(request, sized.tensor),
                     .rate = request.rate,
                     .price = request.price};
  if (const auto power = machine.numbers.find("power_w"); power != machine.numbers.end())
    out.power_w = power->second.value;
  out.not_on_record = list_times_not_on_record(machine, out.layout.chips());
  out.hosts = count_hosts(machine, out.layout.chips());
  if (machine.memory.front().capacity) out.capacity_bytes = machine.memory.front().capacity->value;
  if (out.capacity_bytes)
    for (const StageStep& stage : sized.decode.stages) RIDGE_TRY_STATUS(solve_limits(config, request, stage, out));
  out.decode = std::move(sized.decode);
  out.prefill_sequences = request.phase == ModelPhase::decode ? request.data_parallel : request.counts.batch;
  RIDGE_TRY(prefill, predictor.predict(out.layout, out.prefill_sequences, ModelPhase::prefill));
  out.prefill = std::move(prefill);
  if (request.images) {
    RIDGE_TRY(images, predict_images(config, *request.images, request.counts, out.prefill_sequences, out.layout,
                                     machine, request.plan));
    out.images = std::move(images);
  }
  if (config.audio) {
    RIDGE_TRY(audio, predict_audio(config, request.counts, out.prefill_sequences, out.layout, machine, request.plan));
    out.audio = std::move(audio);
  }
  out.scale_bytes = out.step().scale_bytes;
  if (request.serving) {
    ModelRequest served = request;
    served.tensor_parallel = out.layout.tensor;
    RIDGE_TRY(times, predict_served_model(config, served, machine));
    out.served = times;
    if (times.batch < request.counts.batch) {
      // Other requests wait, so that the bound is that of a step with those that the memory holds.
      out.counts.batch = times.batch;
      RIDGE_TRY(decode, predictor.predict(out.layout, times.batch, ModelPhase::decode));
      out.decode = std::move(decode);
    }
  }
  if (request.speculation) {
    ModelRequest speculated = request;
    speculated.tensor_parallel = out.layout.tensor;
    RIDGE_TRY(speculation, predict_speculation(config, speculated, machine));
    out.speculation = speculation;
    if (speculation.draft_weight_bytes > 0) out.max_batch = out.max_context = std::nullopt;  // They lack the draft
  }
  return out;
}

}  // namespace ridge

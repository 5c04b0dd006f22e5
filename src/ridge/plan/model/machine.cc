#include "ridge/plan/model/machine.h"

#include <algorithm>
#include <limits>

#include "ridge/base/ceil_div.h"
#include "ridge/model/program.h"
#include "ridge/roofline/roofs.h"

namespace ridge {
namespace {

constexpr std::int64_t max_chips_tried = 64, max_chips_at_rate = 16, max_tokens = std::int64_t{1} << 32,
                       max_sequences = 1 << 24;

// `tensor` is the number of chips of tensor parallelism, here and below.
model::StepOptions make_step_options(const ModelRequest& request, ModelPhase phase, std::int64_t tensor) {
  const std::int64_t context = *request.counts.context;
  return {.weight_dtype = request.counts.weight_dtype,
          .cache_dtype = request.counts.cache_dtype,
          .batch = request.counts.batch,
          .new_tokens = phase == ModelPhase::prefill ? context : 1,
          .context = context,
          .layout = {tensor, request.expert_parallel, request.data_parallel}};
}

Result<ModelStep> predict_phase(const model::ModelConfig& config, const ModelRequest& request, ModelPhase phase,
                                std::int64_t tensor, const Machine& machine) {
  RIDGE_TRY(programs, model::write_programs(config, make_step_options(request, phase, tensor)));
  return predict_model_step(programs, machine, request.plan);
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

// Solves for the batch and the context. A sequence's activations in decoding do not depend on its context.
Status solve_limits(const model::ModelConfig& config, const ModelRequest& request, const ModelStep& decode,
                    ModelOnMachine& out) {
  if (!out.capacity_bytes) return Done{};
  const double free = *out.capacity_bytes - decode.parameter_bytes - out.scale_bytes;
  const std::int64_t ranks = request.data_parallel;
  const auto of_rank = static_cast<double>(ceil_div(request.counts.batch, ranks));
  RIDGE_TRY(whole, model::count_model(config, request.counts));
  // Part of the model's cache that a chip holds
  const double share = decode.cache_bytes / static_cast<double>(*whole.cache_bytes);
  const double per_sequence = (decode.cache_bytes + decode.activation_bytes) / of_rank;
  out.max_batch =
      ranks * static_cast<std::int64_t>(std::clamp(free / per_sequence, 0.0, static_cast<double>(max_sequences)));
  RIDGE_TRY(context,
            find_largest(max_tokens, free - decode.activation_bytes, [&](std::int64_t tokens) -> Result<double> {
              model::CountOptions counts = request.counts;
              counts.context = tokens;
              const auto count = model::count_model(config, counts);
              if (!count) return std::numeric_limits<double>::infinity();  // More bytes than are counted
              return share * static_cast<double>(*count->cache_bytes);
            }));
  out.max_context = context;
  return Done{};
}

struct SizedStep {
  std::int64_t tensor = 1;
  ModelStep decode;
  double scale_bytes = 0;
  double bytes = 0;  // Memory of a chip in the requested phase
};

// Returns the bytes of scales on a chip. Data ranks divide only those of the experts.
double count_scale_bytes(const model::ModelCount& count, const ModelRequest& request, std::int64_t tensor) {
  double experts = 0;
  for (const model::PartCount& part : count.parts)
    if (part.name == "routed experts") experts = static_cast<double>(part.scale_bytes);
  const double ranks = request.data_parallel > 1 ? static_cast<double>(request.expert_parallel) : 1;
  return (static_cast<double>(count.scale_bytes) - experts + experts / ranks) / static_cast<double>(tensor);
}

double count_memory(const ModelStep& step) { return step.parameter_bytes + step.cache_bytes + step.activation_bytes; }

Result<SizedStep> size_step(const model::ModelConfig& config, const ModelRequest& request, std::int64_t tensor,
                            const Machine& machine) {
  RIDGE_TRY(decode, predict_phase(config, request, ModelPhase::decode, tensor, machine));
  RIDGE_TRY(count, model::count_model(config, request.counts));
  SizedStep out{.tensor = tensor, .decode = std::move(decode)};
  out.scale_bytes = count_scale_bytes(count, request, tensor);
  out.bytes = out.scale_bytes + count_memory(out.decode);
  if (request.phase == ModelPhase::decode) return out;
  ModelRequest unplanned = request;
  unplanned.plan = {};
  RIDGE_TRY(prefill, predict_phase(config, unplanned, ModelPhase::prefill, tensor, machine));
  out.bytes = out.scale_bytes + count_memory(prefill);
  return out;
}

// Returns the step on the fewest chips of tensor parallelism that hold it, or on the most that divide the model.
Result<SizedStep> choose_chips(const model::ModelConfig& config, const ModelRequest& request, const Machine& machine) {
  if (request.tensor_parallel) return size_step(config, request, *request.tensor_parallel, machine);
  ModelRequest unplanned = request;
  unplanned.plan = {};
  const auto& capacity = machine.memory.front().capacity;
  RIDGE_TRY(count, model::count_model(config, request.counts));
  const double bytes = static_cast<double>(count.weight_bytes + *count.cache_bytes);
  std::optional<SizedStep> found;
  // Fewer chips cannot hold the weights and the cache.
  const double fewest = capacity ? std::min(bytes / capacity->value, static_cast<double>(max_chips_tried)) : 1;
  const auto first = std::max<std::int64_t>(1, static_cast<std::int64_t>(fewest));
  for (std::int64_t chips = first; chips <= max_chips_tried; ++chips) {
    auto step = size_step(config, unplanned, chips, machine);
    if (!step && chips == 1) return step.error();
    if (!step) continue;  // These chips do not divide the model
    found = *std::move(step);
    if (!capacity || found->bytes <= capacity->value) break;
  }
  for (std::int64_t chips = first - 1; chips > 0 && !found; --chips)
    if (auto step = size_step(config, unplanned, chips, machine)) found = *std::move(step);
  if (found && !request.plan) return *std::move(found);
  return size_step(config, request, found ? found->tensor : 1, machine);
}

struct BatchChoice {
  std::int64_t tensor = 0, batch = 0;  // Sequences of a data rank; 0 if even one is too slow or does not fit
  double seconds = 0;                  // Time of a token
  double tokens_per_s_per_chip() const { return static_cast<double>(batch) / seconds / static_cast<double>(tensor); }
};

// Returns the choice with this batch, or without one if it is too slow or too large.
Result<BatchChoice> try_batch(const model::ModelConfig& config, ModelRequest request, std::int64_t tensor,
                              std::int64_t batch, const Machine& machine) {
  request.counts.batch = batch * request.data_parallel;
  RIDGE_TRY(step, size_step(config, request, tensor, machine));
  const double seconds = step.decode.predicted_s ? step.decode.predicted_s->expected : step.decode.bound_s;
  const auto& capacity = machine.memory.front().capacity;
  const bool fits = !capacity || step.bytes <= capacity->value;
  return BatchChoice{tensor, fits && seconds * *request.rate <= 1 ? batch : 0, seconds};
}

// Returns the choice with the largest batch. Time and memory grow with the batch.
Result<BatchChoice> find_batch(const model::ModelConfig& config, const ModelRequest& request, std::int64_t tensor,
                               const Machine& machine) {
  RIDGE_TRY(best, try_batch(config, request, tensor, 1, machine));
  std::int64_t exceeds = 2;
  for (; best.batch > 0 && exceeds * request.data_parallel <= max_sequences; exceeds *= 2) {
    const auto next = try_batch(config, request, tensor, exceeds, machine);
    if (!next || next->batch == 0) break;  // Too slow, too large, or more than is counted
    best = *next;
  }
  exceeds = std::min(exceeds, max_sequences / request.data_parallel + 1);
  while (best.batch > 0 && exceeds - best.batch > 1) {
    const std::int64_t middle = best.batch + (exceeds - best.batch) / 2;
    const auto next = try_batch(config, request, tensor, middle, machine);
    if (next && next->batch > 0)
      best = *next;
    else
      exceeds = middle;
  }
  return best;
}

// Returns the request with the chips and the batch that give the most tokens per second and chip at the rate, or those
// that come closest to it with one sequence.
Result<ModelRequest> choose_batch(const model::ModelConfig& config, ModelRequest request, const Machine& machine) {
  std::optional<BatchChoice> best;
  const std::int64_t first = request.tensor_parallel.value_or(1),
                     last = request.tensor_parallel.value_or(max_chips_at_rate);
  for (std::int64_t tensor = first; tensor <= last; ++tensor) {
    const auto found = find_batch(config, request, tensor, machine);
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

}  // namespace

std::vector<std::string> list_unrecorded_times(const Machine& machine, std::int64_t chips) {
  std::vector<std::string> out;
  if (launch_seconds(machine) == 0) out.emplace_back("the time of a launch");
  const bool has_collectives = machine.numbers.contains("collective_call_s");
  if (chips > 1 && !has_collectives && (machine.links.empty() || !machine.links.front().latency))
    out.emplace_back("the latency of its links");
  return out;
}

Result<ModelOnMachine> predict_model(const model::ModelConfig& config, const ModelRequest& asked,
                                     const Machine& machine) {
  RIDGE_TRY_STATUS(machine.memory_bandwidth());
  ModelRequest request = asked;
  if (!request.tensor_parallel && request.data_parallel > 1) request.tensor_parallel = 1;
  if (!request.tensor_parallel && request.expert_parallel > 1) request.tensor_parallel = request.expert_parallel;
  if (request.rate) {
    RIDGE_TRY(chosen, choose_batch(config, request, machine));
    request = chosen;
  }
  RIDGE_TRY(sized, choose_chips(config, request, machine));
  ModelOnMachine out{.machine = machine.name,
                     .counts = request.counts,
                     .phase = request.phase,
                     .layout = {sized.tensor, request.expert_parallel, request.data_parallel},
                     .rate = request.rate};
  out.not_on_record = list_unrecorded_times(machine, out.layout.chips());
  out.scale_bytes = sized.scale_bytes;
  if (machine.memory.front().capacity) out.capacity_bytes = machine.memory.front().capacity->value;
  RIDGE_TRY_STATUS(solve_limits(config, request, sized.decode, out));
  out.decode = std::move(sized.decode);
  ModelRequest prompts = request;
  if (request.phase == ModelPhase::decode) prompts.counts.batch = request.data_parallel;
  out.prefill_sequences = prompts.counts.batch;
  RIDGE_TRY(prefill, predict_phase(config, prompts, ModelPhase::prefill, sized.tensor, machine));
  out.prefill = std::move(prefill);
  if (request.serving) {
    ModelRequest served = request;
    served.tensor_parallel = out.layout.tensor;
    RIDGE_TRY(times, predict_served_model(config, served, machine));
    out.served = times;
  }
  return out;
}

}  // namespace ridge

#include "ridge/plan/model/machine.h"

#include <algorithm>

#include "ridge/model/program.h"

namespace ridge {
namespace {

constexpr std::int64_t max_chips_tried = 64, max_tokens = std::int64_t{1} << 32, max_sequences = 1 << 24;

model::StepOptions make_step_options(const ModelRequest& request, ModelPhase phase, std::int64_t chips) {
  const std::int64_t context = *request.counts.context;
  return {.weight_dtype = request.counts.weight_dtype,
          .cache_dtype = request.counts.cache_dtype,
          .batch = request.counts.batch,
          .new_tokens = phase == ModelPhase::prefill ? context : 1,
          .context = context,
          .tensor_parallel = chips};
}

Result<ModelStep> predict_phase(const model::ModelConfig& config, const ModelRequest& request, ModelPhase phase,
                                std::int64_t chips, const Machine& machine) {
  RIDGE_TRY(programs, model::write_programs(config, make_step_options(request, phase, chips)));
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
  const double sequences = static_cast<double>(request.counts.batch);
  const double activations = decode.activation_bytes / sequences;
  RIDGE_TRY(whole, model::count_model(config, request.counts));
  // Part of the model's cache that a chip holds
  const double share = decode.cache_bytes / static_cast<double>(*whole.cache_bytes);
  const double per_sequence = decode.cache_bytes / sequences + activations;
  out.max_batch = std::clamp(static_cast<std::int64_t>(free / per_sequence), std::int64_t{0}, max_sequences);
  RIDGE_TRY(context,
            find_largest(max_tokens, free - decode.activation_bytes, [&](std::int64_t tokens) -> Result<double> {
              model::CountOptions counts = request.counts;
              counts.context = tokens;
              RIDGE_TRY(count, model::count_model(config, counts));
              return share * static_cast<double>(*count.cache_bytes);
            }));
  out.max_context = context;
  return Done{};
}

struct SizedStep {
  std::int64_t chips = 1;
  ModelStep decode;
  double scale_bytes = 0;
};

Result<SizedStep> size_step(const model::ModelConfig& config, const ModelRequest& request, std::int64_t chips,
                            const Machine& machine) {
  RIDGE_TRY(decode, predict_phase(config, request, ModelPhase::decode, chips, machine));
  RIDGE_TRY(count, model::count_model(config, request.counts));
  return SizedStep{chips, std::move(decode), static_cast<double>(count.scale_bytes) / static_cast<double>(chips)};
}

double count_bytes(const SizedStep& step) {
  return step.decode.parameter_bytes + step.scale_bytes + step.decode.cache_bytes + step.decode.activation_bytes;
}

// Returns the step on the fewest chips that hold it, or on the most that divide the model.
Result<SizedStep> choose_chips(const model::ModelConfig& config, const ModelRequest& request, const Machine& machine) {
  if (request.tensor_parallel) return size_step(config, request, *request.tensor_parallel, machine);
  ModelRequest unplanned = request;
  unplanned.plan = {};
  const auto& capacity = machine.memory.front().capacity;
  RIDGE_TRY(count, model::count_model(config, request.counts));
  const double bytes = static_cast<double>(count.weight_bytes + *count.cache_bytes);
  std::int64_t found = 1;
  // Fewer chips than their memory together needs cannot do.
  const double fewest = capacity ? std::min(bytes / capacity->value, static_cast<double>(max_chips_tried)) : 1;
  for (auto chips = std::max<std::int64_t>(1, static_cast<std::int64_t>(fewest)); chips <= max_chips_tried; ++chips) {
    const auto step = size_step(config, unplanned, chips, machine);
    if (!step && chips == 1) return step.error();
    if (!step) continue;
    found = chips;
    if (!capacity || count_bytes(*step) <= capacity->value) break;
  }
  return size_step(config, request, found, machine);
}

}  // namespace

Result<ModelOnMachine> predict_model(const model::ModelConfig& config, const ModelRequest& request,
                                     const Machine& machine) {
  RIDGE_TRY_STATUS(machine.memory_bandwidth());
  RIDGE_TRY(sized, choose_chips(config, request, machine));
  ModelOnMachine out{.machine = machine.name, .counts = request.counts, .phase = request.phase, .chips = sized.chips};
  out.scale_bytes = sized.scale_bytes;
  if (machine.memory.front().capacity) out.capacity_bytes = machine.memory.front().capacity->value;
  RIDGE_TRY_STATUS(solve_limits(config, request, sized.decode, out));
  out.decode = std::move(sized.decode);
  ModelRequest prompts = request;
  if (request.phase == ModelPhase::decode) prompts.counts.batch = 1;
  out.prefill_sequences = prompts.counts.batch;
  RIDGE_TRY(prefill, predict_phase(config, prompts, ModelPhase::prefill, out.chips, machine));
  out.prefill = std::move(prefill);
  if (request.serving) {
    ModelRequest served = request;
    served.tensor_parallel = out.chips;
    RIDGE_TRY(times, predict_served_model(config, served, machine));
    out.served = times;
  }
  return out;
}

}  // namespace ridge

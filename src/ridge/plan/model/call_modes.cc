#include "ridge/plan/model/call_modes.h"

#include <fmt/format.h>

#include "ridge/model/count.h"

namespace ridge {
namespace {

// The published ratios of launch modes are those of Llama 3.1 8B, which has the sizes of this config.
constexpr std::string_view published_model = "llama_3_8b";

}  // namespace

Result<LayeredStep> count_layered_step(const model::ModelConfig& config, std::int64_t context) {
  const model::LayerConfig plain{};
  for (const model::LayerConfig& layer : config.layers)
    if (!(layer == plain) || config.latent)
      return input_error(
          fmt::format("{}: expected equal layers with full attention and one dense network, found others", config.name),
          "`ridge model` predicts models with other layers");
  if (config.quantization)
    return input_error(fmt::format("{}: expected weights in bf16, found quantization_config", config.name));
  RIDGE_TRY(count, model::count_model(config));
  constexpr double bf16_bytes = 2;
  const model::LayerCount& layer = count.layers.front();
  const double positions = static_cast<double>(context), parameters = static_cast<double>(layer.parameters);
  const double tables = 2 * static_cast<double>(config.vocabulary) * static_cast<double>(config.width);
  LayeredStep step;
  step.layers = static_cast<std::int64_t>(config.layers.size());
  step.kernels_per_layer =
      10;  // two norms, three products before attention and one after, attention, three of the network
  step.layer_bytes = bf16_bytes * parameters + static_cast<double>(layer.cache_bytes_per_token) * positions;
  step.layer_flops =
      2 * parameters + 4 * static_cast<double>(config.heads) * static_cast<double>(config.head_size) * positions;
  step.intermediate_bytes = bf16_bytes * static_cast<double>(config.width);
  step.other_calls = 2;  // embedding and head
  step.other_bytes = bf16_bytes * tables;
  step.other_flops = tables;
  return step;
}

Result<DecodeReport> predict_call_modes(const model::ModelConfig& config, const Machine& machine,
                                        const DecodeOptions& options) {
  if (options.chips < 1 || options.chips > 1 << 20)
    return usage_error(fmt::format("expected 1 to {} chips, found {}", 1 << 20, options.chips));
  if (options.context < 0 || options.context > std::int64_t{1} << 32)
    return usage_error(fmt::format("expected a context of 0 to 2^32 tokens, found {}", options.context));
  RIDGE_TRY(peak, machine.contraction_peak(DType::bf16));
  RIDGE_TRY(bandwidth, machine.memory_bandwidth());
  RIDGE_TRY(step, count_layered_step(config, options.context));
  DecodeReport report{
      .model = config.name, .machine = machine.title, .chips = options.chips, .context = options.context};
  const double chips = static_cast<double>(options.chips);
  report.rates = {chips * bandwidth.value, chips * peak->rate.value, 0};
  RIDGE_TRY(sweep, sweep_call_overhead(step, report.rates, options.sync_seconds));
  report.call_reports = std::move(sweep);
  report.bytes = static_cast<double>(step.layers) * step.layer_bytes + step.other_bytes;
  report.flops = static_cast<double>(step.layers) * step.layer_flops + step.other_flops;
  if (config.name == published_model) report.implied_overheads = implied_call_overheads(step, report.rates);
  return report;
}

}  // namespace ridge

#include "ridge/plan/llama_decode.h"

#include <fmt/format.h>

namespace ridge {

Result<DecodeReport> predict_llama_8b_decode(const Machine& machine, const DecodeOptions& options) {
  if (options.chips < 1 || options.chips > 1 << 20)
    return usage_error(fmt::format("expected 1 to {} chips, found {}", 1 << 20, options.chips));
  if (options.context < 0 || options.context > std::int64_t{1} << 32)
    return usage_error(fmt::format("expected a context of 0 to 2^32 tokens, found {}", options.context));
  RIDGE_TRY(peak, machine.contraction_peak(DType::bf16));
  RIDGE_TRY(bandwidth, machine.memory_bandwidth());
  DecodeReport report;
  report.machine = machine.title;
  report.chips = options.chips;
  report.context = options.context;
  const double chips = static_cast<double>(options.chips);
  report.rates = {chips * bandwidth.value, chips * peak->rate.value, 0};
  const LayeredStep step = llama_8b_decode(options.context);
  RIDGE_TRY(sweep, sweep_call_overhead(step, report.rates, options.sync_seconds));
  report.call_reports = std::move(sweep);
  report.bytes = static_cast<double>(step.layers) * step.layer_bytes + step.other_bytes;
  report.flops = static_cast<double>(step.layers) * step.layer_flops + step.other_flops;
  report.implied_overheads = implied_call_overheads(step, report.rates);
  return report;
}

}  // namespace ridge

// Predicts the decoding of one token of Llama-3.1-8B on several chips of a catalog machine, in each launch mode
// (kernel by kernel, fused, looped) and for each cost of a call, by the model of simulate/call_overhead.h. Weights and
// cache are divided evenly among the chips; communication is not counted.
#pragma once

#include <string>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/simulate/call_overhead.h"

namespace ridge {

struct DecodeOptions {
  std::int64_t chips = 16, context = 4096;
  std::vector<double> sync_seconds = {0};
};

struct DecodeReport {
  std::string machine;
  std::int64_t chips = 1, context = 0;
  double bytes = 0, flops = 0;  // per token, in looped mode
  LayeredMachine rates;
  std::vector<CallModeReport> call_reports;  // one report for each of `sync_seconds`
  std::vector<ImpliedCallOverhead> implied_overheads;
};

// Returns the time per token in each mode. Errors: counts below 1, a machine without a bf16 matrix peak or a bandwidth.
Result<DecodeReport> predict_llama_8b_decode(const Machine& machine, const DecodeOptions& options);

}  // namespace ridge

// Predicts the decoding of one token of a language model on several chips of a catalog machine, in each launch mode
// (kernel by kernel, fused, looped) and for each cost of a call, by the model of simulate/call_overhead.h. Weights and
// cache are divided evenly among the chips; communication is not counted.
#pragma once

#include <string>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/model/config.h"
#include "ridge/simulate/call_overhead.h"

namespace ridge {

struct DecodeOptions {
  std::string model = "llama_3_8b";  // Name, file or folder of a config
  std::int64_t chips = 16, context = 4096;
  std::vector<double> sync_seconds = {0};
};

struct DecodeReport {
  std::string model, machine;
  std::int64_t chips = 1, context = 0;
  double bytes = 0, flops = 0;  // per token, in looped mode
  LayeredMachine rates;
  std::vector<CallModeReport> call_reports;            // one report for each of `sync_seconds`
  std::vector<ImpliedCallOverhead> implied_overheads;  // Ratios are published for llama_3_8b alone
};

// Returns the work of one token in bf16: all parameters, the cache of each layer, and the full embedding and head, as
// the kernel-looping paper counts (arXiv 2410.23668 table 1: 14.9 GiB for 8 B parameters). Errors: layers that differ
// or have experts, windows or latent attention, because each call is taken to do the same work.
Result<LayeredStep> count_layered_step(const model::ModelConfig& config, std::int64_t context);

// Returns the time per token in each mode. Errors: those above; counts below 1, a machine without a bf16 matrix peak or
// a bandwidth.
Result<DecodeReport> predict_call_modes(const model::ModelConfig& config, const Machine& machine,
                                        const DecodeOptions& options);

}  // namespace ridge

// A token of Llama-3.1-8B on some chips of a catalog machine, kernel by kernel, fused and looped, for each time that a
// call may cost; simulate/looping.h is the model. The chips share weights and cache evenly; what passes between them is
// not counted.
#pragma once

#include <string>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/simulate/looping.h"

namespace ridge {

struct DecodeOptions {
  std::int64_t chips = 16, context = 4096;
  std::vector<double> sync_seconds = {0};
};

struct DecodeReport {
  std::string machine;
  std::int64_t chips = 1, context = 0;
  double bytes = 0, flops = 0;  // of a token, looped
  LayeredMachine rates;
  std::vector<CallingReport> calling;  // one for each of sync_seconds
  std::vector<ImpliedSync> implied;
};

// Errors: counts below 1, a machine without a bf16 matrix peak or a bandwidth.
Result<DecodeReport> decode_llama_8b(const Machine& machine, const DecodeOptions& options);

}  // namespace ridge

// Programs of what a training step does besides the model: collectives between data ranks, and the optimizer.
#pragma once

#include <cstdint>
#include <string>

#include "ridge/base/dtype.h"

namespace ridge {

enum class DataCollective { all_reduce, reduce_scatter, all_gather };

// Chips that exchange: `outer` times `inner` ranks, those of `inner` with consecutive numbers. Between consecutive
// ranks of `outer` are the chips of `between` ranks that do not exchange with each other, such as those of tensor
// parallelism.
struct DataRanks {
  std::int64_t outer = 1, between = 1, inner = 1;
  std::int64_t count() const { return outer * inner; }
};

// Returns the program of a collective over `elements` of each chip among at least two ranks.
std::string write_data_collective(DataCollective kind, std::int64_t elements, DType dtype, const DataRanks& ranks);

// Returns Adam's program for this number of parameters. It reads gradients, two moments and weights in f32, and writes
// the last three and, for weights of 16 bits, these.
std::string write_optimizer_program(std::int64_t parameters, DType weights);

}  // namespace ridge

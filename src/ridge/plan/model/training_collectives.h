// Programs of what a training step does besides the model: collectives between data ranks, and the optimizer.
#pragma once

#include <cstdint>
#include <string>

#include "ridge/base/dtype.h"

namespace ridge {

enum class DataCollective { all_reduce, reduce_scatter, all_gather };

// Returns the program of a collective over `elements` of each chip. The chips of tensor parallelism have
// consecutive numbers, and each exchanges its part with the same chip of the other data ranks.
std::string write_data_collective(DataCollective kind, std::int64_t elements, DType dtype, std::int64_t data_ranks,
                                  std::int64_t tensor_ranks);

// Returns Adam's program for this number of parameters. It reads gradients, two moments and weights in f32, and writes
// the last three and, for weights of 16 bits, these.
std::string write_optimizer_program(std::int64_t parameters, DType weights);

}  // namespace ridge

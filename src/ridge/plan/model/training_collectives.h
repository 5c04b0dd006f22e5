// Programs of what a training step does besides the model: collectives between data ranks, and the optimizer.
#pragma once

#include <cstdint>
#include <string>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/machine/machine.h"

namespace ridge {

enum class DataCollective { all_reduce, reduce_scatter, all_gather };

// Returns the program of a collective over `elements` of each chip. The chips of tensor parallelism have
// consecutive numbers, and each exchanges its part with the same chip of the other data ranks.
std::string write_data_collective(DataCollective kind, std::int64_t elements, DType dtype, std::int64_t data_ranks,
                                  std::int64_t tensor_ranks);

// Returns Adam's program for this number of parameters. It reads gradients, two moments and weights in f32, and writes
// the last three and, for weights of 16 bits, these.
std::string write_optimizer_program(std::int64_t parameters, DType weights);

struct CollectiveBound {
  double seconds = 0;
  double bytes = 0;  // Sent by one chip
};
// Returns the bound of a program of collectives. Errors: a machine without a link.
Result<CollectiveBound> predict_collective(const std::string& program, const Machine& machine);

}  // namespace ridge

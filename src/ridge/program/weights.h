// Weights: tensors that do not change between inputs of a model, as far as the program shows. The weight of a product
// is its right factor, or its left factor if the right one is computed; a computed tensor is no weight. Examples:
//   g[B, F] = x * gate      gate is a weight, x is not
//   s[B, S, T] = q * k      k[B, T, E] differs for each b of the batch: an input factor, but no weight
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

// Returns the right factor if it is an input, else the left one, or nullopt if neither is.
std::optional<int> find_input_factor(const Program& program, const Contraction& product);

// Returns the sorted indices of the input factors of products without batch dimensions.
std::vector<int> find_weights(const Program& program);

// Returns the program with weights stored in `dtype`; computed tensors keep their dtypes. Usage error if the program
// has no weights.
Result<Program> with_weight_dtype(Program program, DType dtype);

}  // namespace ridge

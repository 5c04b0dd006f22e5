// Finds what each input of a program holds from its use, not from the order of declarations, and makes programs with
// narrower weights.
//   x: bf16[B, D]   w: bf16[D, F]   y[B, F] = x * w      B is the batch dimension; w lacks it: a parameter
//   keys: bf16[T, E] in softmax(q * keys over T) * values: a cache
// The rule is in docs/notation.md, "What inputs hold". A word before a declaration (`param w: …`) replaces it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

struct InputUses {
  std::vector<InputUse> of_tensor = {};      // by index into Program::tensors; activation for computed tensors
  std::vector<std::string> batch_dims = {};  // dimensions of which activations have one and parameters have none
};
InputUses find_input_uses(const Program& program);

// Returns the right factor if it is an input, else the left one, or nullopt if neither is.
std::optional<int> find_input_factor(const Program& program, const Contraction& product);

// Returns the sorted indices of the weights: parameters that a product, a convolution, `routed` or `gather` reads,
// directly or as a copy (g[D, F] = w). Gains and biases, which expressions read, are parameters but no weights.
std::vector<int> find_weights(const Program& program);

enum class Narrowed { weights, weights_and_activations };

// Returns the program with weights stored in `dtype`, and with the tensors that they multiply if `narrowed` says so.
// Results with a dtype of their own keep it. Usage error if the program has no weights.
Result<Program> with_weight_dtype(Program program, DType dtype, Narrowed narrowed = Narrowed::weights);

}  // namespace ridge

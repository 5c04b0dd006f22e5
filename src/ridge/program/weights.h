// Weights: what a model keeps from one input to the next, as far as a program shows it. Of a product it is the right
// factor, or the left one where the right is no input; a factor that is computed is none. In
//   g[B, F] = x * gate      gate is a weight, x is not
//   s[B, S, T] = q * k      k[B, T, E] is the right factor, but each b of the batch has a k of its own: kept, not
//   shared
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

// None: neither factor is an input.
std::optional<int> kept_factor(const Program& program, const Contraction& product);

// Indices into Program::tensors, in their order: the kept factors of products without batch dimensions.
std::vector<int> weights(const Program& program);

// The same program with its weights stored in `dtype`; what is computed keeps its dtypes. Error, of kind usage: the
// program has no weights.
Result<Program> with_weights(Program program, DType dtype);

}  // namespace ridge

// Steps that follow one another some rows at a time, so that what one leaves the next finds near the core, and what
// lies between them has no place in memory: mean, difference, square, sum and quotient of a row in one pass over it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ridge/ops/chain/problem.h"
#include "ridge/ops/rows/problem.h"

namespace ridge::ops {

struct StripOperand {
  DType dtype = DType::f32;
  std::vector<std::int64_t> strides;  // along each dimension that is cut, in elements; of scratch: none
  std::int64_t scratch = 0;           // above 0: elements that a strip needs, of which each thread has its own
};

struct StripStep {
  std::variant<ChainProgram, RowProblem, ReduceProblem> kernel;
  // Indices into Strips::operands: the tensors of a chain; x, weight (-1: none) and y of rows; x and y of a reduction.
  std::vector<int> operands;
};

struct Strips {
  std::vector<std::int64_t> extents;  // of the dimensions that are cut, outermost first
  std::vector<std::int64_t> parts;    // how much of each a strip has; only one of them may leave a rest
  std::vector<StripOperand> operands;
  std::vector<StripStep> whole, rest;  // for strips of `parts`, and for those that are shorter in that one dimension
};

std::optional<std::string> refuse(const Strips& strips);
// data[i] is that of operands[i], null for scratch. Must not be refused.
void strips(const Strips& strips, std::span<void* const> data, int threads = 0);

}  // namespace ridge::ops

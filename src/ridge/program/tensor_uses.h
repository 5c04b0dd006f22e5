// Definitions and uses of the tensors of a program: which statement writes each tensor, and which statements read it.
#pragma once

#include <vector>

#include "ridge/program/program.h"

namespace ridge {

// Returns the tensors that a statement reads, sorted, each once.
std::vector<int> distinct_operands(const Statement& statement);

class TensorUses {
 public:
  explicit TensorUses(const Program& program);
  // Returns the statement that writes the tensor, or -1 for an input.
  int writer(int tensor) const { return writers_[tensor]; }
  // Returns the statements that read the tensor, in order, each once.
  const std::vector<int>& readers(int tensor) const { return readers_[tensor]; }

 private:
  std::vector<int> writers_;
  std::vector<std::vector<int>> readers_;
};

}  // namespace ridge

#include "ridge/program/tensor_uses.h"

#include <algorithm>

namespace ridge {

std::vector<int> distinct_operands(const Statement& statement) {
  std::vector<int> out = statement_operands(statement);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

TensorUses::TensorUses(const Program& program)
    : writers_(program.tensors.size(), -1), readers_(program.tensors.size()) {
  for (int s = 0; s < std::ssize(program.statements); ++s) {
    writers_[program.statements[s].result()] = s;
    for (const int tensor : distinct_operands(program.statements[s])) readers_[tensor].push_back(s);
  }
}

}  // namespace ridge

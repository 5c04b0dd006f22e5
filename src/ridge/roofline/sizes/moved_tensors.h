// Bytes of tensors whose sizes the mesh may or may not divide, and the tensors that a kernel of several statements
// moves, for formulas of unknown sizes.
#pragma once

#include <vector>

#include "ridge/program/program.h"
#include "ridge/roofline/work.h"

namespace ridge {

// Returns bytes in which the symbol of the largest shard replaces every split size: 2*B*ceil(D/4).
Polynomial stored_bytes_with_shard_symbols(const Program& program, const Tensor& tensor, const Bindings& mesh);

// True if a statement reads what another one computes, so that one kernel of both moves fewer bytes.
bool reads_results(const Program& program);

// Tensors, in the program's order, that statements as one kernel read from memory and write to it. `stored` lists
// results that must be written in any case.
struct MovedTensors {
  std::vector<int> read, written;
};
// `kernels` lists the statements of every kernel if some statements are recomputed in several kernels.
MovedTensors list_moved_tensors(const Program& program, const std::vector<int>& statements,
                                const std::vector<int>& stored = {}, const std::vector<std::vector<int>>& kernels = {});

// Returns what statements read of a tensor. `ops` is the work of all statements.
std::vector<TensorRead> list_reads(const std::vector<Work>& ops, const std::vector<int>& statements, int tensor);

}  // namespace ridge

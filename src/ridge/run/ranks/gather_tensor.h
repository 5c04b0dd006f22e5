// Gathers the shards of a tensor at rank 0.
#pragma once

#include <optional>

#include "ridge/run/memory.h"
#include "ridge/run/ranks/rank_program.h"

namespace ridge::ranks {

struct GatheredTensor {
  std::optional<ArrayStorage> values;  // partial sums are added up, in f32; nullopt if this is not rank 0
  // Sums of the magnitudes of partial sums, for error bounds; empty if the tensor has no partial sums.
  std::vector<double> magnitudes = {};
};

// Collective call. Error: not enough memory.
Result<GatheredTensor> gather_tensor(const RankProgram& rank_program, int slot, transport::Communicator& comm);

}  // namespace ridge::ranks

// Whether what ranks computed is right: operands and results of each operation are gathered at rank 0 and judged there
// by the reference executor, which knows nothing of meshes.
#pragma once

#include "ridge/measure/ranks/part.h"
#include "ridge/measure/run.h"

namespace ridge::ranks {

struct Checked {
  const Program& program;
  const Bindings& sizes;
  const std::vector<std::vector<int>>& operations;  // the statements of each
  const std::vector<bool>& stored;                  // of each slot, whether it lies in memory; every rank's the same
};

// To be called by all ranks at once; rank 0 notes errors, how much was checked and a mismatch in `out`.
Status check(const Checked& what, const Part& part, transport::Ranks& ranks, const RunOptions& options,
             Measurement& out);

}  // namespace ridge::ranks

// What a device holds where the mesh may divide a size or not, and which tensors a kernel of several statements moves:
// what formulas of sizes that are not known yet are made of, beside count_in_parts().
#pragma once

#include <vector>

#include "ridge/program/program.h"
#include "ridge/roofline/work.h"

namespace ridge {

// B, with what the mesh splits called by the name of its largest part: 2*B*ceil(D/4).
Polynomial stored_bytes_in_parts(const Program& program, const Tensor& tensor, const Bindings& mesh);

// Tensors, in the program's order, that statements as one kernel read from memory and write there; `stored`: those that
// are wanted in memory whoever reads them.
struct Moved {
  std::vector<int> read, written;
};
// `kernels`: of all statements, where some are in several, which each make for themselves what these make.
Moved moved_by(const Program& program, const std::vector<int>& statements, const std::vector<int>& stored = {},
               const std::vector<std::vector<int>>& kernels = {});

}  // namespace ridge

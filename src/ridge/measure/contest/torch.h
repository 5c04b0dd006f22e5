// PyTorch as a baseline, by the python3 on PATH: its interpreter runs in this process and its tensors are views of the
// contest's own arrays, so that nothing is copied and the clock is the same.
#pragma once

#include "ridge/measure/contest/baseline.h"

namespace ridge {
// Errors: no python3, no shared library of it, no torch that it can import.
Result<std::unique_ptr<MatmulLibrary>> load_torch(int threads);
}  // namespace ridge

// PyTorch as a library to compare with, by the python3 on PATH. Its interpreter runs in this process and its tensors
// are views of the benchmark's arrays, so nothing is copied and the same clock applies.
#pragma once

#include "ridge/bench/matmul_library.h"

namespace ridge {
// Errors: no python3, no shared library of it, no torch module that it can import.
Result<std::unique_ptr<MatmulLibrary>> load_torch(int threads);
}  // namespace ridge

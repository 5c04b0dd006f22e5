// Who can multiply matrices on this CPU: Ridge itself and, where they are installed, the libraries that it is held
// against. OpenBLAS, oneDNN and PyTorch are loaded by dlopen and only here; nothing else in Ridge needs them. A library
// reads its variables (OPENBLAS_CORETYPE and the like) when it is loaded, so whoever asks for one cleans the
// environment first.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/ops/product/problem.h"

namespace ridge {

class MatmulLibrary {
 public:
  virtual ~MatmulLibrary() = default;
  // One product of contiguous row-major operands, set up outside the timed part; empty where the library cannot do it.
  virtual std::function<void()> bind(const ops::MatmulProblem& problem, const void* a, const void* b, void* d) = 0;
  virtual std::string describe() const = 0;  // name, version, the kernel or core that it chose
};

std::vector<std::string> matmul_libraries();  // "ridge", "openblas", "onednn", "torch"

// One of them. Errors: an unknown name, a library that is not installed (with its Debian package).
Result<std::unique_ptr<MatmulLibrary>> load_matmul_library(const std::string& name, int threads);

// Takes every variable away that would change what a library does; returns the names of those that were set.
std::vector<std::string> clean_environment();

}  // namespace ridge

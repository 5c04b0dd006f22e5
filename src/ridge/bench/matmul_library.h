// Matrix multiplication by Ridge and by other libraries on this CPU. OpenBLAS, MKL, oneDNN and PyTorch are loaded by
// dlopen, only for benchmarks; RIDGE_OPENBLAS and RIDGE_MKL may name files. A library reads its environment variables
// (OPENBLAS_CORETYPE and others) when it is loaded, so the caller must remove them first.
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
  // Prepares a product of contiguous row-major operands outside the timed part. Returns an empty function if the
  // library does not support the product.
  virtual std::function<void()> bind(const ops::MatmulProblem& problem, const void* a, const void* b, void* d) = 0;
  virtual std::string describe() const = 0;  // name, version, chosen kernel or core
};

std::vector<std::string> list_matmul_libraries();  // "ridge", "openblas", "mkl", "onednn", "torch"

// Errors: an unknown name, a library that is not installed (the hint names its Debian package).
Result<std::unique_ptr<MatmulLibrary>> load_matmul_library(const std::string& name, int threads);

// oneDNN through its C interface, built only if its headers are present. Errors: not installed, or this build was made
// without libdnnl-dev.
Result<std::unique_ptr<MatmulLibrary>> load_onednn(int threads);
// PyTorch by the python3 on PATH. Its interpreter runs in this process and its tensors are views of the benchmark's
// arrays, so nothing is copied and the same clock applies. Errors: no python3, no shared library of it, no torch module
// that it can import.
Result<std::unique_ptr<MatmulLibrary>> load_torch(int threads);

// Removes the environment variables that change a library's behaviour and returns the names of those that were set.
std::vector<std::string> remove_library_variables();

}  // namespace ridge

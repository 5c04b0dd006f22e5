// What a call of CUDA's runtime answered, as a Status. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "ridge/base/result.h"

namespace ridge::ops::cuda {

// "the CUDA device failed at a copy: …", of kind absent; the error is not left for the next call to find.
inline Status done(cudaError_t e, const char* what, const char* hint = "`nvidia-smi` shows the device's state") {
  if (e == cudaSuccess) return Done{};
  cudaGetLastError();
  return absent_error(std::string("the CUDA device failed at ") + what + ": " + cudaGetErrorString(e), hint);
}

}  // namespace ridge::ops::cuda

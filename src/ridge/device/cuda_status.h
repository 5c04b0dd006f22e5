// Converts results of the CUDA runtime to Status. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "ridge/base/result.h"

namespace ridge::device {

// Returns "the CUDA device failed at a copy: ..." with kind `absent`, and clears the runtime's last error.
inline Status to_status(cudaError_t e, const char* what, const char* hint = "`nvidia-smi` shows the device's state") {
  if (e == cudaSuccess) return Done{};
  cudaGetLastError();
  if (e == cudaErrorNoKernelImageForDevice)
    hint = "kernels are compiled for Hopper (sm_90a), and a build with RIDGE_MENU=SAMPLE has only some of them";
  return absent_error(std::string("the CUDA device failed at ") + what + ": " + cudaGetErrorString(e), hint);
}

}  // namespace ridge::device

// Says whether a build contains all kernels, or a sample of them for tests without a device (RIDGE_MENU in
// cmake/RidgeCuda.cmake).
#pragma once

#include <cuda_runtime.h>

#ifndef RIDGE_WHOLE_MENU
#define RIDGE_WHOLE_MENU 1
#endif

namespace ridge::device {

inline constexpr bool has_all_kernels = RIDGE_WHOLE_MENU != 0;
// The status of launching a kernel that the build does not contain.
inline constexpr cudaError_t kernel_absent = cudaErrorNoKernelImageForDevice;

}  // namespace ridge::device

// Says whether a build contains all kernels, or a sample of them for tests without a device (RIDGE_MENU in
// cmake/RidgeCuda.cmake).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "ridge/base/float16.h"

#ifndef RIDGE_WHOLE_MENU
#define RIDGE_WHOLE_MENU 1
#endif

namespace ridge::device {

inline constexpr bool has_all_kernels = RIDGE_WHOLE_MENU != 0;
// True if a build contains the kernel of config `index` for elements of type T. A sample has all configs of bf16 and
// the first of f16, whose kernels differ in the types of instructions.
template <class T> constexpr bool is_compiled(std::size_t index) {
  return has_all_kernels || std::is_same_v<T, Bf16> || index == 0;
}
// The status of launching a kernel that the build does not contain.
inline constexpr cudaError_t kernel_absent = cudaErrorNoKernelImageForDevice;

}  // namespace ridge::device

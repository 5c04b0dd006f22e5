// NVRTC, NVIDIA's run-time compiler, loaded with dlopen on first use. It needs no device. RIDGE_NVRTC=PATH names the
// library, RIDGE_NVRTC=off disables it; otherwise the loader's paths, CUDA's folders and Python wheels are searched.
#pragma once

#include <string>
#include <string_view>

#include "ridge/base/result.h"

namespace ridge::device {

struct NvrtcInfo {
  std::string path;  // "libnvrtc.so.13"
  int major = 0, minor = 0;
};
// Returns the loaded library. Errors (absent): NVRTC was not found or is turned off.
const Result<NvrtcInfo>& find_nvrtc();

// The last option makes lambdas device functions; NVRTC 13.0 would not infer it.
inline constexpr std::string_view nvrtc_options[] = {"--gpu-architecture=sm_90a", "--std=c++20", "--fmad=false",
                                                     "--restrict", "--device-as-default-execution-space"};

// Returns the machine code (cubin) of a kernel's source. Errors: it does not compile; includes the compiler's log.
Result<std::string> compile_to_cubin(const std::string& text);

// Returns everything that determines the machine code: source, headers, options and compiler version.
std::string make_compile_key(const std::string& text);

}  // namespace ridge::device

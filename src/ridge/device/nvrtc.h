// NVIDIA's run-time compiler, found and loaded when it is first needed; nothing links to it. It needs no device.
// RIDGE_NVRTC=PATH names its library, RIDGE_NVRTC=off does without; else the loader's places, CUDA's folders and those
// of Python's wheels are looked through.
#pragma once

#include <string>
#include <string_view>

#include "ridge/base/result.h"

namespace ridge::ops {

struct Nvrtc {
  std::string path;  // "libnvrtc.so.13"
  int major = 0, minor = 0;
};
// Errors (absent): it was not found, and where it was looked for; it was turned off.
const Result<Nvrtc>& nvrtc();

// Lambdas of texts are functions of the device, which 13.0 would not know.
inline constexpr std::string_view nvrtc_options[] = {"--gpu-architecture=sm_90a", "--std=c++20", "--fmad=false",
                                                     "--restrict", "--device-as-default-execution-space"};

// Machine code of a text (generated.h). Errors: it does not compile, with the compiler's words.
Result<std::string> compile(const std::string& text);

// All that the machine code hangs on: the text, its headers, the options and the compiler's version.
std::string compile_key(const std::string& text);

}  // namespace ridge::ops

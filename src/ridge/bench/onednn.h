// oneDNN as a library to compare with, through its C interface by dlopen; built only if its headers are present.
#pragma once

#include "ridge/bench/matmul_library.h"

namespace ridge {
// Errors: not installed, or this build was made without libdnnl-dev.
Result<std::unique_ptr<MatmulLibrary>> load_onednn(int threads);
}  // namespace ridge

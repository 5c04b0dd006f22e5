// oneDNN as a baseline (its C interface, by dlopen). Built in only where its headers were present.
#pragma once

#include "ridge/measure/contest/baseline.h"

namespace ridge {
// Errors: not installed, or this build was made without libdnnl-dev.
Result<std::unique_ptr<MatmulLibrary>> load_onednn(int threads);
}  // namespace ridge

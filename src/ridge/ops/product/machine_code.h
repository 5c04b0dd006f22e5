// The code of a config's kernel, to read: the machine code that this binary carries, taken apart by cuobjdump of the
// CUDA toolkit, or the PTX that it was made from, which the build keeps beside it. No device is needed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"

namespace ridge::ops::cuda {

enum class CodeText { sass, ptx };
std::string_view name(CodeText what);  // "SASS"

// bf16 or f16. Errors, all of kind `absent`: a build without CUDA, no cuobjdump or nvdisasm, one that cannot read this
// binary. `tools` are the folders where they are looked for, in order.
Result<std::string> code_text(int config, DType in, CodeText what, const std::vector<std::string>& tools);
// PATH, then $CUDA_HOME/bin and /usr/local/cuda/bin.
std::vector<std::string> toolkit_folders();

// The kernel's name among the binary's symbols.
std::string kernel_symbol(int config, DType in);

// Of cuobjdump's listing of a whole binary what belongs to one kernel: its instructions; a PTX text of this entry
// alone, which ptxas takes. None: it does not hold it.
std::optional<std::string> sass_of(std::string_view listing, std::string_view symbol);
std::optional<std::string> ptx_of(std::string_view listing, std::string_view symbol);

}  // namespace ridge::ops::cuda

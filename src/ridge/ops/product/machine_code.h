// Extracts the code of a kernel from this binary: machine code (SASS) or the embedded PTX. Uses cuobjdump of the CUDA
// toolkit; needs no device.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"

namespace ridge::ops::cuda {

enum class AssemblyKind { sass, ptx };
std::string_view assembly_kind_name(AssemblyKind assembly_kind);  // "SASS"

// Returns the kernel's code for bf16 or f16. Searches cuobjdump in the folders `tools`, in order. Errors of kind
// `absent`: no CUDA in this build, no cuobjdump or nvdisasm, or a cuobjdump that cannot read this binary.
Result<std::string> extract_kernel_code(int config, DType in, AssemblyKind assembly_kind,
                                        const std::vector<std::string>& tools);
// Returns the folders of PATH, then $CUDA_HOME/bin and /usr/local/cuda/bin.
std::vector<std::string> toolkit_folders();

// Returns the mangled name of a kernel.
std::string kernel_symbol(int config, DType in);

// Extract one kernel from cuobjdump's listing of a binary: its instructions, or PTX with this entry only, which ptxas
// accepts. Return nullopt if the listing has no such kernel.
std::optional<std::string> extract_sass(std::string_view listing, std::string_view symbol);
std::optional<std::string> extract_ptx(std::string_view listing, std::string_view symbol);

}  // namespace ridge::ops::cuda

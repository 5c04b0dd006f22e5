#include "ridge/ops/chain/cuda.h"

#include "ridge/device/device.h"
#include "ridge/device/run_generated.h"
#include "ridge/ops/chain/lower.h"
#include "ridge/ops/chain/source.h"

namespace ridge::ops::cuda {

Reason unsupported_reason(const ChainProgram& program) {
  if (auto reason = invalid_reason(program)) return reason;
  if (const Reason why = device::generation_unavailable_reason())
    return "NVRTC compiles pointwise kernels when they are first run: " + why.text();
  return {};
}

Status run_chain_program(const ChainProgram& program, std::span<void* const> tensors, CUstream_st* stream) {
  return device::launch_generated(generate_chain_kernel(program, tensors, device::multiprocessor_count()), stream);
}

}  // namespace ridge::ops::cuda

// Launches a kernel that may start before earlier kernels of its stream have ended (programmatic dependent launch). The
// kernel itself waits for them before it reads what they write.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ridge::device {

struct LaunchShape {
  std::int64_t blocks = 0;
  int threads = 0;               // per block
  std::size_t shared_bytes = 0;  // dynamic shared memory per block
};

template <class... Parameters, class... Arguments>
cudaError_t launch_dependent(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                             const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace ridge::device

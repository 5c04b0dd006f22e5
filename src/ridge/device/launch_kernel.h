// Launches a kernel in the given order. A kernel that may start before earlier kernels of its stream have ended
// (programmatic dependent launch) waits for them itself before it reads what they write.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ridge::device {

struct LaunchShape {
  std::int64_t blocks = 0;
  int threads = 0;               // per block
  std::size_t shared_bytes = 0;  // dynamic shared memory per block
  std::int64_t blocks_y = 1;     // blocks along the second axis of the grid
  int cluster_blocks = 1;        // blocks per cluster
};
enum class LaunchOrder : bool { after_earlier_kernels, may_overlap };

// CUDA's description of a launch, which points to its own attributes.
class LaunchConfig {
 public:
  LaunchConfig(const LaunchShape& shape, LaunchOrder order, cudaStream_t stream) {
    config_.gridDim = dim3(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.blocks_y));
    config_.blockDim = dim3(static_cast<unsigned>(shape.threads));
    config_.dynamicSmemBytes = shape.shared_bytes;
    config_.stream = stream;
    config_.attrs = attributes_;
    if (order == LaunchOrder::may_overlap) {
      attributes_[config_.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes_[config_.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (shape.cluster_blocks > 1) {
      attributes_[config_.numAttrs].id = cudaLaunchAttributeClusterDimension;
      attributes_[config_.numAttrs++].val.clusterDim = {static_cast<unsigned>(shape.cluster_blocks), 1, 1};
    }
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;
  const cudaLaunchConfig_t& get() const { return config_; }

 private:
  cudaLaunchAttribute attributes_[2] = {};
  cudaLaunchConfig_t config_ = {};
};

template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), const LaunchShape& shape, LaunchOrder order,
                          cudaStream_t stream, const Arguments&... arguments) {
  const LaunchConfig config(shape, order, stream);
  return cudaLaunchKernelEx(&config.get(), kernel, arguments...);
}

// Launches a kernel that may start before the earlier ones end. It must call start_after_earlier_kernels() before it
// accesses memory that they access.
template <class... Parameters, class... Arguments>
cudaError_t launch_dependent(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                             const Arguments&... arguments) {
  return launch_kernel(kernel, shape, LaunchOrder::may_overlap, stream, arguments...);
}

#ifdef __CUDACC__
// Lets the next kernel of the stream start, and returns when the earlier ones have ended.
__device__ inline void start_after_earlier_kernels() {
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
}
#endif

}  // namespace ridge::device

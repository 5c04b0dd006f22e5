#include "ridge/device/run_generated.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/device/kernel_store.h"
#include "ridge/device/launch_kernel.h"
#include "ridge/device/nvrtc.h"
#include "ridge/device/stream.h"

namespace ridge::device {
namespace {

struct LoadedKernel {
  cudaKernel_t kernel = nullptr;
  int max_clusters = 0;  // Clusters of a persistent kernel that run concurrently.
};

Result<std::string> find_or_compile(const std::string& text) {
  static const KernelStore store = KernelStore::for_user();
  const std::string key = make_compile_key(text);
  if (auto found = store.find(key)) return *std::move(found);
  RIDGE_TRY(made, compile_to_cubin(text));
  store.save(key, made);
  return made;
}

LaunchShape launch_shape(const GeneratedKernel& kernel, std::int64_t blocks) {
  return {.blocks = blocks,
          .threads = kernel.threads,
          .shared_bytes = static_cast<std::size_t>(kernel.shared_bytes),
          .cluster_blocks = kernel.cluster_blocks};
}

Result<LoadedKernel> load_kernel(const GeneratedKernel& kernel) {
  RIDGE_TRY(code, find_or_compile(kernel.source));
  LoadedKernel out;
  const RelaxedCaptureGuard outside;
  cudaLibrary_t library = nullptr;
  cudaError_t e = cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (e == cudaSuccess) e = cudaLibraryGetKernel(&out.kernel, library, "ridge_kernel");
  const void* const function = reinterpret_cast<const void*>(out.kernel);
  cudaFuncAttributes about{};  // The query forces loading now, not at the first launch.
  if (e == cudaSuccess) e = cudaFuncGetAttributes(&about, function);
  if (e == cudaSuccess && kernel.shared_bytes > 0)
    e = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes);
  if (e == cudaSuccess && kernel.persistent) {
    const LaunchConfig config(launch_shape(kernel, kernel.blocks), LaunchOrder::after_earlier_kernels, nullptr);
    e = cudaOccupancyMaxActiveClusters(&out.max_clusters, function, &config.get());
    if (e == cudaSuccess && out.max_clusters < 1) e = cudaErrorLaunchOutOfResources;
  }
  RIDGE_TRY_STATUS(to_status(e, "loading a generated kernel"));
  return out;
}

// Returns the loaded kernel of the current device. Kernels stay loaded for the process's lifetime; each device has its
// own, since attributes such as the shared memory limit are set per device.
Result<LoadedKernel> find_or_load_kernel(const GeneratedKernel& kernel) {
  static std::mutex mutex;
  // Never destroyed: the driver may be unloaded first.
  static auto& kernels_by_device = *new std::map<int, std::map<std::string, Result<LoadedKernel>>>;
  const std::lock_guard lock(mutex);
  auto& all = kernels_by_device[current_device()];
  const auto found = all.find(kernel.source);
  return found != all.end() ? found->second : all.emplace(kernel.source, load_kernel(kernel)).first->second;
}

}  // namespace

Status launch_generated(const GeneratedKernel& kernel, CUstream_st* stream) {
  if (kernel.blocks == 0) return Done{};
  RIDGE_TRY(code, find_or_load_kernel(kernel));
  const std::int64_t concurrent_blocks = std::int64_t{code.max_clusters} * kernel.cluster_blocks;
  const LaunchConfig config(
      launch_shape(kernel, kernel.persistent ? std::min(kernel.blocks, concurrent_blocks) : kernel.blocks),
      LaunchOrder::may_overlap, stream);
  auto* words = const_cast<std::uint64_t*>(kernel.arguments.data());
  void* arguments[] = {words};
  return to_status(cudaLaunchKernelExC(&config.get(), reinterpret_cast<const void*>(code.kernel), arguments),
                   "launching a generated kernel");
}

Reason generation_unavailable_reason() {
  if (!find_nvrtc()) return find_nvrtc().error().message + "; " + find_nvrtc().error().hint;
  static const Reason reason = []() -> Reason {  // tests the driver with an empty kernel
    GeneratedKernel empty_kernel;
    empty_kernel.arguments = {0};
    empty_kernel.blocks = 1;
    empty_kernel.source = make_kernel_source(empty_kernel, pointwise_header, false, "");
    const Result<LoadedKernel> code = find_or_load_kernel(empty_kernel);
    return code ? Reason() : code.error().message;
  }();
  return reason;
}

}  // namespace ridge::device

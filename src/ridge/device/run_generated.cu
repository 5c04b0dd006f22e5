#include "ridge/device/run_generated.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "ridge/device/device.h"
#include "ridge/device/kernel_store.h"
#include "ridge/device/nvrtc.h"
#include "ridge/device/stream.h"

namespace ridge::device {
namespace {

std::string describe_error(cudaError_t e, const char* what) {
  cudaGetLastError();
  return std::string(what) + " a generated kernel: " + cudaGetErrorString(e);
}

struct LoadedKernel {  // A loaded kernel, or the error.
  cudaKernel_t kernel = nullptr;
  int max_clusters = 0;  // Clusters of a persistent kernel that run concurrently.
  std::string error;
};

std::string find_or_compile(const std::string& text, std::string& error) {
  static const KernelStore store = KernelStore::for_user();
  const std::string key = make_compile_key(text);
  if (auto found = store.find(key)) return *std::move(found);
  auto made = compile_to_cubin(text);
  if (!made) {
    error = made.error().message;
    return {};
  }
  store.save(key, *made);
  return *std::move(made);
}

// Returns the launch configuration, which points to `cluster`.
cudaLaunchConfig_t launch_config(const GeneratedKernel& kernel, cudaLaunchAttribute& cluster) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(kernel.blocks));
  config.blockDim = dim3(static_cast<unsigned>(kernel.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(kernel.shared_bytes);
  cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(kernel.cluster_blocks);
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  if (kernel.cluster_blocks > 1) {
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
  return config;
}

LoadedKernel load_kernel(const GeneratedKernel& kernel) {
  LoadedKernel out;
  const std::string code = find_or_compile(kernel.source, out.error);
  if (!out.error.empty()) return out;
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
    cudaLaunchAttribute cluster;
    const cudaLaunchConfig_t config = launch_config(kernel, cluster);
    e = cudaOccupancyMaxActiveClusters(&out.max_clusters, function, &config);
    if (e == cudaSuccess && out.max_clusters < 1) e = cudaErrorLaunchOutOfResources;
  }
  if (e != cudaSuccess) out.error = describe_error(e, "loading");
  return out;
}

// Returns the loaded kernel of the current device. Kernels stay loaded for the process's lifetime; each device has its
// own, since attributes such as the shared memory limit are set per device.
LoadedKernel find_or_load_kernel(const GeneratedKernel& kernel) {
  static std::mutex mutex;
  // Never destroyed: the driver may be unloaded first.
  static auto& kernels_by_device = *new std::map<int, std::map<std::string, LoadedKernel>>;
  const std::lock_guard lock(mutex);
  auto& all = kernels_by_device[current_device()];
  const auto found = all.find(kernel.source);
  return found != all.end() ? found->second : all.emplace(kernel.source, load_kernel(kernel)).first->second;
}

}  // namespace

std::optional<std::string> launch_generated(const GeneratedKernel& kernel, CUstream_st* stream) {
  if (kernel.blocks == 0) return std::nullopt;
  const LoadedKernel code = find_or_load_kernel(kernel);
  if (!code.error.empty()) return code.error;
  cudaLaunchAttribute cluster;
  cudaLaunchConfig_t config = launch_config(kernel, cluster);
  if (kernel.persistent)
    config.gridDim.x =
        static_cast<unsigned>(std::min(kernel.blocks, std::int64_t{code.max_clusters} * kernel.cluster_blocks));
  config.stream = stream;
  auto* words = const_cast<std::uint64_t*>(kernel.arguments.data());
  void* arguments[] = {words};
  const cudaError_t e = cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(code.kernel), arguments);
  if (e != cudaSuccess) return describe_error(e, "launching");
  return std::nullopt;
}

std::optional<std::string> interpreter_note() {
  const auto why = generation_unavailable_reason();
  return why ? std::optional("interpreted, which is slower: " + *why) : std::nullopt;
}

std::optional<std::string> generation_unavailable_reason() {
  if (!find_nvrtc()) return find_nvrtc().error().message + "; " + find_nvrtc().error().hint;
  static const std::optional<std::string> error = [] {  // tests the driver with an empty kernel
    GeneratedKernel empty_kernel;
    empty_kernel.arguments = {0};
    empty_kernel.blocks = 1;
    empty_kernel.source = make_kernel_source(empty_kernel, pointwise_header, false, "");
    const LoadedKernel code = find_or_load_kernel(empty_kernel);
    return code.error.empty() ? std::nullopt : std::optional(code.error);
  }();
  return error;
}

}  // namespace ridge::device

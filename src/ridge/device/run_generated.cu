#include "ridge/device/run_generated.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "ridge/device/device.h"
#include "ridge/device/kernel_store.h"
#include "ridge/device/nvrtc.h"
#include "ridge/device/stream.h"

namespace ridge::ops::cuda {
namespace {

std::string said(cudaError_t e, const char* what) {
  cudaGetLastError();
  return std::string(what) + " a generated kernel: " + cudaGetErrorString(e);
}

struct Code {  // A loaded kernel, or the error.
  cudaKernel_t kernel = nullptr;
  int at_once = 0;  // Clusters of a persistent kernel that run concurrently.
  std::string trouble;
};

std::string machine_code(const std::string& text, std::string& trouble) {
  static const KernelStore store = KernelStore::of_user();
  const std::string key = compile_key(text);
  if (auto found = store.find(key)) return *std::move(found);
  auto made = compile(text);
  if (!made) {
    trouble = made.error().message;
    return {};
  }
  store.keep(key, *made);
  return *std::move(made);
}

// Returns the launch configuration, which points to `cluster`.
cudaLaunchConfig_t how_to_launch(const Generated& kernel, cudaLaunchAttribute& cluster) {
  cudaLaunchConfig_t how{};
  how.gridDim = dim3(static_cast<unsigned>(kernel.blocks));
  how.blockDim = dim3(static_cast<unsigned>(kernel.threads));
  how.dynamicSmemBytes = static_cast<std::size_t>(kernel.shared_bytes);
  cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(kernel.cluster);
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  if (kernel.cluster > 1) {
    how.attrs = &cluster;
    how.numAttrs = 1;
  }
  return how;
}

Code load(const Generated& kernel) {
  Code out;
  const std::string code = machine_code(kernel.text, out.trouble);
  if (!out.trouble.empty()) return out;
  const OutsideCapture outside;
  cudaLibrary_t library = nullptr;
  cudaError_t e = cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (e == cudaSuccess) e = cudaLibraryGetKernel(&out.kernel, library, "ridge_kernel");
  const void* const function = reinterpret_cast<const void*>(out.kernel);
  cudaFuncAttributes about{};  // The query forces loading now, not at the first launch.
  if (e == cudaSuccess) e = cudaFuncGetAttributes(&about, function);
  if (e == cudaSuccess && kernel.shared_bytes > 0)
    e = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes);
  if (e == cudaSuccess && kernel.resident) {
    cudaLaunchAttribute cluster;
    const cudaLaunchConfig_t how = how_to_launch(kernel, cluster);
    e = cudaOccupancyMaxActiveClusters(&out.at_once, function, &how);
    if (e == cudaSuccess && out.at_once < 1) e = cudaErrorLaunchOutOfResources;
  }
  if (e != cudaSuccess) out.trouble = said(e, "loading");
  return out;
}

// Returns the loaded kernel of the current device. Kernels stay loaded for the process's lifetime; each device has its
// own, since attributes such as the shared memory limit are set per device.
Code code_of(const Generated& kernel) {
  static std::mutex mutex;
  // Never destroyed: the driver may be unloaded first.
  static auto& of_devices = *new std::map<int, std::map<std::string, Code>>;
  const std::lock_guard lock(mutex);
  auto& all = of_devices[current_device()];
  const auto known = all.find(kernel.text);
  return known != all.end() ? known->second : all.emplace(kernel.text, load(kernel)).first->second;
}

}  // namespace

std::optional<std::string> run(const Generated& kernel, CUstream_st* stream) {
  if (kernel.blocks == 0) return std::nullopt;
  const Code code = code_of(kernel);
  if (!code.trouble.empty()) return code.trouble;
  cudaLaunchAttribute cluster;
  cudaLaunchConfig_t how = how_to_launch(kernel, cluster);
  if (kernel.resident)
    how.gridDim.x = static_cast<unsigned>(std::min(kernel.blocks, std::int64_t{code.at_once} * kernel.cluster));
  how.stream = stream;
  auto* words = const_cast<std::uint64_t*>(kernel.arguments.data());
  void* arguments[] = {words};
  const cudaError_t e = cudaLaunchKernelExC(&how, reinterpret_cast<const void*>(code.kernel), arguments);
  if (e != cudaSuccess) return said(e, "launching");
  return std::nullopt;
}

std::optional<std::string> interpreted() {
  const auto why = cannot_generate();
  return why ? std::optional("interpreted, which is slower: " + *why) : std::nullopt;
}

std::optional<std::string> cannot_generate() {
  if (!nvrtc()) return nvrtc().error().message + "; " + nvrtc().error().hint;
  static const std::optional<std::string> trouble = [] {  // tests the driver with an empty kernel
    Generated least;
    least.arguments = {0};
    least.blocks = 1;
    least.text = generated::kernel_text(least, generated::plain_words, false, "");
    const Code code = code_of(least);
    return code.trouble.empty() ? std::nullopt : std::optional(code.trouble);
  }();
  return trouble;
}

}  // namespace ridge::ops::cuda

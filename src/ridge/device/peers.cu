#include "ridge/device/peers.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>
#include <string>
#include <vector>

#include "ridge/device/cuda_status.h"

namespace ridge::ops::cuda {
namespace {

constexpr const char* cure = "`nvidia-smi topo -p2p r` shows which devices have peer access";

decltype(&cuStreamBatchMemOp) memory_operations() {
  static const auto operations = [] {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult found{};
    const cudaError_t e = cudaGetDriverEntryPointByVersion("cuStreamBatchMemOp", &f, 12000, cudaEnableDefault, &found);
    return reinterpret_cast<decltype(&cuStreamBatchMemOp)>(e == cudaSuccess ? f : nullptr);
  }();
  return operations;
}

CUstreamBatchMemOpParams written(Bell* bell, Bell value) {
  CUstreamBatchMemOpParams out{};
  out.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  out.writeValue.address = reinterpret_cast<CUdeviceptr>(bell);
  out.writeValue.value = value;
  return out;
}

CUstreamBatchMemOpParams awaited(Bell* bell, Bell value) {
  CUstreamBatchMemOpParams out{};
  out.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  out.waitValue.address = reinterpret_cast<CUdeviceptr>(bell);
  out.waitValue.value = value;
  out.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  return out;
}

Status queued(const Queue& queue, std::vector<CUstreamBatchMemOpParams>& all) {
  if (memory_operations() == nullptr)
    return absent_error("the CUDA driver has no cuStreamBatchMemOp, which devices need to wait for each other",
                        "a driver of CUDA 12 or later has it");
  const CUresult r = memory_operations()(queue.stream(), static_cast<unsigned>(all.size()), all.data(), 0);
  if (r == CUDA_SUCCESS) return Done{};
  return absent_error("the CUDA device failed at a flag operation: driver error " + std::to_string(static_cast<int>(r)),
                      cure);
}

}  // namespace

Result<MemoryName> name_of(const Memory& memory) {
  cudaIpcMemHandle_t handle{};
  static_assert(sizeof handle == sizeof(MemoryName));
  if (const Status s = done(cudaIpcGetMemHandle(&handle, memory.data()), "exporting memory", cure); !s)
    return s.error();
  MemoryName out;
  std::memcpy(out.bytes.data(), &handle, sizeof handle);
  return out;
}

Result<PeerMemory> PeerMemory::open(const MemoryName& name) {
  cudaIpcMemHandle_t handle{};
  std::memcpy(&handle, name.bytes.data(), sizeof handle);
  void* data = nullptr;
  const Status opened = done(cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess),
                             "opening another process's memory", cure);
  if (!opened) return opened.error();
  return PeerMemory(
      Handle<std::byte>(static_cast<std::byte*>(data), [](std::byte* x) { (void)cudaIpcCloseMemHandle(x); }));
}

Status ring(const Queue& queue, std::span<Bell* const> theirs) { return ring_then_hear(queue, theirs, {}); }

Status hear(const Queue& queue, std::span<Bell* const> here) {
  std::vector<Heard> all;
  for (Bell* const bell : here) all.push_back({bell});
  return ring_then_hear(queue, {}, all);
}

Status ring_then_hear(const Queue& queue, std::span<Bell* const> theirs, std::span<const Heard> here) {
  std::vector<CUstreamBatchMemOpParams> all;
  for (Bell* const bell : theirs) all.push_back(written(bell, 1));
  for (const Heard& one : here) all.push_back(awaited(one.word, one.value));
  for (const Heard& one : here)
    if (!one.stays) all.push_back(written(one.word, 0));
  return queued(queue, all);
}

}  // namespace ridge::ops::cuda

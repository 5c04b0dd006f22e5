#include "ridge/device/peers.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>
#include <string>
#include <vector>

#include "ridge/device/cuda_status.h"

namespace ridge::device {
namespace {

constexpr const char* hint = "`nvidia-smi topo -p2p r` shows which devices have peer access";

decltype(&cuStreamBatchMemOp) batch_memop_function() {
  static const auto operations = [] {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult found{};
    const cudaError_t e = cudaGetDriverEntryPointByVersion("cuStreamBatchMemOp", &f, 12000, cudaEnableDefault, &found);
    return reinterpret_cast<decltype(&cuStreamBatchMemOp)>(e == cudaSuccess ? f : nullptr);
  }();
  return operations;
}

CUstreamBatchMemOpParams write_operation(DeviceFlag* flag, DeviceFlag value) {
  CUstreamBatchMemOpParams out{};
  out.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  out.writeValue.address = reinterpret_cast<CUdeviceptr>(flag);
  out.writeValue.value = value;
  return out;
}

CUstreamBatchMemOpParams wait_operation(DeviceFlag* flag, DeviceFlag value) {
  CUstreamBatchMemOpParams out{};
  out.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  out.waitValue.address = reinterpret_cast<CUdeviceptr>(flag);
  out.waitValue.value = value;
  out.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  return out;
}

Status submit_operations(const Queue& queue, std::vector<CUstreamBatchMemOpParams>& all) {
  if (batch_memop_function() == nullptr)
    return absent_error("the CUDA driver has no cuStreamBatchMemOp, which devices need to wait for each other",
                        "a driver of CUDA 12 or later has it");
  const CUresult r = batch_memop_function()(queue.stream(), static_cast<unsigned>(all.size()), all.data(), 0);
  if (r == CUDA_SUCCESS) return Done{};
  return absent_error("the CUDA device failed at a flag operation: driver error " + std::to_string(static_cast<int>(r)),
                      hint);
}

}  // namespace

Result<MemoryHandle> export_handle(const DeviceBuffer& memory) {
  cudaIpcMemHandle_t handle{};
  static_assert(sizeof handle == sizeof(MemoryHandle));
  RIDGE_TRY_STATUS(to_status(cudaIpcGetMemHandle(&handle, memory.data()), "exporting memory", hint));
  MemoryHandle out;
  std::memcpy(out.bytes.data(), &handle, sizeof handle);
  return out;
}

Result<ImportedMemory> ImportedMemory::open(const MemoryHandle& name) {
  cudaIpcMemHandle_t handle{};
  std::memcpy(&handle, name.bytes.data(), sizeof handle);
  void* data = nullptr;
  RIDGE_TRY_STATUS(to_status(cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess),
                             "opening another process's memory", hint));
  return ImportedMemory(
      Handle<std::byte>(static_cast<std::byte*>(data), [](std::byte* x) { (void)cudaIpcCloseMemHandle(x); }));
}

Status set_flags(const Queue& queue, std::span<DeviceFlag* const> peer_flags) {
  return set_and_wait_flags(queue, peer_flags, {});
}

Status wait_and_reset_flags(const Queue& queue, std::span<DeviceFlag* const> own_flags) {
  std::vector<AwaitedFlag> all;
  for (DeviceFlag* const flag : own_flags) all.push_back({flag});
  return set_and_wait_flags(queue, {}, all);
}

Status set_and_wait_flags(const Queue& queue, std::span<DeviceFlag* const> peer_flags,
                          std::span<const AwaitedFlag> own_flags) {
  std::vector<CUstreamBatchMemOpParams> all;
  for (DeviceFlag* const flag : peer_flags) all.push_back(write_operation(flag, 1));
  for (const AwaitedFlag& one : own_flags) all.push_back(wait_operation(one.flag, one.value));
  for (const AwaitedFlag& one : own_flags)
    if (!one.keeps_value) all.push_back(write_operation(one.flag, 0));
  return submit_operations(queue, all);
}

}  // namespace ridge::device

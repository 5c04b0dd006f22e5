#include "ridge/device/peers.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>

#include "ridge/device/cuda_status.h"

namespace ridge::ops::cuda {
namespace {

constexpr const char* cure = "`nvidia-smi topo -p2p r` shows which devices reach each other's memory";

template <class Bell> struct Bells { Bell each[most_bells]; };

__global__ void ring_all(Bells<RungBell> bells) {
  const RungBell bell = bells.each[threadIdx.x];
  const Count count = ++*bell.rung;
  __threadfence_system();
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(bell.theirs), "r"(count) : "memory");
}

__global__ void hear_all(Bells<HeardBell> bells) {
  const HeardBell bell = bells.each[threadIdx.x];
  const Count wanted = ++*bell.heard;
  Count count = 0;
  do {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(count) : "l"(bell.rung) : "memory");
  } while (static_cast<std::int32_t>(count - wanted) < 0);
}

template <class Bell, class Kernel> Status for_all(const Queue& queue, std::span<const Bell> bells, Kernel kernel) {
  for (std::size_t at = 0; at < bells.size(); at += most_bells) {
    const std::size_t count = std::min(most_bells, bells.size() - at);
    Bells<Bell> some{};
    std::copy_n(bells.begin() + static_cast<std::ptrdiff_t>(at), count, some.each);
    kernel<<<1, static_cast<unsigned>(count), 0, queue.stream()>>>(some);
  }
  return done(cudaGetLastError(), "a bell");
}

}  // namespace

Result<MemoryName> name_of(const Memory& memory) {
  cudaIpcMemHandle_t handle{};
  static_assert(sizeof handle == sizeof(MemoryName));
  if (const Status s = done(cudaIpcGetMemHandle(&handle, memory.data()), "naming memory", cure); !s) return s.error();
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

Status ring(const Queue& queue, std::span<const RungBell> bells) { return for_all(queue, bells, ring_all); }
Status hear(const Queue& queue, std::span<const HeardBell> bells) { return for_all(queue, bells, hear_all); }

}  // namespace ridge::ops::cuda

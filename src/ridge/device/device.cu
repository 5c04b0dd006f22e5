#include "ridge/device/device.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "ridge/base/text.h"
#include "ridge/tile/sm90/finish.h"
#include "ridge/tile/tile.h"

namespace ridge::ops::cuda {
namespace {

Status done(cudaError_t e, const char* what) {
  if (e == cudaSuccess) return Done{};
  cudaGetLastError();
  return absent_error(std::string("the CUDA device failed at ") + what + ": " + cudaGetErrorString(e),
                      "`nvidia-smi` shows the device's state");
}

__device__ std::uint32_t hashed(std::uint64_t i, std::uint32_t seed) {
  std::uint32_t h = static_cast<std::uint32_t>(i) * 2654435761u ^ seed ^ static_cast<std::uint32_t>(i >> 32) * 40503u;
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  h ^= h >> 16;
  return h;
}

// Box and Muller's transform of two hashes.
__global__ void fill_normal_kernel(tile::Stored stored, void* data, std::uint64_t n, std::uint32_t seed) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < n;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    const std::uint32_t h = hashed(i, seed), g = hashed(h, seed + 77);
    const float u = static_cast<float>((h >> 8) + 1) * (1.0f / 16777217.0f);
    const float x = sqrtf(-2.f * logf(u)) * cospif(static_cast<float>(g >> 8) * (2.0f / 16777216.0f));
    if (stored == tile::Stored::f32)
      static_cast<float*>(data)[i] = x;
    else
      static_cast<std::uint16_t*>(data)[i] = tile::sm90::to_stored(stored, x);
  }
}

}  // namespace

DeviceAnswers ask_device() {
  DeviceAnswers x{.built = true};
  if (cudaDriverGetVersion(&x.driver) != cudaSuccess) x.driver = 0;
  if (x.driver < 12000) return x;  // an older driver can do nothing for us
  if (const cudaError_t e = cudaGetDeviceCount(&x.devices); e != cudaSuccess) {
    cudaGetLastError();
    x.devices = 0;
    x.trouble = cudaGetErrorString(e);
  }
  if (x.devices == 0) return x;
  int device = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&x.major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&x.minor, cudaDevAttrComputeCapabilityMinor, device);
  void* encoder = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t e =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encoder, 12000, cudaEnableDefault, &found);
  x.tensor_maps = e == cudaSuccess && encoder != nullptr;
  cudaGetLastError();
  return x;
}

int multiprocessors() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  return cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) == cudaSuccess ? count : 0;
}

Result<DeviceFacts> device_facts() {
  if (const Status there = require_device(); !there) return there.error();
  int device = 0;
  cudaDeviceProp p{};
  DeviceFacts facts;
  if (const Status s = done(cudaGetDevice(&device), "naming its device"); !s) return s.error();
  if (const Status s = done(cudaGetDeviceProperties(&p, device), "describing itself"); !s) return s.error();
  std::size_t free = 0, total = 0;
  if (const Status s = done(cudaMemGetInfo(&free, &total), "describing its memory"); !s) return s.error();
  facts.name = p.name;
  cudaDriverGetVersion(&facts.driver);
  facts.multiprocessors = p.multiProcessorCount;
  facts.memory_bytes = static_cast<std::int64_t>(total);
  facts.free_bytes = static_cast<std::int64_t>(free);
  facts.l2_bytes = p.l2CacheSize;
  return facts;
}

Result<Memory> Memory::make(std::int64_t bytes, Place place) {
  if (const Status there = require_device(); !there) return there.error();
  void* data = nullptr;
  const std::size_t size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256));
  const cudaError_t e = place == Place::device ? cudaMalloc(&data, size) : cudaMallocHost(&data, size);
  if (e == cudaSuccess) return Memory(static_cast<std::byte*>(data), bytes, place);
  cudaGetLastError();
  const std::string wanted = engineering(static_cast<double>(bytes), "B");
  if (e != cudaErrorMemoryAllocation) return done(e, "allocating memory").error();
  if (place == Place::host)
    return absent_error("the system refused " + wanted + " of pinned memory",
                        "close other programs, or give smaller dimensions with -d");
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return absent_error("the CUDA device refused " + wanted +
                          " of memory: " + engineering(static_cast<double>(free), "B") + " of its " +
                          engineering(static_cast<double>(total), "B") + " are free",
                      "give smaller dimensions with -d, or end other programs on the device");
}
Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), place_(other.place_) {}
Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(place_, other.place_);
  return *this;
}
Memory::~Memory() {
  if (data_) place_ == Place::device ? cudaFree(data_) : cudaFreeHost(data_);
}

Recording& Recording::operator=(Recording&& other) noexcept {
  std::swap(graph_, other.graph_);
  return *this;
}
Recording::~Recording() {
  if (graph_) cudaGraphExecDestroy(graph_);
}

Result<Queue> Queue::make() {
  if (const Status there = require_device(); !there) return there.error();
  Queue q;
  if (const Status s = done(cudaStreamCreateWithFlags(&q.stream_, cudaStreamNonBlocking), "making a stream"); !s)
    return s.error();
  for (CUevent_st** event : {&q.start_, &q.stop_})
    if (const Status s = done(cudaEventCreate(event), "making an event"); !s) return s.error();
  return Result<Queue>(std::move(q));
}
Queue::Queue(Queue&& other) noexcept
    : stream_(std::exchange(other.stream_, nullptr)),
      start_(std::exchange(other.start_, nullptr)),
      stop_(std::exchange(other.stop_, nullptr)) {}
Queue::~Queue() {
  if (start_) cudaEventDestroy(start_);
  if (stop_) cudaEventDestroy(stop_);
  if (stream_) cudaStreamDestroy(stream_);
}

Status Queue::copy(void* to, const void* from, std::int64_t bytes) const {
  return done(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_), "a copy");
}
Status Queue::set(void* to, int byte, std::int64_t bytes) const {
  return done(cudaMemsetAsync(to, byte, static_cast<std::size_t>(bytes), stream_), "setting memory");
}
Status Queue::fill_normal(void* to, DType dtype, std::int64_t elements, std::uint32_t seed) const {
  tile::Stored stored = tile::Stored::f16;
  if (dtype == DType::f32) stored = tile::Stored::f32;
  if (dtype == DType::bf16) stored = tile::Stored::bf16;
  if (elements == 0) return Done{};
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((elements + 255) / 256, 4096));
  fill_normal_kernel<<<blocks, 256, 0, stream_>>>(stored, to, static_cast<std::uint64_t>(elements), seed);
  return done(cudaGetLastError(), "filling memory");
}
Status Queue::wait() const { return done(cudaStreamSynchronize(stream_), "running what was queued"); }

Result<Recording> Queue::record(const std::function<Status()>& work) const {
  if (const Status s = done(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording"); !s)
    return s.error();
  const Status worked = work();
  cudaGraph_t graph = nullptr;
  const Status ended = done(cudaStreamEndCapture(stream_, &graph), "recording");
  cudaGraphExec_t made = nullptr;
  const cudaError_t instantiated = worked && ended ? cudaGraphInstantiate(&made, graph, 0) : cudaSuccess;
  if (graph) cudaGraphDestroy(graph);
  if (!worked) return worked.error();
  if (!ended) return ended.error();
  if (const Status s = done(instantiated, "instantiating a graph"); !s) return s.error();
  return Recording(made);
}
Status Queue::replay(const Recording& r) const {
  return done(cudaGraphLaunch(r.graph(), stream_), "replaying a graph");
}

Result<double> Queue::elapsed(const std::function<Status()>& work) const {
  if (const Status s = done(cudaEventRecord(start_, stream_), "starting a clock"); !s) return s.error();
  if (const Status s = work(); !s) return s.error();
  if (const Status s = done(cudaEventRecord(stop_, stream_), "stopping a clock"); !s) return s.error();
  if (const Status s = done(cudaEventSynchronize(stop_), "running what was queued"); !s) return s.error();
  float ms = 0;
  if (const Status s = done(cudaEventElapsedTime(&ms, start_, stop_), "reading a clock"); !s) return s.error();
  return static_cast<double>(ms) * 1e-3;
}

}  // namespace ridge::ops::cuda

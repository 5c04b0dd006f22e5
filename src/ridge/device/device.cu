#include "ridge/device/device.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "ridge/base/text.h"
#include "ridge/device/cuda_status.h"
#include "ridge/tile/sm90/finish.h"
#include "ridge/tile/tile.h"

namespace ridge::ops::cuda {
namespace {

__device__ std::uint32_t hashed(std::uint64_t i, std::uint32_t seed) {
  std::uint32_t h = static_cast<std::uint32_t>(i) * 2654435761u ^ seed ^ static_cast<std::uint32_t>(i >> 32) * 40503u;
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  h ^= h >> 16;
  return h;
}

// Box-Muller transform of two hashes of the index.
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

Result<Handle<CUevent_st>> made_event() {
  cudaEvent_t event = nullptr;
  if (const Status s = done(cudaEventCreate(&event), "making an event"); !s) return s.error();
  return Handle<CUevent_st>(event, [](CUevent_st* x) { cudaEventDestroy(x); });
}

}  // namespace

DeviceAnswers ask_device() {
  DeviceAnswers x{.built = true};
  if (cudaDriverGetVersion(&x.driver) != cudaSuccess) x.driver = 0;
  if (x.driver < 12000) return x;  // The runtime's calls below need a driver of version 12.
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

namespace {
__global__ void fills_a_multiprocessor() {}
}  // namespace

int clusters_at_once_of_device(int blocks) {
  int device = 0, shared_bytes = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  cudaFuncSetAttribute(fills_a_multiprocessor, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(128);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.attrs = &cluster;
  config.numAttrs = 1;
  if (cudaOccupancyMaxActiveClusters(&count, fills_a_multiprocessor, &config) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

int current_device() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess ? device : -1;
}

Status use_device(int number) {
  if (const Status there = require_device(); !there) return there;
  return done(cudaSetDevice(number), "choosing it");
}

int multiprocessors() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  return cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) == cudaSuccess ? count : 0;
}

Multiprocessors multiprocessors_in_full() {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return {};
  const auto answer = [&](cudaDeviceAttr attribute) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess ? value : 0;
  };
  return {.count = answer(cudaDevAttrMultiProcessorCount),
          .registers = answer(cudaDevAttrMaxRegistersPerMultiprocessor),
          .shared_bytes = answer(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
          .shared_bytes_of_block = answer(cudaDevAttrReservedSharedMemoryPerBlock)};
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
  int clock_khz = 0, memory_clock_khz = 0, bus_bits = 0;
  for (const auto& [attribute, value] : {std::pair{cudaDevAttrClockRate, &clock_khz},
                                         {cudaDevAttrMemoryClockRate, &memory_clock_khz},
                                         {cudaDevAttrGlobalMemoryBusWidth, &bus_bits}})
    if (const Status s = done(cudaDeviceGetAttribute(value, attribute, device), "describing itself"); !s)
      return s.error();
  facts.clock_hz = 1e3 * clock_khz;
  facts.memory_bytes_per_s = 2 * 1e3 * memory_clock_khz * bus_bits / 8.0;  // two transfers a clock cycle
  return facts;
}

Result<Memory> Memory::make(std::int64_t bytes, Location location) {
  if (const Status there = require_device(); !there) return there.error();
  void* data = nullptr;
  const std::size_t size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256));
  const cudaError_t e = location == Location::device ? cudaMalloc(&data, size) : cudaMallocHost(&data, size);
  const auto end =
      location == Location::device ? [](std::byte* x) { cudaFree(x); } : [](std::byte* x) { cudaFreeHost(x); };
  if (e == cudaSuccess) return Memory(Handle<std::byte>(static_cast<std::byte*>(data), end), bytes);
  cudaGetLastError();
  const std::string wanted = engineering(static_cast<double>(bytes), "B");
  if (e != cudaErrorMemoryAllocation) return done(e, "allocating memory").error();
  if (location == Location::host)
    return absent_error("the system refused " + wanted + " of pinned memory",
                        "close other programs, or give smaller dimensions with -d");
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return absent_error("the CUDA device refused " + wanted +
                          " of memory: " + engineering(static_cast<double>(free), "B") + " of its " +
                          engineering(static_cast<double>(total), "B") + " are free",
                      "give smaller dimensions with -d, or end other programs on the device");
}

Result<Queue> Queue::make(Turn turn) {
  if (const Status there = require_device(); !there) return there.error();
  cudaStream_t stream = nullptr;
  int least = 0, greatest = 0;
  for (const Status& s :
       {done(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities"),
        done(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, turn == Turn::first ? greatest : least),
             "making a stream")})
    if (!s) return s.error();
  Handle<CUstream_st> held(stream, [](CUstream_st* x) { cudaStreamDestroy(x); });
  Result<Handle<CUevent_st>> start = made_event(), stop = made_event(), mark = made_event();
  for (const auto* event : {&start, &stop, &mark})
    if (!*event) return event->error();
  return Queue(std::move(held), *std::move(start), *std::move(stop), *std::move(mark));
}
Status Queue::copy(void* to, const void* from, std::int64_t bytes) const {
  return done(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream()), "a copy");
}
Status Queue::copy_rows(const Rows& to, const Rows& from, std::int64_t width, std::int64_t rows) const {
  if (width == 0 || rows == 0) return Done{};
  const auto bytes = [](std::int64_t x) { return static_cast<std::size_t>(x); };
  return done(cudaMemcpy2DAsync(to.data, bytes(to.apart), from.data, bytes(from.apart), bytes(width), bytes(rows),
                                cudaMemcpyDefault, stream()),
              "a copy of rows");
}
Status Queue::follow(const Queue& other) const {
  if (const Status s = done(cudaEventRecord(mark_.get(), other.stream()), "marking what to wait for"); !s) return s;
  return done(cudaStreamWaitEvent(stream(), mark_.get(), 0), "waiting for another queue");
}
Status Queue::set(void* to, int byte, std::int64_t bytes) const {
  return done(cudaMemsetAsync(to, byte, static_cast<std::size_t>(bytes), stream()), "setting memory");
}
Status Queue::fill_normal(void* to, DType dtype, std::int64_t elements, std::uint32_t seed) const {
  tile::Stored stored = tile::Stored::f16;
  if (dtype == DType::f32) stored = tile::Stored::f32;
  if (dtype == DType::bf16) stored = tile::Stored::bf16;
  if (elements == 0) return Done{};
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((elements + 255) / 256, 4096));
  fill_normal_kernel<<<blocks, 256, 0, stream()>>>(stored, to, static_cast<std::uint64_t>(elements), seed);
  return done(cudaGetLastError(), "filling memory");
}
Status Queue::wait() const { return done(cudaStreamSynchronize(stream()), "running what was queued"); }

Result<Recording> Queue::record(const std::function<Status()>& work) const {
  if (const Status s = done(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "recording"); !s)
    return s.error();
  const Status worked = work();
  cudaGraph_t graph = nullptr;
  const Status ended = done(cudaStreamEndCapture(stream(), &graph), "recording");
  cudaGraphExec_t made = nullptr;
  const cudaError_t instantiated = worked && ended ? cudaGraphInstantiate(&made, graph, 0) : cudaSuccess;
  if (graph) cudaGraphDestroy(graph);
  if (!worked) return worked.error();
  if (!ended) return ended.error();
  if (const Status s = done(instantiated, "instantiating a graph"); !s) return s.error();
  return Recording(Handle<CUgraphExec_st>(made, [](CUgraphExec_st* x) { cudaGraphExecDestroy(x); }));
}
Status Queue::replay(const Recording& r) const {
  return done(cudaGraphLaunch(r.graph(), stream()), "replaying a graph");
}

Result<double> Queue::elapsed(const std::function<Status()>& work) const {
  if (const Status s = done(cudaEventRecord(start_.get(), stream()), "starting a clock"); !s) return s.error();
  if (const Status s = work(); !s) return s.error();
  if (const Status s = done(cudaEventRecord(stop_.get(), stream()), "stopping a clock"); !s) return s.error();
  if (const Status s = done(cudaEventSynchronize(stop_.get()), "running what was queued"); !s) return s.error();
  float ms = 0;
  if (const Status s = done(cudaEventElapsedTime(&ms, start_.get(), stop_.get()), "reading a clock"); !s)
    return s.error();
  return static_cast<double>(ms) * 1e-3;
}

}  // namespace ridge::ops::cuda

#include "ridge/device/device.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "ridge/base/dtype_set.h"
#include "ridge/base/string_util.h"
#include "ridge/device/cuda_status.h"
#include "ridge/tile/sm90/epilogue.h"
#include "ridge/tile/tile.h"

namespace ridge::device {
namespace {

__device__ std::uint32_t hash_index(std::uint64_t i, std::uint32_t seed) {
  std::uint32_t h = static_cast<std::uint32_t>(i) * 2654435761u ^ seed ^ static_cast<std::uint32_t>(i >> 32) * 40503u;
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  h ^= h >> 16;
  return h;
}

// Box-Muller transform of two hashes of the index.
template <class T> __global__ void fill_normal_kernel(T* data, std::uint64_t n, std::uint32_t seed) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < n;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    const std::uint32_t h = hash_index(i, seed), g = hash_index(h, seed + 77);
    const float u = static_cast<float>((h >> 8) + 1) * (1.0f / 16777217.0f);
    const float x = sqrtf(-2.f * logf(u)) * cospif(static_cast<float>(g >> 8) * (2.0f / 16777216.0f));
    if constexpr (std::is_same_v<T, float>)
      data[i] = x;
    else if constexpr (std::is_same_v<T, std::int8_t>)
      data[i] = static_cast<std::int8_t>(__float2int_rn(x));
    else
      data[i] = tile::sm90::round_to<T>(x);
  }
}

Result<Handle<CUevent_st>> create_event() {
  cudaEvent_t event = nullptr;
  RIDGE_TRY_STATUS(to_status(cudaEventCreate(&event), "making an event"));
  return Handle<CUevent_st>(event, [](CUevent_st* x) { cudaEventDestroy(x); });
}

}  // namespace

DriverReport query_driver() {
  DriverReport x{.has_cuda_build = true};
  if (cudaDriverGetVersion(&x.driver) != cudaSuccess) x.driver = 0;
  if (x.driver < 12000) return x;  // The runtime's calls below need a driver of version 12.
  if (const cudaError_t e = cudaGetDeviceCount(&x.devices); e != cudaSuccess) {
    cudaGetLastError();
    x.devices = 0;
    x.error = cudaGetErrorString(e);
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
  x.has_tensor_maps = e == cudaSuccess && encoder != nullptr;
  cudaGetLastError();
  return x;
}

namespace {
__global__ void full_sm_kernel() {}
}  // namespace

int max_active_clusters(int cluster_blocks) {
  int device = 0, shared_bytes = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  cudaFuncSetAttribute(full_sm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(cluster_blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(cluster_blocks));
  config.blockDim = dim3(128);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.attrs = &cluster;
  config.numAttrs = 1;
  if (cudaOccupancyMaxActiveClusters(&count, full_sm_kernel, &config) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

int current_device() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess ? device : -1;
}

Status use_device(int number) {
  RIDGE_TRY_STATUS(require_device());
  return to_status(cudaSetDevice(number), "choosing it");
}

int multiprocessor_count() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  return cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) == cudaSuccess ? count : 0;
}

MultiprocessorLimits multiprocessor_limits() {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return {};
  const auto read_attribute = [&](cudaDeviceAttr attribute) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess ? value : 0;
  };
  return {.count = read_attribute(cudaDevAttrMultiProcessorCount),
          .registers = read_attribute(cudaDevAttrMaxRegistersPerMultiprocessor),
          .shared_bytes = read_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
          .reserved_bytes_per_block = read_attribute(cudaDevAttrReservedSharedMemoryPerBlock)};
}

Result<DeviceProperties> device_properties() {
  RIDGE_TRY_STATUS(require_device());
  int device = 0;
  cudaDeviceProp p{};
  DeviceProperties properties;
  RIDGE_TRY_STATUS(to_status(cudaGetDevice(&device), "naming its device"));
  RIDGE_TRY_STATUS(to_status(cudaGetDeviceProperties(&p, device), "describing itself"));
  std::size_t free = 0, total = 0;
  RIDGE_TRY_STATUS(to_status(cudaMemGetInfo(&free, &total), "describing its memory"));
  properties.name = p.name;
  cudaDriverGetVersion(&properties.driver);
  properties.multiprocessors = p.multiProcessorCount;
  properties.memory_bytes = static_cast<std::int64_t>(total);
  properties.free_bytes = static_cast<std::int64_t>(free);
  properties.l2_bytes = p.l2CacheSize;
  int clock_khz = 0, memory_clock_khz = 0, bus_bits = 0;
  for (const auto& [attribute, value] : {std::pair{cudaDevAttrClockRate, &clock_khz},
                                         {cudaDevAttrMemoryClockRate, &memory_clock_khz},
                                         {cudaDevAttrGlobalMemoryBusWidth, &bus_bits}})
    RIDGE_TRY_STATUS(to_status(cudaDeviceGetAttribute(value, attribute, device), "describing itself"));
  properties.clock_hz = 1e3 * clock_khz;
  properties.memory_bytes_per_s = 2 * 1e3 * memory_clock_khz * bus_bits / 8.0;  // two transfers a clock cycle
  return properties;
}

Result<DeviceBuffer> DeviceBuffer::allocate(std::int64_t bytes, Location location) {
  RIDGE_TRY_STATUS(require_device());
  void* data = nullptr;
  const std::size_t size = std::max<std::int64_t>(bytes, 256);
  const cudaError_t e = location == Location::device ? cudaMalloc(&data, size) : cudaMallocHost(&data, size);
  const auto end =
      location == Location::device ? [](std::byte* x) { cudaFree(x); } : [](std::byte* x) { cudaFreeHost(x); };
  if (e == cudaSuccess) return DeviceBuffer(Handle<std::byte>(static_cast<std::byte*>(data), end), bytes);
  cudaGetLastError();
  const std::string requested = format_with_prefix(static_cast<double>(bytes), "B");
  if (e != cudaErrorMemoryAllocation) return to_status(e, "allocating memory").error();
  if (location == Location::host)
    return absent_error("the system refused " + requested + " of pinned memory",
                        "close other programs, or give smaller dimensions with -d");
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return absent_error("the CUDA device refused " + requested +
                          " of memory: " + format_with_prefix(static_cast<double>(free), "B") + " of its " +
                          format_with_prefix(static_cast<double>(total), "B") + " are free",
                      "give smaller dimensions with -d, or end other programs on the device");
}

Result<Queue> Queue::create(Priority priority) {
  RIDGE_TRY_STATUS(require_device());
  cudaStream_t stream = nullptr;
  int lowest_priority = 0, highest_priority = 0;
  RIDGE_TRY_STATUS(
      to_status(cudaDeviceGetStreamPriorityRange(&lowest_priority, &highest_priority), "asking for priorities"));
  RIDGE_TRY_STATUS(
      to_status(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                             priority == Priority::high ? highest_priority : lowest_priority),
                "making a stream"));
  Handle<CUstream_st> owned(stream, [](CUstream_st* x) { cudaStreamDestroy(x); });
  Result<Handle<CUevent_st>> start = create_event(), stop = create_event(), mark = create_event();
  for (const auto* event : {&start, &stop, &mark})
    if (!*event) return event->error();
  return Queue(std::move(owned), *std::move(start), *std::move(stop), *std::move(mark));
}
Status Queue::copy(void* to, const void* from, std::int64_t bytes) const {
  return to_status(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream()), "a copy");
}
Status Queue::copy_rows(const PitchedRows& to, const PitchedRows& from, std::int64_t width, std::int64_t rows) const {
  if (width == 0 || rows == 0) return Done{};
  const auto bytes = [](std::int64_t x) { return static_cast<std::size_t>(x); };
  return to_status(cudaMemcpy2DAsync(to.data, bytes(to.pitch_bytes), from.data, bytes(from.pitch_bytes), bytes(width),
                                     bytes(rows), cudaMemcpyDefault, stream()),
                   "a copy of rows");
}
Status Queue::wait_for(const Queue& other) const {
  RIDGE_TRY_STATUS(to_status(cudaEventRecord(wait_event_.get(), other.stream()), "marking what to wait for"));
  return to_status(cudaStreamWaitEvent(stream(), wait_event_.get(), 0), "waiting for another queue");
}
Status Queue::set_bytes(void* to, int byte, std::int64_t bytes) const {
  return to_status(cudaMemsetAsync(to, byte, static_cast<std::size_t>(bytes), stream()), "setting memory");
}
Status Queue::fill_normal(void* to, DType dtype, std::int64_t elements, std::uint32_t seed) const {
  if (elements == 0) return Done{};
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((elements + 255) / 256, 4096));
  const bool is_filled = RandomDTypes::dispatch(dtype, [&]<class T>() {
    fill_normal_kernel<<<blocks, 256, 0, stream()>>>(static_cast<T*>(to), static_cast<std::uint64_t>(elements), seed);
  });
  if (!is_filled) return dtype_error<RandomDTypes>("random numbers in device memory", dtype);
  return to_status(cudaGetLastError(), "filling memory");
}
Status Queue::synchronize() const { return to_status(cudaStreamSynchronize(stream()), "running what was queued"); }

Result<RecordedGraph> Queue::record_graph(const std::function<Status()>& work) const {
  RIDGE_TRY_STATUS(to_status(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "recording"));
  const Status worked = work();
  cudaGraph_t graph = nullptr;
  const Status ended = to_status(cudaStreamEndCapture(stream(), &graph), "recording");
  cudaGraphExec_t made = nullptr;
  const cudaError_t instantiated = worked && ended ? cudaGraphInstantiate(&made, graph, 0) : cudaSuccess;
  if (graph) cudaGraphDestroy(graph);
  RIDGE_TRY_STATUS(worked);
  RIDGE_TRY_STATUS(ended);
  RIDGE_TRY_STATUS(to_status(instantiated, "instantiating a graph"));
  return RecordedGraph(Handle<CUgraphExec_st>(made, [](CUgraphExec_st* x) { cudaGraphExecDestroy(x); }));
}
Status Queue::launch_graph(const RecordedGraph& r) const {
  return to_status(cudaGraphLaunch(r.graph(), stream()), "replaying a graph");
}

Result<double> Queue::measure_seconds(const std::function<Status()>& work) const {
  RIDGE_TRY_STATUS(to_status(cudaEventRecord(start_.get(), stream()), "starting a clock"));
  RIDGE_TRY_STATUS(work());
  RIDGE_TRY_STATUS(to_status(cudaEventRecord(stop_.get(), stream()), "stopping a clock"));
  RIDGE_TRY_STATUS(to_status(cudaEventSynchronize(stop_.get()), "running what was queued"));
  float ms = 0;
  RIDGE_TRY_STATUS(to_status(cudaEventElapsedTime(&ms, start_.get(), stop_.get()), "reading a clock"));
  return static_cast<double>(ms) * 1e-3;
}

}  // namespace ridge::device

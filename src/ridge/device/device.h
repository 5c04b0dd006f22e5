// A CUDA device: its availability, properties, memory, streams and CUDA graphs. This header needs no CUDA header. In a
// build without CUDA every function returns an error that says so. Every error has kind `absent` (exit code 4): there
// is no device, the device fails, or its memory is exhausted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "ridge/base/dtype.h"
#include "ridge/base/reason.h"
#include "ridge/base/result.h"

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace ridge::device {

// Results of driver queries. `check_device` (device.cc) evaluates them without a driver, so tests cover every case on
// machines without a device.
struct DriverReport {
  bool has_cuda_build = false;  // True if this build has CUDA kernels.
  int driver = 0;               // Version: 13000 is 13.0, 0 is no driver.
  int devices = 0;
  std::string error = {};        // CUDA's message if there are no devices.
  int major = 0, minor = 0;      // Compute capability.
  bool has_tensor_maps = false;  // True if the driver has cuTensorMapEncodeTiled.
};
DriverReport query_driver();
// Checks that kernels can run on the device: on the one that the driver reported, or on the current one.
Status check_device(const DriverReport& report);
Status require_device();

// Returns why the current device cannot run kernels (no CUDA in this build, no driver, no device, wrong architecture).
Reason unavailable_reason();
int current_device();           // Returns -1 if there is none.
Status use_device(int number);  // Makes `number` this thread's current device.
int multiprocessor_count();     // Returns 0 if there is no current device.

// Resources of the current device's multiprocessors (SMs); zeros if there is no device.
struct MultiprocessorLimits {
  int count = 0, registers = 0;      // 32-bit registers per SM.
  std::int64_t shared_bytes = 0;     // Shared memory per SM.
  int reserved_bytes_per_block = 0;  // Shared memory that CUDA reserves for each block.
};
MultiprocessorLimits multiprocessor_limits();

struct DeviceProperties {
  std::string name;  // "NVIDIA H200"
  int driver = 0, multiprocessors = 0;
  std::int64_t memory_bytes = 0, free_bytes = 0, l2_bytes = 0;
  double clock_hz = 0, memory_bytes_per_s = 0;  // Maxima that the driver reports.
};
Result<DeviceProperties> device_properties();
// Returns how many clusters of `cluster_blocks` blocks (1 to 8) run concurrently if a block fills an SM; 0 if there is
// no device.
int max_active_clusters(int cluster_blocks);

// Owns a CUDA object together with the function that destroys it, so that users need no CUDA header.
template <class T> using Handle = std::unique_ptr<T, void (*)(T*)>;

class DeviceBuffer {
 public:
  enum class Location { device, host };  // `host` is pinned memory, which the copy engine can access.
  static Result<DeviceBuffer> allocate(std::int64_t bytes, Location location = Location::device);
  std::byte* data() const { return data_.get(); }  // Aligned to 256 bytes.
  std::int64_t bytes() const { return bytes_; }

 private:
  DeviceBuffer(Handle<std::byte> data, std::int64_t bytes) : data_(std::move(data)), bytes_(bytes) {}
  Handle<std::byte> data_;
  std::int64_t bytes_;
};

class RecordedGraph {  // Owns a CUDA graph.
 public:
  explicit RecordedGraph(Handle<CUgraphExec_st> graph) : graph_(std::move(graph)) {}
  CUgraphExec_st* graph() const { return graph_.get(); }

 private:
  Handle<CUgraphExec_st> graph_;
};

// Owns a CUDA stream. All methods except `synchronize` and `measure_seconds` return without waiting.
class Queue {
 public:
  // If two kernels are ready, the one on the queue of higher priority starts first.
  enum class Priority { normal, high };
  static Result<Queue> create(Priority priority = Priority::normal);
  CUstream_st* stream() const { return stream_.get(); }
  Status copy(void* to, const void* from, std::int64_t bytes) const;  // Any direction.
  // Rows whose first bytes have a distance of `pitch_bytes`.
  struct PitchedRows {
    std::byte* data = nullptr;
    std::int64_t pitch_bytes = 0;
  };
  Status copy_rows(const PitchedRows& to, const PitchedRows& from, std::int64_t width, std::int64_t rows) const;
  Status set_bytes(void* to, int byte, std::int64_t bytes) const;
  // Writes standard normal numbers in a dtype of RandomDTypes; each depends only on `seed` and its index.
  Status fill_normal(void* to, DType dtype, std::int64_t elements, std::uint32_t seed) const;
  Status synchronize() const;
  // Makes later work on this queue wait for the work that is already on `other`. If one of the queues is being
  // captured, the other joins the capture and must be waited for in turn before the capture ends.
  Status wait_for(const Queue& other) const;
  Result<RecordedGraph> record_graph(const std::function<Status()>& work) const;  // Captures `work` without running it.
  Status launch_graph(const RecordedGraph& graph) const;
  // Queues `work`, waits for its end and returns its device time in seconds.
  Result<double> measure_seconds(const std::function<Status()>& work) const;

 private:
  Queue(Handle<CUstream_st> stream, Handle<CUevent_st> start, Handle<CUevent_st> stop, Handle<CUevent_st> mark)
      : stream_(std::move(stream)), start_(std::move(start)), stop_(std::move(stop)), wait_event_(std::move(mark)) {}
  Handle<CUstream_st> stream_;
  Handle<CUevent_st> start_, stop_, wait_event_;
};

}  // namespace ridge::device

// A CUDA device as this project uses it: whether one is there, its memory, a queue of work on it, and work recorded
// once and replayed. No CUDA header is needed here, and without CUDA in the build everything says so in a sentence.
// Every error has kind `absent` (exit code 4): no device, a device that refuses, no memory left on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace ridge::ops::cuda {

// What the driver answers about itself; what follows from it is decided without it (device.cc), so that every case is
// tested where there is no device.
struct DeviceAnswers {
  bool built = false;  // this build has CUDA kernels
  int driver = 0;      // 13000 is 13.0; 0: none
  int devices = 0;
  std::string trouble = {};  // why there are no devices, as CUDA says it
  int major = 0, minor = 0;  // compute capability
  bool tensor_maps = false;  // the driver has cuTensorMapEncodeTiled
};
DeviceAnswers ask_device();
// What stands in the way, with the cure; none: kernels run there.
std::optional<Error> refusal(const DeviceAnswers& answers);
Status require_device();

// Whether the current device can run this: a sentence (no CUDA in this build, no driver, no device, wrong
// architecture), or none.
std::optional<std::string> unavailable();
int current_device();           // its number; -1 where there is none
Status use_device(int number);  // from now on in this thread; the rest of this header speaks of that one
int multiprocessors();          // of the current device; 0 where there is none

// What the blocks of the current device share out; zeros where there is none.
struct Multiprocessors {
  int count = 0, registers = 0;   // registers of one, of 32 bits
  std::int64_t shared_bytes = 0;  // shared memory of one
  int shared_bytes_of_block = 0;  // that the system takes of it for each block
};
Multiprocessors multiprocessors_in_full();

struct DeviceFacts {
  std::string name;  // "NVIDIA H200"
  int driver = 0, multiprocessors = 0;
  std::int64_t memory_bytes = 0, free_bytes = 0, l2_bytes = 0;
  double clock_hz = 0, memory_bytes_per_s = 0;  // at most, as the driver says them
};
Result<DeviceFacts> device_facts();
// How many clusters of so many blocks (1 to 8) run at once, where a block fills a multiprocessor; 0: no device.
int clusters_at_once_of_device(int blocks);

// What make() made, with the function that ends it: moves and ends need no CUDA.
template <class T> using Handle = std::unique_ptr<T, void (*)(T*)>;

class Memory {
 public:
  enum class Location { device, host };  // host: pinned, so that the device's copy engine reaches it
  static Result<Memory> make(std::int64_t bytes, Location location = Location::device);
  std::byte* data() const { return data_.get(); }  // at a multiple of 256
  std::int64_t bytes() const { return bytes_; }

 private:
  Memory(Handle<std::byte> data, std::int64_t bytes) : data_(std::move(data)), bytes_(bytes) {}
  Handle<std::byte> data_;
  std::int64_t bytes_;
};

class Recording {  // a CUDA graph
 public:
  explicit Recording(Handle<CUgraphExec_st> graph) : graph_(std::move(graph)) {}
  CUgraphExec_st* graph() const { return graph_.get(); }

 private:
  Handle<CUgraphExec_st> graph_;
};

// A stream. Everything but wait() and elapsed() returns at once.
class Queue {
 public:
  // Of two kernels that could begin, the one on the queue of Turn::first does.
  enum class Turn { usual, first };
  static Result<Queue> make(Turn turn = Turn::usual);
  CUstream_st* stream() const { return stream_.get(); }
  Status copy(void* to, const void* from, std::int64_t bytes) const;  // in any direction
  // Rows of `width` bytes, whose beginnings lie `apart` bytes from each other.
  struct Rows {
    std::byte* data = nullptr;
    std::int64_t apart = 0;
  };
  Status copy_rows(const Rows& to, const Rows& from, std::int64_t width, std::int64_t rows) const;
  Status set(void* to, int byte, std::int64_t bytes) const;
  // Standard normal numbers in bf16, f16 or f32, a function of seed and index.
  Status fill_normal(void* to, DType dtype, std::int64_t elements, std::uint32_t seed) const;
  Status wait() const;
  // What is queued here from now on waits for what is queued there by now. While one of them records, so does the
  // other, which must then be followed in turn before the recording ends.
  Status follow(const Queue& other) const;
  Result<Recording> record(const std::function<Status()>& work) const;  // what `work` queues here runs only on replay
  Status replay(const Recording& recording) const;
  // Seconds on the device from before what `work` queues here to its end, which is waited for.
  Result<double> elapsed(const std::function<Status()>& work) const;

 private:
  Queue(Handle<CUstream_st> stream, Handle<CUevent_st> start, Handle<CUevent_st> stop, Handle<CUevent_st> mark)
      : stream_(std::move(stream)), start_(std::move(start)), stop_(std::move(stop)), mark_(std::move(mark)) {}
  Handle<CUstream_st> stream_;
  Handle<CUevent_st> start_, stop_, mark_;
};

}  // namespace ridge::ops::cuda

#include "recorded_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ridge/device/device.h"
#include "ridge/device/peak.h"
#include "ridge/device/peers.h"
#include "ridge/device/run_generated.h"
#include "ridge/device/small_messages.h"
#include "ridge/device/stream.h"

namespace ridge::testing {
namespace {

constexpr const char* injected_text = "this call was made to fail";

// Returns the status of a call that has just been appended.
Status status_of_last_call() {
  const CallRecord& record = call_record();
  return record.failing_call && record.calls.size() == *record.failing_call + 1 ? Status(injected_error()) : Done{};
}

}  // namespace

CallRecord& call_record() {
  static CallRecord record;
  return record;
}

void start_recording(std::optional<std::size_t> failing_call) { call_record() = {.failing_call = failing_call}; }

Error injected_error() { return absent_error(injected_text); }

Status record_allocation(const std::string& what) {
  call_record().calls.push_back(what);
  return status_of_last_call();
}

Status record_work(const std::string& what) {
  if (call_record().has_failed()) call_record().calls_after.push_back(what);
  return record_allocation(what);
}

std::optional<std::string> find_error_after_failure(std::size_t failing_call, const std::function<Status()>& work) {
  start_recording(failing_call);
  const Status done = work();
  const CallRecord record = call_record();
  start_recording(std::nullopt);
  if (!record.has_failed()) return std::nullopt;
  const std::string call = fmt::format("call {}, {}", failing_call, record.calls[failing_call]);
  if (done) return fmt::format("{}: the failure was not reported", call);
  if (done.error().message.find(injected_text) == std::string::npos)
    return fmt::format("{}: another error was reported: {}", call, done.error().message);
  if (!record.calls_after.empty()) return fmt::format("{}: followed by {}", call, record.calls_after.front());
  return "";
}

std::string fail_each_call(std::size_t min_calls, const std::function<Status()>& work) {
  constexpr int max_lines = 5;
  std::string out;
  int lines = 0;
  for (std::size_t failing_call = 0; lines < max_lines; ++failing_call) {
    const auto error = find_error_after_failure(failing_call, work);
    if (!error && failing_call < min_calls)
      out += fmt::format("expected at least {} calls, found {}\n", min_calls, failing_call);
    if (!error) break;
    if (error->empty()) continue;
    out += *error + "\n";
    ++lines;
  }
  return out;
}

Status RecordingCommunicator::transfer_messages(std::span<const transport::SendRequest> sent,
                                                std::span<const transport::ReceiveRequest> received) {
  const auto contains_error = [](const transport::SendRequest& one) {
    const std::string_view text(reinterpret_cast<const char*>(one.bytes.data()), one.bytes.size());
    return text.find(injected_text) != std::string_view::npos;
  };
  const bool may_follow = call_record().has_failed() && std::all_of(sent.begin(), sent.end(), contains_error);
  Status recorded = may_follow ? record_allocation("an exchange of the error") : record_work("an exchange of messages");
  if (recorded) return parent_.exchange_messages(sent, received);
  Error error = recorded.error();
  error.kind = ErrorKind::finding;  // the kind of a transport's errors; `absent` can mean that NCCL was not found
  return error;
}

}  // namespace ridge::testing

namespace ridge::device {
namespace {

using ridge::testing::record_allocation;
using ridge::testing::record_work;

// Durations that a clock of this device measures. A launch of a graph takes long enough to be timed a few times only.
constexpr double call_seconds = 1e-7, wait_seconds = 1e-5, graph_seconds = 1e-3;
constexpr std::size_t alignment = 256;

double device_seconds = 0;  // duration of all calls so far
Status record_timed_work(const std::string& what, double seconds = call_seconds) {
  device_seconds += seconds;
  return record_work(what);
}
std::int64_t allocated_bytes(std::int64_t bytes) {
  return (std::max<std::int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

Handle<std::byte> allocate_host(std::int64_t bytes) {
  auto* const data = static_cast<std::byte*>(std::aligned_alloc(alignment, allocated_bytes(bytes)));
  return Handle<std::byte>(data, [](std::byte* x) { std::free(x); });
}

template <class T> Handle<T> make_handle() {  // a distinct address; nobody reads what is there
  return Handle<T>(reinterpret_cast<T*>(new char), [](T* x) { delete reinterpret_cast<char*>(x); });
}

}  // namespace

int current_device() { return 0; }
Status use_device(int) { return Done{}; }
int multiprocessor_count() { return 132; }
int max_active_clusters(int cluster_blocks) { return multiprocessor_count() / cluster_blocks; }
DriverReport query_driver() {
  return {.has_cuda_build = true, .driver = 13000, .devices = 1, .major = 9, .minor = 0, .has_tensor_maps = true};
}
Result<DeviceProperties> device_properties() {
  const std::int64_t bytes = std::int64_t{1} << 30;
  return DeviceProperties{
      .name = "NVIDIA H200", .driver = 13000, .multiprocessors = 132, .memory_bytes = bytes, .free_bytes = bytes};
}

Result<DeviceBuffer> DeviceBuffer::allocate(std::int64_t bytes, Location) {
  RIDGE_TRY_STATUS(record_allocation("an allocation"));
  return DeviceBuffer(allocate_host(bytes), bytes);
}

Result<Queue> Queue::create(Priority) {
  RIDGE_TRY_STATUS(record_allocation("a new queue"));
  return Queue(make_handle<CUstream_st>(), make_handle<CUevent_st>(), make_handle<CUevent_st>(),
               make_handle<CUevent_st>());
}
Status Queue::copy(void*, const void*, std::int64_t) const { return record_timed_work("a copy"); }
Status Queue::copy_rows(const PitchedRows&, const PitchedRows&, std::int64_t, std::int64_t) const {
  return record_work("a copy of rows");
}
Status Queue::set_bytes(void*, int, std::int64_t) const { return record_timed_work("a write of bytes"); }
Status Queue::fill_normal(void*, DType, std::int64_t, std::uint32_t) const { return record_work("a fill"); }
Status Queue::synchronize() const { return record_work("a wait for the queue"); }
Status Queue::wait_for(const Queue&) const { return record_work("a wait for another queue"); }
Result<RecordedGraph> Queue::record_graph(const std::function<Status()>& work) const {
  RIDGE_TRY_STATUS(record_work("the start of a graph"));
  RIDGE_TRY_STATUS(work());
  return RecordedGraph(make_handle<CUgraphExec_st>());
}
Status Queue::launch_graph(const RecordedGraph&) const {
  return record_timed_work("a launch of a graph", graph_seconds);
}
Result<double> Queue::measure_seconds(const std::function<Status()>& work) const {
  RIDGE_TRY_STATUS(record_work("the start of a clock"));
  const double before = device_seconds;
  RIDGE_TRY_STATUS(work());
  RIDGE_TRY_STATUS(record_work("the end of a clock"));
  return device_seconds - before;
}

Status copy_on_stream(CUstream_st*, void*, const void*, std::int64_t) { return record_work("a copy on a stream"); }
Status clear_on_stream(CUstream_st*, void*, std::int64_t) { return record_work("a write on a stream"); }
RelaxedCaptureGuard::RelaxedCaptureGuard() = default;
RelaxedCaptureGuard::~RelaxedCaptureGuard() = default;

// A handle contains the size. Memory of another rank is a new allocation, because nothing reads it.
Result<MemoryHandle> export_handle(const DeviceBuffer& memory) {
  RIDGE_TRY_STATUS(record_allocation("an export of memory"));
  MemoryHandle out;
  const std::int64_t bytes = memory.bytes();
  std::memcpy(out.bytes.data(), &bytes, sizeof bytes);
  return out;
}
Result<ImportedMemory> ImportedMemory::open(const MemoryHandle& handle) {
  RIDGE_TRY_STATUS(record_allocation("an import of memory"));
  std::int64_t bytes = 0;
  std::memcpy(&bytes, handle.bytes.data(), sizeof bytes);
  return ImportedMemory(allocate_host(bytes));
}

Status set_flags(const Queue&, std::span<DeviceFlag* const>) { return record_timed_work("a write of flags"); }
Status wait_and_reset_flags(const Queue&, std::span<DeviceFlag* const>) {
  return record_timed_work("a wait for flags");
}
Status set_and_wait_flags(const Queue&, std::span<DeviceFlag* const>, std::span<const AwaitedFlag> own_flags) {
  return record_timed_work(own_flags.empty() ? "a write of flags" : "a write of flags and a wait",
                           call_seconds + wait_seconds * static_cast<double>(own_flags.size()));
}
std::int64_t SmallBufferLayout::bytes() const { return data_bytes(); }
Status queue_small_collective(const Queue&, const SmallBufferLayout&, const SmallMessage&) {
  return record_work("a small collective");
}
Reason generation_unavailable_reason() { return {}; }
Status launch_generated(const GeneratedKernel&, CUstream_st*) { return record_work("a generated kernel"); }
Status launch_read(const StreamedBuffers&, int, CUstream_st*) { return record_work("a kernel that reads"); }
Status launch_write(const StreamedBuffers&, int, CUstream_st*) { return record_work("a kernel that writes"); }
Status launch_copy(const StreamedBuffers&, int, CUstream_st*) { return record_work("a kernel that copies"); }
Status launch_fma(int, int, CUstream_st*) { return record_work("a kernel of multiply-adds"); }
Status launch_empty_kernel(CUstream_st*) { return record_work("an empty kernel"); }

}  // namespace ridge::device

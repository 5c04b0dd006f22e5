// A CUDA device for tests on machines without one. It replaces the CUDA functions of src/ridge/device and
// src/ridge/ops: it allocates host memory, queues nothing, and records every call. A test chooses a call that fails.
// Calls that queue work, wait for it or send a message must not follow the call that failed: work queued later could
// wait for ever for a flag that was never set. Example: with `failing_call` = 2 and the steps of a product, call 0 sets
// counters, call 1 copies, call 2 returns `injected_error()`, and a call 3 would be an error of the tested code.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/transport/communicator.h"

namespace ridge::testing {

// Calls of this process since the last `start_recording`. Allocations are recorded too, because they can fail.
struct CallRecord {
  std::vector<std::string> calls = {};           // all calls, in order
  std::vector<std::string> calls_after = {};     // calls that must not follow the failure, but did
  std::optional<std::size_t> failing_call = {};  // index in `calls`
  bool has_failed() const { return failing_call && calls.size() > *failing_call; }
};
CallRecord& call_record();
void start_recording(std::optional<std::size_t> failing_call);

Error injected_error();
// Records a call that may follow a failure (an allocation), or one that may not (queued work, a wait, a message).
Status record_allocation(const std::string& what);
Status record_work(const std::string& what);

// Returns "" if `work` was correct: it failed with the injected error and made no further calls. Otherwise returns what
// was wrong. Returns nullopt if it ended before the failing call, so that there are no more calls to test.
std::optional<std::string> find_error_after_failure(std::size_t failing_call, const std::function<Status()>& work);

// Calls `work` again and again, with each of its calls failing in turn. Returns the errors, at most 5 lines.
// `min_calls` is the number of calls that the test must reach.
std::string fail_each_call(std::size_t min_calls, const std::function<Status()>& work);

// Communicator that records the messages of another one. A message may follow a failure if it contains its text, which
// `agree_on_status` sends to all ranks.
class RecordingCommunicator final : public transport::Communicator {
 public:
  explicit RecordingCommunicator(transport::Communicator& parent)
      : Communicator(parent.rank(), parent.size()), parent_(parent) {}
  std::string_view transport_name() const override { return parent_.transport_name(); }
  void abort_all(const Error& why) noexcept override { parent_.abort_all(why); }

 private:
  Status transfer_messages(std::span<const transport::SendRequest> sent,
                           std::span<const transport::ReceiveRequest> received) override;

  transport::Communicator& parent_;
};

}  // namespace ridge::testing

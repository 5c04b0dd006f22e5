#include "ridge/transport/shared_memory.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>

#include "ridge/base/check.h"

namespace ridge::transport {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr double max_sleep_s = 0.05;           // interval at which a sleeping rank checks whether the run has ended
constexpr int polls_before_first_sleep = 200;  // polls before the first sleep: a message in flight takes about 1 us

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

Error corrupt_memory_error(int from, int to) {
  return {.kind = ErrorKind::finding,
          .message = fmt::format("the shared memory of ranks {} and {} is corrupt", from, to),
          .hint = "run it again; if it happens twice, this is a bug of ridge or of the machine"};
}

// Messages to or from one rank; each is preceded by its length (8 bytes).
struct PeerQueue {
  int peer = 0;
  std::deque<std::pair<std::byte*, std::size_t>> messages = {};
  std::uint64_t length = 0;  // length of the first message, as transferred
  std::size_t length_bytes_done = 0, bytes_done = 0;
};

class ExchangeState {
 public:
  ExchangeState(const SharedSegment& segment, int rank) : segment_(segment), rank_(rank) {}

  void add_message(const SendRequest& sent) {
    queue_for(out_, sent.to).messages.emplace_back(const_cast<std::byte*>(sent.bytes.data()), sent.bytes.size());
  }
  void add_message(const ReceiveRequest& received) {
    queue_for(in_, received.from).messages.emplace_back(received.bytes.data(), received.bytes.size());
  }

  bool is_done() const { return out_.empty() && in_.empty(); }

  // Transfers what is possible without waiting. Returns true if any byte moved.
  Result<bool> advance_transfers() {
    bool moved = false;
    for (auto* queues : {&out_, &in_})
      for (std::size_t i = 0; i < queues->size();) {
        PeerQueue& queue = (*queues)[i];
        RIDGE_TRY(bytes, queues == &out_ ? send_bytes(queue) : receive_bytes(queue));
        if (bytes > 0) segment_.wake_rank(queue.peer);
        moved = moved || bytes > 0;
        if (queue.messages.empty())
          queues->erase(queues->begin() + static_cast<std::ptrdiff_t>(i));
        else
          ++i;
      }
    return moved;
  }

  // Returns a rank that this one waits for, preferably a sender.
  int awaited_rank() const { return (in_.empty() ? out_ : in_).front().peer; }

 private:
  static PeerQueue& queue_for(std::vector<PeerQueue>& queues, int peer) {
    for (PeerQueue& queue : queues)
      if (queue.peer == peer) return queue;
    return queues.emplace_back(PeerQueue{peer});
  }

  Result<std::size_t> send_bytes(PeerQueue& queue) const {
    ByteRing ring = segment_.ring_between(rank_, queue.peer);
    return transfer_bytes(
        queue, rank_, queue.peer,
        [&](std::byte* at, std::size_t count) {
          return ring.write({at, count});
        },
        [](const PeerQueue&) { return Status(Done{}); }, [](PeerQueue& l) { l.length = l.messages.front().second; });
  }

  Result<std::size_t> receive_bytes(PeerQueue& queue) const {
    ByteRing ring = segment_.ring_between(queue.peer, rank_);
    return transfer_bytes(
        queue, queue.peer, rank_,
        [&](std::byte* at, std::size_t count) {
          return ring.read({at, count});
        },
        [this](const PeerQueue& l) { return check_length(l); }, [](PeerQueue&) {});
  }

  Status check_length(const PeerQueue& queue) const {
    if (queue.length == queue.messages.front().second) return Done{};
    return Error{.kind = ErrorKind::finding,
                 .message = fmt::format("rank {} sends {} bytes where {} are expected", queue.peer, queue.length,
                                        queue.messages.front().second),
                 .hint = "give every rank the same program, sizes and version"};
  }

  // Transfers lengths and messages until the ring is full (sending) or empty (receiving). Returns the number of bytes.
  template <class Move, class Check, class Begin>
  static Result<std::size_t> transfer_bytes(PeerQueue& queue, int from, int to, const Move& move, const Check& check,
                                            const Begin& begin) {
    std::size_t transferred = 0;
    while (!queue.messages.empty()) {
      auto& [data, size] = queue.messages.front();
      if (queue.length_bytes_done < sizeof queue.length) {
        if (queue.length_bytes_done == 0) begin(queue);
        const auto count = move(reinterpret_cast<std::byte*>(&queue.length) + queue.length_bytes_done,
                                sizeof queue.length - queue.length_bytes_done);
        if (!count) return corrupt_memory_error(from, to);
        transferred += *count;
        queue.length_bytes_done += *count;
        if (queue.length_bytes_done < sizeof queue.length) return transferred;
        RIDGE_TRY_STATUS(check(queue));
      }
      const auto count = move(data + queue.bytes_done, size - queue.bytes_done);
      if (!count) return corrupt_memory_error(from, to);
      transferred += *count;
      queue.bytes_done += *count;
      if (queue.bytes_done < size) return transferred;
      queue.messages.pop_front();
      queue.length_bytes_done = queue.bytes_done = 0;
    }
    return transferred;
  }

  const SharedSegment& segment_;
  int rank_;
  std::vector<PeerQueue> out_, in_;
};

}  // namespace

Status SharedMemoryCommunicator::transfer_messages(std::span<const SendRequest> sent,
                                                   std::span<const ReceiveRequest> received) {
  ExchangeState exchange(segment_, rank());
  for (const SendRequest& one : sent) {
    RIDGE_CHECK(one.to != rank() && one.to >= 0 && one.to < size(), "a rank does not send to itself");
    exchange.add_message(one);
  }
  for (const ReceiveRequest& one : received) {
    RIDGE_CHECK(one.from != rank() && one.from >= 0 && one.from < size(), "a rank does not receive from itself");
    exchange.add_message(one);
  }
  count_sent_bytes(sent);
  auto last = SteadyClock::now();
  for (int idle = 0; !exchange.is_done(); ++idle) {
    const std::uint32_t seen = segment_.wake_count(rank());
    RIDGE_TRY(moved, exchange.advance_transfers());
    if (moved) {
      idle = 0;
      last = SteadyClock::now();
    }
    if (exchange.is_done() || moved || idle < polls_before_first_sleep) continue;
    if (const auto ended = segment_.run_end()) return ended->why;
    if (seconds_since(last) > timeout_s_)
      return Error{.kind = ErrorKind::finding,
                   .message = fmt::format("timed out after {:.3g} s of waiting for rank {}", timeout_s_,
                                          exchange.awaited_rank()),
                   .hint = "if that rank computes for longer, raise --patience"};
    segment_.sleep_until_woken(rank(), seen, std::min(max_sleep_s, timeout_s_));
  }
  return Done{};
}

}  // namespace ridge::transport

#include "ridge/transport/shared_memory.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <deque>
#include <new>
#include <utility>

#include "ridge/base/check.h"
#include "ridge/transport/text_field.h"

namespace ridge::transport {
namespace {

constexpr std::uint64_t max_total_ring_bytes = std::uint64_t{64} << 20;  // target for the bytes of all rings
constexpr std::uint64_t min_ring_bytes = 4096, max_ring_bytes = std::uint64_t{512} << 10;
constexpr std::size_t line = 64;

std::uint64_t choose_ring_bytes(int ranks) {
  const auto pairs = static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(ranks);
  std::uint64_t out = max_ring_bytes;
  while (out > min_ring_bytes && out * pairs > max_total_ring_bytes) out /= 2;
  return out;
}

}  // namespace

struct alignas(line) SharedSegment::SegmentHeader {
  static constexpr int running = 0, ending = 1, ended = 2;
  std::atomic<int> state{running};
  int rank = -1;
  int kind = 0;
  std::array<char, 1024> message{};
  std::array<char, 512> hint{};
};

struct alignas(line) SharedSegment::WakeCounter {
  std::atomic<std::uint32_t> count{0};
  std::atomic<std::uint32_t> sleeping{0};
};

SharedSegment::SharedSegment(std::byte* memory, std::size_t bytes, int ranks, std::uint64_t ring_bytes)
    : memory_(memory), bytes_(bytes), ranks_(ranks), ring_bytes_(ring_bytes) {}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_),
      ranks_(other.ranks_),
      ring_bytes_(other.ring_bytes_) {}

SharedSegment::~SharedSegment() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

Result<SharedSegment> SharedSegment::make(int ranks) {
  if (ranks < 1 || ranks > max_shared_ranks)
    return usage_error(fmt::format("expected 1 to {} ranks on one machine, found {}", max_shared_ranks, ranks),
                       "--ranks 4");
  const std::size_t n = ranks;
  const std::uint64_t ring_bytes = choose_ring_bytes(ranks);
  const std::size_t bytes =
      sizeof(SegmentHeader) + n * sizeof(WakeCounter) + n * n * (sizeof(ByteRingHeader) + ring_bytes);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return input_error(fmt::format("the system refused {} bytes of shared memory for {} ranks: {}", bytes, ranks,
                                   std::strerror(errno)),
                       "give fewer ranks");
  SharedSegment out(static_cast<std::byte*>(memory), bytes, ranks, ring_bytes);
  new (&out.header()) SegmentHeader;
  for (int r = 0; r < ranks; ++r) new (&out.wake_counter(r)) WakeCounter;
  auto* const heads = reinterpret_cast<ByteRingHeader*>(out.memory_ + sizeof(SegmentHeader) + n * sizeof(WakeCounter));
  for (std::size_t i = 0; i < n * n; ++i) new (heads + i) ByteRingHeader;
  return out;
}

SharedSegment::SegmentHeader& SharedSegment::header() const { return *reinterpret_cast<SegmentHeader*>(memory_); }

SharedSegment::WakeCounter& SharedSegment::wake_counter(int rank) const {
  return reinterpret_cast<WakeCounter*>(memory_ + sizeof(SegmentHeader))[rank];
}

ByteRing SharedSegment::ring_between(int from, int to) const {
  const auto n = static_cast<std::size_t>(ranks_),
             i = static_cast<std::size_t>(from) * n + static_cast<std::size_t>(to);
  std::byte* const heads = memory_ + sizeof(SegmentHeader) + n * sizeof(WakeCounter);
  return {reinterpret_cast<ByteRingHeader*>(heads) + i, heads + n * n * sizeof(ByteRingHeader) + i * ring_bytes_,
          ring_bytes_};
}

std::uint32_t SharedSegment::wake_count(int rank) const { return wake_counter(rank).count.load(); }

void SharedSegment::wake_rank(int rank) const {
  WakeCounter& counter = wake_counter(rank);
  counter.count.fetch_add(1);
  if (counter.sleeping.load() != 0) ::syscall(SYS_futex, &counter.count, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedSegment::sleep_until_woken(int rank, std::uint32_t seen, double seconds) const {
  WakeCounter& counter = wake_counter(rank);
  const auto full_seconds = static_cast<std::time_t>(seconds);
  const timespec timeout{full_seconds, static_cast<long>(1e9 * (seconds - static_cast<double>(full_seconds)))};
  counter.sleeping.store(1);
  if (counter.count.load() == seen) ::syscall(SYS_futex, &counter.count, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  counter.sleeping.store(0);
}

void SharedSegment::end_run(int rank, const Error& why) const noexcept {
  SegmentHeader& header = this->header();
  int expected = SegmentHeader::running;
  if (!header.state.compare_exchange_strong(expected, SegmentHeader::ending)) return;
  header.rank = rank;
  header.kind = static_cast<int>(why.kind);
  copy_truncated(why.message, header.message);
  copy_truncated(why.hint, header.hint);
  header.state.store(SegmentHeader::ended);
  for (int r = 0; r < ranks_; ++r) wake_rank(r);
}

std::optional<SharedSegment::RunEnd> SharedSegment::run_end() const {
  const SegmentHeader& header = this->header();
  if (header.state.load() != SegmentHeader::ended) return std::nullopt;
  const int kind = header.kind;
  const bool is_known_kind =
      kind >= static_cast<int>(ErrorKind::finding) && kind <= static_cast<int>(ErrorKind::mismatch);
  return RunEnd{header.rank,
                {.kind = is_known_kind ? static_cast<ErrorKind>(kind) : ErrorKind::finding,
                 .message = read_text(header.message),
                 .hint = read_text(header.hint)}};
}

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

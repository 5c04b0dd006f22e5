#include "ridge/transport/shared_segment.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

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

}  // namespace ridge::transport

#include "ridge/transport/segment.h"

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

namespace ridge::transport {
namespace {

constexpr std::uint64_t all_rings = std::uint64_t{64} << 20;  // target for the bytes of all rings
constexpr std::uint64_t least_ring = 4096, longest_ring = std::uint64_t{512} << 10;
constexpr std::size_t line = 64;

std::uint64_t ring_length(int ranks) {
  const auto pairs = static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(ranks);
  std::uint64_t out = longest_ring;
  while (out > least_ring && out * pairs > all_rings) out /= 2;
  return out;
}

void copy_text(std::span<char> to, const std::string& text) {
  const std::size_t count = std::min(text.size(), to.size() - 1);
  std::memcpy(to.data(), text.data(), count);
  to[count] = '\0';
}

std::string text_in(std::span<const char> from) { return {from.data(), strnlen(from.data(), from.size())}; }

}  // namespace

struct alignas(line) Segment::Head {
  static constexpr int going = 0, ending = 1, over = 2;
  std::atomic<int> state{going};
  int rank = -1;
  int kind = 0;
  std::array<char, 1024> message{};
  std::array<char, 512> hint{};
};

struct alignas(line) Segment::Bell {
  std::atomic<std::uint32_t> count{0};
  std::atomic<std::uint32_t> sleeping{0};
};

Segment::Segment(std::byte* memory, std::size_t bytes, int ranks, std::uint64_t ring_bytes)
    : memory_(memory), bytes_(bytes), ranks_(ranks), ring_bytes_(ring_bytes) {}

Segment::Segment(Segment&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_),
      ranks_(other.ranks_),
      ring_bytes_(other.ring_bytes_) {}

Segment::~Segment() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

Result<Segment> Segment::make(int ranks) {
  if (ranks < 1 || ranks > most_shared_ranks)
    return usage_error(fmt::format("expected 1 to {} ranks on one machine, found {}", most_shared_ranks, ranks),
                       "--ranks 4");
  const auto n = static_cast<std::size_t>(ranks);
  const std::uint64_t ring_bytes = ring_length(ranks);
  const std::size_t bytes = sizeof(Head) + n * sizeof(Bell) + n * n * (sizeof(RingHead) + ring_bytes);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return input_error(fmt::format("the system refused {} bytes of shared memory for {} ranks: {}", bytes, ranks,
                                   std::strerror(errno)),
                       "give fewer ranks");
  Segment out(static_cast<std::byte*>(memory), bytes, ranks, ring_bytes);
  new (&out.head()) Head;
  for (int r = 0; r < ranks; ++r) new (&out.bell_of(r)) Bell;
  auto* const heads = reinterpret_cast<RingHead*>(out.memory_ + sizeof(Head) + n * sizeof(Bell));
  for (std::size_t i = 0; i < n * n; ++i) new (heads + i) RingHead;
  return out;
}

Segment::Head& Segment::head() const { return *reinterpret_cast<Head*>(memory_); }

Segment::Bell& Segment::bell_of(int rank) const { return reinterpret_cast<Bell*>(memory_ + sizeof(Head))[rank]; }

Ring Segment::ring(int from, int to) const {
  const auto n = static_cast<std::size_t>(ranks_),
             i = static_cast<std::size_t>(from) * n + static_cast<std::size_t>(to);
  std::byte* const heads = memory_ + sizeof(Head) + n * sizeof(Bell);
  return {reinterpret_cast<RingHead*>(heads) + i, heads + n * n * sizeof(RingHead) + i * ring_bytes_, ring_bytes_};
}

std::uint32_t Segment::bell(int rank) const { return bell_of(rank).count.load(); }

void Segment::ring_bell(int rank) const {
  Bell& bell = bell_of(rank);
  bell.count.fetch_add(1);
  if (bell.sleeping.load() != 0) ::syscall(SYS_futex, &bell.count, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Segment::sleep(int rank, std::uint32_t seen, double seconds) const {
  Bell& bell = bell_of(rank);
  const auto whole = static_cast<std::time_t>(seconds);
  const timespec most{whole, static_cast<long>(1e9 * (seconds - static_cast<double>(whole)))};
  bell.sleeping.store(1);
  if (bell.count.load() == seen) ::syscall(SYS_futex, &bell.count, FUTEX_WAIT, seen, &most, nullptr, 0);
  bell.sleeping.store(0);
}

void Segment::end(int rank, const Error& why) const noexcept {
  Head& head = this->head();
  int expected = Head::going;
  if (!head.state.compare_exchange_strong(expected, Head::ending)) return;
  head.rank = rank;
  head.kind = static_cast<int>(why.kind);
  copy_text(head.message, why.message);
  copy_text(head.hint, why.hint);
  head.state.store(Head::over);
  for (int r = 0; r < ranks_; ++r) ring_bell(r);
}

std::optional<Segment::Ended> Segment::ended() const {
  const Head& head = this->head();
  if (head.state.load() != Head::over) return std::nullopt;
  const int kind = head.kind;
  const bool known = kind >= static_cast<int>(ErrorKind::finding) && kind <= static_cast<int>(ErrorKind::mismatch);
  return Ended{head.rank,
               {.kind = known ? static_cast<ErrorKind>(kind) : ErrorKind::finding,
                .message = text_in(head.message),
                .hint = text_in(head.hint)}};
}

}  // namespace ridge::transport

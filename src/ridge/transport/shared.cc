#include "ridge/transport/shared.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>

#include "ridge/base/check.h"

namespace ridge::transport {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double nap_s = 0.05;  // interval at which a sleeping rank checks whether the run has ended
constexpr int looks = 200;      // polls before the first sleep: a message in flight takes about 1 us

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Error spoilt(int from, int to) {
  return {.kind = ErrorKind::finding,
          .message = fmt::format("the shared memory of ranks {} and {} is corrupt", from, to),
          .hint = "run it again; if it happens twice, this is a bug of ridge or of the machine"};
}

// Messages to or from one rank; each is preceded by its length (8 bytes).
struct Lane {
  int other = 0;
  std::deque<std::pair<std::byte*, std::size_t>> pieces = {};
  std::uint64_t length = 0;  // length of the first message, as transferred
  std::size_t length_done = 0, done = 0;
};

class Exchange {
 public:
  Exchange(const Segment& segment, int rank) : segment_(segment), rank_(rank) {}

  void add(const Sent& sent) {
    lane(out_, sent.to).pieces.emplace_back(const_cast<std::byte*>(sent.piece.data()), sent.piece.size());
  }
  void add(const Received& received) {
    lane(in_, received.from).pieces.emplace_back(received.piece.data(), received.piece.size());
  }

  bool done() const { return out_.empty() && in_.empty(); }

  // Transfers what is possible without waiting. Returns true if any byte moved.
  Result<bool> advance() {
    bool moved = false;
    for (auto* lanes : {&out_, &in_})
      for (std::size_t i = 0; i < lanes->size();) {
        Lane& lane = (*lanes)[i];
        const auto bytes = lanes == &out_ ? push(lane) : pull(lane);
        if (!bytes) return bytes.error();
        if (*bytes > 0) segment_.ring_bell(lane.other);
        moved = moved || *bytes > 0;
        if (lane.pieces.empty())
          lanes->erase(lanes->begin() + static_cast<std::ptrdiff_t>(i));
        else
          ++i;
      }
    return moved;
  }

  // Returns a rank that this one waits for, preferably a sender.
  int awaited() const { return (in_.empty() ? out_ : in_).front().other; }

 private:
  static Lane& lane(std::vector<Lane>& lanes, int other) {
    for (Lane& lane : lanes)
      if (lane.other == other) return lane;
    return lanes.emplace_back(Lane{other});
  }

  Result<std::size_t> push(Lane& lane) const {
    Ring ring = segment_.ring(rank_, lane.other);
    return walk(
        lane, rank_, lane.other,
        [&](std::byte* at, std::size_t count) {
          return ring.write({at, count});
        },
        [](const Lane&) { return Status(Done{}); }, [](Lane& l) { l.length = l.pieces.front().second; });
  }

  Result<std::size_t> pull(Lane& lane) const {
    Ring ring = segment_.ring(lane.other, rank_);
    return walk(
        lane, lane.other, rank_,
        [&](std::byte* at, std::size_t count) {
          return ring.read({at, count});
        },
        [this](const Lane& l) { return expected_length(l); }, [](Lane&) {});
  }

  Status expected_length(const Lane& lane) const {
    if (lane.length == lane.pieces.front().second) return Done{};
    return Error{.kind = ErrorKind::finding,
                 .message = fmt::format("rank {} sends {} bytes where {} are expected", lane.other, lane.length,
                                        lane.pieces.front().second),
                 .hint = "give every rank the same program, sizes and version"};
  }

  // Transfers lengths and messages until the ring is full (sending) or empty (receiving). Returns the number of bytes.
  template <class Move, class Check, class Begin> static Result<std::size_t> walk(Lane& lane, int from, int to,
                                                                                  const Move& move, const Check& check,
                                                                                  const Begin& begin) {
    std::size_t all = 0;
    while (!lane.pieces.empty()) {
      auto& [data, size] = lane.pieces.front();
      if (lane.length_done < sizeof lane.length) {
        if (lane.length_done == 0) begin(lane);
        const auto count =
            move(reinterpret_cast<std::byte*>(&lane.length) + lane.length_done, sizeof lane.length - lane.length_done);
        if (!count) return spoilt(from, to);
        all += *count;
        lane.length_done += *count;
        if (lane.length_done < sizeof lane.length) return all;
        if (const Status right = check(lane); !right) return right.error();
      }
      const auto count = move(data + lane.done, size - lane.done);
      if (!count) return spoilt(from, to);
      all += *count;
      lane.done += *count;
      if (lane.done < size) return all;
      lane.pieces.pop_front();
      lane.length_done = lane.done = 0;
    }
    return all;
  }

  const Segment& segment_;
  int rank_;
  std::vector<Lane> out_, in_;
};

}  // namespace

Status SharedRanks::exchange(std::span<const Sent> sent, std::span<const Received> received) {
  Exchange all(segment_, rank());
  for (const Sent& one : sent) {
    RIDGE_CHECK(one.to != rank() && one.to >= 0 && one.to < size(), "a rank does not send to itself");
    all.add(one);
  }
  for (const Received& one : received) {
    RIDGE_CHECK(one.from != rank() && one.from >= 0 && one.from < size(), "a rank does not receive from itself");
    all.add(one);
  }
  count(sent);
  auto last = Clock::now();
  for (int idle = 0; !all.done(); ++idle) {
    const std::uint32_t seen = segment_.bell(rank());
    const auto moved = all.advance();
    if (!moved) return moved.error();
    if (*moved) {
      idle = 0;
      last = Clock::now();
    }
    if (all.done() || *moved || idle < looks) continue;
    if (const auto ended = segment_.ended()) return ended->why;
    if (seconds_since(last) > patience_s_)
      return Error{.kind = ErrorKind::finding,
                   .message =
                       fmt::format("timed out after {:.3g} s of waiting for rank {}", patience_s_, all.awaited()),
                   .hint = "if that rank computes for longer, raise --patience"};
    segment_.sleep(rank(), seen, std::min(nap_s, patience_s_));
  }
  return Done{};
}

}  // namespace ridge::transport

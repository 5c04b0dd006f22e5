#include "ridge/measure/ranks/reach.h"

#include <algorithm>
#include <array>

#include "ridge/measure/timer.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t many = std::int64_t{64} << 20;  // bytes of the timed long copy
constexpr std::int64_t copies_timed = 8;               // number of copies into which it is split
constexpr std::size_t spare_bells = 2 + copies_timed;
constexpr int turns = 9;
constexpr std::int64_t allocation_bytes = std::int64_t{2} << 20;  // CUDA puts small buffers into one

}  // namespace

Result<cuda::Memory> shared_memory(std::int64_t bytes) {
  return cuda::Memory::make((bytes + allocation_bytes) / allocation_bytes * allocation_bytes);
}

cuda::Bell* Reach::bell_of(std::byte* bells, std::size_t bell, int other) const {
  return reinterpret_cast<cuda::Bell*>(bells) + bell * static_cast<std::size_t>(size()) +
         static_cast<std::size_t>(other);
}

Result<std::unique_ptr<Reach>> Reach::make(transport::Ranks& ranks, std::size_t bells) {
  const std::size_t words = (bells + spare_bells) * static_cast<std::size_t>(ranks.size());
  auto memory = shared_memory(static_cast<std::int64_t>(words * sizeof(cuda::Bell)));
  if (const Status there = transport::agree(ranks, memory ? Status(Done{}) : memory.error()); !there)
    return there.error();
  std::unique_ptr<Reach> out(new Reach(ranks, bells + spare_bells, *std::move(memory)));
  const auto queue = cuda::Queue::make();
  if (!queue) return queue.error();
  for (const Status& done : {queue->set(out->bells_.data(), 0, out->bells_.bytes()), queue->wait()})
    if (!done) return done.error();
  auto theirs = out->share(out->bells_);
  if (!theirs && theirs.error().kind == ErrorKind::absent) return std::unique_ptr<Reach>();
  if (!theirs) return theirs.error();
  out->theirs_ = *std::move(theirs);
  if (const Status measured = out->measure(); !measured) return measured.error();
  return out;
}

Result<std::vector<std::byte*>> Reach::share(const cuda::Memory& memory) {
  const auto mine = cuda::name_of(memory);
  Status all = transport::agree(*ranks_, mine ? Status(Done{}) : mine.error());
  if (!all) return all.error();
  std::vector<cuda::MemoryName> names(static_cast<std::size_t>(size()), *mine);
  std::vector<transport::Sent> sent;
  std::vector<transport::Received> received;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    sent.push_back({r, mine->bytes});
    received.push_back({r, names[static_cast<std::size_t>(r)].bytes});
  }
  if (const Status told = ranks_->exchange(sent, received); !told) return told.error();
  std::vector<std::byte*> out;
  Status opened = Done{};
  for (int r = 0; r < size(); ++r) {
    out.push_back(r == rank() ? memory.data() : nullptr);
    if (r == rank() || !opened) continue;
    auto peer = cuda::PeerMemory::open(names[static_cast<std::size_t>(r)]);
    if (peer) {
      out.back() = peer->data();
      open_.push_back(*std::move(peer));
    } else {
      opened = peer.error();
    }
  }
  if (all = transport::agree(*ranks_, opened); !all) return all.error();
  return out;
}

Status Reach::ring(const cuda::Queue& queue, std::size_t bell, const std::vector<int>& others) const {
  std::vector<cuda::Bell*> bells;
  for (const int r : others) bells.push_back(word_of(r, bell));
  return cuda::ring(queue, bells);
}

Status Reach::hear(const cuda::Queue& queue, std::size_t bell, const std::vector<int>& others) const {
  std::vector<cuda::Bell*> bells;
  for (const int r : others) bells.push_back(bell_of(bells_.data(), bell, r));
  return cuda::hear(queue, bells);
}

// Every rank copies to the next one. The last flags are reserved for this.
Status Reach::measure() {
  const auto queue = cuda::Queue::make();
  if (!queue) return queue.error();
  auto to = cuda::Memory::make(many), from = cuda::Memory::make(many);
  for (const auto* memory : {&to, &from})
    if (const Status there = transport::agree(*ranks_, *memory ? Status(Done{}) : memory->error()); !there)
      return there;
  const auto all = share(*to);
  if (!all) return all.error();
  const std::size_t opened = open_.size() - static_cast<std::size_t>(size() - 1), bell = count_ - spare_bells;
  const int next = (rank() + 1) % size(), last = (rank() + size() - 1) % size();
  std::byte* const there = (*all)[static_cast<std::size_t>(next)];
  const cuda::Heard never{.word = bell_of(bells_.data(), count_ - 1, next), .value = 0, .stays = true};
  const auto work = [&](std::size_t kind) -> Status {
    for (const Status& begun : {ring(*queue, bell, {last}), hear(*queue, bell, {next})})
      if (!begun) return begun;
    if (kind == 0) return Done{};
    if (kind < 3) return queue->copy(there, from->data(), kind == 2 ? many : 256);
    if (kind == 3) return queue->copy(from->data(), there, many);
    for (std::int64_t i = 0; i < copies_timed; ++i) {
      const std::int64_t each = many / copies_timed;
      auto* const rung = word_of(next, bell + 1 + static_cast<std::size_t>(i));
      for (const Status& done : {queue->copy(there + i * each, from->data() + i * each, each),
                                 cuda::ring_then_hear(*queue, {&rung, 1}, {&never, kind - 4})})
        if (!done) return done;
    }
    for (std::int64_t i = 0; i < copies_timed; ++i) {
      const Status heard_it = hear(*queue, bell + 1 + static_cast<std::size_t>(i), {last});
      if (!heard_it) return heard_it;
    }
    return Done{};
  };
  // Timings, in order: flag only; flag and 256 B written; and a long write; and a long read; and the long write in
  // several copies; and the same with a wait after each copy.
  std::array<double, 6> seconds{};
  for (std::size_t kind = 0; kind < seconds.size(); ++kind) {
    std::vector<double> samples;
    for (int turn = 0; turn < turns; ++turn) {
      if (const Status here = transport::barrier(*ranks_); !here) return here;
      const auto took = queue->elapsed([&] { return work(kind); });
      if (!took) return took.error();
      if (turn > 1) samples.push_back(*took);
    }
    seconds[kind] = statistics(std::move(samples)).min;
  }
  if (const Status told = transport::broadcast(*ranks_, std::as_writable_bytes(std::span(seconds))); !told) return told;
  links_.bell_s = seconds[0];
  links_.wait_s = seconds[1];
  links_.bytes_per_s = static_cast<double>(many) / std::max(1e-9, seconds[2] - seconds[1]);
  links_.read_bytes_per_s = static_cast<double>(many) / std::max(1e-9, seconds[3] - seconds[1]);
  links_.copy_s = std::max(0.0, seconds[4] - seconds[2]) / static_cast<double>(copies_timed);
  links_.awaited_copy_s = std::max(0.0, seconds[5] - seconds[2]) / static_cast<double>(copies_timed);
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(opened), open_.end());  // before a rank frees the memory
  return transport::barrier(*ranks_);
}

}  // namespace ridge::ranks

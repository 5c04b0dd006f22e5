#include "ridge/measure/ranks/device_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ridge/measure/device_machine.h"
#include "ridge/measure/timer.h"
#include "ridge/plan/soonest.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {
namespace {

namespace cuda = ops::cuda;

constexpr double replayed_s = 2e-3;  // minimum seconds of a timed sample
constexpr double most_replays = 64;

std::int64_t bytes_of(const Array& array) { return stored_bytes(array.dtype, array.elements); }

}  // namespace

Result<std::unique_ptr<DevicePart>> DevicePart::make(const Part& part, transport::Ranks& ranks, const OnDevice& how) {
  auto queue = cuda::Queue::make();
  auto slots = queue ? SlotMemory::make(part) : queue.error();
  if (const Status there = transport::agree(ranks, slots ? Status(Done{}) : slots.error()); !there)
    return there.error();
  auto joined = Joined::make(ranks, part.device().mesh, how.nccl, how.joined);
  if (!joined) return joined.error();
  std::unique_ptr<DevicePart> out(new DevicePart(part, std::move(*queue), *std::move(joined), *std::move(slots)));
  if (const Status made = out->make_acts(ranks, how); !made) return made.error();
  return out;
}

Status DevicePart::make_acts(transport::Ranks& ranks, const OnDevice& how) {
  acts_.resize(part_->acts().acts.size());
  if (joined_.all() != nullptr && ranks.size() > 1) {
    auto reach = Reach::make(ranks, InChunks::bells(static_cast<std::size_t>(ranks.size())) * acts_.size());
    if (!reach) return reach.error();
    reach_ = *std::move(reach);
  }
  if (joined_.all() == nullptr) network_s_.reset();  // no prediction for transfers through the host
  if (reach_ != nullptr && how.chunks.when != Chunks::When::never)
    if (const Status paired = make_pairs(ranks, how); !paired) return paired;
  for (std::size_t i = 0; i < acts_.size(); ++i)
    if (const Status made = make_act(i, how); !made) return made;
  return Done{};
}

// The second step of a pair stays `EmptyStep`, like a step without elements, whose result is written in advance.
Status DevicePart::make_pairs(transport::Ranks& ranks, const OnDevice& how) {
  const Acts& acts = part_->acts();
  std::vector<ChunkedPair> pairs;
  for (std::size_t i = 0; i < acts_.size(); ++i) {
    const auto pair = chunked_pair(acts, i, part_->device(), how.stored);
    if (!pair) continue;
    pairs.push_back(*pair);
    ++i;
  }
  std::int64_t count = static_cast<std::int64_t>(pairs.size());  // 0 if not equal on all ranks
  auto all = transport::gather(ranks, std::as_bytes(std::span(&count, 1)));
  if (!all) return all.error();
  for (const auto& one : *all)
    if (std::memcmp(one.data(), all->front().data(), sizeof count) != 0) count = 0;
  if (const Status told = transport::broadcast(ranks, std::as_writable_bytes(std::span(&count, 1))); !told) return told;
  if (count == 0) return Done{};
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const std::size_t bell = InChunks::bells(static_cast<std::size_t>(ranks.size())) * p;
    const auto timed = time_move(pairs[p].shift, ranks);
    if (!timed) return timed.error();
    auto made =
        InChunks::make(pairs[p], {*part_, slots_, how.machine, how.options, how.chunks, ranks, *reach_, bell, *timed});
    if (!made) return made.error();
    notes_.push_back(text(acts, pairs[p], (*made).times));
    if (made->chunks == nullptr) continue;
    if (auto* const mover = std::get_if<DeviceMover>(&acts_[pairs[p].shift])) passed_over_.push_back(std::move(*mover));
    acts_[pairs[p].shift].emplace<Nothing>();
    expect(network_s_, made->times.moving());
    expect(computing_s_, made->times.computing);
    acts_[std::min(pairs[p].compute, pairs[p].shift)].emplace<std::unique_ptr<InChunks>>(std::move(made->chunks));
  }
  return Done{};
}

// Returns the seconds of a small redistribution without overlap, or nullopt if it is not small. Keeps its step.
Result<std::optional<double>> DevicePart::time_move(std::size_t act, transport::Ranks& ranks) {
  const Route route = route_of(act);
  const auto small = DeviceMover::is_small(route, ranks);
  if (!small) return small.error();
  if (!*small) return std::optional<double>();
  auto mover = DeviceMover::make(route, joined_, reach_.get());
  if (!mover) return mover.error();
  acts_[act].emplace<DeviceMover>(*std::move(mover));
  return std::get<DeviceMover>(acts_[act]).seconds();
}

void DevicePart::expect(std::optional<double>& all, std::optional<double> seconds) {
  if (all && seconds)
    *all += *seconds;
  else
    all.reset();
}

Route DevicePart::route_of(std::size_t act) const {
  const auto& shift = std::get<Shift>(part_->acts().acts[act]);
  const Slot& slot = part_->acts().slots[static_cast<std::size_t>(shift.from)];
  const Device& device = part_->device();
  return {shift.move, {slot.extents, slot.dtype, shift.how}, device.mesh, device.number};
}

Status DevicePart::make_act(std::size_t act, const OnDevice& how) {
  const bool is_paired = std::holds_alternative<std::unique_ptr<InChunks>>(acts_[act]) ||
                         (act > 0 && std::holds_alternative<std::unique_ptr<InChunks>>(acts_[act - 1]));
  if (is_paired) return Done{};
  const Acts& acts = part_->acts();
  if (const auto* shift = std::get_if<Shift>(&acts.acts[act])) {
    if (!std::holds_alternative<DeviceMover>(acts_[act])) {
      auto mover = DeviceMover::make(route_of(act), joined_, reach_.get());
      if (!mover) return mover.error();
      acts_[act].emplace<DeviceMover>(*std::move(mover));
    }
    const std::string& note = std::get<DeviceMover>(acts_[act]).note();
    if (!note.empty()) notes_.push_back(note);
    if (shift->move.kind) expect(network_s_, library_time(how.machine, *part_, act));
    return Done{};
  }
  const auto& compute = std::get<Compute>(acts.acts[act]);
  if (compute.empty) return Done{};
  std::vector<std::byte*> lent;
  for (const int slot : compute.slots) lent.push_back(slots_.at(slot));
  auto steps = DeviceSteps::make_in(lent, *part_->plan_of(act), {.tune = how.options.tune});
  if (!steps) return steps.error();
  const auto device = device_numbers_here();
  expect(computing_s_, device ? forecast_s(steps->plan(), *device) : std::nullopt);
  acts_[act].emplace<DeviceSteps>(*std::move(steps));
  return Done{};
}

Status DevicePart::upload() const {
  for (std::size_t s = 0; s < part_->acts().slots.size(); ++s) {
    const int slot = static_cast<int>(s);
    if (!part_->lies_in_memory(slot) || bytes_of(part_->array(slot)) == 0) continue;
    const Array array = part_->array(slot);
    if (const Status copied = queue_.copy(slots_.at(slot), array.data, bytes_of(array)); !copied) return copied;
  }
  return queue_.wait();
}

Status DevicePart::download() const {
  for (const Act& act : acts_)
    if (const auto* chunks = std::get_if<std::unique_ptr<InChunks>>(&act))
      if (const Status whole = (*chunks)->complete(queue_); !whole) return whole;
  for (std::size_t s = 0; s < part_->acts().slots.size(); ++s) {
    const int slot = static_cast<int>(s);
    if (!part_->lies_in_memory(slot) || bytes_of(part_->array(slot)) == 0) continue;
    const Array array = part_->array(slot);
    if (const Status copied = queue_.copy(array.data, slots_.at(slot), bytes_of(array)); !copied) return copied;
  }
  if (const Status waited = queue_.wait(); !waited) return waited;
  return joined_.all() != nullptr ? joined_.all()->healthy() : Status(Done{});
}

Status DevicePart::queue_act(std::size_t act) {
  if (auto* const steps = std::get_if<DeviceSteps>(&acts_[act])) return steps->queue_on(queue_);
  if (auto* const chunks = std::get_if<std::unique_ptr<InChunks>>(&acts_[act])) return (*chunks)->queue(queue_);
  auto* const mover = std::get_if<DeviceMover>(&acts_[act]);
  if (mover == nullptr) return Done{};
  const auto& shift = std::get<Shift>(part_->acts().acts[act]);
  return mover->queue(queue_, slots_.at(shift.from), slots_.at(shift.to));
}

Status DevicePart::queue_acts() {
  for (std::size_t i = 0; i < acts_.size(); ++i)
    if (const Status queued = queue_act(i); !queued) return queued;
  return Done{};
}

// --- timing

Status DevicePart::time_compute(std::size_t act, PassTimes& times) {
  const auto& compute = std::get<Compute>(part_->acts().acts[act]);
  const DeviceSteps& steps = std::get<DeviceSteps>(acts_[act]);
  const std::vector<Group>& groups = steps.plan().fusion.groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto seconds = queue_.elapsed([&] { return steps.queue_on(queue_, static_cast<int>(g)); });
    if (!seconds) return seconds.error();
    const auto local = static_cast<std::size_t>(groups[g].statements.front());
    times.statements[static_cast<std::size_t>(compute.statements[local])] += *seconds;
    times.compute_s += *seconds;
  }
  return Done{};
}

// The time of a pair beyond its computing counts as network time.
Status DevicePart::time_chunks(const InChunks& chunks, PassTimes& times) {
  const auto all = queue_.elapsed([&] { return chunks.queue(queue_); });
  if (!all) return all.error();
  const auto alone = queue_.elapsed([&] { return chunks.queue_computing(queue_); });
  if (!alone) return alone.error();
  const auto& compute = std::get<Compute>(part_->acts().acts[chunks.pair().compute]);
  const auto& shift = std::get<Shift>(part_->acts().acts[chunks.pair().shift]);
  const double computing = std::min(*alone, *all);
  times.statements[static_cast<std::size_t>(compute.statements.front())] += computing;
  times.statements[static_cast<std::size_t>(shift.statement)] += *all - computing;
  times.compute_s += computing;
  times.network_s += *all - computing;
  return Done{};
}

Status DevicePart::time_act(std::size_t act, transport::Ranks& ranks, const Timer& since, PassTimes& times) {
  PassTimes::Span& span = times.acts[act];
  span.wait = span.begin = since.seconds();
  Status done = Done{};
  if (std::holds_alternative<DeviceSteps>(acts_[act])) {
    done = time_compute(act, times);
  } else if (!std::holds_alternative<Nothing>(acts_[act])) {
    if (const Status here = transport::barrier(ranks); !here) return here;
    span.begin = since.seconds();
    times.wait_s += span.begin - span.wait;
    if (const auto* chunks = std::get_if<std::unique_ptr<InChunks>>(&acts_[act])) {
      done = time_chunks(**chunks, times);
    } else {
      const auto seconds = queue_.elapsed([&] { return queue_act(act); });
      if (!seconds) return seconds.error();
      times.statements[static_cast<std::size_t>(std::get<Shift>(part_->acts().acts[act]).statement)] += *seconds;
      times.network_s += *seconds;
    }
  }
  span.end = since.seconds();
  return done;
}

Result<PassTimes> DevicePart::pass(transport::Ranks& ranks) {
  PassTimes out{.statements = std::vector<double>(part_->statements())};
  out.acts.resize(acts_.size());
  if (const Status here = transport::barrier(ranks); !here) return here.error();
  const Timer timer;
  for (std::size_t i = 0; i < acts_.size(); ++i)
    if (const Status timed = time_act(i, ranks, timer, out); !timed) return timed.error();
  const auto wall = seconds_of_pass(ranks);
  if (!wall) return wall.error();
  out.wall_s = *wall;
  return out;
}

// All ranks use rank 0's number of replays.
Result<double> DevicePart::seconds_of_pass(transport::Ranks& ranks) {
  if (!records()) {
    if (const Status here = transport::barrier(ranks); !here) return here.error();
    return queue_.elapsed([&] { return queue_acts(); });
  }
  if (!recording_) {
    auto recording = queue_.record([&] { return queue_acts(); });
    if (!recording) return recording.error();
    recording_ = *std::move(recording);
  }
  const auto replays = [&](std::int64_t count) -> Result<double> {
    if (const Status here = transport::barrier(ranks); !here) return here.error();
    const auto seconds = queue_.elapsed([&]() -> Status {
      for (std::int64_t i = 0; i < count; ++i)
        if (const Status replayed = queue_.replay(*recording_); !replayed) return replayed;
      return Done{};
    });
    return seconds ? *seconds / static_cast<double>(count) : seconds;
  };
  const auto once = replays(1);
  if (!once) return once.error();
  auto count = static_cast<std::int64_t>(std::clamp(std::ceil(replayed_s / std::max(*once, 1e-7)), 1.0, most_replays));
  if (const Status told = transport::broadcast(ranks, std::as_writable_bytes(std::span(&count, 1))); !told)
    return told.error();
  return replays(count);
}

std::string DevicePart::carrier() const {
  if (joined_.all() != nullptr) return "NCCL " + joined_.all()->version();
  return fmt::format("{} through host memory", joined_.ranks().carrier());
}

std::vector<std::string> DevicePart::notes() const {
  std::vector<std::string> out = notes_;
  if (!joined_.why().empty()) out.push_back("redistributions go through host memory: " + joined_.why());
  return out;
}

}  // namespace ridge::ranks

#include "ridge/measure/ranks/device_shift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ridge/base/text.h"
#include "ridge/measure/timer.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {
namespace {

namespace cuda = ops::cuda;

constexpr std::size_t staged_line = 16;  // bytes of one vector load of the copy kernels
constexpr int calls_timed = 20, turns_timed = 7;

Status pack(const cuda::Queue& queue, const std::byte* from, const Block& block, const Parcel& parcel,
            std::int64_t width, std::byte* to) {
  for (const BoxRows& some : rows_of(block, parcel.box, width)) {
    auto* const there = const_cast<std::byte*>(from) + some.in_block;  // the copy only reads it
    const Status copied = queue.copy_rows({to + some.in_box, some.bytes}, {there, some.apart}, some.bytes, some.rows);
    if (!copied) return copied;
  }
  return Done{};
}

Status unpack(const cuda::Queue& queue, std::byte* from, const Parcel& parcel, const Block& block, std::int64_t width,
              std::byte* to) {
  for (const BoxRows& some : rows_of(block, parcel.box, width)) {
    const Status copied =
        queue.copy_rows({to + some.in_block, some.apart}, {from + some.in_box, some.bytes}, some.bytes, some.rows);
    if (!copied) return copied;
  }
  return Done{};
}

bool scatters(const Route& r) { return r.adds() && r.group().empty(); }

// Returns the bytes of the largest box of a reduce-scatter over all devices (some have none), rounded up to 16.
std::size_t longest_addend(const Route& r) {
  std::size_t out = 0;
  for (std::int64_t d = 0; d < r.mesh().devices(); ++d) {
    const Block then = block_of(r.tensor().extents, r.move().after, r.mesh(), d);
    const Block now = block_of(r.tensor().extents, r.move().before, r.mesh(), d);
    out = std::max(out, r.bytes_of(both(then, now)));
  }
  return (out + staged_line - 1) / staged_line * staged_line;
}

// True if an all-gather receives shards of equal length contiguously in the order of the ranks, so that no unpacking is
// needed. All ranks of the group get the same answer.
bool gathers_in_order(const Route& r) {
  if (r.move().kind != Collective::all_gather || r.own().size() != 1) return false;
  const std::size_t each = r.bytes_of(r.before());
  const auto n = static_cast<std::size_t>(r.mesh().size(r.move().over));
  if (each * n != r.bytes_of(r.after()) || r.in().size() + 1 != n) return false;
  for (const auto* parcels : {&r.in(), &r.own()})
    for (const Parcel& p : *parcels) {
      const auto place = static_cast<std::size_t>(r.mesh().place(p.peer, r.move().over));
      const auto there = static_cast<std::size_t>(place_of(r.after(), p.box) * r.width());
      const bool is_run = parcels == &r.own() || p.dense;
      if (!is_run || r.bytes_of(p.box) != each || there != place * each) return false;
    }
  return true;
}

// True if the boxes of a reduce-scatter are contiguous in the order of the ranks, so that no packing is needed.
bool scatters_in_order(const Route& r) {
  if (!scatters(r) || r.own().size() != 1) return false;
  const std::size_t each = longest_addend(r);
  for (const auto* parcels : {&r.out(), &r.own()})
    for (const Parcel& p : *parcels) {
      const auto place = static_cast<std::size_t>(r.mesh().place(p.peer, r.move().over));
      const std::vector<BoxRows> runs = rows_of(r.before(), p.box, r.width());
      if (runs.size() != 1 || runs.front().rows != 1 || static_cast<std::size_t>(runs.front().bytes) != each ||
          static_cast<std::size_t>(runs.front().in_block) != place * each)
        return false;
    }
  return each == r.bytes_of(r.after()) && each * (r.out().size() + 1) == r.bytes_of(r.before());
}

// Returns the bytes sent to each rank, or 0 if the small-collective kernel cannot do it.
std::int64_t small_bytes(const Route& r) {
  if (r.adds() && r.tensor().how != transport::Reduction::sum) return 0;
  if (scatters(r)) return static_cast<std::int64_t>(longest_addend(r));
  const auto bytes = static_cast<std::int64_t>(r.bytes_of(r.before()));
  return r.adds() || bytes % staged_line == 0 ? bytes : 0;
}

}  // namespace

Result<Joined> Joined::make(transport::Ranks& ranks, const Mesh& mesh, const std::string& library,
                            std::shared_ptr<const transport::Nccl> before) {
  Joined out(ranks, mesh);
  out.all_ = std::move(before);
  if (out.all_ != nullptr) return out;
  auto all = transport::Nccl::join(ranks, library);
  if (all)
    out.all_ = *std::move(all);
  else if (all.error().kind == ErrorKind::absent)
    out.why_ = all.error().message;
  else
    return all.error();
  return out;
}

Result<const transport::Nccl*> Joined::over(const std::string& letters) {
  const auto known = over_.find(letters);
  if (known != over_.end()) return known->second.get();
  const int mine = ranks_->rank();
  const std::vector<int> they = sharers(*mesh_, letters, mine);
  bool is_all = static_cast<int>(they.size()) == ranks_->size();
  for (std::size_t i = 0; i < they.size(); ++i) is_all &= they[i] == static_cast<int>(i);
  if (is_all) return all_.get();
  const int first = they.front();
  auto some =
      all_->among({first, static_cast<int>(mesh_->place(mine, letters)), static_cast<int>(mesh_->size(letters))});
  if (!some) return some.error();
  return over_.emplace(letters, *std::move(some)).first->second.get();
}

Result<DeviceMover> DeviceMover::make(Route route, Joined& joined, Reach* reach) {
  std::int64_t disorder = route.adds() || gathers_in_order(route) ? 0 : 1;  // 1 if any rank needs it
  if (const Status known = transport::largest(joined.ranks(), disorder); !known) return known.error();
  const bool collective = joined.all() != nullptr && disorder == 0;
  auto some = collective ? joined.over(route.move().over) : Result<const transport::Nccl*>(nullptr);
  if (!some) return some.error();
  std::size_t bytes = joined.all() != nullptr ? route.staging_bytes() : 0;
  // A packed reduce-scatter needs one slice for each rank, all as long as the longest, and one for the result.
  if (collective && scatters_in_order(route))
    bytes = 0;
  else if (collective && scatters(route))
    bytes = static_cast<std::size_t>((*some)->size() + 1) * longest_addend(route);
  auto staging = cuda::Memory::make(static_cast<std::int64_t>(bytes));
  const Status there = transport::agree(joined.ranks(), staging ? Status(Done{}) : staging.error());
  if (!there) return there.error();
  DeviceMover out(Mover(std::move(route)), *std::move(staging), joined);
  out.some_ = *some;
  if (collective && reach != nullptr)
    if (const Status tried = out.try_small(*reach); !tried) return tried.error();
  return out;
}

Result<bool> DeviceMover::is_small(const Route& route, transport::Ranks& ranks) {
  std::int64_t most = route.adds() || gathers_in_order(route) ? small_bytes(route) : 0;
  if (const Status known = transport::largest(ranks, most); !known) return known.error();
  return most > 0 && most <= SmallMover::most_bytes;
}

// Times NCCL and the kernel between these devices, 20 calls per graph, on separate buffers. Rank 0's times decide.
Status DeviceMover::try_small(Reach& reach) {
  std::int64_t most = small_bytes(route());  // maximum over all groups
  if (const Status known = transport::largest(*ranks_, most); !known) return known;
  if (most == 0) return Done{};
  auto small = SmallMover::make(reach, sharers(route().mesh(), route().move().over, route().device()), most);
  if (!small) return small.error();
  if (*small == nullptr) return Done{};
  small_ = *std::move(small);  // kept even if unused: other ranks have mapped its buffer
  const auto from = cuda::Memory::make(static_cast<std::int64_t>(route().bytes_of(route().before())) + staged_line);
  const auto to = cuda::Memory::make(static_cast<std::int64_t>(route().bytes_of(route().after())) + staged_line);
  const auto queue = cuda::Queue::make();
  const Status there = transport::agree(*ranks_, from && to && queue ? Status(Done{})
                                                                     : absent_error("no memory is left on the device",
                                                                                    "give smaller dimensions with -d"));
  if (!there) return there;
  double seconds[2] = {0, 0};
  for (const bool is_small : {false, true}) {
    if (is_small) way_ = small_.get();
    const auto took = timed(*queue, from->data(), to->data());
    if (!took) return took.error();
    seconds[is_small ? 1 : 0] = *took;
  }
  if (const Status told = transport::broadcast(*ranks_, std::as_writable_bytes(std::span(seconds))); !told) return told;
  collective_s_ = std::min(seconds[0], seconds[1]);
  note_ = fmt::format("{} over {}: {} as one kernel, {} by NCCL", name(*route().move().kind), route().move().over,
                      engineering(seconds[1], "s"), engineering(seconds[0], "s"));
  if (seconds[1] >= seconds[0]) way_ = nullptr;
  return Done{};
}

Result<double> DeviceMover::timed(const cuda::Queue& on, const std::byte* from, std::byte* to) {
  const auto recording = on.record([&]() -> Status {
    for (int i = 0; i < calls_timed; ++i)
      if (const Status queued = queue(on, from, to); !queued) return queued;
    return Done{};
  });
  if (!recording) return recording.error();
  std::vector<double> samples;
  for (int turn = 0; turn < turns_timed; ++turn) {
    if (const Status here = transport::barrier(*ranks_); !here) return here.error();
    const auto took = on.elapsed([&] { return on.replay(*recording); });
    if (!took) return took.error();
    samples.push_back(*took / calls_timed);
  }
  return statistics(std::move(samples)).median;
}

Status DeviceMover::queue(const cuda::Queue& queue, const std::byte* from, std::byte* to) {
  if (all_ == nullptr) return through_host(queue, from, to);
  if (!route().group().empty()) return all_reduce(queue, from, to);
  if (route().adds()) return reduce_scatter(queue, from, to);
  if (some_ == nullptr) return exchange(queue, from, to);
  const auto bytes = route().bytes_of(route().before());
  if (way_ != nullptr) return way_->queue(queue, {from, to, static_cast<std::int64_t>(bytes)});
  return some_->all_gather(from, to, bytes, queue.stream());
}

Status DeviceMover::through_host(const cuda::Queue& queue, const std::byte* from, std::byte* to) {
  const auto before = static_cast<std::int64_t>(route().bytes_of(route().before()));
  const auto after = static_cast<std::int64_t>(route().bytes_of(route().after()));
  std::vector<std::byte> now(static_cast<std::size_t>(before)), then(static_cast<std::size_t>(after));
  if (before > 0)
    if (const Status copied = queue.copy(now.data(), from, before); !copied) return copied;
  if (const Status waited = queue.wait(); !waited) return waited;
  if (const Status moved = host_.perform(*ranks_, now.data(), then.data()); !moved) return moved;
  if (after > 0)
    if (const Status copied = queue.copy(to, then.data(), after); !copied) return copied;
  return queue.wait();
}

Status DeviceMover::all_reduce(const cuda::Queue& queue, const std::byte* from, std::byte* to) const {
  const auto elements = static_cast<std::size_t>(words_in(route().after()));
  const auto bytes = static_cast<std::int64_t>(route().bytes_of(route().after()));
  if (way_ != nullptr) return way_->queue(queue, {from, to, bytes, 0, true, route().tensor().dtype});
  return some_->all_reduce({route().tensor().dtype, route().tensor().how}, from, to, elements, queue.stream());
}

// A rank's position along the mesh axes is its number in `group_` and selects its slice.
Status DeviceMover::reduce_scatter(const cuda::Queue& queue, const std::byte* from, std::byte* to) const {
  const Route& r = route();
  const std::size_t each = longest_addend(r);
  if (each == 0) return Done{};
  const auto add = [&](const std::byte* addends, std::byte* come) {
    const auto bytes = static_cast<std::int64_t>(each);
    if (way_ != nullptr) return way_->queue(queue, {addends, come, bytes, bytes, true, r.tensor().dtype});
    const std::size_t elements = each / static_cast<std::size_t>(r.width());
    return some_->reduce_scatter({r.tensor().dtype, r.tensor().how}, addends, come, elements, queue.stream());
  };
  if (staging_.bytes() == 0) return add(from, to);
  std::byte* const come = staging_.data() + each * static_cast<std::size_t>(some_->size());
  for (const auto* parcels : {&r.out(), &r.own()})
    for (const Parcel& p : *parcels) {
      std::byte* const there = staging_.data() + each * static_cast<std::size_t>(r.mesh().place(p.peer, r.move().over));
      if (const Status packed = pack(queue, from, r.before(), p, r.width(), there); !packed) return packed;
    }
  if (const Status done = add(staging_.data(), come); !done) return done;
  for (const Parcel& p : r.own())
    if (const Status unpacked = unpack(queue, come, p, r.after(), r.width(), to); !unpacked) return unpacked;
  return Done{};
}

Status DeviceMover::exchange(const cuda::Queue& queue, const std::byte* from, std::byte* to) const {
  const Route& r = route();
  std::vector<transport::Sent> sent;
  std::vector<transport::Received> received;
  for (const auto* parcels : {&r.out(), &r.own()})
    for (const Parcel& p : *parcels)
      if (!p.dense)
        if (const Status packed = pack(queue, from, r.before(), p, r.width(), staging_.data() + p.staged); !packed)
          return packed;
  for (const Parcel& p : r.out()) {
    const std::byte* const there =
        p.dense ? from + r.width() * place_of(r.before(), p.box) : staging_.data() + p.staged;
    sent.push_back({static_cast<int>(p.peer), {there, r.bytes_of(p.box)}});
  }
  for (const Parcel& p : r.in()) {
    std::byte* const there = p.dense ? to + r.width() * place_of(r.after(), p.box) : staging_.data() + p.staged;
    received.push_back({static_cast<int>(p.peer), {there, r.bytes_of(p.box)}});
  }
  if (!sent.empty() || !received.empty())
    if (const Status done = all_->exchange(sent, received, queue.stream()); !done) return done;
  for (const auto* parcels : {&r.in(), &r.own()})
    for (const Parcel& p : *parcels)
      if (!p.dense)
        if (const Status there = unpack(queue, staging_.data() + p.staged, p, r.after(), r.width(), to); !there)
          return there;
  return Done{};
}

}  // namespace ridge::ranks

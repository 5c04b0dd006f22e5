#include "ridge/measure/ranks/device_shift.h"

#include <algorithm>

#include "ridge/measure/memory.h"

namespace ridge::ranks {
namespace {

namespace cuda = ops::cuda;

Status pack(const cuda::Queue& queue, const std::byte* from, const Block& block, const Parcel& parcel,
            std::int64_t width, std::byte* to) {
  for (const BoxRows& some : rows_of(block, parcel.box, width)) {
    auto* const there = const_cast<std::byte*>(from) + some.in_block;  // of which is only read
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

// The longest box of a reduce-scatter, in bytes: of every device, for one may have no part of its own.
std::size_t longest_addend(const Route& r) {
  std::size_t out = 0;
  for (std::int64_t d = 0; d < r.mesh().devices(); ++d) {
    const Block then = block_of(r.tensor().extents, r.move().after, r.mesh(), d);
    const Block now = block_of(r.tensor().extents, r.move().before, r.mesh(), d);
    out = std::max(out, r.bytes_of(both(then, now)));
  }
  return out;
}

// Whether what an all-gather brings lies one part behind the other, all of one length, in the order of the places. All
// who share the move see the same.
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

}  // namespace

Result<Joined> Joined::make(transport::Ranks& ranks, const Mesh& mesh, const std::string& library) {
  Joined out(ranks, mesh);
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
  int color = 0;  // the number of the rank whose places along the letters are all 0
  const std::int64_t mine = ranks_->rank();
  for (std::int64_t d = mesh_->devices() - 1; d >= 0; --d) {
    bool same = mesh_->place(d, letters) == 0;
    for (const auto& [letter, size] : mesh_->axes)
      same =
          same && (letters.find(letter) != std::string::npos || mesh_->place(d, letter) == mesh_->place(mine, letter));
    if (same) color = static_cast<int>(d);
  }
  auto some =
      all_->among({color, static_cast<int>(mesh_->place(mine, letters)), static_cast<int>(mesh_->size(letters))});
  if (!some) return some.error();
  return over_.emplace(letters, *std::move(some)).first->second.get();
}

Result<DeviceMover> DeviceMover::make(Route route, Joined& joined) {
  const bool collective = joined.all() != nullptr && (route.adds() || gathers_in_order(route));
  auto some = collective ? joined.over(route.move().over) : Result<const transport::Nccl*>(nullptr);
  if (!some) return some.error();
  std::size_t bytes = joined.all() != nullptr ? route.staging_bytes() : 0;
  // Of a reduce-scatter: what goes to each, all as long as the longest, and what has come.
  if (collective && route.adds() && route.group().empty())
    bytes = static_cast<std::size_t>((*some)->size() + 1) * longest_addend(route);
  auto staging = cuda::Memory::make(static_cast<std::int64_t>(bytes));
  if (!staging) return staging.error();
  DeviceMover out(Mover(std::move(route)), *std::move(staging), joined);
  out.some_ = *some;
  return out;
}

Status DeviceMover::queue(const cuda::Queue& queue, const std::byte* from, std::byte* to) {
  if (all_ == nullptr) return through_host(queue, from, to);
  if (!route().group().empty()) return all_reduce(queue, from, to);
  if (route().adds()) return reduce_scatter(queue, from, to);
  if (some_ == nullptr) return exchange(queue, from, to);
  return some_->all_gather(from, to, route().bytes_of(route().before()), queue.stream());
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
  return some_->all_reduce({route().tensor().dtype, route().tensor().how}, from, to, elements, queue.stream());
}

// Which box is whose is by the place along the mesh axes, which is the number in `some_`.
Status DeviceMover::reduce_scatter(const cuda::Queue& queue, const std::byte* from, std::byte* to) const {
  const Route& r = route();
  const std::size_t each = longest_addend(r);
  if (each == 0) return Done{};
  std::byte* const come = staging_.data() + each * static_cast<std::size_t>(some_->size());
  for (const auto* parcels : {&r.out(), &r.own()})
    for (const Parcel& p : *parcels) {
      std::byte* const there = staging_.data() + each * static_cast<std::size_t>(r.mesh().place(p.peer, r.move().over));
      if (const Status packed = pack(queue, from, r.before(), p, r.width(), there); !packed) return packed;
    }
  const std::size_t elements = each / static_cast<std::size_t>(r.width());
  const Status done =
      some_->reduce_scatter({r.tensor().dtype, r.tensor().how}, staging_.data(), come, elements, queue.stream());
  if (!done) return done;
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

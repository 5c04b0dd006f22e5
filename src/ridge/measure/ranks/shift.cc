#include "ridge/measure/ranks/shift.h"

#include <algorithm>
#include <cstring>

namespace ridge::ranks {
namespace {

// Calls step(offset in the block, offset in the box, bytes) for each run of a box that is dense in both.
template <class Step> void walk(const Block& block, const Block& box, std::int64_t width, const Step& step) {
  if (words_in(box) == 0) return;
  std::size_t outer = box.size();  // axes from here on are one run
  std::int64_t run = width;
  while (outer > 0) {
    --outer;
    run *= box[outer].size();
    if (box[outer].size() != block[outer].size()) break;
  }
  std::vector<std::int64_t> at;
  for (std::size_t i = 0; i < outer; ++i) at.push_back(box[i].begin);
  const auto offset = [&] {
    std::int64_t out = 0;
    for (std::size_t i = 0; i < box.size(); ++i)
      out = out * block[i].size() + (i < outer ? at[i] : box[i].begin) - block[i].begin;
    return out * width;
  };
  for (std::int64_t packed = 0;; packed += run) {
    step(offset(), packed, run);
    std::size_t axis = outer;
    while (axis > 0 && ++at[axis - 1] == box[axis - 1].end) {
      at[axis - 1] = box[axis - 1].begin;
      --axis;
    }
    if (axis == 0) return;
  }
}

// Where the box's first element lies in the block.
std::int64_t place_of(const Block& block, const Block& box) {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < box.size(); ++i) out = out * block[i].size() + box[i].begin - block[i].begin;
  return out;
}

// Whether a box is one run of the block's memory: behind its first axis of several elements it has all of the block's.
bool is_dense(const Block& block, const Block& box) {
  bool several = false;
  for (std::size_t i = 0; i < box.size(); ++i) {
    if (several && box[i].size() != block[i].size()) return false;
    several = several || box[i].size() > 1;
  }
  return true;
}

std::string letters_in(const Mesh& mesh) {
  std::string out;
  for (const auto& axis : mesh.axes) out += axis.first;
  return out;
}

bool adds(const Move& move) { return move.kind == Collective::reduce_scatter || move.kind == Collective::all_reduce; }

}  // namespace

void pack(const std::byte* from, const Block& block, const Block& box, std::int64_t width, std::byte* to) {
  walk(block, box, width, [&](std::int64_t there, std::int64_t here, std::int64_t bytes) {
    std::memcpy(to + here, from + there, static_cast<std::size_t>(bytes));
  });
}

void unpack(const std::byte* from, const Block& box, const Block& block, std::int64_t width, std::byte* to) {
  walk(block, box, width, [&](std::int64_t there, std::int64_t here, std::int64_t bytes) {
    std::memcpy(to + there, from + here, static_cast<std::size_t>(bytes));
  });
}

Block both(const Block& a, const Block& b) {
  Block out;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t begin = std::max(a[i].begin, b[i].begin);
    out.push_back({begin, std::max(begin, std::min(a[i].end, b[i].end))});
  }
  return out;
}

Mover::Mover(const Move& move, Tensorial tensor, const Mesh& mesh, std::int64_t device)
    : move_(move),
      tensor_(std::move(tensor)),
      mesh_(mesh),
      device_(device),
      width_(bits(tensor_.dtype) / 8),
      adds_(adds(move)),
      before_(block_of(tensor_.extents, move.before, mesh, device)),
      after_(block_of(tensor_.extents, move.after, mesh, device)) {
  if (move.kind == Collective::all_reduce)
    meet(mesh);
  else
    list(mesh);
}

// Those whose addends are added up in place.
void Mover::meet(const Mesh& mesh) {
  group_.resize(static_cast<std::size_t>(mesh.size(move_.over)));
  for (std::int64_t other = 0; other < mesh.devices(); ++other)
    if (owns(other, device_)) group_[static_cast<std::size_t>(mesh.place(other, move_.over))] = static_cast<int>(other);
  const auto n = static_cast<std::int64_t>(group_.size());
  const std::int64_t words = words_in(after_), each = (words + n - 1) / n, place = mesh.place(device_, move_.over);
  const std::int64_t mine = std::min(words, (place + 1) * each) - std::min(words, place * each);
  words_sent_ = words - mine + (n - 1) * mine;  // addends of the others' stretches, then sums of its own
}

// Whether `owner` differs from `reader` in nothing but the mesh axes along which words come from elsewhere.
bool Mover::owns(std::int64_t owner, std::int64_t reader) const {
  const std::string cut = move_.kind == Collective::all_reduce ? "" : letters_of(move_.before);
  for (const char letter : letters_in(mesh_)) {
    const bool free = cut.find(letter) != std::string::npos || (adds_ && move_.over.find(letter) != std::string::npos);
    if (!free && mesh_.place(owner, letter) != mesh_.place(reader, letter)) return false;
  }
  return true;
}

std::size_t Mover::bytes_of(const Block& box) const { return static_cast<std::size_t>(words_in(box) * width_); }

void Mover::add(std::vector<Parcel>& to, Parcel parcel) {
  if (words_in(parcel.box) == 0) return;
  parcel.staged = staging_.size();
  if (!parcel.dense) staging_.resize(staging_.size() + bytes_of(parcel.box));
  to.push_back(std::move(parcel));
}

void Mover::list(const Mesh& mesh) {
  for (std::int64_t other = 0; other < mesh.devices(); ++other) {
    const auto addend = [&](std::int64_t owner) { return adds_ ? mesh.place(owner, move_.over) : 0; };
    if (owns(other, device_)) {
      const Block box = both(after_, block_of(tensor_.extents, move_.before, mesh, other));
      const bool direct = other != device_ && !adds_ && is_dense(after_, box);
      add(other == device_ ? own_ : in_, {other, addend(other), box, 0, direct});
    }
    if (other != device_ && owns(device_, other)) {
      const Block box = both(block_of(tensor_.extents, move_.after, mesh, other), before_);
      add(out_, {other, addend(device_), box, 0, is_dense(before_, box)});
      words_sent_ += words_in(box);
    }
  }
}

Status Mover::perform(transport::Ranks& ranks, const std::byte* from, std::byte* to) {
  if (!group_.empty()) {
    const std::size_t bytes = bytes_of(after_);
    if (bytes > 0) std::memcpy(to, from, bytes);
    return transport::all_reduce(ranks, group_, {tensor_.dtype, tensor_.how}, {to, bytes});
  }
  std::vector<transport::Sent> sent;
  std::vector<transport::Received> received;
  for (const auto* parcels : {&out_, &own_})
    for (const Parcel& p : *parcels)
      if (!p.dense) pack(from, before_, p.box, width_, staging_.data() + p.staged);
  for (const Parcel& p : out_) {
    const std::byte* const there = p.dense ? from + width_ * place_of(before_, p.box) : staging_.data() + p.staged;
    sent.push_back({static_cast<int>(p.peer), {there, bytes_of(p.box)}});
  }
  for (const Parcel& p : in_) {
    std::byte* const there = p.dense ? to + width_ * place_of(after_, p.box) : staging_.data() + p.staged;
    received.push_back({static_cast<int>(p.peer), {there, bytes_of(p.box)}});
  }
  if (const Status done = ranks.exchange(sent, received); !done) return done;
  if (adds_)
    add_up(to);
  else
    unpack(to);
  return Done{};
}

void Mover::unpack(std::byte* to) {
  for (const auto* parcels : {&in_, &own_})
    for (const Parcel& p : *parcels)
      if (!p.dense) ranks::unpack(staging_.data() + p.staged, p.box, after_, width_, to);
}

// The addends of a box, one of each place along the mesh axes, in the order of the places.
void Mover::add_up(std::byte* to) {
  std::vector<const Parcel*> all;
  for (const auto* parcels : {&in_, &own_})
    for (const Parcel& p : *parcels) all.push_back(&p);
  const auto before = [](const Parcel* a, const Parcel* b) {
    for (std::size_t i = 0; i < a->box.size(); ++i)
      if (a->box[i].begin != b->box[i].begin) return a->box[i].begin < b->box[i].begin;
    return a->addend < b->addend;
  };
  std::sort(all.begin(), all.end(), before);
  const auto n = static_cast<std::size_t>(mesh_.size(move_.over));
  for (std::size_t first = 0; first + n <= all.size(); first += n) {
    transport::Addends addends{tensor_.dtype, tensor_.how, {}};
    for (std::size_t a = 0; a < n; ++a) addends.each.push_back(staging_.data() + all[first + a]->staged);
    std::byte* const sum = staging_.data() + all[first]->staged;
    transport::add_up(addends, words_in(all[first]->box), sum);
    ranks::unpack(sum, all[first]->box, after_, width_, to);
  }
}

}  // namespace ridge::ranks

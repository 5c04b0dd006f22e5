#include "ridge/measure/ranks/shift.h"

#include <algorithm>
#include <cstring>

namespace ridge::ranks {

void pack(const std::byte* from, const Block& block, const Block& box, std::int64_t width, std::byte* to) {
  for (const BoxRows& some : rows_of(block, box, width))
    for (std::int64_t r = 0; r < some.rows; ++r)
      std::memcpy(to + some.in_box + r * some.bytes, from + some.in_block + r * some.apart,
                  static_cast<std::size_t>(some.bytes));
}

void unpack(const std::byte* from, const Block& box, const Block& block, std::int64_t width, std::byte* to) {
  for (const BoxRows& some : rows_of(block, box, width))
    for (std::int64_t r = 0; r < some.rows; ++r)
      std::memcpy(to + some.in_block + r * some.apart, from + some.in_box + r * some.bytes,
                  static_cast<std::size_t>(some.bytes));
}

Status Mover::perform(transport::Ranks& ranks, const std::byte* from, std::byte* to) {
  if (!route_.group().empty()) {
    const std::size_t bytes = route_.bytes_of(route_.after());
    if (bytes > 0) std::memcpy(to, from, bytes);
    return transport::all_reduce(ranks, route_.group(), {route_.tensor().dtype, route_.tensor().how}, {to, bytes});
  }
  staging_.resize(route_.staging_bytes());
  std::vector<transport::Sent> sent;
  std::vector<transport::Received> received;
  for (const auto* parcels : {&route_.out(), &route_.own()})
    for (const Parcel& p : *parcels)
      if (!p.dense) pack(from, route_.before(), p.box, route_.width(), staging_.data() + p.staged);
  for (const Parcel& p : route_.out()) {
    const std::byte* const there =
        p.dense ? from + route_.width() * place_of(route_.before(), p.box) : staging_.data() + p.staged;
    sent.push_back({static_cast<int>(p.peer), {there, route_.bytes_of(p.box)}});
  }
  for (const Parcel& p : route_.in()) {
    std::byte* const there =
        p.dense ? to + route_.width() * place_of(route_.after(), p.box) : staging_.data() + p.staged;
    received.push_back({static_cast<int>(p.peer), {there, route_.bytes_of(p.box)}});
  }
  if (const Status done = ranks.exchange(sent, received); !done) return done;
  if (route_.adds())
    add_up(to);
  else
    unpack(to);
  return Done{};
}

void Mover::unpack(std::byte* to) {
  for (const auto* parcels : {&route_.in(), &route_.own()})
    for (const Parcel& p : *parcels)
      if (!p.dense) ranks::unpack(staging_.data() + p.staged, p.box, route_.after(), route_.width(), to);
}

// Adds up the partial sums of each box, in the order of the ranks along the mesh axes.
void Mover::add_up(std::byte* to) {
  std::vector<const Parcel*> all;
  for (const auto* parcels : {&route_.in(), &route_.own()})
    for (const Parcel& p : *parcels) all.push_back(&p);
  const auto before = [](const Parcel* a, const Parcel* b) {
    for (std::size_t i = 0; i < a->box.size(); ++i)
      if (a->box[i].begin != b->box[i].begin) return a->box[i].begin < b->box[i].begin;
    return a->addend < b->addend;
  };
  std::sort(all.begin(), all.end(), before);
  const auto n = static_cast<std::size_t>(route_.mesh().size(route_.move().over));
  for (std::size_t first = 0; first + n <= all.size(); first += n) {
    transport::Addends addends{route_.tensor().dtype, route_.tensor().how, {}};
    for (std::size_t a = 0; a < n; ++a) addends.each.push_back(staging_.data() + all[first + a]->staged);
    std::byte* const sum = staging_.data() + all[first]->staged;
    transport::add_up(addends, words_in(all[first]->box), sum);
    ranks::unpack(sum, all[first]->box, route_.after(), route_.width(), to);
  }
}

}  // namespace ridge::ranks

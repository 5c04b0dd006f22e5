// What ranks do together, written once above Ranks::exchange. Sums are taken in the order of the ranks, in f32 (of
// whole numbers exactly), and rounded once: the bits depend neither on the carrier nor on who comes first.
#pragma once

#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/transport/ranks.h"

namespace ridge::transport {

enum class Reduction { sum, max, min };

// Whether elements of this dtype are added up: f32, bf16, f16 and int32.
bool adds(DType dtype);

// out[i] = addends[0][i] + addends[1][i] + …; `out` may be one of the addends.
struct Addends {
  DType dtype = DType::f32;
  Reduction how = Reduction::sum;
  std::vector<const std::byte*> each = {};
};
void add_up(const Addends& addends, std::int64_t elements, std::byte* out);

// The same of what lies in `data` at each rank of `group`, which holds this one: rank i of the group adds up the i-th
// stretch, of equal length but for the last ones, and sends it to the others.
struct AllReduce {
  DType dtype = DType::f32;
  Reduction how = Reduction::sum;
};
Status all_reduce(Ranks& ranks, std::span<const int> group, const AllReduce& what, std::span<std::byte> data);

// Every rank has come here.
Status barrier(Ranks& ranks);
// Rank 0's, at every rank.
Status broadcast(Ranks& ranks, std::span<std::byte> data);
// Every rank's, all of one length, at rank 0 in order; elsewhere empty.
Result<std::vector<std::vector<std::byte>>> gather(Ranks& ranks, std::span<const std::byte> mine);
// The most that any rank has, at every rank.
Status largest(Ranks& ranks, std::int64_t& number);
// The first rank's error, at every rank alike and with its number, where any has one.
Status agree(Ranks& ranks, const Status& mine);

// Whether these texts, each with what it is called, are everyone's. Error: the first rank whose "program" is another.
struct Same {
  std::string_view what;
  std::string text;
};
Status agree_same(Ranks& ranks, std::span<const Same> all);

}  // namespace ridge::transport

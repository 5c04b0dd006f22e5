// Collectives on top of `exchange_messages`. Partial sums are added in rank order, in f32 (integers exactly), and
// rounded once: the bits depend neither on the transport nor on the order of arrival.
#pragma once

#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/transport/ranks.h"

namespace ridge::transport {

enum class Reduction { sum, max, min };

// True if elements of this dtype can be reduced: f32, bf16, f16 and int32.
bool adds(DType dtype);

// Writes out[i] = inputs[0][i] + inputs[1][i] + …, or the maximum or minimum; `out` may be one of the inputs.
struct Addends {
  DType dtype = DType::f32;
  Reduction how = Reduction::sum;
  std::vector<const std::byte*> each = {};
};
void add_up(const Addends& addends, std::int64_t elements, std::byte* out);

// All-reduces `data` in place over the ranks of `group`, which includes this rank. Rank i of the group reduces the i-th
// slice and sends the result to the others. Slices have equal length, except that the last ones may be shorter.
struct AllReduce {
  DType dtype = DType::f32;
  Reduction how = Reduction::sum;
};
Status all_reduce(Ranks& ranks, std::span<const int> group, const AllReduce& what, std::span<std::byte> data);

// Returns when every rank has called it.
Status barrier(Ranks& ranks);
// Copies rank 0's data to every rank.
Status broadcast(Ranks& ranks, std::span<std::byte> data);
// Returns every rank's data (all of equal length) in rank order at rank 0; empty buffers elsewhere.
Result<std::vector<std::vector<std::byte>>> gather(Ranks& ranks, std::span<const std::byte> mine);
// Sets `number` to the maximum over all ranks.
Status largest(Ranks& ranks, std::int64_t& number);
// Returns the same status on every rank: the error of the lowest rank that has one, with its rank number.
Status agree(Ranks& ranks, const Status& mine);

// Checks that all ranks pass the same texts. Error: the lowest rank that differs, with the text's name ("program").
struct Same {
  std::string_view what;
  std::string text;
};
Status agree_same(Ranks& ranks, std::span<const Same> all);

}  // namespace ridge::transport

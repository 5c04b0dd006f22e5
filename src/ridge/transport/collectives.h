// Collectives on top of `exchange_messages`. Partial sums are added in rank order, in f32 (integers exactly), and
// rounded once: the bits depend neither on the transport nor on the order of arrival.
#pragma once

#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/transport/communicator.h"

namespace ridge::transport {

enum class ReduceOp { sum, max, min };

// True if elements of this dtype can be reduced: f32, bf16, f16 and int32.
bool can_reduce(DType dtype);

// Writes out[i] = inputs[0][i] + inputs[1][i] + …, or the maximum or minimum; `out` may be one of the inputs.
struct ReduceInputs {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::vector<const std::byte*> inputs = {};
};
void reduce_elements(const ReduceInputs& reduction, std::int64_t elements, std::byte* out);

// All-reduces `data` in place over the ranks of `group`, which includes this rank. Rank i of the group reduces the i-th
// slice and sends the result to the others. Slices have equal length, except that the last ones may be shorter.
struct ReduceSpec {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
};
Status all_reduce(Communicator& comm, std::span<const int> group, const ReduceSpec& spec, std::span<std::byte> data);

// Returns when every rank has called it.
Status barrier(Communicator& comm);
// Copies rank 0's data to every rank.
Status broadcast(Communicator& comm, std::span<std::byte> data);
// Returns every rank's data (all of equal length) in rank order at rank 0; empty buffers elsewhere.
Result<std::vector<std::vector<std::byte>>> gather_at_root(Communicator& comm, std::span<const std::byte> mine);
// Sets `number` to the maximum over all ranks.
Status all_reduce_max(Communicator& comm, std::int64_t& number);
// Returns the same status on every rank: the error of the lowest rank that has one, with its rank number.
Status agree_on_status(Communicator& comm, const Status& mine);

// Checks that all ranks pass the same texts. Error: the lowest rank that differs, with the text's name ("program").
struct ComparedText {
  std::string_view name;
  std::string text;
};
Status check_same_on_all_ranks(Communicator& comm, std::span<const ComparedText> all);

}  // namespace ridge::transport

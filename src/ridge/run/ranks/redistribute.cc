#include "ridge/run/ranks/redistribute.h"

#include <algorithm>
#include <cstring>

namespace ridge::ranks {

void pack_box(const std::byte* from, const ShardBox& block, const ShardBox& box, std::int64_t width, std::byte* to) {
  for (const StridedRows& box_rows : split_into_rows(block, box, width))
    for (std::int64_t r = 0; r < box_rows.rows; ++r)
      std::memcpy(to + box_rows.box_offset + r * box_rows.row_bytes,
                  from + box_rows.block_offset + r * box_rows.block_stride, box_rows.row_bytes);
}

void unpack_box(const std::byte* from, const ShardBox& box, const ShardBox& block, std::int64_t width, std::byte* to) {
  for (const StridedRows& box_rows : split_into_rows(block, box, width))
    for (std::int64_t r = 0; r < box_rows.rows; ++r)
      std::memcpy(to + box_rows.block_offset + r * box_rows.block_stride,
                  from + box_rows.box_offset + r * box_rows.row_bytes, box_rows.row_bytes);
}

Status Redistributor::exchange_shards(transport::Communicator& comm, const std::byte* from, std::byte* to) {
  if (!comm_schedule_.reduction_group().empty()) {
    const std::size_t bytes = comm_schedule_.box_bytes(comm_schedule_.block_after());
    if (bytes > 0) std::memcpy(to, from, bytes);
    return transport::all_reduce(comm, comm_schedule_.reduction_group(),
                                 {comm_schedule_.tensor().dtype, comm_schedule_.tensor().reduce_op}, {to, bytes});
  }
  staging_.resize(comm_schedule_.staging_bytes());
  std::vector<transport::SendRequest> sent;
  std::vector<transport::ReceiveRequest> received;
  for (const auto* messages : {&comm_schedule_.outgoing_messages(), &comm_schedule_.local_messages()})
    for (const MessageBuffer& p : *messages)
      if (!p.is_contiguous)
        pack_box(from, comm_schedule_.block_before(), p.box, comm_schedule_.element_bytes(),
                 staging_.data() + p.staging_offset);
  for (const MessageBuffer& p : comm_schedule_.outgoing_messages()) {
    const std::byte* const source =
        p.is_contiguous ? from + comm_schedule_.element_bytes() * element_offset(comm_schedule_.block_before(), p.box)
                        : staging_.data() + p.staging_offset;
    sent.push_back({static_cast<int>(p.peer), {source, comm_schedule_.box_bytes(p.box)}});
  }
  for (const MessageBuffer& p : comm_schedule_.incoming_messages()) {
    std::byte* const destination =
        p.is_contiguous ? to + comm_schedule_.element_bytes() * element_offset(comm_schedule_.block_after(), p.box)
                        : staging_.data() + p.staging_offset;
    received.push_back({static_cast<int>(p.peer), {destination, comm_schedule_.box_bytes(p.box)}});
  }
  RIDGE_TRY_STATUS(comm.exchange_messages(sent, received));
  if (comm_schedule_.is_reduction())
    reduce_received(to);
  else
    unpack_received(to);
  return Done{};
}

void Redistributor::unpack_received(std::byte* to) {
  for (const auto* messages : {&comm_schedule_.incoming_messages(), &comm_schedule_.local_messages()})
    for (const MessageBuffer& p : *messages)
      if (!p.is_contiguous)
        ranks::unpack_box(staging_.data() + p.staging_offset, p.box, comm_schedule_.block_after(),
                          comm_schedule_.element_bytes(), to);
}

// Adds up the partial sums of each box, in the order of the ranks along the mesh axes.
void Redistributor::reduce_received(std::byte* to) {
  std::vector<const MessageBuffer*> all;
  for (const auto* messages : {&comm_schedule_.incoming_messages(), &comm_schedule_.local_messages()})
    for (const MessageBuffer& p : *messages) all.push_back(&p);
  const auto before = [](const MessageBuffer* a, const MessageBuffer* b) {
    for (std::size_t i = 0; i < a->box.size(); ++i)
      if (a->box[i].begin != b->box[i].begin) return a->box[i].begin < b->box[i].begin;
    return a->addition_order < b->addition_order;
  };
  std::sort(all.begin(), all.end(), before);
  const std::size_t n = comm_schedule_.mesh().size(comm_schedule_.redistribution().over);
  for (std::size_t first = 0; first + n <= all.size(); first += n) {
    transport::ReduceInputs partial_sums{comm_schedule_.tensor().dtype, comm_schedule_.tensor().reduce_op, {}};
    for (std::size_t a = 0; a < n; ++a) partial_sums.inputs.push_back(staging_.data() + all[first + a]->staging_offset);
    std::byte* const sum = staging_.data() + all[first]->staging_offset;
    transport::reduce_elements(partial_sums, count_words(all[first]->box), sum);
    ranks::unpack_box(sum, all[first]->box, comm_schedule_.block_after(), comm_schedule_.element_bytes(), to);
  }
}

}  // namespace ridge::ranks

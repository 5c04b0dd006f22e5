#include "ridge/run/ranks/small_collective.h"

#include <algorithm>

namespace ridge::ranks {
namespace {

constexpr std::int64_t push_vector_bytes = 16;

}  // namespace

Result<std::unique_ptr<SmallCollective>> SmallCollective::make(PeerMemory& peer_memory, const std::vector<int>& group,
                                                               std::int64_t bytes) {
  const auto n = static_cast<int>(group.size());
  if (bytes > max_bytes || n > device::max_small_ranks) return std::unique_ptr<SmallCollective>();
  const device::SmallBufferLayout shape{(bytes + push_vector_bytes - 1) / push_vector_bytes * push_vector_bytes, n};
  const std::int64_t counts = static_cast<std::int64_t>(sizeof(device::CallCount)) * device::max_small_blocks;
  RIDGE_TRY(buffer, allocate_exportable_memory(shape.bytes() + counts));
  std::unique_ptr<SmallCollective> out(new SmallCollective(std::move(buffer)));
  RIDGE_TRY(queue, device::Queue::create());
  RIDGE_TRY_STATUS(queue.set_bytes(out->buffer_.data(), 0, out->buffer_.bytes()));
  RIDGE_TRY_STATUS(queue.synchronize());
  // Ranks receive the address only after the memory is zero.
  RIDGE_TRY(buffers, peer_memory.open_on_all_ranks(out->buffer_));
  out->shape_ = shape;
  for (std::size_t p = 0; p < group.size(); ++p) {
    out->message_.buffers[p] = buffers[group[p]];
    if (group[p] == peer_memory.rank()) out->message_.rank = static_cast<int>(p);
  }
  out->message_.call_counts = reinterpret_cast<device::CallCount*>(out->buffer_.data() + shape.bytes());
  return out;
}

Status SmallCollective::queue_call(const device::Queue& queue, const SmallCollectiveArgs& args) const {
  device::SmallMessage message = message_;
  message.from = args.from;
  message.to = args.to;
  message.bytes = args.bytes;
  message.stride_bytes = args.stride;
  message.is_sum = args.is_reduction;
  message.dtype = args.dtype;
  return device::queue_small_collective(queue, shape_, message);
}

}  // namespace ridge::ranks

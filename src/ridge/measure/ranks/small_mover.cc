#include "ridge/measure/ranks/small_mover.h"

#include <algorithm>

namespace ridge::ranks {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t vector_bytes = 16;

}  // namespace

Result<std::unique_ptr<SmallMover>> SmallMover::make(Reach& reach, const std::vector<int>& group, std::int64_t bytes) {
  const auto n = static_cast<int>(group.size());
  if (bytes > most_bytes || n > cuda::most_small_ranks) return std::unique_ptr<SmallMover>();
  const cuda::SmallRoom shape{(bytes + vector_bytes - 1) / vector_bytes * vector_bytes, n};
  const std::int64_t counts = static_cast<std::int64_t>(sizeof(cuda::Count)) * cuda::small_blocks;
  auto room = shared_memory(shape.bytes() + counts);
  if (!room) return room.error();
  std::unique_ptr<SmallMover> out(new SmallMover(std::move(*room)));
  const auto queue = cuda::Queue::make();
  if (!queue) return queue.error();
  for (const Status& done : {queue->set(out->room_.data(), 0, out->room_.bytes()), queue->wait()})
    if (!done) return done.error();
  const auto rooms = reach.share(out->room_);  // ranks receive the address only after the memory is zero
  if (!rooms) return rooms.error();
  out->shape_ = shape;
  for (std::size_t p = 0; p < group.size(); ++p) {
    out->message_.rooms[p] = (*rooms)[static_cast<std::size_t>(group[p])];
    if (group[p] == reach.rank()) out->message_.rank = static_cast<int>(p);
  }
  out->message_.calls = reinterpret_cast<cuda::Count*>(out->room_.data() + shape.bytes());
  return out;
}

Status SmallMover::queue(const cuda::Queue& queue, const SmallWords& words) const {
  cuda::SmallMessage message = message_;
  message.from = words.from;
  message.to = words.to;
  message.bytes = words.bytes;
  message.apart = words.apart;
  message.sums = words.sums;
  message.dtype = words.dtype;
  return cuda::send_small(queue, shape_, message);
}

}  // namespace ridge::ranks

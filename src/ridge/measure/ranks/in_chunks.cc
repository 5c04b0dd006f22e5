#include "ridge/measure/ranks/in_chunks.h"

#include <utility>

#include "ridge/transport/collectives.h"

namespace ridge::ranks {

namespace cuda = ops::cuda;

InChunks::InChunks(const ChunkedPair& pair, const Where& where, const ChunkTimes& times, Queues queues)
    : pair_(pair),
      part_(&where.part),
      slots_(&where.slots),
      options_(&where.options),
      ranks_(&where.ranks),
      reach_(&where.reach),
      first_bell_(where.bell),
      times_(times),
      queues_(std::move(queues)) {
  pieces_ = row_pieces(part_->acts(), pair_, part_->device());
  for (std::size_t p = 0; p < pieces_.size(); ++p)
    if (pieces_[p].rank == ranks_->rank())
      place_ = p;
    else
      others_.push_back(pieces_[p].rank);
}

std::size_t InChunks::bells(std::size_t ranks) { return 1 + ranks * most_chunks; }

Result<InChunks::Queues> InChunks::Queues::make() {
  auto first = cuda::Queue::make(cuda::Queue::Turn::first);
  auto second = cuda::Queue::make(), copies = cuda::Queue::make(), more_copies = cuda::Queue::make();
  for (const auto* queue : {&first, &second, &copies, &more_copies})
    if (!*queue) return queue->error();
  return Queues{*std::move(first), *std::move(second), *std::move(copies), *std::move(more_copies)};
}

namespace {

Status has_kernel(const ChunkQuestion& question, const ChunkTimes& times) {
  const auto& compute = std::get<Compute>(question.part.acts().acts[question.pair.compute]);
  const auto planned = plan_part(compute.program, question.options);
  if (!planned) return planned.error();
  if (one_kernel(question, *planned, times.chunks)) return Done{};
  return input_error("no kernel can process all chunks of this product");
}

}  // namespace

Result<InChunks::Made> InChunks::make(const ChunkedPair& pair, const Where& where) {
  auto queues = Queues::make();
  if (!queues) return queues.error();
  const ChunkQuestion question{where.part,          pair,          where.machine,
                               where.options,       where.how,     where.ranks.rank(),
                               where.reach.links(), where.moving_s};
  auto times = chunk_times(question);
  if (const Status there = transport::agree(where.ranks, times ? Status(Done{}) : times.error()); !there)
    return there.error();
  if (const Status told = transport::broadcast(where.ranks, std::as_writable_bytes(std::span(&*times, 1))); !told)
    return told.error();
  if (times->chunks == 0) return Made{*times, nullptr};
  // Shards may differ by a row or column: a single kernel is used only if every rank has one.
  if (times->one_kernel)
    times->one_kernel = static_cast<bool>(transport::agree(where.ranks, has_kernel(question, *times)));
  const Maker maker = times->one_kernel ? by_one_kernel : in_launches;
  std::unique_ptr<InChunks> out = maker(pair, where, *times, *std::move(queues));
  if (const Status shared = out->share(); !shared) return shared.error();
  if (const Status built = transport::agree(where.ranks, out->build(question)); !built) return built.error();
  times->chunks = out->chunks();
  return Made{*times, std::move(out)};
}

Result<DeviceSteps> InChunks::whole_steps(const DeviceSteps::How& how) const {
  std::vector<std::byte*> lent;
  for (const int slot : compute().slots) lent.push_back(slots_->at(slot));
  auto planned = plan_part(compute().program, *options_);
  if (!planned) return planned.error();
  return DeviceSteps::make_in(lent, *std::move(planned), how);
}

Status InChunks::complete(const cuda::Queue& queue) const {
  if (!pair_.gathers()) return whole_->queue_on(queue);
  std::byte* const there = slots_->at(shift().to) + mine().rows.begin * row_bytes();
  return queue.copy(there, slots_->at(shift().from), mine().rows.size() * row_bytes());
}

Status InChunks::fork(const cuda::Queue& queue) const {
  for (const cuda::Queue* one : {&queues_.first, &queues_.second, &queues_.copies, &queues_.more_copies})
    if (const Status after = one->follow(queue); !after) return after;
  return Done{};
}

Status InChunks::join(const cuda::Queue& queue) const {
  for (const cuda::Queue* one : {&queues_.first, &queues_.second, &queues_.copies, &queues_.more_copies})
    if (const Status after = queue.follow(*one); !after) return after;
  return Done{};
}

Status InChunks::meet(const cuda::Queue& queue, std::size_t bell) const {
  const Status rung = reach_->ring(queue, bell, others_);
  return rung ? reach_->hear(queue, bell, others_) : rung;
}

// All flags are consumed before `join_queues`, and others set them again only after this rank's next ready flag.
Status InChunks::hear_sums(const RowPiece& piece, std::size_t chunks) const {
  for (std::size_t number = 0; number < chunks; ++number)
    if (const Status whole = reach_->hear(queues_.copies, summed(number), {piece.rank}); !whole) return whole;
  return Done{};
}

Status InChunks::Copies::copy(const Work& work, cuda::Bell* bell) {
  if (const Status rung = ring(); !rung) return rung;
  if (const Status copied = work(*queue_); !copied) return copied;
  bells_.push_back(bell);
  return Done{};
}

Status InChunks::Copies::await(const cuda::Heard& word) {
  return cuda::ring_then_hear(*queue_, std::exchange(bells_, {}), {&word, 1});
}

Status InChunks::Copies::follow(const cuda::Queue& other) {
  const Status rung = ring();
  return rung ? queue_->follow(other) : rung;
}

Status InChunks::Copies::ring() {
  return bells_.empty() ? Status(Done{}) : cuda::ring(*queue_, std::exchange(bells_, {}));
}

}  // namespace ridge::ranks

#include "ridge/measure/ranks/in_chunks.h"

#include <algorithm>

#include "ridge/transport/collectives.h"

namespace ridge::ranks {

namespace cuda = ops::cuda;

InChunks::InChunks(const ChunkedPair& pair, const Where& where, Queues queues)
    : pair_(pair),
      part_(&where.part),
      slots_(&where.slots),
      options_(&where.options),
      ranks_(&where.ranks),
      reach_(&where.reach),
      told_(where.bell),
      summed_(where.bell + 1),
      read_(where.bell + 2),
      queues_(std::move(queues)) {
  pieces_ = row_pieces(part_->acts(), pair_, part_->device());
  for (std::size_t p = 0; p < pieces_.size(); ++p)
    if (pieces_[p].rank == ranks_->rank())
      place_ = p;
    else
      others_.push_back(pieces_[p].rank);
}

Result<InChunks::Queues> InChunks::Queues::make() {
  std::vector<cuda::Queue> all;
  while (all.size() < 5) {
    auto queue = cuda::Queue::make();
    if (!queue) return queue.error();
    all.push_back(std::move(*queue));
  }
  return Queues{std::move(all[0]), std::move(all[1]), std::move(all[2]), std::move(all[3]), std::move(all[4])};
}

Result<InChunks::Made> InChunks::make(const ChunkedPair& pair, const Where& where) {
  auto queues = Queues::make();
  if (!queues) return queues.error();
  std::unique_ptr<InChunks> out(new InChunks(pair, where, *std::move(queues)));
  const ChunkQuestion question{
      where.part, pair, where.machine, where.options, where.how, where.reach.bytes_per_s(), where.reach.wait_s()};
  auto times = chunk_times(question);
  if (const Status there = transport::agree(where.ranks, times ? Status(Done{}) : times.error()); !there)
    return there.error();
  if (const Status told = transport::broadcast(where.ranks, std::as_writable_bytes(std::span(&*times, 1))); !told)
    return told.error();
  out->times_ = *times;
  if (times->chunks == 0) return Made{*times, nullptr};
  if (!pair.gathers())
    if (const Status there = transport::agree(where.ranks, out->make_room()); !there) return there.error();
  if (const Status shared = out->share(); !shared) return shared.error();
  if (const Status built = transport::agree(where.ranks, out->build()); !built) return built.error();
  return Made{*times, std::move(out)};
}

Status InChunks::share() {
  auto there = reach_->share(pair_.gathers() ? slots_->memory(shift().from) : *come_);
  if (!there) return there.error();
  there_ = *std::move(there);
  if (pair_.kind != Collective::all_reduce) return Done{};
  auto sums = reach_->share(slots_->memory(shift().to));
  if (!sums) return sums.error();
  sums_there_ = *std::move(sums);
  return Done{};
}

// --- what is multiplied

// Where the tensors of a chunk's program lie: those with rows begin where the chunk does.
Result<std::vector<std::byte*>> InChunks::lent_to(const Program& program, const RowPiece& piece, bool last) const {
  std::vector<std::byte*> out;
  const auto offset = [&](const Tensor& tensor, std::int64_t begin) -> std::int64_t {
    if (tensor.axes.empty() || tensor.axes.front().dim != pair_.dim) return 0;
    std::int64_t elements = begin;
    for (std::size_t i = 1; i < tensor.axes.size(); ++i) {
      const auto extent = tensor.axes[i].named() ? program.bind({})->at(tensor.axes[i].dim) : tensor.axes[i].literal;
      elements *= extent;
    }
    return elements * bits(tensor.dtype) / 8;
  };
  const bool is_own = piece.rank == ranks_->rank();
  const auto reader =
      std::find_if(pieces_.begin(), pieces_.end(), [&](const RowPiece& p) { return p.rank == piece.rank; });
  const std::int64_t within = piece.rows.begin - mine().rows.begin;
  for (std::size_t t = 0; t < compute().slots.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    const int slot = compute().slots[t];
    const bool before_it_moves = pair_.gathers() && is_own && slot == between();
    if (!pair_.gathers() && !is_own && slot == between()) {  // the product stores where its sums are wanted
      const std::int64_t segment = static_cast<std::int64_t>(place_) * reader->rows.size() + piece.rows.begin;
      out.push_back(there_[static_cast<std::size_t>(piece.rank)] + (segment - reader->rows.begin) * row_bytes());
      continue;
    }
    std::byte* const data = slots_->at(before_it_moves ? shift().from : slot);
    const bool is_stored = data != nullptr && tensor.role != Role::intermediate;
    const std::int64_t first = before_it_moves ? within : piece.rows.begin;
    out.push_back(is_stored ? data + offset(tensor, first) : nullptr);
  }
  if (!last) return out;
  for (std::size_t p = 0; p < pieces_.size(); ++p)
    if (p != place_)
      out.push_back(come_->data() + (static_cast<std::int64_t>(p) * mine().rows.size() + within) * row_bytes());
  const bool whole = pair_.kind == Collective::all_reduce;
  out.push_back(slots_->at(shift().to) + offset(program.tensors.back(), whole ? piece.rows.begin : within));
  return out;
}

Status InChunks::add_chunk(std::vector<Chunk>& to, const RowPiece& piece, bool last) {
  if (piece.rows.size() == 0) return Done{};
  const Program program = chunk_program(part_->acts(), pair_, piece.rows.size(), last ? others_.size() : 0);
  auto planned = plan_part(program, *options_);
  if (!planned) return planned.error();
  const auto lent = lent_to(program, piece, last);
  if (!lent) return lent.error();
  auto steps = DeviceSteps::make_in(*lent, *std::move(planned), {.stored = options_->tune.stored});
  if (!steps) return steps.error();
  to.push_back({piece.rank, piece.rows, *std::move(steps)});
  return Done{};
}

// A segment for what each rank makes of this one's piece. Nobody has read it yet, so that all may write.
Status InChunks::make_room() {
  const std::int64_t bytes = static_cast<std::int64_t>(pieces_.size()) * mine().rows.size() * row_bytes();
  auto memory = shared_memory(bytes);
  if (!memory) return memory.error();
  come_ = *std::move(memory);
  return Done{};
}

Status InChunks::build() {
  for (std::size_t d = 1; d < pieces_.size(); ++d) {
    const RowPiece& piece = pieces_[(place_ + d) % pieces_.size()];
    for (const Piece& rows : cut_rows(piece.rows, times_.chunks))
      if (const Status added = add_chunk(theirs_, {piece.rank, rows}, false); !added) return added;
  }
  for (const Piece& rows : cut_rows(mine().rows, pair_.gathers() ? 1 : times_.chunks))
    if (const Status added = add_chunk(own_, {mine().rank, rows}, !pair_.gathers()); !added) return added;
  if (pair_.gathers()) return Done{};
  for (const Status& done : {reach_->ring(queues_.bells, read_, others_), queues_.bells.wait()})
    if (!done) return done;
  std::vector<std::byte*> lent;
  for (const int slot : compute().slots) lent.push_back(slots_->at(slot));
  auto planned = plan_part(compute().program, *options_);
  if (!planned) return planned.error();
  auto steps = DeviceSteps::make_in(lent, *std::move(planned), {.stored = options_->tune.stored});
  if (!steps) return steps.error();
  whole_ = *std::move(steps);
  return Done{};
}

// --- what is queued

Status InChunks::queue(const cuda::Queue& queue) const { return pair_.gathers() ? gather(queue) : scatter(queue); }

Status InChunks::queue_computing(const cuda::Queue& queue) const {
  for (const auto* chunks : {&theirs_, &own_})
    for (const Chunk& chunk : *chunks)
      if (const Status queued = chunk.steps->queue_on(queue); !queued) return queued;
  return Done{};
}

Status InChunks::complete(const cuda::Queue& queue) const {
  if (!pair_.gathers()) return whole_->queue_on(queue);
  std::byte* const there = slots_->at(shift().to) + mine().rows.begin * row_bytes();
  return queue.copy(there, slots_->at(shift().from), mine().rows.size() * row_bytes());
}

Status InChunks::fork(const cuda::Queue& queue) const {
  for (const cuda::Queue* one : {&queues_.second, &queues_.bells, &queues_.heard, &queues_.copies, &queues_.sums})
    if (const Status after = one->follow(queue); !after) return after;
  return Done{};
}

Status InChunks::join(const cuda::Queue& queue) const {
  for (const cuda::Queue* one : {&queues_.second, &queues_.bells, &queues_.heard, &queues_.copies, &queues_.sums})
    if (const Status after = queue.follow(*one); !after) return after;
  return Done{};
}

// Beside what comes behind on that queue.
Status InChunks::tell(const cuda::Queue& after, std::size_t bell, const std::vector<int>& others) const {
  if (const Status there = queues_.bells.follow(after); !there) return there;
  return reach_->ring(queues_.bells, bell, others);
}

Status InChunks::gather(const cuda::Queue& queue) const {
  if (const Status forked = fork(queue); !forked) return forked;
  if (const Status told = reach_->ring(queues_.copies, told_, others_); !told) return told;
  for (const Chunk& chunk : own_)
    if (const Status queued = chunk.steps->queue_on(queue); !queued) return queued;
  if (const Status all = reach_->hear(queues_.copies, told_, others_); !all) return all;
  for (std::size_t j = 0; j < theirs_.size(); ++j) {
    const Chunk& chunk = theirs_[j];
    const auto is_whose = [&](const RowPiece& piece) { return piece.rank == chunk.rank; };
    const auto whose = std::find_if(pieces_.begin(), pieces_.end(), is_whose);
    const std::int64_t within = (chunk.rows.begin - whose->rows.begin) * row_bytes();
    std::byte* const to = slots_->at(shift().to) + chunk.rows.begin * row_bytes();
    const std::byte* const from = there_[static_cast<std::size_t>(chunk.rank)] + within;
    if (const Status copied = queues_.copies.copy(to, from, chunk.rows.size() * row_bytes()); !copied) return copied;
    const cuda::Queue& turn = by_turns(queue, j + 1);
    if (const Status after = turn.follow(queues_.copies); !after) return after;
    if (const Status queued = chunk.steps->queue_on(turn); !queued) return queued;
  }
  // Nobody begins to write again what another one still reads: by now that is over.
  if (const Status told = tell(queues_.copies, read_, others_); !told) return told;
  if (const Status heard = reach_->hear(queues_.bells, read_, others_); !heard) return heard;
  return join(queue);
}

// Of an all-reduce: the others' chunks, as they have them; on two queues by turns, so that one copy begins while
// another ends.
Status InChunks::take_sums() const {
  std::size_t most = 0, turn = 0;
  std::vector<std::vector<Piece>> chunks;
  for (std::size_t d = 1; d < pieces_.size(); ++d) {
    chunks.push_back(cut_rows(behind(d).rows, times_.chunks));
    most = std::max(most, chunks.back().size());
  }
  for (std::size_t j = 0; j < most; ++j)
    for (std::size_t d = 1; d < pieces_.size(); ++d) {
      if (j >= chunks[d - 1].size()) continue;
      const int other = behind(d).rank;
      const Piece rows = chunks[d - 1][j];
      if (const Status told = reach_->hear(queues_.heard, summed_, {other}); !told) return told;
      const cuda::Queue& on = turn++ % 2 == 0 ? queues_.copies : queues_.sums;
      if (const Status after = on.follow(queues_.heard); !after) return after;
      std::byte* const to = slots_->at(shift().to) + rows.begin * row_bytes();
      const std::byte* const from = sums_there_[static_cast<std::size_t>(other)] + rows.begin * row_bytes();
      if (const Status copied = on.copy(to, from, rows.size() * row_bytes()); !copied) return copied;
    }
  return Done{};
}

// That the others have read what came the last time was told at its end, and is heard at the next one's beginning: by
// then it is long over.
Status InChunks::scatter(const cuda::Queue& queue) const {
  if (const Status over = reach_->hear(queue, read_, others_); !over) return over;
  if (const Status forked = fork(queue); !forked) return forked;
  std::size_t turn = 0;
  for (const Chunk& chunk : theirs_) {
    const cuda::Queue& on = by_turns(queue, turn++);
    if (const Status queued = chunk.steps->queue_on(on); !queued) return queued;
    if (const Status told = tell(on, told_, {chunk.rank}); !told) return told;
  }
  for (const Chunk& chunk : own_) {
    const cuda::Queue& on = by_turns(queue, turn++);
    if (const Status come = reach_->hear(queues_.heard, told_, others_); !come) return come;
    if (const Status after = on.follow(queues_.heard); !after) return after;
    if (const Status queued = chunk.steps->queue_on(on); !queued) return queued;
    if (pair_.kind != Collective::all_reduce) continue;
    if (const Status told = tell(on, summed_, others_); !told) return told;
  }
  if (pair_.kind == Collective::all_reduce)
    if (const Status taken = take_sums(); !taken) return taken;
  if (const Status joined = join(queue); !joined) return joined;
  return reach_->ring(queue, read_, others_);
}

}  // namespace ridge::ranks

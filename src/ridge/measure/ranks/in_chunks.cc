#include "ridge/measure/ranks/in_chunks.h"

#include <algorithm>
#include <functional>
#include <utility>

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
      first_bell_(where.bell),
      queues_(std::move(queues)) {
  pieces_ = row_pieces(part_->acts(), pair_, part_->device());
  for (std::size_t p = 0; p < pieces_.size(); ++p)
    if (pieces_[p].rank == ranks_->rank())
      place_ = p;
    else
      others_.push_back(pieces_[p].rank);
}

std::size_t InChunks::bells(std::size_t ranks) { return 1 + ranks * most_chunks; }

std::size_t InChunks::told(std::size_t step, std::size_t number) const {
  const auto per_step = walk_.rows > 0 ? static_cast<std::size_t>(walk_.of_piece) : std::size_t{most_chunks};
  return first_bell_ + 1 + (step - 1) * per_step + number;
}

Result<InChunks::Queues> InChunks::Queues::make() {
  auto first = cuda::Queue::make(cuda::Queue::Turn::first);
  auto second = cuda::Queue::make(), copies = cuda::Queue::make(), more_copies = cuda::Queue::make();
  for (const auto* queue : {&first, &second, &copies, &more_copies})
    if (!*queue) return queue->error();
  return Queues{*std::move(first), *std::move(second), *std::move(copies), *std::move(more_copies)};
}

Result<InChunks::Made> InChunks::make(const ChunkedPair& pair, const Where& where) {
  auto queues = Queues::make();
  if (!queues) return queues.error();
  std::unique_ptr<InChunks> out(new InChunks(pair, where, *std::move(queues)));
  const ChunkQuestion question{where.part,          pair,          where.machine,
                               where.options,       where.how,     where.ranks.rank(),
                               where.reach.links(), where.moving_s};
  auto times = chunk_times(question);
  if (const Status there = transport::agree(where.ranks, times ? Status(Done{}) : times.error()); !there)
    return there.error();
  if (const Status told = transport::broadcast(where.ranks, std::as_writable_bytes(std::span(&*times, 1))); !told)
    return told.error();
  out->times_ = *times;
  if (times->chunks == 0) return Made{*times, nullptr};
  if (const Status shared = out->share(); !shared) return shared.error();
  if (const Status built = transport::agree(where.ranks, out->build(question)); !built) return built.error();
  if (out->walk_.rows > 0) times->chunks = out->walk_.of_piece;
  return Made{*times, std::move(out)};
}

Status InChunks::share() {
  auto there = reach_->share(slots_->memory(shift().from));
  if (!there) return there.error();
  there_ = *std::move(there);
  if (pair_.gathers()) return Done{};
  auto sums = reach_->share(slots_->memory(shift().to));
  if (!sums) return sums.error();
  sums_there_ = *std::move(sums);
  return Done{};
}

// --- what is multiplied

std::int64_t InChunks::element_bytes() const {
  return bits(part_->acts().slots[static_cast<std::size_t>(shift().from)].dtype) / 8;
}
std::int64_t InChunks::line_bytes() const {  // of the product's result
  return row_bytes() * mine().rows.size() / walk_.piece;
}

Status InChunks::copy_sums(const cuda::Queue& queue, std::byte* to, const std::byte* from, const Chunk& chunk) const {
  const std::int64_t bytes = chunk.rows.size() * row_bytes();
  if (walk_.strips <= 1) return queue.copy(to, from, bytes);
  const std::int64_t begin = chunk.columns.begin, line = line_bytes();
  return queue.copy_rows({to + begin, line}, {const_cast<std::byte*>(from) + begin, line}, chunk.columns.size(),
                         bytes / line);
}

// Sums on their way lie where the addends would: each rank makes those of every row once.
std::byte* InChunks::sums_of(const Chunk& chunk) const {
  if (chunk.step + 1 < pieces_.size()) return slots_->at(shift().from) + chunk.rows.begin * row_bytes();
  const bool whole = pair_.kind == Collective::all_reduce;
  return slots_->at(shift().to) + (chunk.rows.begin - (whole ? 0 : chunk.piece.rows.begin)) * row_bytes();
}

std::byte* InChunks::sums_before(const Chunk& chunk) const {
  const auto next = static_cast<std::size_t>(before(1).rank);
  if (chunk.step + 2 < pieces_.size()) return there_[next] + chunk.rows.begin * row_bytes();
  const std::int64_t within = chunk.rows.begin - chunk.piece.rows.begin;
  return sums_there_[next] + (pair_.kind == Collective::all_reduce ? chunk.rows.begin : within) * row_bytes();
}

// Where the tensors of a chunk's program lie: those with rows begin where the chunk does.
std::vector<std::byte*> InChunks::lent_to(const Program& program, const Chunk& chunk) const {
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
  for (std::size_t t = 0; t < compute().slots.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    const int slot = compute().slots[t];
    const bool before_it_moves = pair_.gathers() && chunk.step == 0 && slot == between();
    if (!pair_.gathers() && slot == between()) {
      out.push_back(sums_of(chunk));
      continue;
    }
    std::byte* const data = slots_->at(before_it_moves ? shift().from : slot);
    const bool is_stored = data != nullptr && tensor.role != Role::intermediate;
    const std::int64_t first = chunk.rows.begin - (before_it_moves ? chunk.piece.rows.begin : 0);
    out.push_back(is_stored ? data + offset(tensor, first) : nullptr);
  }
  return out;
}

Status InChunks::add_steps(Chunk& chunk) const {
  const Program program = chunk_program(part_->acts(), pair_, chunk.rows.size());
  auto planned = plan_part(program, *options_);
  if (!planned) return planned.error();
  using Last = DeviceLaunches::Last;
  const DeviceSteps::How how{.tune = {.stored = options_->tune.stored},
                             .last = !pair_.gathers() && chunk.step > 0 ? Last::added : Last::stored};
  auto steps = DeviceSteps::make_in(lent_to(program, chunk), *std::move(planned), how);
  if (!steps) return steps.error();
  chunk.steps = *std::move(steps);
  return Done{};
}

Result<DeviceSteps> InChunks::whole_steps(const ops::ResultChunks& chunks) const {
  std::vector<std::byte*> lent;
  for (const int slot : compute().slots) lent.push_back(slots_->at(slot));
  auto planned = plan_part(compute().program, *options_);
  if (!planned) return planned.error();
  return DeviceSteps::make_in(lent, *std::move(planned), {.tune = {.stored = options_->tune.stored}, .chunks = chunks});
}

Status InChunks::add_kernel() {
  auto counts = cuda::Memory::make(static_cast<std::int64_t>(chunks_.size() * sizeof(cuda::Bell)));
  if (!counts) return counts.error();
  counts_ = *std::move(counts);
  for (const Status& done : {queues_.first.set(counts_->data(), 0, counts_->bytes()), queues_.first.wait()})
    if (!done) return done;
  walk_.stored = reinterpret_cast<cuda::Bell*>(counts_->data());
  walk_.come = reach_->word(told(1, 0), after(1).rank);
  walk_.come_stride = reach_->size();
  walk_.last = slots_->at(shift().to) + (pair_.kind == Collective::all_reduce ? mine().rows.begin * row_bytes() : 0);
  auto steps = whole_steps(walk_);
  if (!steps) return steps.error();
  kernel_ = *std::move(steps);
  return Done{};
}

// The chunks of a piece: some rows each, or, of the one kernel's groups of rows, some columns each.
std::vector<InChunks::Chunk> InChunks::cut(const RowPiece& piece, std::size_t step) const {
  std::vector<Chunk> out;
  if (walk_.rows == 0) {
    const bool is_whole = pair_.gathers() && step + 1 < pieces_.size();
    for (const Piece& rows : cut_rows(piece.rows, is_whole ? 1 : times_.chunks))
      out.push_back({piece, rows, {}, step, out.size()});
    return out;
  }
  const std::int64_t group = piece.rows.size() * walk_.rows / walk_.piece, width = walk_.cols * element_bytes();
  for (std::int64_t row = piece.rows.begin; row < piece.rows.end; row += group)
    for (std::int64_t at = 0; at < line_bytes(); at += width)
      out.push_back({piece, {row, row + group}, {at, std::min(line_bytes(), at + width)}, step, out.size()});
  return out;
}

Status InChunks::build(const ChunkQuestion& question) {
  if (times_.one_kernel) {
    const auto planned = plan_part(compute().program, *options_);
    if (!planned) return planned.error();
    const auto walk = one_kernel(question, *planned, times_.chunks);
    if (!walk) return input_error("no kernel goes through this product in chunks, but on rank 0 one does");
    walk_ = walk->chunks;
  }
  for (std::size_t step = 0; step < pieces_.size(); ++step)
    for (Chunk& chunk : cut(after(pair_.gathers() ? step : step + 1), step)) {
      if (walk_.rows == 0)
        if (const Status added = add_steps(chunk); !added) return added;
      chunks_.push_back(std::move(chunk));
    }
  if (pair_.gathers()) return Done{};
  if (times_.one_kernel)
    if (const Status added = add_kernel(); !added) return added;
  auto steps = whole_steps({});
  if (!steps) return steps.error();
  whole_ = *std::move(steps);
  return Done{};
}

// --- what is queued

Status InChunks::queue(const cuda::Queue& queue) const { return pair_.gathers() ? gather(queue) : scatter(queue); }

Status InChunks::queue_computing(const cuda::Queue& queue) const {
  if (kernel_) return whole_->queue_on(queue);
  for (const Chunk& chunk : chunks_)
    if (const Status queued = chunk.steps->queue_on(queue); !queued) return queued;
  return Done{};
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

Status InChunks::gather(const cuda::Queue& queue) const {
  if (const Status forked = fork(queue); !forked) return forked;
  for (const Status& begun :
       {reach_->ring(queues_.copies, told(1, 0), others_), reach_->hear(queues_.copies, told(1, 0), others_)})
    if (!begun) return begun;
  std::size_t turn = 0;
  for (const Chunk& chunk : chunks_) {
    const cuda::Queue& on = computing(turn++);
    if (chunk.step > 0) {
      const std::int64_t within = (chunk.rows.begin - chunk.piece.rows.begin) * row_bytes();
      std::byte* const to = slots_->at(shift().to) + chunk.rows.begin * row_bytes();
      const std::byte* const from = there_[static_cast<std::size_t>(chunk.piece.rank)] + within;
      if (const Status copied = queues_.copies.copy(to, from, chunk.rows.size() * row_bytes()); !copied) return copied;
      if (const Status after = on.follow(queues_.copies); !after) return after;
    }
    if (const Status queued = chunk.steps->queue_on(on); !queued) return queued;
  }
  // Nobody begins to write again what another one still reads: by now that is over.
  for (const Status& over :
       {reach_->ring(queues_.copies, ready(), others_), reach_->hear(queues_.copies, ready(), others_)})
    if (!over) return over;
  return join(queue);
}

// Copies one behind the other, with bells behind them: which ring when the queue waits for the next chunk, or before
// the next copy.
class Copies {
 public:
  Copies(const cuda::Queue& queue, const Reach& reach) : queue_(&queue), reach_(&reach) {}
  Status copy(const std::function<Status(const cuda::Queue&)>& work, std::size_t bell, int other) {
    if (const Status rung = ring(); !rung) return rung;
    if (const Status copied = work(*queue_); !copied) return copied;
    bells_.push_back(reach_->word_of(other, bell));
    return Done{};
  }
  Status await(cuda::Bell* count, cuda::Bell value) {
    return cuda::ring_then_hear(*queue_, std::exchange(bells_, {}), {&count, 1}, value);
  }
  Status follow(const cuda::Queue& other) {
    const Status rung = ring();
    return rung ? queue_->follow(other) : rung;
  }
  Status ring() { return bells_.empty() ? Status(Done{}) : cuda::ring(*queue_, std::exchange(bells_, {})); }

 private:
  const cuda::Queue* queue_;
  const Reach* reach_;
  std::vector<cuda::Bell*> bells_ = {};
};

// Nobody writes to another rank before that one says that it has begun: by then its last sums were read.
Status InChunks::scatter(const cuda::Queue& queue) const {
  if (const Status forked = fork(queue); !forked) return forked;
  for (const Status& begun :
       {reach_->ring(queues_.copies, ready(), others_), reach_->hear(queues_.copies, ready(), others_)})
    if (!begun) return begun;
  if (const Status begun = queues_.more_copies.follow(queues_.copies); !begun) return begun;
  if (kernel_)
    if (const Status queued = kernel_->queue_on(queues_.first); !queued) return queued;
  Copies copies[] = {Copies(queues_.copies, *reach_), Copies(queues_.more_copies, *reach_)};
  for (std::size_t turn = 0; turn < chunks_.size(); ++turn)
    if (const Status queued = scatter_chunk(chunks_[turn], turn, copies[kernel_ ? 0 : turn % 2]); !queued)
      return queued;
  for (Copies& each : copies)
    if (const Status rung = each.ring(); !rung) return rung;
  if (kernel_)  // which has waited for these bells: they are taken back
    for (const Chunk& chunk : chunks_) {
      if (chunk.step == 0) continue;
      const Status heard = reach_->hear(queues_.first, told(chunk.step, chunk.number), {after(1).rank});
      if (!heard) return heard;
    }
  if (pair_.kind == Collective::all_reduce)
    if (const Status heard = hear_sums(); !heard) return heard;
  return join(queue);
}

// What goes on behind a chunk that is stored: sums to the rank before this one, whole ones of an all-reduce to all
// others.
Status InChunks::scatter_chunk(const Chunk& chunk, std::size_t turn, Copies& copies) const {
  const bool is_last = chunk.step + 1 == pieces_.size(), is_given = is_last && pair_.kind == Collective::all_reduce;
  if (kernel_) {
    const std::int64_t lines = chunk.rows.size() * row_bytes() / line_bytes();
    const std::int64_t elements = lines * chunk.columns.size() / element_bytes();
    cuda::Bell* const count = reinterpret_cast<cuda::Bell*>(counts_->data()) + turn;
    if (const Status there = copies.await(count, static_cast<cuda::Bell>(elements)); !there) return there;
  } else {
    const cuda::Queue& on = computing(turn);
    if (chunk.step > 0)
      if (const Status come = reach_->hear(on, told(chunk.step, chunk.number), {after(1).rank}); !come) return come;
    if (const Status queued = chunk.steps->queue_on(on); !queued) return queued;
    if (!is_last || is_given)
      if (const Status there = copies.follow(on); !there) return there;
  }
  const auto copied = [&](std::byte* to, std::size_t bell, int other) {
    return copies.copy([&](const cuda::Queue& on) { return copy_sums(on, to, sums_of(chunk), chunk); }, bell, other);
  };
  if (!is_last) {  // without the one kernel nothing that waits for this bell may be queued before it
    const Status sent = copied(sums_before(chunk), told(chunk.step + 1, chunk.number), before(1).rank);
    return !sent || kernel_ ? sent : copies.ring();
  }
  for (std::size_t step = 1; is_given && step < pieces_.size(); ++step) {
    const int other = before(step).rank;
    std::byte* const to = sums_there_[static_cast<std::size_t>(other)] + chunk.rows.begin * row_bytes();
    if (const Status given = copied(to, summed(chunk.number), other); !given) return given;
  }
  return Done{};
}

// By join() all were heard, and others ring again only behind this rank's next word that it is ready.
Status InChunks::hear_sums() const {
  for (std::size_t step = 1; step < pieces_.size(); ++step)
    for (const Chunk& chunk : cut(after(step), 0)) {
      const Status whole = reach_->hear(queues_.second, summed(chunk.number), {chunk.piece.rank});
      if (!whole) return whole;
    }
  return Done{};
}

}  // namespace ridge::ranks

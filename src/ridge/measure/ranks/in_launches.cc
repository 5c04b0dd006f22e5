// A pair in chunks with a launch for each (in_chunks.h).
#include "ridge/measure/ranks/in_chunks.h"

namespace ridge::ranks {
namespace {

namespace cuda = ops::cuda;

class InLaunches final : public InChunks {
 public:
  InLaunches(const ChunkedPair& pair, const Where& where, const ChunkTimes& times, Queues queues)
      : InChunks(pair, where, times, std::move(queues)) {}
  Status queue(const cuda::Queue& queue) const override { return pair_.gathers() ? gather(queue) : scatter(queue); }
  Status queue_computing(const cuda::Queue& queue) const override;

 private:
  struct Chunk {
    RowPiece piece;
    Piece rows;              // of the piece
    std::size_t step = 0;    // how many ranks have added to its sums before this one; gathered: how far it came
    std::size_t number = 0;  // of the piece's
    std::optional<DeviceSteps> steps = {};
  };
  Status share() override;
  Status build(const ChunkQuestion& question) override;
  std::int64_t chunks() const override { return times_.chunks; }
  std::vector<Chunk> cut(const RowPiece& piece, std::size_t step) const;
  Status add_steps(Chunk& chunk) const;
  std::vector<std::byte*> lent_to(const Program& program, const Chunk& chunk) const;
  // Where the sums of a chunk's rows lie that this rank, or the one before it, adds to.
  std::byte* sums_of(const Chunk& chunk) const;
  std::byte* sums_before(const Chunk& chunk) const;
  // Chunks are multiplied on two queues by turns, so that the next one begins on multiprocessors that the last one
  // leaves, and their sums copied by turns.
  const cuda::Queue& computing(std::size_t turn) const { return turn % 2 == 0 ? queues_.first : queues_.second; }
  Status gather(const cuda::Queue& queue) const;
  Status scatter(const cuda::Queue& queue) const;
  Status scatter_chunk(const Chunk& chunk, const cuda::Queue& on, Copies& copies) const;

  std::vector<Chunk> chunks_ = {};  // in the order in which they are multiplied
  // By rank, as seen from this device: where pieces are copied from, or sums pass; and where whole sums lie.
  std::vector<std::byte*> there_ = {}, results_there_ = {};
};

Status InLaunches::share() {
  auto there = reach_->share(slots_->memory(shift().from));
  if (!there) return there.error();
  there_ = *std::move(there);
  if (pair_.gathers()) return Done{};
  auto sums = reach_->share(slots_->memory(shift().to));
  if (!sums) return sums.error();
  results_there_ = *std::move(sums);
  return Done{};
}

// Sums on their way lie where the addends would: each rank makes those of every row once.
std::byte* InLaunches::sums_of(const Chunk& chunk) const {
  if (chunk.step + 1 < pieces_.size()) return slots_->at(shift().from) + chunk.rows.begin * row_bytes();
  const bool whole = pair_.kind == Collective::all_reduce;
  return slots_->at(shift().to) + (chunk.rows.begin - (whole ? 0 : chunk.piece.rows.begin)) * row_bytes();
}

std::byte* InLaunches::sums_before(const Chunk& chunk) const {
  const auto next = static_cast<std::size_t>(before(1).rank);
  if (chunk.step + 2 < pieces_.size()) return there_[next] + chunk.rows.begin * row_bytes();
  const std::int64_t within = chunk.rows.begin - chunk.piece.rows.begin;
  return results_there_[next] + (pair_.kind == Collective::all_reduce ? chunk.rows.begin : within) * row_bytes();
}

// Where the tensors of a chunk's program lie: those with rows begin where the chunk does.
std::vector<std::byte*> InLaunches::lent_to(const Program& program, const Chunk& chunk) const {
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

Status InLaunches::add_steps(Chunk& chunk) const {
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

// The chunks of a piece; of what is gathered, the last one alone is cut.
std::vector<InLaunches::Chunk> InLaunches::cut(const RowPiece& piece, std::size_t step) const {
  std::vector<Chunk> out;
  const bool is_whole = pair_.gathers() && step + 1 < pieces_.size();
  for (const Piece& rows : cut_rows(piece.rows, is_whole ? 1 : times_.chunks))
    out.push_back({piece, rows, step, out.size()});
  return out;
}

Status InLaunches::build(const ChunkQuestion&) {
  for (std::size_t step = 0; step < pieces_.size(); ++step)
    for (Chunk& chunk : cut(after(pair_.gathers() ? step : step + 1), step)) {
      if (const Status added = add_steps(chunk); !added) return added;
      chunks_.push_back(std::move(chunk));
    }
  if (pair_.gathers()) return Done{};
  auto steps = whole_steps({.tune = {.stored = options_->tune.stored}});
  if (!steps) return steps.error();
  whole_ = *std::move(steps);
  return Done{};
}

Status InLaunches::queue_computing(const cuda::Queue& queue) const {
  for (const Chunk& chunk : chunks_)
    if (const Status queued = chunk.steps->queue_on(queue); !queued) return queued;
  return Done{};
}

Status InLaunches::gather(const cuda::Queue& queue) const {
  if (const Status forked = fork(queue); !forked) return forked;
  if (const Status begun = meet(queues_.copies, told(1, 0)); !begun) return begun;
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
  if (const Status over = meet(queues_.copies, ready()); !over) return over;
  return join(queue);
}

// Nobody writes to another rank before that one says that it has begun: by then its last sums were read.
Status InLaunches::scatter(const cuda::Queue& queue) const {
  if (const Status forked = fork(queue); !forked) return forked;
  if (const Status begun = meet(queues_.copies, ready()); !begun) return begun;
  if (const Status begun = queues_.more_copies.follow(queues_.copies); !begun) return begun;
  Copies copies[] = {Copies(queues_.copies), Copies(queues_.more_copies)};
  for (std::size_t turn = 0; turn < chunks_.size(); ++turn)
    if (const Status queued = scatter_chunk(chunks_[turn], computing(turn), copies[turn % 2]); !queued) return queued;
  for (Copies& each : copies)
    if (const Status rung = each.ring(); !rung) return rung;
  for (std::size_t step = 1; reduces() && step < pieces_.size(); ++step)
    if (const Status heard = hear_sums(after(step), cut(after(step), 0).size()); !heard) return heard;
  return join(queue);
}

// What goes on behind a chunk that is stored: sums to the rank before this one, whole ones of an all-reduce to all
// others.
Status InLaunches::scatter_chunk(const Chunk& chunk, const cuda::Queue& on, Copies& copies) const {
  const bool is_last = chunk.step + 1 == pieces_.size();
  if (chunk.step > 0)
    if (const Status come = reach_->hear(on, told(chunk.step, chunk.number), {after(1).rank}); !come) return come;
  if (const Status queued = chunk.steps->queue_on(on); !queued) return queued;
  if (is_last && !reduces()) return Done{};
  if (const Status there = copies.follow(on); !there) return there;
  const std::int64_t bytes = chunk.rows.size() * row_bytes();
  const auto copied = [&](std::byte* to, std::size_t bell, int other) {
    return copies.copy([&](const cuda::Queue& by) { return by.copy(to, sums_of(chunk), bytes); },
                       reach_->word_of(other, bell));
  };
  if (!is_last) {  // nothing that waits for this bell may be queued before it
    const Status sent = copied(sums_before(chunk), told(chunk.step + 1, chunk.number), before(1).rank);
    return sent ? copies.ring() : sent;
  }
  for (std::size_t step = 1; step < pieces_.size(); ++step) {
    const int other = before(step).rank;
    std::byte* const to = results_there_[static_cast<std::size_t>(other)] + chunk.rows.begin * row_bytes();
    if (const Status given = copied(to, summed(chunk.number), other); !given) return given;
  }
  return Done{};
}

}  // namespace

std::unique_ptr<InChunks> InChunks::in_launches(const ChunkedPair& pair, const Where& where, const ChunkTimes& times,
                                                Queues queues) {
  return std::make_unique<InLaunches>(pair, where, times, std::move(queues));
}

}  // namespace ridge::ranks

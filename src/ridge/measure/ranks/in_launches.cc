// Runs a pair with one launch per chunk (chunked_executor.h).
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
    Piece rows;
    std::size_t step = 0;    // position of the shard in processing order: ranks that have added to its sums
    std::size_t number = 0;  // index among the chunks of the shard
    std::optional<DeviceSteps> steps = {};
  };
  Status share() override;
  Status build(const ChunkQuestion& question) override;
  std::int64_t chunks() const override { return times_.chunks; }
  std::vector<Chunk> cut(const RowPiece& piece, std::size_t step) const;
  Status add_steps(Chunk& chunk) const;
  std::vector<std::byte*> lent_to(const Program& program, const Chunk& chunk) const;
  // Return the address of the chunk's partial sums on this rank, and on the previous rank, which adds to them next.
  std::byte* sums_of(const Chunk& chunk) const;
  std::byte* sums_before(const Chunk& chunk) const;
  // Launches alternate between two queues, so that a chunk can start on multiprocessors that the previous one has left.
  // Copies of their sums alternate, too.
  const cuda::Queue& computing(std::size_t turn) const { return turn % 2 == 0 ? queues_.first : queues_.second; }
  Status gather(const cuda::Queue& queue) const;
  Status scatter(const cuda::Queue& queue) const;
  Status scatter_chunk(const Chunk& chunk, const cuda::Queue& on, Copies& copies) const;

  std::vector<Chunk> chunks_ = {};  // in processing order
  // Addresses on each rank, as mapped on this device: source of a gather or buffer of partial sums; final sums.
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

// Partial sums in flight use the memory of the unreduced result: each rank computes every row of it once.
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

// Returns the addresses of the tensors of a chunk's program: tensors with rows start at the chunk's first row.
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

// Returns the chunks of a shard. In a gather only the last shard is split.
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
  // No rank overwrites its shard in the next pass while another one still reads it.
  if (const Status over = meet(queues_.copies, ready()); !over) return over;
  return join(queue);
}

// The barrier ensures that a rank has read the sums of the previous pass before others write to it again.
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

// Multiplies a chunk, then sends partial sums to the previous rank, or the final sums of an all-reduce to all ranks.
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
  if (!is_last) {  // set the flag before any work that waits for it is queued
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

// A pair in chunks of which one kernel makes all (in_chunks.h, tile/shared_rows.h).
#include <algorithm>
#include <array>
#include <utility>

#include "ridge/measure/ranks/in_chunks.h"

namespace ridge::ranks {
namespace {

namespace cuda = ops::cuda;

class ByOneKernel final : public InChunks {
 public:
  ByOneKernel(const ChunkedPair& pair, const Where& where, const ChunkTimes& times, Queues queues)
      : InChunks(pair, where, times, std::move(queues)) {}
  Status queue(const cuda::Queue& queue) const override;
  Status queue_computing(const cuda::Queue& queue) const override { return whole_->queue_on(queue); }

 private:
  struct Chunk {  // of this rank's piece
    Piece rows;
    Piece columns;  // in bytes, of a line of the product's result; gathered: of all
  };
  Status share() override;
  Status build(const ChunkQuestion& question) override;
  std::int64_t chunks() const override { return walk_.of_piece; }
  // In shared memory: that others may be written to; what has come of each chunk of another piece; how much is stored
  // of each chunk of this rank's own piece.
  std::size_t words_come() const { return (pieces_.size() - 1) * static_cast<std::size_t>(walk_.of_piece); }
  cuda::Bell* words(int rank) const {
    return reinterpret_cast<cuda::Bell*>(words_there_[static_cast<std::size_t>(rank)]);
  }
  cuda::Bell* begun() const { return words(ranks_->rank()); }
  cuda::Bell* come(int rank) const { return words(rank) + 1; }
  cuda::Bell* whole(std::size_t number) const { return come(ranks_->rank()) + words_come() + number; }
  // Where a rank wants the sums of its piece, or this one's part of what is gathered.
  std::byte* place(int rank, const RowPiece& piece) const;
  ops::GatheredRows gathered() const;
  ops::ScatteredRows scattered() const;

  std::int64_t element_bytes() const {
    return bits(part_->acts().slots[static_cast<std::size_t>(shift().from)].dtype) / 8;
  }
  std::int64_t line_bytes() const { return row_bytes() * mine().rows.size() / walk_.piece; }
  std::vector<Chunk> cut() const;
  Status send_rows() const;
  Status send_sums() const;

  ops::RowWalk walk_ = {};
  std::optional<cuda::Memory> memory_ = {};
  std::vector<std::byte*> words_there_ = {},
                          there_ = {};  // by rank, as seen from this device; where rows are written to
  std::optional<DeviceSteps> kernel_ = {};
};

Status ByOneKernel::share() {
  auto memory = shared_memory(static_cast<std::int64_t>((1 + most_chunks * pieces_.size()) * sizeof(cuda::Bell)));
  if (const Status made = transport::agree(*ranks_, memory ? Status(Done{}) : memory.error()); !made) return made;
  memory_ = *std::move(memory);
  auto words = reach_->share(*memory_);
  if (!words) return words.error();
  words_there_ = *std::move(words);
  auto there = reach_->share(slots_->memory(shift().to));
  if (!there) return there.error();
  there_ = *std::move(there);
  return Done{};
}

std::byte* ByOneKernel::place(int rank, const RowPiece& piece) const {
  const bool is_alone = pair_.kind == Collective::reduce_scatter;
  return there_[static_cast<std::size_t>(rank)] + (is_alone ? 0 : piece.rows.begin * row_bytes());
}

ops::GatheredRows ByOneKernel::gathered() const { return {walk_, slots_->at(shift().from), come(ranks_->rank())}; }

// The rank before this one is the next to add to whatever piece.
ops::ScatteredRows ByOneKernel::scattered() const {
  ops::ScatteredRows out{walk_};
  out.added = walk_.piece;
  for (std::size_t step = 0; step < pieces_.size(); ++step)
    out.places[step] = place(after(step + 1).rank, after(step + 1));
  out.begun = begun();
  out.come = come(ranks_->rank());
  out.stored = come(before(1).rank);
  out.whole = reduces() ? whole(0) : nullptr;
  return out;
}

Status ByOneKernel::build(const ChunkQuestion& question) {
  const auto planned = plan_part(compute().program, *options_);
  if (!planned) return planned.error();
  const auto one = one_kernel(question, *planned, times_.chunks);
  if (!one) return input_error("no kernel goes through this product in chunks, but on rank 0 one does");
  walk_ = one->walk;
  for (const Status& done : {queues_.first.set(memory_->data(), 0, memory_->bytes()), queues_.first.wait()})
    if (!done) return done;
  const TuneOptions tune{.stored = options_->tune.stored};
  auto all = whole_steps({.tune = tune});
  if (!all) return all.error();
  whole_ = *std::move(all);
  DeviceSteps::How how{.tune = tune};
  if (pair_.gathers())
    how.gathered = gathered();
  else
    how.scattered = scattered();
  auto steps = whole_steps(how);
  if (!steps) return steps.error();
  kernel_ = *std::move(steps);
  return Done{};
}

std::vector<ByOneKernel::Chunk> ByOneKernel::cut() const {
  std::vector<Chunk> out;
  const std::int64_t group = mine().rows.size() * walk_.rows / walk_.piece, line = line_bytes();
  const std::int64_t width = walk_.strips == 1 ? line : walk_.cols * element_bytes();
  for (std::int64_t row = mine().rows.begin; row < mine().rows.end; row += group)
    for (std::int64_t at = 0; at < line; at += width)
      out.push_back({{row, row + group}, {at, std::min(line, at + width)}});
  return out;
}

// Nobody writes to another rank before that one says that it has begun: by then it has read what came last.
Status ByOneKernel::queue(const cuda::Queue& queue) const {
  if (const Status forked = fork(queue); !forked) return forked;
  const auto words = static_cast<std::int64_t>((1 + words_come()) * sizeof(cuda::Bell));
  for (const Status& queued : {kernel_->queue_on(queues_.first), queues_.first.set(begun(), 0, words),
                               meet(queues_.copies, ready()), pair_.gathers() ? send_rows() : send_sums()})
    if (!queued) return queued;
  return join(queue);
}

// To each of the others its next piece first.
Status ByOneKernel::send_rows() const {
  Copies copies(queues_.copies);
  const std::vector<Chunk> chunks = cut();
  for (std::size_t step = 1; step < pieces_.size(); ++step)
    for (std::size_t number = 0; number < chunks.size(); ++number) {
      const int other = before(step).rank;
      const std::int64_t bytes = chunks[number].rows.size() * row_bytes();
      const std::int64_t offset = (chunks[number].rows.begin - mine().rows.begin) * row_bytes();
      const auto work = [&](const cuda::Queue& by) {
        return by.copy(place(other, mine()) + offset, slots_->at(shift().from) + offset, bytes);
      };
      const Status sent = copies.copy(work, come(other) + (step - 1) * chunks.size() + number);
      if (!sent) return sent;
    }
  return copies.ring();
}

// The kernel sends them; whole ones of an all-reduce go on to all others.
Status ByOneKernel::send_sums() const {
  if (const Status told = cuda::ring(queues_.copies, std::array{begun()}); !told || !reduces()) return told;
  Copies copies(queues_.copies);
  const std::vector<Chunk> chunks = cut();
  for (std::size_t number = 0; number < chunks.size(); ++number) {
    const auto& [rows, columns] = chunks[number];
    const std::int64_t line = line_bytes(), lines = rows.size() * row_bytes() / line;
    const std::int64_t offset = (rows.begin - mine().rows.begin) * row_bytes() + columns.begin;
    const auto elements = static_cast<cuda::Bell>(lines * (columns.size() / element_bytes()));
    if (const Status there = copies.await(whole(number), elements); !there) return there;
    for (std::size_t step = 1; step < pieces_.size(); ++step) {
      const int other = before(step).rank;
      const auto work = [&, from = place(ranks_->rank(), mine()) + offset](const cuda::Queue& by) {
        std::byte* const to = place(other, mine()) + offset;
        if (columns.size() == line) return by.copy(to, from, lines * line);
        return by.copy_rows({to, line}, {from, line}, columns.size(), lines);
      };
      if (const Status sent = copies.copy(work, reach_->word_of(other, summed(number))); !sent) return sent;
    }
  }
  if (const Status rung = copies.ring(); !rung) return rung;
  for (std::size_t step = 1; step < pieces_.size(); ++step)
    if (const Status heard = hear_sums(after(step), chunks.size()); !heard) return heard;
  return Done{};
}

}  // namespace

std::unique_ptr<InChunks> InChunks::by_one_kernel(const ChunkedPair& pair, const Where& where, const ChunkTimes& times,
                                                  Queues queues) {
  return std::make_unique<ByOneKernel>(pair, where, times, std::move(queues));
}

}  // namespace ridge::ranks

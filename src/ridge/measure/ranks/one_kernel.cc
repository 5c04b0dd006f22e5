// Runs a pair with a single kernel for all chunks (chunked_executor.h, tile/shared_rows.h).
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
  Status queue_computing(const cuda::Queue& queue) const override;

 private:
  struct Chunk {         // rows and a byte range of each row, in a shard of A or of the product's result
    Piece lines, bytes;
  };
  Status share() override;
  Status build(const ChunkQuestion& question) override;
  std::int64_t chunks() const override { return walk_.of_piece; }
  // Flags in memory that other ranks can write: `begun_flag`; one arrival flag for each chunk after the first shard
  // (for scatters: each run); `stored_counts`, the elements of each run that this rank has stored.
  std::size_t others_chunks() const { return (pieces_.size() - 1) * static_cast<std::size_t>(walk_.of_piece); }
  cuda::Bell* words(int rank) const {
    return reinterpret_cast<cuda::Bell*>(words_there_[static_cast<std::size_t>(rank)]);
  }
  std::int64_t bytes_of_words() const {  // flags that others write, without the counts
    return static_cast<std::int64_t>((1 + others_chunks()) * sizeof(cuda::Bell));
  }
  cuda::Bell* begun() const { return words(ranks_->rank()); }
  cuda::Bell* come(int rank) const { return words(rank) + 1; }
  cuda::Bell* count(std::size_t number) const { return come(ranks_->rank()) + others_chunks() + number; }
  // Returns the address on `rank` of the final sums of a shard, or of this rank's shard in the gathered operand.
  std::byte* place(int rank, const RowPiece& piece) const;
  ops::GatheredRows gathered() const;
  ops::ScatteredRows scattered() const;

  std::int64_t element_bytes() const {
    return bits(part_->acts().slots[static_cast<std::size_t>(shift().from)].dtype) / 8;
  }
  std::int64_t line_bytes() const { return row_bytes() * mine().rows.size() / walk_.piece; }
  std::vector<Chunk> cut() const;
  Status copy(const cuda::Queue& queue, const Piece& run, std::byte* to, const std::byte* from) const;
  cuda::Bell elements(const Chunk& chunk) const {
    return static_cast<cuda::Bell>(chunk.lines.size() * chunk.bytes.size() / element_bytes());
  }
  Status send_rows() const;
  Status send_sums() const;
  // Waits until the chunks of a run are stored on this rank.
  Status await_run(Copies& copies, std::size_t word) const;

  ops::RowWalk walk_ = {};
  std::vector<Run> runs_ = {};
  double waves_ = 1;
  std::optional<cuda::Memory> memory_ = {};
  // Addresses on each rank, as mapped on this device: flags; results or gathered rows; partial sums in flight.
  std::vector<std::byte*> words_there_ = {}, there_ = {}, on_way_there_ = {};
  std::optional<DeviceSteps> kernel_ = {};
};

Status ByOneKernel::share() {
  auto memory = shared_memory(static_cast<std::int64_t>((1 + 2 * most_chunks * pieces_.size()) * sizeof(cuda::Bell)));
  if (const Status made = transport::agree(*ranks_, memory ? Status(Done{}) : memory.error()); !made) return made;
  memory_ = *std::move(memory);
  auto words = reach_->share(*memory_);
  if (!words) return words.error();
  words_there_ = *std::move(words);
  auto there = reach_->share(slots_->memory(shift().to));
  if (!there) return there.error();
  there_ = *std::move(there);
  if (pair_.gathers()) return Done{};
  auto sums = reach_->share(slots_->memory(shift().from));
  if (!sums) return sums.error();
  on_way_there_ = *std::move(sums);
  return Done{};
}

std::byte* ByOneKernel::place(int rank, const RowPiece& piece) const {
  const bool is_alone = pair_.kind == Collective::reduce_scatter;
  return there_[static_cast<std::size_t>(rank)] + (is_alone ? 0 : piece.rows.begin * row_bytes());
}

ops::GatheredRows ByOneKernel::gathered() const { return {walk_, slots_->at(shift().from), come(ranks_->rank())}; }

// Partial sums travel backwards: rank r sends to rank r - 1.
ops::ScatteredRows ByOneKernel::scattered() const {
  ops::ScatteredRows out{walk_};
  out.added = walk_.piece;
  for (std::size_t step = 0; step < pieces_.size(); ++step)
    out.places[step] = place(after(step + 1).rank, after(step + 1));
  out.begun = begun();
  out.come = come(ranks_->rank());
  out.stored = come(before(1).rank);
  out.counts = count(0);
  set_words(out, runs_);
  out.counts_last = reduces();
  out.sent = !times_.stores;
  return out;
}

Status ByOneKernel::build(const ChunkQuestion& question) {
  const auto planned = plan_part(compute().program, *options_);
  if (!planned) return planned.error();
  const auto one = one_kernel(question, *planned, times_.chunks);
  if (!one) return input_error("no kernel can process this product in chunks, although rank 0 has one");
  walk_ = one->walk;
  waves_ = one->waves;
  if (!pair_.gathers()) runs_ = times_.runs.all(pieces_.size(), chunks());
  for (const Status& done : {queues_.first.set(memory_->data(), 0, memory_->bytes()), queues_.first.wait()})
    if (!done) return done;
  const TuneOptions tune{.stored = options_->tune.stored};
  if (!pair_.gathers()) {
    auto all = whole_steps({.tune = tune});
    if (!all) return all.error();
    whole_ = *std::move(all);
  }
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
  const std::int64_t line = line_bytes(), width = walk_.cols * element_bytes();
  for (std::int64_t row = 0; row < walk_.piece; row += walk_.rows)
    for (std::int64_t at = 0; at < line; at += width)
      out.push_back({{row, row + walk_.rows}, {at, std::min(line, at + width)}});
  return out;
}

// Merges adjacent column blocks into one copy, and adjacent groups of full rows as well.
Status ByOneKernel::copy(const cuda::Queue& queue, const Piece& run, std::byte* to, const std::byte* from) const {
  const std::vector<Chunk> all = cut();
  const std::int64_t line = line_bytes();
  std::vector<Chunk> boxes;
  for (std::int64_t j = run.begin; j < run.end; ++j) {
    const Chunk& chunk = all[static_cast<std::size_t>(j)];
    if (!boxes.empty() && boxes.back().lines.begin == chunk.lines.begin)
      boxes.back().bytes.end = chunk.bytes.end;
    else
      boxes.push_back(chunk);
    if (const std::size_t last = boxes.size() - 1;
        last > 0 && boxes[last].bytes.size() == line && boxes[last - 1].bytes.size() == line) {
      boxes[last - 1].lines.end = chunk.lines.end;
      boxes.pop_back();
    }
  }
  for (const Chunk& box : boxes) {
    const std::int64_t offset = box.lines.begin * line + box.bytes.begin;
    auto* const there = const_cast<std::byte*>(from) + offset;  // the copy only reads it
    const Status copied = box.bytes.size() == line
                              ? queue.copy(to + offset, there, box.lines.size() * line)
                              : queue.copy_rows({to + offset, line}, {there, line}, box.bytes.size(), box.lines.size());
    if (!copied) return copied;
  }
  return Done{};
}

Status ByOneKernel::await_run(Copies& copies, std::size_t word) const {
  const std::vector<Chunk> all = cut();
  cuda::Bell stored = 0;
  for (std::int64_t j = runs_[word].chunks.begin; j < runs_[word].chunks.end; ++j)
    stored += elements(all[static_cast<std::size_t>(j)]);
  return copies.await({.word = count(word), .value = stored, .stays = true});
}

// For a gather all arrival flags are set, so that the kernel does not wait.
Status ByOneKernel::queue_computing(const cuda::Queue& queue) const {
  if (whole_) return whole_->queue_on(queue);
  for (const Status& queued : {queue.set(words(ranks_->rank()), 1, bytes_of_words()), kernel_->queue_on(queue),
                               queue.set(words(ranks_->rank()), 0, bytes_of_words())})
    if (!queued) return queued;
  return Done{};
}

// The barrier ensures that a rank has read the data of the previous pass before others write to it again.
Status ByOneKernel::queue(const cuda::Queue& queue) const {
  if (const Status forked = fork(queue); !forked) return forked;
  for (const Status& queued :
       {kernel_->queue_on(queues_.first), queues_.first.set(words(ranks_->rank()), 0, bytes_of_words()),
        meet(queues_.copies, ready()), pair_.gathers() ? send_rows() : send_sums()})
    if (!queued) return queued;
  return join(queue);
}

Status ByOneKernel::send_rows() const {
  Copies copies(queues_.copies);
  const auto strips = static_cast<std::size_t>(chunks());
  for (const Sending& next : sending_order(pieces_.size(), strips, waves_)) {
    const int other = before(next.step).rank;
    const auto strip = static_cast<std::int64_t>(next.strip);
    const auto work = [&](const cuda::Queue& by) {
      return copy(by, {strip, strip + 1}, place(other, mine()), slots_->at(shift().from));
    };
    const Status sent = copies.copy(work, come(other) + (next.step - 1) * strips + next.strip);
    if (!sent) return sent;
  }
  return copies.ring();
}

// Sends partial sums that the kernel does not store remotely to the previous rank, which adds to them. Final sums of an
// all-reduce are sent to all other ranks.
Status ByOneKernel::send_sums() const {
  if (const Status told = cuda::ring(queues_.copies, std::array{begun()}); !told) return told;
  Copies copies(queues_.copies);
  const std::size_t ranks = pieces_.size(), to = static_cast<std::size_t>(before(1).rank);
  std::size_t given = 0;
  for (std::size_t word = 0; word < runs_.size(); ++word) {
    const auto& [step, run] = runs_[word];
    const bool is_whole = step + 1 == ranks;
    if (is_whole ? !reduces() : times_.stores) continue;
    if (const Status there = await_run(copies, word); !there) return there;
    if (!is_whole) {
      const std::int64_t rows = after(step + 1).rows.begin * row_bytes();
      std::byte* const next = step + 2 < ranks ? on_way_there_[to] + rows : place(before(1).rank, before(1));
      const auto work = [&](const cuda::Queue& by) { return copy(by, run, next, slots_->at(shift().from) + rows); };
      if (const Status sent = copies.copy(work, come(before(1).rank) + word); !sent) return sent;
      continue;
    }
    for (std::size_t other = 1; other < ranks; ++other) {
      const auto work = [&](const cuda::Queue& by) {
        return copy(by, run, place(before(other).rank, mine()), place(ranks_->rank(), mine()));
      };
      if (const Status sent = copies.copy(work, reach_->word_of(before(other).rank, summed(given))); !sent) return sent;
    }
    ++given;
  }
  if (const Status rung = copies.ring(); !rung) return rung;
  if (times_.stores && !reduces()) return Done{};  // then the kernel has counted nothing on this rank
  if (const Status cleared = queues_.copies.set(count(0), 0, runs_.size() * sizeof(cuda::Bell)); !cleared)
    return cleared;
  for (std::size_t other = 1; reduces() && other < ranks; ++other)
    if (const Status heard = hear_sums(after(other), given); !heard) return heard;
  return Done{};
}

}  // namespace

std::unique_ptr<InChunks> InChunks::by_one_kernel(const ChunkedPair& pair, const Where& where, const ChunkTimes& times,
                                                  Queues queues) {
  return std::make_unique<ByOneKernel>(pair, where, times, std::move(queues));
}

}  // namespace ridge::ranks

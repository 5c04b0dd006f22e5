// Runs a pair with a single kernel for all chunks (chunked_executor.h, tile/shared_rows.h).
#include <algorithm>
#include <array>
#include <utility>

#include "ridge/run/ranks/chunked_executor.h"

namespace ridge::ranks {
namespace {

class SingleKernelExecutor final : public ChunkedExecutor {
 public:
  SingleKernelExecutor(const ChunkedPair& pair, const ExecutorContext& context, const ChunkPrediction& prediction,
                       ExecutorQueues queues)
      : ChunkedExecutor(pair, context, prediction, std::move(queues)) {}
  Status queue_pair(const device::Queue& queue) const override;
  Status queue_compute_only(const device::Queue& queue) const override;

 private:
  struct ColumnChunk {  // rows and a byte range of each row, in a shard of A or of the product's result
    AxisRange rows, byte_range;
  };
  Status share_memory() override;
  Status build_kernels(const ChunkRequest& request) override;
  std::int64_t chunk_count() const override { return walk_.chunks_per_shard; }
  // Flags in memory that other ranks can write: `begun_flag`; one arrival flag for each chunk after the first shard
  // (for scatters: each run); `stored_counts`, the elements of each run that this rank has stored.
  std::size_t remote_chunk_count() const {
    return (shards_.size() - 1) * static_cast<std::size_t>(walk_.chunks_per_shard);
  }
  device::DeviceFlag* flags_of(int rank) const { return reinterpret_cast<device::DeviceFlag*>(peer_flags_[rank]); }
  std::int64_t flag_bytes() const {  // flags that others write, without the counts
    return static_cast<std::int64_t>((1 + remote_chunk_count()) * sizeof(device::DeviceFlag));
  }
  device::DeviceFlag* begun_flag() const { return flags_of(comm_->rank()); }
  device::DeviceFlag* arrival_flags(int rank) const { return flags_of(rank) + 1; }
  device::DeviceFlag* stored_counts(std::size_t index) const {
    return arrival_flags(comm_->rank()) + remote_chunk_count() + index;
  }
  // Returns the address on `rank` of the final sums of a shard, or of this rank's shard in the gathered operand.
  std::byte* result_address(int rank, const RowShard& shard) const;
  ops::GatheredRows gathered_rows() const;
  ops::ScatteredRows scattered_rows() const;

  std::int64_t element_bytes() const {
    return dtype_bits(rank_program_->schedule().slots[redistribution_step().from].dtype) / 8;
  }
  std::int64_t line_bytes() const { return row_bytes() * local_shard().rows.size() / walk_.shard_rows; }
  std::vector<ColumnChunk> list_chunks() const;
  Status copy_run(const device::Queue& queue, const AxisRange& run, std::byte* to, const std::byte* from) const;
  device::DeviceFlag chunk_elements(const ColumnChunk& chunk) const {
    return static_cast<device::DeviceFlag>(chunk.rows.size() * chunk.byte_range.size() / element_bytes());
  }
  Status send_rows() const;
  Status send_partial_sums(FlaggedCopies& copies, std::size_t run_index) const;
  Status send_final_sums(FlaggedCopies& copies, std::size_t run_index, std::size_t flag) const;
  Status send_sums() const;
  // Waits until the chunks of a run are stored on this rank.
  Status wait_for_run(FlaggedCopies& copies, std::size_t run_index) const;

  ops::RowWalk walk_ = {};
  std::vector<ChunkRun> runs_ = {};
  double waves_per_shard_ = 1;
  std::optional<device::DeviceBuffer> memory_ = {};
  // Addresses on each rank, as mapped on this device: flags; results or gathered rows; partial sums in flight.
  std::vector<std::byte*> peer_flags_ = {}, peer_results_ = {}, peer_partials_ = {};
  std::optional<DeviceSteps> kernel_ = {};
};

Status SingleKernelExecutor::share_memory() {
  auto memory = allocate_exportable_memory(
      static_cast<std::int64_t>((1 + 2 * max_chunks * shards_.size()) * sizeof(device::DeviceFlag)));
  RIDGE_TRY_STATUS(transport::agree_on_status(*comm_, memory ? Status(Done{}) : memory.error()));
  memory_ = *std::move(memory);
  RIDGE_TRY(flags, peer_memory_->open_on_all_ranks(*memory_));
  peer_flags_ = std::move(flags);
  RIDGE_TRY(results, peer_memory_->open_on_all_ranks(slots_->allocation(redistribution_step().to)));
  peer_results_ = std::move(results);
  if (pair_.is_gather()) return Done{};
  RIDGE_TRY(partials, peer_memory_->open_on_all_ranks(slots_->allocation(redistribution_step().from)));
  peer_partials_ = std::move(partials);
  return Done{};
}

std::byte* SingleKernelExecutor::result_address(int rank, const RowShard& shard) const {
  const bool holds_own_shard = pair_.kind == Collective::reduce_scatter;
  return peer_results_[rank] + (holds_own_shard ? 0 : shard.rows.begin * row_bytes());
}

ops::GatheredRows SingleKernelExecutor::gathered_rows() const {
  return {walk_, slots_->address_of(redistribution_step().from), arrival_flags(comm_->rank())};
}

// Partial sums travel backwards: rank r sends to rank r - 1.
ops::ScatteredRows SingleKernelExecutor::scattered_rows() const {
  ops::ScatteredRows out{walk_};
  out.first_added_row = walk_.shard_rows;
  for (std::size_t step = 0; step < shards_.size(); ++step)
    out.shard_data[step] = result_address(shard_after(step + 1).rank, shard_after(step + 1));
  out.ready_flag = begun_flag();
  out.arrived = arrival_flags(comm_->rank());
  out.next_rank_counts = arrival_flags(shard_before(1).rank);
  out.chunk_counts = stored_counts(0);
  assign_flags(out, runs_);
  out.counts_last_shard = is_all_reduce();
  out.copies_chunks = !prediction_.stores_remotely;
  return out;
}

Status SingleKernelExecutor::build_kernels(const ChunkRequest& request) {
  RIDGE_TRY(planned, plan_local_program(compute_step().program, *options_));
  const auto one = plan_single_kernel(request, planned, prediction_.chunks);
  if (!one) return input_error("no kernel can process this product in chunks, although rank 0 has one");
  walk_ = one->walk;
  waves_per_shard_ = one->waves_per_shard;
  if (!pair_.is_gather()) runs_ = prediction_.run_lengths.list_runs(shards_.size(), chunk_count());
  RIDGE_TRY_STATUS(queues_.first.set_bytes(memory_->data(), 0, memory_->bytes()));
  RIDGE_TRY_STATUS(queues_.first.synchronize());
  const TuneOptions tune{.use_stored = options_->tune.use_stored};
  if (!pair_.is_gather()) {
    RIDGE_TRY(all, make_unchunked_steps({.tune = tune}));
    unchunked_ = std::move(all);
  }
  DeviceSteps::LaunchOptions how{.tune = tune};
  if (pair_.is_gather())
    how.gathered = gathered_rows();
  else
    how.scattered = scattered_rows();
  RIDGE_TRY(steps, make_unchunked_steps(how));
  kernel_ = std::move(steps);
  return Done{};
}

std::vector<SingleKernelExecutor::ColumnChunk> SingleKernelExecutor::list_chunks() const {
  std::vector<ColumnChunk> out;
  const std::int64_t line = line_bytes(), width = walk_.cols * element_bytes();
  for (std::int64_t row = 0; row < walk_.shard_rows; row += walk_.rows)
    for (std::int64_t at = 0; at < line; at += width)
      out.push_back({{row, row + walk_.rows}, {at, std::min(line, at + width)}});
  return out;
}

// Merges adjacent column blocks into one copy, and adjacent groups of full rows as well.
Status SingleKernelExecutor::copy_run(const device::Queue& queue, const AxisRange& run, std::byte* to,
                                      const std::byte* from) const {
  const std::vector<ColumnChunk> all = list_chunks();
  const std::int64_t line = line_bytes();
  std::vector<ColumnChunk> boxes;
  for (std::int64_t j = run.begin; j < run.end; ++j) {
    const ColumnChunk& chunk = all[j];
    if (!boxes.empty() && boxes.back().rows.begin == chunk.rows.begin)
      boxes.back().byte_range.end = chunk.byte_range.end;
    else
      boxes.push_back(chunk);
    if (const std::size_t last = boxes.size() - 1;
        last > 0 && boxes[last].byte_range.size() == line && boxes[last - 1].byte_range.size() == line) {
      boxes[last - 1].rows.end = chunk.rows.end;
      boxes.pop_back();
    }
  }
  for (const ColumnChunk& box : boxes) {
    const std::int64_t offset = box.rows.begin * line + box.byte_range.begin;
    auto* const source = const_cast<std::byte*>(from) + offset;  // the copy only reads it
    RIDGE_TRY_STATUS(box.byte_range.size() == line ? queue.copy(to + offset, source, box.rows.size() * line)
                                                   : queue.copy_rows({to + offset, line}, {source, line},
                                                                     box.byte_range.size(), box.rows.size()));
  }
  return Done{};
}

Status SingleKernelExecutor::wait_for_run(FlaggedCopies& copies, std::size_t run_index) const {
  const std::vector<ColumnChunk> all = list_chunks();
  device::DeviceFlag stored = 0;
  for (std::int64_t j = runs_[run_index].chunk_range.begin; j < runs_[run_index].chunk_range.end; ++j)
    stored += chunk_elements(all[j]);
  return copies.wait_for_flag({.flag = stored_counts(run_index), .value = stored, .keeps_value = true});
}

// For a gather all arrival flags are set, so that the kernel does not wait.
Status SingleKernelExecutor::queue_compute_only(const device::Queue& queue) const {
  if (unchunked_) return unchunked_->queue_steps_on(queue);
  RIDGE_TRY_STATUS(queue.set_bytes(flags_of(comm_->rank()), 1, flag_bytes()));
  RIDGE_TRY_STATUS(kernel_->queue_steps_on(queue));
  RIDGE_TRY_STATUS(queue.set_bytes(flags_of(comm_->rank()), 0, flag_bytes()));
  return Done{};
}

// The barrier ensures that a rank has read the data of the previous pass before others write to it again.
Status SingleKernelExecutor::queue_pair(const device::Queue& queue) const {
  RIDGE_TRY_STATUS(fork_queues(queue));
  RIDGE_TRY_STATUS(kernel_->queue_steps_on(queues_.first));
  RIDGE_TRY_STATUS(queues_.first.set_bytes(flags_of(comm_->rank()), 0, flag_bytes()));
  RIDGE_TRY_STATUS(queue_barrier(queues_.first_copy, ready_flag()));
  RIDGE_TRY_STATUS(pair_.is_gather() ? send_rows() : send_sums());
  return join_queues(queue);
}

Status SingleKernelExecutor::send_rows() const {
  FlaggedCopies copies(queues_.first_copy);
  const std::size_t column_blocks = chunk_count();
  for (const ColumnSend& next : order_column_sends(shards_.size(), column_blocks, waves_per_shard_)) {
    const int other = shard_before(next.rank_distance).rank;
    const auto column_block = static_cast<std::int64_t>(next.column_block);
    const auto work = [&](const device::Queue& by) {
      return copy_run(by, {column_block, column_block + 1}, result_address(other, local_shard()),
                      slots_->address_of(redistribution_step().from));
    };
    const Status sent =
        copies.queue_copy(work, arrival_flags(other) + (next.rank_distance - 1) * column_blocks + next.column_block);
    if (!sent) return sent;
  }
  return copies.set_pending_flags();
}

// Sends a run of partial sums to the previous rank, which adds its own.
Status SingleKernelExecutor::send_partial_sums(FlaggedCopies& copies, std::size_t run_index) const {
  const auto& [step, run] = runs_[run_index];
  const std::int64_t rows = shard_after(step + 1).rows.begin * row_bytes();
  std::byte* const next = step + 2 < shards_.size() ? peer_partials_[shard_before(1).rank] + rows
                                                    : result_address(shard_before(1).rank, shard_before(1));
  const auto work = [&](const device::Queue& by) {
    return copy_run(by, run, next, slots_->address_of(redistribution_step().from) + rows);
  };
  return copies.queue_copy(work, arrival_flags(shard_before(1).rank) + run_index);
}

// Sends a run of an all-reduce's final sums to all other ranks.
Status SingleKernelExecutor::send_final_sums(FlaggedCopies& copies, std::size_t run_index, std::size_t flag) const {
  for (std::size_t other = 1; other < shards_.size(); ++other) {
    const auto work = [&](const device::Queue& by) {
      return copy_run(by, runs_[run_index].chunk_range, result_address(shard_before(other).rank, local_shard()),
                      result_address(comm_->rank(), local_shard()));
    };
    RIDGE_TRY_STATUS(copies.queue_copy(work, peer_memory_->peer_flag(shard_before(other).rank, sum_flag(flag))));
  }
  return Done{};
}

// Sends the sums that the kernel does not store remotely.
Status SingleKernelExecutor::send_sums() const {
  RIDGE_TRY_STATUS(device::set_flags(queues_.first_copy, std::array{begun_flag()}));
  FlaggedCopies copies(queues_.first_copy);
  std::size_t sent_runs = 0;
  for (std::size_t run_index = 0; run_index < runs_.size(); ++run_index) {
    const bool is_final = runs_[run_index].shard_position + 1 == shards_.size();
    if (is_final ? !is_all_reduce() : prediction_.stores_remotely) continue;
    RIDGE_TRY_STATUS(wait_for_run(copies, run_index));
    RIDGE_TRY_STATUS(is_final ? send_final_sums(copies, run_index, sent_runs++) : send_partial_sums(copies, run_index));
  }
  RIDGE_TRY_STATUS(copies.set_pending_flags());
  if (prediction_.stores_remotely && !is_all_reduce())
    return Done{};  // the kernel counted elements on the peer only: this rank's counts are still 0
  RIDGE_TRY_STATUS(queues_.first_copy.set_bytes(stored_counts(0), 0, runs_.size() * sizeof(device::DeviceFlag)));
  for (std::size_t other = 1; is_all_reduce() && other < shards_.size(); ++other)
    RIDGE_TRY_STATUS(wait_for_sums(shard_after(other), sent_runs));
  return Done{};
}

}  // namespace

std::unique_ptr<ChunkedExecutor> ChunkedExecutor::make_single_kernel(const ChunkedPair& pair,
                                                                     const ExecutorContext& context,
                                                                     const ChunkPrediction& prediction,
                                                                     ExecutorQueues queues) {
  return std::make_unique<SingleKernelExecutor>(pair, context, prediction, std::move(queues));
}

}  // namespace ridge::ranks

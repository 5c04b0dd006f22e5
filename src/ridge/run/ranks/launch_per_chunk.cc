// Runs a pair with one launch per chunk (chunked_executor.h).
#include "ridge/run/ranks/chunked_executor.h"

namespace ridge::ranks {
namespace {

class LaunchPerChunkExecutor final : public ChunkedExecutor {
 public:
  LaunchPerChunkExecutor(const ChunkedPair& pair, const ExecutorContext& context, const ChunkPrediction& prediction,
                         ExecutorQueues queues)
      : ChunkedExecutor(pair, context, prediction, std::move(queues)) {}
  Status queue_pair(const device::Queue& queue) const override {
    return pair_.is_gather() ? queue_gather(queue) : queue_scatter(queue);
  }
  Status queue_compute_only(const device::Queue& queue) const override;

 private:
  struct LaunchChunk {
    RowShard shard;
    AxisRange rows;
    std::size_t shard_position = 0;  // position of the shard in processing order: ranks that have added to its sums
    std::size_t index = 0;           // index among the chunks of the shard
    std::optional<DeviceSteps> steps = {};
  };
  Status share_memory() override;
  Status build_kernels(const ChunkRequest& request) override;
  std::int64_t chunk_count() const override { return prediction_.chunks; }
  std::vector<LaunchChunk> split_shard(const RowShard& shard, std::size_t step) const;
  Status add_steps(LaunchChunk& chunk) const;
  std::vector<std::byte*> buffers_of(const Program& program, const LaunchChunk& chunk) const;
  // Return the address of the chunk's partial sums on this rank, and on the previous rank, which adds to them next.
  std::byte* sum_address(const LaunchChunk& chunk) const;
  std::byte* next_sum_address(const LaunchChunk& chunk) const;
  // Launches alternate between two queues, so that a chunk can start on multiprocessors that the previous one has left.
  // Copies of their sums alternate, too.
  const device::Queue& compute_queue(std::size_t turn) const { return turn % 2 == 0 ? queues_.first : queues_.second; }
  Status queue_gather(const device::Queue& queue) const;
  Status queue_scatter(const device::Queue& queue) const;
  Status queue_scatter_chunk(const LaunchChunk& chunk, const device::Queue& on, FlaggedCopies& copies) const;

  std::vector<LaunchChunk> chunks_ = {};  // in processing order
  // Addresses on each rank, as mapped on this device: source of a gather or buffer of partial sums; final sums.
  std::vector<std::byte*> peer_sources_ = {}, peer_results_ = {};
};

Status LaunchPerChunkExecutor::share_memory() {
  RIDGE_TRY(sources, peer_memory_->open_on_all_ranks(slots_->allocation(redistribution_step().from)));
  peer_sources_ = std::move(sources);
  if (pair_.is_gather()) return Done{};
  RIDGE_TRY(sums, peer_memory_->open_on_all_ranks(slots_->allocation(redistribution_step().to)));
  peer_results_ = std::move(sums);
  return Done{};
}

// Partial sums in flight use the memory of the unreduced result: each rank computes every row of it once.
std::byte* LaunchPerChunkExecutor::sum_address(const LaunchChunk& chunk) const {
  if (chunk.shard_position + 1 < shards_.size())
    return slots_->address_of(redistribution_step().from) + chunk.rows.begin * row_bytes();
  const bool is_complete = pair_.kind == Collective::all_reduce;
  return slots_->address_of(redistribution_step().to) +
         (chunk.rows.begin - (is_complete ? 0 : chunk.shard.rows.begin)) * row_bytes();
}

std::byte* LaunchPerChunkExecutor::next_sum_address(const LaunchChunk& chunk) const {
  const std::size_t next = shard_before(1).rank;
  if (chunk.shard_position + 2 < shards_.size()) return peer_sources_[next] + chunk.rows.begin * row_bytes();
  const std::int64_t within = chunk.rows.begin - chunk.shard.rows.begin;
  return peer_results_[next] + (pair_.kind == Collective::all_reduce ? chunk.rows.begin : within) * row_bytes();
}

// Returns the addresses of the tensors of a chunk's program: tensors with rows start at the chunk's first row.
std::vector<std::byte*> LaunchPerChunkExecutor::buffers_of(const Program& program, const LaunchChunk& chunk) const {
  std::vector<std::byte*> out;
  const auto offset = [&](const Tensor& tensor, std::int64_t begin) -> std::int64_t {
    if (tensor.axes.empty() || tensor.axes.front().dim != pair_.row_dim) return 0;
    std::int64_t elements = begin;
    for (std::size_t i = 1; i < tensor.axes.size(); ++i) {
      const auto extent =
          tensor.axes[i].is_named() ? program.bind_sizes({})->at(tensor.axes[i].dim) : tensor.axes[i].literal;
      elements *= extent;
    }
    return elements * dtype_bits(tensor.dtype) / 8;
  };
  for (std::size_t t = 0; t < compute_step().slots.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    const int slot = compute_step().slots[t];
    const bool is_local_operand = pair_.is_gather() && chunk.shard_position == 0 && slot == redistributed_tensor_slot();
    if (!pair_.is_gather() && slot == redistributed_tensor_slot()) {
      out.push_back(sum_address(chunk));
      continue;
    }
    std::byte* const data = slots_->address_of(is_local_operand ? redistribution_step().from : slot);
    const bool is_stored = data != nullptr && tensor.role != TensorRole::intermediate;
    const std::int64_t first = chunk.rows.begin - (is_local_operand ? chunk.shard.rows.begin : 0);
    out.push_back(is_stored ? data + offset(tensor, first) : nullptr);
  }
  return out;
}

Status LaunchPerChunkExecutor::add_steps(LaunchChunk& chunk) const {
  const Program program = program_for_rows(rank_program_->schedule(), pair_, chunk.rows.size());
  RIDGE_TRY(planned, plan_local_program(program, *options_));
  using OutputMode = DeviceLaunches::OutputMode;
  const DeviceSteps::LaunchOptions how{
      .tune = {.use_stored = options_->tune.use_stored},
      .output_mode = !pair_.is_gather() && chunk.shard_position > 0 ? OutputMode::accumulate : OutputMode::overwrite};
  RIDGE_TRY(steps, DeviceSteps::make_with_buffers(buffers_of(program, chunk), std::move(planned), how));
  chunk.steps = std::move(steps);
  return Done{};
}

// Returns the chunks of a shard. In a gather only the last shard is split.
std::vector<LaunchPerChunkExecutor::LaunchChunk> LaunchPerChunkExecutor::split_shard(const RowShard& shard,
                                                                                     std::size_t step) const {
  std::vector<LaunchChunk> out;
  const bool is_unsplit = pair_.is_gather() && step + 1 < shards_.size();
  for (const AxisRange& rows : split_rows(shard.rows, is_unsplit ? 1 : prediction_.chunks))
    out.push_back({shard, rows, step, out.size()});
  return out;
}

Status LaunchPerChunkExecutor::build_kernels(const ChunkRequest&) {
  for (std::size_t step = 0; step < shards_.size(); ++step)
    for (LaunchChunk& chunk : split_shard(shard_after(pair_.is_gather() ? step : step + 1), step)) {
      RIDGE_TRY_STATUS(add_steps(chunk));
      chunks_.push_back(std::move(chunk));
    }
  if (pair_.is_gather()) return Done{};
  RIDGE_TRY(steps, make_unchunked_steps({.tune = {.use_stored = options_->tune.use_stored}}));
  unchunked_ = std::move(steps);
  return Done{};
}

Status LaunchPerChunkExecutor::queue_compute_only(const device::Queue& queue) const {
  for (const LaunchChunk& chunk : chunks_) RIDGE_TRY_STATUS(chunk.steps->queue_steps_on(queue));
  return Done{};
}

Status LaunchPerChunkExecutor::queue_gather(const device::Queue& queue) const {
  RIDGE_TRY_STATUS(fork_queues(queue));
  RIDGE_TRY_STATUS(queue_barrier(queues_.first_copy, chunk_flag(1, 0)));
  std::size_t turn = 0;
  for (const LaunchChunk& chunk : chunks_) {
    const device::Queue& on = compute_queue(turn++);
    if (chunk.shard_position > 0) {
      const std::int64_t within = (chunk.rows.begin - chunk.shard.rows.begin) * row_bytes();
      std::byte* const to = slots_->address_of(redistribution_step().to) + chunk.rows.begin * row_bytes();
      const std::byte* const from = peer_sources_[chunk.shard.rank] + within;
      RIDGE_TRY_STATUS(queues_.first_copy.copy(to, from, chunk.rows.size() * row_bytes()));
      RIDGE_TRY_STATUS(on.wait_for(queues_.first_copy));
    }
    RIDGE_TRY_STATUS(chunk.steps->queue_steps_on(on));
  }
  // The barrier prevents a rank from overwriting its shard in the next pass while another rank still reads it.
  RIDGE_TRY_STATUS(queue_barrier(queues_.first_copy, ready_flag()));
  return join_queues(queue);
}

// The barrier ensures that a rank has read the sums of the previous pass before others write to it again.
Status LaunchPerChunkExecutor::queue_scatter(const device::Queue& queue) const {
  RIDGE_TRY_STATUS(fork_queues(queue));
  RIDGE_TRY_STATUS(queue_barrier(queues_.first_copy, ready_flag()));
  RIDGE_TRY_STATUS(queues_.second_copy.wait_for(queues_.first_copy));
  FlaggedCopies copies[] = {FlaggedCopies(queues_.first_copy), FlaggedCopies(queues_.second_copy)};
  for (std::size_t turn = 0; turn < chunks_.size(); ++turn)
    RIDGE_TRY_STATUS(queue_scatter_chunk(chunks_[turn], compute_queue(turn), copies[turn % 2]));
  for (FlaggedCopies& each : copies) RIDGE_TRY_STATUS(each.set_pending_flags());
  for (std::size_t step = 1; is_all_reduce() && step < shards_.size(); ++step)
    RIDGE_TRY_STATUS(wait_for_sums(shard_after(step), split_shard(shard_after(step), 0).size()));
  return join_queues(queue);
}

// Multiplies a chunk, then sends partial sums to the previous rank, or the final sums of an all-reduce to all ranks.
Status LaunchPerChunkExecutor::queue_scatter_chunk(const LaunchChunk& chunk, const device::Queue& on,
                                                   FlaggedCopies& copies) const {
  const bool is_last = chunk.shard_position + 1 == shards_.size();
  if (chunk.shard_position > 0)
    RIDGE_TRY_STATUS(
        peer_memory_->wait_and_reset_flags(on, chunk_flag(chunk.shard_position, chunk.index), {shard_after(1).rank}));
  RIDGE_TRY_STATUS(chunk.steps->queue_steps_on(on));
  if (is_last && !is_all_reduce()) return Done{};
  RIDGE_TRY_STATUS(copies.wait_for_queue(on));
  const std::int64_t bytes = chunk.rows.size() * row_bytes();
  const auto copied = [&](std::byte* to, std::size_t flag, int other) {
    return copies.queue_copy([&](const device::Queue& by) { return by.copy(to, sum_address(chunk), bytes); },
                             peer_memory_->peer_flag(other, flag));
  };
  if (!is_last) {  // set the flag before any work that waits for it is queued
    const Status sent =
        copied(next_sum_address(chunk), chunk_flag(chunk.shard_position + 1, chunk.index), shard_before(1).rank);
    return sent ? copies.set_pending_flags() : sent;
  }
  for (std::size_t step = 1; step < shards_.size(); ++step) {
    const int other = shard_before(step).rank;
    std::byte* const to = peer_results_[other] + chunk.rows.begin * row_bytes();
    RIDGE_TRY_STATUS(copied(to, sum_flag(chunk.index), other));
  }
  return Done{};
}

}  // namespace

std::unique_ptr<ChunkedExecutor> ChunkedExecutor::make_launch_per_chunk(const ChunkedPair& pair,
                                                                        const ExecutorContext& context,
                                                                        const ChunkPrediction& prediction,
                                                                        ExecutorQueues queues) {
  return std::make_unique<LaunchPerChunkExecutor>(pair, context, prediction, std::move(queues));
}

}  // namespace ridge::ranks

#include "ridge/run/ranks/chunked_executor.h"

#include <utility>

#include "ridge/run/device_machine.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {

Result<SlotMemory> SlotMemory::make(const RankProgram& rank_program) {
  SlotMemory out;
  for (std::size_t s = 0; s < rank_program.schedule().slots.size(); ++s) {
    out.memory_.emplace_back();
    if (!rank_program.is_stored(static_cast<int>(s))) continue;
    const std::int64_t bytes =
        stored_bytes(rank_program.schedule().slots[s].dtype, count_words(rank_program.slot_block(static_cast<int>(s))));
    RIDGE_TRY(memory, allocate_exportable_memory(bytes));
    out.memory_.back() = std::move(memory);
  }
  return out;
}

std::byte* SlotMemory::address_of(int slot) const {
  const auto& memory = memory_[slot];
  return memory ? memory->data() : nullptr;
}

ChunkedExecutor::ChunkedExecutor(const ChunkedPair& pair, const ExecutorContext& context,
                                 const ChunkPrediction& prediction, ExecutorQueues queues)
    : pair_(pair),
      rank_program_(&context.rank_program),
      slots_(&context.slots),
      options_(&context.options),
      comm_(&context.comm),
      peer_memory_(&context.peer_memory),
      first_flag_(context.first_flag),
      prediction_(prediction),
      queues_(std::move(queues)) {
  shards_ = row_shards(rank_program_->schedule(), pair_, rank_program_->mesh_device());
  for (std::size_t p = 0; p < shards_.size(); ++p)
    if (shards_[p].rank == comm_->rank())
      position_ = p;
    else
      other_ranks_.push_back(shards_[p].rank);
}

std::size_t ChunkedExecutor::flags_per_pair(std::size_t ranks) { return 1 + ranks * max_chunks; }

Result<ChunkedExecutor::ExecutorQueues> ChunkedExecutor::ExecutorQueues::make() {
  auto first = device::Queue::create(device::Queue::Priority::high);
  auto second = device::Queue::create(), copies = device::Queue::create(), more_copies = device::Queue::create();
  for (const auto* queue : {&first, &second, &copies, &more_copies})
    if (!*queue) return queue->error();
  return ExecutorQueues{*std::move(first), *std::move(second), *std::move(copies), *std::move(more_copies)};
}

namespace {

bool has_single_kernel(const ChunkRequest& request, const ChunkPrediction& prediction) {
  const auto& compute = std::get<ComputeStep>(request.schedule.steps[request.pair.compute_step]);
  const auto planned = request.make_plan(compute.program);
  return planned && plan_single_kernel(request, *planned, prediction.chunks);
}

}  // namespace

Result<ChunkedExecutor::ExecutorChoice> ChunkedExecutor::make(const ChunkedPair& pair, const ExecutorContext& context) {
  RIDGE_TRY(queues, ExecutorQueues::make());
  const auto device = current_device_numbers();
  const ops::DeviceNumbers numbers = device ? *device : ops::DeviceNumbers{};
  const ChunkRequest request{context.rank_program.schedule(),
                             context.rank_program.mesh_device(),
                             pair,
                             context.machine,
                             numbers,
                             [&](const Program& program) { return plan_local_program(program, context.options); },
                             context.chunk_options,
                             context.comm.rank(),
                             context.peer_memory.link_costs(),
                             context.redistribution_s};
  auto prediction = device ? predict_chunks(request) : device.error();
  RIDGE_TRY_STATUS(transport::agree_on_status(context.comm, prediction ? Status(Done{}) : prediction.error()));
  RIDGE_TRY_STATUS(transport::broadcast(context.comm, std::as_writable_bytes(std::span(&*prediction, 1))));
  if (prediction->chunks == 0) return ExecutorChoice{*prediction, nullptr};
  // Shards may differ by a row or column: a single kernel is used only if every rank has one.
  if (prediction->single_kernel) {
    std::int64_t lacks_kernel = has_single_kernel(request, *prediction) ? 0 : 1;
    RIDGE_TRY_STATUS(transport::all_reduce_max(context.comm, lacks_kernel));
    prediction->single_kernel = lacks_kernel == 0;
  }
  const Maker maker = prediction->single_kernel ? make_single_kernel : make_launch_per_chunk;
  std::unique_ptr<ChunkedExecutor> out = maker(pair, context, *prediction, std::move(queues));
  RIDGE_TRY_STATUS(out->share_memory());
  RIDGE_TRY_STATUS(transport::agree_on_status(context.comm, out->build_kernels(request)));
  prediction->chunks = out->chunk_count();
  return ExecutorChoice{*prediction, std::move(out)};
}

Result<DeviceSteps> ChunkedExecutor::make_unchunked_steps(const DeviceSteps::LaunchOptions& how) const {
  std::vector<std::byte*> buffers;
  for (const int slot : compute_step().slots) buffers.push_back(slots_->address_of(slot));
  RIDGE_TRY(planned, plan_local_program(compute_step().program, *options_));
  return DeviceSteps::make_with_buffers(buffers, std::move(planned), how);
}

Status ChunkedExecutor::complete_for_verify(const device::Queue& queue) const {
  if (!pair_.is_gather()) return unchunked_->queue_steps_on(queue);
  std::byte* const destination = slots_->address_of(redistribution_step().to) + local_shard().rows.begin * row_bytes();
  return queue.copy(destination, slots_->address_of(redistribution_step().from),
                    local_shard().rows.size() * row_bytes());
}

Status ChunkedExecutor::fork_queues(const device::Queue& queue) const {
  for (const device::Queue* one : {&queues_.first, &queues_.second, &queues_.first_copy, &queues_.second_copy})
    RIDGE_TRY_STATUS(one->wait_for(queue));
  return Done{};
}

Status ChunkedExecutor::join_queues(const device::Queue& queue) const {
  for (const device::Queue* one : {&queues_.first, &queues_.second, &queues_.first_copy, &queues_.second_copy})
    RIDGE_TRY_STATUS(queue.wait_for(*one));
  return Done{};
}

Status ChunkedExecutor::queue_barrier(const device::Queue& queue, std::size_t flag) const {
  const Status flagged = peer_memory_->set_flags(queue, flag, other_ranks_);
  return flagged ? peer_memory_->wait_and_reset_flags(queue, flag, other_ranks_) : flagged;
}

// All flags are consumed before `join_queues`, and others set them again only after this rank's next ready flag.
Status ChunkedExecutor::wait_for_sums(const RowShard& shard, std::size_t chunks) const {
  for (std::size_t index = 0; index < chunks; ++index)
    RIDGE_TRY_STATUS(peer_memory_->wait_and_reset_flags(queues_.first_copy, sum_flag(index), {shard.rank}));
  return Done{};
}

Status ChunkedExecutor::FlaggedCopies::queue_copy(const CopyWork& work, device::DeviceFlag* flag) {
  RIDGE_TRY_STATUS(set_pending_flags());
  RIDGE_TRY_STATUS(work(*queue_));
  pending_flags_.push_back(flag);
  return Done{};
}

Status ChunkedExecutor::FlaggedCopies::wait_for_flag(const device::AwaitedFlag& flag) {
  return device::set_and_wait_flags(*queue_, std::exchange(pending_flags_, {}), {&flag, 1});
}

Status ChunkedExecutor::FlaggedCopies::wait_for_queue(const device::Queue& other) {
  const Status flagged = set_pending_flags();
  return flagged ? queue_->wait_for(other) : flagged;
}

Status ChunkedExecutor::FlaggedCopies::set_pending_flags() {
  return pending_flags_.empty() ? Status(Done{}) : device::set_flags(*queue_, std::exchange(pending_flags_, {}));
}

}  // namespace ridge::ranks

#include "ridge/measure/ranks/device_rank_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ridge/measure/device_machine.h"
#include "ridge/measure/timer.h"
#include "ridge/plan/choose_fusion.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {
namespace {

constexpr double min_sample_s = 2e-3;  // minimum seconds of a timed sample
constexpr double max_replays = 64;

std::int64_t bytes_of(const Array& array) { return stored_bytes(array.dtype, array.elements); }

}  // namespace

Result<std::unique_ptr<DeviceRankProgram>> DeviceRankProgram::make(const RankProgram& rank_program,
                                                                   transport::Communicator& comm,
                                                                   const DeviceRunOptions& options) {
  auto queue = device::Queue::create();
  auto slots = queue ? SlotMemory::make(rank_program) : queue.error();
  if (const Status agreed = transport::agree_on_status(comm, slots ? Status(Done{}) : slots.error()); !agreed)
    return agreed.error();
  auto nccl_groups = NcclGroups::make(comm, rank_program.mesh_device().mesh, options.nccl_library, options.nccl_world);
  if (!nccl_groups) return nccl_groups.error();
  std::unique_ptr<DeviceRankProgram> out(
      new DeviceRankProgram(rank_program, std::move(*queue), *std::move(nccl_groups), *std::move(slots)));
  if (const Status done = out->make_steps(comm, options); !done) return done.error();
  return out;
}

Status DeviceRankProgram::make_steps(transport::Communicator& comm, const DeviceRunOptions& options) {
  steps_.resize(rank_program_->schedule().steps.size());
  if (nccl_groups_.world() != nullptr && comm.size() > 1) {
    auto peer_memory =
        PeerMemory::make(comm, ChunkedExecutor::flags_per_pair(static_cast<std::size_t>(comm.size())) * steps_.size());
    if (!peer_memory) return peer_memory.error();
    peer_memory_ = *std::move(peer_memory);
  }
  if (nccl_groups_.world() == nullptr) predicted_network_s_.reset();  // no prediction for transfers through the host
  if (peer_memory_ != nullptr && options.chunk_options.mode != ChunkOptions::ChunkMode::never)
    if (const Status paired = make_chunked_pairs(comm, options); !paired) return paired;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (const Status done = make_step(i, options); !done) return done;
  return Done{};
}

// The second step of a pair stays `EmptyStep`, like a step without elements, whose result is written in advance.
Status DeviceRankProgram::make_chunked_pairs(transport::Communicator& comm, const DeviceRunOptions& options) {
  const RankSchedule& schedule = rank_program_->schedule();
  std::vector<ChunkedPair> pairs;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto pair = find_chunked_pair(schedule, i, rank_program_->mesh_device(), options.stored_tensors);
    if (!pair) continue;
    pairs.push_back(*pair);
    ++i;
  }
  std::int64_t count = static_cast<std::int64_t>(pairs.size());  // 0 if not equal on all ranks
  auto all = transport::gather_at_root(comm, std::as_bytes(std::span(&count, 1)));
  if (!all) return all.error();
  for (const auto& one : *all)
    if (std::memcmp(one.data(), all->front().data(), sizeof count) != 0) count = 0;
  if (const Status done = transport::broadcast(comm, std::as_writable_bytes(std::span(&count, 1))); !done) return done;
  if (count == 0) return Done{};
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const std::size_t first_flag = ChunkedExecutor::flags_per_pair(static_cast<std::size_t>(comm.size())) * p;
    const auto timed = time_redistribution(pairs[p].redistribution_step, comm);
    if (!timed) return timed.error();
    auto made = ChunkedExecutor::make(pairs[p], {*rank_program_, slots_, options.machine, options.run_options,
                                                 options.chunk_options, comm, *peer_memory_, first_flag, *timed});
    if (!made) return made.error();
    notes_.push_back(describe_prediction(schedule, pairs[p], (*made).prediction));
    if (made->executor == nullptr) continue;
    if (auto* const redistributor = std::get_if<DeviceRedistributor>(&steps_[pairs[p].redistribution_step]))
      replaced_redistributors_.push_back(std::move(*redistributor));
    steps_[pairs[p].redistribution_step].emplace<EmptyStep>();
    add_prediction(predicted_network_s_, made->prediction.exposed_network_s());
    add_prediction(predicted_compute_s_, made->prediction.compute_s);
    steps_[std::min(pairs[p].compute_step, pairs[p].redistribution_step)].emplace<std::unique_ptr<ChunkedExecutor>>(
        std::move(made->executor));
  }
  return Done{};
}

// Returns the seconds of a small redistribution without overlap, or nullopt if it is not small. Keeps its step.
Result<std::optional<double>> DeviceRankProgram::time_redistribution(std::size_t step_index,
                                                                     transport::Communicator& comm) {
  const CommunicationSchedule comm_schedule = make_comm_schedule(step_index);
  const auto small = DeviceRedistributor::is_small(comm_schedule, comm);
  if (!small) return small.error();
  if (!*small) return std::optional<double>();
  auto redistributor = DeviceRedistributor::make(comm_schedule, nccl_groups_, peer_memory_.get());
  if (!redistributor) return redistributor.error();
  steps_[step_index].emplace<DeviceRedistributor>(*std::move(redistributor));
  return std::get<DeviceRedistributor>(steps_[step_index]).measured_s();
}

void DeviceRankProgram::add_prediction(std::optional<double>& all, std::optional<double> seconds) {
  if (all && seconds)
    *all += *seconds;
  else
    all.reset();
}

CommunicationSchedule DeviceRankProgram::make_comm_schedule(std::size_t step_index) const {
  const auto& redistribution = std::get<Redistribution>(rank_program_->schedule().steps[step_index]);
  const TensorSlot& slot = rank_program_->schedule().slots[static_cast<std::size_t>(redistribution.from)];
  const MeshDevice& device = rank_program_->mesh_device();
  return {redistribution.move, {slot.extents, slot.dtype, redistribution.reduce_op}, device.mesh, device.index};
}

Status DeviceRankProgram::make_step(std::size_t step_index, const DeviceRunOptions& options) {
  const bool is_paired =
      std::holds_alternative<std::unique_ptr<ChunkedExecutor>>(steps_[step_index]) ||
      (step_index > 0 && std::holds_alternative<std::unique_ptr<ChunkedExecutor>>(steps_[step_index - 1]));
  if (is_paired) return Done{};
  const RankSchedule& schedule = rank_program_->schedule();
  if (const auto* redistribution = std::get_if<Redistribution>(&schedule.steps[step_index])) {
    if (!std::holds_alternative<DeviceRedistributor>(steps_[step_index])) {
      auto redistributor = DeviceRedistributor::make(make_comm_schedule(step_index), nccl_groups_, peer_memory_.get());
      if (!redistributor) return redistributor.error();
      steps_[step_index].emplace<DeviceRedistributor>(*std::move(redistributor));
    }
    const std::string& note = std::get<DeviceRedistributor>(steps_[step_index]).timing_note();
    if (!note.empty()) notes_.push_back(note);
    if (redistribution->move.collective)
      add_prediction(predicted_network_s_, nccl_redistribution_s(options.machine, *rank_program_, step_index));
    return Done{};
  }
  const auto& compute = std::get<ComputeStep>(schedule.steps[step_index]);
  if (compute.is_empty) return Done{};
  std::vector<std::byte*> buffers;
  for (const int slot : compute.slots) buffers.push_back(slots_.address_of(slot));
  auto steps = DeviceSteps::make_with_buffers(buffers, *rank_program_->plan_of_step(step_index),
                                              {.tune = options.run_options.tune});
  if (!steps) return steps.error();
  const auto device = current_device_numbers();
  add_prediction(predicted_compute_s_, device ? predict_plan_seconds(steps->plan(), *device) : std::nullopt);
  steps_[step_index].emplace<DeviceSteps>(*std::move(steps));
  return Done{};
}

Status DeviceRankProgram::upload_slots() const {
  for (std::size_t s = 0; s < rank_program_->schedule().slots.size(); ++s) {
    const int slot = static_cast<int>(s);
    if (!rank_program_->is_stored(slot) || bytes_of(rank_program_->slot_array(slot)) == 0) continue;
    const Array array = rank_program_->slot_array(slot);
    if (const Status copied = queue_.copy(slots_.address_of(slot), array.data, bytes_of(array)); !copied) return copied;
  }
  return queue_.synchronize();
}

Status DeviceRankProgram::download_slots() const {
  for (const QueuedStep& step : steps_)
    if (const auto* executor = std::get_if<std::unique_ptr<ChunkedExecutor>>(&step))
      if (const Status completed = (*executor)->complete_for_verify(queue_); !completed) return completed;
  for (std::size_t s = 0; s < rank_program_->schedule().slots.size(); ++s) {
    const int slot = static_cast<int>(s);
    if (!rank_program_->is_stored(slot) || bytes_of(rank_program_->slot_array(slot)) == 0) continue;
    const Array array = rank_program_->slot_array(slot);
    if (const Status copied = queue_.copy(array.data, slots_.address_of(slot), bytes_of(array)); !copied) return copied;
  }
  if (const Status waited = queue_.synchronize(); !waited) return waited;
  return nccl_groups_.world() != nullptr ? nccl_groups_.world()->check_async_error() : Status(Done{});
}

Status DeviceRankProgram::queue_step(std::size_t step_index) {
  if (auto* const steps = std::get_if<DeviceSteps>(&steps_[step_index])) return steps->queue_steps_on(queue_);
  if (auto* const executor = std::get_if<std::unique_ptr<ChunkedExecutor>>(&steps_[step_index]))
    return (*executor)->queue_pair(queue_);
  auto* const redistributor = std::get_if<DeviceRedistributor>(&steps_[step_index]);
  if (redistributor == nullptr) return Done{};
  const auto& redistribution = std::get<Redistribution>(rank_program_->schedule().steps[step_index]);
  return redistributor->queue_redistribution(queue_, slots_.address_of(redistribution.from),
                                             slots_.address_of(redistribution.to));
}

Status DeviceRankProgram::queue_all_steps() {
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (const Status queued = queue_step(i); !queued) return queued;
  return Done{};
}

// --- timing

Status DeviceRankProgram::time_compute(std::size_t step_index, PassTimes& times) {
  const auto& compute = std::get<ComputeStep>(rank_program_->schedule().steps[step_index]);
  const DeviceSteps& steps = std::get<DeviceSteps>(steps_[step_index]);
  const std::vector<FusionGroup>& groups = steps.plan().fusion.groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto seconds = queue_.measure_seconds([&] { return steps.queue_steps_on(queue_, static_cast<int>(g)); });
    if (!seconds) return seconds.error();
    const auto local = static_cast<std::size_t>(groups[g].statements.front());
    times.statement_s[static_cast<std::size_t>(compute.statements[local])] += *seconds;
    times.compute_s += *seconds;
  }
  return Done{};
}

// The time of a pair beyond its computing counts as network time.
Status DeviceRankProgram::time_chunked_pair(const ChunkedExecutor& executor, PassTimes& times) {
  const auto all = queue_.measure_seconds([&] { return executor.queue_pair(queue_); });
  if (!all) return all.error();
  const auto alone = queue_.measure_seconds([&] { return executor.queue_compute_only(queue_); });
  if (!alone) return alone.error();
  const auto& compute = std::get<ComputeStep>(rank_program_->schedule().steps[executor.pair().compute_step]);
  const auto& redistribution =
      std::get<Redistribution>(rank_program_->schedule().steps[executor.pair().redistribution_step]);
  const double computing = std::min(*alone, *all);
  times.statement_s[static_cast<std::size_t>(compute.statements.front())] += computing;
  times.statement_s[static_cast<std::size_t>(redistribution.statement)] += *all - computing;
  times.compute_s += computing;
  times.network_s += *all - computing;
  return Done{};
}

Status DeviceRankProgram::time_step(std::size_t step_index, transport::Communicator& comm, const Timer& since,
                                    PassTimes& times) {
  PassTimes::StepTime& step_time = times.step_times[step_index];
  step_time.wait_begin_s = step_time.begin_s = since.seconds();
  Status done = Done{};
  if (std::holds_alternative<DeviceSteps>(steps_[step_index])) {
    done = time_compute(step_index, times);
  } else if (!std::holds_alternative<EmptyStep>(steps_[step_index])) {
    if (const Status synced = transport::barrier(comm); !synced) return synced;
    step_time.begin_s = since.seconds();
    times.wait_s += step_time.begin_s - step_time.wait_begin_s;
    if (const auto* executor = std::get_if<std::unique_ptr<ChunkedExecutor>>(&steps_[step_index])) {
      done = time_chunked_pair(**executor, times);
    } else {
      const auto seconds = queue_.measure_seconds([&] { return queue_step(step_index); });
      if (!seconds) return seconds.error();
      times.statement_s[static_cast<std::size_t>(
          std::get<Redistribution>(rank_program_->schedule().steps[step_index]).statement)] += *seconds;
      times.network_s += *seconds;
    }
  }
  step_time.end_s = since.seconds();
  return done;
}

Result<PassTimes> DeviceRankProgram::run_pass(transport::Communicator& comm) {
  PassTimes out{.statement_s = std::vector<double>(rank_program_->statement_count())};
  out.step_times.resize(steps_.size());
  if (const Status synced = transport::barrier(comm); !synced) return synced.error();
  const Timer timer;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (const Status timed = time_step(i, comm, timer, out); !timed) return timed.error();
  const auto wall = time_pass(comm);
  if (!wall) return wall.error();
  out.wall_s = *wall;
  return out;
}

// All ranks use rank 0's number of replays.
Result<double> DeviceRankProgram::time_pass(transport::Communicator& comm) {
  if (!can_record_graph()) {
    if (const Status synced = transport::barrier(comm); !synced) return synced.error();
    return queue_.measure_seconds([&] { return queue_all_steps(); });
  }
  if (!recording_) {
    auto recording = queue_.record_graph([&] { return queue_all_steps(); });
    if (!recording) return recording.error();
    recording_ = *std::move(recording);
  }
  const auto time_replays = [&](std::int64_t count) -> Result<double> {
    if (const Status synced = transport::barrier(comm); !synced) return synced.error();
    const auto seconds = queue_.measure_seconds([&]() -> Status {
      for (std::int64_t i = 0; i < count; ++i)
        if (const Status replayed = queue_.launch_graph(*recording_); !replayed) return replayed;
      return Done{};
    });
    return seconds ? *seconds / static_cast<double>(count) : seconds;
  };
  const auto once = time_replays(1);
  if (!once) return once.error();
  auto count = static_cast<std::int64_t>(std::clamp(std::ceil(min_sample_s / std::max(*once, 1e-7)), 1.0, max_replays));
  if (const Status done = transport::broadcast(comm, std::as_writable_bytes(std::span(&count, 1))); !done)
    return done.error();
  return time_replays(count);
}

std::string DeviceRankProgram::transport_name() const {
  if (nccl_groups_.world() != nullptr) return "NCCL " + nccl_groups_.world()->version();
  return fmt::format("{} through host memory", nccl_groups_.comm().transport_name());
}

std::vector<std::string> DeviceRankProgram::notes() const {
  std::vector<std::string> out = notes_;
  if (!nccl_groups_.unavailable_reason().empty())
    out.push_back("redistributions go through host memory: " + nccl_groups_.unavailable_reason());
  return out;
}

}  // namespace ridge::ranks

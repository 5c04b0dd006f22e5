#include "ridge/run/ranks/device_rank_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ridge/base/block_scale.h"
#include "ridge/base/timer.h"
#include "ridge/plan/plan.h"
#include "ridge/run/device_machine.h"
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
  RIDGE_TRY_STATUS(transport::agree_on_status(comm, slots ? Status(Done{}) : slots.error()));
  RIDGE_TRY(nccl_groups,
            NcclGroups::make(comm, rank_program.mesh_device().mesh, options.nccl_library, options.nccl_world));
  std::unique_ptr<DeviceRankProgram> out(
      new DeviceRankProgram(rank_program, std::move(*queue), std::move(nccl_groups), *std::move(slots)));
  RIDGE_TRY_STATUS(out->make_steps(comm, options));
  return out;
}

Status DeviceRankProgram::make_steps(transport::Communicator& comm, const DeviceRunOptions& options) {
  steps_.resize(rank_program_->schedule().steps.size());
  if (nccl_groups_.world() != nullptr && comm.size() > 1) {
    RIDGE_TRY(
        peer_memory,
        PeerMemory::make(comm, ChunkedExecutor::flags_per_pair(static_cast<std::size_t>(comm.size())) * steps_.size()));
    peer_memory_ = std::move(peer_memory);
  }
  if (nccl_groups_.world() == nullptr) predicted_network_s_.reset();  // no prediction for transfers through the host
  if (peer_memory_ != nullptr && options.chunk_options.mode != ChunkOptions::ChunkMode::never)
    RIDGE_TRY_STATUS(make_chunked_pairs(comm, options));
  for (std::size_t i = 0; i < steps_.size(); ++i) RIDGE_TRY_STATUS(make_step(i, options));
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
  RIDGE_TRY(all, transport::gather_at_root(comm, std::as_bytes(std::span(&count, 1))));
  for (const auto& one : all)
    if (std::memcmp(one.data(), all.front().data(), sizeof count) != 0) count = 0;
  RIDGE_TRY_STATUS(transport::broadcast(comm, std::as_writable_bytes(std::span(&count, 1))));
  if (count == 0) return Done{};
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const std::size_t first_flag = ChunkedExecutor::flags_per_pair(static_cast<std::size_t>(comm.size())) * p;
    RIDGE_TRY(timed, time_redistribution(pairs[p].redistribution_step, comm));
    RIDGE_TRY(made, ChunkedExecutor::make(pairs[p], {*rank_program_, slots_, options.machine, options.run_options,
                                                     options.chunk_options, comm, *peer_memory_, first_flag, timed}));
    notes_.push_back(describe_prediction(schedule, pairs[p], made.prediction));
    if (made.executor == nullptr) continue;
    if (auto* const redistributor = std::get_if<DeviceRedistributor>(&steps_[pairs[p].redistribution_step]))
      replaced_redistributors_.push_back(std::move(*redistributor));
    steps_[pairs[p].redistribution_step].emplace<EmptyStep>();
    add_prediction(predicted_network_s_, made.prediction.exposed_network_s());
    add_prediction(predicted_compute_s_, made.prediction.compute_s);
    steps_[std::min(pairs[p].compute_step, pairs[p].redistribution_step)].emplace<std::unique_ptr<ChunkedExecutor>>(
        std::move(made.executor));
  }
  return Done{};
}

// Returns the seconds of a small redistribution without overlap, or nullopt if it is not small. Keeps its step.
Result<std::optional<double>> DeviceRankProgram::time_redistribution(std::size_t step_index,
                                                                     transport::Communicator& comm) {
  const CommunicationSchedule comm_schedule = make_comm_schedule(step_index);
  RIDGE_TRY(small, DeviceRedistributor::is_small(comm_schedule, comm));
  if (!small) return std::optional<double>();
  RIDGE_TRY(redistributor, DeviceRedistributor::make(comm_schedule, nccl_groups_, peer_memory_.get()));
  steps_[step_index].emplace<DeviceRedistributor>(std::move(redistributor));
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
  const TensorSlot& slot = rank_program_->schedule().slots[redistribution.from];
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
      RIDGE_TRY(redistributor,
                DeviceRedistributor::make(make_comm_schedule(step_index), nccl_groups_, peer_memory_.get()));
      steps_[step_index].emplace<DeviceRedistributor>(std::move(redistributor));
    }
    const std::string& note = std::get<DeviceRedistributor>(steps_[step_index]).timing_note();
    if (!note.empty()) notes_.push_back(note);
    if (redistribution->move.collective)
      add_prediction(predicted_network_s_,
                     nccl_redistribution_s(options.machine, schedule, rank_program_->mesh_device(), step_index));
    return Done{};
  }
  const auto& compute = std::get<ComputeStep>(schedule.steps[step_index]);
  if (compute.is_empty) return Done{};
  std::vector<std::byte*> buffers;
  for (const int slot : compute.slots) buffers.push_back(slots_.address_of(slot));
  RIDGE_TRY(steps, DeviceSteps::make_with_buffers(buffers, *rank_program_->plan_of_step(step_index),
                                                  {.tune = options.run_options.tune}));
  const auto device = current_device_numbers();
  add_prediction(predicted_compute_s_, device ? predict_plan_seconds(steps.plan(), *device) : std::nullopt);
  steps_[step_index].emplace<DeviceSteps>(std::move(steps));
  return Done{};
}

Status DeviceRankProgram::upload_slots() const {
  for (std::size_t s = 0; s < rank_program_->schedule().slots.size(); ++s) {
    const int slot = static_cast<int>(s);
    if (!rank_program_->is_stored(slot) || bytes_of(rank_program_->slot_array(slot)) == 0) continue;
    const Array array = rank_program_->slot_array(slot);
    std::vector<std::byte> planes;
    if (is_block_scaled(array.dtype)) {
      planes.resize(static_cast<std::size_t>(bytes_of(array)));
      split_blocks(array.dtype, array.data, array.elements / dtype_info(array.dtype).block, planes.data(),
                   planes.data() + element_plane_bytes(array.dtype, array.elements));
    }
    RIDGE_TRY_STATUS(
        queue_.copy(slots_.address_of(slot), planes.empty() ? array.data : planes.data(), bytes_of(array)));
    RIDGE_TRY_STATUS(queue_.synchronize());
  }
  return Done{};
}

Status DeviceRankProgram::download_slots() const {
  for (const QueuedStep& step : steps_)
    if (const auto* executor = std::get_if<std::unique_ptr<ChunkedExecutor>>(&step))
      RIDGE_TRY_STATUS((*executor)->complete_for_verify(queue_));
  for (std::size_t s = 0; s < rank_program_->schedule().slots.size(); ++s) {
    const int slot = static_cast<int>(s);
    if (!rank_program_->is_stored(slot) || bytes_of(rank_program_->slot_array(slot)) == 0) continue;
    const Array array = rank_program_->slot_array(slot);
    RIDGE_TRY_STATUS(queue_.copy(array.data, slots_.address_of(slot), bytes_of(array)));
    RIDGE_TRY_STATUS(queue_.synchronize());
    if (is_block_scaled(array.dtype)) {
      const std::vector<std::byte> planes(array.data, array.data + bytes_of(array));
      join_blocks(array.dtype, planes.data(), planes.data() + element_plane_bytes(array.dtype, array.elements),
                  array.elements / dtype_info(array.dtype).block, array.data);
    }
  }
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
  for (std::size_t i = 0; i < steps_.size(); ++i) RIDGE_TRY_STATUS(queue_step(i));
  return Done{};
}

// --- timing

Status DeviceRankProgram::time_compute(std::size_t step_index, PassTimes& times) {
  const auto& compute = std::get<ComputeStep>(rank_program_->schedule().steps[step_index]);
  const DeviceSteps& steps = std::get<DeviceSteps>(steps_[step_index]);
  const std::vector<FusionGroup>& groups = steps.plan().fusion.groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    RIDGE_TRY(seconds, queue_.measure_seconds([&] { return steps.queue_steps_on(queue_, static_cast<int>(g)); }));
    const std::size_t local = groups[g].statements.front();
    times.statement_s[compute.statements[local]] += seconds;
    times.compute_s += seconds;
  }
  return Done{};
}

// The time of a pair beyond its computing counts as network time.
Status DeviceRankProgram::time_chunked_pair(const ChunkedExecutor& executor, PassTimes& times) {
  RIDGE_TRY(all, queue_.measure_seconds([&] { return executor.queue_pair(queue_); }));
  RIDGE_TRY(alone, queue_.measure_seconds([&] { return executor.queue_compute_only(queue_); }));
  const auto& compute = std::get<ComputeStep>(rank_program_->schedule().steps[executor.pair().compute_step]);
  const auto& redistribution =
      std::get<Redistribution>(rank_program_->schedule().steps[executor.pair().redistribution_step]);
  const double computing = std::min(alone, all);
  times.statement_s[compute.statements.front()] += computing;
  times.statement_s[redistribution.statement] += all - computing;
  times.compute_s += computing;
  times.network_s += all - computing;
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
    RIDGE_TRY_STATUS(transport::barrier(comm));
    step_time.begin_s = since.seconds();
    times.wait_s += step_time.begin_s - step_time.wait_begin_s;
    if (const auto* executor = std::get_if<std::unique_ptr<ChunkedExecutor>>(&steps_[step_index])) {
      done = time_chunked_pair(**executor, times);
    } else {
      RIDGE_TRY(seconds, queue_.measure_seconds([&] { return queue_step(step_index); }));
      times.statement_s[std::get<Redistribution>(rank_program_->schedule().steps[step_index]).statement] += seconds;
      times.network_s += seconds;
    }
  }
  step_time.end_s = since.seconds();
  return done;
}

Result<PassTimes> DeviceRankProgram::run_pass(transport::Communicator& comm) {
  PassTimes out{.statement_s = std::vector<double>(rank_program_->statement_count())};
  out.step_times.resize(steps_.size());
  RIDGE_TRY_STATUS(transport::barrier(comm));
  const Timer timer;
  for (std::size_t i = 0; i < steps_.size(); ++i) RIDGE_TRY_STATUS(time_step(i, comm, timer, out));
  RIDGE_TRY(wall, time_pass(comm));
  out.wall_s = wall;
  return out;
}

// All ranks use rank 0's number of replays.
Result<double> DeviceRankProgram::time_pass(transport::Communicator& comm) {
  if (!can_record_graph()) {
    RIDGE_TRY_STATUS(transport::barrier(comm));
    return queue_.measure_seconds([&] { return queue_all_steps(); });
  }
  if (!recording_) {
    RIDGE_TRY(recording, queue_.record_graph([&] { return queue_all_steps(); }));
    recording_ = std::move(recording);
  }
  const auto time_replays = [&](std::int64_t count) -> Result<double> {
    RIDGE_TRY_STATUS(transport::barrier(comm));
    const auto seconds = queue_.measure_seconds([&]() -> Status {
      for (std::int64_t i = 0; i < count; ++i) RIDGE_TRY_STATUS(queue_.launch_graph(*recording_));
      return Done{};
    });
    return seconds ? *seconds / static_cast<double>(count) : seconds;
  };
  RIDGE_TRY(once, time_replays(1));
  auto count = static_cast<std::int64_t>(std::clamp(std::ceil(min_sample_s / std::max(once, 1e-7)), 1.0, max_replays));
  RIDGE_TRY_STATUS(transport::broadcast(comm, std::as_writable_bytes(std::span(&count, 1))));
  return time_replays(count);
}

std::string DeviceRankProgram::transport_name() const {
  if (nccl_groups_.world() != nullptr) return "NCCL " + nccl_groups_.world()->version();
  return fmt::format("{} through host memory", nccl_groups_.comm().transport_name());
}

std::vector<std::string> DeviceRankProgram::notes() const {
  std::vector<std::string> out = notes_;
  if (const Reason& why = nccl_groups_.unavailable_reason())
    out.push_back("redistributions go through host memory: " + why.text());
  return out;
}

}  // namespace ridge::ranks

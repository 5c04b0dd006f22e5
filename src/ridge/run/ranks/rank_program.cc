#include "ridge/run/ranks/rank_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "ridge/base/string_util.h"
#include "ridge/base/timer.h"
#include "ridge/device/run_generated.h"
#include "ridge/plan/plan.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/device_steps.h"
#include "ridge/run/inputs.h"
#include "ridge/run/run_step.h"

namespace ridge::ranks {
namespace {

Bindings dimension_sizes(const Program& program) {
  Bindings out;
  for (const Dimension& dim : program.dims) out[dim.name] = static_cast<std::int64_t>(dim.value->evaluate_double({}));
  return out;
}

// Fills the array with the identity of the reduction: 0, -inf or inf.
void fill_identity(const Array& array, transport::ReduceOp op) {
  if (op == transport::ReduceOp::sum) {
    std::memset(array.data, 0, stored_bytes(array.dtype, array.elements));
    return;
  }
  const float infinite = std::numeric_limits<float>::infinity();
  auto* const values = reinterpret_cast<float*>(array.data);  // partial results are f32
  std::fill_n(values, array.elements, op == transport::ReduceOp::max ? -infinite : infinite);
}

Error out_of_memory_error(std::int64_t bytes) {
  return input_error(
      fmt::format("the system refused {} of memory", format_with_prefix(static_cast<double>(bytes), "B")),
      "give smaller dimensions with -d");
}

}  // namespace

Result<Plan> plan_local_program(const Program& program, const RunOptions& options) {
  const Bindings sizes = dimension_sizes(program);
  if (!options.cuda) return make_plan(program, sizes, {.target = Target::cpu, .fuse = options.fuse});
  RIDGE_TRY(device, current_device_numbers());
  const FuseOptions how{
      .target = Target::cuda, .fuse = options.fuse, .generate_kernels = !device::generation_unavailable_reason()};
  return plan_fastest_fusion(program, sizes, how, device);
}

const Plan* RankProgram::plan_of_step(std::size_t step_index) const {
  const auto* const compute = std::get_if<ComputeStep>(&schedule_.steps[step_index]);
  return compute == nullptr || compute->is_empty ? nullptr : &std::get<PreparedStep>(prepared_[step_index]).plan;
}

Result<RankProgram> RankProgram::make(const Program& program, const Bindings& sizes, const MeshDevice& device,
                                      const RunOptions& options) {
  std::vector<int> stored_tensors;
  for (const auto& [name, path] : options.out)
    if (const auto tensor = find_tensor(program, name)) stored_tensors.push_back(*tensor);
  RIDGE_TRY(schedule, build_rank_schedule(program, sizes, device, stored_tensors));
  RankProgram out;
  out.device_ = &device;
  out.schedule_ = std::move(schedule);
  out.threads_ = options.threads;
  out.cuda_ = options.cuda;
  out.statement_count_ = program.statements.size();
  RIDGE_TRY_STATUS(out.plan_steps(options));
  out.find_stored_slots(program);
  return out;
}

Status RankProgram::plan_steps(const RunOptions& options) {
  for (const auto& schedule_step : schedule_.steps) {
    if (const auto* redistribution = std::get_if<Redistribution>(&schedule_step)) {
      const TensorSlot& slot = schedule_.slots[redistribution->from];
      const RedistributedTensor moved{slot.extents, slot.dtype, redistribution->reduce_op};
      prepared_.emplace_back(
          Redistributor(CommunicationSchedule(redistribution->move, moved, device_->mesh, device_->index)));
      continue;
    }
    const auto& compute = std::get<ComputeStep>(schedule_step);
    PreparedStep prepared;
    if (!compute.is_empty) {
      RIDGE_TRY(made, plan_local_program(compute.program, options));
      for (const PlanStep& step : made.steps)
        if (const auto why = options.cuda ? device_unsupported_reason(step) : cpu_unsupported_reason(step))
          return input_error(fmt::format("cannot run '{}': {}", compute.program.statements.front().text, why.text()));
      prepared.plan = std::move(made);
    }
    prepared_.emplace_back(std::move(prepared));
  }
  return Done{};
}

void RankProgram::find_stored_slots(const Program& program) {
  is_stored_.assign(schedule_.slots.size(), false);
  for (std::size_t t = 0; t < program.tensors.size(); ++t)
    if (program.tensors[t].role == TensorRole::input) is_stored_[t] = true;
  for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
    if (const auto* redistribution = std::get_if<Redistribution>(&schedule_.steps[i])) {
      is_stored_[redistribution->from] = is_stored_[redistribution->to] = true;
      continue;
    }
    const auto& compute = std::get<ComputeStep>(schedule_.steps[i]);
    const Plan& plan = std::get<PreparedStep>(prepared_[i]).plan;
    for (std::size_t t = 0; t < compute.slots.size(); ++t)
      if (compute.is_empty || plan.buffers[t].elements > 0) is_stored_[compute.slots[t]] = true;
  }
}

std::vector<int> RankProgram::kernel_first_statements() const {
  std::vector<int> out(statement_count_, -1);
  for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
    const auto* const compute = std::get_if<ComputeStep>(&schedule_.steps[i]);
    if (compute == nullptr || compute->is_empty) continue;
    for (const FusionGroup& group : std::get<PreparedStep>(prepared_[i]).plan.fusion.groups)
      for (const int s : group.statements) out[compute->statements[s]] = compute->statements[group.statements.front()];
  }
  return out;
}

ShardBox RankProgram::slot_block(int slot) const { return ranks::slot_block(schedule_, slot, *device_); }

std::int64_t RankProgram::memory_bytes() const {
  std::int64_t out = 0;
  for (std::size_t s = 0; s < schedule_.slots.size(); ++s)
    if (is_stored_[s]) out += stored_bytes(schedule_.slots[s].dtype, count_words(slot_block(static_cast<int>(s))));
  for (std::size_t i = 0; i < prepared_.size(); ++i) {
    if (const auto* redistributor = std::get_if<Redistributor>(&prepared_[i])) {
      out += static_cast<std::int64_t>(redistributor->comm_schedule().staging_bytes());
      continue;
    }
    const Plan& plan = std::get<PreparedStep>(prepared_[i]).plan;
    for (std::size_t b = std::get<ComputeStep>(schedule_.steps[i]).slots.size(); b < plan.buffers.size(); ++b)
      out += plan.buffers[b].size_bytes();
  }
  return out;
}

Status RankProgram::allocate_memory() {
  for (std::size_t s = 0; s < schedule_.slots.size(); ++s) {
    storage_.emplace_back();
    if (!is_stored_[s]) continue;
    const std::int64_t elements = count_words(slot_block(static_cast<int>(s)));
    storage_.back() = ArrayStorage::make(schedule_.slots[s].dtype, elements);
    if (!storage_.back()) return out_of_memory_error(stored_bytes(schedule_.slots[s].dtype, elements));
    poison_array(storage_.back()->array(), threads_);
  }
  for (std::size_t i = 0; i < prepared_.size(); ++i) {
    auto* const prepared = std::get_if<PreparedStep>(&prepared_[i]);
    if (prepared == nullptr) continue;
    const auto& compute = std::get<ComputeStep>(schedule_.steps[i]);
    if (compute.is_empty) fill_empty_results(compute);
    if (cuda_) continue;
    for (std::size_t b = compute.slots.size(); b < prepared->plan.buffers.size(); ++b) {
      const PlanBuffer& buffer = prepared->plan.buffers[b];
      auto storage = ArrayStorage::make(buffer.dtype, buffer.elements);
      if (!storage) return out_of_memory_error(buffer.size_bytes());
      poison_array(storage->array(), threads_);
      if (buffer.holds_indices) {
        const std::vector<float> counts = index_values(buffer);
        std::copy(counts.begin(), counts.end(), reinterpret_cast<float*>(storage->array().data));
      }
      prepared->scratch.push_back(*std::move(storage));
    }
    bind_buffers(compute, *prepared);
  }
  return Done{};
}

// The results of an empty step are the same in every pass, so they are written once: all its statements have the empty
// dimension, so that each result has no elements or is a reduction over none.
void RankProgram::fill_empty_results(const ComputeStep& compute) {
  for (const Statement& statement : compute.program.statements)
    fill_identity(slot_array(compute.slots[statement.result()]), compute.reduce_op);
}

void RankProgram::bind_buffers(const ComputeStep& compute, PreparedStep& prepared) {
  const auto memory_of = [&](int buffer) -> void* {
    if (buffer < 0) return nullptr;
    const std::size_t b = buffer;
    if (b >= compute.slots.size()) return prepared.scratch[b - compute.slots.size()].array().data;
    return is_stored(compute.slots[b]) ? slot_array(compute.slots[b]).data : nullptr;
  };
  for (const PlanStep& step : prepared.plan.steps) {
    prepared.step_arguments.emplace_back();
    for (const int buffer : step.buffers) prepared.step_arguments.back().push_back(memory_of(buffer));
  }
}

Status RankProgram::fill_inputs(const Program& program,
                                const std::function<Status(int tensor, const Array& full)>& full) {
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    if (program.tensors[t].role != TensorRole::input) continue;
    const TensorSlot& slot = schedule_.slots[t];
    const ShardBox all = shard_box(slot.extents, {.mesh_axes = std::vector<std::string>(slot.extents.size())}, {}, 0);
    const ShardBox mine = slot_block(static_cast<int>(t));
    const bool is_unsplit = count_words(all) == count_words(mine);
    auto memory = is_unsplit ? std::nullopt : ArrayStorage::make(slot.dtype, count_words(all));
    if (!is_unsplit && !memory) return out_of_memory_error(stored_bytes(slot.dtype, count_words(all)));
    const Array to = slot_array(static_cast<int>(t));
    RIDGE_TRY_STATUS(full(static_cast<int>(t), is_unsplit ? to : memory->array()));
    if (!is_unsplit) pack_box(memory->array().data, all, mine, dtype_bits(slot.dtype) / 8, to.data);
  }
  return Done{};
}

void RankProgram::run_compute_step(std::size_t step_index, PassTimes& times) {
  const auto& compute = std::get<ComputeStep>(schedule_.steps[step_index]);
  if (compute.is_empty) return;
  const PreparedStep& prepared = std::get<PreparedStep>(prepared_[step_index]);
  for (std::size_t i = 0; i < prepared.plan.steps.size(); ++i) {
    const PlanStep& step = prepared.plan.steps[i];
    const Timer timer;
    ridge::run_step(step, prepared.step_arguments[i], threads_);
    const int local = prepared.plan.fusion.groups[step.group].statements.front();
    const double seconds = timer.seconds();
    times.statement_s[compute.statements[local]] += seconds;
    times.compute_s += seconds;
  }
}

// The barrier separates waiting for slower ranks from network time.
Status RankProgram::run_redistribution(std::size_t step_index, transport::Communicator& comm, const Timer& since,
                                       PassTimes& times) {
  const auto& redistribution = std::get<Redistribution>(schedule_.steps[step_index]);
  PassTimes::StepTime& step_time = times.step_times[step_index];
  RIDGE_TRY_STATUS(transport::barrier(comm));
  step_time.begin_s = since.seconds();
  const Status moved =
      std::get<Redistributor>(prepared_[step_index])
          .exchange_shards(comm, slot_array(redistribution.from).data, slot_array(redistribution.to).data);
  step_time.end_s = since.seconds();
  times.wait_s += step_time.begin_s - step_time.wait_begin_s;
  times.statement_s[redistribution.statement] += step_time.end_s - step_time.begin_s;
  times.network_s += step_time.end_s - step_time.begin_s;
  return moved;
}

Result<PassTimes> RankProgram::run_pass(transport::Communicator& comm) {
  PassTimes out{.statement_s = std::vector<double>(statement_count_)};
  out.step_times.resize(schedule_.steps.size());
  RIDGE_TRY_STATUS(transport::barrier(comm));
  const Timer timer;
  for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
    out.step_times[i].wait_begin_s = out.step_times[i].begin_s = timer.seconds();
    if (std::holds_alternative<ComputeStep>(schedule_.steps[i])) {
      run_compute_step(i, out);
      out.step_times[i].end_s = timer.seconds();
    } else {
      RIDGE_TRY_STATUS(run_redistribution(i, comm, timer, out));
    }
  }
  out.wall_s = timer.seconds();
  return out;
}

std::int64_t RankProgram::words_sent_per_pass() const {
  std::int64_t out = 0;
  for (const auto& prepared : prepared_)
    if (const auto* redistributor = std::get_if<Redistributor>(&prepared))
      out += redistributor->comm_schedule().words_sent();
  return out;
}

std::vector<std::string> RankProgram::layout_copies() const {
  std::vector<std::string> out;
  for (const auto& prepared : prepared_)
    if (const auto* prepared_step = std::get_if<PreparedStep>(&prepared))
      for (const PlanStep& step : prepared_step->plan.steps)
        if (!step.copy_description.empty()) out.push_back(step.copy_description);
  return out;
}

}  // namespace ridge::ranks

#include "ridge/run/plan_timer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/dtype_set.h"
#include "ridge/base/timer.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t cold_bytes = std::int64_t{256} << 20, line_bytes = 256, max_launches = 256;

std::int64_t round_up_to_line(std::int64_t bytes) { return (bytes + line_bytes - 1) / line_bytes * line_bytes; }
std::int64_t last_offset(std::int64_t extent, std::int64_t stride) { return extent > 0 ? (extent - 1) * stride : 0; }

std::array<const cuda::EpilogueOperand*, 4> epilogue_operands(const cuda::MatmulEpilogue& e) {
  return {&e.scale, &e.bias, &e.gate, &e.addend};
}

}  // namespace

PlanTimer::PlanTimer(const cuda::MatmulCall& call, const PlanTimerOptions& options) : call_(call), options_(options) {
  const ops::MatmulProblem& p = call.problem;
  if (const auto& windows = p.pixel_windows) {
    operands_.push_back({call.a, p.a.dtype, windows->count_memory_elements(p.batch)});
    operands_.push_back({call.b, p.b.dtype, p.batch * p.size.n * p.b.col_stride});
  } else {
    add_operand(call.a, p.a, p.size.m, p.size.k);
    add_operand(call.b, p.b, p.size.k, p.size.n);
  }
  add_operand(call.d, p.d, p.size.m, p.size.n);
  for (const cuda::EpilogueOperand* x : epilogue_operands(call.epilogue))
    if (x->data) add_operand(x->data, {x->dtype, x->row_stride, x->col_stride, x->batch_stride}, p.size.m, p.size.n);
  for (RotatedOperand& x : operands_) {
    x.offset = set_bytes_ + static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(x.original) % 16);
    set_bytes_ += round_up_to_line(16 + x.elements * dtype_bits(x.dtype) / 8);
  }
}

Result<std::vector<double>> PlanTimer::measure_plans(const std::vector<cuda::MatmulPlan>& plans, int rounds) {
  if (memory_.empty()) RIDGE_TRY_STATUS(allocate_sets(plans));
  std::vector<device::RecordedGraph> recordings;
  for (const cuda::MatmulPlan& plan : plans) {
    RIDGE_TRY(recording, record_launches(plan));
    recordings.push_back(std::move(recording));
  }
  std::vector<std::vector<double>> all_samples(plans.size());
  for (double warmed = 0; warmed < options_.warmup_seconds;)  // the first replay loads the kernels
    for (const device::RecordedGraph& recording : recordings) {
      RIDGE_TRY(seconds, time_launch(recording));
      warmed += seconds + 1e-6;
    }
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round)
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const std::size_t at = (i + round) % plans.size();  // every plan is first in some rounds
      RIDGE_TRY(seconds, time_launch(recordings[at]));
      all_samples[at].push_back(seconds / static_cast<double>(launches_per_graph_));
    }
  std::vector<double> medians;
  for (const std::vector<double>& samples : all_samples) medians.push_back(compute_statistics(samples).median);
  return medians;
}

// An operand that the call contains twice (x * x, or a partial sum that is D) gets one copy as well.
void PlanTimer::add_operand(const void* original, const ops::MatrixLayout& x, std::int64_t rows, std::int64_t cols) {
  const std::int64_t elements = last_offset(call_.problem.batch, x.batch_stride) + last_offset(rows, x.row_stride) +
                                last_offset(cols, x.col_stride) + (rows > 0 && cols > 0 ? 1 : 0);
  const auto same =
      std::find_if(operands_.begin(), operands_.end(), [&](const RotatedOperand& y) { return y.original == original; });
  if (same == operands_.end())
    operands_.push_back({original, x.dtype, elements});
  else
    same->elements = std::max(same->elements, elements);
}

Status PlanTimer::allocate_sets(const std::vector<cuda::MatmulPlan>& plans) {
  RIDGE_TRY(queue, device::Queue::create());
  queue_.emplace(std::move(queue));
  std::size_t workspace = device::counter_bytes;
  double min_predicted_s = options_.replay_seconds;
  for (const cuda::MatmulPlan& plan : plans) {
    workspace = std::max(workspace, plan.workspace_bytes);
    min_predicted_s = std::min(min_predicted_s, plan.predicted_s);
  }
  RIDGE_TRY(properties, device::device_properties());
  const std::int64_t free = properties.free_bytes / 4 * 3 - static_cast<std::int64_t>(workspace);
  set_count_ = std::max<std::int64_t>(1, std::min({cold_bytes / set_bytes_ + 1, max_launches, free / set_bytes_}));
  launches_per_graph_ =
      std::clamp(static_cast<std::int64_t>(std::ceil(options_.replay_seconds / std::max(min_predicted_s, 1e-7))),
                 set_count_, max_launches);
  for (const std::int64_t bytes : {set_count_ * set_bytes_, static_cast<std::int64_t>(workspace)}) {
    RIDGE_TRY(memory, device::DeviceBuffer::allocate(bytes));
    memory_.push_back(std::move(memory));
  }
  workspace_ = {memory_[1].data(), workspace, true};
  RIDGE_TRY_STATUS(queue_->set_bytes(memory_[1].data(), 0, static_cast<std::int64_t>(device::counter_bytes)));
  return fill_sets();
}

Status PlanTimer::fill_sets() const {
  for (std::int64_t set = 0; set < set_count_; ++set)
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const RotatedOperand& x = operands_[i];
      std::byte* const to = operand_address(set, x.original);
      if (RandomDTypes::contains(x.dtype))
        RIDGE_TRY_STATUS(queue_->fill_normal(to, x.dtype, x.elements, static_cast<std::uint32_t>(i)));
      else
        RIDGE_TRY_STATUS(queue_->set_bytes(to, 0, x.elements * dtype_bits(x.dtype) / 8));  // Results of int32
    }
  return queue_->synchronize();
}

std::byte* PlanTimer::operand_address(std::int64_t set, const void* original) const {
  for (const RotatedOperand& x : operands_)
    if (x.original == original) return memory_[0].data() + set * set_bytes_ + x.offset;
  return nullptr;
}

Status PlanTimer::launch_plan(const cuda::MatmulPlan& plan, std::int64_t set) const {
  cuda::MatmulCall call = call_;
  call.a = operand_address(set, call.a);
  call.b = operand_address(set, call.b);
  call.d = operand_address(set, call.d);
  for (cuda::EpilogueOperand* x :
       {&call.epilogue.scale, &call.epilogue.bias, &call.epilogue.gate, &call.epilogue.addend})
    if (x->data) x->data = operand_address(set, x->data);
  return cuda::launch(call, plan, workspace_, queue_->stream());
}

Result<device::RecordedGraph> PlanTimer::record_launches(const cuda::MatmulPlan& plan) const {
  return queue_->record_graph([&]() -> Status {
    for (std::int64_t i = 0; i < launches_per_graph_; ++i) RIDGE_TRY_STATUS(launch_plan(plan, i % set_count_));
    return Done{};
  });
}

Result<double> PlanTimer::time_launch(const device::RecordedGraph& recording) const {
  return queue_->measure_seconds([&] { return queue_->launch_graph(recording); });
}

}  // namespace ridge

#include "ridge/measure/plan_timer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/measure/timer.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t cold_bytes = std::int64_t{256} << 20, line = 256, most_launches = 256;

std::int64_t padded(std::int64_t bytes) { return (bytes + line - 1) / line * line; }
std::int64_t reach(std::int64_t extent, std::int64_t stride) { return extent > 0 ? (extent - 1) * stride : 0; }

std::array<const cuda::EpilogueOperand*, 4> operands(const cuda::MatmulEpilogue& e) {
  return {&e.scale, &e.bias, &e.gate, &e.addend};
}

}  // namespace

PlanTimer::PlanTimer(const cuda::MatmulCall& call, const PlanTiming& options) : call_(call), options_(options) {
  const ops::MatmulProblem& p = call.problem;
  add(call.a, p.a, p.m, p.k);
  add(call.b, p.b, p.k, p.n);
  add(call.d, p.d, p.m, p.n);
  for (const cuda::EpilogueOperand* x : operands(call.epilogue))
    if (x->data) add(x->data, {x->dtype, x->row_stride, x->col_stride, x->batch_stride}, p.m, p.n);
  for (Operand& x : operands_) {
    x.offset = bytes_ + static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(x.given) % 16);
    bytes_ += padded(16 + x.elements * bits(x.dtype) / 8);
  }
}

Result<std::vector<double>> PlanTimer::measure(const std::vector<cuda::MatmulPlan>& plans, int rounds) {
  if (memory_.empty())
    if (const Status made = allocate(plans); !made) return made.error();
  std::vector<cuda::Recording> recordings;
  for (const cuda::MatmulPlan& plan : plans) {
    auto recording = recorded(plan);
    if (!recording) return recording.error();
    recordings.push_back(std::move(*recording));
  }
  std::vector<std::vector<double>> taken(plans.size());
  for (double warmed = 0; warmed < options_.warm_seconds;)  // the first replay loads the kernels
    for (const cuda::Recording& recording : recordings) {
      const auto seconds = once(recording);
      if (!seconds) return seconds.error();
      warmed += *seconds + 1e-6;
    }
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round)
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const std::size_t at = (i + round) % plans.size();  // every plan is first in some rounds
      const auto seconds = once(recordings[at]);
      if (!seconds) return seconds.error();
      taken[at].push_back(*seconds / static_cast<double>(launches_));
    }
  std::vector<double> medians;
  for (const std::vector<double>& samples : taken) medians.push_back(statistics(samples).median);
  return medians;
}

// An operand that the call contains twice (x * x, or a partial sum that is D) gets one copy as well.
void PlanTimer::add(const void* given, const ops::MatrixLayout& x, std::int64_t rows, std::int64_t cols) {
  const std::int64_t elements = reach(call_.problem.batch, x.batch_stride) + reach(rows, x.row_stride) +
                                reach(cols, x.col_stride) + (rows > 0 && cols > 0 ? 1 : 0);
  const auto same =
      std::find_if(operands_.begin(), operands_.end(), [&](const Operand& y) { return y.given == given; });
  if (same == operands_.end())
    operands_.push_back({given, x.dtype, elements});
  else
    same->elements = std::max(same->elements, elements);
}

Status PlanTimer::allocate(const std::vector<cuda::MatmulPlan>& plans) {
  auto queue = cuda::Queue::make();
  if (!queue) return queue.error();
  queue_.emplace(std::move(*queue));
  std::size_t workspace = cuda::counter_bytes;
  double quickest = options_.replay_seconds;
  for (const cuda::MatmulPlan& plan : plans) {
    workspace = std::max(workspace, plan.workspace_bytes);
    quickest = std::min(quickest, plan.predicted_s);
  }
  const auto facts = cuda::device_facts();
  if (!facts) return facts.error();
  const std::int64_t free = facts->free_bytes / 4 * 3 - static_cast<std::int64_t>(workspace);
  sets_ = std::max<std::int64_t>(1, std::min({cold_bytes / bytes_ + 1, most_launches, free / bytes_}));
  launches_ = std::clamp(static_cast<std::int64_t>(std::ceil(options_.replay_seconds / std::max(quickest, 1e-7))),
                         sets_, most_launches);
  for (const std::int64_t bytes : {sets_ * bytes_, static_cast<std::int64_t>(workspace)}) {
    auto memory = cuda::Memory::make(bytes);
    if (!memory) return memory.error();
    memory_.push_back(std::move(*memory));
  }
  workspace_ = {memory_[1].data(), workspace, true};
  if (const Status set = queue_->set(memory_[1].data(), 0, static_cast<std::int64_t>(cuda::counter_bytes)); !set)
    return set;
  return fill();
}

Status PlanTimer::fill() const {
  for (std::int64_t set = 0; set < sets_; ++set)
    for (std::size_t i = 0; i < operands_.size(); ++i)
      if (const Status filled = queue_->fill_normal(at(set, operands_[i].given), operands_[i].dtype,
                                                    operands_[i].elements, static_cast<std::uint32_t>(i));
          !filled)
        return filled;
  return queue_->wait();
}

std::byte* PlanTimer::at(std::int64_t set, const void* given) const {
  for (const Operand& x : operands_)
    if (x.given == given) return memory_[0].data() + set * bytes_ + x.offset;
  return nullptr;
}

Status PlanTimer::launch(const cuda::MatmulPlan& plan, std::int64_t set) const {
  cuda::MatmulCall call = call_;
  call.a = at(set, call.a);
  call.b = at(set, call.b);
  call.d = at(set, call.d);
  for (cuda::EpilogueOperand* x :
       {&call.epilogue.scale, &call.epilogue.bias, &call.epilogue.gate, &call.epilogue.addend})
    if (x->data) x->data = at(set, x->data);
  if (const auto trouble = cuda::launch(call, plan, workspace_, queue_->stream()))
    return absent_error("the CUDA device failed at " + *trouble, "`nvidia-smi` shows the device's state");
  return Done{};
}

Result<cuda::Recording> PlanTimer::recorded(const cuda::MatmulPlan& plan) const {
  return queue_->record([&]() -> Status {
    for (std::int64_t i = 0; i < launches_; ++i)
      if (const Status launched = launch(plan, i % sets_); !launched) return launched;
    return Done{};
  });
}

Result<double> PlanTimer::once(const cuda::Recording& recording) const {
  return queue_->elapsed([&] { return queue_->replay(recording); });
}

}  // namespace ridge

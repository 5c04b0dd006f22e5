#include "ridge/measure/device_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "ridge/measure/device_machine.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/rows/cuda.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t cold_bytes = std::int64_t{256} << 20, line = 256;
constexpr std::size_t most_workspace = ops::plan_workspace_bytes;
constexpr std::int64_t most_sets = 64, most_launches = 256;
constexpr double replay_seconds = 2e-3, warm_seconds = 0.02;

std::int64_t padded(std::int64_t bytes) { return (bytes + line - 1) / line * line; }

std::vector<void*> data_of(const Step& step, const std::vector<std::byte*>& places) {
  std::vector<void*> data;
  for (const int buffer : step.buffers) data.push_back(buffer < 0 ? nullptr : places[static_cast<std::size_t>(buffer)]);
  return data;
}

Status said(const std::optional<std::string>& trouble) {
  if (trouble) return absent_error("the CUDA device failed at " + *trouble, "`nvidia-smi` shows the device's state");
  return Done{};
}

}  // namespace

std::optional<std::string> refuse_on_device(const Step& step) {
  return std::visit(
      [](const auto& kernel) -> std::optional<std::string> {
        if constexpr (requires { cuda::refuse(kernel); })
          return cuda::refuse(kernel);
        else
          return "no CUDA kernel does this; --on cpu runs it";
      },
      step.kernel);
}

Result<DeviceSteps> DeviceSteps::made(Plan plan, const TuneOptions& tune, Made how) {
  auto queue = cuda::Queue::make();
  if (!queue) return queue.error();
  DeviceSteps out(std::move(plan), std::move(*queue));
  out.last_ = how.last;
  if (const Status done = out.allocate(tune, how.group, how.lent); !done) return done.error();
  return out;
}

Result<DeviceSteps> DeviceSteps::make(Plan plan, const TuneOptions& tune, std::optional<int> group) {
  return made(std::move(plan), tune, {.group = group});
}

Result<DeviceSteps> DeviceSteps::make_in(const std::vector<std::byte*>& lent, Plan plan, const TuneOptions& tune,
                                         Last last) {
  if (last == Last::added &&
      (plan.steps.empty() || !std::holds_alternative<ops::MatmulProblem>(plan.steps.back().kernel)))
    return input_error("what is added to a result is expected to be a product's");
  return made(std::move(plan), tune, {.lent = lent, .last = last});
}

// A product alone or with what it ends in; nothing: the step is none.
std::optional<cuda::FusedCall> DeviceSteps::product_of(const Step& step, const Places& places) const {
  const std::vector<void*> data = data_of(step, places);
  if (const auto* fused = std::get_if<ops::FusedMatmul>(&step.kernel)) return cuda::fused_call(*fused, data);
  const auto* problem = std::get_if<ops::MatmulProblem>(&step.kernel);
  if (problem == nullptr) return std::nullopt;
  cuda::MatmulCall out{*problem, data[0], data[1], data[2]};
  if (last_ == Last::stored || &step != &plan_.steps.back()) return out;
  const ops::MatrixLayout& d = problem->d;
  out.epilogue.addend = {out.d, d.dtype, d.row_stride, d.col_stride, d.batch_stride};
  out.epilogue.may_round_sum = true;
  return out;
}

std::vector<int> DeviceSteps::used(std::optional<int> group) const {
  std::set<int> all;
  for (const Step& step : plan_.steps)
    if (!group || step.group == *group) all.insert(step.buffers.begin(), step.buffers.end());
  if (!group)
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) all.insert(static_cast<int>(i));
  all.erase(-1);  // an operand that is left out
  return {all.begin(), all.end()};
}

Result<std::size_t> DeviceSteps::choose(const Step& step, const cuda::FusedCall& product, const TuneOptions& tune) {
  if (const auto* gated = std::get_if<cuda::GatedCall>(&product)) {
    const auto device = device_numbers_here();
    if (!device) return device.error();
    const auto plan = cuda::choose(*gated, most_workspace, *device);
    products_.back() = plan;
    return plan.workspace_bytes;
  }
  const auto chosen = choose_plan(std::get<cuda::MatmulCall>(product), most_workspace, tune);
  if (!chosen) return chosen.error();
  products_.back() = chosen->plan;
  if (chosen->tuned) tuned_.emplace_back(step.group, *chosen->tuned);
  return chosen->plan.workspace_bytes;
}

Status DeviceSteps::allocate(const TuneOptions& tune, std::optional<int> group, const std::vector<std::byte*>& lent) {
  const std::vector<int> needed = used(group);
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    std::byte* const there = i < lent.size() ? lent[i] : nullptr;
    const bool here = there == nullptr && std::binary_search(needed.begin(), needed.end(), static_cast<int>(i));
    auto memory = cuda::Memory::make(here ? plan_.buffers[i].bytes() : 0);
    if (!memory) return memory.error();
    memory_.push_back(std::move(*memory));
    places_.push_back(there != nullptr ? there : memory_.back().data());
  }
  std::size_t workspace = cuda::counter_bytes;
  for (const Step& step : plan_.steps) {
    if (const auto* reduction = std::get_if<ops::ReduceProblem>(&step.kernel))
      workspace = std::max(workspace, cuda::workspace_bytes(*reduction));
    products_.emplace_back();
    const auto choose_attention = [&](const auto* problem) -> Status {
      if (problem == nullptr) return Done{};
      const auto device = device_numbers_here();
      if (!device) return device.error();
      const auto chosen = cuda::choose(*problem, *device);
      workspace = std::max(workspace, cuda::counter_bytes + chosen.workspace_bytes);
      products_.back() = chosen;
      return Done{};
    };
    for (const Status& done : {choose_attention(std::get_if<ops::AttentionProblem>(&step.kernel)),
                               choose_attention(std::get_if<ops::AttentionBackwardProblem>(&step.kernel))})
      if (!done) return done;
    const auto product = product_of(step, places_);
    if (!product) continue;
    const auto bytes = choose(step, *product, group && step.group != *group ? TuneOptions{} : tune);
    if (!bytes) return bytes.error();
    workspace = std::max(workspace, *bytes);
  }
  auto memory = cuda::Memory::make(static_cast<std::int64_t>(workspace));
  if (!memory) return memory.error();
  workspace_.push_back(std::move(*memory));
  if (const Status set = queue_.set(workspace_[0].data(), 0, static_cast<std::int64_t>(cuda::counter_bytes)); !set)
    return set;
  return count_up();
}

Status DeviceSteps::count_up() const {
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    if (!buffer.counts || memory_[i].bytes() < buffer.bytes()) continue;
    const std::vector<float> counts = counts_of(buffer);
    for (const Status& done : {queue_.copy(places_[i], counts.data(), buffer.bytes()), queue_.wait()})
      if (!done) return done;
  }
  return Done{};
}

Status DeviceSteps::fill_normal() {
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    if (buffer.counts || memory_[i].bytes() < buffer.bytes()) continue;  // another kernel's
    if (const Status done =
            queue_.fill_normal(places_[i], buffer.dtype, buffer.elements, static_cast<std::uint32_t>(i));
        !done)
      return done;
  }
  return Done{};
}

Status DeviceSteps::queue_product(CUstream_st* stream, const Step& step, const cuda::FusedCall& product) const {
  const auto index = static_cast<std::size_t>(&step - plan_.steps.data());
  const cuda::Workspace workspace{workspace_[0].data(), static_cast<std::size_t>(workspace_[0].bytes()), true};
  return std::visit(
      [&](const auto& call) {
        using Chosen = decltype(cuda::choose(call, 0, std::declval<ops::DeviceNumbers>()));
        return said(cuda::launch(call, std::get<Chosen>(products_[index]), workspace, stream));
      },
      product);
}

Status DeviceSteps::queue_step(CUstream_st* stream, const Step& step, const Places& places) const {
  if (const auto product = product_of(step, places)) return queue_product(stream, step, *product);
  const std::vector<void*> data = data_of(step, places);
  const cuda::Workspace workspace{workspace_[0].data(), static_cast<std::size_t>(workspace_[0].bytes()), true};
  return std::visit(
      [&](const auto& kernel) -> Status {
        using Kernel = std::decay_t<decltype(kernel)>;
        if constexpr (std::is_same_v<Kernel, ops::ChainProgram>) {
          return said(cuda::chain(kernel, data, stream));
        } else if constexpr (std::is_same_v<Kernel, ops::RowProblem>) {
          return said(cuda::rows(kernel, data[0], data[1], data[2], stream));
        } else if constexpr (std::is_same_v<Kernel, ops::RowProgram>) {
          return said(cuda::rows(kernel, data, stream));
        } else if constexpr (std::is_same_v<Kernel, ops::AttentionProblem>) {
          const auto index = static_cast<std::size_t>(&step - plan_.steps.data());
          float* const lse = data.size() > 4 ? static_cast<float*>(data[4]) : nullptr;
          const cuda::AttentionCall call{kernel, data[0], data[1], data[2], data[3], lse};
          return said(cuda::launch(call, std::get<cuda::AttentionPlan>(products_[index]), workspace, stream));
        } else if constexpr (std::is_same_v<Kernel, ops::AttentionBackwardProblem>) {
          const auto index = static_cast<std::size_t>(&step - plan_.steps.data());
          const cuda::AttentionBackwardCall call{kernel,
                                                 {data[0], data[1], data[2], data[3], data[4],
                                                  static_cast<const float*>(data[5]), data[6], data[7], data[8]}};
          return said(cuda::launch(call, std::get<cuda::AttentionBackwardPlan>(products_[index]), workspace, stream));
        } else if constexpr (std::is_same_v<Kernel, ops::ReduceProblem>) {
          return said(cuda::reduce(kernel, data[0], data[1], workspace, stream));
        } else {
          return input_error("no CUDA kernel does this; --on cpu runs it");
        }
      },
      step.kernel);
}

Status DeviceSteps::queue_steps(CUstream_st* stream, std::optional<int> group, const Places& places) const {
  for (const Step& step : plan_.steps) {
    if (group && step.group != *group) continue;
    if (const Status queued = queue_step(stream, step, places); !queued) return queued;
  }
  return Done{};
}

Status DeviceSteps::queue_all() const { return queue_steps(queue_.stream(), std::nullopt, places_); }

Status DeviceSteps::queue_on(const cuda::Queue& queue, std::optional<int> group) const {
  return queue_steps(queue.stream(), group, places_);
}

// Copies of the buffers that the steps use, as many as it takes to touch cold_bytes, or as fit.
Result<std::vector<DeviceSteps::Places>> DeviceSteps::rotated(std::optional<int> group,
                                                              std::vector<cuda::Memory>& pool) const {
  std::vector<Places> sets{places_};
  const std::vector<int> buffers = used(group);
  std::int64_t bytes = 0;
  for (const int b : buffers) bytes += padded(plan_.buffers[static_cast<std::size_t>(b)].bytes());
  if (bytes == 0) return sets;
  const std::int64_t copies = std::min(cold_bytes / bytes, most_sets - 1);
  const auto facts = cuda::device_facts();
  if (!facts) return facts.error();
  if (copies <= 0 || copies * bytes > facts->free_bytes * 3 / 4) return sets;
  auto memory = cuda::Memory::make(copies * bytes);
  if (!memory) return memory.error();
  pool.push_back(std::move(*memory));
  std::byte* at = pool.back().data();
  for (std::int64_t i = 0; i < copies; ++i) {
    sets.push_back(places_);
    for (const int b : buffers) {
      const auto index = static_cast<std::size_t>(b);
      if (const Status copied = queue_.copy(at, places_[index], plan_.buffers[index].bytes()); !copied)
        return copied.error();
      sets.back()[index] = at;
      at += padded(plan_.buffers[index].bytes());
    }
  }
  return sets;
}

Result<std::vector<double>> DeviceSteps::time(std::optional<int> group, Passes passes) {
  std::vector<cuda::Memory> pool;
  const auto sets = rotated(group, pool);
  if (!sets) return sets.error();
  const auto launches = [&](std::int64_t count) {
    return queue_.record([&]() -> Status {
      for (std::int64_t i = 0; i < count; ++i)
        if (const Status queued =
                queue_steps(queue_.stream(), group, (*sets)[static_cast<std::size_t>(i) % sets->size()]);
            !queued)
          return queued;
      return Done{};
    });
  };
  const auto replay = [&](const cuda::Recording& recording) {
    return queue_.elapsed([&] { return queue_.replay(recording); });
  };
  const auto few = launches(static_cast<std::int64_t>(sets->size()));
  if (!few) return few.error();
  double once = 0;
  for (int i = 0; i < 2; ++i) {  // the first loads the kernels
    const auto seconds = replay(*few);
    if (!seconds) return seconds.error();
    once = *seconds / static_cast<double>(sets->size());
  }
  const auto count = std::clamp(static_cast<std::int64_t>(std::ceil(replay_seconds / std::max(once, 1e-7))),
                                static_cast<std::int64_t>(sets->size()), most_launches);
  const auto recording = launches(count);
  if (!recording) return recording.error();
  std::vector<double> out;
  double warmed = 0;
  while (passes.more()) {
    const auto seconds = replay(*recording);
    if (!seconds) return seconds.error();
    if (warmed < warm_seconds) {
      warmed += *seconds + 1e-6;
      continue;
    }
    passes.add(*seconds + 1e-6);
    out.push_back(*seconds / static_cast<double>(count));
  }
  return out;
}

}  // namespace ridge

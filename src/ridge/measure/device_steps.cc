#include "ridge/measure/device_steps.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t cold_bytes = std::int64_t{256} << 20, line = 256;
constexpr std::int64_t most_sets = 64, most_launches = 256;
constexpr double replay_seconds = 2e-3, warm_seconds = 0.02;

std::int64_t padded(std::int64_t bytes) { return (bytes + line - 1) / line * line; }

// Returns the buffers that the steps use, in ascending order.
std::vector<int> used(const Plan& plan, std::optional<int> group) {
  std::set<int> all;
  for (const Step& step : plan.steps)
    if (!group || step.group == *group) all.insert(step.buffers.begin(), step.buffers.end());
  if (!group)
    for (std::size_t i = 0; i < plan.buffers.size(); ++i) all.insert(static_cast<int>(i));
  all.erase(-1);  // marks an operand that is absent
  return {all.begin(), all.end()};
}

}  // namespace

GeluSlack gelu_slack(const Plan& plan, int group) {
  for (const Step& step : plan.steps)
    if (const auto* fused = std::get_if<ops::FusedMatmul>(&step.kernel); fused && step.group == group)
      return {0x1p-22, fused->second ? std::exp2(-12.5) : 0, false};
  return {};
}

Result<DeviceSteps> DeviceSteps::made(Plan plan, const How& how, const std::vector<std::byte*>& lent) {
  auto queue = cuda::Queue::make();
  if (!queue) return queue.error();
  const std::vector<int> needed = used(plan, how.group);
  std::vector<cuda::Memory> memories;
  Places places;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    std::byte* const there = i < lent.size() ? lent[i] : nullptr;
    const bool here = there == nullptr && std::binary_search(needed.begin(), needed.end(), static_cast<int>(i));
    auto memory = cuda::Memory::make(here ? plan.buffers[i].bytes() : 0);
    if (!memory) return memory.error();
    memories.push_back(std::move(*memory));
    places.push_back(there != nullptr ? there : memories.back().data());
  }
  auto launches = DeviceLaunches::make(std::move(plan), places, how);
  if (!launches) return launches.error();
  DeviceSteps out(*std::move(launches), *std::move(queue), std::move(memories), std::move(places));
  if (const Status ready = out.prepare(); !ready) return ready.error();
  return out;
}

Result<DeviceSteps> DeviceSteps::make(Plan plan, const TuneOptions& tune, std::optional<int> group) {
  return made(std::move(plan), {.tune = tune, .group = group}, {});
}

Result<DeviceSteps> DeviceSteps::make_in(const std::vector<std::byte*>& lent, Plan plan, const How& how) {
  return made(std::move(plan), how, lent);
}

Status DeviceSteps::prepare() {
  const std::size_t bytes = std::max(cuda::counter_bytes, launches_.workspace_bytes());
  auto memory = cuda::Memory::make(static_cast<std::int64_t>(bytes));
  if (!memory) return memory.error();
  workspace_.push_back(std::move(*memory));
  if (const Status set = queue_.set(workspace_[0].data(), 0, static_cast<std::int64_t>(cuda::counter_bytes)); !set)
    return set;
  return count_up();
}

Status DeviceSteps::count_up() const {
  for (std::size_t i = 0; i < plan().buffers.size(); ++i) {
    const Buffer& buffer = plan().buffers[i];
    if (!buffer.counts || memory_[i].bytes() < buffer.bytes()) continue;
    const std::vector<float> counts = counts_of(buffer);
    for (const Status& done : {queue_.copy(places_[i], counts.data(), buffer.bytes()), queue_.wait()})
      if (!done) return done;
  }
  return Done{};
}

Status DeviceSteps::fill_normal() {
  for (std::size_t i = 0; i < plan().buffers.size(); ++i) {
    const Buffer& buffer = plan().buffers[i];
    if (buffer.counts || memory_[i].bytes() < buffer.bytes()) continue;  // not allocated: another kernel's
    // Integers are lengths: 1 in every byte gives at least 2^24, which means the full length.
    const bool is_whole = buffer.dtype == DType::int32;
    const Status done =
        is_whole ? queue_.set(places_[i], 1, buffer.bytes())
                 : queue_.fill_normal(places_[i], buffer.dtype, buffer.elements, static_cast<std::uint32_t>(i));
    if (!done) return done;
  }
  return Done{};
}

Status DeviceSteps::queue_steps(CUstream_st* stream, std::optional<int> group, const Places& places) const {
  const cuda::Workspace workspace{workspace_[0].data(), static_cast<std::size_t>(workspace_[0].bytes()), true};
  return launches_.queue(stream, places, workspace, group);
}

Status DeviceSteps::queue_all() const { return queue_steps(queue_.stream(), std::nullopt, places_); }

Status DeviceSteps::queue_on(const cuda::Queue& queue, std::optional<int> group) const {
  return queue_steps(queue.stream(), group, places_);
}

// Returns copies of the buffers that the steps use: as many as touch `cold_bytes`, or as fit.
Result<std::vector<DeviceSteps::Places>> DeviceSteps::rotated(std::optional<int> group,
                                                              std::vector<cuda::Memory>& pool) const {
  std::vector<Places> sets{places_};
  const std::vector<int> buffers = used(plan(), group);
  std::int64_t bytes = 0;
  for (const int b : buffers) bytes += padded(plan().buffers[static_cast<std::size_t>(b)].bytes());
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
      if (const Status copied = queue_.copy(at, places_[index], plan().buffers[index].bytes()); !copied)
        return copied.error();
      sets.back()[index] = at;
      at += padded(plan().buffers[index].bytes());
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
  for (int i = 0; i < 2; ++i) {  // the first replay loads the kernels
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

#include "ridge/plan/kernel_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "ridge/base/string_util.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/product/model.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/plan/kernel_list.h"

namespace ridge {
namespace {

using TickSpans = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Returns the intervals of the selected lanes and phases, merged where they overlap or touch.
TickSpans merge_spans(const Timeline& t, const std::vector<std::pair<std::int32_t, Phase>>& selected) {
  TickSpans all, out;
  for (const Event& e : t.events)
    for (const auto& [lane, phase] : selected)
      if (e.lane == lane && e.phase == phase) all.emplace_back(e.begin, e.end);
  std::sort(all.begin(), all.end());
  for (const auto& [begin, end] : all) {
    if (out.empty() || begin > out.back().second)
      out.emplace_back(begin, end);
    else
      out.back().second = std::max(out.back().second, end);
  }
  return out;
}

std::int64_t total_ticks(const TickSpans& spans) {
  std::int64_t sum = 0;
  for (const auto& [begin, end] : spans) sum += end - begin;
  return sum;
}

std::int64_t overlap_ticks(const TickSpans& a, const TickSpans& b) {
  std::int64_t sum = 0;
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    sum += std::max<std::int64_t>(0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
    a[i].second < b[j].second ? ++i : ++j;
  }
  return sum;
}

constexpr std::int64_t max_stages = 4096;

struct TimelineSource {
  std::int64_t stage_k = 0;  // extent of a stage along k, or along the keys
  std::function<Timeline(int tiles, int stages, double clock_hz)> make_timeline;
};

Result<TimelineSource> find_timeline_source(const KernelTimelineOptions& options) {
  const std::vector<KernelListEntry> kernels = list_kernels();
  const auto find_named = [&](const std::string& name) {
    return std::find_if(kernels.begin(), kernels.end(), [&](const KernelListEntry& e) { return e.name == name; });
  };
  // Attention kernels use the throughput model of a product's block.
  const ops::BlockThroughput throughput = ops::matmul_throughput(find_named(KernelTimelineOptions{}.kernel)->config);
  if (const auto backward = ops::cuda::find_backward_config(options.kernel))
    return TimelineSource{ops::cuda::rows_per_step(*backward), [=](int tiles, int stages, double clock_hz) {
                            return ops::cuda::attention_backward_timeline(*backward, tiles, stages, throughput,
                                                                          clock_hz);
                          }};
  if (const auto attention = ops::cuda::find_attention_config(options.kernel)) {
    return TimelineSource{ops::cuda::keys_per_step(*attention), [=](int tiles, int stages, double clock_hz) {
                            return ops::cuda::attention_timeline(*attention, tiles, stages, throughput, clock_hz);
                          }};
  }
  const auto found = find_named(options.kernel);
  if (found == kernels.end()) {
    std::vector<std::string> names;
    for (const KernelListEntry& e : kernels) names.push_back(e.name);
    for (int i = 0; i < ops::cuda::attention_config_count(); ++i) names.push_back(ops::cuda::attention_config_name(i));
    for (int i = 0; i < ops::cuda::attention_backward_config_count(); ++i)
      names.push_back(ops::cuda::backward_config_name(i));
    const std::string closest = find_nearest(options.kernel, names);
    return input_error(fmt::format("no kernel is called '{}'", options.kernel),
                       closest.empty() ? "ridge kernels lists them" : fmt::format("did you mean {}?", closest));
  }
  if (found->layouts != "kk")
    return input_error(fmt::format("'{}' reads an operand that is not contiguous along k: no timeline", found->name),
                       "choose the kernel of the same tile without the suffix");
  return TimelineSource{found->k, [config = found->config](int tiles, int stages, double clock_hz) {
                          return ops::matmul_timeline(config, tiles, stages, clock_hz);
                        }};
}

}  // namespace

Result<KernelTimeline> make_kernel_timeline(const KernelTimelineOptions& options) {
  RIDGE_TRY(source, find_timeline_source(options));
  if (options.k < 1 || options.k > max_stages * source.stage_k)
    return usage_error(fmt::format("expected K from 1 to {}, found {}", max_stages * source.stage_k, options.k));
  if (options.tiles < 1 || options.tiles > 64)
    return usage_error(fmt::format("expected 1 to 64 tiles, found {}", options.tiles));
  KernelTimeline out;
  out.kernel = options.kernel;
  out.k = options.k;
  out.tiles = options.tiles;
  out.stages = (options.k + source.stage_k - 1) / source.stage_k;
  RIDGE_TRY(machine, find_machine("h200"));
  RIDGE_TRY(device, device_numbers(machine));
  out.timeline = source.make_timeline(static_cast<int>(out.tiles), static_cast<int>(out.stages), device.clock_hz);
  out.total_cycles = out.timeline.end_tick();
  out.clock_hz = out.timeline.ticks_per_second;
  const TickSpans loads = merge_spans(out.timeline, {{0, Phase::load}}),
                  works = merge_spans(out.timeline, {{1, Phase::compute}}),
                  stores = merge_spans(out.timeline, {{2, Phase::store}}),
                  moves = merge_spans(out.timeline, {{0, Phase::load}, {2, Phase::store}});
  out.load_cycles = total_ticks(loads);
  out.compute_cycles = total_ticks(works);
  out.store_cycles = total_ticks(stores);
  out.overlapped_cycles = overlap_ticks(moves, works);
  return out;
}

}  // namespace ridge

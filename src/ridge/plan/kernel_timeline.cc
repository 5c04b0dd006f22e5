#include "ridge/plan/kernel_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "ridge/base/text.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/product/model.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/plan/menu_list.h"

namespace ridge {
namespace {

using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Returns the intervals of the selected lanes and phases, merged where they overlap or touch.
Spans spans_of(const Timeline& t, const std::vector<std::pair<std::int32_t, Phase>>& wanted) {
  Spans all, out;
  for (const Event& e : t.events)
    for (const auto& [lane, phase] : wanted)
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

std::int64_t total(const Spans& spans) {
  std::int64_t sum = 0;
  for (const auto& [begin, end] : spans) sum += end - begin;
  return sum;
}

std::int64_t common(const Spans& a, const Spans& b) {
  std::int64_t sum = 0;
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    sum += std::max<std::int64_t>(0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
    a[i].second < b[j].second ? ++i : ++j;
  }
  return sum;
}

constexpr std::int64_t most_stages = 4096;

struct Drawing {
  std::int64_t k = 0;  // extent of a stage along k, or along the keys
  std::function<Timeline(int tiles, int stages, double clock_hz)> timeline;
};

Result<Drawing> drawing_of(const KernelTimelineOptions& options) {
  const std::vector<MenuEntry> menu = menu_list();
  const auto named = [&](const std::string& name) {
    return std::find_if(menu.begin(), menu.end(), [&](const MenuEntry& e) { return e.name == name; });
  };
  // Attention kernels use the throughput model of a product's block.
  const ops::BlockPace pace = ops::matmul_pace(named(KernelTimelineOptions{}.kernel)->config);
  if (const auto backward = ops::cuda::backward_config_named(options.kernel))
    return Drawing{ops::cuda::rows_of_a_step(*backward), [=](int tiles, int stages, double clock_hz) {
                     return ops::cuda::attention_backward_timeline(*backward, tiles, stages, pace, clock_hz);
                   }};
  if (const auto attention = ops::cuda::config_named(options.kernel)) {
    return Drawing{ops::cuda::keys_of_a_step(*attention), [=](int tiles, int stages, double clock_hz) {
                     return ops::cuda::attention_timeline(*attention, tiles, stages, pace, clock_hz);
                   }};
  }
  const auto found = named(options.kernel);
  if (found == menu.end()) {
    std::vector<std::string> names;
    for (const MenuEntry& e : menu) names.push_back(e.name);
    for (int i = 0; i < ops::cuda::attention_configs(); ++i) names.push_back(ops::cuda::name_of(i));
    for (int i = 0; i < ops::cuda::attention_backward_configs(); ++i) names.push_back(ops::cuda::backward_name_of(i));
    const std::string near = nearest(options.kernel, names);
    return input_error(fmt::format("no kernel is called '{}'", options.kernel),
                       near.empty() ? "ridge kernels lists them" : fmt::format("did you mean {}?", near));
  }
  if (found->layouts != "kk")
    return input_error(fmt::format("'{}' reads an operand that is not contiguous along k: no timeline", found->name),
                       "choose the kernel of the same tile without the suffix");
  return Drawing{found->k, [config = found->config](int tiles, int stages, double clock_hz) {
                   return ops::matmul_timeline(config, tiles, stages, clock_hz);
                 }};
}

}  // namespace

Result<KernelTimeline> kernel_timeline(const KernelTimelineOptions& options) {
  const auto drawn = drawing_of(options);
  if (!drawn) return drawn.error();
  if (options.k < 1 || options.k > most_stages * drawn->k)
    return usage_error(fmt::format("expected K from 1 to {}, found {}", most_stages * drawn->k, options.k));
  if (options.tiles < 1 || options.tiles > 64)
    return usage_error(fmt::format("expected 1 to 64 tiles, found {}", options.tiles));
  KernelTimeline out;
  out.kernel = options.kernel;
  out.k = options.k;
  out.tiles = options.tiles;
  out.stages = (options.k + drawn->k - 1) / drawn->k;
  const auto machine = find_machine("h200");
  if (!machine) return machine.error();
  const auto device = device_numbers(*machine);
  if (!device) return device.error();
  out.timeline = drawn->timeline(static_cast<int>(out.tiles), static_cast<int>(out.stages), device->clock_hz);
  out.cycles = out.timeline.end();
  out.clock_hz = out.timeline.ticks_per_second;
  const Spans loads = spans_of(out.timeline, {{0, Phase::load}}), works = spans_of(out.timeline, {{1, Phase::compute}}),
              stores = spans_of(out.timeline, {{2, Phase::store}}),
              moves = spans_of(out.timeline, {{0, Phase::load}, {2, Phase::store}});
  out.load = total(loads);
  out.compute = total(works);
  out.store = total(stores);
  out.hidden_loads = common(moves, works);
  return out;
}

}  // namespace ridge

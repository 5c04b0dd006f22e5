#include "ridge/plan/kernel_timeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/text.h"
#include "ridge/ops/product/model.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/plan/menu_list.h"

namespace ridge {
namespace {

using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;

// A lane's work, joined where it touches.
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

}  // namespace

Result<KernelTimeline> kernel_timeline(const KernelTimelineOptions& options) {
  const std::vector<MenuEntry> menu = menu_list();
  const auto found =
      std::find_if(menu.begin(), menu.end(), [&](const MenuEntry& e) { return e.name == options.kernel; });
  if (found == menu.end()) {
    std::vector<std::string> names;
    for (const MenuEntry& e : menu) names.push_back(e.name);
    const std::string near = nearest(options.kernel, names);
    return input_error(fmt::format("no kernel is called '{}'", options.kernel),
                       near.empty() ? "ridge kernels lists them" : fmt::format("did you mean {}?", near));
  }
  if (found->layouts != "kk")
    return input_error(fmt::format("'{}' reads an operand that does not lie along k, which is not drawn", found->name),
                       "the same tile without the ending is");
  if (options.k < 1 || options.k > std::int64_t{4096} * found->k)
    return usage_error(fmt::format("expected K from 1 to {}, found {}", 4096 * found->k, options.k));
  if (options.tiles < 1 || options.tiles > 64)
    return usage_error(fmt::format("expected 1 to 64 tiles, found {}", options.tiles));
  KernelTimeline out;
  out.kernel = found->name;
  out.k = options.k;
  out.tiles = options.tiles;
  out.stages = (options.k + found->k - 1) / found->k;
  const auto machine = find_machine("h200");
  if (!machine) return machine.error();
  const auto device = device_numbers(*machine);
  if (!device) return device.error();
  out.timeline = ops::matmul_timeline(found->config, static_cast<int>(options.tiles), static_cast<int>(out.stages),
                                      device->clock_hz);
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

#include "ridge/simulate/call_overhead.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ridge {
namespace {

constexpr std::array<CallMode, 3> call_modes{CallMode::kernel_by_kernel, CallMode::fused, CallMode::looped};
constexpr double nanosecond = 1e-9;

Status check_step(const LayeredStep& step, const LayeredMachine& machine) {
  for (const auto& [what, value, min_value] : {std::tuple{"layers", step.layers, std::int64_t{1}},
                                               {"kernels a layer", step.kernels_per_layer, 1},
                                               {"other calls", step.other_calls, 0}})
    if (value < min_value || value > std::int64_t{1} << 31)
      return input_error(fmt::format("expected {} between {} and 2^31, found {}", what, min_value, value));
  for (const auto& [what, value] : {std::pair{"bytes of a layer", step.layer_bytes},
                                    {"FLOPs of a layer", step.layer_flops},
                                    {"intermediate bytes", step.intermediate_bytes},
                                    {"other bytes", step.other_bytes},
                                    {"other FLOPs", step.other_flops},
                                    {"seconds of synchronisation", machine.sync_seconds}})
    if (!(value >= 0) || !std::isfinite(value))
      return input_error(fmt::format("expected {} of at least 0, found {}", what, value));
  for (const auto& [what, value] :
       {std::pair{"bandwidth", machine.bytes_per_second}, {"peak", machine.flops_per_second}})
    if (!(value > 0) || !std::isfinite(value))
      return input_error(fmt::format("expected a {} above 0, found {}", what, value));
  if (step.layer_bytes + step.other_bytes <= 0) return input_error("expected a step that moves bytes, found none");
  return Done{};
}

CallModeCost estimate_cost(const LayeredStep& step, const LayeredMachine& machine, CallMode mode) {
  CallModeCost cost;
  cost.mode = mode;
  const double layers = static_cast<double>(step.layers);
  // Number of times that intermediates go through memory; inside a call they stay on the chip.
  std::int64_t boundaries = 0;
  switch (mode) {
    case CallMode::kernel_by_kernel:
      cost.calls = step.layers * step.kernels_per_layer;
      boundaries = cost.calls;
      break;
    case CallMode::fused: cost.calls = boundaries = step.layers; break;
    case CallMode::looped: cost.calls = boundaries = 1; break;
  }
  cost.calls += step.other_calls;
  cost.bytes =
      layers * step.layer_bytes + step.other_bytes + 2 * step.intermediate_bytes * static_cast<double>(boundaries);
  cost.sync_seconds = static_cast<double>(cost.calls) * machine.sync_seconds;
  cost.work_seconds = std::max(cost.bytes / machine.bytes_per_second,
                               (layers * step.layer_flops + step.other_flops) / machine.flops_per_second);
  cost.seconds = cost.sync_seconds + cost.work_seconds;
  cost.bandwidth_fraction = cost.bytes / machine.bytes_per_second / cost.seconds;
  return cost;
}

}  // namespace

std::string_view call_mode_name(CallMode mode) {
  constexpr std::array<std::string_view, 3> names{"kernel by kernel", "fused", "looped"};
  return names[static_cast<std::size_t>(mode)];
}

Result<CallModeReport> compare_call_modes(const LayeredStep& step, const LayeredMachine& machine) {
  RIDGE_TRY_STATUS(check_step(step, machine));
  CallModeReport report;
  for (const CallMode c : call_modes) report.costs[static_cast<std::size_t>(c)] = estimate_cost(step, machine, c);
  return report;
}

Result<std::vector<CallModeReport>> sweep_call_overhead(const LayeredStep& step, const LayeredMachine& machine,
                                                        std::span<const double> sync_seconds) {
  std::vector<CallModeReport> sweep;
  for (const double sync : sync_seconds) {
    LayeredMachine swept = machine;
    swept.sync_seconds = sync;
    RIDGE_TRY(report, compare_call_modes(step, swept));
    sweep.push_back(report);
  }
  return sweep;
}

Result<double> call_overhead_for_speedup(const LayeredStep& step, const LayeredMachine& machine,
                                         const Speedup& speedup) {
  RIDGE_TRY_STATUS(check_step(step, machine));
  const CallModeCost from = estimate_cost(step, machine, speedup.from), to = estimate_cost(step, machine, speedup.to);
  // from.calls·t + from.work = ratio·(to.calls·t + to.work)
  const double extra_calls = static_cast<double>(from.calls) - speedup.ratio * static_cast<double>(to.calls);
  const double missing_seconds = speedup.ratio * to.work_seconds - from.work_seconds;
  const double sync = missing_seconds / extra_calls;
  if (!(sync >= 0) || !std::isfinite(sync))
    return input_error(
        fmt::format("no time per call makes {} calls {:.4g} times as fast as {} calls: from {:.4g} without "
                    "synchronisation to at most {:.4g}",
                    to.calls, speedup.ratio, from.calls, from.work_seconds / to.work_seconds,
                    static_cast<double>(from.calls) / static_cast<double>(to.calls)));
  return sync;
}

Result<double> call_overhead_for_bandwidth(const LayeredStep& step, const LayeredMachine& machine, CallMode mode,
                                           double fraction) {
  RIDGE_TRY_STATUS(check_step(step, machine));
  const CallModeCost cost = estimate_cost(step, machine, mode);
  const double sync =
      (cost.bytes / machine.bytes_per_second / fraction - cost.work_seconds) / static_cast<double>(cost.calls);
  if (!(fraction > 0) || !(sync >= 0))
    return input_error(
        fmt::format("no time per call gives {} {:.4g} of the bandwidth: expected above 0 and at most {:.4g}",
                    call_mode_name(mode), fraction, cost.bytes / machine.bytes_per_second / cost.work_seconds));
  return sync;
}

std::vector<ImpliedCallOverhead> implied_call_overheads(const LayeredStep& step, const LayeredMachine& machine) {
  constexpr std::string_view paper = "kernel looping, arXiv 2410.23668, abstract";
  const auto make_implied = [&](std::string_view figure, const Result<double>& sync) {
    return sync ? ImpliedCallOverhead{figure, paper, *sync, ""}
                : ImpliedCallOverhead{figure, paper, std::nullopt, sync.error().message};
  };
  return {make_implied("looped 2.2 times as fast as fused (SN40L)",
                       call_overhead_for_speedup(step, machine, {.ratio = 2.2})),
          make_implied("looped at 90 % of the bandwidth (8 and 16 SN40L)",
                       call_overhead_for_bandwidth(step, machine, CallMode::looped, 0.9)),
          make_implied("kernel by kernel at 21 % of the bandwidth (GPUs)",
                       call_overhead_for_bandwidth(step, machine, CallMode::kernel_by_kernel, 0.21))};
}

Result<std::vector<double>> parse_sync_seconds(std::string_view text) {
  const Error bad = usage_error(fmt::format("expected seconds of at least 0 after --sync, found '{}'", text),
                                "--sync 5e-6, --sync 0,1e-6,1e-5 or --sync 1e-7..1e-4:*10");
  const auto number = [](std::string_view word, double& out) {
    const auto [stopped, failed] = std::from_chars(word.data(), word.data() + word.size(), out);
    return failed == std::errc() && stopped == word.data() + word.size() && out >= 0 && out < 1e6;
  };
  constexpr std::size_t max_values = 1000;
  std::vector<double> out;
  double value = 0;
  if (const std::size_t dots = text.find(".."); dots != std::string_view::npos) {
    const std::size_t colon = text.find(":*", dots);
    double last = 0, factor = 10;
    const bool stepped = colon != std::string_view::npos;
    if (!number(text.substr(0, dots), value) || !number(text.substr(dots + 2, colon - dots - 2), last) ||
        (stepped && !number(text.substr(colon + 2), factor)) || !(value > 0) || last < value || factor < 1.001)
      return bad;
    for (; value <= last * (1 + 1e-9) && out.size() < max_values; value *= factor) out.push_back(value);
    return out;
  }
  for (std::size_t begin = 0; begin <= text.size() && out.size() < max_values;) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (!number(text.substr(begin, end - begin), value)) return bad;
    out.push_back(value);
    begin = end + 1;
  }
  return out;
}

Result<Metapipe> make_looped_pipe(const LayeredStep& step, const LayeredMachine& machine) {
  RIDGE_TRY_STATUS(check_step(step, machine));
  const auto ticks = [](double seconds) {
    return static_cast<std::int64_t>(std::ceil(std::min(seconds / nanosecond, 1e15)));
  };
  Metapipe pipe;
  pipe.name = "layers";
  pipe.iterations = step.layers;
  PipeStage load, use;
  load.name = "weights";
  load.phase = Phase::load;
  load.depth = ticks(step.layer_bytes / machine.bytes_per_second);
  use.name = "layer";
  use.depth = ticks(step.layer_flops / machine.flops_per_second);
  pipe.stages = {load, use};
  pipe.overhead = ticks(machine.sync_seconds);
  RIDGE_TRY_STATUS(check_metapipe(pipe));
  return pipe;
}

std::string CallModeReport::to_text() const {
  std::string out = fmt::format("{:<16} {:>8} {:>12} {:>12} {:>12} {:>12} {:>10}\n", "", "calls", "bytes", "sync s",
                                "work s", "seconds", "bandwidth");
  for (const CallModeCost& c : costs)
    out += fmt::format("{:<16} {:>8} {:>12.4g} {:>12.4g} {:>12.4g} {:>12.4g} {:>8.1f} %\n", call_mode_name(c.mode),
                       c.calls, c.bytes, c.sync_seconds, c.work_seconds, c.seconds, 100 * c.bandwidth_fraction);
  return out;
}

}  // namespace ridge

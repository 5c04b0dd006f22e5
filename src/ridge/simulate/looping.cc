#include "ridge/simulate/looping.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ridge {
namespace {

constexpr std::array<Calling, 3> callings{Calling::kernel_by_kernel, Calling::fused, Calling::looped};
constexpr double nanosecond = 1e-9;

Status check_step(const LayeredStep& step, const LayeredMachine& machine) {
  for (const auto& [what, value, least] : {std::tuple{"layers", step.layers, std::int64_t{1}},
                                           {"kernels a layer", step.kernels_per_layer, 1},
                                           {"other calls", step.other_calls, 0}})
    if (value < least || value > std::int64_t{1} << 31)
      return input_error(fmt::format("expected {} between {} and 2^31, found {}", what, least, value));
  for (const auto& [what, value] : {std::pair{"bytes of a layer", step.layer_bytes},
                                    {"FLOPs of a layer", step.layer_flops},
                                    {"bytes handed on", step.handed_on_bytes},
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

CallingCost cost_of(const LayeredStep& step, const LayeredMachine& machine, Calling calling) {
  CallingCost cost;
  cost.calling = calling;
  const double layers = static_cast<double>(step.layers);
  // Between the kernels of a layer, then between layers; inside a call it stays on the chip.
  std::int64_t boundaries = 0;
  switch (calling) {
    case Calling::kernel_by_kernel:
      cost.calls = step.layers * step.kernels_per_layer;
      boundaries = cost.calls;
      break;
    case Calling::fused: cost.calls = boundaries = step.layers; break;
    case Calling::looped: cost.calls = boundaries = 1; break;
  }
  cost.calls += step.other_calls;
  cost.bytes =
      layers * step.layer_bytes + step.other_bytes + 2 * step.handed_on_bytes * static_cast<double>(boundaries);
  cost.sync_seconds = static_cast<double>(cost.calls) * machine.sync_seconds;
  cost.work_seconds = std::max(cost.bytes / machine.bytes_per_second,
                               (layers * step.layer_flops + step.other_flops) / machine.flops_per_second);
  cost.seconds = cost.sync_seconds + cost.work_seconds;
  cost.bandwidth_fraction = cost.bytes / machine.bytes_per_second / cost.seconds;
  return cost;
}

}  // namespace

std::string_view name(Calling calling) {
  constexpr std::array<std::string_view, 3> names{"kernel by kernel", "fused", "looped"};
  return names[static_cast<std::size_t>(calling)];
}

Result<CallingReport> compare_calling(const LayeredStep& step, const LayeredMachine& machine) {
  if (const Status status = check_step(step, machine); !status) return status.error();
  CallingReport report;
  for (const Calling c : callings) report.costs[static_cast<std::size_t>(c)] = cost_of(step, machine, c);
  return report;
}

Result<std::vector<CallingReport>> sync_sweep(const LayeredStep& step, const LayeredMachine& machine,
                                              std::span<const double> sync_seconds) {
  std::vector<CallingReport> sweep;
  for (const double sync : sync_seconds) {
    LayeredMachine at = machine;
    at.sync_seconds = sync;
    Result<CallingReport> report = compare_calling(step, at);
    if (!report) return report.error();
    sweep.push_back(*report);
  }
  return sweep;
}

Result<double> sync_for_speedup(const LayeredStep& step, const LayeredMachine& machine, const Speedup& speedup) {
  if (const Status status = check_step(step, machine); !status) return status.error();
  const CallingCost from = cost_of(step, machine, speedup.from), to = cost_of(step, machine, speedup.to);
  // from.calls·t + from.work = ratio·(to.calls·t + to.work)
  const double extra_calls = static_cast<double>(from.calls) - speedup.ratio * static_cast<double>(to.calls);
  const double missing = speedup.ratio * to.work_seconds - from.work_seconds;
  const double sync = missing / extra_calls;
  if (!(sync >= 0) || !std::isfinite(sync))
    return input_error(
        fmt::format("no time per call makes {} calls {:.4g} times as fast as {} calls: from {:.4g} without "
                    "synchronisation to at most {:.4g}",
                    to.calls, speedup.ratio, from.calls, from.work_seconds / to.work_seconds,
                    static_cast<double>(from.calls) / static_cast<double>(to.calls)));
  return sync;
}

Result<double> sync_for_bandwidth(const LayeredStep& step, const LayeredMachine& machine, Calling calling,
                                  double fraction) {
  if (const Status status = check_step(step, machine); !status) return status.error();
  const CallingCost cost = cost_of(step, machine, calling);
  const double sync =
      (cost.bytes / machine.bytes_per_second / fraction - cost.work_seconds) / static_cast<double>(cost.calls);
  if (!(fraction > 0) || !(sync >= 0))
    return input_error(
        fmt::format("no time per call gives {} {:.4g} of the bandwidth: expected above 0 and at most {:.4g}",
                    name(calling), fraction, cost.bytes / machine.bytes_per_second / cost.work_seconds));
  return sync;
}

std::vector<ImpliedSync> implied_syncs(const LayeredStep& step, const LayeredMachine& machine) {
  constexpr std::string_view paper = "kernel looping, arXiv 2410.23668, abstract";
  const auto implied = [&](std::string_view figure, const Result<double>& sync) {
    return sync ? ImpliedSync{figure, paper, *sync, ""}
                : ImpliedSync{figure, paper, std::nullopt, sync.error().message};
  };
  return {implied("looped 2.2 times as fast as fused (SN40L)", sync_for_speedup(step, machine, {.ratio = 2.2})),
          implied("looped at 90 % of the bandwidth (8 and 16 SN40L)",
                  sync_for_bandwidth(step, machine, Calling::looped, 0.9)),
          implied("kernel by kernel at 21 % of the bandwidth (GPUs)",
                  sync_for_bandwidth(step, machine, Calling::kernel_by_kernel, 0.21))};
}

Result<std::vector<double>> parse_syncs(std::string_view text) {
  const Error bad = usage_error(fmt::format("expected seconds of at least 0 after --sync, found '{}'", text),
                                "--sync 5e-6, --sync 0,1e-6,1e-5 or --sync 1e-7..1e-4:*10");
  const auto number = [](std::string_view word, double& out) {
    const auto [stopped, failed] = std::from_chars(word.data(), word.data() + word.size(), out);
    return failed == std::errc() && stopped == word.data() + word.size() && out >= 0 && out < 1e6;
  };
  constexpr std::size_t most = 1000;
  std::vector<double> out;
  double value = 0;
  if (const std::size_t dots = text.find(".."); dots != std::string_view::npos) {
    const std::size_t colon = text.find(":*", dots);
    double last = 0, factor = 10;
    const bool stepped = colon != std::string_view::npos;
    if (!number(text.substr(0, dots), value) || !number(text.substr(dots + 2, colon - dots - 2), last) ||
        (stepped && !number(text.substr(colon + 2), factor)) || !(value > 0) || last < value || factor < 1.001)
      return bad;
    for (; value <= last * (1 + 1e-9) && out.size() < most; value *= factor) out.push_back(value);
    return out;
  }
  for (std::size_t begin = 0; begin <= text.size() && out.size() < most;) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (!number(text.substr(begin, end - begin), value)) return bad;
    out.push_back(value);
    begin = end + 1;
  }
  return out;
}

Result<Metapipe> looped_pipe(const LayeredStep& step, const LayeredMachine& machine) {
  if (const Status status = check_step(step, machine); !status) return status.error();
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
  if (const Status status = check_metapipe(pipe); !status) return status.error();
  return pipe;
}

std::string CallingReport::text() const {
  std::string out = fmt::format("{:<16} {:>8} {:>12} {:>12} {:>12} {:>12} {:>10}\n", "", "calls", "bytes", "sync s",
                                "work s", "seconds", "bandwidth");
  for (const CallingCost& c : costs)
    out += fmt::format("{:<16} {:>8} {:>12.4g} {:>12.4g} {:>12.4g} {:>12.4g} {:>8.1f} %\n", name(c.calling), c.calls,
                       c.bytes, c.sync_seconds, c.work_seconds, c.seconds, 100 * c.bandwidth_fraction);
  return out;
}

LayeredStep llama_8b_decode(std::int64_t context) {
  constexpr double bf16 = 2, width = 4096, vocabulary = 128256, layer_parameters = 218'112'000;
  constexpr double cache_per_position = 2 * 8 * 128 * bf16;  // K and V, 8 heads of 128
  const double positions = static_cast<double>(context);
  LayeredStep step;
  step.layers = 32;
  step.kernels_per_layer = 10;
  step.layer_bytes = layer_parameters * bf16 + cache_per_position * positions;
  step.layer_flops = 2 * layer_parameters + 4 * width * positions;
  step.handed_on_bytes = width * bf16;
  step.other_calls = 2;
  step.other_bytes = 2 * vocabulary * width * bf16;
  step.other_flops = 2 * vocabulary * width;
  return step;
}

}  // namespace ridge

// Times of the launch modes (kernel by kernel, fused, looped) for each cost of a call.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/simulate/simulate.h"
#include "ridge/report/svg/curves.h"
#include "ridge/report/table.h"

namespace ridge {
namespace {

constexpr std::array<CallMode, 3> call_modes{CallMode::kernel_by_kernel, CallMode::fused, CallMode::looped};
constexpr std::string_view no_published_time =
    "no time per call is published for these chips: --sync sets one or several\n";

std::string percent_text(double fraction) { return format_significant(100 * fraction, 3) + " %"; }
// Returns "-" if the mode does not fit on the chip.
std::string mode_time_text(const CallModeCost& c, double seconds) {
  return c.is_possible ? format_with_prefix(seconds, "s") : "-";
}
double sync_seconds_per_call(const CallModeReport& r) {
  return r.costs[0].calls > 0 ? r.costs[0].sync_seconds / static_cast<double>(r.costs[0].calls) : 0;
}

std::string looped_speedup_text(const CallModeReport& r, CallMode from) {
  const bool known = r.cost_of(from).is_possible && r.cost_of(CallMode::looped).is_possible;
  return known ? format_significant(r.speedup_over(from, CallMode::looped), 3) + " x" : "-";
}

}  // namespace

std::string call_modes_text(std::span<const CallModeReport> sweep, std::string_view first_header,
                            const TextStyle& style) {
  std::vector<std::vector<std::string>> rows{
      {std::string(first_header), "calls", "bytes", "call time", "time", "bandwidth"}};
  if (sweep.size() == 1) {
    for (const CallModeCost& c : sweep[0].costs)
      rows.push_back({std::string(call_mode_name(c.mode)), std::to_string(c.calls), format_with_prefix(c.bytes, "B"),
                      format_with_prefix(c.sync_seconds, "s"), mode_time_text(c, c.seconds),
                      c.is_possible ? percent_text(c.bandwidth_fraction) : "does not fit"});
    return text_table(rows, {{false, true, true, true, true, true}}, style);
  }
  std::string out;
  rows = {{std::string(first_header), "calls", "bytes", "work"}};
  for (const CallModeCost& c : sweep[0].costs)
    rows.push_back({std::string(call_mode_name(c.mode)), std::to_string(c.calls), format_with_prefix(c.bytes, "B"),
                    mode_time_text(c, c.work_seconds)});
  out += text_table(rows, {{false, true, true, true}}, style) + "\n";
  rows = {{"per call", "kernel by kernel", "fused", "looped", "speedup", "over fused", "bandwidth, looped"}};
  for (const CallModeReport& r : sweep)
    rows.push_back({format_with_prefix(sync_seconds_per_call(r), "s"), mode_time_text(r.costs[0], r.costs[0].seconds),
                    mode_time_text(r.costs[1], r.costs[1].seconds), mode_time_text(r.costs[2], r.costs[2].seconds),
                    looped_speedup_text(r, CallMode::kernel_by_kernel), looped_speedup_text(r, CallMode::fused),
                    r.costs[2].is_possible ? percent_text(r.costs[2].bandwidth_fraction) : "-"});
  return out + text_table(rows, {{true, true, true, true, true, true, true}}, style);
}

std::string render_text(const DecodeReport& d, const TextStyle& style) {
  std::string out = fmt::format("{}, one token after {}, bf16, on {} {}\n", d.model, d.context, d.chips, d.machine);
  out += fmt::format("{} and {} a token; {}, {}\n\n", format_with_prefix(d.bytes, "B"),
                     format_with_prefix(d.flops, "FLOP"), format_with_prefix(d.rates.bytes_per_second, "B/s"),
                     format_with_prefix(d.rates.flops_per_second, "FLOP/s"));
  out += call_modes_text(d.call_reports, "", style);
  if (!d.implied_overheads.empty()) {
    std::vector<std::vector<std::string>> rows{{"published", "implied time per call"}};
    for (const ImpliedCallOverhead& i : d.implied_overheads)
      rows.push_back({std::string(i.figure), i.seconds ? format_with_prefix(*i.seconds, "s") : "nothing here"});
    out += "\n" + text_table(rows, {.right = {false, true}, .is_in_csv = false}, style) + "from " +
           std::string(d.implied_overheads.front().source) + ", if synchronisation is the only overhead\n";
  }
  return out + std::string(no_published_time);
}

std::string render_json(const DecodeReport& d) {
  Json out{{"schema", "ridge.simulate/1"},
           {"verb", "simulate decode"},
           {"model", d.model},
           {"machine", d.machine},
           {"chips", d.chips},
           {"context", d.context},
           {"bytes", d.bytes},
           {"flops", d.flops},
           {"calling", Json::array()},
           {"implied", Json::array()}};
  for (const CallModeReport& r : d.call_reports)
    for (const CallModeCost& c : r.costs)
      out["calling"].push_back({{"call_s", sync_seconds_per_call(r)},
                                {"name", call_mode_name(c.mode)},
                                {"calls", c.calls},
                                {"bytes", c.bytes},
                                {"sync_s", c.sync_seconds},
                                {"time_s", c.seconds},
                                {"bandwidth_fraction", c.bandwidth_fraction}});
  for (const ImpliedCallOverhead& i : d.implied_overheads)
    out["implied"].push_back(
        {{"figure", i.figure}, {"source", i.source}, {"call_s", or_null(i.seconds)}, {"why", or_null(i.why_not)}});
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

struct PlotRange {
  double min_call_s = HUGE_VAL, max_call_s = 0;  // seconds per call, without calls that take no time
  double min_s = HUGE_VAL, max_s = 0;            // seconds of all calls
};

PlotRange find_plot_range(std::span<const CallModeReport> sweep) {
  PlotRange out;
  for (const CallModeReport& r : sweep) {
    if (sync_seconds_per_call(r) > 0) {
      out.min_call_s = std::min(out.min_call_s, sync_seconds_per_call(r));
      out.max_call_s = std::max(out.max_call_s, sync_seconds_per_call(r));
    }
    for (const CallModeCost& c : r.costs) {
      if (!c.is_possible) continue;
      out.min_s = std::min(out.min_s, c.seconds);
      out.max_s = std::max(out.max_s, c.seconds);
    }
  }
  return out;
}

// Returns the curve of a mode. Its time is linear in the time per call, which the logarithmic axes bend.
std::vector<PicturePoint> mode_curve(std::span<const CallModeReport> sweep, std::size_t mode, const LogScale& x,
                                     const LogScale& y) {
  constexpr int steps = 16;  // between two swept times per call
  std::vector<PicturePoint> out;
  const CallModeReport* before = nullptr;
  for (const CallModeReport& r : sweep) {
    const double call_s = sync_seconds_per_call(r), seconds = r.costs[mode].seconds;
    if (call_s <= 0) continue;
    const double first = before ? sync_seconds_per_call(*before) : call_s;
    for (int i = 1; first != call_s && i < steps; ++i) {
      const double first_s = before->costs[mode].seconds;
      const double at = first * std::pow(call_s / first, static_cast<double>(i) / steps);
      out.push_back({x.position(at), y.position(first_s + (seconds - first_s) * (at - first) / (call_s - first))});
    }
    out.push_back({x.position(call_s), y.position(seconds)});
    before = &r;
  }
  return out;
}

}  // namespace

std::string call_modes_svg(std::span<const CallModeReport> sweep, std::string_view title, std::string_view subtitle) {
  constexpr double width = 960, height = 480;
  const PictureBox plot{84, 66, width - 190, height - 60};
  const PlotRange range = find_plot_range(sweep);
  std::string out = svg_head(width, height) + fmt::format("<title>{}</title>\n", escape_xml(title)) + curve_styles() +
                    draw_box("back", {0, 0, width, height}) + draw_text("title", {plot.left, 28}, title) +
                    draw_text("soft", {plot.left, 48}, subtitle);
  if (range.max_call_s <= range.min_call_s || range.min_s <= 0)
    return out +
           draw_text("soft", {plot.left, 90}, "expected at least two times per call above 0: --sync 1e-7..1e-4:*10") +
           "</svg>\n";
  const LogScale x{std::log10(range.min_call_s), std::log10(range.max_call_s), plot.left, plot.right};
  const LogScale y{std::log10(range.min_s / 1.2), std::log10(range.max_s * 1.2), plot.bottom, plot.top};
  out += draw_grid(plot, x, y, {"time per call (s)", "time (s)"});
  double label_y = -HUGE_VAL;
  for (const CallMode mode : call_modes) {
    const std::size_t i = static_cast<std::size_t>(mode);
    if (!sweep[0].costs[i].is_possible) continue;
    const std::vector<PicturePoint> points = mode_curve(sweep, i, x, y);
    out += draw_polyline(i, points);
    label_y = std::max(points.back().y + 4, label_y + 16);
    out += draw_text(fmt::format("n{}", i), {plot.right + 8, label_y},
                     fmt::format("{}, {} calls", call_mode_name(mode), sweep[0].costs[i].calls));
  }
  return out + "</svg>\n";
}

std::string render_svg(const DecodeReport& d) {
  return call_modes_svg(d.call_reports, fmt::format("A token of {} on {} {}", d.model, d.chips, d.machine),
                        "kernel by kernel, fused, and all layers looped in one call; no time per call is published");
}

}  // namespace ridge

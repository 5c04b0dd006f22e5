// Times of the launch modes (kernel by kernel, fused, looped) for each cost of a call.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/simulate/simulate.h"
#include "ridge/report/svg/drawing.h"
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

constexpr std::string_view call_mode_styles = R"(<style>
text{font-family:system-ui,"Segoe UI","DejaVu Sans",sans-serif;font-size:12px;fill:#1f2328}
.title{font-size:15px;font-weight:600}
.soft{fill:#57606a}
.back{fill:#ffffff}
.grid{stroke:#d0d7de}
.curve{fill:none;stroke-width:2.5;stroke-linejoin:round}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.back{fill:#0d1117}.grid{stroke:#30363d}}
</style>
)";

struct LogAxis {  // Maps values from low to high, logarithmically, to pixels
  double low = 1, high = 10, from = 0, to = 1;
  double position(double value) const { return from + std::log(value / low) / std::log(high / low) * (to - from); }
  std::vector<double> decade_values() const {
    std::vector<double> out;
    for (double v = std::pow(10, std::ceil(std::log10(low) - 1e-9)); v <= high * (1 + 1e-9); v *= 10) out.push_back(v);
    return out;
  }
};

std::string short_seconds(double value) {
  std::string text = format_with_prefix(value, "s");
  const std::size_t space = text.find(' ');
  return format_significant(std::stod(text.substr(0, space)), 3) + text.substr(space);
}

std::string draw_grid(const LogAxis& x, const LogAxis& y) {
  std::string out;
  for (const double v : x.decade_values())
    out += draw_line("grid", {x.position(v), y.to}, {x.position(v), y.from}) +
           draw_text("soft", {x.position(v), y.from + 18}, short_seconds(v), " text-anchor=\"middle\"");
  for (const double v : y.decade_values())
    out += draw_line("grid", {x.from, y.position(v)}, {x.to, y.position(v)}) +
           draw_text("soft", {x.from - 8, y.position(v) + 4}, short_seconds(v), " text-anchor=\"end\"");
  return out;
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
  std::string out = fmt::format("Llama-3.1-8B, one token after {}, bf16, on {} {}\n", d.context, d.chips, d.machine);
  out += fmt::format("{} and {} a token; {}, {}\n\n", format_with_prefix(d.bytes, "B"),
                     format_with_prefix(d.flops, "FLOP"), format_with_prefix(d.rates.bytes_per_second, "B/s"),
                     format_with_prefix(d.rates.flops_per_second, "FLOP/s"));
  out += call_modes_text(d.call_reports, "", style);
  std::vector<std::vector<std::string>> rows{{"published", "implied time per call"}};
  for (const ImpliedCallOverhead& i : d.implied_overheads)
    rows.push_back({std::string(i.figure), i.seconds ? format_with_prefix(*i.seconds, "s") : "nothing here"});
  return out + "\n" + text_table(rows, {.right = {false, true}, .is_in_csv = false}, style) + "from " +
         std::string(d.implied_overheads.front().source) + ", if synchronisation is the only overhead\n" +
         std::string(no_published_time);
}

std::string render_json(const DecodeReport& d) {
  Json out{{"schema", "ridge.simulate/1"},
           {"verb", "simulate decode"},
           {"model", "Llama-3.1-8B"},
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

}  // namespace

std::string call_modes_svg(std::span<const CallModeReport> sweep, std::string_view title, std::string_view subtitle) {
  constexpr std::array<std::string_view, 3> colours{"#d55e00", "#0072b2", "#009e73"};
  constexpr double width = 960, height = 480;
  const PlotRange range = find_plot_range(sweep);
  std::string out = svg_head(width, height);
  out += fmt::format("<title>{2}</title>\n{3}<rect class=\"back\" width=\"{0}\" height=\"{1}\"/>\n", width, height,
                     escape_xml(title), call_mode_styles);
  out += draw_text("title", {24, 28}, title) + draw_text("soft", {24, 48}, subtitle);
  if (range.max_call_s <= range.min_call_s || range.min_s <= 0)
    return out + draw_text("soft", {24, 90}, "expected at least two times per call above 0: --sync 1e-7..1e-4:*10") +
           "</svg>\n";
  const LogAxis x{range.min_call_s, range.max_call_s, 90, width - 170},
      y{range.min_s / 1.2, range.max_s * 1.2, height - 70, 70};
  out += draw_grid(x, y) +
         draw_text("soft", {(x.from + x.to) / 2, height - 24}, "time per call", " text-anchor=\"middle\"") +
         draw_text("soft", {24, 66}, "time");
  double label_y = -HUGE_VAL;
  for (const CallMode mode : call_modes) {
    const std::size_t i = static_cast<std::size_t>(mode);
    if (!sweep[0].costs[i].is_possible) continue;
    std::string points;
    double end = 0;
    for (const CallModeReport& r : sweep)
      if (sync_seconds_per_call(r) > 0) {
        end = y.position(r.costs[i].seconds);
        points += fmt::format("{:.1f},{:.1f} ", x.position(sync_seconds_per_call(r)), end);
      }
    out += fmt::format("<polyline class=\"curve\" stroke=\"{}\" points=\"{}\"/>\n", colours[i], points);
    label_y = std::max(end + 4, label_y + 16);
    out += draw_text("name", {x.to + 8, label_y},
                     fmt::format("{}, {} calls", call_mode_name(mode), sweep[0].costs[i].calls),
                     fmt::format(" style=\"fill:{}\"", colours[i]));
  }
  return out + "</svg>\n";
}

std::string render_svg(const DecodeReport& d) {
  return call_modes_svg(d.call_reports, fmt::format("A token of Llama-3.1-8B on {} {}", d.chips, d.machine),
                        "kernel by kernel, fused, and all layers looped in one call; no time per call is published");
}

}  // namespace ridge

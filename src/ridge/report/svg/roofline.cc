#include "ridge/report/svg/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/machine/keys.h"
#include "ridge/report/parts/used_peaks.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

double bandwidth_of(const Explanation& e) {
  const auto bandwidth = e.machine.memory_bandwidth();
  return bandwidth ? bandwidth->value : 0;
}

std::string tip_text(const RooflineDot& dot) {
  std::string out = fmt::format("{}: {} FLOP/B{}, at most {}", dot.name, format_significant(dot.intensity),
                                dot.network_bound ? " sent" : "", format_with_prefix(dot.rate, "FLOP/s"));
  if (dot.time_fraction) out += fmt::format(", {} of the time", format_percent(*dot.time_fraction));
  if (dot.measured) out += fmt::format(", measured {}", format_with_prefix(*dot.measured, "FLOP/s"));
  return out;
}

// Returns the dot on the link's roof of a network-bound operation.
std::optional<RooflineDot> dot_on_link(const Explanation& e, const Prediction& p) {
  if (p.limiter != Limiter::network || !p.flops || *p.flops <= 0 || !p.time_network_s) return std::nullopt;
  const double sent = p.work.bytes_sent.evaluate_double({e.dims.begin(), e.dims.end()}),
               flops = static_cast<double>(*p.flops);
  return RooflineDot{
      .name = {}, .tip = {}, .intensity = flops / sent, .rate = flops / *p.time_network_s, .network_bound = true};
}

// Returns the FLOP/s of the lower time bound, which lie below the roof where functions take longer than the FLOPs that
// they count as; without launches, which have no roof.
double attainable_rate(const Prediction& p) {
  if (p.limiter == Limiter::compute || p.limiter == Limiter::memory)
    return static_cast<double>(*p.flops) / *p.time_lower_s;
  return std::min(p.peak->rate.value, *p.intensity * *p.bandwidth);
}

std::optional<RooflineDot> dot_on_roof(const Explanation& e, const Prediction& p) {
  if (auto linked = dot_on_link(e, p)) return linked;
  if (!p.intensity || !(*p.intensity > 0) || !p.peak || !p.bandwidth) return std::nullopt;
  return RooflineDot{.name = {}, .tip = {}, .intensity = *p.intensity, .rate = attainable_rate(p)};
}

std::string missing_reason(const Prediction& p) {
  if (!p.missing.empty()) return "no " + p.missing;
  return p.flops ? "it computes nothing" : "its dimensions have no values";
}

void add_dots(const Report& report, Roofline& out) {
  const Explanation& e = report.explanation;
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    const Prediction& p = e.ops[i];
    auto dot = dot_on_roof(e, p);
    if (!dot) {
      out.not_drawn.push_back(op_name(report, i) + ": " + missing_reason(p));
      continue;
    }
    dot->name = op_name(report, i);
    dot->time_fraction = time_fraction(e, p);
    if (report.measured) dot->measured = static_cast<double>(*p.flops) / report.measured->ops[i].time.median;
    dot->tip = tip_text(*dot);
    out.has_link_dots = out.has_link_dots || dot->network_bound;
    out.dots.push_back(*std::move(dot));
  }
}

void add_rates(const Report& report, Roofline& out) {
  const Explanation& e = report.explanation;
  for (const Peak* peak : used_peaks(e))
    out.peaks.push_back(
        {peak->rate.value,
         fmt::format("{} {} {}", format_with_prefix(peak->rate.value, rate_unit(dtype_info(peak->dtype).is_integer)),
                     unit_name(peak->unit), dtype_name(peak->dtype))});
  const std::vector<MemoryLevel>& memory = e.machine.memory;
  out.bandwidth_name = fmt::format("{} {}", format_with_prefix(out.bandwidth, "B/s"), memory.front().name);
  for (std::size_t i = 1; report.show_cache_roofs && i < memory.size(); ++i)
    if (const auto& rate = memory[i].bandwidth)
      out.other_bandwidths.push_back(
          {rate->value, fmt::format("{} {}", format_with_prefix(rate->value, "B/s"), memory[i].name)});
  if (!out.has_link_dots || !e.total.link_rate) return;
  const std::string link = e.machine.links.empty() ? "link" : e.machine.links.front().name;
  out.other_bandwidths.push_back(
      {*e.total.link_rate, fmt::format("{} {}, sent", format_with_prefix(*e.total.link_rate, "B/s"), link)});
}

void set_axes(Roofline& out) {
  double x_low = 1, x_high = 10, y_low = INFINITY, y_high = 0;
  for (const Roofline::Rate& peak : out.peaks) {
    x_low = std::min(x_low, peak.rate / out.bandwidth);
    x_high = std::max(x_high, 4 * peak.rate / out.bandwidth);
    y_high = std::max(y_high, peak.rate);
  }
  for (const RooflineDot& d : out.dots) {
    x_low = std::min(x_low, d.intensity);
    x_high = std::max(x_high, d.network_bound ? 4 * d.intensity : d.intensity);
    y_low = std::min({y_low, d.rate, d.measured.value_or(d.rate)});
    y_high = std::max({y_high, d.rate, d.measured.value_or(d.rate)});
  }
  out.x_low = static_cast<int>(std::floor(std::log10(x_low / 1.5)));
  out.x_high = static_cast<int>(std::ceil(std::log10(x_high * 1.5)));
  if (y_high <= 0) y_high = out.bandwidth * x_high;
  // The lower end of the bandwidth line is shown, but at most eighteen decades.
  y_low = std::min(y_low, std::pow(10, out.x_low) * out.bandwidth);
  out.y_high = static_cast<int>(std::ceil(std::log10(y_high * 1.6)));
  out.y_low = std::max(static_cast<int>(std::floor(std::log10(y_low / 1.6))), out.y_high - 18);
}

}  // namespace

double dot_radius_px(const std::optional<double>& fraction) {
  constexpr double min_radius = 4, max_radius = 12, default_radius = 6;
  return fraction ? min_radius + (max_radius - min_radius) * std::sqrt(std::min(1.0, *fraction)) : default_radius;
}

Roofline describe_roofline(const Report& report) {
  Roofline out;
  const Explanation& e = report.explanation;
  out.title = truncate_text(report.title, 90);
  out.subtitle = "on " + (e.machine.title.empty() ? e.machine.name : e.machine.title);
  for (const std::string& dim : e.dim_names)
    if (const auto value = e.dims.find(dim); value != e.dims.end() && out.subtitle.size() < 90)
      out.subtitle += fmt::format(", {} = {}", dim, value->second);
  out.measured = report.measured.has_value();
  add_dots(report, out);
  out.bandwidth = bandwidth_of(e);
  if (out.bandwidth <= 0) return out;
  add_rates(report, out);
  set_axes(out);
  return out;
}

}  // namespace ridge

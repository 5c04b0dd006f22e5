#include "ridge/report/svg/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/text.h"
#include "ridge/machine/keys.h"
#include "ridge/report/parts/used.h"
#include "ridge/report/words.h"

namespace ridge {
namespace {

double bandwidth_of(const Explanation& e) {
  const auto bandwidth = e.machine.bandwidth();
  return bandwidth ? bandwidth->value : 0;
}

std::string tip(const RooflineDot& dot) {
  std::string out = fmt::format("{}: {} FLOP/B{}, at most {}", dot.name, significant(dot.intensity),
                                dot.sent ? " sent" : "", engineering(dot.rate, "FLOP/s"));
  if (dot.share) out += fmt::format(", {} of the time", percent(*dot.share));
  if (dot.measured) out += fmt::format(", measured {}", engineering(*dot.measured, "FLOP/s"));
  return out;
}

// On the link's roof, where the network binds.
std::optional<RooflineDot> on_link(const Explanation& e, const Prediction& p) {
  if (p.limiter != Limiter::network || !p.flops || *p.flops <= 0 || !p.time_network_s) return std::nullopt;
  const double sent = p.work.bytes_sent.real({e.dims.begin(), e.dims.end()}), flops = static_cast<double>(*p.flops);
  return RooflineDot{
      .name = p.work.name, .tip = {}, .intensity = flops / sent, .rate = flops / *p.time_network_s, .sent = true};
}

std::optional<RooflineDot> on_a_roof(const Explanation& e, const Prediction& p) {
  if (auto linked = on_link(e, p)) return linked;
  if (!p.intensity || !(*p.intensity > 0) || !p.peak || !p.bandwidth) return std::nullopt;
  return RooflineDot{.name = p.work.name,
                     .tip = {},
                     .intensity = *p.intensity,
                     .rate = std::min(p.peak->rate.value, *p.intensity * *p.bandwidth)};
}

std::string why_not(const Prediction& p) {
  if (!p.missing.empty()) return "no " + p.missing;
  return p.flops ? "it computes nothing" : "its dimensions have no values";
}

void add_dots(const Report& report, Roofline& out) {
  const Explanation& e = report.explanation;
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    const Prediction& p = e.ops[i];
    auto dot = on_a_roof(e, p);
    if (!dot) {
      out.not_drawn.push_back(p.work.name + ": " + why_not(p));
      continue;
    }
    dot->share = share_of(e, p);
    if (report.measured) dot->measured = static_cast<double>(*p.flops) / report.measured->ops[i].time.median;
    dot->tip = tip(*dot);
    out.sent = out.sent || dot->sent;
    out.dots.push_back(*std::move(dot));
  }
}

void add_rates(const Report& report, Roofline& out) {
  const Explanation& e = report.explanation;
  for (const Peak* peak : used_peaks(e))
    out.peaks.push_back(
        {peak->rate.value, fmt::format("{} {} {}", engineering(peak->rate.value, rate_unit(info(peak->dtype).integer)),
                                       name(peak->unit), name(peak->dtype))});
  const std::vector<MemoryLevel>& memory = e.machine.memory;
  out.bandwidth_name = fmt::format("{} {}", engineering(out.bandwidth, "B/s"), memory.front().name);
  for (std::size_t i = 1; report.roofs && i < memory.size(); ++i)
    if (const auto& rate = memory[i].bandwidth)
      out.slopes.push_back({rate->value, fmt::format("{} {}", engineering(rate->value, "B/s"), memory[i].name)});
  if (!out.sent || !e.total.link) return;
  const std::string link = e.machine.links.empty() ? "link" : e.machine.links.front().name;
  out.slopes.push_back({*e.total.link, fmt::format("{} {}, sent", engineering(*e.total.link, "B/s"), link)});
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
    x_high = std::max(x_high, d.sent ? 4 * d.intensity : d.intensity);
    y_low = std::min({y_low, d.rate, d.measured.value_or(d.rate)});
    y_high = std::max({y_high, d.rate, d.measured.value_or(d.rate)});
  }
  out.x_low = static_cast<int>(std::floor(std::log10(x_low / 1.5)));
  out.x_high = static_cast<int>(std::ceil(std::log10(x_high * 1.5)));
  if (y_high <= 0) y_high = out.bandwidth * x_high;
  // The slope's foot is shown, but never more than eighteen decades of it.
  y_low = std::min(y_low, std::pow(10, out.x_low) * out.bandwidth);
  out.y_high = static_cast<int>(std::ceil(std::log10(y_high * 1.6)));
  out.y_low = std::max(static_cast<int>(std::floor(std::log10(y_low / 1.6))), out.y_high - 18);
}

}  // namespace

double radius_of(const std::optional<double>& share) {
  constexpr double least = 4, most = 12, unknown = 6;
  return share ? least + (most - least) * std::sqrt(std::min(1.0, *share)) : unknown;
}

Roofline describe(const Report& report) {
  Roofline out;
  const Explanation& e = report.explanation;
  out.title = shortened(report.title, 90);
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

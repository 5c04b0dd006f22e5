// Log-log curves of attainable FLOP/s. The name at a curve's right end lists the sizes at which its limiter changes; a
// thin line joins name and curve. A dotted curve is the fused program.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/report/svg/curves.h"
#include "ridge/report/sweep.h"
#include "ridge/roofline/refine_sweep.h"

namespace ridge {
namespace {

constexpr double sweep_width = 1100, sweep_height = 600;
constexpr std::size_t name_length = 50, changes_named = 2;

struct NamedCurve {
  std::string name;
  const SweepCurve* source;
};

// Returns what distinguishes this curve: machine, dtype, chips, the values of other ranges.
std::string varying_text(const Sweep& sweep, const SweepLine& line, std::size_t point, std::size_t x) {
  std::string out = line.machine;
  if (std::any_of(sweep.lines.begin(), sweep.lines.end(), [&](const SweepLine& l) { return l.dtype != line.dtype; }))
    out += " " + line.dtype;
  if (line.split) out += fmt::format(" {}/{}", line.split->dim, line.split->chips);
  for (std::size_t i = 0; i < sweep.ranges.size(); ++i)
    if (i != x && sweep.ranges[i].values.size() > 1)
      out += fmt::format(" {}={}", sweep.ranges[i].dim, sweep.size_at(point, i));
  return out;
}

// ": compute from B = 310, memory from 16384"
std::string changes_text(const SweepCurve& curve, const std::string& dim) {
  std::vector<std::string> parts;
  for (const SweepChange& change : curve.changes) {
    if (parts.size() == changes_named) {
      parts.emplace_back("...");
      break;
    }
    const std::string size = parts.empty() ? fmt::format("{} = {}", dim, change.first) : std::to_string(change.first);
    parts.push_back(fmt::format("{} from {}", name(change.to), size));
  }
  return parts.empty() ? "" : fmt::format(": {}", fmt::join(parts, ", "));
}

std::vector<NamedCurve> curves_of(const Sweep& sweep, std::size_t x, std::size_t& undrawn_count) {
  std::vector<NamedCurve> curves;
  for (const SweepLine& line : sweep.lines) {
    const std::size_t all = line.points.size() / sweep.ranges[x].values.size();
    undrawn_count += all - std::min(all, line.curves.size());
    for (const SweepCurve& curve : line.curves) {
      if (curves.size() == max_sweep_curves) {
        ++undrawn_count;
        continue;
      }
      std::string name = varying_text(sweep, line, curve.first_point, x);
      name += curve.changes.empty() ? fmt::format(": {}", ridge::name(line.points[curve.first_point].limiter))
                                    : changes_text(curve, sweep.ranges[x].dim);
      curves.push_back({std::move(name), &curve});
    }
  }
  return curves;
}

struct ValueRange {
  double low = HUGE_VAL, high = 0;
  void extend(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Returns the y positions of the names: in the order of the curves' ends, 17 px apart, as close to them as possible.
std::vector<double> name_positions(const std::vector<double>& ends, const PictureBox& plot) {
  constexpr double spacing = 17;
  std::vector<std::size_t> order(ends.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return ends[a] < ends[b]; });
  std::vector<double> positions(ends.size());
  double at = -1e9;
  for (const std::size_t i : order) at = positions[i] = std::max(ends[i], at + spacing);
  double limit = plot.bottom;
  for (auto i = order.rbegin(); i != order.rend(); ++i, limit -= spacing)
    positions[*i] = std::min(positions[*i], limit);
  return positions;
}

// Returns the width of the widest name and of its leader, px.
double widest_name(const std::vector<NamedCurve>& curves) {
  double out = 0;
  for (const NamedCurve& curve : curves) out = std::max(out, text_width(truncate_text(curve.name, name_length)));
  return out + 18;
}

class CurvePainter {
 public:
  CurvePainter(const PictureBox& plot, const LogScale& x, const LogScale& y) : plot_(plot), x_(x), y_(y) {}

  double end_of(const SweepCurve& curve) const {
    return curve.points.empty() ? plot_.bottom : y_.position(curve.points.back().flops_per_s);
  }

  std::string draw_curve(const NamedCurve& curve, std::size_t i, double end, double name_at) const {
    const std::size_t series = i % series_colours;
    std::string out =
        polyline_through(curve.source->points, series, i < series_colours ? "" : " stroke-dasharray=\"6 4\"");
    if (!curve.source->fused.empty())
      out += polyline_through(curve.source->fused, series, " stroke-dasharray=\"1.5 4\"");
    for (const SweepChange& change : curve.source->changes)
      out += fmt::format("<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"/>\n", series,
                         x_.position(static_cast<double>(change.first)), y_.position(change.flops_per_s));
    const double right =
        curve.source->points.empty() ? plot_.right : x_.position(static_cast<double>(curve.source->points.back().size));
    return out + draw_line("leader", {right + 3, end}, {plot_.right + 14, name_at - 4}) +
           draw_text(fmt::format("n{}", series), {plot_.right + 18, name_at}, truncate_text(curve.name, name_length));
  }

 private:
  std::string polyline_through(const std::vector<SweepCurve::CurvePoint>& positions, std::size_t series,
                               std::string_view more) const {
    std::vector<PicturePoint> points;
    for (const SweepCurve::CurvePoint& p : positions)
      if (p.flops_per_s > 0) points.push_back({x_.position(static_cast<double>(p.size)), y_.position(p.flops_per_s)});
    return draw_polyline(series, points, more);
  }

  const PictureBox& plot_;
  const LogScale &x_, &y_;
};

std::string draw_header(const Sweep& sweep, const PictureBox& plot) {
  const std::string title = truncate_text(sweep.title, 100);
  std::string fixed;
  for (const DimensionValues& range : sweep.ranges)
    if (range.values.size() == 1)
      fixed += fmt::format("{}{} = {}", fixed.empty() ? "" : ", ", range.dim, range.values[0]);
  return svg_head(sweep_width, sweep_height) + fmt::format("<title>{}</title>\n", escape_xml("Sweep: " + title)) +
         curve_styles() +
         fmt::format("<rect class=\"back\" width=\"{}\" height=\"{}\"/>\n", sweep_width, sweep_height) +
         draw_text("title", {plot.left, 28}, title) + draw_text("soft", {plot.left, 48}, fixed);
}

std::string draw_remarks(const std::vector<NamedCurve>& curves, std::size_t undrawn_count, const PictureBox& plot) {
  std::vector<std::string> parts;
  const auto has_fused = [](const NamedCurve& curve) { return !curve.source->fused.empty(); };
  if (std::any_of(curves.begin(), curves.end(), has_fused))
    parts.emplace_back("dotted: fused, no intermediates stored");
  if (undrawn_count > 0) parts.push_back(fmt::format("{} more curves are not drawn", undrawn_count));
  return parts.empty() ? ""
                       : draw_text("soft", {plot.left, sweep_height - 12}, fmt::format("{}", fmt::join(parts, "; ")));
}

}  // namespace

std::string render_svg(const Sweep& sweep) {
  PictureBox plot{84, 66, sweep_width - 24, sweep_height - 72};
  const std::string head = draw_header(sweep, plot);
  if (sweep.ranges.empty()) return head + "</svg>\n";
  std::size_t undrawn_count = 0;
  const std::size_t dimension = longest_range(sweep.ranges);
  const std::vector<NamedCurve> curves = curves_of(sweep, dimension, undrawn_count);
  plot.right -= widest_name(curves);
  ValueRange sizes, rates;
  for (const NamedCurve& curve : curves)
    for (const auto* positions : {&curve.source->points, &curve.source->fused})
      for (const SweepCurve::CurvePoint& p : *positions) {
        sizes.extend(static_cast<double>(p.size));
        if (p.flops_per_s > 0) rates.extend(p.flops_per_s);
      }
  if (rates.high <= 0) return head + draw_text("soft", {plot.left, 90}, "no time is known") + "</svg>\n";
  const LogScale x{std::log10(sizes.low), std::log10(std::max(sizes.high, sizes.low * 1.1)), plot.left, plot.right};
  const LogScale y{std::log10(rates.low / 1.3), std::log10(rates.high * 1.6), plot.bottom, plot.top};
  std::string out = head + draw_grid(plot, x, y, {sweep.ranges[dimension].dim, "attainable (FLOP/s)"});
  const CurvePainter drawing(plot, x, y);
  std::vector<double> ends;
  for (const NamedCurve& curve : curves) ends.push_back(drawing.end_of(*curve.source));
  const std::vector<double> positions = name_positions(ends, plot);
  for (std::size_t i = 0; i < curves.size(); ++i) out += drawing.draw_curve(curves[i], i, ends[i], positions[i]);
  return out + draw_remarks(curves, undrawn_count, plot) + "</svg>\n";
}

}  // namespace ridge

// Curves of what is attainable, log over log. A curve's name stands at its right end, with every size at which its
// limiter changes; names keep their distance, and a thin line leads to the curve. A dotted curve is the program fused.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/text.h"
#include "ridge/report/svg/curves.h"
#include "ridge/report/sweep.h"
#include "ridge/roofline/curve.h"

namespace ridge {
namespace {

constexpr double width = 1100, height = 600;
constexpr std::size_t name_length = 50, changes_named = 2;

struct Curve {
  std::string name;
  const SweepCurve* of;
};

// What tells this curve from the others: machine, dtype, chips, the values of other ranges.
std::string what_varies(const Sweep& sweep, const SweepLine& line, std::size_t point, std::size_t x) {
  std::string out = line.machine;
  if (std::any_of(sweep.lines.begin(), sweep.lines.end(), [&](const SweepLine& l) { return l.dtype != line.dtype; }))
    out += " " + line.dtype;
  if (line.split) out += fmt::format(" {}/{}", line.split->dim, line.split->chips);
  for (std::size_t i = 0; i < sweep.ranges.size(); ++i)
    if (i != x && sweep.ranges[i].values.size() > 1)
      out += fmt::format(" {}={}", sweep.ranges[i].dim, sweep.value(point, i));
  return out;
}

// ": compute from B = 310, memory from 16384"
std::string what_changes(const SweepCurve& curve, const std::string& dim) {
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

std::vector<Curve> curves_of(const Sweep& sweep, std::size_t x, std::size_t& left_out) {
  std::vector<Curve> curves;
  for (const SweepLine& line : sweep.lines) {
    const std::size_t all = line.points.size() / sweep.ranges[x].values.size();
    left_out += all - std::min(all, line.curves.size());
    for (const SweepCurve& curve : line.curves) {
      if (curves.size() == most_sweep_curves) {
        ++left_out;
        continue;
      }
      std::string name = what_varies(sweep, line, curve.point, x);
      name += curve.changes.empty() ? fmt::format(": {}", ridge::name(line.points[curve.point].limiter))
                                    : what_changes(curve, sweep.ranges[x].dim);
      curves.push_back({std::move(name), &curve});
    }
  }
  return curves;
}

struct Extent {
  double low = HUGE_VAL, high = 0;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Where the names stand: in the order of the curves' ends, 17 px apart, as near to them as that allows.
std::vector<double> name_places(const std::vector<double>& ends, const Box& plot) {
  constexpr double apart = 17;
  std::vector<std::size_t> order(ends.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return ends[a] < ends[b]; });
  std::vector<double> places(ends.size());
  double at = -1e9;
  for (const std::size_t i : order) at = places[i] = std::max(ends[i], at + apart);
  double most = plot.bottom;
  for (auto i = order.rbegin(); i != order.rend(); ++i, most -= apart) places[*i] = std::min(places[*i], most);
  return places;
}

class Drawing {
 public:
  Drawing(const Box& plot, const Scale& x, const Scale& y) : plot_(plot), x_(x), y_(y) {}

  double end_of(const SweepCurve& curve) const {
    return curve.places.empty() ? plot_.bottom : y_.place(curve.places.back().flops_per_s);
  }

  std::string draw(const Curve& curve, std::size_t i, double end, double name_at) const {
    const std::size_t series = i % series_colours;
    std::string out = through(curve.of->places, series, i < series_colours ? "" : " stroke-dasharray=\"6 4\"");
    if (!curve.of->fused.empty()) out += through(curve.of->fused, series, " stroke-dasharray=\"1.5 4\"");
    for (const SweepChange& change : curve.of->changes)
      out += fmt::format("<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"/>\n", series,
                         x_.place(static_cast<double>(change.first)), y_.place(change.flops_per_s));
    const double right =
        curve.of->places.empty() ? plot_.right : x_.place(static_cast<double>(curve.of->places.back().size));
    return out + line("leader", {right + 3, end}, {plot_.right + 14, name_at - 4}) +
           text_at(fmt::format("n{}", series), {plot_.right + 18, name_at}, shortened(curve.name, name_length));
  }

 private:
  std::string through(const std::vector<SweepCurve::Place>& places, std::size_t series, std::string_view more) const {
    std::vector<Point> points;
    for (const SweepCurve::Place& p : places)
      if (p.flops_per_s > 0) points.push_back({x_.place(static_cast<double>(p.size)), y_.place(p.flops_per_s)});
    return polyline(series, points, more);
  }

  const Box& plot_;
  const Scale &x_, &y_;
};

std::string opening(const Sweep& sweep, const Box& plot) {
  const std::string title = shortened(sweep.title, 100);
  std::string fixed;
  for (const Range& range : sweep.ranges)
    if (range.values.size() == 1)
      fixed += fmt::format("{}{} = {}", fixed.empty() ? "" : ", ", range.dim, range.values[0]);
  return svg_head(width, height) + fmt::format("<title>{}</title>\n", escaped("Sweep: " + title)) + curve_styles() +
         fmt::format("<rect class=\"back\" width=\"{}\" height=\"{}\"/>\n", width, height) +
         text_at("title", {plot.left, 28}, title) + text_at("soft", {plot.left, 48}, fixed);
}

std::string remarks(const std::vector<Curve>& curves, std::size_t left_out, const Box& plot) {
  std::vector<std::string> parts;
  const auto has_fused = [](const Curve& curve) { return !curve.of->fused.empty(); };
  if (std::any_of(curves.begin(), curves.end(), has_fused))
    parts.emplace_back("dotted: fused, nothing stored in between");
  if (left_out > 0) parts.push_back(fmt::format("{} more curves are not drawn", left_out));
  return parts.empty() ? "" : text_at("soft", {plot.left, height - 12}, fmt::format("{}", fmt::join(parts, "; ")));
}

}  // namespace

std::string render_svg(const Sweep& sweep) {
  const Box plot{84, 66, width - 400, height - 72};
  const std::string head = opening(sweep, plot);
  if (sweep.ranges.empty()) return head + "</svg>\n";
  std::size_t left_out = 0;
  const std::size_t dimension = longest_range(sweep.ranges);
  const std::vector<Curve> curves = curves_of(sweep, dimension, left_out);
  Extent sizes, rates;
  for (const Curve& curve : curves)
    for (const auto* places : {&curve.of->places, &curve.of->fused})
      for (const SweepCurve::Place& p : *places) {
        sizes.add(static_cast<double>(p.size));
        if (p.flops_per_s > 0) rates.add(p.flops_per_s);
      }
  if (rates.high <= 0) return head + text_at("soft", {plot.left, 90}, "no time is known") + "</svg>\n";
  const Scale x{std::log10(sizes.low), std::log10(std::max(sizes.high, sizes.low * 1.1)), plot.left, plot.right};
  const Scale y{std::log10(rates.low / 1.3), std::log10(rates.high * 1.6), plot.bottom, plot.top};
  std::string out = head + grid(plot, x, y, {sweep.ranges[dimension].dim, "attainable (FLOP/s)"});
  const Drawing drawing(plot, x, y);
  std::vector<double> ends;
  for (const Curve& curve : curves) ends.push_back(drawing.end_of(*curve.of));
  const std::vector<double> places = name_places(ends, plot);
  for (std::size_t i = 0; i < curves.size(); ++i) out += drawing.draw(curves[i], i, ends[i], places[i]);
  return out + remarks(curves, left_out, plot) + "</svg>\n";
}

}  // namespace ridge

// Curves of what is attainable, log over log. A curve's name stands at its right end, with the size at which its
// limiter changes; names keep their distance, and a thin line leads to the curve.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/text.h"
#include "ridge/report/svg/curves.h"
#include "ridge/report/sweep.h"

namespace ridge {
namespace {

constexpr std::size_t most_curves = 12;
struct Curve {
  std::string name;
  std::vector<Point> points;   // size, FLOP/s
  std::vector<Point> crossed;  // where the limiter changed
};

std::size_t longest_range(const Sweep& sweep) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < sweep.ranges.size(); ++i)
    if (sweep.ranges[i].values.size() > sweep.ranges[longest].values.size()) longest = i;
  return longest;
}

std::string curve_name(const Sweep& sweep, const SweepLine& line, std::size_t point, std::size_t x) {
  std::string out = line.machine;
  if (std::any_of(sweep.lines.begin(), sweep.lines.end(), [&](const SweepLine& l) { return l.dtype != line.dtype; }))
    out += " " + line.dtype;
  if (line.split) out += fmt::format(" {}/{}", line.split->dim, line.split->chips);
  for (std::size_t i = 0; i < sweep.ranges.size(); ++i)
    if (i != x && sweep.ranges[i].values.size() > 1)
      out += fmt::format(" {}={}", sweep.ranges[i].dim, sweep.value(point, i));
  return out;
}

// The curve that begins at `first` and takes every `stride`th point.
Curve curve_of(const Sweep& sweep, const SweepLine& line, std::size_t first, std::size_t stride, std::size_t x) {
  Curve curve{.name = curve_name(sweep, line, first, x), .points = {}, .crossed = {}};
  const std::string& dim = sweep.ranges[x].dim;
  const SweepPoint* before = nullptr;
  const std::size_t n = sweep.ranges[x].values.size(), every = n / 1000 + 1;  // more would be finer than the screen
  for (std::size_t i = 0; i < n; ++i) {
    const SweepPoint& p = line.points[first + i * stride];
    if (p.time_lower_s <= 0 || p.flops <= 0) {
      before = nullptr;
      continue;
    }
    const std::int64_t size = sweep.ranges[x].values[i];
    const Point here{static_cast<double>(size), static_cast<double>(p.flops) / p.time_lower_s};
    const bool crossed = before && before->limiter != p.limiter;
    if (i % every == 0 || i + 1 == n || crossed) curve.points.push_back(here);
    if (crossed) {
      curve.crossed.push_back(here);
      if (curve.crossed.size() == 1) curve.name += fmt::format(": {} from {} = {}", name(p.limiter), dim, size);
    }
    before = &p;
  }
  if (curve.crossed.empty() && before) curve.name += fmt::format(": {}", name(before->limiter));
  return curve;
}

std::vector<Curve> curves_of(const Sweep& sweep, std::size_t x, std::size_t& left_out) {
  std::vector<Curve> curves;
  std::size_t stride = 1;
  for (std::size_t i = x + 1; i < sweep.ranges.size(); ++i) stride *= sweep.ranges[i].values.size();
  const std::size_t length = sweep.ranges[x].values.size();
  for (const SweepLine& line : sweep.lines)
    for (std::size_t first = 0; first < line.points.size(); ++first) {
      if (first / stride % length != 0) continue;
      if (curves.size() == most_curves)
        ++left_out;
      else
        curves.push_back(curve_of(sweep, line, first, stride, x));
    }
  return curves;
}

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

}  // namespace

std::string render_svg(const Sweep& sweep) {
  constexpr double width = 1100, height = 600;
  const Box plot{84, 66, width - 330, height - 72};
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n",
      width, height);
  const std::string title = shortened(sweep.program_text.substr(0, sweep.program_text.find('\n')), 100);
  out += fmt::format("<title>{}</title>\n", escaped("Sweep: " + title)) + curve_styles();
  out += fmt::format("<rect class=\"back\" width=\"{}\" height=\"{}\"/>\n", width, height) +
         text_at("title", {plot.left, 28}, title);
  std::string fixed;
  for (const Range& range : sweep.ranges)
    if (range.values.size() == 1)
      fixed += fmt::format("{}{} = {}", fixed.empty() ? "" : ", ", range.dim, range.values[0]);
  out += text_at("soft", {plot.left, 48}, fixed);
  if (sweep.ranges.empty()) return out + "</svg>\n";
  std::size_t left_out = 0;
  const std::size_t dimension = longest_range(sweep);
  const std::vector<Curve> curves = curves_of(sweep, dimension, left_out);
  double x_low = HUGE_VAL, x_high = 0, y_low = HUGE_VAL, y_high = 0;
  for (const Curve& curve : curves)
    for (const Point& p : curve.points) {
      x_low = std::min(x_low, p.x);
      x_high = std::max(x_high, p.x);
      y_low = std::min(y_low, p.y);
      y_high = std::max(y_high, p.y);
    }
  if (y_high <= 0)
    return out + text_at("soft", {plot.left, 90}, "nothing is known: no machine has the peak") + "</svg>\n";
  const Scale x{std::log10(x_low), std::log10(std::max(x_high, x_low * 1.1)), plot.left, plot.right};
  const Scale y{std::log10(y_low / 1.3), std::log10(y_high * 1.6), plot.bottom, plot.top};
  out += grid(plot, x, y, {sweep.ranges[dimension].dim, "attainable (FLOP/s)"});
  std::vector<double> ends;
  for (const Curve& curve : curves) ends.push_back(curve.points.empty() ? plot.bottom : y.place(curve.points.back().y));
  const std::vector<double> places = name_places(ends, plot);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::size_t series = i % series_colours;
    const std::string dashes = i < series_colours ? "" : " stroke-dasharray=\"6 4\"";
    std::vector<Point> points;
    for (const Point& p : curves[i].points) points.push_back({x.place(p.x), y.place(p.y)});
    out += polyline(series, points, dashes);
    for (const Point& p : curves[i].crossed)
      out += fmt::format("<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"/>\n", series, x.place(p.x),
                         y.place(p.y));
    const double end = curves[i].points.empty() ? plot.right : x.place(curves[i].points.back().x);
    out += line("leader", {end + 3, ends[i]}, {plot.right + 14, places[i] - 4}) +
           text_at(fmt::format("n{}", series), {plot.right + 18, places[i]}, shortened(curves[i].name, 44));
  }
  if (left_out > 0)
    out += text_at("soft", {plot.left, height - 12}, fmt::format("{} more curves are not drawn", left_out));
  return out + "</svg>\n";
}

}  // namespace ridge

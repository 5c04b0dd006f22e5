// Curves of what is attainable, log over log. A curve's name stands at its right end, with the size at which its
// limiter changes; names keep their distance, and a thin line leads to the curve.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/text.h"
#include "ridge/report/drawing.h"
#include "ridge/report/sweep.h"

namespace ridge {
namespace {

constexpr std::size_t most_curves = 12;
// Okabe and Ito's colours, told apart by every eye, darker on a light ground and lighter on a dark one, so that each
// has three times the ground's luminance or a third of it (WCAG's contrast for graphics).
struct Colour {
  std::string_view on_light, on_dark;
};
constexpr std::array<Colour, 6> colours{{{"#0072b2", "#4fa8e0"},
                                         {"#c24f00", "#f08a4b"},
                                         {"#00805d", "#2fc79b"},
                                         {"#b5588f", "#dd93bd"},
                                         {"#8f6a00", "#e6b33e"},
                                         {"#5a5f66", "#b4bcc6"}}};

struct Curve {
  std::string name;
  std::vector<Point> points;   // size, FLOP/s
  std::vector<Point> crossed;  // where the limiter changed
};

std::string styles() {
  std::string light = ".curve{fill:none;stroke-width:2.5;stroke-linejoin:round}\n.dot{stroke-width:2;fill:#ffffff}\n";
  std::string dark = ".dot{fill:#0d1117}\n";
  for (std::size_t i = 0; i < colours.size(); ++i)
    for (auto& [to, colour] : {std::pair{&light, colours[i].on_light}, {&dark, colours[i].on_dark}})
      *to += fmt::format(".s{0}{{stroke:{1}}}\n.n{0}{{fill:{1}}}\n", i, colour);
  return style_sheet(light, dark);
}

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

struct Scale {
  double low = 0, high = 1, from = 0, to = 1;  // decades, pixels
  double place(double value) const { return from + (std::log10(value) - low) / (high - low) * (to - from); }
};

// 1, 2 and 5 of every decade where they are few, whole decades else.
std::vector<double> ticks(const Scale& scale) {
  std::vector<double> out;
  const bool fine = scale.high - scale.low < 4;
  for (int decade = static_cast<int>(std::floor(scale.low)); decade <= std::ceil(scale.high); ++decade)
    for (const int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10.0, decade), at = std::log10(value);
      if ((digit == 1 || fine) && at >= scale.low - 1e-9 && at <= scale.high + 1e-9) out.push_back(value);
    }
  return out;
}

std::string tick_text(double value) {
  std::string text = value < 1000 ? significant(value) : engineering(value, "");
  if (const std::size_t point = text.find('.'); value >= 1000 && point != std::string::npos)
    text = text.substr(0, point) + text.substr(text.find(' ') + 1);
  return text;
}

std::string axes(const Box& plot, const Scale& x, const Scale& y, const std::string& dim) {
  std::string out;
  for (const double value : ticks(x))
    out += line("grid", {x.place(value), plot.top}, {x.place(value), plot.bottom}) +
           text_at("soft", {x.place(value), plot.bottom + 18}, tick_text(value), " text-anchor=\"middle\"");
  for (const double value : ticks(y))
    out += line("grid", {plot.left, y.place(value)}, {plot.right, y.place(value)}) +
           text_at("soft", {plot.left - 8, y.place(value) + 4}, tick_text(value), " text-anchor=\"end\"");
  const double middle = (plot.top + plot.bottom) / 2;
  return out + box("frame", plot) +
         text_at("soft", {(plot.left + plot.right) / 2, plot.bottom + 38}, dim, " text-anchor=\"middle\"") +
         text_at("soft", {22, middle}, "attainable (FLOP/s)",
                 fmt::format(" text-anchor=\"middle\" transform=\"rotate(-90 22 {:.1f})\"", middle));
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
  out += fmt::format("<title>{}</title>\n", escaped("Sweep: " + title)) + styles();
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
      x_low = std::min(x_low, p.x), x_high = std::max(x_high, p.x);
      y_low = std::min(y_low, p.y), y_high = std::max(y_high, p.y);
    }
  if (y_high <= 0)
    return out + text_at("soft", {plot.left, 90}, "nothing is known: no machine has the peak") + "</svg>\n";
  const Scale x{std::log10(x_low), std::log10(std::max(x_high, x_low * 1.1)), plot.left, plot.right};
  const Scale y{std::log10(y_low / 1.3), std::log10(y_high * 1.6), plot.bottom, plot.top};
  out += axes(plot, x, y, sweep.ranges[dimension].dim);
  std::vector<double> ends;
  for (const Curve& curve : curves) ends.push_back(curve.points.empty() ? plot.bottom : y.place(curve.points.back().y));
  const std::vector<double> places = name_places(ends, plot);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::size_t series = i % colours.size();
    const std::string dashes = i < colours.size() ? "" : " stroke-dasharray=\"6 4\"";
    std::string points;
    for (const Point& p : curves[i].points) points += fmt::format("{:.1f},{:.1f} ", x.place(p.x), y.place(p.y));
    out += fmt::format("<polyline class=\"curve s{}\"{} points=\"{}\"/>\n", series, dashes, points);
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

// Draws three panels: time, FLOP/s and bytes/s against repeats. Measured values are a line with dots, predictions a
// dashed line of the same colour.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/bench/repeats_report.h"
#include "ridge/report/svg/curves.h"

namespace ridge {
namespace {

constexpr double width = 1180, height = 470, panel_width = 300, panel_gap = 90, first_left = 84;

struct Panel {
  const char* label;
  double (*value)(const RepeatsPoint&, const RepeatsTiming&, double seconds);
};
constexpr std::array<Panel, 3> panels{
    {{"time (s)", [](const RepeatsPoint&, const RepeatsTiming&, double seconds) { return seconds; }},
     {"achieved FLOP/s", [](const RepeatsPoint& p, const RepeatsTiming&, double seconds) { return p.flops / seconds; }},
     {"achieved bytes/s",
      [](const RepeatsPoint&, const RepeatsTiming& w, double seconds) { return w.bytes / seconds; }}}};

struct Series {
  const char* label;
  RepeatsTiming RepeatsPoint::*timing;
  bool predicted;
  std::size_t colour;
  double series_seconds(const RepeatsPoint& p) const {
    return predicted ? (p.*timing).predicted.expected : (p.*timing).time.median;
  }
};
// Predictions come first, so that measured values are drawn over them.
constexpr std::array<Series, 4> all_series{{{"one per repeat, predicted", &RepeatsPoint::unfused, true, 1},
                                            {"one kernel, predicted", &RepeatsPoint::fused, true, 0},
                                            {"one per repeat, measured", &RepeatsPoint::unfused, false, 1},
                                            {"one kernel, measured", &RepeatsPoint::fused, false, 0}}};

std::string dash_style(const Series& s) { return s.predicted ? " stroke-dasharray=\"6 5\"" : ""; }

std::string draw_panel(const RepeatsBenchmark& r, const Panel& panel, const PictureBox& plot) {
  double low = HUGE_VAL, high = 0;
  const auto value = [&](const Series& s, const RepeatsPoint& p) {
    return panel.value(p, p.*s.timing, s.series_seconds(p));
  };
  for (const Series& s : all_series)
    for (const RepeatsPoint& p : r.points) {
      low = std::min(low, value(s, p));
      high = std::max(high, value(s, p));
    }
  const double last = r.points.back().repeats;
  const LogScale x{-0.1, std::log10(std::max(last, 2.0)) + 0.1, plot.left, plot.right};
  const LogScale y{std::log10(low / 1.5), std::log10(high * 1.5), plot.bottom, plot.top};
  std::string out = draw_grid(plot, x, y, {"repeats", panel.label});
  for (const Series& s : all_series) {
    std::vector<PicturePoint> points;
    for (const RepeatsPoint& p : r.points) points.push_back({x.position(p.repeats), y.position(value(s, p))});
    out += draw_polyline(s.colour, points, dash_style(s));
    for (const PicturePoint& p : points)
      if (!s.predicted)
        out += fmt::format("<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n", s.colour, p.x, p.y);
  }
  return out;
}

std::string draw_legend(double top) {
  std::string out;
  double left = first_left;
  for (auto s = all_series.rbegin(); s != all_series.rend(); ++s) {
    out += draw_polyline(s->colour, {{left, top - 4}, {left + 34, top - 4}}, dash_style(*s));
    if (!s->predicted)
      out += fmt::format("<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n", s->colour, left + 17,
                         top - 4);
    out += draw_text(fmt::format("n{}", s->colour), {left + 42, top}, s->label);
    left += 42 + text_width(s->label) + 28;
  }
  return out;
}

}  // namespace

std::string repeats_svg(const RepeatsBenchmark& r) {
  const std::string title = fmt::format("A repeated cosine of {} f32 elements", group_digits(r.elements));
  std::string out = svg_head(width, height);
  out += fmt::format("<title>{}</title>\n", escape_xml(title)) + curve_styles();
  out += fmt::format("<rect class=\"back\" width=\"{}\" height=\"{}\"/>\n", width, height) +
         draw_text("title", {first_left, 28}, title) +
         draw_text("soft", {first_left, 48},
                   fmt::format("{}, {}; as one kernel, and as one kernel per repeat",
                               r.machine.title.empty() ? r.machine.name : r.machine.title, r.kernel_isa)) +
         draw_legend(74);
  if (r.points.empty()) return out + "</svg>\n";
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const double left = first_left + static_cast<double>(i) * (panel_width + panel_gap);
    out += draw_panel(r, panels[i], {left, 96, left + panel_width, height - 58});
  }
  return out + "</svg>\n";
}

}  // namespace ridge

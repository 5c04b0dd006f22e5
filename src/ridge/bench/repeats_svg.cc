// Draws three panels: time, FLOP/s and bytes/s against repeats. Measured values are a line with dots, predictions a
// dashed line of the same colour.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/bench/bench.h"
#include "ridge/report/svg/curves.h"

namespace ridge {
namespace {

constexpr double width = 1180, height = 470, panel_width = 300, panel_gap = 90, first_left = 84;

struct Panel {
  const char* label;
  double (*value)(const Competitor&, double seconds);
};
constexpr std::array<Panel, 3> panels{
    {{"time (s)", [](const Competitor&, double seconds) { return seconds; }},
     {"achieved FLOP/s", [](const Competitor& c, double seconds) { return c.flops / seconds; }},
     {"achieved bytes/s", [](const Competitor& c, double seconds) { return c.bytes / seconds; }}}};

struct Series {
  const char* label;
  std::size_t competitor;  // also the index of its colour
  bool predicted;
};
// Predictions come first, so that measured values are drawn over them.
constexpr std::array<Series, 4> all_series{{{"one per repeat, predicted", 1, true},
                                            {"one kernel, predicted", 0, true},
                                            {"one per repeat, measured", 1, false},
                                            {"one kernel, measured", 0, false}}};

std::string dash_style(const Series& s) { return s.predicted ? " stroke-dasharray=\"6 5\"" : ""; }

std::string draw_panel(const Comparison& r, const Panel& panel, const PictureBox& plot) {
  double low = HUGE_VAL, high = 0;
  const auto value = [&](const Series& s, const ComparisonRow& row) {
    const Competitor& c = row.competitors[s.competitor];
    return panel.value(c, s.predicted ? c.predicted_s->expected : c.time().median);
  };
  for (const Series& s : all_series)
    for (const ComparisonRow& row : r.rows) {
      low = std::min(low, value(s, row));
      high = std::max(high, value(s, row));
    }
  const double last = r.rows.back().labels["repeats"];
  const LogScale x{-0.1, std::log10(std::max(last, 2.0)) + 0.1, plot.left, plot.right};
  const LogScale y{std::log10(low / 1.5), std::log10(high * 1.5), plot.bottom, plot.top};
  std::string out = draw_grid(plot, x, y, {"repeats", panel.label});
  for (const Series& s : all_series) {
    std::vector<PicturePoint> points;
    for (const ComparisonRow& row : r.rows)
      points.push_back({x.position(row.labels["repeats"]), y.position(value(s, row))});
    out += draw_polyline(s.competitor, points, dash_style(s));
    for (const PicturePoint& p : points)
      if (!s.predicted)
        out += fmt::format("<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n", s.competitor, p.x, p.y);
  }
  return out;
}

std::string draw_legend(double top) {
  std::string out;
  double left = first_left;
  for (auto s = all_series.rbegin(); s != all_series.rend(); ++s) {
    out += draw_polyline(s->competitor, {{left, top - 4}, {left + 34, top - 4}}, dash_style(*s));
    if (!s->predicted)
      out += fmt::format("<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n", s->competitor, left + 17,
                         top - 4);
    out += draw_text(fmt::format("n{}", s->competitor), {left + 42, top}, s->label);
    left += 42 + text_width(s->label) + 28;
  }
  return out;
}

}  // namespace

std::string repeats_svg(const Comparison& r) {
  const std::string title =
      fmt::format("A repeated cosine of {} f32 elements", group_digits(r.settings["elements"].get<std::int64_t>()));
  std::string out = svg_head(width, height);
  out += fmt::format("<title>{}</title>\n", escape_xml(title)) + curve_styles();
  out += fmt::format("<rect class=\"back\" width=\"{}\" height=\"{}\"/>\n", width, height) +
         draw_text("title", {first_left, 28}, title) +
         draw_text("soft", {first_left, 48},
                   fmt::format("{}, {}; as one kernel, and as one kernel per repeat", r.device,
                               r.settings["kernels"].get<std::string>())) +
         draw_legend(74);
  if (r.rows.empty()) return out + "</svg>\n";
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const double left = first_left + static_cast<double>(i) * (panel_width + panel_gap);
    out += draw_panel(r, panels[i], {left, 96, left + panel_width, height - 58});
  }
  return out + "</svg>\n";
}

}  // namespace ridge

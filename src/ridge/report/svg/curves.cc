#include "ridge/report/svg/curves.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "ridge/base/string_util.h"

namespace ridge {
namespace {

// Okabe and Ito's colours, which colour-blind readers can distinguish. Darker on a light background and lighter on a
// dark one, for a contrast of at least 3:1 (WCAG for graphics).
struct SeriesColour {
  std::string_view on_light, on_dark;
};
constexpr std::array<SeriesColour, series_colours> colours{{{"#0072b2", "#4fa8e0"},
                                                            {"#c24f00", "#f08a4b"},
                                                            {"#00805d", "#2fc79b"},
                                                            {"#b5588f", "#dd93bd"},
                                                            {"#8f6a00", "#e6b33e"},
                                                            {"#5a5f66", "#b4bcc6"}}};

}  // namespace

std::string curve_styles(std::string_view on_light, std::string_view on_dark) {
  std::string light = ".curve{fill:none;stroke-width:2.5;stroke-linejoin:round}\n.dot{stroke-width:2;fill:#ffffff}\n";
  std::string dark = ".dot{fill:#0d1117}\n";
  light += on_light;
  dark += on_dark;
  for (std::size_t i = 0; i < colours.size(); ++i)
    for (auto& [to, colour] : {std::pair{&light, colours[i].on_light}, {&dark, colours[i].on_dark}})
      *to += fmt::format(".s{0}{{stroke:{1}}}\n.n{0}{{fill:{1}}}\n", i, colour);
  return style_sheet(light, dark);
}

double LogScale::position(double value) const { return from + (std::log10(value) - low) / (high - low) * (to - from); }

std::vector<double> tick_values(const LogScale& scale) {
  std::vector<double> out;
  const bool has_fine_ticks = scale.high - scale.low < 4;
  for (int decade = static_cast<int>(std::floor(scale.low)); decade <= std::ceil(scale.high); ++decade)
    for (const int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10.0, decade), at = std::log10(value);
      if ((digit == 1 || has_fine_ticks) && at >= scale.low - 1e-9 && at <= scale.high + 1e-9) out.push_back(value);
    }
  return out;
}

std::string tick_text(double value) {
  const bool is_plain = value >= 1 && value < 1000;
  std::string text = is_plain ? format_significant(value) : format_with_prefix(value, "");
  if (const std::size_t point = text.find('.'); !is_plain && point != std::string::npos)
    text = text.substr(0, point) + text.substr(text.find(' ') + 1);
  return text;
}

std::string draw_grid(const PictureBox& plot, const LogScale& x, const LogScale& y, const AxisNames& axis_names) {
  std::string out;
  for (const double value : tick_values(x))
    out += draw_line("grid", {x.position(value), plot.top}, {x.position(value), plot.bottom}) +
           draw_text("soft", {x.position(value), plot.bottom + 18}, tick_text(value), " text-anchor=\"middle\"");
  for (const double value : tick_values(y))
    out += draw_line("grid", {plot.left, y.position(value)}, {plot.right, y.position(value)}) +
           draw_text("soft", {plot.left - 8, y.position(value) + 4}, tick_text(value), " text-anchor=\"end\"");
  const double middle = (plot.top + plot.bottom) / 2, left = plot.left - 62;
  return out + draw_box("frame", plot) +
         draw_text("soft", {(plot.left + plot.right) / 2, plot.bottom + 38}, axis_names.x, " text-anchor=\"middle\"") +
         draw_text("soft", {left, middle}, axis_names.y,
                   fmt::format(" text-anchor=\"middle\" transform=\"rotate(-90 {:g} {:.1f})\"", left, middle));
}

std::string draw_polyline(std::size_t series, const std::vector<PicturePoint>& points, std::string_view more) {
  std::string text;
  for (const PicturePoint& p : points) text += fmt::format("{:.1f},{:.1f} ", p.x, p.y);
  return fmt::format("<polyline class=\"curve s{}\"{} points=\"{}\"/>\n", series, more, text);
}

}  // namespace ridge

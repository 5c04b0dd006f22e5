// Draws the roofline as SVG: one file without scripts or external fonts, in light or dark mode. The same report gives
// the same bytes.
#include <fmt/format.h>

#include <cmath>

#include "ridge/report/svg/drawing.h"
#include "ridge/report/svg/picture.h"

namespace ridge {

namespace {

constexpr std::string_view on_light = R"(.fine{stroke:#eef1f4;stroke-width:1}
.roof{fill:none;stroke:#0550ae;stroke-width:2.5;stroke-linejoin:round}
.slope{stroke:#0550ae;stroke-width:1.5;stroke-dasharray:8 3}
.ridge{stroke:#0550ae;stroke-width:1;stroke-dasharray:4 4}
.roofname{fill:#0550ae}
.predicted{fill:#ffffff;stroke:#bc4c00;stroke-width:2}
.measured{fill:#bc4c00;stroke:#ffffff;stroke-width:1}
.gap{stroke:#bc4c00;stroke-width:1.5}
.name{font-weight:600;stroke:#ffffff;stroke-width:3px;paint-order:stroke}
)";
constexpr std::string_view on_dark = R"(.fine{stroke:#1c2128}
.roof,.ridge,.slope{stroke:#6cb6ff}
.roofname{fill:#6cb6ff}
.predicted{fill:#0d1117;stroke:#f69d50}
.measured{fill:#f69d50;stroke:#0d1117}
.gap{stroke:#f69d50}
.name{stroke:#0d1117}
)";

std::string draw_circle(std::string_view kind, PicturePoint at, double radius) {
  return fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\"/>\n", kind, at.x, at.y,
                     std::round(10 * radius) / 10);
}

std::string draw_axes(const Picture& p) {
  std::string fine, main, numbers;
  for (const AxisTick& tick : p.x_ticks) {
    (tick.text.empty() ? fine : main) +=
        draw_line(tick.text.empty() ? "fine" : "grid", {tick.position, p.plot.top}, {tick.position, p.plot.bottom});
    if (!tick.text.empty())
      numbers += draw_text("soft", {tick.position, p.plot.bottom + 18}, tick.text, " text-anchor=\"middle\"");
  }
  for (const AxisTick& tick : p.y_ticks) {
    (tick.text.empty() ? fine : main) +=
        draw_line(tick.text.empty() ? "fine" : "grid", {p.plot.left, tick.position}, {p.plot.right, tick.position});
    if (!tick.text.empty())
      numbers += draw_text("soft", {p.plot.left - 8, tick.position + 4}, tick.text, " text-anchor=\"end\"");
  }
  const double middle_x = (p.plot.left + p.plot.right) / 2, middle_y = (p.plot.top + p.plot.bottom) / 2;
  const std::string rotation = fmt::format(" text-anchor=\"middle\" transform=\"rotate(-90 22 {:.1f})\"", middle_y);
  return fine + main + numbers +
         fmt::format("<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", p.plot.left, p.plot.top,
                     p.plot.right - p.plot.left, p.plot.bottom - p.plot.top) +
         draw_text("soft", {middle_x, p.plot.bottom + 38}, "intensity (FLOP/B)", " text-anchor=\"middle\"") +
         draw_text("soft", {22, middle_y}, "attainable (FLOP/s)", rotation);
}

std::string draw_line_label(const LineLabel& label) {
  if (label.text.empty()) return {};
  return draw_text("roofname", label.at, label.text,
                   fmt::format(" transform=\"rotate({:.2f} {:.1f} {:.1f})\"", label.angle, label.at.x, label.at.y));
}

std::string draw_roofs(const Picture& p) {
  std::string out;
  for (const DrawnRoof& roof : p.roofs) {
    if (!roof.text.empty()) out += draw_line("ridge", roof.corner, {roof.corner.x, p.plot.bottom});
    out += fmt::format("<polyline class=\"roof\" points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\"/>\n", roof.from.x,
                       roof.from.y, roof.corner.x, roof.corner.y, roof.to.x, roof.to.y);
  }
  for (const PictureLabel& label : p.roof_labels) out += draw_text("roofname", label.baseline, label.text);
  for (const PictureLabel& label : p.ridge_labels) out += draw_text("roofname", label.baseline, label.text);
  for (const BandwidthLine& slope : p.bandwidth_lines)
    out += draw_line("slope", slope.from, slope.to) + draw_line_label(slope.label);
  return out + draw_line_label(p.bandwidth);
}

// Text widths are estimates, so a name is anchored at the side next to its dot.
std::string draw_name(const PictureLabel& label) {
  if (label.box.right > label.dot_centre.x) return draw_text("name", label.baseline, label.text);
  return draw_text("name", {label.box.right - 2, label.baseline.y}, label.text, " text-anchor=\"end\"");
}

std::string draw_dots(const Picture& p) {
  std::string out;
  for (const PictureLabel& label : p.dot_labels)
    if (label.draw_leader) out += draw_line("leader", label.dot_centre, label.box.closest_point(label.dot_centre));
  for (const PictureDot& dot : p.dots) {
    out += fmt::format("<g><title>{}</title>\n", escape_xml(dot.tip));
    for (const PicturePoint& measured : dot.measured) out += draw_line("gap", dot.predicted, measured);
    out += draw_circle("predicted", dot.predicted, dot.radius);
    for (const PicturePoint& measured : dot.measured) out += draw_circle("measured", measured, 6);
    out += "</g>\n";
  }
  for (const PictureLabel& label : p.dot_labels) out += draw_name(label);
  return out;
}

std::string dashed_lines_meaning(const Picture& p) {
  if (p.bandwidth_lines.empty()) return {};
  if (!p.has_link_dots) return "cache bandwidth";
  const char* const link = "link bandwidth, at FLOPs per byte sent";
  return p.bandwidth_lines.size() > 1 ? std::string("cache bandwidth; ") + link : link;
}

std::string draw_legend(const Picture& p) {
  const double y = p.height - 18;
  std::string out = draw_circle("predicted", {p.plot.left + 6, y - 4}, 6) +
                    draw_text("soft", {p.plot.left + 18, y}, "predicted: at most");
  double x = p.plot.left + 180;
  if (p.measured) {
    out += draw_circle("measured", {x, y - 4}, 6) + draw_text("soft", {x + 12, y}, "measured: median");
    x += 150;
  }
  out += draw_line("roof", {x, y - 4}, {x + 24, y - 4}) + draw_text("soft", {x + 32, y}, "roofs: bandwidth, peak");
  x += 200;
  if (const std::string meaning = dashed_lines_meaning(p); !meaning.empty()) {
    out += draw_line("slope", {x, y - 4}, {x + 24, y - 4}) + draw_text("soft", {x + 32, y}, meaning);
    x += 56 + text_width(meaning);
  }
  if (p.not_drawn.empty()) return out;
  std::string not_drawn_text = "not drawn: " + p.not_drawn.front();
  if (p.not_drawn.size() > 1) not_drawn_text += fmt::format(" and {} more", p.not_drawn.size() - 1);
  return out + draw_text("soft", {x, y}, not_drawn_text);
}

}  // namespace

std::string render_svg(const Report& report) {
  const Picture p = arrange_picture(report);
  std::string out = svg_head(p.width, p.height);
  out += fmt::format("<title>{}</title>\n", escape_xml("Roofline: " + p.title + " " + p.subtitle));
  out += style_sheet(on_light, on_dark);
  out += fmt::format("<rect class=\"back\" width=\"{}\" height=\"{}\"/>\n", p.width, p.height);
  out += draw_text("title", {p.plot.left, 28}, p.title) + draw_text("soft", {p.plot.left, 48}, p.subtitle);
  return out + draw_axes(p) + draw_roofs(p) + draw_dots(p) + draw_legend(p) + "</svg>\n";
}

}  // namespace ridge

// Draws the arranged roofline as SVG: one file, no script, no font to fetch, light or dark as the reader's screen is.
// The same report gives the same bytes.
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

std::string circle(std::string_view kind, Point at, double radius) {
  return fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\"/>\n", kind, at.x, at.y,
                     std::round(10 * radius) / 10);
}

std::string grid(const Picture& p) {
  std::string fine, main, numbers;
  for (const Tick& tick : p.x_ticks) {
    (tick.text.empty() ? fine : main) +=
        line(tick.text.empty() ? "fine" : "grid", {tick.place, p.plot.top}, {tick.place, p.plot.bottom});
    if (!tick.text.empty())
      numbers += text_at("soft", {tick.place, p.plot.bottom + 18}, tick.text, " text-anchor=\"middle\"");
  }
  for (const Tick& tick : p.y_ticks) {
    (tick.text.empty() ? fine : main) +=
        line(tick.text.empty() ? "fine" : "grid", {p.plot.left, tick.place}, {p.plot.right, tick.place});
    if (!tick.text.empty())
      numbers += text_at("soft", {p.plot.left - 8, tick.place + 4}, tick.text, " text-anchor=\"end\"");
  }
  const double middle_x = (p.plot.left + p.plot.right) / 2, middle_y = (p.plot.top + p.plot.bottom) / 2;
  const std::string turn = fmt::format(" text-anchor=\"middle\" transform=\"rotate(-90 22 {:.1f})\"", middle_y);
  return fine + main + numbers +
         fmt::format("<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", p.plot.left, p.plot.top,
                     p.plot.right - p.plot.left, p.plot.bottom - p.plot.top) +
         text_at("soft", {middle_x, p.plot.bottom + 38}, "intensity (FLOP/B)", " text-anchor=\"middle\"") +
         text_at("soft", {22, middle_y}, "attainable (FLOP/s)", turn);
}

std::string along(const Along& label) {
  if (label.text.empty()) return {};
  return text_at("roofname", label.at, label.text,
                 fmt::format(" transform=\"rotate({:.2f} {:.1f} {:.1f})\"", label.angle, label.at.x, label.at.y));
}

std::string roofs(const Picture& p) {
  std::string out;
  for (const DrawnRoof& roof : p.roofs) {
    if (!roof.text.empty()) out += line("ridge", roof.corner, {roof.corner.x, p.plot.bottom});
    out += fmt::format("<polyline class=\"roof\" points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\"/>\n", roof.from.x,
                       roof.from.y, roof.corner.x, roof.corner.y, roof.to.x, roof.to.y);
  }
  for (const Label& label : p.roof_labels) out += text_at("roofname", label.at, label.text);
  for (const Label& label : p.ridge_labels) out += text_at("roofname", label.at, label.text);
  for (const Slope& slope : p.slopes) out += line("slope", slope.from, slope.to) + along(slope.label);
  return out + along(p.bandwidth);
}

// Widths of texts are estimates, so a name ends, or starts, on the side of its dot.
std::string name_of(const Label& label) {
  if (label.box.right > label.from.x) return text_at("name", label.at, label.text);
  return text_at("name", {label.box.right - 2, label.at.y}, label.text, " text-anchor=\"end\"");
}

std::string dots(const Picture& p) {
  std::string out;
  for (const Label& label : p.dot_labels)
    if (label.leader) out += line("leader", label.from, label.box.nearest(label.from));
  for (const Dot& dot : p.dots) {
    out += fmt::format("<g><title>{}</title>\n", escaped(dot.tip));
    for (const Point& measured : dot.measured) out += line("gap", dot.predicted, measured);
    out += circle("predicted", dot.predicted, dot.radius);
    for (const Point& measured : dot.measured) out += circle("measured", measured, 6);
    out += "</g>\n";
  }
  for (const Label& label : p.dot_labels) out += name_of(label);
  return out;
}

std::string legend(const Picture& p) {
  const double y = p.height - 18;
  std::string out = circle("predicted", {p.plot.left + 6, y - 4}, 6) +
                    text_at("soft", {p.plot.left + 18, y}, "predicted: on the roof");
  double x = p.plot.left + 180;
  if (p.measured) {
    out += circle("measured", {x, y - 4}, 6) + text_at("soft", {x + 12, y}, "measured: median");
    x += 150;
  }
  out += line("roof", {x, y - 4}, {x + 24, y - 4}) + text_at("soft", {x + 32, y}, "roofs: bandwidth, peak");
  x += 200;
  if (p.sent) {
    out +=
        line("slope", {x, y - 4}, {x + 24, y - 4}) + text_at("soft", {x + 32, y}, "the link, over FLOPs a byte sent");
    x += 250;
  }
  if (p.not_drawn.empty()) return out;
  std::string left_out = "not drawn: " + p.not_drawn.front();
  if (p.not_drawn.size() > 1) left_out += fmt::format(" and {} more", p.not_drawn.size() - 1);
  return out + text_at("soft", {x, y}, left_out);
}

}  // namespace

std::string render_svg(const Report& report) {
  const Picture p = arrange(report);
  std::string out = svg_head(p.width, p.height);
  out += fmt::format("<title>{}</title>\n", escaped("Roofline: " + p.title + " " + p.subtitle));
  out += style_sheet(on_light, on_dark);
  out += fmt::format("<rect class=\"back\" width=\"{}\" height=\"{}\"/>\n", p.width, p.height);
  out += text_at("title", {p.plot.left, 28}, p.title) + text_at("soft", {p.plot.left, 48}, p.subtitle);
  return out + grid(p) + roofs(p) + dots(p) + legend(p) + "</svg>\n";
}

}  // namespace ridge

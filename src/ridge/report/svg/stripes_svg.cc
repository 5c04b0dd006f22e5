// The rate over the size: predicted as a line, measured as another, and a line down wherever another wave begins.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/text.h"
#include "ridge/report/stripes.h"
#include "ridge/report/svg/curves.h"

namespace ridge {
namespace {

constexpr double width = 760, height = 420;

}  // namespace

std::string render_svg(const Stripes& stripes) {
  const Box plot{70, 40, width - 20, height - 60};
  double most = 0, least = 1e300;
  for (const Stripe& row : stripes.rows) {
    for (const double seconds : {row.predicted_s.expected, row.measured_s.value_or(row.predicted_s.expected)}) {
      most = std::max(most, row.flops / seconds);
      least = std::min(least, row.flops / seconds);
    }
  }
  const auto first = static_cast<double>(stripes.rows.front().size),
             last = static_cast<double>(stripes.rows.back().size);
  const Scale x{std::log10(first), std::log10(std::max(last, first * 1.01)), plot.left, plot.right};
  const Scale y{std::log10(least / 1.1), std::log10(most * 1.1), plot.bottom, plot.top};
  std::string out = svg_head(width, height) + curve_styles() + grid(plot, x, y, {stripes.dim, "FLOP/s"});
  std::vector<Point> predicted, measured;
  const Stripe* before = nullptr;
  for (const Stripe& row : stripes.rows) {
    const double at = x.place(static_cast<double>(row.size));
    predicted.push_back({at, y.place(row.flops / row.predicted_s.expected)});
    if (row.measured_s) measured.push_back({at, y.place(row.flops / *row.measured_s)});
    if (before != nullptr && row.waves != before->waves) {
      out += line("grid", {at, plot.top}, {at, plot.bottom});
      out += text_at("tick", {at + 2, plot.top + 12},
                     fmt::format("{}: {} tiles, {} waves", row.size, row.tiles, row.waves),
                     fmt::format(" transform=\"rotate(90 {:.1f} {:.1f})\"", at + 2, plot.top + 12));
    }
    before = &row;
  }
  out += polyline(0, predicted) + (measured.empty() ? "" : polyline(1, measured));
  out += text_at("n0", {plot.left, 24},
                 fmt::format("{} on {}: predicted{}", stripes.title, stripes.machine_title,
                             measured.empty() ? "" : ", and measured in the second colour"));
  return out + "</svg>\n";
}

}  // namespace ridge

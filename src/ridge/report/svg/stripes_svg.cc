// FLOP/s over one size: a line for the prediction, one for the measurement, and a labelled vertical line wherever the
// number of tiles or waves changes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/report/stripes.h"
#include "ridge/report/svg/curves.h"

namespace ridge {
namespace {

constexpr double stripes_width = 760, stripes_height = 440;
constexpr std::size_t max_named_edges = 12;  // max edges with names

// Returns a step of 1, 2 or 5 times a power of ten, such that four to eight fit.
double axis_step(double max_rate) {
  const double decade = std::pow(10.0, std::floor(std::log10(max_rate / 4)));
  for (const int digit : {5, 2})
    if (digit * decade <= max_rate / 4) return digit * decade;
  return decade;
}

struct LinearScale {
  double low = 0, high = 1, from = 0, to = 1;  // low, high: values; from, to: pixels
  double position(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

std::string draw_axes(const Stripes& stripes, const PictureBox& plot, const LinearScale& x, const LinearScale& y) {
  std::string out;
  const double step = axis_step(y.high);
  for (double value = 0; value <= y.high * (1 + 1e-9); value += step) {
    out += draw_line("grid", {plot.left, y.position(value)}, {plot.right, y.position(value)});
    out += draw_text("tick", {plot.left - 8, y.position(value) + 4}, value > 0 ? tick_text(value) : "0",
                     " text-anchor=\"end\"");
  }
  const std::size_t label_interval = (stripes.rows.size() + 7) / 8;
  for (std::size_t i = 0; i < stripes.rows.size(); i += label_interval) {
    const auto size = static_cast<double>(stripes.rows[i].size);
    out += draw_text("tick", {x.position(size), plot.bottom + 18}, std::to_string(stripes.rows[i].size),
                     " text-anchor=\"middle\"");
  }
  out += draw_box("frame", plot);
  out += draw_text("tick", {(plot.left + plot.right) / 2, plot.bottom + 40}, stripes.dim, " text-anchor=\"middle\"");
  return out + draw_text("tick", {plot.left, plot.top - 8}, "FLOP/s");
}

// Draws the edges (stripes.h). If there are many, only those where the number of waves changes are named.
std::string draw_edges(const Stripes& stripes, const PictureBox& plot, const LinearScale& x) {
  const std::size_t count =
      std::count_if(stripes.rows.begin(), stripes.rows.end(), [](const Stripe& row) { return !row.edge.empty(); });
  std::string out;
  for (std::size_t i = 1; i < stripes.rows.size(); ++i) {
    const Stripe& row = stripes.rows[i];
    if (row.edge.empty()) continue;
    const double at = x.position(static_cast<double>(row.size));
    out += draw_line("grid", {at, plot.top}, {at, plot.bottom});
    if (count > max_named_edges && row.waves == stripes.rows[i - 1].waves) continue;
    const std::string waves = row.waves == stripes.rows[i - 1].waves ? "" : fmt::format(", {} waves", row.waves);
    out += draw_text("tick", {at - 4, plot.bottom - 8}, fmt::format("{}: {} tiles{}", row.size, row.tiles, waves),
                     fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", at - 4, plot.bottom - 8));
  }
  return out;
}

}  // namespace

std::string render_svg(const Stripes& stripes) {
  const PictureBox plot{70, 60, stripes_width - 20, stripes_height - 60};
  double max_rate = 0;
  for (const Stripe& row : stripes.rows)
    for (const double seconds : {row.predicted_s.expected, row.measured_s.value_or(row.predicted_s.expected)})
      max_rate = std::max(max_rate, row.flops / seconds);
  const auto first = static_cast<double>(stripes.rows.front().size),
             last = static_cast<double>(stripes.rows.back().size);
  const LinearScale x{first, std::max(last, first + 1), plot.left, plot.right};
  const LinearScale y{0, max_rate * 1.05, plot.bottom, plot.top};
  std::vector<PicturePoint> predicted, measured;
  for (const Stripe& row : stripes.rows) {
    const double at = x.position(static_cast<double>(row.size));
    predicted.push_back({at, y.position(row.flops / row.predicted_s.expected)});
    if (row.measured_s) measured.push_back({at, y.position(row.flops / *row.measured_s)});
  }
  std::string out = svg_head(stripes_width, stripes_height) + curve_styles() + draw_axes(stripes, plot, x, y) +
                    draw_edges(stripes, plot, x);
  out += draw_polyline(0, predicted) + (measured.empty() ? "" : draw_polyline(1, measured));
  out += draw_text("n0", {plot.left, 24}, fmt::format("{} on {}: predicted", stripes.title, stripes.machine_title));
  if (!measured.empty()) out += draw_text("n1", {plot.right, 24}, "measured", " text-anchor=\"end\"");
  return out + "</svg>\n";
}

}  // namespace ridge

// FLOP/s over one size: a line for the prediction, one for the measurement, and labelled vertical lines where the
// number of tiles or waves changes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/report/stripes.h"
#include "ridge/report/svg/curves.h"

namespace ridge {
namespace {

constexpr double stripes_width = 760, stripes_height = 460;
constexpr std::size_t max_drawn_edges = 12;
constexpr double edge_label_width = 14;  // px across a turned label

// Returns a step of 1, 2 or 5 times a power of ten, such that four to eight fit.
double axis_step(double max_rate) {
  const double decade = std::pow(10.0, std::floor(std::log10(max_rate / 4)));
  for (const int digit : {5, 2})
    if (digit * decade <= max_rate / 4) return digit * decade;
  return decade;
}

// Returns the power of two of which at most eight multiples fit.
double size_step(double range) { return std::exp2(std::max(0.0, std::ceil(std::log2(range / 8)))); }

struct LinearScale {
  double low = 0, high = 1, from = 0, to = 1;  // low, high: values; from, to: pixels
  double position(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

std::string draw_axes(const Stripes& stripes, const PictureBox& plot, const LinearScale& x, const LinearScale& y) {
  std::string out;
  const double step = axis_step(y.high);
  for (double value = 0; value <= y.high * (1 + 1e-9); value += step) {
    out += draw_line("grid", {plot.left, y.position(value)}, {plot.right, y.position(value)});
    out += draw_text("soft", {plot.left - 8, y.position(value) + 4}, value > 0 ? tick_text(value) : "0",
                     " text-anchor=\"end\"");
  }
  const double between = size_step(x.high - x.low);
  for (double size = std::ceil(x.low / between) * between; size <= x.high; size += between)
    out +=
        draw_text("soft", {x.position(size), plot.bottom + 18}, fmt::format("{:.0f}", size), " text-anchor=\"middle\"");
  out += draw_box("frame", plot);
  out += draw_text("soft", {(plot.left + plot.right) / 2, plot.bottom + 40}, stripes.dim, " text-anchor=\"middle\"");
  return out + draw_text("soft", {plot.left, plot.top - 8}, "FLOP/s");
}

struct DrawnEdges {
  std::vector<std::size_t> rows;  // rows where an edge is drawn
  std::size_t all = 0;            // Number of all edges
};

// Chooses the edges (stripes.h) to draw: all if they are few, otherwise those where the number of waves changes, and
// none if those are many, too. Of edges whose labels would touch, only the first is drawn.
DrawnEdges choose_edges(const Stripes& stripes, const LinearScale& x) {
  DrawnEdges out;
  std::vector<std::size_t> waves;
  for (std::size_t i = 1; i < stripes.rows.size(); ++i) {
    if (stripes.rows[i].edge.empty()) continue;
    out.rows.push_back(i);
    if (stripes.rows[i].waves != stripes.rows[i - 1].waves) waves.push_back(i);
  }
  out.all = out.rows.size();
  if (out.rows.size() > max_drawn_edges) out.rows = std::move(waves);
  if (out.rows.size() > max_drawn_edges) out.rows.clear();
  double labelled = -HUGE_VAL;
  std::erase_if(out.rows, [&](std::size_t i) {
    const double at = x.position(static_cast<double>(stripes.rows[i].size));
    if (at - labelled < edge_label_width) return true;
    labelled = at;
    return false;
  });
  return out;
}

// Draws vertical lines with labels on their right.
std::string draw_edges(const Stripes& stripes, const DrawnEdges& edges, const PictureBox& plot, const LinearScale& x) {
  std::string out;
  for (const std::size_t i : edges.rows) {
    const Stripe& row = stripes.rows[i];
    const double at = x.position(static_cast<double>(row.size)), baseline = at + 12;
    out += draw_line("leader", {at, plot.top}, {at, plot.bottom});
    std::string waves;
    if (row.waves != stripes.rows[i - 1].waves)
      waves = fmt::format(", {} wave{}", row.waves, row.waves == 1 ? "" : "s");
    out += draw_text("soft", {baseline, plot.bottom - 8}, fmt::format("{}: {} tiles{}", row.size, row.tiles, waves),
                     fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", baseline, plot.bottom - 8));
  }
  return out;
}

std::string draw_header(const Stripes& stripes, bool is_measured, std::size_t undrawn_edges, const PictureBox& plot) {
  std::string out = draw_text("title", {plot.left, 26}, truncate_text(stripes.title, 90)) +
                    draw_text("soft", {plot.left, 46}, "on " + stripes.machine_title);
  out += draw_text("n0", {plot.right - (is_measured ? 90 : 0), 46}, "predicted", " text-anchor=\"end\"");
  if (is_measured) out += draw_text("n1", {plot.right, 46}, "measured", " text-anchor=\"end\"");
  if (undrawn_edges == 0) return out;
  return out + draw_text("soft", {plot.left, stripes_height - 12},
                         fmt::format("{} changes of kernel, tiles or waves are not drawn; the table lists them",
                                     undrawn_edges));
}

}  // namespace

std::string render_svg(const Stripes& stripes) {
  const PictureBox plot{70, 78, stripes_width - 20, stripes_height - 78};
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
  const DrawnEdges edges = choose_edges(stripes, x);
  std::string out = svg_head(stripes_width, stripes_height) + curve_styles() + draw_axes(stripes, plot, x, y) +
                    draw_edges(stripes, edges, plot, x);
  out += draw_polyline(0, predicted) + (measured.empty() ? "" : draw_polyline(1, measured));
  out += draw_header(stripes, !measured.empty(), edges.all - edges.rows.size(), plot);
  return out + "</svg>\n";
}

}  // namespace ridge

// The rate over the size: predicted as a line, measured as another, and a line down wherever other tiles or another
// wave begin, with what begins there.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/text.h"
#include "ridge/report/stripes.h"
#include "ridge/report/svg/curves.h"

namespace ridge {
namespace {

constexpr double width = 760, height = 440;
constexpr std::size_t most_named = 12;  // edges that have room for their names

// From 0 in steps of 1, 2 or 5 times a power of ten, four to eight of them.
double step_of(double most) {
  const double decade = std::pow(10.0, std::floor(std::log10(most / 4)));
  for (const int digit : {5, 2})
    if (digit * decade <= most / 4) return digit * decade;
  return decade;
}

struct Linear {
  double low = 0, high = 1, from = 0, to = 1;  // values, pixels
  double place(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

std::string axes(const Stripes& stripes, const Box& plot, const Linear& x, const Linear& y) {
  std::string out;
  const double step = step_of(y.high);
  for (double value = 0; value <= y.high * (1 + 1e-9); value += step) {
    out += line("grid", {plot.left, y.place(value)}, {plot.right, y.place(value)});
    out += text_at("tick", {plot.left - 8, y.place(value) + 4}, value > 0 ? tick_text(value) : "0",
                   " text-anchor=\"end\"");
  }
  const std::size_t every = (stripes.rows.size() + 7) / 8;
  for (std::size_t i = 0; i < stripes.rows.size(); i += every) {
    const auto size = static_cast<double>(stripes.rows[i].size);
    out += text_at("tick", {x.place(size), plot.bottom + 18}, std::to_string(stripes.rows[i].size),
                   " text-anchor=\"middle\"");
  }
  out += box("frame", plot);
  out += text_at("tick", {(plot.left + plot.right) / 2, plot.bottom + 40}, stripes.dim, " text-anchor=\"middle\"");
  return out + text_at("tick", {plot.left, plot.top - 8}, "FLOP/s");
}

// What begins at each edge (stripes.h); a wave's name stands where tiles' have no room.
std::string edges(const Stripes& stripes, const Box& plot, const Linear& x) {
  const auto count = static_cast<std::size_t>(
      std::count_if(stripes.rows.begin(), stripes.rows.end(), [](const Stripe& row) { return !row.edge.empty(); }));
  std::string out;
  for (std::size_t i = 1; i < stripes.rows.size(); ++i) {
    const Stripe& row = stripes.rows[i];
    if (row.edge.empty()) continue;
    const double at = x.place(static_cast<double>(row.size));
    out += line("grid", {at, plot.top}, {at, plot.bottom});
    if (count > most_named && row.waves == stripes.rows[i - 1].waves) continue;
    const std::string waves = row.waves == stripes.rows[i - 1].waves ? "" : fmt::format(", {} waves", row.waves);
    out += text_at("tick", {at - 4, plot.bottom - 8}, fmt::format("{}: {} tiles{}", row.size, row.tiles, waves),
                   fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", at - 4, plot.bottom - 8));
  }
  return out;
}

}  // namespace

std::string render_svg(const Stripes& stripes) {
  const Box plot{70, 60, width - 20, height - 60};
  double most = 0;
  for (const Stripe& row : stripes.rows)
    for (const double seconds : {row.predicted_s.expected, row.measured_s.value_or(row.predicted_s.expected)})
      most = std::max(most, row.flops / seconds);
  const auto first = static_cast<double>(stripes.rows.front().size),
             last = static_cast<double>(stripes.rows.back().size);
  const Linear x{first, std::max(last, first + 1), plot.left, plot.right};
  const Linear y{0, most * 1.05, plot.bottom, plot.top};
  std::vector<Point> predicted, measured;
  for (const Stripe& row : stripes.rows) {
    const double at = x.place(static_cast<double>(row.size));
    predicted.push_back({at, y.place(row.flops / row.predicted_s.expected)});
    if (row.measured_s) measured.push_back({at, y.place(row.flops / *row.measured_s)});
  }
  std::string out = svg_head(width, height) + curve_styles() + axes(stripes, plot, x, y) + edges(stripes, plot, x);
  out += polyline(0, predicted) + (measured.empty() ? "" : polyline(1, measured));
  out += text_at("n0", {plot.left, 24}, fmt::format("{} on {}: predicted", stripes.title, stripes.machine_title));
  if (!measured.empty()) out += text_at("n1", {plot.right, 24}, "measured", " text-anchor=\"end\"");
  return out + "</svg>\n";
}

}  // namespace ridge

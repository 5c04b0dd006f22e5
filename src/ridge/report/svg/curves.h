// Shared parts of log-log plots: colours, scales, ticks and the grid with its numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridge/report/svg/drawing.h"

namespace ridge {

// Returns the CSS of six series (s0 to s5 for strokes, n0 to n5 for fills) and the picture's own rules.
inline constexpr std::size_t series_colours = 6;
std::string curve_styles(std::string_view on_light = "", std::string_view on_dark = "");

struct LogScale {
  double low = 0, high = 1, from = 0, to = 1;  // low, high: decades; from, to: pixels
  double position(double value) const;
};
// Returns 1, 2 and 5 of every decade if there are fewer than four decades, else powers of ten.
std::vector<double> tick_values(const LogScale& scale);
std::string tick_text(double value);  // "1", "500", "2k", "10m"

// Draws grid, numbers, frame and axis names.
struct AxisNames {
  std::string x, y;
};
std::string draw_grid(const PictureBox& plot, const LogScale& x, const LogScale& y, const AxisNames& axis_names);

// Returns a line through points in pixels; `more` are further attributes.
std::string draw_polyline(std::size_t series, const std::vector<PicturePoint>& points, std::string_view more = "");

}  // namespace ridge

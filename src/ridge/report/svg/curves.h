// What pictures of curves share, log over log: colours, a scale, its ticks, the grid with its numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridge/report/svg/drawing.h"

namespace ridge {

// The rules of six series: s0 … s5 stroke, n0 … n5 fill. With `on_light` and `on_dark`, the picture's own.
inline constexpr std::size_t series_colours = 6;
std::string curve_styles(std::string_view on_light = "", std::string_view on_dark = "");

struct Scale {
  double low = 0, high = 1, from = 0, to = 1;  // decades, pixels
  double place(double value) const;
};
// 1, 2 and 5 of every decade where they are few, whole decades else.
std::vector<double> ticks(const Scale& scale);
std::string tick_text(double value);  // "1", "500", "2k", "10m"

// Grid, numbers, frame and what is drawn along x and y.
struct AxisNames {
  std::string x, y;
};
std::string grid(const Box& plot, const Scale& x, const Scale& y, const AxisNames& called);

// A line through points that are in pixels.
std::string polyline(std::size_t series, const std::vector<Point>& points, std::string_view more = "");

}  // namespace ridge

#include "ridge/report/svg/placer.h"

#include <algorithm>
#include <cmath>

namespace ridge {
namespace {

double distance_to(const PictureBox& box, PicturePoint p) {
  const PicturePoint nearest = box.closest_point(p);
  return std::hypot(p.x - nearest.x, p.y - nearest.y);
}

double distance_to_line(PicturePoint p, PicturePoint a, PicturePoint b) {
  const double dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
  const double along = square > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / square, 0.0, 1.0) : 0;
  return std::hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

}  // namespace

PictureBox text_box(PicturePoint start, const std::string& text, bool bold) {
  return {start.x - 2, start.y - 12, start.x + 2 + text_width(text, bold), start.y + 4};
}

void LabelPlacer::block_line(PicturePoint a, PicturePoint b) {
  const double length = std::hypot(b.x - a.x, b.y - a.y);
  const int steps = std::max(1, static_cast<int>(length / 4));
  for (int i = 0; i <= steps; ++i) {
    const double x = a.x + (b.x - a.x) * i / steps, y = a.y + (b.y - a.y) * i / steps;
    block_box({x - 2, y - 2, x + 2, y + 2});
  }
}

bool LabelPlacer::is_free(const PictureBox& box) const {
  if (box.left < bounds_.left || box.right > bounds_.right || box.top < bounds_.top || box.bottom > bounds_.bottom)
    return false;
  return std::none_of(taken_.begin(), taken_.end(), [&](const PictureBox& other) { return box.overlaps(other); });
}

bool LabelPlacer::reserve(const PictureBox& box) {
  if (!is_free(box)) return false;
  block_box(box);
  return true;
}

std::optional<PictureLabel> LabelPlacer::place_label(const std::string& text, PicturePoint from, bool bold,
                                                     const std::vector<PicturePoint>& others, double radius) {
  const double min_distance = radius + 4;
  constexpr double min_line_distance = 28;  // px
  if (auto clear = try_place_around({text, from, bold, others, Separation::by_distance, radius}, min_distance, 40))
    return clear;
  auto label = try_place_around({text, from, bold, others, Separation::by_line, radius}, min_line_distance, 120);
  if (!label) label = try_place_around({text, from, bold, {}, Separation::by_line, radius}, min_line_distance, 420);
  if (label) label->draw_leader = true;
  return label;
}

bool LabelPlacer::is_nearest_to_own_dot(const PictureBox& box, const LabelRequest& request) {
  constexpr double margin = 8;  // px
  const double own_distance = distance_to(box, request.from);
  const PicturePoint end = box.closest_point(request.from);
  return std::none_of(request.others.begin(), request.others.end(), [&](const PicturePoint& other) {
    if (request.separation == Separation::by_distance) return distance_to(box, other) < own_distance + margin;
    return distance_to_line(other, request.from, end) < margin;
  });
}

std::optional<PictureLabel> LabelPlacer::try_place_around(const LabelRequest& request, double nearest,
                                                          double farthest) {
  const std::string& text = request.text;
  const PicturePoint from = request.from;
  const bool bold = request.bold;
  const double width = text_width(text, bold);
  for (double distance = nearest; distance < farthest; distance += 9) {
    for (int turn = 0; turn < 16; ++turn) {
      // Right first, then alternately above and below, left last.
      const double angle = (turn % 2 ? 1 : -1) * ((turn + 1) / 2) * 3.14159265358979 / 8;
      const PicturePoint middle{from.x + distance * std::cos(angle), from.y + distance * std::sin(angle)};
      const double side = std::cos(angle);
      double left = middle.x - width / 2;
      if (side > 0.3) left = middle.x;
      if (side < -0.3) left = middle.x - width;
      const PicturePoint start{std::round(left), std::round(middle.y + 4 + line_height / 2 * std::sin(angle))};
      const PictureBox box = text_box(start, text, bold);
      if (!is_nearest_to_own_dot(box, request) || !reserve(box)) continue;
      return PictureLabel{text, box, start, from, distance > request.radius + 14};
    }
  }
  return std::nullopt;
}

}  // namespace ridge

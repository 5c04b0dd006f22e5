#include "ridge/report/svg/placer.h"

#include <algorithm>
#include <cmath>

namespace ridge {
namespace {

double distance_to(const Box& box, Point p) {
  const Point nearest = box.nearest(p);
  return std::hypot(p.x - nearest.x, p.y - nearest.y);
}

double distance_to_line(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
  const double along = square > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / square, 0.0, 1.0) : 0;
  return std::hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

}  // namespace

Box text_box(Point start, const std::string& text, bool bold) {
  return {start.x - 2, start.y - 12, start.x + 2 + text_width(text, bold), start.y + 4};
}

void Placer::block_line(Point a, Point b) {
  const double length = std::hypot(b.x - a.x, b.y - a.y);
  const int pieces = std::max(1, static_cast<int>(length / 4));
  for (int i = 0; i <= pieces; ++i) {
    const double x = a.x + (b.x - a.x) * i / pieces, y = a.y + (b.y - a.y) * i / pieces;
    block({x - 2, y - 2, x + 2, y + 2});
  }
}

bool Placer::free(const Box& box) const {
  if (box.left < bounds_.left || box.right > bounds_.right || box.top < bounds_.top || box.bottom > bounds_.bottom)
    return false;
  return std::none_of(taken_.begin(), taken_.end(), [&](const Box& other) { return box.overlaps(other); });
}

bool Placer::take(const Box& box) {
  if (!free(box)) return false;
  block(box);
  return true;
}

std::optional<Label> Placer::put(const std::string& text, Point from, bool bold, const std::vector<Point>& others,
                                 double radius) {
  const double near = radius + 4;
  constexpr double line_shows_from = 28;  // px
  if (auto clear = around({text, from, bold, others, Apart::by_distance, radius}, near, 40)) return clear;
  auto label = around({text, from, bold, others, Apart::by_a_line, radius}, line_shows_from, 120);
  if (!label) label = around({text, from, bold, {}, Apart::by_a_line, radius}, line_shows_from, 420);
  if (label) label->leader = true;
  return label;
}

bool Placer::is_clear(const Box& box, const Wanted& wanted) {
  constexpr double margin = 8;  // px
  const double own = distance_to(box, wanted.from);
  const Point end = box.nearest(wanted.from);
  return std::none_of(wanted.others.begin(), wanted.others.end(), [&](const Point& other) {
    if (wanted.apart == Apart::by_distance) return distance_to(box, other) < own + margin;
    return distance_to_line(other, wanted.from, end) < margin;
  });
}

std::optional<Label> Placer::around(const Wanted& wanted, double nearest, double farthest) {
  const std::string& text = wanted.text;
  const Point from = wanted.from;
  const bool bold = wanted.bold;
  const double width = text_width(text, bold);
  for (double distance = nearest; distance < farthest; distance += 9) {
    for (int turn = 0; turn < 16; ++turn) {
      // Right first, then above and below in turn, left last.
      const double angle = (turn % 2 ? 1 : -1) * ((turn + 1) / 2) * 3.14159265358979 / 8;
      const Point middle{from.x + distance * std::cos(angle), from.y + distance * std::sin(angle)};
      const double side = std::cos(angle);
      double left = middle.x - width / 2;
      if (side > 0.3) left = middle.x;
      if (side < -0.3) left = middle.x - width;
      const Point start{std::round(left), std::round(middle.y + 4 + line_height / 2 * std::sin(angle))};
      const Box box = text_box(start, text, bold);
      if (!is_clear(box, wanted) || !take(box)) continue;
      return Label{text, box, start, from, distance > wanted.radius + 14};
    }
  }
  return std::nullopt;
}

}  // namespace ridge

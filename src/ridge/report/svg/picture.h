// Where everything of a roofline picture stands, before it is drawn: so that a test can ask whether two labels overlap.
// Coordinates are SVG's, y downwards. Operations that share a point share a label: two matmuls of one shape are "g, u".
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/report/report.h"

namespace ridge {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool overlaps(const Box& o) const { return left < o.right && o.left < right && top < o.bottom && o.top < bottom; }
  // Its point that lies nearest to p.
  Point nearest(Point p) const { return {std::clamp(p.x, left, right), std::clamp(p.y, top, bottom)}; }
};

struct Label {
  std::string text;
  Box box;
  Point at;             // the baseline's start
  Point from;           // the dot that it belongs to
  bool leader = false;  // a thin line joins the two
};

struct Dot {
  std::string tip;  // all that is known of it, for <title>
  Point predicted;  // on the roof
  double radius = 6;
  std::vector<Point> measured;
};

struct Tick {
  double place = 0;
  std::string text;  // empty: a line without a number
};

struct DrawnRoof {
  Point from, corner, to;  // up the bandwidth, along the peak
  std::string text;        // "197 TFLOP/s bf16 matrix"
};

// A text that runs along a line, above it.
struct Along {
  std::string text;  // empty: there was no room
  Point at;
  double angle = 0;  // degrees
  std::vector<Box> boxes = {};
};

// Another rate of moving than the memory's: of the link, where something is sent, and of caches where they are asked
// for.
struct Slope {
  Point from, to;
  Along label;
};

struct Picture {
  double width = 960, height = 600;
  Box plot;
  std::string title, subtitle;
  std::vector<Tick> x_ticks, y_ticks;
  Along bandwidth;  // "819 GB/s hbm"
  std::vector<DrawnRoof> roofs;
  std::vector<Slope> slopes;
  std::vector<Label> roof_labels, ridge_labels, dot_labels;
  std::vector<Dot> dots;
  std::vector<std::string> not_drawn;   // operations without numbers, and why
  bool measured = false, sent = false;  // sent: a dot stands on the link's roof, over the FLOPs a byte that is sent
};

struct Roofline;  // roofline.h
Picture arrange(const Roofline& roofline);
Picture arrange(const Report& report);

// Pixels that a label takes at most, by classes of characters: a bold W is three times as wide as an i.
double text_width(std::string_view text, bool bold = false);

}  // namespace ridge

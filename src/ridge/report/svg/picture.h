// Layout of a roofline picture, separate from drawing, so that tests can check whether labels overlap. SVG coordinates,
// y downwards. Operations at one point share a label: two matmuls of one shape are "g, u", and a kernel of two
// statements beside another one is "g, u; y".
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/report/report.h"

namespace ridge {

struct PicturePoint {
  double x = 0, y = 0;
};

struct PictureBox {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool overlaps(const PictureBox& o) const {
    return left < o.right && o.left < right && top < o.bottom && o.top < bottom;
  }
  // Returns the point of the box that is closest to p.
  PicturePoint closest_point(PicturePoint p) const {
    return {std::clamp(p.x, left, right), std::clamp(p.y, top, bottom)};
  }
};

struct PictureLabel {
  std::string text;
  PictureBox box;
  PicturePoint baseline;     // Start of the baseline
  PicturePoint dot_centre;   // Centre of the dot that it names
  bool draw_leader = false;  // Draw a thin line from dot to label
};

struct PictureDot {
  std::string tip;         // description of the operation, for <title>
  PicturePoint predicted;  // point on the roof
  double radius = 6;
  std::vector<PicturePoint> measured;
};

struct AxisTick {
  double position = 0;
  std::string text;  // label; empty for a minor tick
};

struct DrawnRoof {
  PicturePoint from, corner, to;  // `corner` is the ridge point
  std::string text;               // "197 TFLOP/s bf16 matrix"
};

// Text that is rotated along a line.
struct LineLabel {
  std::string text;  // label; empty if there is no space
  PicturePoint at;
  double angle = 0;  // degrees
  std::vector<PictureBox> boxes = {};
};

// A bandwidth other than the memory's: the link's if something is sent, and the caches' if requested.
struct BandwidthLine {
  PicturePoint from, to;
  LineLabel label;
};

struct Picture {
  double width = 960, height = 600;
  PictureBox plot;
  std::string title, subtitle;
  std::vector<AxisTick> x_ticks, y_ticks;
  LineLabel bandwidth;  // "819 GB/s hbm"
  std::vector<DrawnRoof> roofs;
  std::vector<BandwidthLine> bandwidth_lines;
  std::vector<PictureLabel> roof_labels, ridge_labels, dot_labels;
  std::vector<PictureDot> dots;
  std::vector<std::string> not_drawn;  // operations without numbers, and the reason
  bool measured = false;               // The report is from a run
  bool has_link_dots = false;          // Some dot is on the link's roof, at FLOPs per byte sent
};

struct Roofline;  // roofline.h
Picture arrange_picture(const Roofline& roofline);
Picture arrange_picture(const Report& report);

// Returns an upper bound on the width of a label in pixels, by classes of characters: a bold W is 3 times as wide as i.
double text_width(std::string_view text, bool bold = false);

}  // namespace ridge

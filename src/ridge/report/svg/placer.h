// Finds places for labels: each tries places around its dot, nearest first, and takes the first that touches no other
// label, no dot and no roof; a place further off is joined to its dot by a thin line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/report/svg/picture.h"

namespace ridge {

inline constexpr double font_size = 13, line_height = 15, dot_radius = 6;  // px

// What a text takes whose baseline starts there.
Box text_box(Point start, const std::string& text, bool bold = false);

class Placer {
 public:
  explicit Placer(const Box& bounds) : bounds_(bounds) {}

  void block(const Box& box) { taken_.push_back(box); }
  void block_line(Point a, Point b);
  bool free(const Box& box) const;
  bool take(const Box& box);  // false: it is not free

  // Nearest free place around a dot so large at `from` that is clearly nearer to it than to `others`; else one to which
  // a line leads past the others, else any. Nothing where there is no place at all.
  std::optional<Label> put(const std::string& text, Point from, bool bold = false,
                           const std::vector<Point>& others = {}, double radius = dot_radius);

 private:
  enum class Apart { by_distance, by_a_line };
  struct Wanted {
    const std::string& text;
    Point from;
    bool bold;
    const std::vector<Point>& others;
    Apart apart;
    double radius;  // of the dot, px
  };
  static bool is_clear(const Box& box, const Wanted& wanted);
  std::optional<Label> around(const Wanted& wanted, double nearest, double farthest);

  Box bounds_;
  std::vector<Box> taken_;
};

}  // namespace ridge

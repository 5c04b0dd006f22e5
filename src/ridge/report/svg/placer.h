// Places labels: each label tries positions around its dot, nearest first, and takes the first that touches no other
// label, dot or roof. A thin line joins a distant label to its dot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/report/svg/picture.h"

namespace ridge {

inline constexpr double font_size = 13, line_height = 15, dot_radius = 6;  // px

// Returns the bounding box of a text whose baseline begins at `start`.
PictureBox text_box(PicturePoint start, const std::string& text, bool bold = false);

class LabelPlacer {
 public:
  explicit LabelPlacer(const PictureBox& bounds) : bounds_(bounds) {}

  void block_box(const PictureBox& box) { taken_.push_back(box); }
  void block_line(PicturePoint a, PicturePoint b);
  bool is_free(const PictureBox& box) const;
  bool reserve(const PictureBox& box);  // reserves the box; false if it is not free

  // Reserves and returns the nearest free position around the dot at `from` that is clearly closer to it than to
  // `others`; else one whose leader line passes no other dot; else any. Returns nullopt if no position is free.
  std::optional<PictureLabel> place_label(const std::string& text, PicturePoint from, bool bold = false,
                                          const std::vector<PicturePoint>& others = {}, double radius = dot_radius);

 private:
  enum class Separation { by_distance, by_line };
  struct LabelRequest {
    const std::string& text;
    PicturePoint from;
    bool bold;
    const std::vector<PicturePoint>& others;
    Separation separation;
    double radius;  // the dot's, px
  };
  static bool is_nearest_to_own_dot(const PictureBox& box, const LabelRequest& request);
  std::optional<PictureLabel> try_place_around(const LabelRequest& request, double nearest, double farthest);

  PictureBox bounds_;
  std::vector<PictureBox> taken_;
};

}  // namespace ridge

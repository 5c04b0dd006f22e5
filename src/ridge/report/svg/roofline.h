// Contents of a roofline picture without positions: roofs, dots and the decades of its axes. The SVG of the command
// line (picture.h) and the picture in the page (report/page) are drawn from this alone. When sizes change, the page
// computes the same description again (page/description.js).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ridge/report/report.h"

namespace ridge {

struct RooflineDot {                         // an operation whose numbers are known
  std::string name;                          // "g, u, h" for statements in one kernel
  std::string tip;                           // description for the tooltip
  double intensity = 0;                      // FLOP/B; if network-bound, FLOPs per byte sent
  double rate = 0;                           // attainable, FLOP/s
  std::optional<double> time_fraction = {};  // Belongs to the program
  std::optional<double> measured = {};       // FLOP/s
  bool network_bound = false;
};

struct Roofline {
  std::string title, subtitle;
  int x_low = 0, x_high = 1, y_low = 0, y_high = 1;  // decades, FLOP/B and FLOP/s
  double bandwidth = 0;                              // B/s; 0 if unknown, then nothing is drawn
  std::string bandwidth_name;                        // "819.0 GB/s hbm"
  struct Rate {
    double rate = 0;
    std::string name;
  };
  std::vector<Rate> peaks;             // FLOP/s: "197.0 TFLOP/s matrix bf16"
  std::vector<Rate> other_bandwidths;  // B/s of the link if something is sent, and of caches if requested
  std::vector<RooflineDot> dots;
  std::vector<std::string> not_drawn;  // operations without numbers, and the reason
  bool measured = false;               // The report is from a run
  bool has_link_dots = false;          // Some dot is on the link's roof
};

Roofline describe_roofline(const Report& report);

// Returns the radius of a dot in pixels; its area grows with the fraction of the time.
double dot_radius_px(const std::optional<double>& time_fraction);

}  // namespace ridge

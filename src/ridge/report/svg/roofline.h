// What a roofline picture shows, before anything has a place: roofs, dots and the decades of its axes. The SVG of the
// command line (picture.h) and the picture in the page (report/page) are drawn from this and from nothing else; where
// sizes move, the page makes the same description anew (page/description.js).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ridge/report/report.h"

namespace ridge {

struct RooflineDot {  // an operation with numbers
  std::string name;
  std::string tip;                      // all that is known of it
  double intensity = 0;                 // FLOP/B; where the network binds: FLOPs for each byte that is sent
  double rate = 0;                      // attainable, FLOP/s
  std::optional<double> share = {};     // of the program's time
  std::optional<double> measured = {};  // FLOP/s
  bool sent = false;                    // the network binds
};

struct Roofline {
  std::string title, subtitle;
  int x_low = 0, x_high = 1, y_low = 0, y_high = 1;  // decades of FLOP/B and of FLOP/s
  double bandwidth = 0;                              // B/s; 0: there is none, and nothing is drawn
  std::string bandwidth_name;                        // "819.0 GB/s hbm"
  struct Rate {
    double rate = 0;
    std::string name;
  };
  std::vector<Rate> peaks;   // FLOP/s: "197.0 TFLOP/s matrix bf16"
  std::vector<Rate> slopes;  // B/s, beside the memory's: the link's where something is sent, caches' if asked for
  std::vector<RooflineDot> dots;
  std::vector<std::string> not_drawn;   // operations without numbers, and why
  bool measured = false, sent = false;  // of a run; a dot stands on the link's roof
};

Roofline describe(const Report& report);

// Pixels from a dot's middle to its edge; its area grows with the share of the time.
double radius_of(const std::optional<double>& share);

}  // namespace ridge

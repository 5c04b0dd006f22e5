// A product's rate against one size: where another row of tiles or another wave begins, it falls. Predicted, and
// measured where it was run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/plan/predict.h"
#include "ridge/report/table.h"

namespace ridge {

struct Stripe {
  std::int64_t size = 0;
  std::string kernel;  // "256x128" where the tile was given
  std::int64_t tiles = 0, waves = 0;
  double flops = 0;
  Interval predicted_s = {};
  std::optional<double> measured_s = {};
  std::string edge = {};  // what begins here: "120 tiles where there were 98: wave 2 begins"; empty: nothing
};
struct Stripes {
  std::string title, machine, machine_title, dim;
  std::int64_t cores = 0;
  std::vector<Stripe> rows = {};
};

// Says where tiles and waves begin, of rows in the order of their sizes.
void name_edges(Stripes& stripes);

std::string render_text(const Stripes& stripes);
std::string render_json(const Stripes& stripes);  // "ridge.stripes/1"
std::string render_svg(const Stripes& stripes);

}  // namespace ridge

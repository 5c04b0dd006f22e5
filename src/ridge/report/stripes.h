// A product's rate as a function of one size. The rate drops where another row of tiles or another wave begins.
// Predicted, and measured if it was run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/plan/predict.h"
#include "ridge/report/table.h"

namespace ridge {

struct Stripe {
  std::int64_t size = 0;
  std::string kernel;  // the plan's, or the tile of the library's kernel: "256x128 split-K 2"
  std::int64_t tiles = 0, waves = 0;
  double flops = 0;
  Interval predicted_s = {};
  std::optional<double> measured_s = {};
  std::string edge = {};  // change from the row before: "120 tiles instead of 98, 2 waves (was 1)"; empty if none
};
struct Stripes {
  std::string title, machine, machine_title, dim;
  std::int64_t cores = 0;
  std::vector<Stripe> rows = {};
  std::string remark = {};  // reason why the intervals are wide; may be empty
};

// Sets `edge` of each row; the rows must be sorted by size.
void describe_edges(Stripes& stripes);

std::string render_text(const Stripes& stripes, const TextStyle& style = {});
std::string render_json(const Stripes& stripes);  // "ridge.stripes/1"
std::string render_svg(const Stripes& stripes);

}  // namespace ridge

// Layouts of a language model on chips as text, JSON and a plot of throughput against latency.
#pragma once

#include <string>
#include <vector>

#include "ridge/model/count.h"
#include "ridge/plan/model/layouts.h"
#include "ridge/report/table.h"

namespace ridge {

// The rankings of one request. `rankings` has one at least, and one of them has numbers.
struct LayoutReport {
  const model::ModelCount& count;
  const LayoutRequest& request;
  const std::vector<LayoutRanking>& rankings;
};

std::string render_text(const LayoutReport& report, const TextStyle& style = {});
std::string render_json(const LayoutReport& report);  // "ridge.model/1" with `layouts`
// Plots the tokens per second of a chip over those of a sequence, a curve for each machine.
std::string render_svg(const LayoutReport& report);

// "--tp 8 --dp 2"; ranks of 1 are left out, but for "--tp 1" alone.
std::string describe_layout(const model::ChipLayout& layout);
// "8 x h200"
std::string describe_chips(const LayoutTimes& layout);

}  // namespace ridge

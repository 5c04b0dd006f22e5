// Layouts of training steps on chips as text and JSON.
#pragma once

#include <string>
#include <vector>

#include "ridge/model/count.h"
#include "ridge/plan/model/training_layouts.h"
#include "ridge/report/table.h"

namespace ridge {

// The rankings of one request. `rankings` has one at least, and one of them has numbers.
struct TrainingLayoutReport {
  const model::ModelCount& count;
  const TrainingLayoutRequest& request;
  const std::vector<TrainingRanking>& rankings;
};

std::string render_text(const TrainingLayoutReport& report, const TextStyle& style = {});
std::string render_json(const TrainingLayoutReport& report);  // "ridge.model/1" with `layouts`

}  // namespace ridge

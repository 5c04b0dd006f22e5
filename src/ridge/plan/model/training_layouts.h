// Search among the layouts of a training step on a number of chips: tensor, pipeline, data and expert ranks, and parts
// of the batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/plan/model/training.h"

namespace ridge {

struct TrainingLayoutRequest {
  TrainingRequest training = {};  // Its ranks are not used; without parts of the batch, each layout has the fastest
  std::vector<std::int64_t> chips = {};
  bool is_chip_range = false;  // If set, counts that neither are a power of two nor divide the heads are skipped
  bool is_best_of_each_count = false;  // If set, only the best layout of each number of chips is kept
};

// The layouts of one machine.
struct TrainingRanking {
  std::string machine;
  std::string unavailable = {};  // Reason why there are no numbers; all others are then empty
  // Layouts that fit: those with the most tokens per second and chip first, or in the order of chips
  std::vector<TrainingStep> layouts = {};
  std::vector<TrainingStep> unfit = {};  // Layouts that do not fit, those with the least memory first
  std::int64_t without_numbers = 0;      // Number of layouts that have none, such as those without a link
  std::string first_error = {};          // Reason for the first of these
};

// Predicts the bounds of all layouts of these chips. `programs` are those of the same config and request. Errors: those
// of `predict_training`, chips that no layout has.
Result<TrainingRanking> rank_training_layouts(const model::ModelConfig& config, const TrainingLayoutRequest& request,
                                              const Machine& machine, TrainingProgramCache& programs);

}  // namespace ridge

// Options of ridge model for training.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "ridge/api/facade.h"
#include "ridge/cli/model_layouts.h"
#include "ridge/cli/output.h"

namespace ridge::cli {

struct TrainingArgs {
  std::string recompute = "attention", tokens;
  std::int64_t zero_stage = 0;
  std::optional<std::int64_t> accumulated;
  std::optional<double> utilisation;
};

inline constexpr std::string_view training_phase = "train";

void add_training_options(CLI::App& verb, TrainingArgs& args);
// Errors: an option of training in another phase, or one that training does not use.
Status check_training_options(const CLI::App& verb, const std::string& phase, const TrainingArgs& args);
// Returns a number of tokens such as 1e12, 300B or 15T. Errors: other texts.
Result<double> parse_token_count(const std::string& text);
// Predicts and prints training. `request` has the options that training shares with other phases.
Result<int> print_training(const std::string& config, TrainingRequest request, const TrainingArgs& args,
                           const std::vector<std::string>& machines, const model::ModelCount& count,
                           const OutputFormat& format);

// Ranks and prints layouts of training steps.
Result<int> print_training_layouts(const LayoutSubject& subject, TrainingRequest request, const TrainingArgs& args,
                                   const LayoutArgs& layouts, const OutputFormat& format);

}  // namespace ridge::cli

#include "ridge/cli/model_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ridge/cli/option_checks.h"
#include "ridge/report/language_model/training.h"
#include "ridge/report/language_model/training_layouts.h"

namespace ridge::cli {

void add_training_options(CLI::App& verb, TrainingArgs& args) {
  std::vector<std::string> names;
  for (const Recomputation each : recomputations) names.emplace_back(name(each));
  verb.add_option("--recompute", args.recompute,
                  "With --phase train: what the backward pass computes again: nothing, the scores of attention, or the "
                  "whole layer "
                  "(default: attention)")
      ->check(one_of(names))
      ->type_name("WHAT");
  verb.add_option("--zero", args.zero_stage,
                  "With --phase train: what the ranks of --dp divide: 1 the optimizer's state, 2 also gradients, 3 "
                  "also weights "
                  "(default: 0, nothing)")
      ->check(whole_number_between(0, 3))
      ->type_name("STAGE");
  verb.add_option(
          "--accumulate", args.accumulated,
          "With --phase train: number of parts of the batch that follow each other and whose gradients are added; with "
          "--pp, of micro-batches (default: 1; with --pp or --chips the fastest number)")
      ->type_name("N");
  verb.add_option(
          "--tokens", args.tokens,
          "With --phase train: number of tokens of a training run, such as 1e12, 300B or 15T (default: one step)")
      ->type_name("N");
  verb.add_option("--utilisation", args.utilisation,
                  "With --tokens: model FLOPs of the run over those of the chips' peak, above 0 and up to 1 (default: "
                  "that of the "
                  "step)")
      ->type_name("U");
}

Status check_training_options(const CLI::App& verb, const std::string& phase, const TrainingArgs& args) {
  if (args.tokens.empty()) RIDGE_TRY_STATUS(check_required_option(verb, "--utilisation", "--tokens"));
  if (phase != training_phase)
    return check_required_option(verb, "--recompute --zero --accumulate --tokens --utilisation", "--phase train");
  if (args.tokens.empty()) RIDGE_TRY_STATUS(check_required_option(verb, "--price", "--tokens"));
  return check_combined_options(
      verb, "--phase train",
      "--dtype --context --batch --on --phase --tp --pp --ep --dp --plan --library --chips --best --recompute --zero "
      "--accumulate --tokens --utilisation --price --print --layer --json --csv --md");
}

Result<double> parse_token_count(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string suffix = end;
  double factor = 0;
  if (suffix.empty()) factor = 1;
  if (suffix == "M") factor = 1e6;
  if (suffix == "B" || suffix == "G") factor = 1e9;
  if (suffix == "T") factor = 1e12;
  const bool is_plain = !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '.') &&
                        text.find_first_of("xX") == std::string::npos;
  if (end == text.c_str() || factor == 0 || !is_plain || !std::isfinite(number))
    return usage_error(
        fmt::format("expected --tokens as a number, with M, B or T for 1e6, 1e9 or 1e12; found '{}'", text),
        "--tokens 15T");
  return number * factor;
}

namespace {

Status add_training_args(const TrainingArgs& args, TrainingRequest& request) {
  request.recomputation = *std::find_if(recomputations.begin(), recomputations.end(),
                                        [&](Recomputation each) { return name(each) == args.recompute; });
  request.zero_stage = args.zero_stage;
  request.accumulated = args.accumulated;
  request.utilisation = args.utilisation;
  if (args.tokens.empty()) return Done{};
  RIDGE_TRY(tokens, parse_token_count(args.tokens));
  request.tokens = tokens;
  return Done{};
}

}  // namespace

Result<int> print_training(const std::string& config, TrainingRequest request, const TrainingArgs& args,
                           const std::vector<std::string>& machines, const model::ModelCount& count,
                           const OutputFormat& format) {
  RIDGE_TRY_STATUS(add_training_args(args, request));
  RIDGE_TRY(answers, api::predict_training(config, request, {machines.begin(), machines.end()}));
  const std::string text = render_text(count, answers, text_style());
  if (answers.size() > 1 && (format.csv || format.md))
    return print_result(format, text, render_table_json(answers), "machines");
  return print_result(format, text, render_json(count, answers), "ops");
}

Result<int> print_training_layouts(const LayoutSubject& subject, TrainingRequest request, const TrainingArgs& args,
                                   const LayoutArgs& layouts, const OutputFormat& format) {
  RIDGE_TRY_STATUS(add_training_args(args, request));
  RIDGE_TRY(chips, parse_chips(layouts.chips));
  const TrainingLayoutRequest ranked{.training = request,
                                     .chips = chips,
                                     .is_chip_range = is_chip_range(layouts.chips),
                                     .is_best_of_each_count = !layouts.best};
  const std::vector<std::string> machines = split_machines(subject.on);
  RIDGE_TRY(rankings, api::rank_training_layouts(subject.config, ranked, {machines.begin(), machines.end()}));
  const TrainingLayoutReport report{subject.count, ranked, rankings};
  return print_result(format, render_text(report, text_style()), render_json(report), "layouts");
}

}  // namespace ridge::cli

#include "fit_models/serving.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>

#include "fit_models/rewrite.h"
#include "fit_models/serving_points.h"
#include "ridge/base/file.h"

namespace ridge::fit {
namespace {

// The fit begins at these values and is pulled to them.
constexpr ServingConstants initial_constants{.layer_s = 50e-6,
                                             .expert_layer_s = 30e-6,
                                             .sequence_s = 50e-6,
                                             .prefill_factor = 1.6,
                                             .expert_prefill_factor = 4,
                                             .queued_share = 0.07,
                                             .first_token_steps = 2,
                                             .start_s = 0.05,
                                             .vllm_start_s = 0.02,
                                             .memory_share = 0.8,
                                             .token_low = 1,
                                             .token_high = 1,
                                             .first_token_low = 1,
                                             .first_token_high = 1};

using Points = std::vector<const MeasuredServing*>;

// Returns "median error 11.1 %, 90 % below 27.0 %, 79.8 % within the interval". The interval is that of other points.
std::string describe_errors(const std::vector<double>& ratios, const std::vector<double>& fitted) {
  std::vector<double> errors;
  for (const double ratio : ratios) errors.push_back(100 * std::abs(1 / ratio - 1));
  const double low = find_quantile(fitted, 0.1), high = find_quantile(fitted, 0.9);
  const auto within = std::count_if(ratios.begin(), ratios.end(), [&](double x) { return x >= low && x <= high; });
  return fmt::format("median error {:.1f} %, 90 % below {:.1f} %, {:.1f} % within the interval",
                     find_quantile(errors, 0.5), find_quantile(errors, 0.9),
                     100 * static_cast<double>(within) / static_cast<double>(ratios.size()));
}

// Returns the part of a configuration before the n-th comma: 1 for the model, 3 for model, machine and engine.
std::string find_group(const MeasuredServing& point, int commas) {
  std::size_t end = point.configuration.find(',');
  for (int i = 1; i < commas; ++i) end = point.configuration.find(',', end + 1);
  return point.configuration.substr(0, end);
}

// Prints the errors of each model, machine and engine.
void print_groups(const Points& points, const ServingRatios& ratios) {
  std::map<std::string, ServingRatios> groups;
  for (std::size_t i = 0; i < points.size(); ++i)
    groups[find_group(*points[i], 3)].add({{ratios.token[i]}, {ratios.first_token[i]}});
  for (const auto& [group, those] : groups)
    fmt::print("{}, held out: {} points: time per token: {}.\n  Time to the first token: {}.\n", group,
               those.token.size(), describe_errors(those.token, ratios.token),
               describe_errors(those.first_token, ratios.first_token));
}

// Fits each half of the configurations and returns the ratios of the other half.
ServingRatios test_halves(const ServingPoints& points) {
  Points tested_points;
  std::array<Points, 2> halves;
  int configurations = 0;
  for (std::size_t i = 0; i < points.all.size(); ++i) {
    if (i > 0 && points.all[i].configuration != points.all[i - 1].configuration) ++configurations;
    halves[static_cast<std::size_t>(configurations % 2)].push_back(&points.all[i]);
  }
  ServingRatios out;
  for (const std::size_t half : {0, 1}) {
    const ServingConstants constants = fit_serving_constants(halves[half], initial_constants);
    const ServingRatios fitted = compute_serving_ratios(halves[half], constants),
                        tested = compute_serving_ratios(halves[1 - half], constants);
    fmt::print("Held-out half of {} points: time per token: {}.\n  Time to the first token: {}.\n",
               halves[1 - half].size(), describe_errors(tested.token, fitted.token),
               describe_errors(tested.first_token, fitted.first_token));
    out.add(tested);
    tested_points.insert(tested_points.end(), halves[1 - half].begin(), halves[1 - half].end());
  }
  fmt::print("{} configurations.\n", configurations + 1);
  print_groups(tested_points, out);
  return out;
}

// Prints the errors of each model with constants that were fitted to the others.
void test_models(const ServingPoints& points) {
  std::string last;
  for (const MeasuredServing& point : points.all) {
    if (find_group(point, 1) == last) continue;
    last = find_group(point, 1);
    Points fitted, tested;
    for (const MeasuredServing& each : points.all) (find_group(each, 1) == last ? tested : fitted).push_back(&each);
    const ServingConstants constants = fit_serving_constants(fitted, initial_constants);
    const ServingRatios known = compute_serving_ratios(fitted, constants),
                        unknown = compute_serving_ratios(tested, constants);
    fmt::print("Fitted without {}: time per token: {}.\n  Time to the first token: {}.\n", last,
               describe_errors(unknown.token, known.token), describe_errors(unknown.first_token, known.first_token));
  }
}

Status write_constants(const ServingPoints& points, const ServingConstants& constants, const std::string& root) {
  const std::string path = root + "/data/models/serving.csv";
  const std::string facts = fmt::format(
      "# tool: tools/fit_models --serving\n# device: NVIDIA H100, NVIDIA H200\n# day: 2026-04-30\n"
      "# timings: {} points of ai-dynamo/aiconfigurator, silicon_sample.csv (InferenceX and NVIDIA)\n",
      points.all.size());
  const auto text = rewritten(path, facts, [&](const std::string& line) {
    auto cells = cells_of(line);
    for (const NamedNumber<ServingConstants>& each : named_serving_constants())
      if (each.name == cells[0]) cells[2] = fmt::format("{:.3g}", constants.*each.member);
    return line_of(cells);
  });
  return text ? write_file(path, *text) : text.error();
}

}  // namespace

Status fit_serving(const std::string& path, const std::string& root) {
  if (!std::filesystem::exists(path)) {
    fmt::print(stderr, "skipped: '{}' does not exist, data/models/serving.csv stays as it is\n", path);
    return Done{};
  }
  RIDGE_TRY(points, read_serving_points(path));
  fmt::print("{} points. Left out: {} with replicas of the attention, {} repeated, {} below their bound (lines {}).\n",
             points.all.size(), points.parallel_attention, points.repeated, points.impossible.size(),
             fmt::join(points.impossible, ", "));
  const ServingRatios held_out = test_halves(points);
  test_models(points);
  Points all;
  for (const MeasuredServing& point : points.all) all.push_back(&point);
  ServingConstants constants = fit_serving_constants(all, initial_constants);
  constants.memory_share = serving_constants().memory_share;  // This one is assumed, not fitted
  constants.token_low = find_quantile(held_out.token, 0.1);
  constants.token_high = find_quantile(held_out.token, 0.9);
  constants.first_token_low = find_quantile(held_out.first_token, 0.1);
  constants.first_token_high = find_quantile(held_out.first_token, 0.9);
  return write_constants(points, constants, root);
}

}  // namespace ridge::fit

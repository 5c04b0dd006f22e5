#include "fit_models/serving.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>

#include "fit_models/normal_equations.h"
#include "fit_models/rewrite.h"
#include "fit_models/serving_points.h"
#include "ridge/base/file.h"
#include "ridge/base/portable_math.h"

namespace ridge::fit {
namespace {

constexpr double derivative_step = 0.01;  // Of a logarithm
constexpr double linear_beyond = 0.05;    // Error above which the loss (Huber) is linear, below it is quadratic
constexpr double pull = 0.05;             // Pulls the logarithm of a constant to its initial value
constexpr double max_change = 0.4;        // Of a logarithm per iteration
constexpr int max_iterations = 100;
constexpr double max_gain = 1e-6;  // The fit ends if an iteration gains less than this part of the loss

struct FittedNumber {
  double ServingConstants::*member;
  double initial;
};
constexpr FittedNumber fitted_numbers[] = {
    {&ServingConstants::layer_s, 50e-6},      {&ServingConstants::expert_layer_s, 30e-6},
    {&ServingConstants::sequence_s, 50e-6},   {&ServingConstants::prefill_factor, 1.6},
    {&ServingConstants::queued_share, 0.07},  {&ServingConstants::expert_prefill_factor, 4},
    {&ServingConstants::start_s, 0.05},       {&ServingConstants::vllm_start_s, 0.02},
    {&ServingConstants::first_token_steps, 2}};
constexpr std::size_t number_count = std::size(fitted_numbers);

using Points = std::vector<const ServingPoint*>;

// Returns log(expected / measured) of each point's time per token and of its time to the first token.
std::vector<double> compute_residuals(const Points& points, const ServingConstants& constants) {
  std::vector<double> out;
  for (const ServingPoint* point : points) {
    const ServedTimes times = predict_serving(point->work, constants);
    out.push_back(base::log(times.token_s.expected / point->token_s));
    out.push_back(base::log(times.first_token_s.expected / point->first_token_s));
  }
  return out;
}

double compute_loss(const std::vector<double>& residuals, const ServingConstants& constants) {
  double sum = 0;
  for (const double residual : residuals) {
    const double far = std::abs(residual);
    sum += far < linear_beyond ? far * far / (2 * linear_beyond) + linear_beyond / 2 : far;
  }
  for (const FittedNumber& each : fitted_numbers) {
    const double moved = base::log(constants.*each.member / each.initial);
    sum += pull * moved * moved / 2;
  }
  return sum;
}

NormalEquations make_equations(const Points& points, const ServingConstants& constants,
                               const std::vector<double>& residuals) {
  std::array<std::vector<double>, number_count> slopes;
  for (std::size_t k = 0; k < number_count; ++k) {
    ServingConstants moved = constants;
    moved.*fitted_numbers[k].member *= base::exp(derivative_step);
    slopes[k] = compute_residuals(points, moved);
    for (std::size_t i = 0; i < residuals.size(); ++i) slopes[k][i] = (slopes[k][i] - residuals[i]) / derivative_step;
  }
  NormalEquations out{std::vector<double>(number_count * number_count), std::vector<double>(number_count),
                      number_count};
  for (std::size_t a = 0; a < number_count; ++a) {
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      const double slope = slopes[a][i] / std::max(std::abs(residuals[i]), linear_beyond);
      out.right[a] -= slope * residuals[i];
      for (std::size_t b = 0; b <= a; ++b) out.matrix[a * number_count + b] += slope * slopes[b][i];
    }
    out.matrix[a * number_count + a] += pull;
    out.right[a] -= pull * base::log(constants.*fitted_numbers[a].member / fitted_numbers[a].initial);
  }
  return out;
}

// Fits by Levenberg's method on the logarithms.
ServingConstants fit_constants(const Points& points) {
  ServingConstants constants = serving_constants();
  for (const FittedNumber& each : fitted_numbers) constants.*each.member = each.initial;
  std::vector<double> residuals = compute_residuals(points, constants);
  double loss = compute_loss(residuals, constants), damping = 1e-2;
  for (int iteration = 0; iteration < max_iterations; ++iteration) {
    const NormalEquations equations = make_equations(points, constants, residuals);
    const double before = loss;
    for (int tries = 0; tries < 8 && loss == before; ++tries) {
      ServingConstants tried = constants;
      const std::vector<double> change = solve(equations, damping);
      for (std::size_t k = 0; k < number_count; ++k)
        tried.*fitted_numbers[k].member *= base::exp(std::clamp(change[k], -max_change, max_change));
      std::vector<double> tried_residuals = compute_residuals(points, tried);
      const double tried_loss = compute_loss(tried_residuals, tried);
      damping *= tried_loss < loss ? 0.25 : 4;
      if (tried_loss >= loss) continue;
      constants = tried;
      residuals = std::move(tried_residuals);
      loss = tried_loss;
    }
    if (before - loss < max_gain * before) break;
  }
  return constants;
}

double find_quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

// Measured over expected times.
struct Ratios {
  std::vector<double> token, first_token;

  void add(const Ratios& more) {
    token.insert(token.end(), more.token.begin(), more.token.end());
    first_token.insert(first_token.end(), more.first_token.begin(), more.first_token.end());
  }
};
Ratios compute_ratios(const Points& points, const ServingConstants& constants) {
  Ratios out;
  for (const ServingPoint* point : points) {
    const ServedTimes times = predict_serving(point->work, constants);
    out.token.push_back(point->token_s / times.token_s.expected);
    out.first_token.push_back(point->first_token_s / times.first_token_s.expected);
  }
  return out;
}

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
std::string find_group(const ServingPoint& point, int commas) {
  std::size_t end = point.configuration.find(',');
  for (int i = 1; i < commas; ++i) end = point.configuration.find(',', end + 1);
  return point.configuration.substr(0, end);
}

// Prints the errors of each model, machine and engine.
void print_groups(const Points& points, const Ratios& ratios) {
  std::map<std::string, Ratios> groups;
  for (std::size_t i = 0; i < points.size(); ++i)
    groups[find_group(*points[i], 3)].add({{ratios.token[i]}, {ratios.first_token[i]}});
  for (const auto& [group, those] : groups)
    fmt::print("{}, held out: {} points: time per token: {}.\n  Time to the first token: {}.\n", group,
               those.token.size(), describe_errors(those.token, ratios.token),
               describe_errors(those.first_token, ratios.first_token));
}

// Fits each half of the configurations and returns the ratios of the other half.
Ratios test_halves(const ServingPoints& points) {
  Points tested_points;
  std::array<Points, 2> halves;
  int configurations = 0;
  for (std::size_t i = 0; i < points.all.size(); ++i) {
    if (i > 0 && points.all[i].configuration != points.all[i - 1].configuration) ++configurations;
    halves[static_cast<std::size_t>(configurations % 2)].push_back(&points.all[i]);
  }
  Ratios out;
  for (const std::size_t half : {0, 1}) {
    const ServingConstants constants = fit_constants(halves[half]);
    const Ratios fitted = compute_ratios(halves[half], constants), tested = compute_ratios(halves[1 - half], constants);
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
  for (const ServingPoint& point : points.all) {
    if (find_group(point, 1) == last) continue;
    last = find_group(point, 1);
    Points fitted, tested;
    for (const ServingPoint& each : points.all) (find_group(each, 1) == last ? tested : fitted).push_back(&each);
    const ServingConstants constants = fit_constants(fitted);
    const Ratios known = compute_ratios(fitted, constants), unknown = compute_ratios(tested, constants);
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
  const Ratios held_out = test_halves(points);
  test_models(points);
  Points all;
  for (const ServingPoint& point : points.all) all.push_back(&point);
  ServingConstants constants = fit_constants(all);
  constants.token_low = find_quantile(held_out.token, 0.1);
  constants.token_high = find_quantile(held_out.token, 0.9);
  constants.first_token_low = find_quantile(held_out.first_token, 0.1);
  constants.first_token_high = find_quantile(held_out.first_token, 0.9);
  return write_constants(points, constants, root);
}

}  // namespace ridge::fit

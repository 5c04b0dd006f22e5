#include "ridge/plan/model/fit_serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/normal_equations.h"
#include "ridge/base/portable_math.h"

namespace ridge {
namespace {

constexpr double derivative_step = 0.01;  // Step of a logarithm
constexpr double linear_beyond = 0.05;    // Error above which the loss (Huber) is linear, below it is quadratic
constexpr double pull = 0.05;             // Pulls the logarithm of a constant to its initial value
constexpr double max_change = 0.4;        // Largest change of a logarithm per iteration
constexpr int max_iterations = 100;
constexpr double max_gain = 1e-6;  // The fit ends if an iteration gains less than this part of the loss

constexpr double ServingConstants::*fitted_numbers[] = {
    &ServingConstants::layer_s,        &ServingConstants::expert_layer_s, &ServingConstants::sequence_s,
    &ServingConstants::prefill_factor, &ServingConstants::queued_share,   &ServingConstants::expert_prefill_factor,
    &ServingConstants::start_s,        &ServingConstants::vllm_start_s,   &ServingConstants::first_token_steps};
constexpr std::size_t number_count = std::size(fitted_numbers);

using MeasuredPoints = std::vector<const MeasuredServing*>;

// Returns log(expected / measured) of each point's time per token and of its time to the first token.
std::vector<double> compute_residuals(const MeasuredPoints& points, const ServingConstants& constants) {
  std::vector<double> out;
  for (const MeasuredServing* point : points) {
    const ServedTimes times = predict_serving(point->work, constants);
    out.push_back(base::log(times.token_s.expected / point->token_s));
    out.push_back(base::log(times.first_token_s.expected / point->first_token_s));
  }
  return out;
}

double compute_loss(const std::vector<double>& residuals, const ServingConstants& constants,
                    const ServingConstants& initial) {
  double sum = 0;
  for (const double residual : residuals) {
    const double far = std::abs(residual);
    sum += far < linear_beyond ? far * far / (2 * linear_beyond) + linear_beyond / 2 : far;
  }
  for (const auto member : fitted_numbers) {
    const double moved = base::log(constants.*member / initial.*member);
    sum += pull * moved * moved / 2;
  }
  return sum;
}

NormalEquations make_equations(const MeasuredPoints& points, const ServingConstants& constants,
                               const ServingConstants& initial, const std::vector<double>& residuals) {
  std::array<std::vector<double>, number_count> slopes;
  for (std::size_t k = 0; k < number_count; ++k) {
    ServingConstants moved = constants;
    moved.*fitted_numbers[k] *= base::exp(derivative_step);
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
    out.right[a] -= pull * base::log(constants.*fitted_numbers[a] / initial.*fitted_numbers[a]);
  }
  return out;
}

}  // namespace

ServingConstants fit_serving_constants(const MeasuredPoints& points, const ServingConstants& initial) {
  ServingConstants constants = initial;
  std::vector<double> residuals = compute_residuals(points, constants);
  double loss = compute_loss(residuals, constants, initial), damping = 1e-2;
  for (int iteration = 0; iteration < max_iterations; ++iteration) {
    const NormalEquations equations = make_equations(points, constants, initial, residuals);
    const double before = loss;
    for (int tries = 0; tries < 8 && loss == before; ++tries) {
      ServingConstants next = constants;
      const std::vector<double> change = solve(equations, damping);
      for (std::size_t k = 0; k < number_count; ++k)
        next.*fitted_numbers[k] *= base::exp(std::clamp(change[k], -max_change, max_change));
      std::vector<double> next_residuals = compute_residuals(points, next);
      const double next_loss = compute_loss(next_residuals, next, initial);
      damping *= next_loss < loss ? 0.25 : 4;
      if (next_loss >= loss) continue;
      constants = next;
      residuals = std::move(next_residuals);
      loss = next_loss;
    }
    if (before - loss < max_gain * before) break;
  }
  return constants;
}

double find_quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

void ServingRatios::add(const ServingRatios& more) {
  token.insert(token.end(), more.token.begin(), more.token.end());
  first_token.insert(first_token.end(), more.first_token.begin(), more.first_token.end());
}

ServingRatios compute_serving_ratios(const MeasuredPoints& points, const ServingConstants& constants) {
  ServingRatios out;
  for (const MeasuredServing* point : points) {
    const ServedTimes times = predict_serving(point->work, constants);
    out.token.push_back(point->token_s / times.token_s.expected);
    out.first_token.push_back(point->first_token_s / times.first_token_s.expected);
  }
  return out;
}

}  // namespace ridge

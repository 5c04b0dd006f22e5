// Reads measured points of a user's engine, fits the constants of served times to them, and writes the file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "ridge/base/fitted_file.h"
#include "ridge/plan/model/fit_serving.h"
#include "ridge/plan/model/machine.h"

namespace ridge {
namespace {

// With fewer points, 10 % and 90 % quantiles say little.
constexpr std::size_t min_interval_points = 20;

// The cells of a line, in the order of `serving_point_columns`.
enum class PointColumn : std::uint8_t {
  config,
  machine,
  engine,
  tensor,
  dtype,
  cache_dtype,
  requests,
  prompt_tokens,
  output_tokens,
  first_token_ms,
  token_ms
};

struct PointLine {
  const FittedFile& file;
  const CsvLine& line;

  const CsvCell& cell(PointColumn column) const { return line.cells[static_cast<std::size_t>(column)]; }
  const std::string& text(PointColumn column) const { return cell(column).text; }
  Error error_at(PointColumn column, Error error) const {
    return error_at_cell(std::move(error), file.source, line, cell(column));
  }

  // Returns a positive number.
  Result<double> number(PointColumn column) const {
    RIDGE_TRY(out, parse_cell(file, line, static_cast<std::size_t>(column)));
    if (out > 0 && out < 1e15) return out;
    return error_at(column, input_error(fmt::format("expected a number above 0, found {}", text(column))));
  }
  Result<std::int64_t> count(PointColumn column) const {
    RIDGE_TRY(out, number(column));
    if (out == std::floor(out)) return static_cast<std::int64_t>(out);
    return error_at(column, input_error(fmt::format("expected a whole number, found {}", text(column))));
  }
  Result<DType> dtype(PointColumn column) const {
    if (const auto found = parse_dtype(text(column))) return *found;
    return error_at(column, input_error(fmt::format("expected a dtype such as bf16, found '{}'", text(column))));
  }
};

Result<ModelRequest> make_request(const PointLine& line) {
  ModelRequest out{.serving = ServingRequest{}};
  const auto engine = std::find_if(serving_engines.begin(), serving_engines.end(),
                                   [&](ServingEngine each) { return name(each) == line.text(PointColumn::engine); });
  if (engine == serving_engines.end())
    return line.error_at(PointColumn::engine, input_error(fmt::format("expected vllm, sglang or trtllm, found '{}'",
                                                                      line.text(PointColumn::engine))));
  out.serving->engine = *engine;
  RIDGE_TRY(weight_dtype, line.dtype(PointColumn::dtype));
  RIDGE_TRY(cache_dtype, line.dtype(PointColumn::cache_dtype));
  RIDGE_TRY(tensor, line.count(PointColumn::tensor));
  RIDGE_TRY(requests, line.count(PointColumn::requests));
  RIDGE_TRY(prompt, line.count(PointColumn::prompt_tokens));
  RIDGE_TRY(output, line.count(PointColumn::output_tokens));
  out.counts = {.weight_dtype = weight_dtype, .cache_dtype = cache_dtype, .context = prompt, .batch = requests};
  out.tensor_parallel = tensor;
  out.serving->output_tokens = output;
  return out;
}

Result<MeasuredServing> read_point(const PointLine& line) {
  const auto config = model::find_config(line.text(PointColumn::config));
  if (!config) return line.error_at(PointColumn::config, config.error());
  const auto machine = find_machine(line.text(PointColumn::machine));
  if (!machine) return line.error_at(PointColumn::machine, machine.error());
  RIDGE_TRY(request, make_request(line));
  RIDGE_TRY(first_token_ms, line.number(PointColumn::first_token_ms));
  RIDGE_TRY(token_ms, line.number(PointColumn::token_ms));
  auto work = count_serving_work(*config, request, *machine);
  if (!work) return line.error_at(PointColumn::config, work.error());
  MeasuredServing out{line.line.number, {}, *std::move(work), 1e-3 * token_ms, 1e-3 * first_token_ms};
  for (const PointColumn column :
       {PointColumn::config, PointColumn::machine, PointColumn::engine, PointColumn::tensor, PointColumn::dtype,
        PointColumn::cache_dtype, PointColumn::prompt_tokens, PointColumn::output_tokens})
    out.configuration += line.text(column) + ",";
  return out;
}

// Returns why no engine can have measured the point, or nullopt if one can.
std::optional<std::string> find_impossible_time(const MeasuredServing& point) {
  const auto below = [](const char* what, double measured, double bound) {
    return fmt::format("{:.4g} ms {} are below the bound of {:.4g} ms", 1e3 * measured, what, 1e3 * bound);
  };
  if (point.token_s < point.work.decode_s) return below("per token", point.token_s, point.work.decode_s);
  const double prompt_s = point.work.prompt_s + point.work.prompt_experts_s;
  if (point.first_token_s < prompt_s) return below("to the first token", point.first_token_s, prompt_s);
  return std::nullopt;
}

ServingErrors find_medians(const ServingRatios& ratios) {
  const auto median = [](const std::vector<double>& all) {
    std::vector<double> errors;
    for (const double ratio : all) errors.push_back(std::abs(1 / ratio - 1));
    return find_quantile(std::move(errors), 0.5);
  };
  return {median(ratios.token), median(ratios.first_token)};
}

// Fits each half of the configurations and returns the ratios of the other halves; nullopt if a half is empty.
std::optional<ServingRatios> test_halves(const std::vector<MeasuredServing>& points) {
  std::array<std::vector<const MeasuredServing*>, 2> halves;
  std::size_t configurations = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i > 0 && points[i].configuration != points[i - 1].configuration) ++configurations;
    halves[configurations % 2].push_back(&points[i]);
  }
  if (halves[1].empty()) return std::nullopt;
  ServingRatios out;
  for (const std::size_t half : {0, 1})
    out.add(compute_serving_ratios(halves[1 - half], fit_serving_constants(halves[half], serving_constants())));
  return out;
}

// Sets the intervals to the quantiles of the ratios. Of few points, they also include the built-in intervals.
void set_intervals(const ServingRatios& ratios, ServingFit& fit) {
  ServingConstants& c = fit.constants;
  fit.has_wide_intervals = fit.points < min_interval_points;
  const auto set = [&](const std::vector<double>& all, double& low, double& high) {
    const double from = find_quantile(all, 0.1), to = find_quantile(all, 0.9);
    low = fit.has_wide_intervals ? std::min(low, from) : from;
    high = fit.has_wide_intervals ? std::max(high, to) : to;
  };
  set(ratios.token, c.token_low, c.token_high);
  set(ratios.first_token, c.first_token_low, c.first_token_high);
}

}  // namespace

Result<ServingFit> fit_serving_file(std::string_view csv, const std::string& source) {
  RIDGE_TRY(file, parse_fitted_file(csv, source, serving_point_columns));
  ServingFit out{.source = source};
  std::vector<MeasuredServing> possible;
  for (const CsvLine& line : file.lines) {
    RIDGE_TRY(point, read_point({file, line}));
    if (auto reason = find_impossible_time(point))
      out.impossible.push_back({point.line, *std::move(reason)});
    else
      possible.push_back(std::move(point));
  }
  if (possible.empty())
    return input_error(fmt::format("'{}' has no point that can be fitted: {}", source,
                                   out.impossible.empty() ? "no line after the names of the columns"
                                                          : fmt::format("line {}: {}", out.impossible.front().line,
                                                                        out.impossible.front().reason)));
  std::stable_sort(possible.begin(), possible.end(),
                   [](const auto& a, const auto& b) { return a.configuration < b.configuration; });
  std::set<std::string> configurations;
  std::vector<const MeasuredServing*> all;
  for (const MeasuredServing& point : possible) {
    configurations.insert(point.configuration);
    all.push_back(&point);
  }
  out.points = all.size();
  out.configurations = configurations.size();
  out.constants = fit_serving_constants(all, serving_constants());
  const ServingRatios fitted = compute_serving_ratios(all, out.constants);
  out.built_in = find_medians(compute_serving_ratios(all, serving_constants()));
  out.fitted = find_medians(fitted);
  const auto cross_validation = test_halves(possible);
  if (cross_validation) out.cross_validation = find_medians(*cross_validation);
  set_intervals(cross_validation.value_or(fitted), out);
  return out;
}

std::string format_serving_constants(const ServingFit& fit, const std::string& day) {
  std::string out = fmt::format(
      "# Constants of served times, for `ridge model --serve --serving`.\n# tool: ridge calibrate --serving\n"
      "# day: {}\n# timings: {} points of {}\n",
      day, fit.points, fit.source);
  for (const CsvLine& line : read_csv(serving_csv())) {
    if (line.text.starts_with('#')) continue;
    std::string text(line.text);
    for (const NamedNumber<ServingConstants>& each : named_serving_constants()) {
      if (each.name != line.cells[0].text) continue;
      const std::size_t value = text.find(',', text.find(',') + 1) + 1;
      text.replace(value, text.find(',', value) - value, fmt::format("{:.3g}", fit.constants.*each.member));
    }
    out += text + "\n";
  }
  return out;
}

}  // namespace ridge

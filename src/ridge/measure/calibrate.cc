#include "ridge/measure/calibrate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>

#include "ridge/base/csv.h"
#include "ridge/base/portable_math.h"
#include "ridge/measure/fit/simplex.h"
#include "ridge/plan/form_estimate.h"
#include "ridge/plan/library_model.h"

namespace ridge {
namespace {

constexpr std::size_t min_kernels = 10, min_kernels_per_half = 3, max_fitted_kernels = 2500;
// Weight of the penalty for leaving the start values, so that few timings change only the numbers that matter for them.
constexpr double prior_weight = 0.1;

struct TimingColumns {
  const ops::LibraryFormula* formula = nullptr;
  std::vector<int> sizes;  // columns of the formula's sizes; -1 if absent
  int dtype = -1, time = -1;
  bool in_seconds = false;
};

bool is_time_column(const std::string& name) {
  return name == "us" || name.ends_with("_us") || name == "us_best" || name == "us_default" || name == "time_s" ||
         name == "median_s";
}

int find_column(const CsvLine& head, std::string_view name) {
  for (std::size_t i = 0; i < head.cells.size(); ++i)
    if (head.cells[i].text == name) return static_cast<int>(i);
  return -1;
}

// Finds the first formula whose required columns are all present.
void find_formula(TimingColumns& out, const CsvLine& head) {
  for (const ops::LibraryFormula* formula : ops::library_formulas()) {
    out.sizes.clear();
    for (const std::string_view column : formula->columns) out.sizes.push_back(find_column(head, column));
    const auto needed = out.sizes.begin() + static_cast<std::ptrdiff_t>(formula->required_columns);
    if (std::count(out.sizes.begin(), needed, -1) > 0) continue;
    out.formula = formula;
    return;
  }
}

std::string list_formulas() {
  std::vector<std::string> out;
  for (const ops::LibraryFormula* formula : ops::library_formulas())
    out.push_back(
        fmt::format("{} ({})", fmt::join(formula->columns.first(formula->required_columns), ", "), formula->name));
  return fmt::format("{}", fmt::join(out, "; "));
}

Result<TimingColumns> parse_columns(const CsvLine& head, const std::string& source, const std::string& column) {
  TimingColumns out;
  find_formula(out, head);
  out.dtype = find_column(head, "dtype");
  for (std::size_t i = 0; i < head.cells.size(); ++i) {
    const std::string& name = head.cells[i].text;
    if (!(column.empty() ? is_time_column(name) && (out.time < 0 || name == "us_best") : name == column)) continue;
    out.time = static_cast<int>(i);
    out.in_seconds = name.ends_with("_s");
  }
  if (out.formula != nullptr && out.time >= 0) return out;
  const bool has_time = out.time >= 0;
  const std::string times = column.empty() ? "such as us or time_s" : column;
  return error_at_cell(
      input_error(fmt::format("expected {}, found {}",
                              has_time ? "the columns of a kernel: " + list_formulas() : "a column of times " + times,
                              head.text),
                  has_time ? "`ridge bench matmul --against cublaslt --csv` writes such a file"
                           : "--column NAME selects the column of times"),
      source, head, head.cells[0]);
}

Result<double> parse_number(const std::string& source, const CsvLine& line, int at) {
  if (static_cast<std::size_t>(at) >= line.cells.size())
    return error_at_cell(input_error(fmt::format("expected {} cells or more, found {}", at + 1, line.cells.size())),
                         source, line, line.cells[0]);
  const CsvCell& cell = line.cells[at];
  double out = 0;
  const char* const stop = cell.text.data() + cell.text.size();
  const auto end = std::from_chars(cell.text.data(), stop, out);
  if (end.ec == std::errc{} && end.ptr == stop && out > 0 && std::isfinite(out)) return out;
  return error_at_cell(input_error(fmt::format("expected a number above 0, found '{}'", cell.text)), source, line,
                       cell);
}

Result<TimedKernel> read_line(const std::string& source, const CsvLine& line, const TimingColumns& at) {
  TimedKernel out;
  for (const int cell : at.sizes) {
    RIDGE_TRY(size, cell < 0 ? Result(1.0) : parse_number(source, line, cell));
    out.sizes.push_back(size);
  }
  RIDGE_TRY(time, parse_number(source, line, at.time));
  out.seconds = time * (at.in_seconds ? 1 : 1e-6);
  return out;
}

// Selects half of the sites by a hash of their sizes alone.
bool is_fitted_site(const ops::LibraryFormula& formula, const TimedKernel& kernel) {
  constexpr std::uint64_t factors[] = {0x9e3779b97f4a7c15ULL, 0xc2b2ae3d27d4eb4fULL, 0x165667b19e3779f9ULL};
  std::uint64_t x = 0;
  for (std::size_t i = 0; i < formula.group_columns.size(); ++i)
    x += static_cast<std::uint64_t>(kernel.sizes[formula.group_columns[i]]) * factors[i];
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ULL;
  return (x >> 40 & 1) != 0;
}

using KernelTimings = std::vector<TimedKernel>;
using Predictor = std::function<double(const TimedKernel&)>;

double quantile(std::vector<double> sorted, double quantile_fraction) {
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<std::size_t>(quantile_fraction * static_cast<double>(sorted.size() - 1) + 0.5)];
}

PredictionErrors compute_errors(const KernelTimings& timings, const Predictor& predicted,
                                const ops::PredictionSpread& spread) {
  PredictionErrors out{.kernels = static_cast<int>(timings.size())};
  if (timings.empty()) return out;
  std::vector<double> relative_errors;
  for (const TimedKernel& x : timings) {
    const double seconds = predicted(x), ratio = x.seconds / seconds;
    relative_errors.push_back(std::abs(seconds / x.seconds - 1));
    out.fraction_inside += spread.low <= ratio && ratio <= spread.high;
  }
  out.fraction_inside /= static_cast<double>(relative_errors.size());
  out.mean = std::accumulate(relative_errors.begin(), relative_errors.end(), 0.0) /
             static_cast<double>(relative_errors.size());
  out.median = quantile(relative_errors, 0.5);
  out.percentile_90 = quantile(relative_errors, 0.9);
  return out;
}

// Takes every n-th timing so that at most `max_fitted_kernels` remain, which bounds the time of a fit.
KernelTimings subsample_timings(const KernelTimings& all) {
  const std::size_t step = (all.size() + max_fitted_kernels - 1) / max_fitted_kernels;
  KernelTimings out;
  for (std::size_t i = 0; i < all.size(); i += step) out.push_back(all[i]);
  return out;
}

std::vector<double> exp_each(const std::vector<double>& logs) {
  std::vector<double> out;
  for (const double x : logs) out.push_back(base::exp(x));
  return out;
}

std::vector<double> fit_formula_numbers(const KernelTimings& timings, const ops::LibraryFormula& formula,
                                        const ops::LibraryDevice& chip, const std::vector<double>& from) {
  std::vector<double> begin;
  for (const double x : from) begin.push_back(base::log(x));
  const auto objective = [&](const std::vector<double>& logs) {
    const std::vector<double> candidate = exp_each(logs);
    double sum = 0;
    for (std::size_t i = 0; i < logs.size(); ++i) sum += prior_weight * (logs[i] - begin[i]) * (logs[i] - begin[i]);
    for (const TimedKernel& x : timings)
      sum += std::abs(base::log(formula.estimate_seconds(x.sizes, chip, candidate) / x.seconds));
    return sum;
  };
  // The second call restarts the simplex, which may have shrunk before it reached the minimum.
  return exp_each(minimize_nelder_mead(minimize_nelder_mead(begin, 0.2, 400, objective), 0.2, 400, objective));
}

// Numbers of the machine's file, or the formula's start values.
struct InitialFit {
  ops::LibraryDevice chip;
  std::vector<double> numbers;
  ops::PredictionSpread spread;
};

Result<InitialFit> make_initial_fit(const Machine& machine, DType dtype, const ops::LibraryFormula& formula) {
  RIDGE_TRY(rates, find_datasheet_rates(machine, dtype));
  InitialFit out{.chip = make_library_device(machine, rates), .numbers = {}, .spread = {}};
  out.chip.element_bytes = dtype_bits(dtype) / 8.0;
  if (&formula == &ops::product_formula()) {
    RIDGE_TRY(products, find_library_model(machine, dtype));
    for (const ops::NamedLibraryNumber& x : ops::library_numbers) out.numbers.push_back(products.numbers.*x.member);
    out.spread = products.spread;
    return out;
  }
  const auto stored = [&](const std::string& key, double otherwise) {
    const auto found = machine.numbers.find(key);
    return found == machine.numbers.end() ? otherwise : found->second.value;
  };
  for (const ops::LibraryParameter& x : formula.numbers)
    out.numbers.push_back(stored(std::string(x.key), x.initial_value));
  out.spread = formula_spread(machine, formula);
  return out;
}

// Returns the site's columns: "n and k".
std::string list_site_columns(const ops::LibraryFormula& formula) {
  std::string out;
  for (const std::size_t i : formula.group_columns)
    out += (out.empty() ? "" : " and ") + std::string(formula.columns[i]);
  return out;
}

struct NamedValue {
  std::string key;
  std::string_view unit;
  double value;
};
std::vector<NamedValue> named_values(const Calibration& x) {
  std::vector<NamedValue> out;
  for (std::size_t i = 0; i < x.numbers.size(); ++i)
    out.push_back({std::string(x.formula->numbers[i].key), x.formula->numbers[i].unit, x.numbers[i]});
  const std::pair<const char*, double> spread[] = {
      {"low", x.spread.low}, {"middle", x.spread.middle}, {"high", x.spread.high}};
  for (const auto& [what, value] : spread) out.push_back({spread_key(*x.formula, what), "1", value});
  return out;
}
std::string describe_source(const Calibration& x, const std::string& source) {
  return fmt::format("ridge calibrate, {} kernels of {}", x.fitted_errors.kernels, source);
}

}  // namespace

Result<LibraryTimings> read_library_timings(std::string_view csv, const std::string& source, DType dtype,
                                            const std::string& column) {
  LibraryTimings out;
  std::optional<TimingColumns> at;
  for (const CsvLine& line : read_csv(csv)) {
    if (line.text.starts_with('#')) continue;
    if (!at) {
      RIDGE_TRY(found, parse_columns(line, source, column));
      at = found;
      out.formula = at->formula;
      continue;
    }
    const auto cell = [&](int i) { return static_cast<std::size_t>(i) < line.cells.size() ? line.cells[i].text : ""; };
    if (cell(at->time).empty()) continue;
    const std::string typed = at->dtype < 0 ? "" : cell(at->dtype);
    const bool is_short = dtype == DType::bf16 && typed == "f16";  // f16 kernels take the same time as bf16
    if (!typed.empty() && typed != dtype_name(dtype) && !is_short) continue;
    RIDGE_TRY(read, read_line(source, line, *at));
    out.kernels.push_back(std::move(read));
  }
  if (out.kernels.size() >= min_kernels) return out;
  return input_error(fmt::format("'{}' holds {} timings of {} kernels, expected {} or more", source, out.kernels.size(),
                                 dtype_name(dtype), min_kernels),
                     "a CSV with the columns dtype,m,n,k,us: `ridge bench matmul --against cublaslt --csv`");
}

Result<Calibration> calibrate_library(const Machine& machine, DType dtype, const LibraryTimings& timings) {
  const ops::LibraryFormula& formula = *timings.formula;
  RIDGE_TRY(initial, make_initial_fit(machine, dtype, formula));
  KernelTimings fitting, held_out;
  for (const TimedKernel& x : timings.kernels) (is_fitted_site(formula, x) ? fitting : held_out).push_back(x);
  if (fitting.size() < min_kernels_per_half || held_out.size() < min_kernels_per_half)
    return input_error(
        fmt::format("{} kernels have too few different {} to hold out half of these", timings.kernels.size(),
                    list_site_columns(formula)),
        fmt::format("time kernels of at least {} different {}", 2 * min_kernels_per_half, list_site_columns(formula)));
  Calibration out;
  out.machine = machine.name;
  out.title = machine.title;
  out.dtype = dtype;
  out.formula = &formula;
  out.numbers = fit_formula_numbers(subsample_timings(fitting), formula, initial.chip, initial.numbers);
  const auto predictor_with = [&](const std::vector<double>& numbers) -> Predictor {
    return [&](const TimedKernel& x) { return formula.estimate_seconds(x.sizes, initial.chip, numbers); };
  };
  const Predictor calibrated = predictor_with(out.numbers);
  std::vector<double> ratios;
  for (const TimedKernel& x : fitting) ratios.push_back(x.seconds / calibrated(x));
  out.spread = {quantile(ratios, 0.1), quantile(ratios, 0.5), quantile(ratios, 0.9)};
  out.fitted_errors = compute_errors(fitting, calibrated, out.spread);
  out.held_out_errors = compute_errors(held_out, calibrated, out.spread);
  out.previous_errors = compute_errors(held_out, predictor_with(initial.numbers), initial.spread);
  out.roofline_errors = compute_errors(
      held_out, [&](const TimedKernel& x) { return formula.roofline_seconds(x.sizes, initial.chip); }, {});
  for (const TimedKernel& x : held_out) out.held_out.push_back({x, calibrated(x)});
  return out;
}

Machine with_calibration(Machine machine, const Calibration& x, const std::string& source, const std::string& day) {
  for (const NamedValue& each : named_values(x))
    machine.numbers[each.key] = SourcedValue{each.value, describe_source(x, source), day, Origin::measured, ""};
  return machine;
}

std::string format_machine_lines(const Calibration& x, const std::string& source, const std::string& day) {
  std::string out;
  for (const NamedValue& each : named_values(x))
    out += fmt::format("{} = {{ value = {:.4g}, unit = \"{}\", source = \"{}\", read = {}, origin = \"measured\" }}\n",
                       each.key, each.value, each.unit, describe_source(x, source), day);
  return out;
}

std::string format_held_out_csv(const Calibration& x) {
  std::string out = fmt::format("{},measured_s,low_s,predicted_s,high_s\n", fmt::join(x.formula->columns, ","));
  for (const HeldOutKernel& each : x.held_out) {
    for (const double size : each.timed.sizes) out += fmt::format("{},", size);
    out += fmt::format("{:.6g},{:.6g},{:.6g},{:.6g}\n", each.timed.seconds, x.spread.low * each.predicted_s,
                       each.predicted_s, x.spread.high * each.predicted_s);
  }
  return out;
}

}  // namespace ridge

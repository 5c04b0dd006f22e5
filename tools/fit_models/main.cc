// Fits all constants of predictions on Hopper to timings: first the closed form's constants with the machines' numbers,
// then regression trees to the residuals, then the constants of other kernels and the spreads.
//
//   build/fit_models data/timings/*.csv           writes data/models and [plan] of machine files (files.h), in place
//   build/fit_models --judge data/timings/*.csv   writes nothing: prints the cross-validation error
//   build/fit_models --check data/timings/*.csv   writes nothing: fails if this build's constants do not predict these
//                                                 timings, or if a kernel configuration was not timed
//   build/fit_models --serving POINTS.csv         writes data/models/serving.csv (serving.h)
//
// The same timings give the same bytes on every x86-64 (portable_math.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "fit_models/files.h"
#include "fit_models/kernels.h"
#include "fit_models/serving.h"
#include "ridge/base/portable_math.h"

namespace ridge::fit {
namespace {

using namespace ops;
using namespace ops::cuda;

struct Fit {
  Form form;
  std::vector<Learned> all;
  std::array<BinEdges, plan_feature_count> edges;
  std::vector<RegressionTree> trees;
};

// Fits all samples except those of one fold (-1: all).
Fit fitted(const Samples& samples, const Form& begin, int left_out) {
  Fit out{rounded(fit_form(samples, begin, left_out)), {}, {}, {}};
  out.all = learned(samples, out.form);
  out.edges = edges_of(out.all);
  sort_into_bins(out.all, out.edges);
  out.trees = boosted(samples, out.all, left_out);
  return out;
}

// Initial values of machine numbers: typical fractions of the peaks, and 21 bytes of L2 per cycle and multiprocessor.
Form begun(const Samples& samples, const ProductModel& first) {
  Form out{first, {}};
  for (const Device& x : samples.devices) {
    DeviceNumbers numbers = x.numbers;
    numbers.clock_hz = 0.9 * x.as_timed.clock_hz;
    numbers.busy_clock_hz = 0.85 * x.as_timed.clock_hz;
    numbers.memory_bytes_per_s = 0.875 * x.as_timed.memory_bytes_per_s;
    numbers.l2_bytes_per_s = 21.0 * x.as_timed.multiprocessors * x.as_timed.clock_hz;
    out.devices.push_back(numbers);
  }
  return out;
}

// Cross-validates over the first folds. Returns the ratios of all devices.
std::vector<double> judged(const Samples& samples, const Form& begin, int how_many) {
  std::vector<Verdict> verdicts(samples.devices.size());
  for (int fold = 0; fold < how_many; ++fold) {
    const Fit fit = fitted(samples, begin, fold);
    fmt::print("Error of the form alone: {:.2f} %; {:.2f} % on a held-out fifth of the products.\n",
               100 * error_of(samples, fit.form, -1), 100 * error_of(samples, fit.form, fold));
    for (std::size_t d = 0; d < verdicts.size(); ++d)
      judge(samples, static_cast<int>(d), fold, fit.all, fit.trees, verdicts[d]);
  }
  std::vector<double> ratios;
  for (std::size_t d = 0; d < verdicts.size(); ++d) {
    fmt::print("{}, held out: {}.\n", samples.devices[d].as_timed.device, text_of(verdicts[d]));
    ratios.insert(ratios.end(), verdicts[d].ratios.begin(), verdicts[d].ratios.end());
  }
  return ratios;
}

// Returns predictions with the constants of this build, which plans use.
double error_of_this_build(const Samples& samples) {
  double sum = 0, weight = 0;
  for (const Sample& x : samples.all) {
    const DeviceNumbers& device = samples.devices[static_cast<std::size_t>(x.device)].numbers;
    const double form = predict_seconds(*x.config, x.work, x.split, device);
    const double time = form * predict_correction(make_plan_features(*x.config, x.work, x.split, device, form));
    sum += x.weight * std::abs(base::log(time) - x.log_measured);
    weight += x.weight;
  }
  return sum / weight;
}

Status check(const Samples& samples) {
  constexpr int least_timings = 3;
  constexpr double most_error = 0.06;
  std::array<int, sm90_kernel_configs.size()> timings{};
  for (const Sample& x : samples.all) ++timings[static_cast<std::size_t>(x.config - sm90_kernel_configs.data())];
  for (std::size_t config = 0; config < timings.size(); ++config)  // only the closed form applies
    if (sm90_kernel_configs[config].grouped) timings[config] = std::numeric_limits<int>::max();
  const double error = error_of_this_build(samples);
  fmt::print("Error of predictions: {:.2f} %; each kernel configuration was timed at least {} times.\n", 100 * error,
             *std::min_element(timings.begin(), timings.end()));
  for (std::size_t config = 0; config < timings.size(); ++config)
    if (timings[config] < least_timings)
      return input_error(fmt::format("{} was timed {} times, expected at least {}",
                                     format_config(static_cast<int>(config)), timings[config], least_timings),
                         "`ridge bench plans --on cuda` times it: docs/fit.md");
  if (error < most_error) return Done{};
  return input_error(fmt::format("the error of predictions on these timings is {:.1f} %, expected at most {:.0f} %",
                                 100 * error, 100 * most_error),
                     "fit data/models again: docs/fit.md");
}

enum class Task : std::uint8_t { make, judge, check, serving };

Status run(Task task, std::vector<std::string> paths) {
  if (task == Task::serving) return fit_serving(paths.front(), ".");
  std::sort(paths.begin(), paths.end());  // a shell's order depends on its locale
  const auto first = parse_initial_constants(product_constants_csv());
  if (!first) return first.error();
  const auto samples = read_samples(paths, *first);
  if (!samples) return samples.error();
  if (task == Task::check) return check(*samples);
  const Form begin = begun(*samples, *first);
  fmt::print("{} timings of {} products. Error of the form before the fit: {:.0f} %.\n", samples->all.size(),
             samples->products, 100 * error_of(*samples, begin, -1));
  std::vector<double> ratios = judged(*samples, begin, task == Task::judge ? folds : 1);
  if (task == Task::judge) return Done{};
  const Fit fit = fitted(*samples, begin, -1);
  const auto numbers = fit_kernels(*samples, fit.form, ".");
  if (!numbers) return numbers.error();
  const Status done = write_files({*samples, fit.form, fit.trees, fit.edges, std::move(ratios)}, ".");
  return done ? write_kernels(*samples, fit.form, *numbers, ".") : done;
}

}  // namespace
}  // namespace ridge::fit

int main(int count, char** words) {
  using ridge::fit::Task;
  Task task = Task::make;
  int options = 1;
  if (count > 1 && std::string_view(words[1]) == "--judge") task = Task::judge;
  if (count > 1 && std::string_view(words[1]) == "--check") task = Task::check;
  if (count == 3 && std::string_view(words[1]) == "--serving") task = Task::serving;
  if (task != Task::make) ++options;
  if (count <= options) {
    std::fputs("usage: fit_models [--judge | --check] TIMINGS.csv...\n       fit_models --serving POINTS.csv\n",
               stderr);
    return 2;
  }
  const ridge::Status done = ridge::fit::run(task, {words + options, words + count});
  if (done) return 0;
  std::fputs(done.error().to_string().c_str(), stderr);
  return 3;
}

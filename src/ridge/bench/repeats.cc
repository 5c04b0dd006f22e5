// Times a cosine that is applied r times, as one kernel and as r kernels.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/bench/bench.h"
#include "ridge/bench/cpu_arrays.h"
#include "ridge/bench/device_arrays.h"
#include "ridge/pool/isa.h"
#include "ridge/run/device_machine.h"

namespace ridge {
namespace {

constexpr std::int64_t checked_samples = 1 << 12;
constexpr double min_scale = 1e-3;  // smaller cosines are compared relative to this

// Three arrays are used: the first kernel reads array 0, then kernels write arrays 1 and 2 alternately so that the last
// one writes 1. A single kernel writes 1, too.
std::vector<KernelStep> list_steps(bool fused, int repeats) {
  if (fused) return {{cosine_kernel(repeats), 0, 1}};
  std::vector<KernelStep> out;
  for (int left = repeats; left > 0; --left) {
    const std::size_t to = left % 2 == 1 ? 1 : 2;
    out.push_back({cosine_kernel(1), left == repeats ? 0 : 3 - to, to});
  }
  return out;
}

Result<Interval> predict_repeats(const Machine& machine, std::int64_t elements, int repeats) {
  RIDGE_TRY(program, parse(fmt::format("x: f32[N]   y: f32[N] = repeat({}, cos, x)", repeats)));
  RIDGE_TRY(explanation, explain(program, machine, {{"N", elements}}));
  RIDGE_TRY(planned, predict_program(program, explanation));
  return planned.predicted_s;
}

// Returns the competitors with their work and predictions: one kernel, and one per repeat.
Result<std::vector<Competitor>> make_competitors(const Machine& machine, std::int64_t elements, int repeats) {
  RIDGE_TRY(fused, predict_repeats(machine, elements, repeats));
  RIDGE_TRY(one, predict_repeats(machine, elements, 1));
  const double r = repeats, bytes = cosine_kernel(1).traffic_bytes(elements), flops = static_cast<double>(elements) * r;
  const Interval unfused{r * one.low, r * one.expected, r * one.high};
  return std::vector<Competitor>{{.name = "one kernel", .flops = flops, .bytes = bytes, .predicted_s = fused},
                                 {.name = "per repeat", .flops = flops, .bytes = bytes * r, .predicted_s = unfused}};
}

template <class Arrays>
Result<ComparisonRow> compare_repeat_count(const Arrays& arrays, const Machine& machine, int repeats, int rounds) {
  ComparisonRow row;
  row.labels["repeats"] = repeats;
  RIDGE_TRY(competitors, make_competitors(machine, arrays.elements(), repeats));
  row.competitors = std::move(competitors);
  const auto time_call = [&](std::size_t i) { return arrays.time_steps(list_steps(i == 0, repeats)); };
  const auto check = [&](std::size_t i) -> Result<double> {
    RIDGE_TRY_STATUS(arrays.poison(1));
    RIDGE_TRY_STATUS(time_call(i));  // the first run also warms up
    return check_kernel(cosine_kernel(repeats), {.elements = arrays.elements(),
                                                 .interval = checked_samples,
                                                 .min_scale = min_scale,
                                                 .read_values = [&](auto... at) { return arrays.read_values(at...); }});
  };
  const auto check_all = [&]() -> Status {
    for (std::size_t i = 0; i < row.competitors.size(); ++i) {
      RIDGE_TRY(error, check(i));
      row.competitors[i].max_error = std::max(row.competitors[i].max_error.value_or(0), error);
    }
    return Done{};
  };
  RIDGE_TRY_STATUS(check_all());
  RIDGE_TRY_STATUS(time_in_turns(row.competitors, rounds, time_call));
  RIDGE_TRY_STATUS(check_all());
  set_ratio(row, 1);
  return row;
}

template <class Arrays> Status compare_all_repeats(Comparison& out, const Arrays& arrays, const Machine& machine,
                                                   int max_repeats, const BenchOptions& options) {
  out.settings["elements"] = arrays.elements();
  out.notes.push_back(fmt::format("a cosine (1 FLOP) of {} f32 elements, as one kernel and as one per repeat, {}",
                                  group_digits(arrays.elements()), out.settings["kernels"].get<std::string>()));
  std::vector<int> all;
  for (int repeats = 1; repeats <= (options.max_repeats > 0 ? options.max_repeats : max_repeats); repeats *= 2)
    all.push_back(repeats);
  return time_rows(out, all, options,
                   [&](int repeats) { return compare_repeat_count(arrays, machine, repeats, out.rounds); });
}

// Adds the machine of the prediction. The origin of its rates is "guessed" if it was not measured.
void add_machine(Comparison& out, const Machine& machine) {
  const Peak* const peak = machine.find_peak(ComputeUnit::vector, DType::f32);
  const Origin origin = peak ? peak->rate.origin : Origin::guessed;
  out.device = machine.title.empty() ? machine.name : machine.title;
  out.settings["machine"] = machine.name;
  out.settings["origin"] = origin_name(origin);
  if (out.driver == 0 && origin == Origin::guessed)
    out.notes.emplace_back("predicted from guessed rates: `ridge probe` measures this machine");
}

Status compare_on_device(Comparison& out, const BenchOptions& options) {
  RIDGE_TRY(machine, find_device_machine());
  RIDGE_TRY(properties, device::device_properties());
  describe_device(out, properties);
  out.settings["kernels"] = "sm_90a";
  add_machine(out, machine);
  const std::int64_t elements = options.elements > 0 ? options.elements : std::int64_t{1} << 28;
  RIDGE_TRY(arrays, DeviceArrays::make(DType::f32, elements, 3, 1, 1));
  const Status timed = compare_all_repeats(out, arrays, machine, 1024, options);
  out.clocks_after = read_device_clocks();
  return timed;
}

Status compare_on_cpu(Comparison& out, const BenchOptions& options) {
  out.threads = options.threads;
  out.settings["kernels"] = isa_name(pool::active_isa());
  RIDGE_TRY(found, find_machine("cpu"));
  const Machine machine = limit_to_threads(std::move(found), options.threads);
  add_machine(out, machine);
  const std::int64_t elements = options.elements > 0 ? options.elements : std::int64_t{1} << 24;
  RIDGE_TRY(arrays, CpuArrays::make(DType::f32, {elements, elements, elements}, 1, options.threads, 1024));
  return compare_all_repeats(out, arrays, machine, 256, options);
}

}  // namespace

Result<Comparison> compare_repeats(const BenchOptions& options) {
  // Samples from the middle must fit as well.
  const std::int64_t min_elements = checked_samples * std::max(2, options.cuda ? 2 : options.threads);
  if (options.elements != 0 && options.elements < min_elements)
    return usage_error(fmt::format("expected at least {} elements, found {}", min_elements, options.elements),
                       "a vector that fits into the caches does not measure the memory");
  using Measure = Comparison::Measure;
  Comparison out = start_comparison("repeats", options, 5);
  out.settings["allowed_error"] = cosine_kernel(1).allowed_error();
  out.measures = {Measure::seconds, Measure::predicted_s, Measure::flop_per_s, Measure::byte_per_s};
  out.ratio_meaning = "the time of one kernel per repeat over that of one kernel";
  RIDGE_TRY_STATUS(options.cuda ? compare_on_device(out, options) : compare_on_cpu(out, options));
  return out;
}

}  // namespace ridge

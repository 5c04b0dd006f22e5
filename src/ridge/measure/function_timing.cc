#include "ridge/measure/function_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ridge/machine/system.h"
#include "ridge/ops/chain/cpu.h"

namespace ridge {
namespace {

constexpr std::int64_t elements = 1024;               // three f32 tensors take 12 KiB of the L1
constexpr int few_calls = 4, many_calls = 16;         // per element
constexpr std::int64_t peak_rounds = 1000;            // some 10 us
constexpr float first_input = 3, input_step = 1e-4F;  // results of repeated calls are neither subnormal nor slow

// Returns y = f(f(… f(x))), or f(… f(x, z), z) for a function of two arguments.
ops::ChainProgram make_chain(const FunctionInfo& info, int calls) {
  ops::ChainProgram chain{.extents = {elements},
                          .tensors = {3, {.dtype = DType::f32, .strides = {1}}},
                          .steps = {{.op = Function::load, .slot = 0}},
                          .registers = 2};
  if (info.arity == 1) {
    chain.steps.push_back({.op = info.function, .repeat = calls});
  } else {
    chain.steps.push_back({.op = Function::load, .result = 1, .slot = 1});
    for (int i = 0; i < calls; ++i) chain.steps.push_back({.op = info.function, .b = 1});
  }
  chain.steps.push_back({.op = Function::store, .slot = 2});
  return chain;
}

template <class Work> void keep_shortest_time(double& seconds, const Work& work) {
  const Timer timer;
  work();
  seconds = std::min(seconds, timer.seconds());
}

std::vector<Function> list_functions_with_costs() {
  std::vector<Function> out;
  for (const FunctionInfo& info : function_table)
    if (info.has_cost) out.push_back(info.function);
  return out;
}

}  // namespace

double compute_call_cost(const FunctionTimings& t) {
  const double rate = t.peak_flops / t.peak_s;
  const double single_s = t.single_s / t.elements, more_s = t.long_s - t.short_s;
  const bool is_disturbed = more_s < t.short_s / 4;  // The long chain makes four times as many calls as the short one
  return std::max((is_disturbed ? single_s : std::min(more_s / t.more_calls, single_s)) * rate, 1.0);
}

FunctionTimings time_function(Function function, double seconds, const pool::PeakLoops& loops) {
  const FunctionInfo& info = function_info(function);
  const ops::ChainProgram single = make_chain(info, 1), few = make_chain(info, few_calls),
                          many = make_chain(info, many_calls);
  std::vector<float> x(elements), z(elements, 1), y(elements);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = first_input + input_step * static_cast<float>(i);
  void* const tensors[] = {x.data(), z.data(), y.data()};
  constexpr double unknown = std::numeric_limits<double>::infinity();
  FunctionTimings out{.peak_s = unknown,
                      .single_s = unknown,
                      .short_s = unknown,
                      .long_s = unknown,
                      .peak_flops = static_cast<double>(peak_rounds * loops.f32_flop_per_round),
                      .elements = static_cast<double>(elements),
                      .more_calls = static_cast<double>((many_calls - few_calls) * elements)};
  const Timer timer;
  do {
    keep_shortest_time(out.peak_s, [&] { loops.f32(peak_rounds); });
    keep_shortest_time(out.single_s, [&] { ops::run_chain_program(single, tensors, 1); });
    keep_shortest_time(out.short_s, [&] { ops::run_chain_program(few, tensors, 1); });
    keep_shortest_time(out.long_s, [&] { ops::run_chain_program(many, tensors, 1); });
  } while (timer.seconds() < seconds);
  return out;
}

std::vector<double> measure_function_costs(double seconds_each, const pool::PeakLoops& loops) {
  std::vector<double> costs;
  for (const Function function : list_functions_with_costs())
    costs.push_back(compute_call_cost(time_function(function, seconds_each, loops)));
  return costs;
}

std::vector<ProbeLine> make_cost_lines(const std::vector<std::vector<double>>& runs) {
  std::vector<ProbeLine> lines;
  const std::vector<Function> functions = list_functions_with_costs();
  for (std::size_t i = 0; i < functions.size(); ++i) {
    std::vector<double> costs;
    for (const std::vector<double>& run : runs) costs.push_back(run[i]);
    lines.push_back({.name = "cost_" + std::string(function_info(functions[i]).name),
                     .unit = "FLOP",
                     .cores = 1,
                     .rate = compute_statistics(std::move(costs)),
                     .note = {}});
  }
  return lines;
}

void add_function_costs(Machine& machine, const std::vector<ProbeLine>& lines) {
  for (const ProbeLine& line : lines) {
    if (line.unit != "FLOP") continue;
    machine.numbers[line.name] = {
        .value = std::floor(line.rate.min),
        .source = "ridge probe, one call in a chain in the L1, at one core's vector peak",
        .read_on = today_utc(),
        .origin = Origin::measured,
        .note = fmt::format("smallest of {} runs, {:.3g} to {:.3g}", line.rate.runs, line.rate.min, line.rate.max)};
  }
}

}  // namespace ridge

#include "ridge/plan/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "ridge/base/cores.h"
#include "ridge/machine/function_costs.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/chain/model.h"
#include "ridge/ops/fitted.h"
#include "ridge/ops/fused/model.h"
#include "ridge/ops/loops/model.h"
#include "ridge/ops/product/model.h"
#include "ridge/ops/product/time/overheads.h"
#include "ridge/ops/routing/model.h"
#include "ridge/ops/rows/model.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/plan/form_estimate.h"
#include "ridge/plan/library_model.h"
#include "ridge/plan/plan.h"

namespace ridge {
namespace {

void add_time(GroupPrediction& op, double seconds, const ops::PredictionSpread& spread) {
  op.predicted_s.low += spread.low * seconds;
  op.predicted_s.expected += spread.middle * seconds;
  op.predicted_s.high += spread.high * seconds;
}

void add_bytes(GroupPrediction& op, const ops::Forecast& kernel) {
  if (!kernel.count_bytes) return;
  const ops::MovedBytes moved = kernel.count_bytes();
  op.traffic_bytes += moved.requested_bytes;
  op.memory_bytes += moved.memory_bytes;
}

void add_kernel(GroupPrediction& op, ops::Forecast kernel) {
  add_time(op, kernel.seconds, kernel.spread);
  if (kernel.is_main_kernel) {
    op.plan = std::move(kernel.plan);
    op.candidates = std::move(kernel.candidates);
    op.properties = std::move(kernel.properties);
  } else if (op.plan.kernel.empty()) {
    op.plan = std::move(kernel.plan);
  }
}

// Returns the names of the tensors in a step's first two buffers, or "a copy".
std::vector<std::string> operand_names(const Program& program, const PlanStep& step) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, step.buffers.size()); ++i) {
    const std::size_t buffer = step.buffers[i];
    out.push_back(buffer < program.tensors.size() ? program.tensors[buffer].name : "a copy");
  }
  return out;
}

struct PlanContext {
  const Program& program;
  const Explanation& explanation;
  const Plan& plan;
};

std::string statement_text(const PlanContext& x, int group) {
  std::string out;
  for (const int s : x.plan.fusion.groups[group].statements)
    out += (out.empty() ? "" : "; ") + x.program.statements[s].text;
  return out;
}

// Returns the bytes of all buffers of a step.
std::int64_t step_buffer_bytes(const Plan& plan, const PlanStep& step) {
  std::int64_t bytes = 0;
  for (const int buffer : step.buffers)
    if (buffer >= 0) bytes += plan.buffers[buffer].size_bytes();
  return bytes;
}

void add_remark(std::string& all, const std::string& remark) {
  if (all.find(remark) == std::string::npos) all += (all.empty() ? "" : "; ") + remark;
}

// Adds a step as a library kernel, timed by a formula. Returns false if there is none for it. Without calibration, a
// formula for memory-bound kernels serves machines that Ridge's own kernels do not run on.
Result<bool> add_formula_kernel(GroupPrediction& op, const PlanContext& x, const PlanStep& step, std::string& remark) {
  const std::int64_t bytes = step_buffer_bytes(x.plan, step);
  const auto kernel = find_library_kernel(step, bytes);
  if (!kernel) return false;
  RIDGE_TRY(rates, find_datasheet_rates(x.explanation.machine, kernel->dtype));
  const Machine& machine = x.explanation.machine;
  auto known = estimate_with_formula(machine, *kernel->formula, kernel->sizes, rates);
  if (!known && kernel->formula == &ops::streamed_formula() && !device_numbers(machine)) {
    known = estimate_uncalibrated(machine, *kernel->formula, kernel->sizes, rates);
    add_remark(remark, fmt::format("memory-bound kernels are not calibrated on {}: their rates are typical ones, so "
                                   "the interval is wider",
                                   machine.name));
  }
  if (!known) return false;
  add_time(op, known->seconds, known->spread);
  op.traffic_bytes += bytes;
  op.memory_bytes += bytes;
  if (op.plan.kernel.empty()) op.plan = {.kernel = fmt::format("library_{}", kernel->formula->name)};
  return true;
}

// Adds a library kernel. Its tile is unknown, so the bytes are the minimum. Returns false if there is no such kernel.
Result<bool> add_library_kernel(GroupPrediction& op, const PlanContext& x, const PlanStep& step, std::string& remark) {
  const auto* const product = std::get_if<ops::MatmulProblem>(&step.kernel);
  if (product == nullptr) return add_formula_kernel(op, x, step, remark);
  if (product->pixel_windows) return false;
  const Machine& machine = x.explanation.machine;
  RIDGE_TRY(library, find_library_model(machine, product->a.dtype));
  add_time(op, estimate_library_seconds(to_library_product(*product), library.machine, library.numbers),
           library.spread);
  const auto bytes = static_cast<std::int64_t>(min_traffic_bytes(to_library_product(*product)));
  op.traffic_bytes += bytes;
  op.memory_bytes += bytes;
  op.plan = {.kernel = "cublaslt"};
  if (!library.is_calibrated) add_remark(remark, uncalibrated_remark(machine));
  return true;
}

Status add_device_kernels(PlannedProgram& out, const PlanContext& x, const PlanRequest& request) {
  const auto device = device_numbers(x.explanation.machine);
  if (device) out.remark = uncertainty_remark(x.explanation.machine, *device);
  std::vector<double> main_kernel_s(out.kernels.size());  // time of each operation's main kernel, which has candidates
  for (const PlanStep& step : x.plan.steps) {
    GroupPrediction& op = out.kernels[step.group];
    if (!step.copy_description.empty()) op.copies.push_back(step.copy_description);
    if (request.library == KernelLibrary::cublaslt) {
      RIDGE_TRY(added, add_library_kernel(op, x, step, out.remark));
      if (added) continue;
    }
    if (!device)
      return input_error(
          fmt::format("cannot plan '{}': the library has no kernel for it, and Ridge's kernels need a "
                      "Hopper GPU",
                      statement_text(x, step.group)));
    auto kernel = std::visit([&](const auto& problem) { return forecast(problem, *device); }, step.kernel);
    if (!kernel)
      return input_error(fmt::format("cannot plan '{}': {}", statement_text(x, step.group), kernel.error().message));
    if (kernel->is_main_kernel) op.operands = operand_names(x.program, step);
    if (request.count_bytes) add_bytes(op, *kernel);
    if (kernel->is_main_kernel) main_kernel_s[step.group] = kernel->spread.middle * kernel->seconds;
    add_kernel(op, *std::move(kernel));
  }
  for (std::size_t i = 0; i < out.kernels.size(); ++i)  // adds the time of the group's other steps to each candidate
    for (ops::Candidate& candidate : out.kernels[i].candidates)
      candidate.predicted_s += out.kernels[i].predicted_s.expected - main_kernel_s[i];
  return Done{};
}

// Returns the compute time of a kernel in seconds.
double compute_seconds(const ops::CpuForecast& kernel, const Machine& machine) {
  const Peak* peak = kernel.uses_bf16_pairs ? machine.find_peak(ComputeUnit::matrix, DType::bf16) : nullptr;
  if (peak == nullptr) peak = machine.find_peak(ComputeUnit::vector, DType::f32);
  if (peak == nullptr) return 0;
  const double rate = peak->sustained ? peak->sustained->value : peak->rate.value;
  return rate > 0 ? kernel.vector_flops / rate : 0;
}

void add_cpu_kernel(GroupPrediction& op, const ops::CpuForecast& kernel, const Plan& plan, const PlanStep& step) {
  const std::int64_t requested_bytes = kernel.requested_bytes.value_or(step_buffer_bytes(plan, step));
  op.traffic_bytes += requested_bytes;
  if (!step.copy_description.empty()) op.memory_bytes += requested_bytes;
  if (std::holds_alternative<ops::FoldLoops>(step.kernel))  // the product stores the columns, and the fold reads them
    op.memory_bytes += 2 * plan.buffers[step.buffers.front()].size_bytes();
  op.plan.kernel += op.plan.kernel.empty() ? "" : ", ";
  op.plan.kernel += step.copy_description.empty() ? kernel.kernel : "copy";
}

// Returns the time at sustained rates where these were measured, else at the peaks.
double sustained_group_s(const PlanContext& x, const FusionGroup& group, const Prediction& group_prediction) {
  double math = 0;
  for (const int s : statements_with_recomputed(group)) {
    const Prediction& p = x.explanation.ops[s];
    const double slowdown = p.peak && p.peak->sustained ? p.peak->rate.value / p.peak->sustained->value : 1;
    math += p.time_math_s.value_or(0) * slowdown;
  }
  const MemoryLevel& memory = x.explanation.machine.memory.front();
  const double slowdown = memory.sustained && memory.bandwidth ? memory.bandwidth->value / memory.sustained->value : 1;
  return std::max(math, group_prediction.time_memory_s.value_or(0) * slowdown);
}

// Raises the prediction to that of a kernel of ops/loops. A conversion or a fold takes its time in addition to the
// product's.
void add_loops_kernel(GroupPrediction& op, const ops::CpuForecast& kernel, const PlanContext& x, const PlanStep& step) {
  const MemoryLevel& memory = x.explanation.machine.memory.front();
  if (!memory.bandwidth) return;
  const double rate = memory.sustained ? memory.sustained->value : memory.bandwidth->value;
  const double seconds = std::max(kernel.memory_bytes / rate, compute_seconds(kernel, x.explanation.machine));
  const bool adds_time = !step.copy_description.empty() || std::holds_alternative<ops::FoldLoops>(step.kernel);
  op.predicted_s.expected = adds_time ? op.predicted_s.expected + seconds : std::max(op.predicted_s.expected, seconds);
  op.predicted_s.high = std::max(op.predicted_s.high, kernel.spread.high * op.predicted_s.expected);
}

// Replaces the prediction by the calibrated one if the machine was calibrated.
void apply_calibration(GroupPrediction& op, const Machine& machine) {
  const auto known = estimate_with_formula(machine, ops::cpu_formula(), op.cpu_formula_inputs);
  if (!known) return;
  op.predicted_s = {};
  add_time(op, known->seconds, known->spread);
}

// Returns what a function takes on this CPU, in FLOPs at its vector peak: two for each instruction, or its cost.
double function_flops(const Machine& machine, Function function) {
  const FunctionInfo& info = function_info(function);
  return info.has_cost ? function_cost(machine, function).value : info.cpu_flops;
}

ops::CpuForecast forecast_on_cpu(const PlanStep& step, const Machine& machine) {
  return std::visit(
      [&]<class Problem>(const Problem& problem) {
        const auto flops_of = [&](Function function) { return function_flops(machine, function); };
        if constexpr (std::is_same_v<Problem, ops::ChainProgram>)
          return cpu_forecast(problem, flops_of);
        else if constexpr (std::is_same_v<Problem, ops::RecurrenceLoops>)
          return cpu_forecast(problem, usable_cores(), flops_of);
        else
          return cpu_forecast(problem, usable_cores());
      },
      step.kernel);
}

Status add_cpu_kernels(PlannedProgram& out, const PlanContext& x, const Explanation& group_predictions) {
  for (std::size_t i = 0; i < out.kernels.size(); ++i) {
    const Prediction& p = group_predictions.ops[i];
    if (!p.time_lower_s)
      return input_error(fmt::format("cannot plan '{}': no {} on record", p.work.text, p.missing),
                         "`ridge probe` measures this machine");
    const double expected = sustained_group_s(x, x.plan.fusion.groups[i], p);
    out.kernels[i].predicted_s = {*p.time_lower_s, expected, std::max(*p.time_upper_s, expected)};
    out.kernels[i].memory_bytes = x.plan.fusion.groups[i].bytes_after;
  }
  std::vector<double> functions_s(out.kernels.size());
  for (const PlanStep& step : x.plan.steps) {
    GroupPrediction& op = out.kernels[step.group];
    if (!step.copy_description.empty()) op.copies.push_back(step.copy_description);
    const ops::CpuForecast kernel = forecast_on_cpu(step, x.explanation.machine);
    if (kernel.properties) op.properties = kernel.properties;
    add_cpu_kernel(op, kernel, x.plan, step);
    op.has_model = op.has_model && kernel.has_model;
    if (kernel.memory_bytes > 0) {  // In other groups, such a step converts a few integers
      if (x.plan.fusion.groups[step.group].kind == FusionGroup::GroupKind::loops) add_loops_kernel(op, kernel, x, step);
      continue;
    }
    op.predicted_s.expected = std::max(op.predicted_s.expected, compute_seconds(kernel, x.explanation.machine));
    op.predicted_s.high = std::max(op.predicted_s.high, kernel.spread.high * op.predicted_s.expected);
    if (!kernel.properties) functions_s[step.group] += compute_seconds(kernel, x.explanation.machine);
  }
  for (std::size_t i = 0; i < out.kernels.size(); ++i) {
    GroupPrediction& op = out.kernels[i];
    op.cpu_formula_inputs =
        cpu_formula_inputs(x.explanation, x.plan, static_cast<int>(i), group_predictions.ops[i], functions_s[i]);
    if (x.plan.fusion.groups[i].kind != FusionGroup::GroupKind::loops) apply_calibration(op, x.explanation.machine);
  }
  return Done{};
}

void add_overhead(GroupPrediction& op, std::string_view cause, double seconds) {
  const auto same =
      std::find_if(op.overheads.begin(), op.overheads.end(), [&](const Overhead& x) { return x.cause == cause; });
  if (same != op.overheads.end())
    same->seconds += seconds;
  else
    op.overheads.push_back({std::string(cause), seconds});
}

// Adds the overheads that each step has on a device.
void add_step_overheads(PlannedProgram& out, const PlanContext& x, KernelLibrary library) {
  const auto device = device_numbers(x.explanation.machine);
  if (!device) return;
  for (const PlanStep& step : x.plan.steps) {
    GroupPrediction& op = out.kernels[step.group];
    const auto* const product = std::get_if<ops::MatmulProblem>(&step.kernel);
    if (product == nullptr || library == KernelLibrary::cublaslt)
      add_overhead(op, "launch", device->launch_s);
    else
      for (const ops::OverheadCause& loss : overhead_breakdown(*product, *device))
        add_overhead(op, loss.cause, loss.seconds);
  }
}

// Sets each kernel's roofline bound and overheads: launches, memory below its peak if memory limits, and the rest.
void add_overheads(PlannedProgram& out, const PlanContext& x, const Explanation& group_predictions,
                   KernelLibrary library) {
  add_step_overheads(out, x, library);
  for (std::size_t i = 0; i < out.kernels.size(); ++i) {
    GroupPrediction& op = out.kernels[i];
    const Prediction& p = group_predictions.ops[i];
    op.roofline_s = p.time_lower_s.value_or(0);
    const auto device = device_numbers(x.explanation.machine);
    const bool moves = p.limiter == Limiter::memory && p.time_memory_s;
    if (device && moves && !x.explanation.machine.memory.empty() && x.explanation.machine.memory.front().bandwidth)
      add_overhead(
          op, "memory below its peak",
          *p.time_memory_s * (x.explanation.machine.memory.front().bandwidth->value / device->memory_bytes_per_s - 1));
    if (!device && op.predicted_s.expected > op.roofline_s)
      add_overhead(op, "rates below the peaks", op.predicted_s.expected - op.roofline_s);
    double known = op.roofline_s;
    for (const Overhead& each : op.overheads) known += each.seconds;
    add_overhead(op, "unknown", op.predicted_s.expected - known);
  }
}

}  // namespace

// Returns an error unless the machine runs Ridge's kernels, or the library whose kernels are requested.
static Status check_machine(const Machine& machine, KernelLibrary library) {
  if (library == KernelLibrary::ridge) {
    const auto device = device_numbers(machine);
    if (machine.name == "cpu" || device) return Done{};
    if (machine.kernels == "sm90" || !has_library(machine)) return device.error();
    return usage_error(device.error().message,
                       fmt::format("ridge explain PROGRAM --on {} --plan --library cublaslt", machine.name));
  }
  if (machine.name == "cpu") return usage_error("expected --library cublaslt with --on h200, found --on cpu");
  if (machine.kernels == "sm90" || has_library(machine)) return Done{};
  return usage_error(fmt::format("expected --library cublaslt with a GPU of NVIDIA's, found --on {}", machine.name),
                     "ridge explain PROGRAM --on a100_80 --plan --library cublaslt");
}

Result<PlannedProgram> predict_program(const Program& program, const Explanation& explanation,
                                       const PlanRequest& request) {
  const Machine& machine = explanation.machine;
  const bool is_cpu = machine.name == "cpu";
  RIDGE_TRY_STATUS(check_machine(machine, request.library));
  const FuseOptions fuse_options{
      .target = is_cpu ? Target::cpu : Target::cuda,
      .fuse = request.fuse,
      .fuse_epilogues = request.library == KernelLibrary::ridge,
      .library_attention = is_fitted(machine, ops::prefill_formula()) || is_fitted(machine, ops::decode_formula())};
  const auto device = device_numbers(machine);
  RIDGE_TRY(lowered, device && !is_cpu ? plan_fastest_fusion(program, explanation.dims, fuse_options, *device)
                                       : make_plan(program, explanation.dims, fuse_options));
  PlannedProgram out{lowered.fusion, std::vector<GroupPrediction>(lowered.fusion.groups.size()), {}, {}, {}};
  for (const Statement& statement : program.statements) out.results.push_back(statement.result());
  std::vector<std::vector<int>> groups;
  for (const FusionGroup& group : lowered.fusion.groups) groups.push_back(statements_with_recomputed(group));
  RIDGE_TRY(group_predictions, predict_groups(program, explanation, groups));
  const PlanContext context{program, explanation, lowered};
  RIDGE_TRY_STATUS(is_cpu ? add_cpu_kernels(out, context, group_predictions)
                          : add_device_kernels(out, context, request));
  if (request.with_overheads) add_overheads(out, context, group_predictions, request.library);
  out.bound = group_predictions.total;
  if (device && !is_cpu && out.kernels.size() > 1) out.switch_s = ops::kernel_switch_seconds(*device);
  for (const GroupPrediction& op : out.kernels) {
    out.has_model = out.has_model && op.has_model;
    const Interval time = out.time_in_program(op);
    out.predicted_s.low += time.low;
    out.predicted_s.expected += time.expected;
    out.predicted_s.high += time.high;
  }
  return out;
}

}  // namespace ridge

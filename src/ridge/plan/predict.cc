#include "ridge/plan/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ridge/base/cores.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/chain/model.h"
#include "ridge/ops/fused/model.h"
#include "ridge/ops/loops/model.h"
#include "ridge/ops/product/model.h"
#include "ridge/ops/product/time/losses.h"
#include "ridge/ops/routing/model.h"
#include "ridge/ops/rows/model.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/plan/form_time.h"
#include "ridge/plan/library.h"
#include "ridge/plan/plan.h"
#include "ridge/plan/soonest.h"

namespace ridge {
namespace {

void add_time(OpPlan& op, double seconds, const ops::Spread& spread) {
  op.predicted_s.low += spread.low * seconds;
  op.predicted_s.expected += spread.middle * seconds;
  op.predicted_s.high += spread.high * seconds;
}

void add_bytes(OpPlan& op, const ops::Forecast& kernel) {
  if (!kernel.moved) return;
  const ops::MovedBytes moved = kernel.moved();
  op.traffic_bytes += moved.traffic;
  op.memory_bytes += moved.memory;
}

void add_kernel(OpPlan& op, ops::Forecast kernel) {
  add_time(op, kernel.seconds, kernel.spread);
  if (kernel.leads) {
    op.plan = std::move(kernel.plan);
    op.candidates = std::move(kernel.candidates);
    op.facts = std::move(kernel.facts);
  } else if (op.plan.kernel.empty()) {
    op.plan = std::move(kernel.plan);
  }
}

// Returns the names of the tensors in a step's first two buffers, or "a copy".
std::vector<std::string> operand_names(const Program& program, const Step& step) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, step.buffers.size()); ++i) {
    const auto buffer = static_cast<std::size_t>(step.buffers[i]);
    out.push_back(buffer < program.tensors.size() ? program.tensors[buffer].name : "a copy");
  }
  return out;
}

struct Lowered {
  const Program& program;
  const Explanation& explanation;
  const Plan& plan;
};

std::string text_of(const Lowered& x, int group) {
  std::string out;
  for (const int s : x.plan.fusion.groups[static_cast<std::size_t>(group)].statements)
    out += (out.empty() ? "" : "; ") + x.program.statements[static_cast<std::size_t>(s)].text;
  return out;
}

// Returns the bytes of all buffers of a step.
std::int64_t buffer_bytes(const Plan& plan, const Step& step) {
  std::int64_t bytes = 0;
  for (const int buffer : step.buffers)
    if (buffer >= 0) bytes += plan.buffers[static_cast<std::size_t>(buffer)].bytes();
  return bytes;
}

// Adds a step by a form that was fitted to a library on this machine. Returns false if there is none.
Result<bool> add_fitted(OpPlan& op, const Lowered& x, const Step& step) {
  const std::int64_t bytes = buffer_bytes(x.plan, step);
  const auto kernel = library_kernel(step, bytes);
  if (!kernel) return false;
  const auto rates = library_machine(x.explanation.machine, kernel->dtype);
  if (!rates) return rates.error();
  const auto known = form_time(x.explanation.machine, *kernel->form, kernel->sizes, *rates);
  if (!known) return false;
  add_time(op, known->seconds, known->spread);
  op.traffic_bytes += bytes;
  op.memory_bytes += bytes;
  if (op.plan.kernel.empty()) op.plan = {.kernel = fmt::format("library_{}", kernel->form->name)};
  return true;
}

// Adds a library kernel. Its tile is unknown, so the bytes are the minimum. Returns false if there is no such kernel.
Result<bool> add_of_library(OpPlan& op, const Lowered& x, const Step& step, std::string& remark) {
  const auto* const product = std::get_if<ops::MatmulProblem>(&step.kernel);
  if (product == nullptr) return add_fitted(op, x, step);
  const Machine& machine = x.explanation.machine;
  const auto library = library_on(machine, product->a.dtype);
  if (!library) return library.error();
  add_time(op, library_seconds(library_product(*product), library->machine, library->numbers), library->spread);
  const auto bytes = static_cast<std::int64_t>(least_bytes(library_product(*product)));
  op.traffic_bytes += bytes;
  op.memory_bytes += bytes;
  op.plan = {.kernel = "cublaslt"};
  if (!library->is_measured)
    remark = fmt::format(
        "the library is not calibrated on {}: its parameters are an H200's, scaled by the peaks, so the "
        "interval is wider",
        machine.name);
  return true;
}

Status add_on_device(PlannedProgram& out, const Lowered& x, const PlanRequest& request) {
  const auto device = device_numbers(x.explanation.machine);
  if (!device) return device.error();
  out.remark = remark(x.explanation.machine, *device);
  std::vector<double> led_s(out.kernels.size());  // time of each operation's main kernel, which has candidates
  for (const Step& step : x.plan.steps) {
    OpPlan& op = out.kernels[static_cast<std::size_t>(step.group)];
    if (!step.copy.empty()) op.copies.push_back(step.copy);
    if (request.library == Library::cublaslt) {
      const auto added = add_of_library(op, x, step, out.remark);
      if (!added) return added.error();
      if (*added) continue;
    }
    auto kernel = std::visit([&](const auto& problem) { return forecast(problem, *device); }, step.kernel);
    if (!kernel)
      return input_error(fmt::format("cannot plan '{}': {}", text_of(x, step.group), kernel.error().message));
    if (kernel->leads) op.operands = operand_names(x.program, step);
    if (request.bytes) add_bytes(op, *kernel);
    if (kernel->leads) led_s[static_cast<std::size_t>(step.group)] = kernel->spread.middle * kernel->seconds;
    add_kernel(op, *std::move(kernel));
  }
  for (std::size_t i = 0; i < out.kernels.size(); ++i)  // candidates include the other steps
    for (ops::Candidate& candidate : out.kernels[i].candidates)
      candidate.predicted_s += out.kernels[i].predicted_s.expected - led_s[i];
  return Done{};
}

// Returns the compute time of a kernel in seconds.
double computing_s(const ops::CpuForecast& kernel, const Machine& machine) {
  const Peak* peak = kernel.pairs ? machine.peak(Unit::matrix, DType::bf16) : nullptr;
  if (peak == nullptr) peak = machine.peak(Unit::vector, DType::f32);
  if (peak == nullptr) return 0;
  const double rate = peak->sustained ? peak->sustained->value : peak->rate.value;
  return rate > 0 ? kernel.vector_flops / rate : 0;
}

void add_cpu_kernel(OpPlan& op, const ops::CpuForecast& kernel, const Plan& plan, const Step& step) {
  const std::int64_t asked = kernel.asked_bytes.value_or(buffer_bytes(plan, step));
  op.traffic_bytes += asked;
  if (!step.copy.empty()) op.memory_bytes += asked;
  op.plan.kernel += op.plan.kernel.empty() ? "" : ", ";
  op.plan.kernel += step.copy.empty() ? kernel.kernel : "copy";
}

// Returns the time at sustained rates where these were measured, else at the peaks.
double sustained_s(const Lowered& x, const Group& group, const Prediction& whole) {
  double math = 0;
  for (const int s : all_statements(group)) {
    const Prediction& p = x.explanation.ops[static_cast<std::size_t>(s)];
    const double slower = p.peak && p.peak->sustained ? p.peak->rate.value / p.peak->sustained->value : 1;
    math += p.time_math_s.value_or(0) * slower;
  }
  const MemoryLevel& memory = x.explanation.machine.memory.front();
  const double slower = memory.sustained && memory.bandwidth ? memory.bandwidth->value / memory.sustained->value : 1;
  return std::max(math, whole.time_memory_s.value_or(0) * slower);
}

// Replaces the prediction by the calibrated one if the machine was calibrated.
void add_calibrated(OpPlan& op, const Machine& machine) {
  const auto known = form_time(machine, ops::cpu_form(), op.cpu_sizes);
  if (!known) return;
  op.predicted_s = {};
  add_time(op, known->seconds, known->spread);
}

Status add_on_cpu(PlannedProgram& out, const Lowered& x) {
  std::vector<std::vector<int>> groups;
  for (const Group& group : x.plan.fusion.groups) groups.push_back(all_statements(group));
  const auto whole = grouped(x.program, x.explanation, groups);
  if (!whole) return whole.error();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Prediction& p = whole->ops[i];
    if (!p.time_lower_s)
      return input_error(fmt::format("cannot plan '{}': no {} on record", p.work.text, p.missing),
                         "`ridge probe` measures this machine");
    const double expected = sustained_s(x, x.plan.fusion.groups[i], p);
    out.kernels[i].predicted_s = {*p.time_lower_s, expected, std::max(*p.time_upper_s, expected)};
    out.kernels[i].memory_bytes = x.plan.fusion.groups[i].bytes_after;
  }
  std::vector<double> functions_s(groups.size());
  for (const Step& step : x.plan.steps) {
    OpPlan& op = out.kernels[static_cast<std::size_t>(step.group)];
    if (!step.copy.empty()) op.copies.push_back(step.copy);
    const ops::CpuForecast kernel =
        std::visit([](const auto& problem) { return cpu_forecast(problem, usable_cores()); }, step.kernel);
    if (kernel.facts) op.facts = kernel.facts;
    add_cpu_kernel(op, kernel, x.plan, step);
    op.predicted_s.expected = std::max(op.predicted_s.expected, computing_s(kernel, x.explanation.machine));
    op.predicted_s.high = std::max(op.predicted_s.high, op.predicted_s.expected);
    functions_s[static_cast<std::size_t>(step.group)] += computing_s(kernel, x.explanation.machine);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    OpPlan& op = out.kernels[i];
    op.cpu_sizes = cpu_sizes(x.explanation, x.plan, static_cast<int>(i), whole->ops[i], functions_s[i]);
    add_calibrated(op, x.explanation.machine);
  }
  return Done{};
}

void lose(OpPlan& op, std::string_view cause, double seconds) {
  const auto same = std::find_if(op.lost.begin(), op.lost.end(), [&](const Lost& x) { return x.cause == cause; });
  if (same != op.lost.end())
    same->seconds += seconds;
  else
    op.lost.push_back({std::string(cause), seconds});
}

// Adds the overheads that each step has on a device.
void lose_steps(PlannedProgram& out, const Lowered& x, Library library) {
  const auto device = device_numbers(x.explanation.machine);
  if (!device) return;
  for (const Step& step : x.plan.steps) {
    OpPlan& op = out.kernels[static_cast<std::size_t>(step.group)];
    const auto* const product = std::get_if<ops::MatmulProblem>(&step.kernel);
    if (product == nullptr || library == Library::cublaslt)
      lose(op, "launch", device->launch_s);
    else
      for (const ops::Loss& loss : losses(*product, *device)) lose(op, loss.cause, loss.seconds);
  }
}

// Sets each kernel's roofline bound and overheads: memory below its peak where memory limits, the rest unknown.
Status add_losses(PlannedProgram& out, const Lowered& x, Library library) {
  std::vector<std::vector<int>> groups;
  for (const Group& group : x.plan.fusion.groups) groups.push_back(all_statements(group));
  const auto whole = grouped(x.program, x.explanation, groups);
  if (!whole) return whole.error();
  lose_steps(out, x, library);
  for (std::size_t i = 0; i < out.kernels.size(); ++i) {
    OpPlan& op = out.kernels[i];
    const Prediction& p = whole->ops[i];
    op.roof_s = p.time_lower_s.value_or(0);
    const auto device = device_numbers(x.explanation.machine);
    const bool moves = p.limiter == Limiter::memory && p.time_memory_s;
    if (device && moves && !x.explanation.machine.memory.empty() && x.explanation.machine.memory.front().bandwidth)
      lose(op, "memory below its peak",
           *p.time_memory_s * (x.explanation.machine.memory.front().bandwidth->value / device->memory_bytes_per_s - 1));
    if (!device && op.predicted_s.expected > op.roof_s)
      lose(op, "rates below the peaks", op.predicted_s.expected - op.roof_s);
    double known = op.roof_s;
    for (const Lost& each : op.lost) known += each.seconds;
    lose(op, "unknown", op.predicted_s.expected - known);
  }
  return Done{};
}

}  // namespace

std::string_view name(Library library) { return library == Library::ridge ? "ridge" : "cublaslt"; }

Result<PlannedProgram> predict(const Program& program, const Explanation& explanation, const PlanRequest& request) {
  const Machine& machine = explanation.machine;
  const bool cpu = machine.name == "cpu";
  if (!cpu)
    if (const auto device = device_numbers(machine); !device) return device.error();
  if (cpu && request.library != Library::ridge)
    return usage_error("expected --library cublaslt with --on h200, found --on cpu");
  const FuseOptions how{.target = cpu ? Target::cpu : Target::cuda,
                        .fuse = request.fuse,
                        .epilogues = request.library == Library::ridge,
                        .attention = is_fitted(machine, ops::prefill_form()) || is_fitted(machine, ops::decode_form())};
  const auto lowered = cpu ? plan(program, explanation.dims, how)
                           : soonest_plan(program, explanation.dims, how, *device_numbers(machine));
  if (!lowered) return lowered.error();
  PlannedProgram out{lowered->fusion, std::vector<OpPlan>(lowered->fusion.groups.size()), {}, {}, {}};
  for (const Statement& statement : program.statements) out.results.push_back(statement.result());
  const auto done = cpu ? add_on_cpu(out, {program, explanation, *lowered})
                        : add_on_device(out, {program, explanation, *lowered}, request);
  if (!done) return done.error();
  if (request.why)
    if (const Status added = add_losses(out, {program, explanation, *lowered}, request.library); !added)
      return added.error();
  for (const OpPlan& op : out.kernels) {
    out.predicted_s.low += op.predicted_s.low;
    out.predicted_s.expected += op.predicted_s.expected;
    out.predicted_s.high += op.predicted_s.high;
  }
  return out;
}

}  // namespace ridge

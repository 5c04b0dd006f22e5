#include "ridge/plan/model/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "ridge/plan/model/collective_bound.h"
#include "ridge/program/load.h"
#include "ridge/roofline/memory.h"
#include "ridge/roofline/prediction.h"

namespace ridge {
namespace {

// Returns the bytes that a module reads of inputs with this use, each once.
double count_read_bytes(const CountedPart& part, const std::vector<int>& statements, InputUse use,
                        const std::map<std::string, double>& sizes) {
  std::map<int, double> bytes;  // By tensor
  for (const int statement : statements)
    for (const TensorRead& read : part.counts.work[statement].reads)
      if (part.program.tensors[read.tensor].declared_use == use)
        bytes[read.tensor] = std::max(bytes[read.tensor], read.amount.evaluate_double(sizes));
  return std::accumulate(bytes.begin(), bytes.end(), 0.0,
                         [](double sum, const auto& tensor) { return sum + tensor.second; });
}

void count_reads(CountedPart& out) {
  const std::map<std::string, double> sizes(out.counts.dims.begin(), out.counts.dims.end());
  for (const std::vector<int>& group : out.groups) {
    out.parameters_read.push_back(count_read_bytes(out, group, InputUse::parameter, sizes));
    out.cache_read.push_back(count_read_bytes(out, group, InputUse::cache, sizes) +
                             count_read_bytes(out, group, InputUse::state, sizes));
  }
}

// Adds a module for each group of the part.
Status add_modules(const CountedPart& counted, const Machine& machine, PartStep& out) {
  const auto statements = predict_statements(counted.counts, machine);
  if (!statements) return absent_error(statements.error().message);  // Without the position in a generated program
  RIDGE_TRY(kernels, predict_kernels(counted.program, counted.counts, *statements, machine, counted.groups));
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const Prediction& op = kernels[i];
    out.modules.push_back({.part = counted.part.name,
                           .module = counted.part.modules[i].name,
                           .layers = counted.part.count,
                           .flops = static_cast<double>(op.flops.value_or(0)),
                           .bytes = static_cast<double>(op.bytes.value_or(0)),
                           .parameter_bytes = counted.parameters_read[i],
                           .cache_bytes = counted.cache_read[i],
                           .bound_s = op.time_lower_s.value_or(0),
                           .limiter = op.limiter.value_or(Limiter::memory)});
    if (out.missing.empty()) out.missing = op.missing;
  }
  return Done{};
}

using CollectiveBounds = std::map<std::string, CollectiveBound>;  // By program

// Adds the collectives of a part as one module.
Status add_collectives(const model::PartProgram& part, const Machine& machine, CollectiveBounds& known, PartStep& out) {
  if (part.collectives.empty()) return Done{};
  ModuleStep module{.part = part.name, .module = "network", .layers = part.count, .limiter = Limiter::network};
  for (const std::string& text : part.collectives) {
    RIDGE_TRY(bound, find_collective_bound(text, machine, known));
    module.bytes_sent += bound.bytes_sent;
    module.bound_s += bound.seconds;
  }
  if (out.predicted_s) module.predicted_s = Interval{module.bound_s, module.bound_s, module.bound_s};
  out.modules.push_back(std::move(module));
  return Done{};
}

void count_memory(CountedPart& counted) {
  const model::PartProgram& part = counted.part;
  PartStep& out = counted.memory;
  // Without options, no sizes that fit are solved for, so that the machine does not matter.
  const MemoryUse memory =
      analyze_memory(counted.program, Machine(), counted.counts.dims, {}, counted.counts.dim_names, counted.groups);
  double inputs = 0, dropped = 0;
  for (const TensorMemory& tensor : memory.tensors) {
    if (tensor.role != TensorRole::input || tensor.use == InputUse::activation) continue;
    const double bytes = tensor.device_bytes.value_or(0);
    const double kept = tensor.use == InputUse::cache ? part.kept_cache : 1;
    inputs += bytes;
    dropped += (1 - kept) * bytes;
    const bool is_shared = part.shares_embedding && tensor.name == "embedding";
    if (is_shared)
      out.embedding_bytes += bytes;
    else
      (tensor.use == InputUse::parameter ? out.parameter_bytes : out.cache_bytes) += kept * bytes;
  }
  out.activation_bytes = memory.peak_bytes.value_or(0) - inputs + dropped;
}

// Returns the index of the module in which a kernel has most of its work.
std::size_t find_module(const CountedPart& counted, const Explanation& explanation, const FusionGroup& kernel) {
  std::size_t found = 0;
  double most = -1;
  for (const int statement : kernel.statements) {
    const Prediction& one = explanation.ops[statement];
    const double seconds = std::max(one.time_math_s.value_or(0), one.time_memory_s.value_or(0));
    if (seconds <= most) continue;
    most = seconds;
    for (std::size_t i = 0; i < counted.groups.size(); ++i)
      if (std::count(counted.groups[i].begin(), counted.groups[i].end(), statement) > 0) found = i;
  }
  return found;
}

// Adds the predicted times of the part's kernels to its modules.
Status add_plan(const CountedPart& counted, const Machine& machine, const PlanRequest& plan, PartStep& out) {
  RIDGE_TRY(explanation, explain(counted.program, machine, {}, {}, Thresholds::skipped));
  RIDGE_TRY(planned, predict_program(counted.program, explanation, plan));
  if (!planned.has_model) return absent_error("a kernel has no cost model", "");
  for (std::size_t i = 0; i < planned.kernels.size(); ++i) {
    ModuleStep& module = out.modules[find_module(counted, explanation, planned.fusion.groups[i])];
    add_interval(module.predicted_s, planned.time_in_program(planned.kernels[i]));
  }
  out.remark = planned.remark;
  out.kernels = static_cast<std::int64_t>(planned.kernels.size());
  out.predicted_s = Interval{};
  return Done{};
}

Result<PartStep> predict_part(const CountedPart& counted, const Machine& machine,
                              const std::optional<PlanRequest>& plan, CollectiveBounds& collectives) {
  const model::PartProgram& part = counted.part;
  PartStep out = counted.memory;
  out.layers = part.count;
  out.kernels = std::ssize(part.modules);
  RIDGE_TRY_STATUS(add_modules(counted, machine, out));
  if (plan)
    if (const Status planned = add_plan(counted, machine, *plan, out); !planned)
      out.remark = fmt::format("no prediction for the {}: {}", part.name, planned.error().message);
  RIDGE_TRY_STATUS(add_collectives(part, machine, collectives, out));
  for (const ModuleStep& module : out.modules) {
    out.bound_s += module.bound_s;
    if (out.predicted_s && module.predicted_s) add_interval(out.predicted_s, *module.predicted_s);
  }
  return out;
}

void add_module_totals(ModelStep& out) {
  for (const ModuleStep& module : out.modules) {
    const double layers = static_cast<double>(module.layers);
    out.flops += layers * module.flops;
    out.bytes += layers * module.bytes;
    out.bytes_sent += layers * module.bytes_sent;
    out.bound_s += layers * module.bound_s;
    if (module.limiter == Limiter::network) out.network_s += layers * module.bound_s;
    if (out.predicted_s && module.predicted_s) add_interval(out.predicted_s, *module.predicted_s, layers);
  }
}

}  // namespace

Result<std::vector<CountedPart>> count_parts(const model::ModelPrograms& programs) {
  std::vector<CountedPart> out;
  for (const model::PartProgram& part : programs.parts) {
    RIDGE_TRY(loaded, load_program(part.text, DType::bf16));
    auto counts = count_program(loaded.program);
    if (!counts) return absent_error(counts.error().message);  // Without the position in a generated program
    CountedPart counted{part, std::move(loaded.program), *std::move(counts)};
    int statement = 0;
    for (const model::ProgramModule& module : part.modules) {
      counted.groups.emplace_back();
      for (std::size_t i = 0; i < module.results.size(); ++i) counted.groups.back().push_back(statement++);
    }
    count_reads(counted);
    count_memory(counted);
    out.push_back(std::move(counted));
  }
  return out;
}

Result<std::vector<PartStep>> predict_parts(std::span<const CountedPart> parts, const Machine& machine,
                                            const std::optional<PlanRequest>& plan) {
  std::vector<PartStep> out;
  CollectiveBounds collectives;
  bool is_predicted = true;  // Parts are not planned after one that has no prediction
  for (const CountedPart& part : parts) {
    RIDGE_TRY(step, predict_part(part, machine, is_predicted ? plan : std::nullopt, collectives));
    is_predicted = step.predicted_s.has_value();
    out.push_back(std::move(step));
  }
  return out;
}

ModelStep add_parts(std::span<const PartStep> parts) {
  ModelStep out;
  const bool is_predicted =
      std::all_of(parts.begin(), parts.end(), [](const PartStep& x) { return x.predicted_s.has_value(); });
  if (is_predicted) out.predicted_s = Interval{};
  for (const PartStep& part : parts) {
    const auto layers = static_cast<double>(part.layers);
    out.modules.insert(out.modules.end(), part.modules.begin(), part.modules.end());
    out.parameter_bytes += layers * part.parameter_bytes;
    out.cache_bytes += layers * part.cache_bytes;
    out.activation_bytes = std::max(out.activation_bytes, part.activation_bytes);
    out.kernels += part.layers * part.kernels;
    if (out.missing.empty()) out.missing = part.missing;
    // A remark says why there is no prediction if a part has none.
    if (out.remark.empty() && part.predicted_s.has_value() == is_predicted) out.remark = part.remark;
  }
  if (!is_predicted) {
    out.kernels = 0;
    for (ModuleStep& module : out.modules) {
      module.predicted_s = {};
      if (module.limiter != Limiter::network) out.kernels += module.layers;
    }
  }
  add_module_totals(out);
  return out;
}

Result<ModelStep> predict_model_step(const model::ModelPrograms& programs, const Machine& machine,
                                     const std::optional<PlanRequest>& plan) {
  RIDGE_TRY(counted, count_parts(programs));
  RIDGE_TRY(parts, predict_parts(counted, machine, plan));
  ModelStep out = add_parts(parts);
  out.notes = programs.notes;
  return out;
}

}  // namespace ridge

#include "ridge/plan/model/training_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ridge/base/contains.h"
#include "ridge/plan/model/collective_bound.h"
#include "ridge/program/load.h"
#include "ridge/roofline/memory.h"
#include "ridge/roofline/prediction.h"

namespace ridge {
namespace {

// Statements of a pass that run as one kernel, and the pass.
struct PassGroup {
  TrainingPass pass = TrainingPass::forward;
  const TrainingGroup* group = nullptr;
};

// Counts the memory of one part.
class PartMemory {
 public:
  PartMemory(const TrainingPart& part, bool is_full) : part_(part), is_full_(is_full && part.is_layer()) {
    if (const auto sizes = part.program.bind_sizes({})) sizes_ = *sizes;
  }

  // The data ranks divide the parameters that experts read.
  void count_parameters(bool divides_experts) {
    const Program& program = part_.program;
    for (std::size_t t = 0; t < program.tensors.size(); ++t) {
      const Tensor& tensor = program.tensors[t];
      if (tensor.declared_use != InputUse::parameter) continue;
      const double elements = count_bytes(tensor) / bytes_per_element(tensor.dtype);
      if (part_.forward.shares_embedding && tensor.name == "embedding")
        out_.embedding_parameters += elements;
      else if (divides_experts && is_read_by("experts", static_cast<int>(t)))
        out_.divided_parameters += elements;
      else
        out_.shared_parameters += elements;
    }
  }

  void count_memory() {
    KernelGroups groups;  // A statement that is computed again does not count twice
    for (const TrainingGroup& group : part_.forward_groups) groups.push_back(group.statements);
    for (const TrainingGroup& group : part_.backward_groups) {
      groups.emplace_back();
      for (const int s : group.statements)
        if (!contains(part_.recomputed, s)) groups.back().push_back(s);
    }
    const std::map<std::string, double> sizes(sizes_.begin(), sizes_.end());
    double peak = 0, kept = 0, others = 0;
    for (const Polynomial& live : list_live_bytes(part_.program, groups))
      peak = std::max(peak, live.evaluate_double(sizes));
    for (std::size_t t = 0; t < part_.program.tensors.size(); ++t) {
      const Tensor& tensor = part_.program.tensors[t];
      const double bytes = count_bytes(tensor);
      if (part_.is_kept[t]) kept += bytes;
      if (tensor.declared_use == InputUse::parameter || part_.is_parameter_gradient[t]) others += bytes;
    }
    out_.working_bytes = std::max(0.0, peak - others - kept);
    out_.kept_bytes = kept;
    if (!is_full_) return;
    out_.recomputed_bytes = kept;
    out_.kept_bytes = 0;
    for (const Tensor& tensor : part_.program.tensors)
      if (tensor.name == "x") out_.kept_bytes = count_bytes(tensor);
  }

  TrainingPartMemory finish() const { return out_; }

 private:
  // Returns the elements of a tensor times the bytes of one.
  double count_bytes(const Tensor& tensor) const {
    double elements = 1;
    for (const Axis& axis : tensor.axes) elements *= static_cast<double>(axis.size(sizes_).value_or(0));
    return elements * bytes_per_element(tensor.dtype);
  }

  bool is_read_by(std::string_view module, int tensor) const {
    return std::any_of(part_.forward_groups.begin(), part_.forward_groups.end(), [&](const TrainingGroup& group) {
      return group.module == module && std::any_of(group.statements.begin(), group.statements.end(), [&](int s) {
               return contains(statement_operands(part_.program.statements[s]), tensor);
             });
    });
  }

  const TrainingPart& part_;
  bool is_full_ = false;
  Bindings sizes_ = {};
  TrainingPartMemory out_ = {};
};

// Analyzes the times of one part.
class PartAnalysis {
 public:
  PartAnalysis(const TrainingPart& part, const TrainingPartCounts& counts, const Machine& machine, bool is_full)
      : part_(part), counts_(counts), machine_(machine), is_full_(is_full && part.is_layer()) {
    out_.layers = part.forward.count;
  }

  Status time_passes() {
    auto predicted = predict_statements(counts_.passes, machine_);
    if (!predicted) return absent_error(predicted.error().message);  // Without the position in a generated program
    predicted_ = *std::move(predicted);
    if (is_full_) RIDGE_TRY_STATUS(add_forward_alone());
    std::vector<PassGroup> passes;
    for (const TrainingGroup& group : part_.forward_groups)
      passes.push_back({is_full_ ? TrainingPass::recomputation : TrainingPass::forward, &group});
    for (const TrainingGroup& group : part_.backward_groups) passes.push_back({TrainingPass::backward, &group});
    return add_modules(part_.program, counts_.passes, predicted_, passes);
  }

  void count_model_flops() {
    for (const TrainingGroup& group : part_.forward_groups)
      for (const int s : group.statements)
        if (predicted_[s].work.contraction)
          out_.model_flops += 3 * static_cast<double>(predicted_[s].flops.value_or(0));
  }

  // Plans the kernels of each pass as a program of its own. A prediction that fails leaves a remark.
  void add_plan(const PlanRequest& plan) {
    std::vector<int> forward, backward;
    for (const TrainingGroup& group : part_.forward_groups)
      forward.insert(forward.end(), group.statements.begin(), group.statements.end());
    for (const TrainingGroup& group : part_.backward_groups)
      backward.insert(backward.end(), group.statements.begin(), group.statements.end());
    is_planned_ = true;
    Status planned = plan_pass(is_full_ ? TrainingPass::recomputation : TrainingPass::forward, forward, true, plan);
    if (planned && is_full_) planned = plan_pass(TrainingPass::forward, forward, false, plan);
    if (planned) planned = plan_pass(TrainingPass::backward, backward, false, plan);
    if (planned) return;
    is_planned_ = false;
    out_.remark = fmt::format("no prediction for the {}: {}", part_.forward.name, planned.error().message);
  }

  Status add_network(std::map<std::string, CollectiveBound>& known) {
    RIDGE_TRY_STATUS(add_collectives(TrainingPass::forward, part_.forward.collectives, known));
    if (is_full_) RIDGE_TRY_STATUS(add_collectives(TrainingPass::recomputation, part_.forward.collectives, known));
    return add_collectives(TrainingPass::backward, part_.backward_collectives, known);
  }

  TrainingPartStep finish() {
    if (is_planned_) out_.times.predicted_s.emplace();
    for (TrainingModule& module : out_.modules) {
      if (!is_planned_) module.step.predicted_s = {};
      const auto pass = static_cast<std::size_t>(module.pass);
      out_.times.bound_s[pass] += module.step.bound_s;
      const auto& time = module.step.predicted_s;
      if (!time) continue;
      const double seconds[] = {time->low, time->expected, time->high};
      for (std::size_t i = 0; i < 3; ++i) (*out_.times.predicted_s)[i][pass] += seconds[i];
    }
    return std::move(out_);
  }

 private:
  Status add_modules(const Program& program, const CountedProgram& counts, const std::vector<Prediction>& statements,
                     const std::vector<PassGroup>& passes) {
    KernelGroups groups;
    for (const PassGroup& each : passes) groups.push_back(each.group->statements);
    RIDGE_TRY(kernels, predict_kernels(program, counts, statements, machine_, groups));
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const Prediction& op = kernels[i];
      out_.modules.push_back({.pass = passes[i].pass,
                              .step = {.part = part_.forward.name,
                                       .module = passes[i].group->module,
                                       .layers = part_.forward.count,
                                       .flops = static_cast<double>(op.flops.value_or(0)),
                                       .bytes = static_cast<double>(op.bytes.value_or(0)),
                                       .bound_s = op.time_lower_s.value_or(0),
                                       .limiter = op.limiter.value_or(Limiter::memory)}});
      if (out_.missing.empty()) out_.missing = op.missing;
      statements_.push_back(groups[i]);
    }
    return Done{};
  }

  // With full recomputation, the first forward pass stores nothing for the backward pass.
  Status add_forward_alone() {
    RIDGE_TRY(predicted, predict_statements(counts_.forward_counts, machine_));
    std::vector<PassGroup> passes;
    for (const TrainingGroup& group : part_.forward_groups) passes.push_back({TrainingPass::forward, &group});
    return add_modules(counts_.forward, counts_.forward_counts, predicted, passes);
  }

  Status add_collectives(TrainingPass pass, const std::vector<std::string>& collectives,
                         std::map<std::string, CollectiveBound>& known) {
    if (collectives.empty()) return Done{};
    ModuleStep module{
        .part = part_.forward.name, .module = "network", .layers = part_.forward.count, .limiter = Limiter::network};
    for (const std::string& text : collectives) {
      RIDGE_TRY(sent, find_collective_bound(text, machine_, known));
      module.bytes_sent += sent.bytes_sent;
      module.bound_s += sent.seconds;
    }
    module.predicted_s = Interval{module.bound_s, module.bound_s, module.bound_s};
    out_.modules.push_back({.pass = pass, .step = std::move(module)});
    return Done{};
  }

  std::string write_type(const Tensor& tensor) const {
    std::string axes;
    for (const Axis& axis : tensor.axes)
      axes += (axes.empty() ? "" : ", ") + (axis.is_named() ? axis.dim : std::to_string(axis.literal));
    return fmt::format("{}[{}]", dtype_name(tensor.dtype), axes);
  }

  // Returns the program of these statements. What other statements compute is an input. With `stores_kept`, the results
  // that the backward pass reads are stored.
  std::string write_pass(const std::vector<int>& statements, bool stores_kept) const {
    const Program& program = part_.program;
    std::vector<int> known;
    std::string dims, inputs, lines;
    for (const Dimension& dim : program.dims)
      if (const auto size = counts_.passes.dims.find(dim.name); size != counts_.passes.dims.end())
        dims += fmt::format("{}{} = {}", dims.empty() ? "dims " : ", ", dim.name, size->second);
    for (const int s : statements) {
      const Statement& statement = program.statements[s];
      for (const int operand : statement_operands(statement)) {
        if (contains(known, operand)) continue;
        const Tensor& tensor = program.tensors[operand];
        known.push_back(operand);
        inputs += fmt::format("{} {}: {}\n", input_use_word(tensor.declared_use.value_or(InputUse::activation)),
                              tensor.name, write_type(tensor));
      }
      const Tensor& result = program.tensors[statement.result()];
      known.push_back(statement.result());
      const bool is_stored = result.declared || (stores_kept && part_.is_kept[statement.result()]);
      lines += fmt::format("{}{} ={}\n", result.name, is_stored ? ": " + write_type(result) : untyped_axes(result),
                           statement.text.substr(statement.text.find('=') + 1));
    }
    return dims + "\n" + inputs + lines;
  }

  std::string untyped_axes(const Tensor& tensor) const {
    const std::string type = write_type(tensor);
    return type.substr(type.find('['));
  }

  // Returns the module of a pass in which a kernel has most of its work. `originals` are the pass's statements.
  std::size_t find_module(TrainingPass pass, const FusionGroup& kernel, const std::vector<int>& originals,
                          const Explanation& explained) const {
    std::size_t found = 0;
    double most = -1;
    for (const int statement : kernel.statements) {
      const Prediction& one = explained.ops[statement];
      const double seconds = std::max(one.time_math_s.value_or(0), one.time_memory_s.value_or(0));
      if (seconds <= most) continue;
      most = seconds;
      for (std::size_t i = 0; i < statements_.size(); ++i)
        if (out_.modules[i].pass == pass && contains(statements_[i], originals[static_cast<std::size_t>(statement)]))
          found = i;
    }
    return found;
  }

  Status plan_pass(TrainingPass pass, std::vector<int> statements, bool stores_kept, const PlanRequest& plan) {
    // Negative positions of the backward pass's rotary are an input: they are the same in each layer.
    if (pass == TrainingPass::backward)
      std::erase_if(statements, [&](int s) {
        return part_.program.tensors[part_.program.statements[s].result()].dtype == DType::int32;
      });
    std::sort(statements.begin(), statements.end());
    RIDGE_TRY(loaded, load_program(write_pass(statements, stores_kept), DType::bf16));
    const auto explained = explain(loaded.program, machine_, {}, {}, Thresholds::skipped);
    if (!explained) return absent_error(explained.error().message);
    RIDGE_TRY(planned, predict_program(loaded.program, *explained, plan));
    if (!planned.has_model) return absent_error("a kernel has no cost model");
    for (std::size_t i = 0; i < planned.kernels.size(); ++i) {
      const std::size_t module = find_module(pass, planned.fusion.groups[i], statements, *explained);
      add_interval(out_.modules[module].step.predicted_s, planned.time_in_program(planned.kernels[i]));
    }
    if (out_.remark.empty()) out_.remark = planned.remark;
    return Done{};
  }

  const TrainingPart& part_;
  const TrainingPartCounts& counts_;
  const Machine& machine_;
  bool is_full_ = false, is_planned_ = false;
  std::vector<Prediction> predicted_ = {};         // Statements of both passes
  std::vector<std::vector<int>> statements_ = {};  // Statements of each module
  TrainingPartStep out_ = {};
};

Result<std::vector<TrainingPartCounts>> count_training_parts(const SizedTrainingPrograms& sized) {
  std::vector<TrainingPartCounts> out;
  for (const TrainingPart& part : sized.programs.parts) {
    RIDGE_TRY(passes, count_program(part.program));
    out.push_back({.passes = std::move(passes)});
    if (sized.recomputation != Recomputation::full || !part.is_layer()) continue;
    RIDGE_TRY(loaded, load_program(part.forward.text, DType::bf16));
    RIDGE_TRY(forward, count_program(loaded.program));
    out.back().forward = std::move(loaded.program);
    out.back().forward_counts = std::move(forward);
  }
  return out;
}

}  // namespace

std::string_view name(TrainingPass pass) {
  switch (pass) {
    case TrainingPass::forward: return "forward";
    case TrainingPass::recomputation: return "recomputation";
    case TrainingPass::backward: return "backward";
    case TrainingPass::optimizer: break;
  }
  return "optimizer";
}

void TrainingTimes::add(const TrainingTimes& other, double times) {
  for (std::size_t i = 0; i < training_passes; ++i) bound_s[i] += times * other.bound_s[i];
  if (!predicted_s || !other.predicted_s) {
    predicted_s = {};
    return;
  }
  for (std::size_t kind = 0; kind < 3; ++kind)
    for (std::size_t i = 0; i < training_passes; ++i) (*predicted_s)[kind][i] += times * (*other.predicted_s)[kind][i];
}

Result<SizedTrainingPrograms> size_training_programs(const model::ModelConfig& config,
                                                     const model::StepOptions& options, Recomputation recomputation) {
  RIDGE_TRY(programs, write_training_programs(config, options, recomputation));
  SizedTrainingPrograms out{.programs = std::move(programs), .recomputation = recomputation};
  for (const TrainingPart& part : out.programs.parts) {
    PartMemory memory(part, recomputation == Recomputation::full);
    memory.count_parameters(options.layout.sends_rows_to_experts());
    memory.count_memory();
    out.memory.push_back(memory.finish());
  }
  return out;
}

Result<std::vector<TrainingPartStep>> predict_training_parts(const SizedTrainingPrograms& sized, const Machine& machine,
                                                             const std::optional<PlanRequest>& plan) {
  if (sized.counts->empty()) {
    auto counts = count_training_parts(sized);
    if (!counts) return absent_error(counts.error().message);  // Without the position in a generated program
    *sized.counts = *std::move(counts);
  }
  std::vector<TrainingPartStep> out;
  std::map<std::string, CollectiveBound> collectives;
  bool is_planned = plan.has_value();  // Parts are not planned after one that has no prediction
  for (std::size_t i = 0; i < sized.programs.parts.size(); ++i) {
    PartAnalysis analysis(sized.programs.parts[i], (*sized.counts)[i], machine,
                          sized.recomputation == Recomputation::full);
    RIDGE_TRY_STATUS(analysis.time_passes());
    analysis.count_model_flops();
    if (is_planned) analysis.add_plan(*plan);
    RIDGE_TRY_STATUS(analysis.add_network(collectives));
    out.push_back(analysis.finish());
    is_planned = out.back().times.predicted_s.has_value();
  }
  return out;
}

}  // namespace ridge

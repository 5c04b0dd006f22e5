#include "ridge/measure/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/base/cores.h"
#include "ridge/base/string_util.h"
#include "ridge/device/run_generated.h"
#include "ridge/measure/clocks.h"
#include "ridge/measure/element_check.h"
#include "ridge/measure/reference.h"
#include "ridge/measure/run_cuda.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/fused/cpu.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/plan/plan.h"
#include "ridge/plan/shape.h"
#include "ridge/pool/isa.h"
#include "ridge/program/routine.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/device_steps.h"
#include "ridge/run/inputs.h"
#include "ridge/run/memory.h"
#include "ridge/run/npy.h"
#include "ridge/run/pass_counter.h"
#include "ridge/run/run_step.h"

namespace ridge {
namespace {

constexpr std::int64_t max_checked_elements = 10'000;

class ProgramRunner {
 public:
  ProgramRunner(const Program& program, const PlannedRun& planned, const RunOptions& options)
      : program_(program), explanation_(planned.explanation), options_(options), plan_(planned.plan) {
    for (const FusionGroup& group : plan_.fusion.groups) {
      out_.result_names.emplace_back();
      for (const int s : group.statements) out_.result_names.back().push_back(tensor_at(statement_at(s).result()).name);
    }
    out_.threads = options.threads > 0 ? options.threads : usable_cores();
    out_.isa = options.cuda ? "sm_90a" : std::string(isa_name(pool::active_isa()));
    out_.seed = options.seed;
    out_.memory_bytes = plan_.memory_bytes;
    for (const Tensor& tensor : program.tensors) shapes_.push_back(make_shape(tensor, explanation_.dims).value());
  }

  Result<Measurement> measure_and_check() {
    RIDGE_TRY_STATUS(prepare_run());
    RIDGE_TRY_STATUS(options_.cuda ? measure_on_device() : measure_on_cpu());
    return check_and_write();
  }

  // Checks names and kernels, allocates the buffers and fills the inputs.
  Status prepare_run() {
    RIDGE_TRY_STATUS(check_file_names(program_, options_.in, options_.out));
    for (const auto& step :
         {&ProgramRunner::check_kernels, &ProgramRunner::allocate_buffers, &ProgramRunner::fill_buffers})
      RIDGE_TRY_STATUS((this->*step)());
    return Done{};
  }

  void warm_up() {
    report_progress(0.1, "warming up");
    out_.clocks.base_hz = read_base_hz();
    (void)run_pass();
    out_.clocks.before_hz = read_running_hz();
    samples_.resize(plan_.fusion.groups.size());
  }

  // Times a pass over the whole program, records it and returns its seconds.
  double time_pass() {
    const Timer timer;
    const std::vector<double> seconds = run_pass();
    wall_seconds_.push_back(timer.seconds());
    for (std::size_t i = 0; i < seconds.size(); ++i) samples_[i].push_back(seconds[i]);
    return wall_seconds_.back();
  }

  void finish_measurement() {
    out_.clocks.after_hz = read_running_hz();
    summarize_samples(explanation_, samples_, wall_seconds_, OverheadMethod::sums, out_);
    record_copies();
  }

  Result<Measurement> check_and_write() {
    check_results();
    note_used_experts();
    if (!out_.mismatch) RIDGE_TRY_STATUS(write_outputs());
    return std::move(out_);
  }

  void report_progress(double done, const std::string& doing) const {
    if (options_.progress) options_.progress(done, doing);
  }
  const Tensor& tensor_at(int i) const { return program_.tensors[i]; }
  const Array& array_at(int i) const { return storage_[i].array(); }

  Status check_kernels() {
    for (const PlanStep& step : plan_.steps) {
      const auto why = options_.cuda ? device_unsupported_reason(step) : cpu_unsupported_reason(step);
      if (!why) continue;
      return input_error(fmt::format("cannot run '{}': {}", operation_text(step.group), why.text()));
    }
    return Done{};
  }

  const std::string& operation_text(int group) const { return explanation_.ops[group].work.text; }
  Status allocate_buffers() {
    const auto available = available_bytes();
    if (available && plan_.memory_bytes > *available)
      return input_error(fmt::format("the program's tensors take {}; expected at most the {} "
                                     "that are available",
                                     format_with_prefix(static_cast<double>(plan_.memory_bytes), "B"),
                                     format_with_prefix(static_cast<double>(*available), "B")),
                         "give smaller dimensions with -d");
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (options_.cuda && i == program_.tensors.size()) break;  // copies of operands exist only on the device
      const PlanBuffer& buffer = plan_.buffers[i];
      auto storage = ArrayStorage::make(buffer.dtype, buffer.elements);
      if (!storage)
        return input_error(fmt::format("the system refused {} of memory",
                                       format_with_prefix(static_cast<double>(buffer.size_bytes()), "B")),
                           "give smaller dimensions with -d");
      storage_.push_back(*std::move(storage));
    }
    return Done{};
  }

  Status fill_buffers() {
    std::vector<Array> arrays;
    for (const ArrayStorage& storage : storage_) arrays.push_back(storage.array());
    return fill_inputs({.program = program_,
                        .dims = explanation_.dims,
                        .buffers = plan_.buffers,
                        .arrays = arrays,
                        .in = options_.in,
                        .seed = options_.seed,
                        .threads = out_.threads,
                        .progress = [&](double done, const std::string& tensor) {
                          report_progress(0.1 * done, "filling " + tensor);
                        }});
  }

  void execute_step(const PlanStep& step) const {
    std::vector<void*> data;
    for (const int buffer : step.buffers) data.push_back(buffer < 0 ? nullptr : array_at(buffer).data);
    ridge::run_step(step, data, out_.threads);
  }

  // Runs a pass and returns the seconds of each group's steps.
  std::vector<double> run_pass() const {
    std::vector<double> seconds(plan_.fusion.groups.size());
    for (const PlanStep& step : plan_.steps) {
      const Timer timer;
      execute_step(step);
      seconds[step.group] += timer.seconds();
    }
    return seconds;
  }

  Status measure_on_device() {
    std::vector<Array> arrays;
    for (const ArrayStorage& storage : storage_) arrays.push_back(storage.array());
    RIDGE_TRY(samples, run_on_device({program_, explanation_, plan_}, arrays, options_));
    summarize_samples(explanation_, samples.ops, samples.passes, OverheadMethod::medians, out_);
    record_copies();
    out_.clocks = samples.clocks;
    out_.device = samples.notes;
    for (std::size_t i = 0; i < out_.ops.size(); ++i) out_.ops[i].measured_bound = samples.measured_bounds[i];
    if (const auto why = device::generation_unavailable_reason())
      for (const int group : list_row_function_groups(plan_))
        out_.ops[group].note = "one block per row, which is slower: " + why.text();
    for (const auto& [op, tuned] : samples.tuned) out_.ops[op].tuned.push_back(tuned);
    return Done{};
  }

  Status measure_on_cpu() {
    warm_up();
    PassCounter passes(options_);
    while (passes.needs_more()) {
      report_progress(passes.run_progress(), passes.describe_pass());
      passes.add_pass(time_pass());
    }
    finish_measurement();
    return Done{};
  }

  void record_copies() {
    for (const PlanStep& step : plan_.steps)
      if (!step.copy_description.empty()) out_.ops[step.group].copies.push_back(step.copy_description);
  }

  // Notes routed products whose indices name fewer experts than their counts assume: their times are no longer those of
  // other inputs, and may be below the bound.
  void note_used_experts() {
    for (std::size_t i = 0; i < plan_.fusion.groups.size(); ++i)
      for (const int s : plan_.fusion.groups[i].statements)
        if (const Routine* const routine = routine_of(statement_at(s)); routine && routine->loads.empty())
          if (routine->kind == RoutineKind::routed) out_.ops[i].note = describe_used_experts(s);
  }
  std::string describe_used_experts(int statement) const {
    const std::vector<int> operands = expression_operands(std::get<Expression>(statement_at(statement).op));
    const Array ids = storage_[static_cast<std::size_t>(operands[2])].array();
    std::set<double> used;
    for (std::int64_t n = 0; n < ids.elements; ++n) used.insert(read_element(ids, n));
    const Routine& routine = *routine_of(statement_at(statement));
    const auto experts = static_cast<double>(
        axis_along(shapes_[static_cast<std::size_t>(operands[1])], axis_key(routine.over.front())).extent);
    const auto per_row = static_cast<double>(shapes_[static_cast<std::size_t>(operands[2])].back().extent);
    if (per_row > experts) return {};
    const double counted = experts * (1 - std::pow(1 - per_row / experts, static_cast<double>(ids.elements) / per_row));
    if (static_cast<double>(used.size()) > 0.9 * counted) return {};
    return fmt::format("its indices name {} of {} experts; the bound counts {}, the mean of uniform indices",
                       used.size(), experts, format_significant(counted, 3));
  }

  void check_results() {
    Reference reference{program_, explanation_.dims, {}, options_.in.empty(), out_.threads};
    reference.on_tensor_cores = plan_.fusion.target == Target::cuda;
    for (std::size_t i = 0; i < program_.tensors.size(); ++i) reference.tensors.push_back(storage_[i].array());
    for (std::size_t i = 0; i < plan_.fusion.groups.size(); ++i) {
      const FusionGroup& group = plan_.fusion.groups[i];
      report_progress(0.7 + 0.3 * static_cast<double>(i) / static_cast<double>(plan_.fusion.groups.size()),
                      "checking " + tensor_at(group.results.back()).name);
      reference.kernel_statements = statements_with_recomputed(group);
      std::vector<ArrayStorage> gathered;  // tensors that the kernel does not store
      std::erase_if(reference.kernel_statements, [&](int s) {
        auto made = materialize_gather(reference, statement_at(s));
        if (!made) return false;
        reference.tensors[statement_at(s).result()] = made->array();
        gathered.push_back(*std::move(made));
        return true;
      });
      if (options_.cuda) reference.gelu = gelu_tolerance(plan_, static_cast<int>(i));
      for (const int s : group.statements)
        if (contains(group.results, statement_at(s).result())) check_statement(reference, statement_at(s), out_.ops[i]);
      add_check(out_.total, out_.ops[i]);
    }
  }
  // Returns the result of a gather that another kernel contains, or nullopt for other statements.
  std::optional<ArrayStorage> materialize_gather(const Reference& reference, const Statement& of) const {
    const Routine* const routine = routine_of(of);
    const std::size_t result = of.result();
    if (routine == nullptr || routine->kind != RoutineKind::gather || storage_[result].array().elements > 0)
      return std::nullopt;
    const std::vector<int> in = expression_operands(std::get<Expression>(of.op));
    const auto table = static_cast<std::size_t>(in[0]), list = static_cast<std::size_t>(in[1]);
    const std::string& along_dim = routine->over.front().dim;
    const Shape& shape = shapes_[result];
    auto out = ArrayStorage::make(tensor_at(of.result()).dtype, count_elements(shape));
    if (!out) return std::nullopt;
    const std::size_t bytes = dtype_bits(tensor_at(of.result()).dtype) / 8;
    for (std::int64_t i = 0; i < out->array().elements; ++i) {
      std::int64_t in_table = 0, in_list = 0;
      for (const SizedAxis& axis : shape) {
        const std::int64_t position = axis.stride == 0 ? 0 : i / axis.stride % axis.extent;
        if (axis.dim != along_dim) in_table += position * axis_along(shapes_[table], axis.dim).stride;
        in_list += position * axis_along(shapes_[list], axis.dim).stride;
      }
      in_table += static_cast<std::int64_t>(read_element(reference.tensors[list], in_list)) *
                  axis_along(shapes_[table], along_dim).stride;
      std::memcpy(out->array().data + static_cast<std::size_t>(i) * bytes,
                  reference.tensors[table].data + static_cast<std::size_t>(in_table) * bytes, bytes);
    }
    return out;
  }
  const Statement& statement_at(int i) const { return program_.statements[i]; }

  void check_statement(const Reference& reference, const Statement& statement, OpMeasurement& op) {
    const int result = statement.result();
    const std::vector<std::int64_t> shape = shape_extents(shapes_[result]);
    const std::vector<std::int64_t> indices =
        sample_indices(shape, reference.max_affordable_elements(statement, max_checked_elements), options_.seed);
    const std::vector<Expected> expected = reference.evaluate_elements(statement, indices);
    const std::optional<Error> mismatch =
        check_elements({tensor_at(result).name, shape, statement.text}, array_at(result), indices, expected, op);
    if (!mismatch || out_.mismatch) return;
    out_.mismatch = mismatch;
    if (!options_.out.empty()) out_.mismatch->hint = "no output file was written";
  }

  Status write_outputs() const {
    for (const auto& [name, path] : options_.out) {
      const std::size_t index = *find_tensor(program_, name);
      RIDGE_TRY_STATUS(write_npy(path, storage_[index].array(), shape_extents(shapes_[index])));
    }
    return Done{};
  }

  const Program& program_;
  const Explanation& explanation_;
  const RunOptions& options_;
  const Plan& plan_;
  std::vector<Shape> shapes_;
  std::vector<ArrayStorage> storage_;
  std::vector<std::vector<double>> samples_;  // seconds of each group, per pass
  std::vector<double> wall_seconds_;          // seconds of each pass
  Measurement out_;
};

}  // namespace

Result<PlannedRun> plan_run(const Program& program, const Explanation& explanation, const RunOptions& options) {
  FuseOptions fuse_options{.target = options.cuda ? Target::cuda : Target::cpu,
                           .fuse = options.fuse,
                           .generate_kernels = !options.cuda || !device::generation_unavailable_reason()};
  for (const auto& [name, path] : options.out)
    if (const auto tensor = find_tensor(program, name)) fuse_options.stored_tensors.push_back(*tensor);
  const auto device = options.cuda ? current_device_numbers() : Result<ops::DeviceNumbers>(usage_error(""));
  RIDGE_TRY(planned, device ? plan_fastest_fusion(program, explanation.dims, fuse_options, *device)
                            : make_plan(program, explanation.dims, fuse_options));
  std::vector<std::vector<int>> groups;
  for (const FusionGroup& group : planned.fusion.groups) groups.push_back(statements_with_recomputed(group));
  RIDGE_TRY(regrouped, predict_groups(program, explanation, groups, fuse_options.stored_tensors));
  return PlannedRun{std::move(planned), std::move(regrouped)};
}

Result<Measurement> run_program(const Program& program, const PlannedRun& planned, const RunOptions& options) {
  if (options.cuda) RIDGE_TRY_STATUS(device::require_device());
  return ProgramRunner(program, planned, options).measure_and_check();
}

Result<Measurement> run_program(const Program& program, const Explanation& explanation, const RunOptions& options) {
  const auto planned = plan_run(program, explanation, options);
  return planned ? run_program(program, *planned, options) : planned.error();
}

Result<PairedMeasurement> run_paired(const RunTask& first, const RunTask& second, const RunOptions& options) {
  ProgramRunner a(first.program, first.planned, options), b(second.program, second.planned, options);
  for (ProgramRunner* runner : {&a, &b}) RIDGE_TRY_STATUS(runner->prepare_run());
  a.warm_up();
  b.warm_up();
  std::vector<double> ratios;
  PassCounter passes(options);
  while (passes.needs_more()) {  // the program that goes first alternates
    const bool swapped = ratios.size() % 2 == 1;
    const double early = (swapped ? b : a).time_pass(), late = (swapped ? a : b).time_pass();
    ratios.push_back(swapped ? early / late : late / early);
    passes.add_pass(early + late);
  }
  a.finish_measurement();
  b.finish_measurement();
  RIDGE_TRY(one, a.check_and_write());
  RIDGE_TRY(other, b.check_and_write());
  return PairedMeasurement{std::move(one), std::move(other), compute_median_interval(std::move(ratios))};
}

GeluTolerance gelu_tolerance(const Plan& plan, int group) {
  for (const PlanStep& step : plan.steps)
    if (const auto* fused = std::get_if<ops::FusedMatmul>(&step.kernel); fused && step.group == group)
      return {0x1p-22, fused->second ? std::exp2(-12.5) : 0, false};
  return {};
}

}  // namespace ridge

#include "ridge/measure/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ridge/base/cores.h"
#include "ridge/base/text.h"
#include "ridge/device/run_generated.h"
#include "ridge/measure/clocks.h"
#include "ridge/measure/device_machine.h"
#include "ridge/measure/device_steps.h"
#include "ridge/measure/inputs.h"
#include "ridge/measure/memory.h"
#include "ridge/measure/npy.h"
#include "ridge/measure/passes.h"
#include "ridge/measure/reference.h"
#include "ridge/measure/run_cuda.h"
#include "ridge/measure/steps.h"
#include "ridge/measure/summary.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/fused/cpu.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/ops/rows/strips.h"
#include "ridge/plan/plan.h"
#include "ridge/plan/shape.h"
#include "ridge/plan/soonest.h"
#include "ridge/pool/isa.h"

namespace ridge {
namespace {

constexpr std::int64_t checked_elements = 10'000;

class Runner {
 public:
  Runner(const Program& program, const RunPlan& planned, const RunOptions& options)
      : program_(program), explanation_(planned.explanation), options_(options), plan_(planned.plan) {
    for (const Group& group : plan_.fusion.groups) {
      out_.names.emplace_back();
      for (const int s : group.statements) out_.names.back().push_back(tensor(statement(s).result()).name);
    }
    out_.threads = options.threads > 0 ? options.threads : usable_cores();
    out_.isa = options.cuda ? "sm_90a" : std::string(name(tile::cpu::isa()));
    out_.seed = options.seed;
    out_.memory_bytes = plan_.memory_bytes;
    for (const Tensor& tensor : program.tensors) shapes_.push_back(shape(tensor, explanation_.dims).value());
  }

  Result<Measurement> perform() {
    if (const Status ready = prepare(); !ready) return ready.error();
    if (const Status measured = options_.cuda ? measure_on_device() : measure(); !measured) return measured.error();
    return checked();
  }

  // Checks names and kernels, allocates the buffers and fills the inputs.
  Status prepare() {
    if (const Status named = check_files(program_, options_.in, options_.out); !named) return named;
    for (const auto& step : {&Runner::check_kernels, &Runner::allocate, &Runner::fill})
      if (const Status done = (this->*step)(); !done) return done.error();
    return Done{};
  }

  void warm_up() {
    say(0.1, "warming up");
    out_.clocks.base_hz = base_hz();
    (void)pass();
    out_.clocks.before_hz = running_hz();
    samples_.resize(plan_.fusion.groups.size());
  }

  // Times a pass over the whole program, records it and returns its seconds.
  double timed_pass() {
    const Timer timer;
    const std::vector<double> seconds = pass();
    walls_.push_back(timer.seconds());
    for (std::size_t i = 0; i < seconds.size(); ++i) samples_[i].push_back(seconds[i]);
    return walls_.back();
  }

  void sum_up() {
    out_.clocks.after_hz = running_hz();
    summarize(explanation_, samples_, walls_, Between::sums, out_);
    add_copies();
  }

  Result<Measurement> checked() {
    check();
    if (!out_.mismatch)
      if (const Status written = write(); !written) return written.error();
    return std::move(out_);
  }

  void say(double done, const std::string& doing) const {
    if (options_.progress) options_.progress(done, doing);
  }
  const Tensor& tensor(int i) const { return program_.tensors[static_cast<std::size_t>(i)]; }
  const Array& array(int i) const { return storage_[static_cast<std::size_t>(i)].array(); }

  Status check_kernels() {
    for (const Step& step : plan_.steps) {
      const auto why = options_.cuda ? refuse_on_device(step) : refuse(step);
      if (!why) continue;
      return input_error(fmt::format("cannot run '{}': {}", text_of(step.group), *why));
    }
    return Done{};
  }

  const std::string& text_of(int group) const { return explanation_.ops[static_cast<std::size_t>(group)].work.text; }
  Status allocate() {
    const auto available = available_bytes();
    if (available && plan_.memory_bytes > *available)
      return input_error(fmt::format("the program's tensors take {}; expected at most the {} "
                                     "that are available",
                                     engineering(static_cast<double>(plan_.memory_bytes), "B"),
                                     engineering(static_cast<double>(*available), "B")),
                         "give smaller dimensions with -d");
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (options_.cuda && i == program_.tensors.size()) break;  // copies of operands exist only on the device
      const Buffer& buffer = plan_.buffers[i];
      auto storage = ArrayStorage::make(buffer.dtype, buffer.elements);
      if (!storage)
        return input_error(
            fmt::format("the system refused {} of memory", engineering(static_cast<double>(buffer.bytes()), "B")),
            "give smaller dimensions with -d");
      storage_.push_back(*std::move(storage));
    }
    return Done{};
  }

  Status fill() {
    std::vector<Array> arrays;
    for (const ArrayStorage& storage : storage_) arrays.push_back(storage.array());
    return fill_inputs(
        {.program = program_,
         .dims = explanation_.dims,
         .buffers = plan_.buffers,
         .arrays = arrays,
         .in = options_.in,
         .seed = options_.seed,
         .threads = out_.threads,
         .filling = [&](double done, const std::string& tensor) { say(0.1 * done, "filling " + tensor); }});
  }

  void perform(const Step& step) const {
    std::vector<void*> data;
    for (const int buffer : step.buffers) data.push_back(buffer < 0 ? nullptr : array(buffer).data);
    ridge::perform(step, data, out_.threads);
  }

  // Runs a pass and returns the seconds of each group's steps.
  std::vector<double> pass() const {
    std::vector<double> seconds(plan_.fusion.groups.size());
    for (const Step& step : plan_.steps) {
      const Timer timer;
      perform(step);
      seconds[static_cast<std::size_t>(step.group)] += timer.seconds();
    }
    return seconds;
  }

  Status measure_on_device() {
    std::vector<Array> arrays;
    for (const ArrayStorage& storage : storage_) arrays.push_back(storage.array());
    auto samples = run_on_device({program_, explanation_, plan_}, arrays, options_);
    if (!samples) return samples.error();
    summarize(explanation_, samples->ops, samples->passes, Between::medians, out_);
    add_copies();
    out_.clocks = samples->clocks;
    out_.device = samples->notes;
    for (std::size_t i = 0; i < out_.ops.size(); ++i) out_.ops[i].regime = samples->regimes[i];
    if (const auto note = ops::cuda::interpreted())
      for (const int group : generated_groups(plan_)) out_.ops[static_cast<std::size_t>(group)].note = *note;
    for (const auto& [op, tuned] : samples->tuned) out_.ops[static_cast<std::size_t>(op)].tuned.push_back(tuned);
    return Done{};
  }

  Status measure() {
    warm_up();
    Passes passes(options_);
    while (passes.more()) {
      say(passes.progress(), passes.doing());
      passes.add(timed_pass());
    }
    sum_up();
    return Done{};
  }

  void add_copies() {
    for (const Step& step : plan_.steps)
      if (!step.copy.empty()) out_.ops[static_cast<std::size_t>(step.group)].copies.push_back(step.copy);
  }

  void check() {
    Oracle oracle{program_, explanation_.dims, {}, options_.in.empty(), out_.threads};
    for (std::size_t i = 0; i < program_.tensors.size(); ++i) oracle.tensors.push_back(storage_[i].array());
    for (std::size_t i = 0; i < plan_.fusion.groups.size(); ++i) {
      const Group& group = plan_.fusion.groups[i];
      say(0.7 + 0.3 * static_cast<double>(i) / static_cast<double>(plan_.fusion.groups.size()),
          "checking " + tensor(group.results.back()).name);
      oracle.inside = all_statements(group);
      std::vector<ArrayStorage> gathered;  // tensors that the kernel does not store
      std::erase_if(oracle.inside, [&](int s) {
        auto made = gather(oracle, statement(s));
        if (!made) return false;
        oracle.tensors[static_cast<std::size_t>(statement(s).result())] = made->array();
        gathered.push_back(*std::move(made));
        return true;
      });
      if (options_.cuda) oracle.gelu = gelu_slack(plan_, static_cast<int>(i));
      for (const int s : group.statements)
        if (std::find(group.results.begin(), group.results.end(), statement(s).result()) != group.results.end())
          check(oracle, statement(s), out_.ops[i]);
      out_.total.max_rel_error = std::max(out_.total.max_rel_error, out_.ops[i].max_rel_error);
      out_.total.checked += out_.ops[i].checked;
      out_.total.elements += out_.ops[i].elements;
    }
  }
  // Returns the result of a gather that another kernel contains, or nullopt for other statements.
  std::optional<ArrayStorage> gather(const Oracle& oracle, const Statement& of) const {
    const Routine* const routine = routine_of(of);
    const auto result = static_cast<std::size_t>(of.result());
    if (routine == nullptr || routine->word != Word::gather || storage_[result].array().elements > 0)
      return std::nullopt;
    const std::vector<int> in = operands_of(std::get<Expression>(of.op));
    const auto table = static_cast<std::size_t>(in[0]), list = static_cast<std::size_t>(in[1]);
    const std::string& along_dim = routine->over.front().dim;
    const Shape& shape = shapes_[result];
    auto out = ArrayStorage::make(tensor(of.result()).dtype, elements(shape));
    if (!out) return std::nullopt;
    const auto bytes = static_cast<std::size_t>(bits(tensor(of.result()).dtype) / 8);
    for (std::int64_t i = 0; i < out->array().elements; ++i) {
      std::int64_t in_table = 0, in_list = 0;
      for (const SizedAxis& axis : shape) {
        const std::int64_t place = axis.stride == 0 ? 0 : i / axis.stride % axis.extent;
        if (axis.dim != along_dim) in_table += place * along(shapes_[table], axis.dim).stride;
        in_list += place * along(shapes_[list], axis.dim).stride;
      }
      in_table +=
          static_cast<std::int64_t>(read(oracle.tensors[list], in_list)) * along(shapes_[table], along_dim).stride;
      std::memcpy(out->array().data + static_cast<std::size_t>(i) * bytes,
                  oracle.tensors[table].data + static_cast<std::size_t>(in_table) * bytes, bytes);
    }
    return out;
  }
  const Statement& statement(int i) const { return program_.statements[static_cast<std::size_t>(i)]; }

  void check(const Oracle& oracle, const Statement& statement, OpMeasurement& op) {
    const int result = statement.result();
    const std::vector<std::int64_t> shape = extents(shapes_[static_cast<std::size_t>(result)]);
    const std::vector<std::int64_t> indices =
        sample(shape, oracle.affordable(statement, checked_elements), options_.seed);
    const std::vector<Expected> expected = oracle.evaluate(statement, indices);
    const Comparison comparison = compare(array(result), indices, expected);
    op.max_rel_error = std::max(op.max_rel_error, comparison.max_rel_error);
    op.checked += static_cast<std::int64_t>(indices.size());
    op.elements += array(result).elements;
    if (comparison.first_wrong >= 0 && !out_.mismatch) {
      const auto wrong = static_cast<std::size_t>(comparison.first_wrong);
      out_.mismatch = mismatch({tensor(result).name, shape, statement.text}, indices[wrong], expected[wrong],
                               read(array(result), indices[wrong]));
      if (!options_.out.empty()) out_.mismatch->hint = "no output file was written";
    }
  }

  Status write() const {
    for (const auto& [name, path] : options_.out) {
      const auto index = static_cast<std::size_t>(*tensor_named(program_, name));
      const Status written = write_npy(path, storage_[index].array(), extents(shapes_[index]));
      if (!written) return written.error();
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
  std::vector<double> walls_;                 // seconds of each pass
  Measurement out_;
};

}  // namespace

Result<RunPlan> plan_run(const Program& program, const Explanation& explanation, const RunOptions& options) {
  FuseOptions how{.target = options.cuda ? Target::cuda : Target::cpu,
                  .fuse = options.fuse,
                  .generate = !options.cuda || !ops::cuda::interpreted()};
  for (const auto& [name, path] : options.out)
    if (const auto tensor = tensor_named(program, name)) how.stored.push_back(*tensor);
  const auto device = options.cuda ? device_numbers_here() : Result<ops::DeviceNumbers>(usage_error(""));
  auto planned = device ? soonest_plan(program, explanation.dims, how, *device) : plan(program, explanation.dims, how);
  if (!planned) return planned.error();
  std::vector<std::vector<int>> groups;
  for (const Group& group : planned->fusion.groups) groups.push_back(all_statements(group));
  auto seen = grouped(program, explanation, groups, how.stored);
  if (!seen) return seen.error();
  return RunPlan{*std::move(planned), *std::move(seen)};
}

Result<Measurement> run(const Program& program, const RunPlan& planned, const RunOptions& options) {
  if (options.cuda)
    if (const Status there = ops::cuda::require_device(); !there) return there.error();
  return Runner(program, planned, options).perform();
}

Result<Measurement> run(const Program& program, const Explanation& explanation, const RunOptions& options) {
  const auto planned = plan_run(program, explanation, options);
  return planned ? run(program, *planned, options) : planned.error();
}

Result<Together> run_together(const RunTask& first, const RunTask& second, const RunOptions& options) {
  Runner a(first.program, first.planned, options), b(second.program, second.planned, options);
  for (Runner* runner : {&a, &b})
    if (const Status ready = runner->prepare(); !ready) return ready.error();
  a.warm_up();
  b.warm_up();
  std::vector<double> ratios;
  Passes passes(options);
  while (passes.more()) {  // the program that goes first alternates
    const bool swapped = ratios.size() % 2 == 1;
    const double early = (swapped ? b : a).timed_pass(), late = (swapped ? a : b).timed_pass();
    ratios.push_back(swapped ? early / late : late / early);
    passes.add(early + late);
  }
  a.sum_up();
  b.sum_up();
  auto one = a.checked(), other = b.checked();
  if (!one) return one.error();
  if (!other) return other.error();
  return Together{*std::move(one), *std::move(other), interval_of_median(std::move(ratios))};
}

}  // namespace ridge

#include "ridge/api/facade.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/api/command.h"
#include "ridge/api/dtypes.h"
#include "ridge/api/task.h"
#include "ridge/base/text.h"
#include "ridge/machine/defaults.h"
#include "ridge/machine/memory_choice.h"
#include "ridge/machine/system.h"
#include "ridge/measure/device_machine.h"
#include "ridge/program/weights.h"
#include "ridge/roofline/curve.h"
#include "ridge/roofline/groups.h"
#include "ridge/roofline/next.h"

namespace ridge {

Result<Machine> machine_of(const MachineChoice& choice) {
  if (choice.machine() != nullptr) return *choice.machine();
  return choice.where() == Where::cuda ? find_device_machine() : find_machine(choice.name());
}

namespace api {
namespace {

Result<Machine> linked(const MachineChoice& on, const std::optional<LinkChoice>& link, bool sustained = false) {
  const auto found = machine_of(on);
  if (!found) return found.error();
  Machine machine = sustained ? with_sustained_rates(*found) : *found;
  return link ? with_link(std::move(machine), *link) : Result<Machine>(std::move(machine));
}

// The program with its weights as they are asked for.
Result<LoadedProgram> loaded(const Request& request) {
  if (request.program.empty())
    return usage_error("expected a PROGRAM, found none", "ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]'");
  auto out = load_in(request.program, request.dtype, request.dims);
  if (!out || !request.weights) return out;
  auto narrowed = with_weights(std::move(out->program), *request.weights);
  if (!narrowed) return narrowed.error();
  out->program = *std::move(narrowed);
  return out;
}

Result<Task> on_machine(LoadedProgram program, const Request& request) {
  Task out{std::move(program.program), {}, std::move(program.title)};
  const Status found = take_machine(request, out);
  return found ? Result<Task>(std::move(out)) : found.error();
}

}  // namespace

Result<Task> read(const Request& request) {
  auto program = loaded(request);
  if (!program) return program.error();
  return Task{std::move(program->program), {}, std::move(program->title)};
}

Status take_machine(const Request& request, Task& task) {
  auto machine = linked(request.on, request.link, request.sustained);
  if (machine && request.memory) machine = with_memory(*std::move(machine), *request.memory);
  if (!machine) return machine.error();
  task.machine = *std::move(machine);
  return Done{};
}

Result<Task> understood(const Request& request) {
  auto program = loaded(request);
  return program ? on_machine(*std::move(program), request) : program.error();
}

Result<Report> counted(const Task& task, const Bindings& dims, const Request& request) {
  auto explanation = ridge::explain(task.program, task.machine, dims, request.split);
  if (!explanation) return explanation.error();
  return Report{"explain", task.title, *std::move(explanation), std::nullopt, today()};
}

namespace {

Status check_fused(const Request& request) {
  if (request.fused.empty() || !request.planned) return Done{};
  return usage_error("expected --fuse without --plan: a plan chooses which statements share a kernel",
                     "leave --fuse out, or --plan");
}

// The statements that were asked for as one kernel each, in place of the operations.
Status fuse(const Task& task, const Bindings& dims, const Request& request, Report& report) {
  if (request.fused.empty()) return Done{};
  const auto groups = groups_named(task.program, request.fused);
  if (!groups) return groups.error();
  for (const std::vector<int>& group : *groups) {
    report.statements.emplace_back();
    for (const int s : group)
      report.statements.back().push_back(report.explanation.ops[static_cast<std::size_t>(s)].work.name);
  }
  auto fused = grouped(task.program, report.explanation, *groups);
  if (!fused) return fused.error();
  if (fused->memory) fused->memory = memory_of(task.program, report.explanation, dims, *groups);
  report.explanation = *std::move(fused);
  return Done{};
}

void suggest(const Task& task, const Bindings& dims, const Request& request, Report& report) {
  report.asked = dimensions_asked(task.program, report.explanation, dims);
  if (!request.fused.empty() || request.planned) return;
  Request asked = request;
  asked.dims = dims;
  for (NextStep& step : next_steps(task.program, report.explanation, report.asked)) {
    std::string command = explain_command(asked, step.dims, step.options);
    report.next.push_back({std::move(step), std::move(command)});
  }
}

Layers layers_of(const Explanation& e, std::int64_t count) {
  Layers out{.count = count};
  const double times = static_cast<double>(count);
  if (e.total.time_lower_s) out.time_lower_s = times * *e.total.time_lower_s;
  if (e.total.time_upper_s) out.time_upper_s = times * *e.total.time_upper_s;
  if (!e.memory || !e.memory->peak_bytes) return out;
  double kept = 0;
  bool first = true;
  for (const TensorMemory& tensor : e.memory->tensors) {
    if (tensor.role != Role::input) continue;
    if (!first) kept += tensor.device_bytes.value_or(0);
    first = false;
  }
  out.bytes = *e.memory->peak_bytes + (times - 1) * kept;
  if (e.memory->capacity && !e.split && e.mesh_names.empty()) out.chips = std::ceil(*out.bytes / *e.memory->capacity);
  return out;
}

Result<Report> explained(const Task& task, const Bindings& dims, const Request& request) {
  if (const Status possible = check_fused(request); !possible) return possible.error();
  auto report = counted(task, dims, request);
  if (!report) return report;
  if (request.weights) report->weights = name(*request.weights);
  suggest(task, dims, request, *report);
  if (const Status fused = fuse(task, dims, request, *report); !fused) return fused.error();
  if (request.layers > 1) report->layers = layers_of(report->explanation, request.layers);
  if (!request.planned) return report;
  report->library = *request.planned == KernelsOf::ridge ? Library::ridge : Library::cublaslt;
  auto planned = predict(task.program, report->explanation, {report->library, request.fuse, request.why});
  if (!planned) return planned.error();
  report->planned = *std::move(planned);
  Request asked = request;
  asked.dims = dims;
  if (task.program.statements.size() <= max_next_statements && !request.split)
    if (const auto all = ridge::advise(task.program, report->explanation, {report->library, request.fuse}))
      report->next = suggested(asked, *all);
  return report;
}

}  // namespace

Result<Report> explain(const Request& request) {
  const auto task = understood(request);
  if (!task) return task.error();
  return explained(*task, request.dims, request);
}

Result<Report> explain(const BareWork& work) {
  const double flops = work.flops.value, bytes = work.bytes.value;
  if (!(flops > 0 && flops < 1e38) || !(bytes > 0 && bytes < 1e38))
    return usage_error("expected --flops and --bytes above 0 and below 1e38");
  auto machine = linked(work.on, std::nullopt, work.sustained);
  if (machine && work.memory) machine = with_memory(*std::move(machine), *work.memory);
  if (!machine) return machine.error();
  auto explanation = ridge::explain(work.flops, work.bytes, *machine, work.dtype);
  if (!explanation) return explanation.error();
  const std::string title = fmt::format("{}, {}", engineering(flops, "FLOP"), engineering(bytes, "B"));
  return Report{"explain", title, *std::move(explanation), std::nullopt, today()};
}

Result<std::vector<Report>> explain_on(const Request& request, const std::vector<MachineChoice>& machines) {
  const auto program = loaded(request);
  if (!program) return program.error();
  std::vector<Report> out;
  for (const MachineChoice& machine : machines) {
    Request on_it = request;
    on_it.on = machine;
    const auto task = on_machine(*program, on_it);
    if (!task) return task.error();
    auto report = explained(*task, request.dims, on_it);
    if (!report) return report.error();
    out.push_back(*std::move(report));
  }
  return out;
}

Result<std::vector<Report>> explain_each(const Request& request, const std::vector<Bindings>& rows) {
  const auto task = understood(request);
  if (!task) return task.error();
  std::vector<Report> out;
  for (const Bindings& row : rows) {
    Bindings dims = row;
    dims.insert(request.dims.begin(), request.dims.end());
    auto report = explained(*task, dims, request);
    if (!report) return report.error();
    out.push_back(*std::move(report));
  }
  return out;
}

Result<std::vector<OperandLines>> lines(const Request& request, const LinesRequest& tiles) {
  const auto task = understood(request);
  if (!task) return task.error();
  return operand_lines(task->program, with_defaults(task->machine), request.dims, tiles);
}

Result<std::vector<TileWaves>> tile_waves(const Request& request, const std::string& tile) {
  const auto task = understood(request);
  if (!task) return task.error();
  return ridge::tile_waves(task->program, task->machine, request.dims, tile);
}

Result<Between> between(const Request& request, const std::string& sides) {
  const auto task = understood(request);
  if (!task) return task.error();
  return ridge::between(task->program, task->machine, request.dims, sides);
}

Result<Passage> passage(const MachineChoice& on, const std::optional<LinkChoice>& link, double bytes,
                        std::int64_t hops) {
  const auto machine = linked(on, link);
  if (!machine) return machine.error();
  return ridge::passage(*machine, bytes, hops);
}

Result<CollectiveTime> collective(const MachineChoice& on, const std::optional<LinkChoice>& link,
                                  const CollectiveRequest& request) {
  const auto machine = linked(on, link);
  if (!machine) return machine.error();
  return collective_time(*machine, request);
}

Result<std::vector<Chain>> chains(const Request& request, const FunctionCosts& costs) {
  const auto task = understood(request);
  if (!task) return task.error();
  return ridge::chains(task->program, with_defaults(task->machine), request.dims, costs);
}

}  // namespace api

namespace {

// The lines of one program: a machine and a split each.
Status add_lines(const SweepRequest& request, const Program& program, const std::vector<Machine>& machines,
                 const std::function<void(double)>& done, Sweep& out) {
  std::vector<std::optional<Split>> split_mode(request.splits.begin(), request.splits.end());
  if (split_mode.empty()) split_mode.resize(1);
  const double lines =
      static_cast<double>(machines.size() * std::max<std::size_t>(1, request.dtypes.size()) * split_mode.size());
  for (const Machine& machine : machines)
    for (const std::optional<Split>& cut : split_mode) {
      const double before = static_cast<double>(out.lines.size());
      auto line = sweep_line(program, machine, out.ranges, cut, [&](double share) {
        if (done) done((before + share) / lines);
      });
      if (!line) return line.error();
      line->dtype = api::dtypes_of(program);
      refine(program, machine, out, request.curves, *line);
      out.lines.push_back(*std::move(line));
    }
  return Done{};
}

}  // namespace

Result<Sweep> sweep(const SweepRequest& request, const std::function<void(double)>& done) {
  const std::optional<DType> first =
      request.dtypes.empty() ? std::nullopt : std::optional<DType>(request.dtypes.front());
  Bindings sizes;  // by which chains of products are ordered
  for (const Range& range : request.ranges)
    if (!range.values.empty()) sizes[range.dim] = range.values.front();
  const auto loaded = api::load_in(request.program, first, sizes);
  if (!loaded) return loaded.error();
  const auto programs =
      api::in_dtypes(loaded->program, first ? request.dtypes : std::vector<DType>{DType::bf16}, sizes);
  if (!programs) return programs.error();
  Sweep out{.program_text = loaded->program.text, .ranges = request.ranges, .lines = {}, .title = loaded->title};
  std::vector<Machine> machines;
  for (const MachineChoice& each : request.on) {
    auto machine = api::linked(each, request.link);
    if (!machine) return machine.error();
    machines.push_back(*std::move(machine));
  }
  for (const Program& program : *programs)
    if (const Status added = add_lines(request, program, machines, done, out); !added) return added.error();
  return out;
}

Result<Catalog> machines(const std::vector<MachineChoice>& choices) {
  std::vector<MachineChoice> wanted = choices;
  if (wanted.empty()) {
    for (std::string& name : catalog_names()) wanted.emplace_back(std::move(name));
    wanted.emplace_back();
  }
  Catalog out;
  for (const MachineChoice& choice : wanted) {
    auto machine = machine_of(choice);
    if (machine)
      out.machines.push_back(with_defaults(*std::move(machine)));
    else if (choices.empty())
      out.warnings.push_back(machine.error());
    else
      return machine.error();
  }
  return out;
}

}  // namespace ridge

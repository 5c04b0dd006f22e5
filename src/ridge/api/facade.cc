#include "ridge/api/facade.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/api/tune_options.h"
#include "ridge/base/text.h"
#include "ridge/machine/defaults.h"
#include "ridge/machine/system.h"
#include "ridge/measure/device_machine.h"
#include "ridge/program/load.h"

namespace ridge {

Result<Machine> machine_of(const MachineChoice& choice) {
  if (choice.machine() != nullptr) return *choice.machine();
  return choice.where() == Where::cuda ? find_device_machine() : find_machine(choice.name());
}

namespace api {
namespace {

struct Task {  // a request whose program was read and whose machine was found
  Program program;
  Machine machine;
  std::string title;
};

Result<Machine> linked(const MachineChoice& on, const std::optional<LinkChoice>& link, bool sustained = false) {
  const auto found = machine_of(on);
  if (!found) return found.error();
  Machine machine = sustained ? with_sustained_rates(*found) : *found;
  return link ? with_link(std::move(machine), *link) : Result<Machine>(std::move(machine));
}

Result<Task> understood(const Request& request) {
  auto loaded = load_program(request.program, request.dtype);
  if (!loaded) return loaded.error();
  auto machine = linked(request.on, request.link, request.sustained);
  if (!machine) return machine.error();
  return Task{std::move(loaded->program), *std::move(machine), std::move(loaded->title)};
}

Result<Report> explained(const Task& task, const Bindings& dims, const Request& request) {
  auto explanation = ridge::explain(task.program, task.machine, dims, request.split);
  if (!explanation) return explanation.error();
  Report report{"explain", task.title, *std::move(explanation), std::nullopt, today()};
  if (!request.planned) return report;
  report.library = *request.planned == KernelsOf::ridge ? Library::ridge : Library::cublaslt;
  auto planned = predict(task.program, report.explanation, {report.library, request.fuse});
  if (!planned) return planned.error();
  report.planned = *std::move(planned);
  return report;
}

}  // namespace

Result<Report> explain(const Request& request) {
  if (request.program.empty())
    return usage_error("expected a PROGRAM, found none", "ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]'");
  const auto task = understood(request);
  if (!task) return task.error();
  return explained(*task, request.dims, request);
}

Result<Report> explain(const BareWork& work) {
  const double flops = work.flops.value, bytes = work.bytes.value;
  if (!(flops > 0 && flops < 1e38) || !(bytes > 0 && bytes < 1e38))
    return usage_error("expected --flops and --bytes above 0 and below 1e38");
  auto machine = machine_of(work.on);
  if (!machine) return machine.error();
  auto explanation = ridge::explain(work.flops, work.bytes, *machine, work.dtype);
  if (!explanation) return explanation.error();
  const std::string title = fmt::format("{}, {}", engineering(flops, "FLOP"), engineering(bytes, "B"));
  return Report{"explain", title, *std::move(explanation), std::nullopt, today()};
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

Result<std::vector<Chain>> chains(const Request& request, const FunctionCosts& costs) {
  const auto task = understood(request);
  if (!task) return task.error();
  return ridge::chains(task->program, with_defaults(task->machine), request.dims, costs);
}

Result<Report> run(const Request& request, const RunRequest& how) {
  const std::vector<std::string> catalog = catalog_names();
  const std::string& on = request.on.name();
  if (std::find(catalog.begin(), catalog.end(), on) != catalog.end())
    return usage_error(
        fmt::format("run measures what is here; expected --on cpu, --on cuda or this CPU's own file, found '{}'", on),
        fmt::format("ridge explain --on {} says what that machine would do", on));
  auto task = understood(request);
  if (!task) return task.error();
  if (request.on.where() == Where::cpu && how.threads > 0)
    task->machine = seen_with_threads(std::move(task->machine), how.threads);
  auto report = explained(*task, request.dims, request);
  if (!report) return report.error();
  const RunOptions options{.in = how.in,
                           .out = how.out,
                           .seed = how.seed,
                           .threads = how.threads,
                           .cuda = request.on.where() == Where::cuda,
                           .fuse = request.fuse,
                           .tune = tune_options(how.tuning),
                           .progress = how.progress};
  auto planned = plan_run(task->program, report->explanation, options);
  if (!planned) return planned.error();
  auto measured = ridge::run(task->program, *planned, options);
  if (!measured) return measured.error();
  report->explanation = std::move(planned->explanation);
  report->verb = "run";
  report->measured = *std::move(measured);
  return report;
}

}  // namespace api

namespace {

// The lines of one program, read in one dtype: a machine and a split each.
Status add_lines(const SweepRequest& request, DType dtype, const std::vector<Machine>& machines,
                 const std::function<void(double)>& done, Sweep& out) {
  const auto loaded = load_program(request.program, dtype);
  if (!loaded) return loaded.error();
  out.program_text = loaded->program.text;
  std::vector<std::optional<Split>> split_mode(request.splits.begin(), request.splits.end());
  if (split_mode.empty()) split_mode.resize(1);
  const double lines = static_cast<double>(machines.size() * request.dtypes.size() * split_mode.size());
  for (const Machine& machine : machines)
    for (const std::optional<Split>& cut : split_mode) {
      const double before = static_cast<double>(out.lines.size());
      auto line = sweep_line(loaded->program, machine, out.ranges, cut, [&](double share) {
        if (done) done((before + share) / lines);
      });
      if (!line) return line.error();
      line->dtype = name(dtype);
      out.lines.push_back(*std::move(line));
    }
  return Done{};
}

}  // namespace

Result<Sweep> sweep(const SweepRequest& request, const std::function<void(double)>& done) {
  Sweep out;
  out.ranges = request.ranges;
  std::vector<Machine> machines;
  for (const MachineChoice& each : request.on) {
    auto machine = api::linked(each, request.link);
    if (!machine) return machine.error();
    machines.push_back(*std::move(machine));
  }
  for (const DType dtype : request.dtypes)
    if (const Status added = add_lines(request, dtype, machines, done, out); !added) return added.error();
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

#include "ridge/api/facade.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/api/command.h"
#include "ridge/api/dtypes.h"
#include "ridge/api/resolve_request.h"
#include "ridge/base/string_util.h"
#include "ridge/machine/defaults.h"
#include "ridge/machine/memory_choice.h"
#include "ridge/machine/system.h"
#include "ridge/program/weights.h"
#include "ridge/roofline/groups.h"
#include "ridge/roofline/next_steps.h"
#include "ridge/roofline/refine_sweep.h"
#include "ridge/roofline/roofs.h"
#include "ridge/run/device_machine.h"

namespace ridge {

Result<Machine> machine_of(const MachineChoice& choice) {
  if (choice.machine() != nullptr) return *choice.machine();
  return choice.where() == RunTarget::cuda ? find_device_machine() : find_machine(choice.name());
}

namespace api {
namespace {

Result<Machine> load_machine(const MachineChoice& on, const std::optional<LinkChoice>& link, bool sustained = false) {
  RIDGE_TRY(found, machine_of(on));
  Machine machine = sustained ? with_sustained_rates(found) : found;
  return link ? with_link(std::move(machine), *link) : Result<Machine>(std::move(machine));
}

// Loads the program with the requested dtype of weights.
Result<LoadedProgram> load_request_program(const Request& request) {
  if (request.program.empty())
    return usage_error("expected a PROGRAM, found none", "ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]'");
  auto out = load_with_dtype(request.program, request.dtype, request.dims);
  if (out && request.narrow) {
    RIDGE_TRY(narrowed, with_weight_dtype(std::move(out->program), *request.narrow, Narrowed::weights_and_activations));
    out->program = std::move(narrowed);
  }
  if (!out || !request.weights) return out;
  RIDGE_TRY(narrowed, with_weight_dtype(std::move(out->program), *request.weights));
  out->program = std::move(narrowed);
  return out;
}

Result<ResolvedRequest> resolve_on_machine(LoadedProgram program, const Request& request) {
  ResolvedRequest out{std::move(program.program), {}, std::move(program.title)};
  const Status found = resolve_machine(request, out);
  return found ? Result<ResolvedRequest>(std::move(out)) : found.error();
}

}  // namespace

Result<ResolvedRequest> load_without_machine(const Request& request) {
  RIDGE_TRY(program, load_request_program(request));
  return ResolvedRequest{std::move(program.program), {}, std::move(program.title)};
}

Status resolve_machine(const Request& request, ResolvedRequest& resolved) {
  auto machine = load_machine(request.on, request.link, request.sustained);
  if (machine && request.memory) machine = with_memory(*std::move(machine), *request.memory);
  RIDGE_TRY_STATUS(machine);
  resolved.machine = *std::move(machine);
  return Done{};
}

Result<ResolvedRequest> resolve_request(const Request& request) {
  RIDGE_TRY(program, load_request_program(request));
  return resolve_on_machine(std::move(program), request);
}

Result<Report> make_basic_report(const ResolvedRequest& resolved, const Bindings& dims, const Request& request) {
  RIDGE_TRY(explanation, ridge::explain(resolved.program, resolved.machine, dims, request.split));
  return Report{"explain", resolved.title, std::move(explanation), std::nullopt, today_utc()};
}

namespace {

Status check_fused(const Request& request) {
  if (request.fused.empty() || !request.planned) return Done{};
  return usage_error("expected --fuse without --plan: a plan chooses which statements share a kernel",
                     "remove --fuse or --plan");
}

// Replaces the operations of the report by the requested fused groups.
Status apply_fusion(const ResolvedRequest& resolved, const Bindings& dims, const Request& request, Report& report) {
  if (request.fused.empty()) return Done{};
  RIDGE_TRY(groups, parse_groups(resolved.program, request.fused));
  for (const std::vector<int>& group : groups) {
    report.statement_names.emplace_back();
    for (const int s : group) report.statement_names.back().push_back(report.explanation.ops[s].work.name);
  }
  RIDGE_TRY(fused, predict_groups(resolved.program, report.explanation, groups));
  if (fused.memory) fused.memory = analyze_memory(resolved.program, report.explanation, dims, groups);
  report.explanation = std::move(fused);
  return Done{};
}

void add_next_steps(const ResolvedRequest& resolved, const Bindings& dims, const Request& request, Report& report) {
  report.threshold_dims = relevant_dimensions(resolved.program, report.explanation, dims);
  if (!request.fused.empty() || request.planned) return;
  Request request_with_dims = request;
  request_with_dims.dims = dims;
  for (NextStep& step : suggest_next_steps(resolved.program, report.explanation, report.threshold_dims)) {
    std::string command = explain_command(request_with_dims, step.dims, step.options);
    report.next_steps.push_back({std::move(step), std::move(command)});
  }
}

// Adds the totals of a model of several layers like the program.
Status add_layers(const ResolvedRequest& resolved, const Bindings& dims, const Request& request, Report& report) {
  if (request.layers <= 1) return Done{};
  const Explanation& e = report.explanation;
  LayeredModel out{.count = request.layers};
  const double times = static_cast<double>(request.layers);
  if (e.total.time_lower_s) out.time_lower_s = times * *e.total.time_lower_s;
  if (e.total.time_upper_s) out.time_upper_s = times * *e.total.time_upper_s;
  if (report.planned && report.planned->has_model) {
    const Interval& one = report.planned->predicted_s;
    out.predicted_s = Interval{times * one.low, times * one.expected, times * one.high};
  }
  RIDGE_TRY(groups, parse_groups(resolved.program, request.fused));
  if (e.memory) out.memory = analyze_memory(resolved.program, e, dims, groups, request.layers);
  report.layers = std::move(out);
  return Done{};
}

Result<Report> make_full_report(const ResolvedRequest& resolved, const Bindings& dims, const Request& request) {
  RIDGE_TRY_STATUS(check_fused(request));
  auto report = make_basic_report(resolved, dims, request);
  if (!report) return report;
  if (request.weights) report->weights_dtype = dtype_name(*request.weights);
  if (request.narrow) report->narrow_dtype = dtype_name(*request.narrow);
  add_next_steps(resolved, dims, request, *report);
  RIDGE_TRY_STATUS(apply_fusion(resolved, dims, request, *report));
  if (!request.planned) {
    RIDGE_TRY_STATUS(add_layers(resolved, dims, request, *report));
    return report;
  }
  report->library = *request.planned == KernelChoice::ridge ? KernelLibrary::ridge : KernelLibrary::cublaslt;
  RIDGE_TRY(planned,
            predict_program(resolved.program, report->explanation, {report->library, request.fuse, request.why}));
  report->planned = std::move(planned);
  RIDGE_TRY_STATUS(add_layers(resolved, dims, request, *report));
  Request request_with_dims = request;
  request_with_dims.dims = dims;
  if (resolved.program.statements.size() <= max_suggest_statements && !request.split)
    if (const auto all = ridge::make_advice(resolved.program, report->explanation, {report->library, request.fuse}))
      report->next_steps = to_suggested_steps(request_with_dims, *all);
  return report;
}

}  // namespace

Result<Report> explain(const Request& request) {
  RIDGE_TRY(resolved, resolve_request(request));
  return make_full_report(resolved, request.dims, request);
}

Result<Report> explain(const BareWork& work) {
  const double flops = work.flops.value, bytes = work.bytes.value;
  if (!(flops > 0 && flops < 1e38) || !(bytes > 0 && bytes < 1e38))
    return usage_error("expected --flops and --bytes above 0 and below 1e38");
  auto machine = load_machine(work.on, std::nullopt, work.sustained);
  if (machine && work.memory) machine = with_memory(*std::move(machine), *work.memory);
  RIDGE_TRY_STATUS(machine);
  RIDGE_TRY(explanation, ridge::explain(work.flops, work.bytes, *machine, work.dtype));
  const std::string title = fmt::format("{}, {}", format_with_prefix(flops, "FLOP"), format_with_prefix(bytes, "B"));
  return Report{"explain", title, std::move(explanation), std::nullopt, today_utc()};
}

namespace {

// Returns "no bf16 peak on record" for a product of the program whose dtype the machine lacks, or "".
std::string missing_peak(const ResolvedRequest& resolved) {
  for (const Work& work : count_work(resolved.program))
    if (work.contraction && work.math != DType::f32 && !resolved.machine.contraction_peak(work.math))
      return fmt::format("no {} peak on record", dtype_name(work.math));
  return {};
}

// Same for a report whose times leave a product's compute time out.
std::string missing_peak(const Report& report) {
  for (const Prediction& p : report.explanation.ops)
    if (p.work.contraction && !p.missing.empty()) return fmt::format("no {} peak on record", dtype_name(p.work.math));
  return {};
}

// Removes the times of launches unless every machine has one, since a floor under some of them would decide a ranking.
// Returns a sentence that says so, or "".
std::string drop_unequal_launches(std::vector<ResolvedRequest>& requests) {
  const auto has_launch = [](const ResolvedRequest& r) { return launch_seconds(r.machine) > 0; };
  const auto without = std::ranges::find_if_not(requests, has_launch);
  if (without == requests.end() || std::ranges::none_of(requests, has_launch)) return {};
  for (ResolvedRequest& request : requests) request.machine.numbers.erase("launch_s");
  return fmt::format("launches are left out: {} has no launch_s on record", without->machine.name);
}

}  // namespace

Result<std::vector<Report>> explain_on(const Request& request, const std::vector<MachineChoice>& machines) {
  RIDGE_TRY(program, load_request_program(request));
  std::vector<ResolvedRequest> requests;
  for (const MachineChoice& machine : machines) {
    Request request_on_machine = request;
    request_on_machine.on = machine;
    RIDGE_TRY(resolved, resolve_on_machine(program, request_on_machine));
    requests.push_back(std::move(resolved));
  }
  const std::string note = drop_unequal_launches(requests);
  std::vector<Report> out;
  std::optional<Error> first_error;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    Request request_on_machine = request;
    request_on_machine.on = machines[i];
    const ResolvedRequest& resolved = requests[i];
    auto report = make_full_report(resolved, request.dims, request_on_machine);
    std::string missing = report ? missing_peak(*report) : missing_peak(resolved);
    if (report && missing.empty()) {
      if (!note.empty()) report->explanation.remarks.push_back(note);
      out.push_back(*std::move(report));
      continue;
    }
    Report without_times{"explain", resolved.title, {}, {}, {}};
    without_times.explanation.machine = resolved.machine;
    without_times.unavailable = std::move(missing);
    if (without_times.unavailable.empty()) return report.error();
    if (!report && !first_error) first_error = report.error();
    out.push_back(std::move(without_times));
  }
  const bool any = std::any_of(out.begin(), out.end(), [](const Report& r) { return r.unavailable.empty(); });
  return any || !first_error ? Result<std::vector<Report>>(std::move(out)) : *first_error;
}

Result<std::vector<Report>> explain_each(const Request& request, const std::vector<Bindings>& rows) {
  RIDGE_TRY(resolved, resolve_request(request));
  std::vector<Report> out;
  for (const Bindings& row : rows) {
    Bindings dims = row;
    dims.insert(request.dims.begin(), request.dims.end());
    RIDGE_TRY(report, make_full_report(resolved, dims, request));
    out.push_back(std::move(report));
  }
  return out;
}

Result<std::vector<OperandLines>> count_cache_lines(const Request& request, const LinesRequest& tiles) {
  RIDGE_TRY(resolved, resolve_request(request));
  return analyze_tile_alignment(resolved.program, with_defaults(resolved.machine), request.dims, tiles);
}

Result<std::vector<TileWaves>> count_tile_waves(const Request& request, const std::string& tile) {
  RIDGE_TRY(resolved, resolve_request(request));
  return ridge::count_tile_waves(resolved.program, resolved.machine, request.dims, tile);
}

Result<StatementComparison> find_crossover(const Request& request, const std::string& statements) {
  RIDGE_TRY(resolved, resolve_request(request));
  return ridge::compare_statements(resolved.program, resolved.machine, request.dims, statements);
}

Result<PointToPointTransfer> predict_transfer(const MachineChoice& on, const std::optional<LinkChoice>& link,
                                              double bytes, std::int64_t hops) {
  RIDGE_TRY(machine, load_machine(on, link));
  return ridge::time_point_to_point(machine, bytes, hops);
}

Result<CollectiveTime> predict_collective(const MachineChoice& on, const std::optional<LinkChoice>& link,
                                          const CollectiveRequest& request) {
  RIDGE_TRY(machine, load_machine(on, link));
  return collective_time(machine, request);
}

Result<std::vector<PointwiseChain>> compare_chains(const Request& request, const FunctionCosts& costs) {
  RIDGE_TRY(resolved, resolve_request(request));
  return ridge::analyze_chains(resolved.program, with_defaults(resolved.machine), request.dims, costs);
}

}  // namespace api

namespace {

// Adds a line of one program for each machine and split.
Status add_sweep_lines(const SweepRequest& request, const Program& program, const std::vector<Machine>& machines,
                       const std::function<void(double)>& done, Sweep& out) {
  std::vector<std::optional<DimensionSplit>> splits(request.splits.begin(), request.splits.end());
  if (splits.empty()) splits.resize(1);
  const double lines =
      static_cast<double>(machines.size() * std::max<std::size_t>(1, request.dtypes.size()) * splits.size());
  for (const Machine& machine : machines)
    for (const std::optional<DimensionSplit>& split : splits) {
      const double before = static_cast<double>(out.lines.size());
      RIDGE_TRY(line, sweep_line(program, machine, out.ranges, split, [&](double share) {
                  if (done) done((before + share) / lines);
                }));
      line.dtype = api::input_dtypes(program);
      refine_sweep(program, machine, out, request.curves, line);
      out.lines.push_back(std::move(line));
    }
  return Done{};
}

}  // namespace

Result<Sweep> sweep(const SweepRequest& request, const std::function<void(double)>& done) {
  const std::optional<DType> first =
      request.dtypes.empty() ? std::nullopt : std::optional<DType>(request.dtypes.front());
  Bindings sizes;  // Sizes that decide the order of chained products
  for (const DimensionValues& range : request.ranges)
    if (!range.values.empty()) sizes[range.dim] = range.values.front();
  RIDGE_TRY(loaded_program, api::load_with_dtype(request.program, first, sizes));
  RIDGE_TRY(programs, api::parse_with_dtypes(loaded_program.program,
                                             first ? request.dtypes : std::vector<DType>{DType::bf16}, sizes));
  Sweep out{.program_text = loaded_program.program.text,
            .ranges = request.ranges,
            .lines = {},
            .title = loaded_program.title};
  std::vector<Machine> machines;
  for (const MachineChoice& choice : request.on) {
    RIDGE_TRY(machine, api::load_machine(choice, request.link));
    machines.push_back(std::move(machine));
  }
  for (const Program& program : programs) RIDGE_TRY_STATUS(add_sweep_lines(request, program, machines, done, out));
  return out;
}

Result<Catalog> machines(const std::vector<MachineChoice>& choices) {
  std::vector<MachineChoice> requested = choices;
  if (requested.empty()) {
    for (std::string& name : catalog_names()) requested.emplace_back(std::move(name));
    requested.emplace_back();
  }
  Catalog out;
  for (const MachineChoice& choice : requested) {
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

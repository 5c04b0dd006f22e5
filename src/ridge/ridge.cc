#include "ridge/ridge.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/file.h"
#include "ridge/base/text.h"
#include "ridge/machine/defaults.h"
#include "ridge/machine/system.h"
#include "ridge/measure/device_machine.h"
#include "ridge/program/bindings.h"
#include "ridge/program/load.h"

namespace ridge {
namespace {

struct Task {  // a request whose words are understood
  Program program;
  Machine machine;
  Bindings dims;
  std::string title;
  std::optional<Split> cut = {};
};

Result<DType> dtype_named(const std::string& spelling) {
  if (const auto dtype = dtype_from(spelling)) return *dtype;
  std::vector<std::string> names;
  for (const DTypeInfo& each : dtypes) names.emplace_back(each.name);
  const std::string near = nearest(spelling, names);
  return usage_error(fmt::format("unknown dtype '{}'; expected one of {}", spelling, fmt::join(names, ", ")),
                     near.empty() ? "" : fmt::format("did you mean {}?", near));
}

Result<Machine> machine_named(const std::string& on) { return on == "cuda" ? find_device_machine() : find_machine(on); }

Result<Task> understood(const Request& request) {
  const auto dtype = dtype_named(request.dtype);
  if (!dtype) return dtype.error();
  auto dims = parse_assignments(request.dims);
  if (!dims) return dims.error();
  auto loaded = load_program(request.program, *dtype);
  if (!loaded) return loaded.error();
  auto machine = machine_named(request.on);
  if (machine && !request.link.empty()) machine = with_link(*std::move(machine), request.link);
  if (!machine) return machine.error();
  Task task{std::move(loaded->program), *std::move(machine), *std::move(dims), std::move(loaded->title)};
  if (request.split.empty()) return task;
  const auto cut = parse_split(request.split);
  if (!cut) return cut.error();
  task.cut = *cut;
  return task;
}

Result<Report> explained(const Task& task, const Bindings& dims, const Request& request) {
  auto explanation = explain(task.program, task.machine, dims, task.cut);
  if (!explanation) return explanation.error();
  Report report{"explain", task.title, *std::move(explanation), std::nullopt, today()};
  if (!request.plan) return report;
  auto planned = predict(task.program, report.explanation, {request.library, request.fuse});
  if (!planned) return planned.error();
  report.planned = *std::move(planned), report.library = request.library;
  return report;
}

Result<Report> explain_numbers(const Request& request) {
  if (request.plan) return usage_error("expected --plan with a PROGRAM, found --flops and --bytes");
  if (!request.flops || !request.bytes || !request.program.empty())
    return usage_error("expected --flops and --bytes together and no PROGRAM",
                       "ridge explain --flops 1e12 --bytes 1e9 --on h100");
  if (!(*request.flops > 0 && *request.flops < 9e18) || !(*request.bytes > 0 && *request.bytes < 9e18))
    return usage_error("expected --flops and --bytes above 0 and below 9e18");
  const auto dtype = dtype_named(request.dtype);
  if (!dtype) return dtype.error();
  auto machine = machine_named(request.on);
  if (!machine) return machine.error();
  auto explanation = explain(Flops{*request.flops}, Bytes{*request.bytes}, *machine, *dtype);
  if (!explanation) return explanation.error();
  const std::string title =
      fmt::format("{}, {}", engineering(*request.flops, "FLOP"), engineering(*request.bytes, "B"));
  return Report{"explain", title, *std::move(explanation), std::nullopt, today()};
}

}  // namespace

Result<Report> explain(const Request& request) {
  if (request.flops || request.bytes) return explain_numbers(request);
  if (request.program.empty())
    return usage_error("expected a PROGRAM, found none", "ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]'");
  const auto task = understood(request);
  if (!task) return task.error();
  return explained(*task, task->dims, request);
}

Request other_request(Request request, const std::string& other) {
  const std::vector<std::string> names = catalog_names();
  const bool machine = other == "cpu" || other == "cuda" || other.ends_with(".toml") ||
                       std::find(names.begin(), names.end(), other) != names.end();
  (machine ? request.on : request.program) = other;
  return request;
}

Result<std::vector<OperandLines>> lines(const Request& request, const LinesRequest& tiles,
                                        const std::vector<std::string>& leading) {
  const auto task = understood(request);
  if (!task) return task.error();
  const auto widths = parse_assignments(leading);
  if (!widths) return widths.error();
  LinesRequest asked = tiles;
  asked.leading = *widths;
  return operand_lines(task->program, with_defaults(task->machine), task->dims, asked);
}

Result<std::vector<Chain>> chains(const Request& request, const std::vector<std::string>& costs) {
  const auto task = understood(request);
  if (!task) return task.error();
  FunctionCosts each;
  for (const std::string& text : costs) {
    const auto cost = parse_assignments({text});
    if (!cost)
      return usage_error(fmt::format("expected FUNCTION=FLOPS after --cost, found '{}'", text), "--cost cos=20");
    each[cost->begin()->first] = static_cast<double>(cost->begin()->second);
  }
  return chains(task->program, with_defaults(task->machine), task->dims, each);
}

// "D=1,2,4" as a split each; one that is none where nothing is given.
Result<std::vector<std::optional<Split>>> splits_of(const std::string& text) {
  std::vector<std::optional<Split>> out;
  if (text.empty()) return std::vector<std::optional<Split>>(1);
  const auto range = parse_range(text);
  if (!range) return usage_error(fmt::format("expected NAME=CHIPS after --split, found '{}'", text), "--split D=1,2,4");
  for (const std::int64_t chips : range->values) {
    const auto split = parse_split(fmt::format("{}={}", range->dim, chips));
    if (!split) return split.error();
    out.emplace_back(*split);
  }
  return out;
}

Result<Sweep> sweep(const SweepRequest& request, const std::function<void(double)>& done) {
  Sweep out;
  for (const std::string& text : request.dims) {
    auto range = parse_range(text);
    if (!range) return range.error();
    out.ranges.push_back(*std::move(range));
  }
  std::vector<Machine> machines;
  for (const std::string& name : request.on) {
    auto machine = machine_named(name);
    if (machine && !request.link.empty()) machine = with_link(*std::move(machine), request.link);
    if (!machine) return machine.error();
    machines.push_back(*std::move(machine));
  }
  const auto cuts = splits_of(request.split);
  if (!cuts) return cuts.error();
  const double lines = static_cast<double>(machines.size() * request.dtypes.size() * cuts->size());
  for (const std::string& spelling : request.dtypes) {
    const auto dtype = dtype_named(spelling);
    if (!dtype) return dtype.error();
    const auto loaded = load_program(request.program, *dtype);
    if (!loaded) return loaded.error();
    out.program_text = loaded->program.text;
    for (const Machine& machine : machines)
      for (const std::optional<Split>& cut : *cuts) {
        const double before = static_cast<double>(out.lines.size());
        auto line = sweep_line(loaded->program, machine, out.ranges, cut, [&](double share) {
          if (done) done((before + share) / lines);
        });
        if (!line) return line.error();
        line->dtype = name(*dtype);
        out.lines.push_back(*std::move(line));
      }
  }
  return out;
}

Result<std::vector<Report>> explain_table(const Request& request, const std::string& csv_path) {
  const auto task = understood(request);
  if (!task) return task.error();
  const auto csv = read_file(csv_path);
  if (!csv) return csv.error();
  const auto rows = parse_table(*csv, csv_path);
  if (!rows) return rows.error();
  std::vector<Report> out;
  for (const Bindings& row : *rows) {
    Bindings dims = row;
    dims.insert(task->dims.begin(), task->dims.end());
    auto report = explained(*task, dims, request);
    if (!report) return report.error();
    out.push_back(*std::move(report));
  }
  return out;
}

Result<Report> run(const Request& request, const RunOptions& options) {
  const std::vector<std::string> catalog = catalog_names();
  if (std::find(catalog.begin(), catalog.end(), request.on) != catalog.end())
    return usage_error(
        fmt::format("run measures what is here; expected --on cpu, --on cuda or this CPU's own file, found '{}'",
                    request.on),
        fmt::format("ridge explain --on {} says what that machine would do", request.on));
  auto task = understood(request);
  if (!task) return task.error();
  if (request.on == "cpu" && options.threads > 0)
    task->machine = seen_with_threads(std::move(task->machine), options.threads);
  auto report = explained(*task, task->dims, request);
  if (!report) return report.error();
  RunOptions here = options;
  here.cuda = request.on == "cuda";
  here.fuse = request.fuse;
  auto planned = plan_run(task->program, report->explanation, here);
  if (!planned) return planned.error();
  auto measured = run(task->program, *planned, here);
  if (!measured) return measured.error();
  report->explanation = std::move(planned->explanation);
  report->verb = "run";
  report->measured = *std::move(measured);
  return report;
}

// A row's values in place of the request's.
Result<SystolicRequest> with_row(SystolicRequest request, const Bindings& row) {
  ProductSize size = request.product.value_or(ProductSize{});
  for (const char* needed : {"M", "N", "K"})
    if (!request.product && !row.contains(needed))
      return input_error(
          fmt::format("expected {} as a column of the table or M N K as arguments, found neither", needed),
          "ridge simulate systolic --rows 32 --cols 32 256 128 256 --table sizes.csv");
  for (const auto& [name, value] : row) {
    if (name == "M")
      size.m = value;
    else if (name == "N")
      size.n = value;
    else if (name == "K")
      size.k = value;
    else if (name == "R")
      request.rows = value;
    else if (name == "C")
      request.cols = value;
    else
      return input_error(fmt::format("expected the columns M, N, K, R or C, found '{}'", name),
                         "M, N, K are the product's sizes, R and C the array's");
  }
  request.product = size;
  return request;
}

Result<std::vector<SystolicRun>> simulate(const SystolicRequest& request, const std::string& csv_path) {
  if (csv_path.empty()) return run_systolic(request);
  if (!request.topology.empty())
    return usage_error("expected either --table or --topology, found both",
                       "--table lists products, --topology SCALE-Sim's layers");
  const auto csv = read_file(csv_path);
  if (!csv) return csv.error();
  const auto rows = parse_table(*csv, csv_path);
  if (!rows) return rows.error();
  std::vector<SystolicRun> out;
  for (const Bindings& row : *rows) {
    const auto one = with_row(request, row);
    if (!one) return one.error();
    auto runs = run_systolic(*one);
    if (!runs) return runs.error();
    out.push_back(std::move(runs->front()));
  }
  return out;
}

Result<MappedProgram> simulate(const Request& request, const MappingOptions& options) {
  const auto dtype = dtype_named(request.dtype);
  if (!dtype) return dtype.error();
  const auto dims = parse_assignments(request.dims);
  if (!dims) return dims.error();
  const auto loaded = load_program(request.program, *dtype);
  if (!loaded) return loaded.error();
  const auto fabric = fabric_named(request.on);
  if (!fabric) return fabric.error();
  auto mapped = as_metapipe(loaded->program, *dims, *fabric, options);
  if (!mapped) return mapped.error();
  mapped->program = loaded->title;
  return mapped;
}

Result<DecodeReport> decode(const std::string& on, const DecodeOptions& options) {
  const auto machine = machine_named(on);
  if (!machine) return machine.error();
  return decode_llama_8b(*machine, options);
}

Result<std::vector<MenuEntry>> kernel_menu(const std::string& name) {
  std::vector<MenuEntry> found;
  std::vector<std::string> names;
  for (MenuEntry& entry : menu_list()) {
    names.push_back(entry.name);
    if (entry.name.find(name) != std::string::npos) found.push_back(std::move(entry));
  }
  if (!found.empty()) return found;
  const std::string near = nearest(name, names);
  return input_error(fmt::format("no kernel is called '{}'", name),
                     near.empty() ? "`ridge kernels` lists them" : fmt::format("did you mean {}?", near));
}

Result<KernelCode> kernel_code(const std::string& name, ops::cuda::RowText what, const std::string& dtype) {
  const auto in = dtype_from(dtype);
  if (in != DType::bf16 && in != DType::f16)
    return usage_error(fmt::format("expected bf16 or f16, of which the menu's kernels are made, found '{}'", dtype),
                       "--dtype f16");
  auto found = kernel_menu(name);
  if (!found) return found.error();
  const auto own = std::find_if(found->begin(), found->end(), [&](const MenuEntry& e) { return e.name == name; });
  if (own == found->end() && found->size() > 1)
    return usage_error(
        fmt::format("expected one kernel's whole name, found '{}', which {} names hold", name, found->size()),
        fmt::format("`ridge kernels {}` lists them", name));
  const MenuEntry& entry = own == found->end() ? found->front() : *own;
  auto text = ops::cuda::row_text(entry.row, *in, what, ops::cuda::toolkit_folders());
  if (!text) return text.error();
  return KernelCode{entry, std::string(ridge::name(*in)), what == ops::cuda::RowText::sass ? "sass" : "ptx",
                    *std::move(text)};
}

Result<Catalog> machines(const std::vector<std::string>& names) {
  std::vector<std::string> wanted = names;
  if (wanted.empty()) {
    wanted = catalog_names();
    wanted.emplace_back("cpu");
  }
  Catalog out;
  for (const std::string& name : wanted) {
    auto machine = machine_named(name);
    if (machine)
      out.machines.push_back(with_defaults(*std::move(machine)));
    else if (names.empty())
      out.warnings.push_back(machine.error());
    else
      return machine.error();
  }
  return out;
}

}  // namespace ridge

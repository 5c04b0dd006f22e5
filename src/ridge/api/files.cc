// Reports about files of other programs: models in ONNX, and traces of profilers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "ridge/api/resolve_request.h"
#include "ridge/base/string_util.h"
#include "ridge/machine/system.h"
#include "ridge/onnx/count.h"

namespace ridge::api {
namespace {

// "unknown: 3 calls of com.example.Foo, Bar with 12.58 MB are counted by their bytes only"
std::string unknown_operators_line(const std::vector<onnx::UnknownOperator>& unknown) {
  constexpr std::size_t max_names = 6;
  std::int64_t calls = 0;
  Count bytes = 0;
  std::vector<std::string> names;
  for (const onnx::UnknownOperator& each : unknown) {
    calls += each.calls;
    bytes += each.bytes;
    if (names.size() < max_names) names.push_back(each.name);
  }
  const std::string more =
      unknown.size() > max_names ? fmt::format(" and {} more", unknown.size() - max_names) : std::string();
  return fmt::format("unknown: {} call{} of {}{} with {}, counted by bytes only", calls, calls == 1 ? "" : "s",
                     fmt::join(names, ", "), more, format_with_prefix(static_cast<double>(bytes), "B"));
}

MemoryUse to_memory_use(const onnx::ModelCounts& counts, const Machine& machine) {
  MemoryUse out;
  out.parameter_count = static_cast<double>(counts.parameter_count);
  out.parameter_bytes = static_cast<double>(counts.parameter_bytes);
  out.peak_statement = counts.peak_operator;
  out.peak_bytes = static_cast<double>(counts.peak_bytes);
  if (machine.memory.empty()) return out;
  out.level = machine.memory.front().name;
  if (machine.memory.front().capacity) out.capacity = machine.memory.front().capacity->value;
  return out;
}

}  // namespace

bool is_file_of_operators(const std::string& program) {
  return program.find('\n') == std::string::npos && program.ends_with(".onnx");
}

Result<Report> explain_file(const Request& request) {
  RIDGE_TRY(counts, onnx::count_file(request.program, request.dims));
  ResolvedRequest resolved;
  RIDGE_TRY_STATUS(resolve_machine(request, resolved));
  RIDGE_TRY(explanation, explain_operators(counts.operators, resolved.machine));
  explanation.program_text = request.program;
  explanation.dim_names = counts.size_names;
  explanation.dims = counts.sizes;
  explanation.memory = to_memory_use(counts, resolved.machine);
  if (counts.views > 0)
    explanation.remarks.push_back(
        fmt::format("{} calls move nothing: views, constants and arithmetic of shapes", counts.views));
  explanation.remarks.emplace_back("each operator is one kernel; equal ones share a row");
  Report report{"explain", std::filesystem::path(request.program).filename().string(), std::move(explanation),
                std::nullopt, today_utc()};
  report.is_of_file = true;
  if (!counts.unknown.empty()) report.warnings.push_back(unknown_operators_line(counts.unknown));
  return report;
}

Result<TraceReport> read_trace(const std::string& path, const std::optional<MachineChoice>& on) {
  RIDGE_TRY(trace, profiler::read_trace_file(path));
  if (!on && !trace.device_activities.empty())
    return usage_error("expected --on for a trace with kernels, found none",
                       "name the machine on which it was recorded: --on h200");
  RIDGE_TRY(machine, machine_of(on.value_or(MachineChoice())));
  RIDGE_TRY(summary, profiler::summarize_trace(trace, machine));
  const std::string title = path == "-" ? "standard input" : std::filesystem::path(path).filename().string();
  return TraceReport{title, machine.title, std::move(summary)};
}

}  // namespace ridge::api

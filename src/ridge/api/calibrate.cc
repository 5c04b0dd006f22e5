// Fits a library's numbers to timings, or this CPU's to a run, and writes them into a machine file.
#include <fmt/format.h>

#include "ridge/api/facade.h"
#include "ridge/base/file.h"
#include "ridge/machine/system.h"
#include "ridge/measure/fit/cpu_timings.h"
#include "ridge/measure/probe.h"

namespace ridge::api {

namespace {

Result<LibraryTimings> timings_of(const CalibrationRequest& request, const Machine& machine) {
  if (request.path.empty()) {
    if (request.on.where() == Where::cpu) return time_cpu_kernels(machine, request.progress);
    return usage_error(fmt::format("expected a FILE of timings with --on {}, found none", request.on.name()),
                       "without one `ridge calibrate --on cpu` times this CPU");
  }
  const auto text = read_file(request.path);
  if (!text) return text.error();
  return read_library_timings(*text, request.path, request.dtype, request.column);
}

// Where the machine with its numbers goes: the file that was asked for; of a run, else, where this CPU's are kept.
Result<std::string> path_of(const CalibrationRequest& request) {
  if (!request.out.empty() || !request.path.empty()) return request.out;
  return probe_path("cpu");
}

}  // namespace

Result<CalibrationReport> calibrate(const CalibrationRequest& request) {
  auto machine = machine_of(request.on);
  if (!machine) return machine.error();
  const auto path = path_of(request);
  if (!path) return path.error();
  const auto timings = timings_of(request, *machine);
  if (!timings) return timings.error();
  const DType dtype = request.path.empty() ? DType::f32 : request.dtype;
  auto found = ridge::calibrate(*machine, dtype, *timings);
  if (!found) return found.error();
  const std::string measured = request.path.empty() ? "a run on " + machine->title : request.path;
  const std::string source = request.source.empty() ? measured : request.source;
  CalibrationReport out{*std::move(found), source, today(), *path, request.points};
  if (!request.points.empty())
    if (const Status written = write_file(request.points, judged_lines(out.found)); !written) return written.error();
  if (path->empty()) return out;
  const Status written =
      write_file(*path, print_machine(with_library(*std::move(machine), out.found, source, out.day)));
  if (!written) return written.error();
  return out;
}

}  // namespace ridge::api

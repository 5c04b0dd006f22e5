// Fits a library's parameters to timings, or this CPU's to a benchmark run, and writes them into a machine file.
#include <fmt/format.h>

#include "ridge/api/facade.h"
#include "ridge/base/file.h"
#include "ridge/machine/system.h"
#include "ridge/measure/calibrate.h"
#include "ridge/measure/probe.h"

namespace ridge::api {

namespace {

Result<LibraryTimings> load_timings(const CalibrationRequest& request, const Machine& machine) {
  if (request.path.empty()) {
    if (request.on.where() == RunTarget::cpu) return time_cpu_kernels(machine, request.progress);
    return usage_error(fmt::format("expected a FILE of timings with --on {}, found none", request.on.name()),
                       "without FILE, `ridge calibrate --on cpu` times this CPU");
  }
  RIDGE_TRY(text, read_file(request.path));
  return read_library_timings(text, request.path, request.dtype, request.column);
}

// Returns the path of the machine file to write: the requested one, or after a run this CPU's own file. Empty if none.
Result<std::string> output_path(const CalibrationRequest& request) {
  if (!request.out.empty() || !request.path.empty()) return request.out;
  return prepare_machine_path("cpu");
}

}  // namespace

Result<CalibrationReport> calibrate(const CalibrationRequest& request) {
  RIDGE_TRY(machine, machine_of(request.on));
  RIDGE_TRY(path, output_path(request));
  RIDGE_TRY(timings, load_timings(request, machine));
  const DType dtype = request.path.empty() ? DType::f32 : request.dtype;
  RIDGE_TRY(found, ridge::calibrate_library(machine, dtype, timings));
  const std::string measured = request.path.empty() ? "a run on " + machine.title : request.path;
  const std::string source = request.source.empty() ? measured : request.source;
  CalibrationReport out{std::move(found), source, today_utc(), path, request.points};
  if (!request.points.empty()) RIDGE_TRY_STATUS(write_file(request.points, format_held_out_csv(out.calibration)));
  if (path.empty()) return out;
  RIDGE_TRY_STATUS(
      write_file(path, print_machine(with_calibration(std::move(machine), out.calibration, source, out.day))));
  return out;
}

}  // namespace ridge::api

// Fits a library's numbers to timings, and writes them into a machine file where one is asked for.
#include <fmt/format.h>

#include "ridge/api/facade.h"
#include "ridge/base/file.h"
#include "ridge/machine/system.h"

namespace ridge::api {

Result<CalibrationReport> calibrate(const CalibrationRequest& request) {
  auto machine = machine_of(request.on);
  if (!machine) return machine.error();
  const auto text = read_file(request.path);
  if (!text) return text.error();
  const auto timings = read_library_timings(*text, request.path, request.dtype, request.column);
  if (!timings) return timings.error();
  auto found = ridge::calibrate(*machine, request.dtype, *timings);
  if (!found) return found.error();
  const std::string source = request.source.empty() ? request.path : request.source;
  CalibrationReport out{*std::move(found), source, today(), request.out};
  if (request.out.empty()) return out;
  const Status written =
      write_file(request.out, print_machine(with_library(*std::move(machine), out.found, source, out.day)));
  if (!written) return written.error();
  return out;
}

}  // namespace ridge::api

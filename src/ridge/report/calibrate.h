// Result of a calibration: the fitted numbers with their source, and their errors on held-out kernels.
#pragma once

#include <string>

#include "ridge/measure/calibrate.h"
#include "ridge/report/table.h"

namespace ridge {

struct CalibrationReport {
  Calibration calibration;
  std::string source, day;
  std::string machine_path;  // machine file that was written; empty if none
  std::string points_path;   // CSV file of the held-out kernels that was written; empty if none
};
std::string render_text(const CalibrationReport& report, const TextStyle& style = {});
std::string render_json(const CalibrationReport& report);  // "ridge.calibration/1"

}  // namespace ridge

// What a calibration found: the numbers with their provenance, and what they are worth on kernels kept apart.
#pragma once

#include <string>

#include "ridge/measure/calibrate.h"

namespace ridge {

struct CalibrationReport {
  Calibration found;
  std::string source, day;
  std::string path;    // of the machine file that was written; empty: none
  std::string points;  // of the CSV of the kernels kept apart that was written; empty: none
};
std::string render_text(const CalibrationReport& report);
std::string render_json(const CalibrationReport& report);  // "ridge.calibration/1"

}  // namespace ridge

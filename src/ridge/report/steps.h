// The derivation step by step: each formula, the same with numbers and units, and its result. Only formats values that
// the Report holds.
#pragma once

#include <string>

#include "ridge/report/report.h"

namespace ridge {

// Returns plain text, or Markdown with a heading per statement, numbered steps and code blocks.
std::string render_steps(const Report& report, bool markdown = false);

}  // namespace ridge

// The derivation as a person writes it: each formula, the numbers put in with their units, and what comes out. Computes
// nothing that the Report does not hold.
#pragma once

#include <string>

#include "ridge/report/report.h"

namespace ridge {

// Plain text, or Markdown: a heading for each step, and the lines in code blocks.
std::string render_steps(const Report& report, bool markdown = false);

}  // namespace ridge

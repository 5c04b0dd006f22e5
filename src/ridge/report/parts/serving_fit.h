// Constants of served times that were fitted to measured points, with their errors and the points that cannot be right.
#pragma once

#include <string>

#include "ridge/plan/model/fit_serving.h"
#include "ridge/report/table.h"

namespace ridge {

// `written` is the file of the constants; empty if none was written.
std::string render_text(const ServingFit& fit, const std::string& written, const TextStyle& style = {});

}  // namespace ridge

// A sweep as a table or a picture. CSV and JSON hold every point. The text holds the limiter changes, and the points
// themselves if there are at most 64.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ridge/report/report.h"
#include "ridge/report/table.h"
#include "ridge/roofline/sweep.h"

namespace ridge {

std::string render_text(const Sweep& sweep, const TextStyle& style = {});
// Columns: machine, dtype, each dimension, flops, bytes, intensity, limiter, time_lower_s, time_upper_s, crossover
// ("memory to compute" if the limiter changed, else empty), unknown (the reason). Unknown values are empty.
std::string render_csv(const Sweep& sweep);
std::string render_json(const Sweep& sweep);
std::string render_markdown(const Sweep& sweep);
// Returns the first 64 changes of the limiter.
Cells changes_table(const Sweep& sweep);
// Draws attainable FLOP/s over the range with the most values, one curve per machine, dtype and combination of the
// other sizes. Dots mark changes of the limiter.
std::string render_svg(const Sweep& sweep);

}  // namespace ridge

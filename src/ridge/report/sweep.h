// A sweep as a table or a picture. CSV and JSON hold every point; the text holds the crossovers, and the points where
// they are few.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ridge/report/report.h"
#include "ridge/report/table.h"
#include "ridge/roofline/sweep.h"

namespace ridge {

std::string render_text(const Sweep& sweep, const TextStyle& style = {});
// Column by column what a spreadsheet wants: machine, dtype, each dimension, flops, bytes, intensity, limiter,
// time_lower_s, time_upper_s, crossover ("memory to compute" where the limiter changed, else empty). What is not known
// is empty.
std::string render_csv(const Sweep& sweep);
std::string render_json(const Sweep& sweep);
std::string render_markdown(const Sweep& sweep);
// Where the limiter changes, the first 64 of them.
Cells changes_table(const Sweep& sweep);
// Attainable FLOP/s over the range with the most values, a curve for each machine, dtype and other size; crossovers as
// dots with their sizes.
std::string render_svg(const Sweep& sweep);

}  // namespace ridge

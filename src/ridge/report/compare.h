// Comparisons of reports: two programs or machines, one program on several machines, two programs run alternately.
#pragma once

#include <string>
#include <vector>

#include "ridge/report/report.h"
#include "ridge/report/table.h"

namespace ridge {

// Returns one row per quantity of each operation that both reports have, and of the totals: the first value, the second
// value, and second / first.
Cells comparison_table(const Report& first, const Report& second, NumberStyle style = NumberStyle::readable);
// Returns a line for each remark that both reports share.
std::string comparison_notes(const Report& first, const Report& second);
std::string render_comparison_json(const Report& first, const Report& second);

// Columns: machine, limiter, lower, no overlap, time over the fastest, fused, largest operation. Fastest machine first.
// Bare numbers: the largest operation, its fraction of the time and the reason of missing times are columns of their
// own.
Cells ranking_table(const std::vector<Report>& reports, NumberStyle style = NumberStyle::readable);
inline const std::vector<bool> ranking_right_aligned{false, false, true, true, true, true, false};
std::string render_ranking_text(const std::vector<Report>& reports, const TextStyle& style = {});
// "ridge.ranking/1": the full report of each machine, in the requested order.
std::string render_ranking_json(const std::vector<Report>& reports);

// Columns: program, median, min, max, runs, error.
Cells alternating_runs_table(const Report& first, const Report& second, NumberStyle style = NumberStyle::readable);
inline const std::vector<bool> alternating_runs_right_aligned{false, true, true, true, true, true};
std::string render_alternating_runs_text(const Report& first, const Report& second, const MedianInterval& ratio,
                                         const TextStyle& style = {});
std::string render_alternating_runs_json(const Report& first, const Report& second, const MedianInterval& ratio);

}  // namespace ridge

// Reports beside each other: two in full, one program on several machines, two programs that were run in turn.
#pragma once

#include <string>
#include <vector>

#include "ridge/report/report.h"
#include "ridge/report/table.h"

namespace ridge {

// One row a quantity of each operation that stands in both, and of the totals: the first report's value, the second
// one's, and the second over the first.
Cells against_table(const Report& first, const Report& second);
std::string render_against_json(const Report& first, const Report& second);

// machine, limiter, lower, no overlap, over the fastest, fused, what takes most; where no time is known last.
Cells ranking_table(const std::vector<Report>& reports);
inline const std::vector<bool> ranking_right{false, false, true, true, true, true, false};
std::string render_ranking_text(const std::vector<Report>& reports, const TextStyle& style = {});
// "ridge.ranking/1": machines[], a report of each as it is printed alone, in the order that was asked for.
std::string render_ranking_json(const std::vector<Report>& reports);

// program, median, least, greatest, runs, error.
Cells together_table(const Report& first, const Report& second);
inline const std::vector<bool> together_right{false, true, true, true, true, true};
std::string render_together_text(const Report& first, const Report& second, const MedianInterval& ratio,
                                 const TextStyle& style = {});
std::string render_together_json(const Report& first, const Report& second, const MedianInterval& ratio);

}  // namespace ridge

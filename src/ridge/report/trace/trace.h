// Traces of profilers as text and JSON.
#pragma once

#include <string>

#include "ridge/profiler/summary.h"
#include "ridge/report/table.h"

namespace ridge {

struct TraceReport {
  std::string title;          // Name of the file
  std::string machine_title;  // "NVIDIA H200 SXM"
  profiler::TraceSummary summary;
};

// Returns a headline and the rows that lose the most time, at most 20 unless `style.show_all`.
std::string render_text(const TraceReport& report, const TextStyle& style = {});
std::string render_json(const TraceReport& report);  // "ridge.trace/1", with all rows

}  // namespace ridge

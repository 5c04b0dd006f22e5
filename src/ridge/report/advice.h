// What would make a program faster, as text and JSON, and what became of it where it was run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/measure/run.h"
#include "ridge/plan/advise.h"
#include "ridge/report/report.h"

namespace ridge {

struct Confirmation {
  MedianInterval ratio;    // of the variant's time over the program's, or of the two runs' medians
  double gain_s = 0;       // by that ratio
  bool came_true = false;  // it gains
  bool is_within = false;  // as much as was said
};
struct AdviceStep {
  Advice advice;
  std::string confirm;                            // the command that measures it, or shows it
  bool is_confirmable = false;                    // on what is here
  std::optional<Confirmation> confirmation = {};  // where it was asked for
};
struct AdviceReport {
  std::string title, machine, machine_title, program;
  Interval predicted_s = {};
  double bound_s = 0;
  std::vector<AdviceStep> steps = {};
};

std::string render_text(const AdviceReport& report, const TextStyle& style = {});
std::string render_json(const AdviceReport& report);  // "ridge.advice/1"

}  // namespace ridge

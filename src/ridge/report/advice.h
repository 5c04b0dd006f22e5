// Advice on making a program faster, as text and JSON, with the measured gain if the variant was run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/measure/run.h"
#include "ridge/plan/advise.h"
#include "ridge/report/report.h"

namespace ridge {

struct Confirmation {
  MedianInterval ratio;             // variant's time over the program's time, or the ratio of two medians
  double gain_s = 0;                // time saved, according to `ratio`
  bool is_confirmed = false;        // the variant is faster
  bool is_within_interval = false;  // the gain lies within the predicted interval
};
struct AdviceStep {
  Advice advice;
  std::string confirm_command;                    // command that measures the variant, or explains it
  bool is_confirmable = false;                    // the command can run on this machine
  std::optional<Confirmation> confirmation = {};  // set if requested
};
struct AdviceReport {
  std::string title, machine, machine_title, program;
  Interval predicted_s = {};
  double roofline_bound_s = 0;
  std::vector<std::string> without_model = {};  // results that plain loops compute
  std::vector<AdviceStep> steps = {};
};

std::string render_text(const AdviceReport& report, const TextStyle& style = {});
std::string render_json(const AdviceReport& report);  // "ridge.advice/1"

}  // namespace ridge

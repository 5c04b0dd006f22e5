// How long a group's kernels take on this CPU, by the numbers that `ridge calibrate --on cpu` fitted to a run there.
#pragma once

#include <optional>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/ops/library/form.h"
#include "ridge/ops/model.h"
#include "ridge/plan/plan.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

// Of ops::cpu_form()'s columns. `whole`: the group as one operation; `functions_s`: what its functions take, where that
// is known. All above 0, as the form asks for.
std::vector<double> cpu_sizes(const Explanation& explanation, const Plan& plan, int group, const Prediction& whole,
                              double functions_s);

// The machine as the form wants it.
ops::LibraryChip chip_of(const Machine& machine, const ops::LibraryMachine& rates);

struct CpuTime {
  double seconds = 0;
  ops::Spread spread;  // measured over predicted: eight of ten lay between low and high
};
// Nothing: nobody calibrated this machine.
std::optional<CpuTime> cpu_time(const Machine& machine, const std::vector<double>& sizes);

}  // namespace ridge

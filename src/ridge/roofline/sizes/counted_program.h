// Counts of a program, which hold on every machine, and times of its kernels on one machine. Against `explain` and
// `predict_groups` (prediction.h), totals, formulas as text, thresholds and memory are left out: a model's step needs
// the numbers of many programs on several machines.
#pragma once

#include <vector>

#include "ridge/roofline/prediction.h"

namespace ridge {

struct CountedProgram {
  std::vector<std::string> dim_names = {};
  Bindings dims = {};  // With the counts of masks
  std::vector<Work> work = {};
};

// Counts a program without a mesh. Errors: a size without a value.
Result<CountedProgram> count_program(const Program& program);
// Predicts each statement. Errors: the machine lacks its bandwidth or the dtype of a contraction; a count exceeds
// 10^38.
Result<std::vector<Prediction>> predict_statements(const CountedProgram& counted, const Machine& machine);
// Predicts each group of statements as one kernel, as `predict_groups` does. `statements` are their predictions.
Result<std::vector<Prediction>> predict_kernels(const Program& program, const CountedProgram& counted,
                                                const std::vector<Prediction>& statements, const Machine& machine,
                                                const KernelGroups& groups);

}  // namespace ridge

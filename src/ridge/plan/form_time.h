// How long kernels take whose plans nobody knows, by the forms of ops/library and the numbers that `ridge calibrate`
// fitted for a machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>
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

// The machine as a form wants it.
ops::LibraryChip chip_of(const Machine& machine, const ops::LibraryMachine& rates);

// "library_low", "library_prefill_low", "cpu_low": of a machine's file.
std::string spread_key(const ops::LibraryForm& form, std::string_view what);

bool is_fitted(const Machine& machine, const ops::LibraryForm& form);

// Measured over predicted, of the machine's file: 1 where that does not say. Eight of ten lay between low and high.
ops::Spread spread_of(const Machine& machine, const ops::LibraryForm& form);

struct FormTime {
  double seconds = 0;  // of one launch
  ops::Spread spread;
};
// Of a kernel of these sizes. Nothing: nobody fitted the form's numbers for this machine.
std::optional<FormTime> form_time(const Machine& machine, const ops::LibraryForm& form,
                                  const std::vector<double>& sizes, const ops::LibraryMachine& rates = {});

}  // namespace ridge

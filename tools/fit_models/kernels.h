// Fits data/models/kernels.csv and spreads.csv to the timings and to results/: the kernel for few rows, the pass over h
// of a gated layer's backward, attention, and the errors of predictions.
#pragma once

#include "fit_models/closed_form.h"
#include "ridge/ops/fitted.h"

namespace ridge::fit {

// Errors: a result file that cannot be read or lacks a key.
Result<ops::KernelConstants> fit_kernels(const Samples& samples, const Form& form, const std::string& root);

// Writes both files. `facts` is the header of the timings of products.
Status write_kernels(const Samples& samples, const Form& form, const ops::KernelConstants& numbers,
                     const std::string& root);

}  // namespace ridge::fit

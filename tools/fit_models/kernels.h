// data/models/kernels.csv and spreads.csv, of the timings and of what is kept in results/: the kernel for a few rows,
// the pass over h of a gated layer that goes backward, attention; and how far predictions are off.
#pragma once

#include "fit_models/closed_form.h"
#include "ridge/ops/fitted.h"

namespace ridge::fit {

// Errors: a result that cannot be read, or lacks what is asked of it.
Result<ops::KernelNumbers> fit_kernels(const Samples& samples, const Form& form, const std::string& root);

// Writes both files. `facts` stands above the timings of products.
Status write_kernels(const Samples& samples, const Form& form, const ops::KernelNumbers& numbers,
                     const std::string& root);

}  // namespace ridge::fit

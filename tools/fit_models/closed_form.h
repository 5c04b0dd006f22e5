// Fits the constants of the closed form and the numbers of each machine together, to timings of several devices.
#pragma once

#include "fit_models/samples.h"

namespace ridge::fit {

struct Form {
  ops::cuda::ProductModel model;  // only constants; its trees are empty
  std::vector<ops::DeviceNumbers> devices;
};

// Minimizes the weighted sum of |log(predicted / measured)| over all samples except those of one fold (-1: all), by
// Levenberg's method on the logarithms of all numbers. A weak prior pulls each number to its initial value, so that
// numbers which the timings do not determine stay there.
Form fit_form(const Samples& samples, const Form& begin, int left_out);

double predicted(const Sample& sample, const Form& form);

// Returns the weighted mean of |log(predicted / measured)|.
double error_of(const Samples& samples, const Form& form, int fold);

}  // namespace ridge::fit

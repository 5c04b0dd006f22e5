// Fits the constants of the closed form and what differs from one machine to the next, both at once, to timings of
// several devices.
#pragma once

#include "fit_models/samples.h"

namespace ridge::fit {

struct Form {
  ops::cuda::ProductModel model;  // constants alone; its trees are empty
  std::vector<ops::DeviceNumbers> devices;
};

// Least weighted sum of |log(predicted / measured)| over all samples but those of one fold (-1: of all), by
// Levenberg's method on the logarithms of all numbers, each of which is held to where it began by a weak spring: what
// timings say nothing about stays there.
Form fit_form(const Samples& samples, const Form& begin, int left_out);

double predicted(const Sample& sample, const Form& form);

// The mean of |log(predicted / measured)|, weighted.
double error_of(const Samples& samples, const Form& form, int fold);

}  // namespace ridge::fit

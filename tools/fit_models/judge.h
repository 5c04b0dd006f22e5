// Error of a fit on held-out products.
#pragma once

#include <vector>

#include "fit_models/boosting.h"

namespace ridge::fit {

// Loss by choosing among the timed plans of a product, and the error of the predicted time.
struct Verdict {
  double form = 0, both = 0;   // sums of log(chosen / fastest) for the form alone, and for form and trees
  std::vector<double> ratios;  // measured over predicted time of the plan that form and trees choose
};

// Adds the products of a fold on one device.
void judge(const Samples& samples, int device, int fold, const std::vector<Learned>& all,
           const std::vector<ops::cuda::RegressionTree>& grown, Verdict& verdict);

// Returns "1905 products: loss of the choice 3.36 % by the form, …".
std::string text_of(Verdict verdict);

}  // namespace ridge::fit

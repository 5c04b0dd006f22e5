// What a fit is worth on products that were left out of it.
#pragma once

#include <vector>

#include "fit_models/boosting.h"

namespace ridge::fit {

// What choosing among the timed plans of a product costs, and how far the chosen plan's time is off.
struct Verdict {
  double form = 0, both = 0;   // sums of log(chosen / fastest), choosing by the form alone, by form and trees
  std::vector<double> ratios;  // measured over predicted, of the plan chosen by both
};

// Adds what the products of a fold on one device say.
void judge(const Samples& samples, int device, int fold, const std::vector<Learned>& all,
           const std::vector<ops::cuda::Tree>& grown, Verdict& verdict);

// "1905 products: choosing by the form loses 3.36 %, …"
std::string text_of(Verdict verdict);

}  // namespace ridge::fit

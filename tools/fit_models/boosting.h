// Fits regression trees to the residuals of the closed form: gradient boosting for the squared error of the logarithm
// of measured over predicted time.
#pragma once

#include <vector>

#include "fit_models/closed_form.h"

namespace ridge::fit {

// A sample with binned features and its residual.
struct Learned {
  ops::cuda::PlanFeatures features{};
  ops::cuda::FeatureBins bins{};
  double form_s = 0;
};
std::vector<Learned> learned(const Samples& samples, const Form& form);

// Returns bin edges with equal numbers of samples per bin, or between all values if there are few.
std::array<ops::cuda::BinEdges, ops::cuda::plan_feature_count> edges_of(const std::vector<Learned>& all);
void sort_into_bins(std::vector<Learned>& all,
                    const std::array<ops::cuda::BinEdges, ops::cuda::plan_feature_count>& edges);

// Fits trees to all samples except those of one fold (-1: all samples).
std::vector<ops::cuda::RegressionTree> boosted(const Samples& samples, const std::vector<Learned>& all, int left_out);

}  // namespace ridge::fit

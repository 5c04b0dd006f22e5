// Grows regression trees for what the closed form leaves out: gradient boosting for squared error of the logarithm of
// measured over the form's time.
#pragma once

#include <vector>

#include "fit_models/closed_form.h"

namespace ridge::fit {

// A sample as trees see it.
struct Learned {
  ops::cuda::Features features{};
  ops::cuda::Bins bins{};
  double form_s = 0;
};
std::vector<Learned> learned(const Samples& samples, const Form& form);

// Between neighbouring values as many samples each; between all values where there are few.
std::array<ops::cuda::Edges, ops::cuda::plan_features> edges_of(const std::vector<Learned>& all);
void sort_into_bins(std::vector<Learned>& all, const std::array<ops::cuda::Edges, ops::cuda::plan_features>& edges);

// From all samples but those of one fold (-1: from all).
std::vector<ops::cuda::Tree> boosted(const Samples& samples, const std::vector<Learned>& all, int left_out);

}  // namespace ridge::fit

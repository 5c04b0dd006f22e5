// Writes the results of a fit: data/models/product_constants.csv, product_trees.csv, devices.csv, the line `product` of
// spreads.csv, and [plan] of the timed machines' files.
#pragma once

#include "fit_models/judge.h"

namespace ridge::fit {

// Rounds to the digits of a machine file or constant, so that later fits use the rounded numbers.
double rounded(double x);
Form rounded(Form form);

struct Made {
  const Samples& samples;
  const Form& form;
  const std::vector<ops::cuda::RegressionTree>& trees;
  const std::array<ops::cuda::BinEdges, ops::cuda::plan_feature_count>& edges;
  std::vector<double> ratios;  // measured over predicted time of held-out products
};

// Writes below `root`, which contains data/ and machines/. Errors: a file that cannot be read or written, a machine
// file without [plan].
Status write_files(const Made& made, const std::string& root);

}  // namespace ridge::fit

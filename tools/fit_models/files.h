// The files that a fit makes: data/models/product_constants.csv, product_trees.csv, devices.csv, the line `product` of
// spreads.csv, and [plan] of the timed machines' files.
#pragma once

#include "fit_models/judge.h"

namespace ridge::fit {

// A machine file's and a constant's digits: what follows is fitted to numbers that were rounded so.
double rounded(double x);
Form rounded(Form form);

struct Made {
  const Samples& samples;
  const Form& form;
  const std::vector<ops::cuda::Tree>& trees;
  const std::array<ops::cuda::Edges, ops::cuda::plan_features>& edges;
  std::vector<double> ratios;  // measured over predicted, on products left out
};

// Writes below `root`, in which data/ and machines/ lie. Errors: a file that cannot be read or written, a machine file
// without a [plan].
Status write_files(const Made& made, const std::string& root);

}  // namespace ridge::fit

// What the closed form leaves out, learned from timings: a factor on its time, from regression trees
// over what a plan looks like. The form says what holds a product up and how it grows; the trees know by how much tiles
// of one kind fall short of it where few blocks run, k is short or lines lie across sectors. They lie in data/models
// (fitted.h). Internal to the CUDA product.
#pragma once

#include <array>
#include <span>

#include "ridge/ops/product/closed_form.h"

namespace ridge::ops::cuda {

// Numbers, logarithms of sizes and seconds, or 0 and 1, in the order of feature_names.
using Features = std::array<float, plan_features>;
Features features_of(const MatmulConfig& config, const TileWork& work, const SplitK& split, const DeviceNumbers& device,
                     double form_s);

using Bins = std::array<std::uint8_t, plan_features>;  // of each feature: how many edges lie below it
Bins bins_of(const Features& features, const std::array<Edges, plan_features>& edges);
double sum_of(const Tree& tree, const Bins& bins);

// The factor on the closed form's seconds, held within these.
inline constexpr double least_correction = 0.75, most_correction = 1.35;
double factor_of(std::span<const Tree> trees, const Bins& bins);
double correction(const Features& features, const ProductModel& model = product_model());

}  // namespace ridge::ops::cuda

// Correction factor on the time of the closed form, from regression trees over the features of a plan. The closed form
// models bounds and scaling; the trees model deviations of tile shapes, for example with few blocks, short k or lines
// that cross sectors. They are fitted to timings and stored in data/models (fitted.h). Internal to the CUDA product.
#pragma once

#include <array>
#include <span>

#include "ridge/ops/product/closed_form.h"

namespace ridge::ops::cuda {

// Features of a plan: numbers, logarithms of sizes and seconds, flags; in the order of `feature_names`.
using Features = std::array<float, plan_features>;
Features features_of(const MatmulConfig& config, const TileWork& work, const SplitK& split, const DeviceNumbers& device,
                     double form_s);

using Bins = std::array<std::uint8_t, plan_features>;  // For each feature, the number of edges below it
Bins bins_of(const Features& features, const std::array<Edges, plan_features>& edges);
double sum_of(const Tree& tree, const Bins& bins);

// Limits of the correction factor.
inline constexpr double least_correction = 0.75, most_correction = 1.35;
double factor_of(std::span<const Tree> trees, const Bins& bins);
double correction(const Features& features, const ProductModel& model = product_model());

}  // namespace ridge::ops::cuda

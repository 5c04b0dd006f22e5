// Correction factor on the time of the closed form, from regression trees over the features of a plan. The closed form
// models limiters and scaling; the trees model deviations of single tile shapes, for example with few blocks, short k
// or lines that cross sectors. The trees are fitted to timings (fitted.h). Internal to the CUDA product.
#pragma once

#include <array>
#include <span>

#include "ridge/ops/product/closed_form.h"

namespace ridge::ops::cuda {

// Features of a plan: numbers, logarithms of sizes and seconds, flags; in the order of `feature_names`.
using PlanFeatures = std::array<float, plan_feature_count>;
PlanFeatures make_plan_features(const MatmulConfig& config, const TileWork& work, const SplitK& split,
                                const DeviceNumbers& device, double form_s);

using FeatureBins =
    std::array<std::uint8_t, plan_feature_count>;  // For each feature, the number of edges below its value
FeatureBins find_bins(const PlanFeatures& features, const std::array<BinEdges, plan_feature_count>& edges);
double evaluate_tree(const RegressionTree& tree, const FeatureBins& bins);

// Limits of the correction factor.
inline constexpr double min_correction = 0.75, max_correction = 1.35;
double correction_factor(std::span<const RegressionTree> trees, const FeatureBins& bins);
double predict_correction(const PlanFeatures& features, const ProductModel& model = product_model());

}  // namespace ridge::ops::cuda

// What the closed form of matmul_model.h leaves out, learned from timings: a factor on its time, from regression trees
// over what a plan looks like. The form says what holds a product up and how it grows; the trees know by how much tiles
// of one kind fall short of it where few blocks run, k is short or lines lie across sectors. They were grown by
// tools/fit_matmul.cc from an H200's timings and lie in matmul_trees.h. Internal to the CUDA product.
#pragma once

#include <array>
#include <span>

#include "ridge/ops/product/closed_form.h"

namespace ridge::ops::cuda {

// What a tree asks about, in the order of features_of: numbers, logarithms of sizes and seconds, or 0 and 1.
inline constexpr int plan_features = 33;
using Features = std::array<float, plan_features>;
Features features_of(const MatmulConfig& config, const TileWork& work, const SplitK& split, int sms, double form_s);

// Below node i come `left` and, where the feature lies above the edge, `right`: another node, or the leaf -1 - x. A
// leaf is what is added to the logarithm of the time, in units of 0.0001. Trees ask for the number of an edge, so that
// a plan's features are looked up among them once.
inline constexpr int tree_leaves = 32, feature_edges = 62;
using Edges = std::array<float, feature_edges>;
struct Tree {
  std::array<std::uint8_t, tree_leaves - 1> feature, edge;
  std::array<std::int8_t, tree_leaves - 1> left, right;
  std::array<std::int16_t, tree_leaves> leaf;
};
using Bins = std::array<std::uint8_t, plan_features>;  // of each feature: how many edges lie below it
Bins bins_of(const Features& features, const std::array<Edges, plan_features>& edges);
double sum_of(const Tree& tree, const Bins& bins);

// The factor on the closed form's seconds, held within these; correction: by the trees of matmul_trees.h.
inline constexpr double least_correction = 0.75, most_correction = 1.35;
double factor_of(std::span<const Tree> trees, const Bins& bins);
double correction(const Features& features);

}  // namespace ridge::ops::cuda

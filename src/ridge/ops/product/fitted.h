// Model of products that was fitted to timings: constants of the closed form and regression trees (correction.h). Read
// once from data/models (ops/fitted.h describes the format). Files that were fitted for other kernel configurations are
// an error: a new configuration needs timings first (docs/fit.md). Internal to the CUDA product.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/ops/product/config.h"

namespace ridge::ops::cuda {

// Resource that bounds a product: tensor cores (multiplies), or memory, with D as most of the bytes (results) or not
// (bytes).
enum class Bound : std::uint8_t { bytes, results, multiplies };
inline constexpr std::size_t bound_count = 3;
template <class T> using EachBound = std::array<T, bound_count>;
template <class T> const T& select_bound(const EachBound<T>& each, Bound bound) {
  return each[static_cast<std::size_t>(bound)];
}

// Constants of the closed form, documented with units in data/models/product_constants.csv.
struct ClosedFormConstants {
  double slowdown;
  double memory, memory_per_block;
  double l2_again, l2_all, l2_power;
  double l2_straight, l2_swapped, arriving;
  double reads_a, least_stage;
  double line64, line32, line16, across, narrow_line;
  double both_wait, stage_power;
  double launch, first_load, tile_end, tile_end_alone, box, element_box;
  double split, split_sums, split_batch;
  double gather, gather_sums, gather_turn;
  double share, share_step, next_cluster;
  double cluster_stage, cluster_block, cluster_start, eights;
  double stream, copy, copied, under_copy;
  double overlap, beside, beside_prefetch;
};
struct NamedConstant {
  std::string_view name;
  double ClosedFormConstants::*member;
};
extern const std::array<NamedConstant, 44> named_constants;  // In the order of the file

// Inputs of a tree, in the order of `make_features` (correction.h).
inline constexpr int plan_feature_count = 33;
extern const std::array<std::string_view, plan_feature_count> feature_names;

// Node i continues at `right` if the feature exceeds the edge, otherwise at `left`; a value x >= 0 is a node, x < 0 is
// leaf -1 - x. A leaf is added to the logarithm of the time, in units of 0.0001. Nodes store the index of an edge, so
// that each feature of a plan is binned only once.
inline constexpr int tree_leaves = 32, feature_edges = 62;
using BinEdges = std::array<float, feature_edges>;  // Ascending, padded with the largest float
struct RegressionTree {
  std::array<std::uint8_t, tree_leaves - 1> feature, edge;
  std::array<std::int8_t, tree_leaves - 1> left, right;
  std::array<std::int16_t, tree_leaves> leaf;
};

struct ProductModel {
  EachBound<ClosedFormConstants> constants = {};
  std::array<BinEdges, plan_feature_count> edges = {};
  std::vector<RegressionTree> trees = {};
};
struct ProductModelFiles {
  std::string_view constants, trees;
};
// Errors name the line, or state that the file was fitted for other kernel configurations.
Result<ProductModel> parse_product_model(const ProductModelFiles& files);
// Returns the initial constants of a fit, the same for every bound (column `start` of the file).
Result<ProductModel> parse_initial_constants(std::string_view constants);
const ProductModel& product_model();

// Returns a hash of the kernel configurations of this build.
std::uint64_t kernel_configs_fingerprint();

}  // namespace ridge::ops::cuda

namespace ridge {
// Contents of the files at build time.
std::string_view product_constants_csv();
std::string_view product_trees_csv();
}  // namespace ridge

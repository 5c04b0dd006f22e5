// Time model of products, fitted to timings: constants of the closed form and regression trees (correction.h). Read
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

// Limiter of a product: tensor cores (multiplies), or memory, with D as most of the bytes (results) or not (bytes).
enum class BoundKind : std::uint8_t { bytes, results, multiplies };
inline constexpr std::size_t bound_count = 3;
template <class T> using PerBound = std::array<T, bound_count>;
template <class T> const T& select_for_bound(const PerBound<T>& each, BoundKind bound) {
  return each[static_cast<std::size_t>(bound)];
}

// Constants of the closed form. data/models/product_constants.csv documents them under the names of `named_constants`.
// Shares are relative to a rate of the device; rates are in bytes per cycle and block.
struct ClosedFormConstants {
  double power_slowdown;
  double memory_share, memory_per_block;
  double l2_repeat_share, l2_total_share, l2_overlap_power;
  double unswapped_l2_rate, swapped_l2_rate, arrival_rate;
  double read_a_cycles, min_stage_cycles;
  double line64_factor, line32_factor, line16_factor, mn_major_factor, narrow_line_cycles;
  double cooperative_factor, stage_overlap_power;
  double launch_cycles, first_load_cycles, tile_end_cycles, exposed_end_cycles, store_box_cycles, element_store_factor;
  double split_k_cycles, split_k_sum_cycles, split_k_batch_cycles;
  double cooperative_cycles, cooperative_sum_cycles, cooperative_step_cycles;  // Cooperative split-K
  double cluster_split_cycles, cluster_split_step_cycles, next_cluster_cycles;
  double cluster_stage_cycles, cluster_block_cycles, cluster_start_cycles, cluster8_factor;
  double stream_k_cycles, copy_cycles, copy_memory_share, hidden_copy_share;
  double wave_overlap_power, launch_overlap_cycles, prefetch_overlap_cycles;
};
struct NamedConstant {
  std::string_view name;
  double ClosedFormConstants::*member;
};
extern const std::array<NamedConstant, 44> named_constants;  // In the order of the file

// Names of the trees' inputs, in the order of `make_plan_features` (correction.h).
inline constexpr int plan_feature_count = 33;
extern const std::array<std::string_view, plan_feature_count> feature_names;

// Node i continues at right[i] if feature[i] exceeds edge[i], otherwise at left[i]; a link x >= 0 is node x, x < 0 is
// leaf -1 - x. A leaf is added to the logarithm of the time, in units of 0.0001. Nodes store the index of an edge, so
// that each feature of a plan is binned only once.
inline constexpr int leaves_per_tree = 32, max_edges_per_feature = 62;
using BinEdges = std::array<float, max_edges_per_feature>;  // Ascending, padded with the largest float
struct RegressionTree {
  std::array<std::uint8_t, leaves_per_tree - 1> feature, edge;
  std::array<std::int8_t, leaves_per_tree - 1> left, right;
  std::array<std::int16_t, leaves_per_tree> leaf;
};

struct ProductModel {
  PerBound<ClosedFormConstants> constants = {};
  std::array<BinEdges, plan_feature_count> edges = {};
  std::vector<RegressionTree> trees = {};
};
struct ProductModelCsv {
  std::string_view constants, trees;
};
// Errors name the invalid line, or state that the file was fitted for other kernel configurations.
Result<ProductModel> parse_product_model(const ProductModelCsv& files);
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

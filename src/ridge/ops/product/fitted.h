// What was fitted to timings of products: the closed form's constants and the trees of correction.h. They lie in
// data/models (ops/fitted.h tells how such files look) and are read once. Files that were made for another menu are
// refused: a row that joins the menu wants timings first (docs/fit.md).
// Internal to the CUDA product.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/ops/product/config.h"

namespace ridge::ops::cuda {

// What bounds a product: the tensor cores, where there are more multiplies than the bytes can hold up; else bytes, most
// of which may be D's.
enum class Bound : std::uint8_t { bytes, results, multiplies };
inline constexpr std::size_t bounds = 3;
template <class T> using EachBound = std::array<T, bounds>;
template <class T> const T& of(const EachBound<T>& each, Bound bound) { return each[static_cast<std::size_t>(bound)]; }

// The closed form's, in the units of data/models/product_constants.csv, which says what each means.
struct Constants {
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
  double Constants::*place;
};
extern const std::array<NamedConstant, 44> named_constants;  // in the order of the file

// What a tree asks about, in the order of features_of (correction.h).
inline constexpr int plan_features = 33;
extern const std::array<std::string_view, plan_features> feature_names;

// Below node i come `left` and, where the feature lies above the edge, `right`: another node, or the leaf -1 - x. A
// leaf is what is added to the logarithm of the time, in units of 0.0001. Trees ask for the number of an edge, so that
// a plan's features are looked up among them once.
inline constexpr int tree_leaves = 32, feature_edges = 62;
using Edges = std::array<float, feature_edges>;  // ascending; behind the last one the largest float
struct Tree {
  std::array<std::uint8_t, tree_leaves - 1> feature, edge;
  std::array<std::int8_t, tree_leaves - 1> left, right;
  std::array<std::int16_t, tree_leaves> leaf;
};

struct ProductModel {
  EachBound<Constants> constants = {};
  std::array<Edges, plan_features> edges = {};
  std::vector<Tree> trees = {};
};
struct ProductFiles {
  std::string_view constants, trees;
};
// Errors point at the line, and say where a file was made for another menu.
Result<ProductModel> parse_product_model(const ProductFiles& files);
// The constants that a fit begins with, the same for each of what may bound a product (the file's column `start`).
Result<ProductModel> parse_first_constants(std::string_view constants);
const ProductModel& product_model();

// Of the menu as compiled into this build.
std::uint64_t menu_fingerprint();

}  // namespace ridge::ops::cuda

namespace ridge {
// The files' texts at build time.
std::string_view product_constants_csv();
std::string_view product_trees_csv();
}  // namespace ridge

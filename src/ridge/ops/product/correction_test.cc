// Tests the evaluation of trees and the validity of the fitted trees.
#include "ridge/ops/product/time/correction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ridge/plan/testing/hopper.h"

namespace ridge::ops::cuda {
namespace {

constexpr float unused_edge = std::numeric_limits<float>::max();

TEST(MatmulCorrection, BinIsTheNumberOfEdgesBelow) {
  std::array<BinEdges, plan_feature_count> edges;
  for (BinEdges& e : edges) e.fill(unused_edge);
  edges[2][0] = 1;
  edges[2][1] = 4;
  PlanFeatures f{};
  const auto bin = [&](float x) {
    f[2] = x;
    return static_cast<int>(find_bins(f, edges)[2]);
  };
  EXPECT_EQ(bin(0), 0);
  EXPECT_EQ(bin(1), 0) << "a value equal to an edge goes left";
  EXPECT_EQ(bin(1.5), 1);
  EXPECT_EQ(bin(4), 1);
  EXPECT_EQ(bin(1e9F), 2);
}

TEST(MatmulCorrection, TreeTakesRightBranchAboveEdge) {
  RegressionTree tree{};
  tree.feature[0] = 7;
  tree.edge[0] = 3;
  tree.left[0] = -1;
  tree.right[0] = 1;
  tree.feature[1] = 9;
  tree.edge[1] = 0;
  tree.left[1] = -2;
  tree.right[1] = -3;
  tree.leaf[0] = 100;
  tree.leaf[1] = -200;
  tree.leaf[2] = 300;
  FeatureBins bins{};
  bins[7] = 3;
  EXPECT_DOUBLE_EQ(evaluate_tree(tree, bins), 0.01);
  bins[7] = 4;
  EXPECT_DOUBLE_EQ(evaluate_tree(tree, bins), -0.02);
  bins[9] = 1;
  EXPECT_DOUBLE_EQ(evaluate_tree(tree, bins), 0.03);
}

// Each node and each leaf has one parent (the loader ensures that links point to later nodes).
TEST(MatmulCorrection, FittedTreesHaveOneParentPerNode) {
  ASSERT_FALSE(product_model().trees.empty());
  for (const RegressionTree& tree : product_model().trees) {
    std::array<int, 2 * leaves_per_tree> parents{};
    for (std::size_t i = 0; i < tree.feature.size(); ++i)
      for (const int to : {tree.left[i], tree.right[i]}) ++parents[to + leaves_per_tree];
    for (int to = -leaves_per_tree; to < leaves_per_tree - 1; ++to)
      EXPECT_EQ(parents[to + leaves_per_tree], to != 0) << to;
  }
}

TEST(MatmulCorrection, CorrectionStaysWithinLimits) {
  PlanFeatures f{};
  for (const float x : {-unused_edge, -1.0F, 0.0F, 1.0F, 1e6F, unused_edge}) {
    f.fill(x);
    EXPECT_GE(predict_correction(f), min_correction) << x;
    EXPECT_LE(predict_correction(f), max_correction) << x;
  }
}

TEST(MatmulCorrection, FeaturesMatchThePlan) {
  const MatmulConfig c{.m = 128, .n = 256, .k = 64, .stages = 4, .consumers = 2, .cluster_m = 2};
  const TileWork w{.batch = 1, .size = {4096, 1000, 640}, .minimum_bytes = 1 << 20};
  const PlanFeatures f = make_plan_features(c, w, {2, tile::SplitMode::split_k}, h200_numbers(), std::exp(1.0));
  EXPECT_FLOAT_EQ(f[0], 1);
  EXPECT_FLOAT_EQ(f[1], 16 * 4 * 2 * 2 / 132.0F) << "waves: 16 x 4 pairs in two splits";
  EXPECT_FLOAT_EQ(f[4], std::log(5.0F)) << "stages of a split";
  EXPECT_FLOAT_EQ(f[24], 1.024F) << "computed over requested results";
}

}  // namespace
}  // namespace ridge::ops::cuda

// For any tile shape, every stage of every tile is assigned to exactly one block, and splits are numbered without gaps.
#include "ridge/tile/tile_scheduler.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace ridge::tile {
namespace {

void expect_full_coverage(const ProductShape& sizes, int clusters, int cluster_m = 1, int cluster_n = 1) {
  const TileShape tile_shape{.m = 64, .n = 128, .k = 64, .cluster_m = cluster_m, .cluster_n = cluster_n};
  const int blocks = clusters * tile_shape.cluster();
  std::map<int, std::map<int, WorkItem>> splits;  // splits of each tile, by number
  std::set<int> partials;
  std::set<std::array<int, 3>> origins;
  int least = 1 << 30, most = 0;
  for (int b = 0; b < blocks; ++b) {
    TileScheduler scheduler(tile_shape, sizes, blocks, b, b % tile_shape.cluster());
    int stages = 0;
    for (WorkItem x; scheduler.next(x);) {
      EXPECT_LT(x.first_stage, x.end_stage);
      EXPECT_TRUE(splits[x.block_tile].try_emplace(x.split, x).second);
      EXPECT_EQ(x.block_tile / tile_shape.cluster(), x.cluster_tile);
      EXPECT_TRUE(x.split > 0 || origins.insert({x.batch, x.m0, x.n0}).second);
      EXPECT_TRUE(partials.insert(x.first_partial + x.split).second);
      stages += x.end_stage - x.first_stage;
    }
    least = std::min(least, stages);
    most = std::max(most, stages);
  }
  const int high = 64 * cluster_m, wide = 128 * cluster_n, stages = (sizes.k + 63) / 64;
  const int tiles = (sizes.m + high - 1) / high * ((sizes.n + wide - 1) / wide) * sizes.batch * tile_shape.cluster();
  ASSERT_EQ(static_cast<int>(splits.size()), tiles);
  for (const auto& [tile, of_tile] : splits) {
    int at = 0, number = 0;
    for (const auto& [split, x] : of_tile) {
      EXPECT_EQ(split, number++);
      EXPECT_EQ(x.splits, static_cast<int>(of_tile.size()));
      EXPECT_EQ(x.first_stage, at);
      at = x.end_stage;
    }
    EXPECT_EQ(at, stages) << tile;
  }
  if (sizes.split_mode == SplitMode::stream_k) {
    EXPECT_LE(most - least, 1);
    EXPECT_LT(*partials.rbegin(), tiles + blocks);
  }
}

TEST(TileScheduler, AssignsEveryStageOfEveryTileOnce) {
  for (const int m : {1, 64, 65, 500})
    for (const int n : {1, 128, 300})
      for (const int k : {1, 64, 1000})
        for (const int batch : {1, 3})
          for (const int blocks : {1, 2, 5, 132}) {
            SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " of " +
                         std::to_string(batch) + " in " + std::to_string(blocks));
            expect_full_coverage({.m = m, .n = n, .k = k, .batch = batch}, blocks);
            expect_full_coverage({.m = m, .n = n, .k = k, .batch = batch, .split_mode = SplitMode::stream_k}, blocks);
            if (k == 1000) expect_full_coverage({.m = m, .n = n, .k = k, .batch = batch, .splits = 3}, blocks);
            expect_full_coverage({.m = m, .n = n, .k = k, .batch = batch}, blocks, 2, 1);
            if (k == 1000) expect_full_coverage({.m = m, .n = n, .k = k, .batch = batch, .splits = 3}, blocks, 2, 2);
          }
}

TEST(TileScheduler, StartsAtFirstRowAndWrapsAround) {
  const TileShape tile_shape{.m = 64, .n = 128, .k = 64};
  const ProductShape sizes{.m = 500, .n = 300, .k = 64, .raster_rows = 3, .first_row = 5};
  std::vector<int> rows;
  TileScheduler scheduler(tile_shape, sizes, 1, 0, 0);
  for (WorkItem x; scheduler.next(x);)
    if (x.n0 == 0) rows.push_back(x.m0 / 64);
  EXPECT_EQ(rows, (std::vector<int>{5, 6, 7, 0, 1, 2, 3, 4}));
  expect_full_coverage(sizes, 5);
}

}  // namespace
}  // namespace ridge::tile

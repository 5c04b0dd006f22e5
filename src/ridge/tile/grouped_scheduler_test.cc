// Every tile of every group is assigned to exactly one block, and no tile extends beyond its group's last row.
#include "ridge/tile/grouped_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace ridge::tile {
namespace {

struct GroupStarts {
  std::vector<int> starts;
  int total_rows;
};

void expect_full_coverage(const GroupStarts& rows, int across, bool along_n, int blocks, int raster_rows) {
  const TileShape tile_shape{.m = 64, .n = 16, .k = 32, .can_split = false};
  const int groups = static_cast<int>(rows.starts.size()) - 1, high = along_n ? tile_shape.n : tile_shape.m,
            wide = along_n ? tile_shape.m : tile_shape.n;
  const ProductShape sizes{.m = along_n ? across : rows.total_rows,
                           .n = along_n ? rows.total_rows : across,
                           .k = 100,
                           .batch = groups,
                           .raster_rows = raster_rows};
  std::set<std::tuple<int, int, int>> expected, got;
  std::vector<int> ends;
  for (int g = 0; g < groups; ++g) {
    const int begin = std::max(ends.empty() ? 0 : ends.back(), std::clamp(rows.starts[g], 0, rows.total_rows));
    const int end = std::max(begin, std::clamp(rows.starts[g + 1], 0, rows.total_rows));
    ends.push_back(end);
    for (int row = begin; row < end; row += high)
      for (int col = 0; col < across; col += wide) expected.insert({g, row, col});
  }
  for (int b = 0; b < blocks; ++b) {
    GroupedScheduler scheduler(tile_shape, sizes, {rows.starts.data(), along_n}, blocks, b);
    int before = -1;
    WorkItem x;
    while (scheduler.next(x)) {
      EXPECT_EQ(x.cluster_tile % blocks, b);
      EXPECT_GT(x.cluster_tile, before);
      before = x.cluster_tile;
      EXPECT_EQ(x.first_stage, 0);
      EXPECT_EQ(x.end_stage, 4);
      EXPECT_EQ(x.row_end, ends[x.batch]);
      EXPECT_TRUE(got.insert({x.batch, along_n ? x.n0 : x.m0, along_n ? x.m0 : x.n0}).second);
    }
    EXPECT_FALSE(scheduler.next(x)) << "a call after the end";
  }
  EXPECT_EQ(got, expected);
}

TEST(GroupedScheduler, AssignsEveryTileOfEveryGroupOnce) {
  const std::vector<GroupStarts> all{
      {{0, 200, 200, 330}, 330}, {{3, 64, 65, 129}, 200},     {{0}, 5},   {{0, 0, 0}, 0}, {{-7, 10, 10, 99}, 40},
      {{20, 10, 30}, 30},        {{0, 30, 0, 30, 0, 30}, 30}, {{0, 1}, 1}};
  for (const GroupStarts& rows : all)
    for (const int across : {1, 16, 65, 300})
      for (const bool along_n : {false, true})
        for (const int blocks : {1, 3, 132})
          for (const int raster_rows : {1, 2, 8}) expect_full_coverage(rows, across, along_n, blocks, raster_rows);
}

}  // namespace
}  // namespace ridge::tile

// Every tile of every group is taken by exactly one block, and no tile extends beyond its group's last row.
#include "ridge/tile/grouped_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace ridge::tile {
namespace {

struct Rows {
  std::vector<int> starts;
  int all;
};

void expect_whole(const Rows& rows, int across, bool along_n, int blocks, int raster_rows) {
  const TileShape cut{.m = 64, .n = 16, .k = 32, .can_split = false};
  const int groups = static_cast<int>(rows.starts.size()) - 1, high = along_n ? cut.n : cut.m,
            wide = along_n ? cut.m : cut.n;
  const ProductShape sizes{.m = along_n ? across : rows.all,
                           .n = along_n ? rows.all : across,
                           .k = 100,
                           .batch = groups,
                           .raster_rows = raster_rows};
  std::set<std::tuple<int, int, int>> wanted, got;
  std::vector<int> ends;
  for (int g = 0; g < groups; ++g) {
    const int begin = std::max(ends.empty() ? 0 : ends.back(), std::clamp(rows.starts[g], 0, rows.all));
    const int end = std::max(begin, std::clamp(rows.starts[g + 1], 0, rows.all));
    ends.push_back(end);
    for (int row = begin; row < end; row += high)
      for (int col = 0; col < across; col += wide) wanted.insert({g, row, col});
  }
  for (int b = 0; b < blocks; ++b) {
    GroupedScheduler scheduler(cut, sizes, {rows.starts.data(), along_n}, blocks, b);
    int before = -1;
    WorkItem x;
    while (scheduler.next(x)) {
      EXPECT_EQ(x.tile % blocks, b);
      EXPECT_GT(x.tile, before);
      before = x.tile;
      EXPECT_EQ(x.first, 0);
      EXPECT_EQ(x.last, 4);
      EXPECT_EQ(x.end, ends[x.batch]);
      EXPECT_TRUE(got.insert({x.batch, along_n ? x.n0 : x.m0, along_n ? x.m0 : x.n0}).second);
    }
    EXPECT_FALSE(scheduler.next(x)) << "a call after the end";
  }
  EXPECT_EQ(got, wanted);
}

TEST(GroupedScheduler, EveryTileOfEveryGroupIsTakenOnce) {
  const std::vector<Rows> all{
      {{0, 200, 200, 330}, 330}, {{3, 64, 65, 129}, 200},     {{0}, 5},   {{0, 0, 0}, 0}, {{-7, 10, 10, 99}, 40},
      {{20, 10, 30}, 30},        {{0, 30, 0, 30, 0, 30}, 30}, {{0, 1}, 1}};
  for (const Rows& rows : all)
    for (const int across : {1, 16, 65, 300})
      for (const bool along_n : {false, true})
        for (const int blocks : {1, 3, 132})
          for (const int raster_rows : {1, 2, 8}) expect_whole(rows, across, along_n, blocks, raster_rows);
}

}  // namespace
}  // namespace ridge::tile

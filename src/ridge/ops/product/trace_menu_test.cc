// Every row of the Hopper menu, as it ships, under a thousand shuffled schedules: two tiles that end elsewhere in the
// ring, and where a row may cut k, two pieces in two blocks, two blocks that share a tile, and runs of stages. Pieces
// that wait for each other give up in any order.
#include <gtest/gtest.h>

#include <utility>

#include "ridge/base/float16.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/record.h"

namespace ridge::ops {
namespace {

template <std::size_t row> struct Row : Matmul<sm90_menu[row], Bf16, Bf16, Bf16> {};

template <std::size_t row> void expect_clean() {
  constexpr MatmulConfig c = sm90_menu[row];
  const std::string name = "menu row " + std::to_string(row);
  const tile::trace::RecordOptions whole{
      .kernel = name,
      .sizes = {.m = 2 * c.m * c.cluster_m, .n = c.n * c.cluster_n, .k = c.k * (c.stages + 1)},
      .blocks = c.cluster(),
      .early = row % 2 == 1};
  EXPECT_EQ(check_schedules(tile::trace::record<Row<row>>(whole)).first, "");
  if (!c.splits()) return;
  const tile::trace::RecordOptions pieces{
      .kernel = name + " in pieces",
      .sizes = {.m = c.m * c.cluster_m, .n = c.n * c.cluster_n, .k = c.k * 4, .pieces = 2},
      .blocks = 2 * c.cluster()};
  EXPECT_EQ(check_schedules(tile::trace::record<Row<row>>(pieces)).first, "");
  if (c.splits() && c.turns() > 1) {
    tile::trace::RecordOptions gathered = pieces;
    gathered.kernel = name + " gathered", gathered.sizes.cuts = tile::Cuts::gathered;
    if (c.cluster() < 8) gathered.sizes.pieces = 3, gathered.blocks = 3 * c.cluster();
    const tile::trace::Verdict v = check_schedules(tile::trace::record<Row<row>>(gathered));
    EXPECT_EQ(v.first, "");
    EXPECT_GE(v.left.size(), c.cluster() < 8 ? 7U : 3U) << name;  // who left: nobody, or any but who came last
  }
  if (c.cluster() > 1) return;
  const tile::trace::RecordOptions streamed{
      .kernel = name + " in runs",
      .sizes = {.m = 2 * c.m, .n = c.n, .k = c.k * 3, .cuts = tile::Cuts::streamed},
      .blocks = 3};
  EXPECT_EQ(check_schedules(tile::trace::record<Row<row>>(streamed), 300).first, "");
  if (!c.shares()) return;
  const tile::trace::RecordOptions shared{
      .kernel = name + " shared",
      .sizes = {.m = c.m, .n = c.n, .k = c.k * 4, .pieces = 2, .cuts = tile::Cuts::shared},
      .blocks = 2};
  EXPECT_EQ(check_schedules(tile::trace::record<Row<row>>(shared), 300).first, "");
}

template <std::size_t... rows> void expect_all_clean(std::index_sequence<rows...>) { (expect_clean<rows>(), ...); }

TEST(TraceMenu, EveryRowIsClean) {
  ASSERT_GT(sm90_menu.size(), 40U);
  expect_all_clean(std::make_index_sequence<sm90_menu.size()>());
}

}  // namespace
}  // namespace ridge::ops

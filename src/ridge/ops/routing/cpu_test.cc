#include "ridge/ops/routing/cpu.h"

#include <gtest/gtest.h>

#include <vector>

namespace ridge::ops {
namespace {

using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

struct RoundTrip {
  Ints row_map;
  Floats rows, restored;
};
template <class Index>
RoundTrip route_and_restore(RoutingProblem r, std::vector<Index> indices, Floats x, int threads = 1) {
  RoundTrip out{Ints(static_cast<std::size_t>(r.row_map_elements()), -9),
                Floats(static_cast<std::size_t>(r.index_count * r.width), -9),
                {}};
  out.restored = out.rows;
  route_rows(r, std::vector<void*>{indices.data(), x.data(), out.row_map.data(), out.rows.data()}, threads);
  r.restores_order = true;
  route_rows(r, std::vector<void*>{out.row_map.data(), out.rows.data(), out.restored.data()}, threads);
  out.row_map.resize(r.groups + 1 + r.index_count);
  return out;
}

TEST(RoutingProblem, AreSortedByGroupAndRestored) {
  const RoundTrip m = route_and_restore({.index_count = 3, .groups = 3, .width = 2}, Ints{2, 0, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(m.row_map, (Ints{0, 1, 1, 3, 1, 0, 2}));
  EXPECT_EQ(m.rows, (Floats{3, 4, 1, 2, 5, 6}));
  EXPECT_EQ(m.restored, (Floats{1, 2, 3, 4, 5, 6}));
}

TEST(RoutingProblem, ARowIsCopiedToSeveralGroups) {
  const RoundTrip m =
      route_and_restore({.index_count = 4, .indices_per_row = 2, .groups = 2, .width = 1}, Ints{1, 0, 1, 1}, {7, 8});
  EXPECT_EQ(m.row_map, (Ints{0, 1, 4, 1, 0, 2, 3}));
  EXPECT_EQ(m.rows, (Floats{7, 7, 8, 8}));
  EXPECT_EQ(m.restored, (Floats{7, 7, 8, 8}));
}

TEST(RoutingProblem, DroppedRowsReturnAsZeros) {
  const RoundTrip m =
      route_and_restore({.indices = DType::int8, .index_count = 5, .groups = 2, .width = 1, .capacity = 1},
                        std::vector<std::int8_t>{1, 1, -1, 0, 2}, {1, 2, 3, 4, 5});
  EXPECT_EQ(m.row_map, (Ints{0, 1, 2, 1, -1, -1, 0, -1}));
  EXPECT_EQ(m.restored, (Floats{1, 0, 0, 4, 0}));
  EXPECT_EQ(m.rows, (Floats{4, 1, -9, -9, -9})) << "rows of no group are left as they are";
}

TEST(RoutingProblem, ThreadCountDoesNotChangeResults) {
  Ints indices;
  Floats x;
  for (int i = 0; i < 400; ++i) indices.push_back(i * 7919 % 13);
  for (int i = 0; i < 400 * 200; ++i) x.push_back(static_cast<float>(i));
  const RoutingProblem r{.index_count = 400, .groups = 13, .width = 200};
  const RoundTrip one = route_and_restore(r, indices, x), three = route_and_restore(r, indices, x, 3);
  EXPECT_EQ(one.row_map, three.row_map);
  EXPECT_EQ(one.rows, three.rows);
  EXPECT_EQ(one.restored, x);
  EXPECT_EQ(three.restored, x);
}

TEST(RoutingProblem, ReportTooManyIndices) {
  EXPECT_EQ(unsupported_reason(RoutingProblem{.index_count = std::int64_t{1} << 31, .groups = 8}).text(),
            "expected at most 2147483647 indices and fewer groups, found 2147483648 and 8");
}

}  // namespace
}  // namespace ridge::ops

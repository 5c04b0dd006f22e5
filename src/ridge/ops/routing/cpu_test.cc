#include "ridge/ops/routing/cpu.h"

#include <gtest/gtest.h>

#include <vector>

namespace ridge::ops {
namespace {

using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

struct Moved {
  Ints places;
  Floats rows, back;
};
template <class Index> Moved moved(RoutedRows r, std::vector<Index> indices, Floats x, int threads = 1) {
  Moved out{Ints(static_cast<std::size_t>(r.row_map_size()), -9),
            Floats(static_cast<std::size_t>(r.index_count * r.width), -9),
            {}};
  out.back = out.rows;
  route_rows(r, std::vector<void*>{indices.data(), x.data(), out.places.data(), out.rows.data()}, threads);
  r.is_return = true;
  route_rows(r, std::vector<void*>{out.places.data(), out.rows.data(), out.back.data()}, threads);
  out.places.resize(static_cast<std::size_t>(r.groups + 1 + r.index_count));
  return out;
}

TEST(RoutedRows, LieInTheOrderOfTheirGroupsAndComeBack) {
  const Moved m = moved({.index_count = 3, .groups = 3, .width = 2}, Ints{2, 0, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(m.places, (Ints{0, 1, 1, 3, 1, 0, 2}));
  EXPECT_EQ(m.rows, (Floats{3, 4, 1, 2, 5, 6}));
  EXPECT_EQ(m.back, (Floats{1, 2, 3, 4, 5, 6}));
}

TEST(RoutedRows, ARowMayGoToSeveralGroups) {
  const Moved m = moved({.index_count = 4, .indices_per_row = 2, .groups = 2, .width = 1}, Ints{1, 0, 1, 1}, {7, 8});
  EXPECT_EQ(m.places, (Ints{0, 1, 4, 1, 0, 2, 3}));
  EXPECT_EQ(m.rows, (Floats{7, 7, 8, 8}));
  EXPECT_EQ(m.back, (Floats{7, 7, 8, 8}));
}

TEST(RoutedRows, WhatIsBeyondTheCapacityOrNamesNoGroupComesBackAsZeros) {
  const Moved m = moved({.indices = DType::int8, .index_count = 5, .groups = 2, .width = 1, .capacity = 1},
                        std::vector<std::int8_t>{1, 1, -1, 0, 2}, {1, 2, 3, 4, 5});
  EXPECT_EQ(m.places, (Ints{0, 1, 2, 1, -1, -1, 0, -1}));
  EXPECT_EQ(m.back, (Floats{1, 0, 0, 4, 0}));
  EXPECT_EQ(m.rows, (Floats{4, 1, -9, -9, -9})) << "rows of no group are left as they are";
}

TEST(RoutedRows, AreTheSameOnSeveralThreads) {
  Ints indices;
  Floats x;
  for (int i = 0; i < 400; ++i) indices.push_back(i * 7919 % 13);
  for (int i = 0; i < 400 * 200; ++i) x.push_back(static_cast<float>(i));
  const RoutedRows r{.index_count = 400, .groups = 13, .width = 200};
  const Moved one = moved(r, indices, x), three = moved(r, indices, x, 3);
  EXPECT_EQ(one.places, three.places);
  EXPECT_EQ(one.rows, three.rows);
  EXPECT_EQ(one.back, x);
  EXPECT_EQ(three.back, x);
}

TEST(RoutedRows, NumbersOfRowsAreInt32) {
  EXPECT_EQ(unsupported_reason(RoutedRows{.index_count = std::int64_t{1} << 31, .groups = 8}),
            "expected at most 2147483647 indices and fewer groups, found 2147483648 and 8");
}

}  // namespace
}  // namespace ridge::ops

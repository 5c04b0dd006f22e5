// Gathers and scatters of random shapes, strides and dtypes against loops over single elements, on every instruction
// set and with several numbers of threads. Results are equal bit by bit: scatters add in the order of the indices.
#include <gtest/gtest.h>

#include <cstring>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/lines.h"
#include "ridge/ops/loops/testing/random_cases.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using loops_testing::GuardedBuffer;
using loops_testing::RandomLayouts;

void run_reference(const GatherScatterLoops& l, const void* values, const void* indices, void* result) {
  std::vector<float> sums(l.result_elements);
  LoopCursor cursor(l.axes, 0);
  for (std::int64_t point = count_points(l.axes); point > 0; --point, cursor.advance()) {
    const LoopAxis& at = cursor.offsets();
    const auto shift = static_cast<std::int64_t>(RandomLayouts::load(l.indices, indices, at.indices)) * l.index_stride;
    if (l.is_scatter)
      sums[at.result + shift] += static_cast<float>(RandomLayouts::load(l.values, values, at.values));
    else
      sums[at.result] = static_cast<float>(RandomLayouts::load(l.values, values, at.values + shift));
  }
  for (std::int64_t i = 0; i < l.result_elements; ++i) RandomLayouts::store(l.result, result, i, sums[i]);
}

class IndexedLoops : public pool::IsaTest {};

TEST_P(IndexedLoops, match_loops_over_single_elements) {
  for (unsigned seed = 0; seed < loops_testing::case_count(400); ++seed) {
    RandomLayouts random(seed);
    const auto [l, values, indices] = loops_testing::make_indexed_case(random, seed % 2 == 1);
    const GuardedBuffer x(values * dtype_bits(l.values) / 8, random.guard_side()),
        i(indices * dtype_bits(l.indices) / 8, random.guard_side());
    random.fill_floats(l.values, x, false);
    random.fill_indices(l.indices, i, l.index_extent);
    const std::size_t bytes = l.result_elements * dtype_bits(l.result) / 8;
    const GuardedBuffer y(bytes), expected(bytes), scratch(l.result_elements * sizeof(float));
    run_reference(l, x.data(), i.data(), expected.data());
    x.make_read_only();
    i.make_read_only();
    for (const int threads : {1, 2, 5}) {
      y.fill(0x7b);
      void* const data[] = {x.data(), i.data(), y.data(), scratch.data()};
      run_loops(l, data, threads);
      ASSERT_EQ(std::memcmp(y.data(), expected.data(), bytes), 0)
          << "seed " << seed << ", " << threads << " threads, " << pool::isa_name(GetParam());
      ASSERT_TRUE(y.are_edges_intact() && scratch.are_edges_intact()) << seed;
    }
  }
}

// Large enough for several threads, for stores that bypass the caches, and for rows that come from memory.
TEST_P(IndexedLoops, match_for_results_larger_than_the_caches) {
  const std::int64_t width = 1030, table_rows = 2000, rows = pool::cache_sizes().l3 / width / 2 + 77;
  RandomLayouts random(1);
  const GuardedBuffer x(table_rows * width * 2), i(rows * 4), y(rows * width * 2);
  random.fill_floats(DType::bf16, x, false);
  random.fill_indices(DType::int32, i, table_rows);
  const GatherScatterLoops gather{.values = DType::bf16,
                                  .result = DType::bf16,
                                  .axes = {{rows, 0, 1, width}, {width, 1, 0, 1}},
                                  .index_extent = table_rows,
                                  .index_stride = width,
                                  .result_elements = rows * width};
  y.fill(0x7b);
  void* const data[] = {x.data(), i.data(), y.data()};
  run_loops(gather, data, 2);
  for (std::int64_t row = 0; row < rows; ++row)
    ASSERT_EQ(std::memcmp(y.as<Bf16>() + row * width, x.as<Bf16>() + i.as<std::int32_t>()[row] * width, width * 2), 0);
  const std::int64_t small = 100;
  const GatherScatterLoops scatter{.is_scatter = true,
                                   .axes = {{small, width, 1, 0}, {width, 1, 0, 1}},
                                   .index_extent = rows,
                                   .index_stride = width,
                                   .result_elements = rows * width};
  const GuardedBuffer z(rows * width * 4), expected(rows * width * 4), v(small * width * 4);
  random.fill_floats(DType::f32, v, true);
  run_reference(scatter, v.data(), i.data(), expected.data());
  void* const added[] = {v.data(), i.data(), z.data()};
  for (const int threads : {1, 2, 7}) {
    z.fill(0x7b);
    run_loops(scatter, added, threads);
    ASSERT_EQ(std::memcmp(z.data(), expected.data(), z.size()), 0) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, IndexedLoops, ::testing::Values(pool::Isa::plain, pool::Isa::avx2, pool::Isa::avx512),
                         [](const auto& test) { return std::string(pool::isa_name(test.param)); });

}  // namespace
}  // namespace ridge::ops

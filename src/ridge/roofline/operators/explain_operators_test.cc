#include "ridge/roofline/operators/explain_operators.h"

#include <gtest/gtest.h>

#include "ridge/roofline/operators/windows_of_sizes.h"

namespace ridge {
namespace {

Machine test_machine() {
  Machine machine;
  machine.name = "test";
  machine.peaks = {{ComputeUnit::matrix, DType::bf16, {1e14, "", ""}},
                   {ComputeUnit::vector, DType::f32, {1e13, "", ""}}};
  machine.memory = {{"hbm", SourcedValue{1e12, "", ""}, std::nullopt}};
  return machine;
}

TEST(ExplainOperators, MultipliesCallsAndAddsRows) {
  const OperatorWork product{.name = "product",
                             .calls = 3,
                             .contraction = true,
                             .math = DType::bf16,
                             .flops = 1'000'000'000,
                             .bytes_in = 500'000,
                             .bytes_out = 500'000};
  const OperatorWork sum{.name = "sum", .flops = 1'000, .bytes_in = 1'000'000, .bytes_out = 1'000'000};
  const auto e = explain_operators({product, sum}, test_machine());
  ASSERT_TRUE(e.ok()) << e.error().message;
  EXPECT_EQ(e->ops[0].calls, 3);
  EXPECT_EQ(static_cast<std::int64_t>(*e->ops[0].flops), 3'000'000'000);
  EXPECT_DOUBLE_EQ(*e->ops[0].time_lower_s, 3e-5);
  EXPECT_EQ(*e->ops[0].limiter, Limiter::compute);
  EXPECT_DOUBLE_EQ(*e->ops[1].time_lower_s, 2e-6);
  EXPECT_EQ(*e->ops[1].limiter, Limiter::memory);
  EXPECT_DOUBLE_EQ(*e->total.time_lower_s, 3.2e-5);
  EXPECT_EQ(e->total.calls, 4);
}

TEST(ExplainOperators, CountsALaunchForEachCall) {
  Machine machine = test_machine();
  machine.numbers["launch_s"] = {1e-6, "", ""};
  const auto e = explain_operators({{.name = "small", .calls = 5, .bytes_in = 1000, .bytes_out = 1000}}, machine);
  ASSERT_TRUE(e.ok());
  EXPECT_DOUBLE_EQ(*e->total.time_lower_s, 5e-6);
  EXPECT_EQ(*e->total.limiter, Limiter::overhead);
}

TEST(ExplainOperators, RejectsMoreThan62Bits) {
  const auto e = explain_operators({{.name = "huge", .calls = 2, .flops = Count{1} << 61, .bytes_in = 1},
                                    {.name = "more", .flops = 1, .bytes_in = 1}},
                                   test_machine());
  ASSERT_FALSE(e.ok());
  EXPECT_EQ(e.error().message, "expected fewer than 2^62 FLOPs and bytes in all operators, found more at 'more'");
}

// Counts the elements of all windows one by one.
struct WindowCounts {
  std::int64_t all = 0, read = 0;
};
WindowCounts count_one_by_one(const SizedWindows& w) {
  WindowCounts out;
  std::vector<bool> is_read(static_cast<std::size_t>(w.size));
  for (std::int64_t o = 0; o < w.windows; ++o)
    for (std::int64_t r = 0; r < w.kernel; ++r) {
      const std::int64_t at = o * w.stride + r * w.dilation - w.padding;
      if (at < 0 || at >= w.size) continue;
      ++out.all;
      is_read[static_cast<std::size_t>(at)] = true;
    }
  for (const bool each : is_read) out.read += each ? 1 : 0;
  return out;
}

TEST(SizedWindows, CountAsOneByOne) {
  for (std::int64_t size = 0; size < 9; ++size)
    for (std::int64_t windows = 0; windows < 6; ++windows)
      for (std::int64_t kernel = 1; kernel < 5; ++kernel)
        for (std::int64_t stride = 1; stride < 4; ++stride)
          for (std::int64_t padding = 0; padding < 4; ++padding)
            for (std::int64_t dilation = 1; dilation < 3; ++dilation) {
              const SizedWindows w{size, windows, kernel, stride, padding, dilation};
              const WindowCounts expected = count_one_by_one(w);
              ASSERT_EQ(static_cast<std::int64_t>(count_window_elements(w)), expected.all);
              ASSERT_EQ(count_read_elements(w), expected.read)
                  << size << " " << windows << " " << kernel << " " << stride << " " << padding << " " << dilation;
            }
}

}  // namespace
}  // namespace ridge

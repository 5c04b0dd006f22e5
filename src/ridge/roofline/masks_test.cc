#include "ridge/roofline/masks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

const Machine machine = testing::make_test_machine({{DType::bf16, 64}}, 16, 8);

Explanation explained(const std::string& text, const Bindings& given = {}) {
  const auto program = parse(text);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().to_string());
  auto e = explain(*program, machine, given);
  EXPECT_TRUE(e.ok()) << (e.ok() ? "" : e.error().to_string());
  return *std::move(e);
}

std::string attention(const std::string& condition, const std::string& dims = "dims S = 8, T = S, E = 4\n") {
  return dims + "q: bf16[S, E]   k: bf16[T, E]   v: bf16[T, E]\ns[S, T] = q * k\np[S, T] = softmax(where(" + condition +
         ", s, -inf) over T)\no: bf16[S, E] = p * v";
}

const std::string causal = "index(T) <= index(S)";

TEST(ProgramMasks, count_the_unmasked_pairs_of_a_causal_mask) {
  const Explanation e = explained(attention(causal));
  ASSERT_EQ(e.masks.size(), 1u);
  EXPECT_EQ(e.masks[0].unmasked.to_string(e.dim_names), "S*S/2 + S/2");
  EXPECT_EQ(e.masks[0].unmasked_count, 36);
  EXPECT_EQ(e.masks[0].all_count, 64);
  EXPECT_EQ(e.ops[0].work.flops.to_string(e.dim_names), "S*S*E + S*E");  // 2*E per pair; only p reads the scores
  EXPECT_EQ(e.ops[0].work.flops_without_masks.to_string(e.dim_names), "2*S*T*E");
  EXPECT_EQ(e.ops[1].flops, 7 * 36);  // Softmax 5, the condition and the choice 1 each
  EXPECT_EQ(e.ops[2].flops, 2 * 4 * 36);
  EXPECT_EQ(e.ops[0].bytes, 2 * (8 * 4 + 8 * 4 + 8 * 8));  // Stored tensors are stored completely
}

TEST(ProgramMasks, have_a_closed_form_only_for_equal_dimensions) {
  const Explanation open = explained(attention(causal, "dims T = S\n"));
  EXPECT_EQ(open.ops[0].work.flops.to_string(open.dim_names), "S*S*E + S*E");
  const Explanation two = explained(attention(causal), {{"T", 5}});
  EXPECT_EQ(two.ops[0].work.flops.to_string(two.dim_names), "2*E*pairs");
  EXPECT_EQ(two.dims.at("pairs"), 1 + 2 + 3 + 4 + 5 + 5 + 5 + 5);
  const Explanation strict = explained(attention("index(T) < index(S)"));
  EXPECT_EQ(strict.masks[0].unmasked.to_string(strict.dim_names), "S*S/2 - S/2");
}

TEST(ProgramMasks, of_large_finite_numbers_make_no_zeros_and_say_so) {
  const std::string before =
      "dims S = 8, T = S, E = 4\nq: bf16[S, E]   k: bf16[T, E]   v: bf16[T, E]\ns[S, T] = q * k\n";
  const std::string after = "\no: bf16[S, E] = p * v";
  for (const std::string choice : {"where(index(T) <= index(S), 0, -10000)", "where(index(T) > index(S), -1e+30, 0)"}) {
    const Explanation e = explained(before + "p[S, T] = softmax(s + " + choice + " over T)" + after);
    EXPECT_EQ(e.ops[2].flops, 2 * 64 * 4);
    ASSERT_EQ(e.not_counted.size(), 1u) << choice;
    EXPECT_EQ(e.not_counted[0],
              choice + " of p is finite: no weight of its softmax is known to be 0; -inf makes them 0");
  }
  const Explanation small = explained(before + "p[S, T] = softmax(where(index(T) <= index(S), s, -1) over T)" + after);
  EXPECT_TRUE(small.not_counted.empty());
}

TEST(ProgramMasks, do_not_restrict_results_that_are_read_elsewhere) {
  const std::string text = "dims S = 8, T = S, E = 4\nq: bf16[S, E]   k: bf16[T, E]\ns[S, T] = q * k\n";
  // The scores are an output, are read elsewhere, or are added to unmasked values.
  EXPECT_EQ(explained(text + "p: bf16[S, T] = where(index(T) <= index(S), s, 0) + s").ops[0].flops, 2 * 64 * 4);
  EXPECT_EQ(explained(text + "p: bf16[S, T] = where(index(T) <= 3, s, 0)").ops[0].flops, 2 * 8 * 4 * 4);
  EXPECT_EQ(explained(text + "p: bf16[S, T] = where(index(T) <= index(S), s, 1)").ops[0].flops, 2 * 36 * 4);
  EXPECT_EQ(explained(text + "p: bf16[S, T] = softmax(where(index(T) <= index(S), s, 0) over T)").ops[0].flops,
            2 * 36 * 4);
  EXPECT_TRUE(explained(text + "p: bf16[S, T] = cos(s)").masks.empty());
}

TEST(ProgramMasks, include_windows) {
  const Explanation e =
      explained(attention("(index(T) <= index(S)) * (index(S) - index(T) < 3)"), {{"S", 100}, {"T", 100}});
  EXPECT_EQ(e.ops[0].flops, 2 * 4 * (3 * 100 - 3));
}

// Compares with a literal loop over both indices.
TEST(MasksProperty, count_equals_a_loop_over_both_indices) {
  std::mt19937 random(31);
  const auto up_to = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 20000; ++i) {
    const std::int64_t rows = 1 + up_to(20), columns = 1 + up_to(20), low = up_to(50) - 25, high = up_to(50) - 25;
    IndexMask mask{.rows = "S", .columns = "T"};
    if (i % 3 != 0) mask.lower = Polynomial(low);
    if (i % 3 != 1) mask.upper = Polynomial(high);
    std::int64_t count = 0;
    for (std::int64_t s = 0; s < rows; ++s)
      for (std::int64_t t = 0; t < columns; ++t)
        count += (!mask.lower || s - t >= low) && (!mask.upper || s - t <= high);
    ASSERT_EQ(count_unmasked(mask, {{"S", rows}, {"T", columns}}), count)
        << rows << " x " << columns << ", " << low << " to " << high;
  }
}

// The limiter changes exactly at the threshold, also if the number of unmasked pairs depends on the size.
TEST(MasksProperty, limiter_changes_at_the_threshold) {
  for (const char* dim : {"S", "T"}) {
    const Explanation e = explained(attention(causal), {{"S", 40}, {"T", 30}, {"E", 64}});
    for (const Threshold& t : e.total.thresholds) {
      if (t.dim != dim || !t.value) continue;
      EXPECT_TRUE(t.numerical);
      const auto longer = [&](std::int64_t size) {
        Bindings sizes{{"S", 40}, {"T", 30}, {"E", 64}};
        sizes[dim] = size;
        const Explanation at = explained(attention(causal), sizes);
        return *at.total.time_math_s >= *at.total.time_memory_s;
      };
      const bool upwards = t.relation == Relation::at_least;
      EXPECT_TRUE(longer(*t.value)) << dim << " " << *t.value;
      EXPECT_FALSE(longer(upwards ? *t.value - 1 : *t.value + 1)) << dim << " " << *t.value;
    }
  }
}

}  // namespace
}  // namespace ridge

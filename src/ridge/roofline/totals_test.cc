// Complete programs and sizes that depend on others: a threshold must hold if its number is given with -d. The number
// of allocations of explain() must grow linearly with the program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/random_program.h"
#include "ridge/roofline/testing/test_machine.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size ? size : 1)) return memory;
  throw std::bad_alloc();
}
// Not inline: GCC would see std::free of memory from new.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ridge {
namespace {

using testing::make_test_machine;

Explanation explained(const std::string& text, const Machine& machine, const Bindings& given = {}) {
  const auto program = parse(text);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().to_string());
  auto e = explain(*program, machine, given);
  EXPECT_TRUE(e.ok()) << (e.ok() ? "" : e.error().to_string());
  return *std::move(e);
}

const Threshold* threshold(const Prediction& p, const std::string& dim) {
  for (const Threshold& t : p.thresholds)
    if (t.dim == dim) return &t;
  return nullptr;
}

const Machine machine = make_test_machine({{DType::bf16, 1e12}}, 1e11, 1e10);
const std::string block =
    "x: bf16[N, D]   w: bf16[D, F]\n"
    "u[N, F] = x * w\n"
    "y: bf16[N, F] = gelu(u)";

TEST(DerivedSizeMap, change_with_the_dimension) {
  const std::string text = "dims D = 2048, F = 4*D\nx: bf16[N, D]   w: bf16[D, F]\nu: bf16[N, F] = x * w";
  const Explanation e = explained(text, machine, {{"N", 64}});
  EXPECT_EQ(e.derived, std::vector<std::string>{"F = 4*D"});
  const Threshold& d = *threshold(e.ops[0], "D");
  EXPECT_EQ(d.relation, Relation::never);  // 64 rows are below 5/4 of the ridge
  const Explanation wide = explained(text, machine, {{"N", 512}});
  const Threshold& t = *threshold(wide.ops[0], "D");
  EXPECT_EQ(t.exact, "5*r*N/(4*N - 4*r)");
  EXPECT_EQ(t.value, 156);  // 5*100*512/(4*512 - 400) = 155.34
  EXPECT_EQ(explained(text, machine, {{"N", 512}, {"D", 156}}).ops[0].limiter, Limiter::compute);
  EXPECT_EQ(explained(text, machine, {{"N", 512}, {"D", 155}}).ops[0].limiter, Limiter::memory);
  // A given size is not derived, and D is not derived from F.
  EXPECT_EQ(threshold(explained(text, machine, {{"N", 512}, {"F", 8192}}).ops[0], "D")->exact,
            "r*F*N/(F*N - r*(F + N))");
  EXPECT_EQ(threshold(wide.ops[0], "F")->exact, "r*D*N/(D*N - r*(D + N))");
}

TEST(DerivedSizeMap, are_chained_and_omitted_if_they_may_shrink) {
  const Explanation e = explained("dims D = 64, F = 2*D, G = 2*F\nx: bf16[N, D]   w: bf16[D, G]\nu: bf16[N, G] = x * w",
                                  machine, {{"N", 512}});
  EXPECT_EQ(threshold(e.ops[0], "D")->exact, "5*r*N/(4*N - 4*r)");
  EXPECT_EQ(e.derived, (std::vector<std::string>{"F = 2*D", "G = 2*F"}));
  const Explanation less =
      explained("dims D = 64, F = D - 5\nx: bf16[N, D]   w: bf16[D, F]\nu: bf16[N, F] = x * w", machine, {{"N", 512}});
  EXPECT_TRUE(threshold(less.ops[0], "D")->numerical);
  EXPECT_TRUE(less.unsolved.empty());
  EXPECT_NE(threshold(less.ops[0], "F"), nullptr);
}

TEST(DerivedSizeMap, with_too_large_powers_have_no_threshold) {
  std::string text = "dims D0 = 1";
  for (int i = 1; i < 200; ++i) text += fmt::format(", D{} = D{} * D{}", i, i - 1, i - 1);
  const Explanation e = explained(text + "\nx: bf16[D199]\ny: bf16[D199] = cos(x)", machine);
  EXPECT_EQ(threshold(e.ops[0], "D0"), nullptr);
  EXPECT_EQ(e.unsolved.front(), "D0");
}

TEST(Total, has_its_threshold_where_the_summed_times_are_equal) {
  const Explanation e = explained(block, machine, {{"N", 64}, {"D", 2048}, {"F", 2048}});
  // Math: (2*N*D*F + 10*N*F)/1e12. A FLOP of the vector unit counts as ten of the matrix unit.
  ASSERT_EQ(e.total.flop_weights.size(), 1u);
  EXPECT_EQ(e.total.flop_weights[0].weight, 10);
  const Threshold& n = *threshold(e.total, "N");
  EXPECT_EQ(n.exact, "r*D*F/(D*F + 5*F - r*(D + 3*F))");
  EXPECT_EQ(n.ratio, 100);
  const auto longer = [&](std::int64_t rows) {
    const Explanation at = explained(block, machine, {{"N", rows}, {"D", 2048}, {"F", 2048}});
    return *at.total.time_math_s >= *at.total.time_memory_s;
  };
  EXPECT_TRUE(longer(*n.value));
  EXPECT_FALSE(longer(*n.value - 1));
  // The fused program does not move the intermediate, and the vector unit computes concurrently.
  const Threshold& fused = *threshold(*e.fused, "N");
  EXPECT_EQ(fused.exact, "r*D*F/(D*F - r*(D + F))");
  EXPECT_EQ(fused.unit, "matrix");
  const auto limiter = [&](std::int64_t rows) {
    return explained(block, machine, {{"N", rows}, {"D", 2048}, {"F", 2048}}).fused->limiter;
  };
  EXPECT_EQ(limiter(*fused.value), Limiter::compute);
  EXPECT_EQ(limiter(*fused.value - 1), Limiter::memory);
}

TEST(Total, omits_operations_without_a_peak_and_inexact_thresholds) {
  const Explanation open = explained(block, make_test_machine({{DType::bf16, 1e12}}, {}, 1e10));
  EXPECT_FALSE(open.total.thresholds.empty());
  EXPECT_EQ(open.total.missing, "vector f32 peak of test");
  EXPECT_TRUE(explained(block, make_test_machine({{DType::bf16, 1e12}}, 0.3, 1e10)).total.thresholds.empty());
}

// Random programs with several operations and a size that depends on another.
TEST(TotalProperty, limiter_changes_at_the_threshold) {
  int separated = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    testing::RandomProgram random(seed);
    const std::string text = fmt::format(
        "dims A = {}, B = {}, C = {}*A + {}\nx: bf16[A, B]   w: bf16[B, C]   v: bf16[C, B]\n"
        "u[A, C] = x * w\n{}y: bf16[A, B] = {} * v",
        random.size(3000), random.size(3000), 1 + random.below(4), random.below(9),
        seed % 2 ? "g[A, C] = gelu(u)\n" : "", seed % 2 ? "g" : "u");
    const double bandwidth = static_cast<double>(random.size(1000));
    const Machine m = make_test_machine({{DType::bf16, bandwidth * static_cast<double>(random.size(300))}},
                                        bandwidth * static_cast<double>(random.size(30)), bandwidth);
    for (const Threshold& t : explained(text, m).total.thresholds) {
      if (!t.value || *t.value > 1'000'000'000) continue;
      const auto times = [&](std::int64_t size) {
        const Explanation e = explained(text, m, {{t.dim, size}});
        return *e.total.time_math_s / *e.total.time_memory_s;
      };
      const bool upwards = t.relation == Relation::at_least;
      EXPECT_GE(times(*t.value), 1 - 1e-12) << text << " " << t.dim;
      const std::int64_t other = upwards ? *t.value - 1 : *t.value + 1;
      EXPECT_LE(times(other), 1 + 1e-12) << text << " " << t.dim;
      ++separated;
    }
  }
  EXPECT_GT(separated, 500);
}

std::int64_t count_allocations(int statements) {
  std::string text = "dims B = 64\nx0: bf16[B, D0]\n";
  for (int i = 1; i <= statements; ++i)
    text += fmt::format("w{0}: bf16[D{1}, D{2}]\nx{0}[B, D{2}] = x{3} * w{0}\n", i, (i - 1) % 100, i % 100, i - 1);
  const auto program = parse(text);
  EXPECT_TRUE(program.ok());
  const std::int64_t before = allocations;
  EXPECT_TRUE(explain(*program, machine, {}).ok());
  return allocations - before;
}

TEST(Explain, allocates_linearly_in_the_length_of_the_program) {
  const std::int64_t once = count_allocations(1000), twice = count_allocations(2000);
  EXPECT_LT(static_cast<double>(twice), 2.1 * static_cast<double>(once));
  EXPECT_LT(once, 1000 * 800);
}

}  // namespace
}  // namespace ridge

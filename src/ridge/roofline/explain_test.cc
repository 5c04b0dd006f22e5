#include <gtest/gtest.h>

#include <cmath>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

using testing::make_test_machine;

Program parsed(const std::string& text) {
  auto program = parse(text);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().to_string());
  return program.ok() ? *program : Program{};
}

Explanation explained(const std::string& text, const Machine& machine, const Bindings& given = {}) {
  auto e = explain(parsed(text), machine, given);
  EXPECT_TRUE(e.ok()) << (e.ok() ? "" : e.error().to_string());
  return *e;
}

std::string error_of(const std::string& text, const Machine& machine, const Bindings& given = {}) {
  const auto e = explain(parsed(text), machine, given);
  return e.ok() ? "no error" : e.error().to_string();
}

const Machine v5e = make_test_machine({{DType::bf16, 197e12}, {DType::int8, 394e12}}, std::nullopt, 819e9);
const std::string product = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";

TEST(Explain, compares_a_product_with_the_two_roofs) {
  const Explanation e = explained(product, v5e, {{"B", 128}, {"D", 8192}, {"F", 8192}});
  const Prediction& p = e.ops.at(0);
  EXPECT_EQ(p.flops, 2LL * 128 * 8192 * 8192);
  EXPECT_EQ(p.bytes, 2LL * (2 * 128 * 8192 + 8192 * 8192));
  EXPECT_DOUBLE_EQ(*p.ridge, 197e12 / 819e9);
  EXPECT_DOUBLE_EQ(*p.intensity, 128.0 * 8192 / (8192 + 2 * 128));
  EXPECT_DOUBLE_EQ(*p.time_math_s, 17179869184.0 / 197e12);
  EXPECT_DOUBLE_EQ(*p.time_memory_s, 138412032.0 / 819e9);
  EXPECT_EQ(p.time_lower_s, p.time_memory_s);
  EXPECT_DOUBLE_EQ(*p.time_upper_s, *p.time_math_s + *p.time_memory_s);
  EXPECT_EQ(p.limiter, Limiter::memory);
  EXPECT_EQ(p.runner_up, Limiter::compute);
  EXPECT_EQ(p.intensity_formula, "B*D*F/(B*D + B*F + D*F)");
  EXPECT_EQ(p.thresholds.size(), 3u);
  EXPECT_EQ(e.dims, (Bindings{{"B", 128}, {"D", 8192}, {"F", 8192}}));
}

TEST(Explain, without_sizes_has_formulas_and_thresholds_but_no_numbers) {
  const Prediction p = explained(product, v5e, {{"D", 8192}}).ops.at(0);
  EXPECT_EQ(p.flops, std::nullopt);
  EXPECT_EQ(p.intensity, std::nullopt);
  EXPECT_EQ(p.limiter, std::nullopt);
  EXPECT_EQ(p.time_lower_s, std::nullopt);
  EXPECT_TRUE(p.ridge.has_value());
  EXPECT_EQ(p.intensity_formula, "B*D*F/(B*D + B*F + D*F)");
  ASSERT_EQ(p.thresholds.size(), 3u);
  EXPECT_EQ(p.thresholds[0].exact, "r*D*F/(D*F - r*(D + F))");
  EXPECT_EQ(p.thresholds[0].value, std::nullopt);
}

TEST(Explain, uses_the_peak_of_the_widest_operand_or_f32_on_the_vector_unit) {
  const Machine m = make_test_machine({{DType::bf16, 4e12}, {DType::int8, 8e12}, {DType::tf32, 2e12}}, 1e12, 1e9);
  const auto peak = [&](const std::string& text) { return explained(text, m).ops.back().peak->rate.value; };
  EXPECT_EQ(peak("bf16[B, D] * int8[D, F] -> bf16[B, F]"), 4e12);
  EXPECT_EQ(peak("int8[B, D] * int8[D, F] -> bf16[B, F]"), 8e12);
  EXPECT_EQ(peak("tf32[B, D] * tf32[D, F] -> f32[B, F]"), 2e12);
  EXPECT_EQ(peak("f32[B, D] * bf16[D, F] -> f32[B, F]"), 1e12);
  EXPECT_EQ(peak("x: bf16[N]\ny: bf16[N] = exp(x)"), 1e12);
  EXPECT_EQ(peak("int8[B] * int8[F] -> int8[B, F]"), 1e12);  // no sum: the vector unit's
}

TEST(Explain, reports_a_missing_vector_peak_and_gives_bounds_without_it) {
  const Explanation e = explained("x: bf16[N]\nu[N] = exp(x)", v5e, {{"N", 1000}});
  for (const Prediction* p : {&e.ops[0], &e.total}) {
    EXPECT_EQ(p->flops, 1000);
    EXPECT_EQ(p->bytes, 4000);
    EXPECT_EQ(p->intensity, 0.25);
    EXPECT_EQ(p->missing, "vector f32 peak of test");
    EXPECT_EQ(p->time_math_s, std::nullopt);
    EXPECT_DOUBLE_EQ(*p->time_lower_s, 4000 / 819e9);
    EXPECT_EQ(p->limiter, Limiter::memory);
    EXPECT_EQ(p->runner_up, std::nullopt);
    EXPECT_EQ(p->ridge, std::nullopt);
    EXPECT_TRUE(p->thresholds.empty());
  }
  EXPECT_EQ(explained("f32[B, D] * f32[D, F] -> f32[B, F]", v5e).ops[0].missing, "vector f32 peak of test");
}

// f64 has a peak of its own; an f32 product runs on the matrix unit if that has f32.
TEST(Explain, uses_the_peaks_of_f64_and_of_f32_products) {
  Machine machine = v5e;
  machine.peaks.push_back({ComputeUnit::vector, DType::f64, testing::make_number(5e11)});
  machine.peaks.push_back({ComputeUnit::matrix, DType::f32, testing::make_number(7e12)});
  const auto rate = [&](const char* text) { return explained(text, machine).ops[0].peak->rate.value; };
  EXPECT_EQ(rate("x: f64[N]\ny: f64[N] = cos(x)"), 5e11);
  EXPECT_EQ(rate("x: f32[N]\ny: f64[N] = cos(x)"), 5e11);
  EXPECT_EQ(rate("f64[B] * f64[F] -> f64[B, F]"), 5e11);
  EXPECT_EQ(rate("f64[B, D] * f64[D, F] -> f64[B, F]"), 5e11);
  EXPECT_EQ(rate("f32[B, D] * f32[D, F] -> f32[B, F]"), 7e12);
  EXPECT_EQ(explained("x: f64[N]\nu: f64[N] = exp(x)", v5e).ops[0].missing, "vector f64 peak of test");
  EXPECT_EQ(explained("x: f32[N]\nu: f32[N] = exp(x)", machine).ops[0].missing, "vector f32 peak of test");
}

TEST(Explain, needs_no_peak_without_flops) {
  const Explanation e = explained("x: bf16[N]\nu: bf16[N] = x", v5e, {{"N", 1000}});
  EXPECT_EQ(e.ops[0].missing, "");
  EXPECT_EQ(e.ops[0].time_math_s, 0);
  EXPECT_EQ(e.total.missing, "");
}

TEST(Explain, is_overhead_bound_for_few_elements) {
  Machine m = make_test_machine({}, 1e12, 1e9);
  m.numbers["launch_s"] = testing::make_number(1e-6);
  const Explanation e = explained("x: f32[N]\nu[N] = cos(x)\ny: f32[N] = cos(u)", m, {{"N", 10}});
  EXPECT_EQ(e.ops[0].limiter, Limiter::overhead);
  EXPECT_DOUBLE_EQ(*e.ops[0].time_lower_s, 1e-6);
  EXPECT_EQ(e.total.limiter, Limiter::overhead);
  EXPECT_DOUBLE_EQ(*e.total.time_lower_s, 2e-6);
  EXPECT_DOUBLE_EQ(*e.fused->time_lower_s, 1e-6);
}

TEST(Explain, overlaps_matrix_and_vector_unit_of_a_fused_program) {
  const Machine m = make_test_machine({{DType::bf16, 1e12}}, 1e9, 1e12);
  const Explanation e = explained("x: bf16[B, D]   w: bf16[D, F]\nu[B, F] = x * w\ny: bf16[B, F] = gelu(u)", m,
                                  {{"B", 100}, {"D", 1000}, {"F", 100}});
  EXPECT_DOUBLE_EQ(*e.fused->time_lower_s, 2e7 / 1e12);  // the vector unit's 1e4/1e9 runs meanwhile
  EXPECT_DOUBLE_EQ(*e.fused->time_math_s, 2e7 / 1e12 + 1e4 / 1e9);
}

TEST(Explain, adds_times_of_consecutive_operations) {
  const Machine m = make_test_machine({{DType::bf16, 1e12}}, 1e11, 1e10);
  const Explanation e = explained("x: bf16[N, D]   w: bf16[D, F]\nu[N, F] = x * w\ny: bf16[N, F] = exp(u)", m,
                                  {{"N", 512}, {"D", 512}, {"F", 512}});
  EXPECT_EQ(*e.total.flops, *e.ops[0].flops + *e.ops[1].flops);
  EXPECT_EQ(*e.total.bytes, *e.ops[0].bytes + *e.ops[1].bytes);
  EXPECT_DOUBLE_EQ(*e.total.time_lower_s, *e.ops[0].time_lower_s + *e.ops[1].time_lower_s);
  EXPECT_EQ(e.ops[0].limiter, Limiter::compute);
  EXPECT_EQ(e.ops[1].limiter, Limiter::memory);
  EXPECT_EQ(e.total.limiter, Limiter::compute);
  EXPECT_EQ(e.total.peak, std::nullopt);  // two units
  EXPECT_EQ(e.total.intensity_formula, "(2*N*D*F + N*F)/(2*N*D + 6*N*F + 2*D*F)");
}

TEST(Explain, counts_half_bytes_and_reports_them_rounded_up) {
  const Machine m = make_test_machine({{DType::int4, 1e12}}, 1e12, 1);
  const Prediction p = explained("int4[N] * int4[N] -> int8[1]", m, {{"N", 3}}).ops.at(0);
  EXPECT_EQ(p.bytes, 4);                                                                   // 1.5 + 1.5 + 1
  EXPECT_EQ(explained("int4[N] * int4[N] -> int4[1]", m, {{"N", 3}}).ops.at(0).bytes, 4);  // 3.5
  EXPECT_EQ(explained("int4[N] * int4[N] -> int4[1]", m, {{"N", 3}}).ops.at(0).time_memory_s, 3.5);
}

TEST(Explain, counts_up_to_10_to_38_and_rejects_larger_counts) {
  const Count large = static_cast<Count>(1) << 67;
  EXPECT_TRUE(explained(product, v5e, {{"B", 4194304}, {"D", 4194304}, {"F", 4194304}}).ops[0].flops == large);
  EXPECT_EQ(error_of(product, v5e, {{"B", INT64_MAX}, {"D", INT64_MAX}, {"F", 2}}),
            "program:1:1: expected a count below 10^38, found 2*B*D*F with B = 9223372036854775807, D = "
            "9223372036854775807, F = 2\n"
            "  bf16[B, D] * bf16[D, F] -> bf16[B, F]\n"
            "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "  hint: use smaller sizes\n");
  // Sizes that are written out need no value to be too large.
  EXPECT_EQ(error_of("bf16[4000000000, 4000000001] * bf16[4000000001, N] -> bf16[4000000000, N]", v5e),
            "program:1:1: expected a count below 2^63, found (beyond 2^63)*N\n"
            "  bf16[4000000000, 4000000001] * bf16[4000000001, N] -> bf16[4000000000, N]\n"
            "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "  hint: use smaller sizes\n");
}

TEST(Explain, points_at_the_statement_whose_dtype_the_machine_lacks) {
  EXPECT_EQ(error_of("x: f16[B, D]   w: f16[D, F]\n  u[B, F] = x * w", v5e),
            "program:2:3: machine 'test' has no matrix peak for f16; expected one of bf16, int8\n"
            "    u[B, F] = x * w\n"
            "    ^^^^^^^^^^^^^^^\n"
            "  hint: choose a dtype or a machine that has one, or add f16 under [matrix] in a machine file\n");
}

TEST(Explain, needs_a_bandwidth) {
  Machine bare = v5e;
  bare.memory.clear();
  EXPECT_EQ(error_of(product, bare), "machine 'test' has no memory\n  hint: add bandwidth under [memory.dram]\n");
}

TEST(Explain, reports_errors_of_given_sizes) {
  const auto e = explain(parsed(product), v5e, {{"Q", 1}});
  ASSERT_FALSE(e.ok());
  EXPECT_EQ(e.error().message, "unknown dimension 'Q'");
}

TEST(Explain, accepts_bare_numbers) {
  const Machine m = make_test_machine({{DType::bf16, 9.89e14}}, std::nullopt, 1e10);
  const auto e = explain(Flops{1e12}, Bytes{1e9}, m, DType::bf16);
  ASSERT_TRUE(e.ok());
  EXPECT_DOUBLE_EQ(*e->ops[0].time_math_s, 1e12 / 9.89e14);
  EXPECT_DOUBLE_EQ(*e->ops[0].time_lower_s, 0.1);
  EXPECT_DOUBLE_EQ(*e->ops[0].time_upper_s, 0.1 + 1e12 / 9.89e14);
  EXPECT_DOUBLE_EQ(*e->ops[0].ridge, 98900);
  EXPECT_EQ(e->ops[0].limiter, Limiter::memory);
  EXPECT_EQ(e->ops[0].intensity_formula, "1000");
  EXPECT_EQ(e->program_text, "1000000000000 FLOP, 1000000000 B");
  EXPECT_EQ(e->total.flops, 1000000000000);
}

TEST(Explain, rejects_invalid_bare_numbers) {
  const auto error = [](double flops, double bytes) {
    const auto e = explain(Flops{flops}, Bytes{bytes}, v5e, DType::bf16);
    return e.ok() ? "no error" : e.error().to_string();
  };
  EXPECT_EQ(error(1e12, 0), "expected a whole number of bytes of at least 1, found 0\n");
  EXPECT_EQ(error(-1, 5), "expected a whole number of FLOPs of at least 0, found -1\n");
  EXPECT_EQ(error(1.5, 5), "expected a whole number of FLOPs of at least 0, found 1.5\n");
  EXPECT_EQ(error(NAN, 5), "expected a whole number of FLOPs of at least 0, found nan\n");
  EXPECT_EQ(error(1e39, 5), "expected a count below 10^38, found 1e+39 FLOPs\n  hint: use smaller sizes\n");
  EXPECT_EQ(error(6.3e24, 5), "no error");
  EXPECT_EQ(error(0, 5), "no error");
}

TEST(Explain, quotes_a_statement_only_if_it_is_printable) {
  EXPECT_EQ(error_of("# Windows\r\nf16[B, D] * f16[D, F] -> f16[B, F]\r\n", v5e),
            "program:2:1: machine 'test' has no matrix peak for f16; expected one of bf16, int8\n"
            "  f16[B, D] * f16[D, F] -> f16[B, F]\n"
            "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "  hint: choose a dtype or a machine that has one, or add f16 under [matrix] in a machine file\n");
  const std::string wide(100'000, ' ');
  EXPECT_EQ(error_of("f16[B, D] *" + wide + "f16[D, F] -> f16[B, F]", v5e),
            "program:1:1: machine 'test' has no matrix peak for f16; expected one of bf16, int8\n"
            "  hint: choose a dtype or a machine that has one, or add f16 under [matrix] in a machine file\n");
}

}  // namespace
}  // namespace ridge

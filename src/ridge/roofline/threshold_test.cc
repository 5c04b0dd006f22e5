#include "ridge/roofline/threshold.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include "ridge/roofline/work.h"

namespace ridge {
namespace {

const Polynomial B = Polynomial::make_symbol("B"), D = Polynomial::make_symbol("D"), F = Polynomial::make_symbol("F"),
                 S = Polynomial::make_symbol("S");
const std::vector<std::string> order{"B", "S", "D", "F"};
constexpr RoofRates v5e{197e12, 819e9}, v5e_int8{394e12, 8.1e11}, notes{197e12, 8.1e11};

Work work_of(const Polynomial& flops, const Polynomial& in, const Polynomial& out) {
  Work work;
  work.flops = flops;
  work.bytes_in = in;
  work.bytes_out = out;
  return work;
}

// The matmul X[B, D] * Y[D, F] -> Z[B, F] with `x`, `y` and `z` bytes per element.
Work matmul(Rational x = 2, Rational y = 2, Rational z = 2) {
  return work_of(B * D * F * 2, B * D * x + D * F * y, B * F * z);
}

// Returns every field as one line of text.
std::string line(const Threshold& t) {
  std::string out = fmt::format("{} {}", t.dim, name(t.relation));
  if (t.value) out += fmt::format(" {} real {:.6f}", *t.value, t.value_real.value());
  if (!t.exact.empty()) out += fmt::format(" exact {}", t.exact);
  if (t.approx) out += fmt::format(" approx {:.2f}", *t.approx);
  if (!t.condition.empty()) out += fmt::format(" if {}", t.condition);
  if (!t.assuming.empty()) out += fmt::format(" assuming {}", t.assuming);
  return out;
}

std::vector<std::string> lines(const Work& work, RoofRates roofs, const Bindings& dims) {
  std::vector<std::string> out;
  const Polynomial bytes = work.bytes();
  for (const Threshold& t : find_thresholds({work.flops, bytes, roofs}, dims, order)) out.push_back(line(t));
  return out;
}

using SourceLines = std::vector<std::string>;

TEST(Thresholds, of_the_bf16_product_are_exact) {
  EXPECT_EQ(lines(matmul(), v5e, {{"B", 1}, {"D", 8192}, {"F", 8192}}),
            (SourceLines{"B >= 256 real 255.544042 exact r*D*F/(D*F - r*(D + F)) approx 240.54 assuming B << D, F",
                         "D never", "F never"}));
}

TEST(Thresholds, of_each_dimension_keep_the_others_fixed) {
  EXPECT_EQ(lines(matmul(), v5e, {{"B", 512}, {"D", 4096}, {"F", 1024}}),
            (SourceLines{"B >= 341 real 340.523222 exact r*D*F/(D*F - r*(D + F)) approx 240.54 assuming B << D, F",
                         "D >= 815 real 814.549213 exact r*B*F/(B*F - r*(B + F)) approx 240.54 assuming D << B, F",
                         "F >= 511 real 510.179411 exact r*B*D/(B*D - r*(B + D)) approx 240.54 assuming F << B, D"}));
}

TEST(Thresholds, without_values_keep_the_formula_and_the_limit) {
  EXPECT_EQ(lines(matmul(), v5e, {}),
            (SourceLines{"B >= exact r*D*F/(D*F - r*(D + F)) approx 240.54 if D*F > r*(D + F) assuming B << D, F",
                         "D >= exact r*B*F/(B*F - r*(B + F)) approx 240.54 if B*F > r*(B + F) assuming D << B, F",
                         "F >= exact r*B*D/(B*D - r*(B + D)) approx 240.54 if B*D > r*(B + D) assuming F << B, D"}));
}

TEST(Thresholds, ruled_out_by_known_sizes_are_never) {
  EXPECT_EQ(
      lines(matmul(), v5e, {{"D", 64}}),
      (SourceLines{"B never", "D >= exact r*B*F/(B*F - r*(B + F)) approx 240.54 if B*F > r*(B + F) assuming D << B, F",
                   "F never"}));
}

TEST(Thresholds, of_int8_products_and_of_int8_weights) {
  EXPECT_EQ(lines(matmul(1, 1, 1), v5e_int8, {{"D", 1 << 20}, {"F", 1 << 20}}).front(),
            "B >= 244 real 243.322751 exact r*D*F/(2*D*F - r*(D + F)) approx 243.21 assuming B << D, F");
  for (const auto& [n, real] : {std::pair{1024, "231.636965"}, {2048, "159.483904"}, {8192, "129.281329"}})
    EXPECT_NE(lines(matmul(2, 1, 2), notes, {{"D", n}, {"F", n}}).front().find(std::string("real ") + real),
              std::string::npos)
        << n;
  EXPECT_EQ(lines(matmul(2, 1, 2), notes, {{"D", 486}, {"F", 486}}).front(), "B never");
  EXPECT_EQ(lines(matmul(2, 1, 2), notes, {{"D", 487}, {"F", 487}}).front(),
            "B >= 102063 real 102062.765957 exact r*D*F/(2*D*F - 2*r*(D + F)) approx 121.60 assuming B << D, F");
}

TEST(Thresholds, of_batched_weights_are_never) {
  const Work work = work_of(B * D * F * 2, B * D + B * D * F, B * F);
  EXPECT_EQ(lines(work, v5e_int8, {{"B", 64}, {"D", 8192}, {"F", 8192}}),
            (SourceLines{"B never", "D never", "F never"}));
  EXPECT_EQ(lines(work, v5e_int8, {}), (SourceLines{"B never", "D never", "F never"}));
}

TEST(Thresholds, omit_dimensions_that_depend_on_unknown_sizes) {
  const Work work = work_of(S * B * D * F * 2, S * B * D * 2 + S * D * F * 2, S * B * F * 2);
  EXPECT_EQ(lines(work, v5e, {{"D", 8192}, {"F", 8192}}).size(), 3u);  // No S is enough by itself: B decides
  EXPECT_EQ(lines(work, v5e, {{"B", 256}, {"D", 8192}, {"F", 8192}})[1], "S always");
  EXPECT_EQ(lines(work, v5e, {{"B", 255}, {"D", 8192}, {"F", 8192}})[1], "S never");
}

TEST(Thresholds, of_a_batched_dimension_depend_on_the_other_batch_size) {
  const Work work = work_of(B * S * D * F * 2, B * S * D * 2 + D * F * 2, B * S * F * 2);
  EXPECT_EQ(lines(work, v5e, {{"S", 128}, {"D", 8192}, {"F", 8192}})[0],
            "B >= 2 real 1.996438 exact r*D*F/(S*D*F - r*(S*D + S*F)) approx 1.88 assuming B << D, F");
}

TEST(Thresholds, of_int4_weights_count_half_bytes) {
  EXPECT_EQ(lines(matmul(2, Rational(1, 2), 2), notes, {{"D", 8192}, {"F", 8192}}).front(),
            "B >= 65 real 64.640664 exact r*D*F/(4*D*F - 4*r*(D + F)) approx 60.80 assuming B << D, F");
}

TEST(Thresholds, of_pointwise_work_depend_on_the_number_of_operations) {
  const Work add = work_of(B, B * 8, B * 4);
  EXPECT_EQ(lines(add, {16, 1}, {}), SourceLines{"B never"});
  const Work many = work_of(B * 256, B * 4, B * 4);
  EXPECT_EQ(lines(many, {16, 1}, {}), SourceLines{"B always"});
  const Work bias = work_of(B * F * 256, B * F * 4 + F * 400, B * F * 4);
  EXPECT_EQ(lines(bias, {16, 1}, {{"F", 7}}),
            SourceLines{"B >= 50 real 50.000000 exact 50*r/(32 - r) approx 50.00"});  // F cancels, B decides
  const Work copy = work_of(0, B * 4, B * 4);
  EXPECT_EQ(lines(copy, {16, 1}, {}), SourceLines{"B never"});
}

TEST(Thresholds, are_upper_bounds_if_growth_makes_memory_the_limit) {
  // Work of a single operation grows with every dimension; that of a sum may not.
  const Work work = work_of(B * 2 + 100, B, 10);
  EXPECT_EQ(lines(work, {4, 1}, {}), SourceLines{"B <= 30 real 30.000000 exact (100 - 10*r)/(r - 2)"});
}

TEST(Thresholds, rename_the_ridge_if_a_dimension_is_called_r) {
  const Polynomial r = Polynomial::make_symbol("r");
  const std::vector<std::string> names{"B", "r"};
  const Work work = work_of(B * r * 2, B * 2, r);
  const Polynomial bytes = work.bytes();
  EXPECT_EQ(find_thresholds({work.flops, bytes, {4, 1}}, {{"r", 8}}, names).front().exact, "ridge*r/(2*r - 2*ridge)");
}

TEST(ComputeBound, compares_exactly) {
  EXPECT_TRUE(is_compute_bound({3, 0}, {1, 0}, INT64_MAX, {3, 1}));  // a tie is compute-bound
  EXPECT_FALSE(is_compute_bound({3, 0}, {1, 1}, INT64_MAX, {3, 1}));
  EXPECT_TRUE(is_compute_bound({3, 1}, {1, 0}, INT64_MAX, {3, 1}));
  EXPECT_FALSE(is_compute_bound({INT64_MAX, 0}, {1, 0}, 1, {1e300, 1e-300}));
  EXPECT_TRUE(is_compute_bound({1, 0}, {INT64_MAX, 0}, 1, {1e-300, 1e300}));
  EXPECT_FALSE(is_compute_bound({1, 0}, {1, 0}, 1, {0x1.0000000000001p0, 1}));
}

// Compares with long integers computed here: rates of every exponent, counts up to 2^63.
TEST(ComputeBound, agrees_with_products_of_powers_of_two) {
  for (const int peak : {-300, 0, 17, 300})
    for (int bandwidth = peak - 270; bandwidth <= peak + 270; ++bandwidth)
      for (int flops = 0; flops < 62; flops += 7)
        for (int bytes = 0; bytes < 62; bytes += 5) {
          const RoofRates roofs{std::ldexp(1.0, peak), std::ldexp(1.0, bandwidth)};
          const std::int64_t f = std::int64_t{1} << flops, b = std::int64_t{1} << bytes;
          const bool above = flops + bandwidth >= bytes + peak;
          ASSERT_EQ(is_compute_bound({f, 0}, {b, 0}, 1, roofs), above) << peak << bandwidth << flops << bytes;
          // At equality, a difference of one decides.
          if (flops + bandwidth != bytes + peak || f < 4 || b < 4) continue;
          ASSERT_FALSE(is_compute_bound({f, 0}, {b, 1}, 1, roofs)) << peak << " " << bandwidth;
          ASSERT_FALSE(is_compute_bound({f - 1, 0}, {b, 0}, 1, roofs)) << peak << " " << bandwidth;
          ASSERT_TRUE(is_compute_bound({f, 0}, {b - 1, 0}, 1, roofs)) << peak << " " << bandwidth;
        }
}

TEST(ComputeBound, agrees_with_128_bit_arithmetic) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto rate = [&] { return static_cast<std::int64_t>(random() >> (11 + random() % 40)) + 1; };  // exact in f64
    const std::int64_t peak = rate(), bandwidth = rate();
    const std::int64_t bytes = static_cast<std::int64_t>(random() >> (2 + random() % 60)) % (1 << 30);
    // Close to the ridge, so the last bits decide.
    const __int128 level = static_cast<__int128>(bytes) * peak / bandwidth + static_cast<int>(random() % 3) - 1;
    if (level < 0 || level > INT64_MAX) continue;
    const auto flops = static_cast<std::int64_t>(level);
    const RoofRates roofs{static_cast<double>(peak), static_cast<double>(bandwidth)};
    ASSERT_EQ(is_compute_bound({0, flops}, {0, bytes}, 1, roofs),
              static_cast<__int128>(flops) * bandwidth >= static_cast<__int128>(bytes) * peak)
        << flops << " FLOPs, " << bytes << " bytes, " << peak << " FLOP/s, " << bandwidth << " B/s";
  }
}

TEST(ComputeBound, rejects_invalid_counts_and_sizes) {
  EXPECT_DEATH(is_compute_bound({-1, 5}, {1, 0}, 1, v5e), "a count is never negative");
  EXPECT_DEATH(is_compute_bound({1, -1}, {1, 0}, 1, v5e), "a count is never negative");
  EXPECT_DEATH(is_compute_bound({1, 0}, {1, 0}, 0, v5e), "a count is never negative");
  EXPECT_EQ(is_compute_bound(cancel_common_factor(B * D, B * F), {{"B", 1}, {"F", 1}}, v5e).error().message,
            "dimension 'D' has no value");
  EXPECT_EQ(is_compute_bound(cancel_common_factor(B * D, B * F), {{"B", 1}, {"D", 1}}, v5e).error().message,
            "dimension 'F' has no value");
}

TEST(Ratio, cancels_the_common_factor_of_all_terms) {
  const Ratio ratio = cancel_common_factor(B * D * F * 2, B * D * 2 + B * F * Rational(1, 2));
  EXPECT_EQ(ratio.flops.to_string(), "4*D*F");
  EXPECT_EQ(ratio.bytes.to_string(), "4*D + F");
  EXPECT_EQ(cancel_common_factor(B, B * 12).bytes.to_string(), "12");
}

}  // namespace
}  // namespace ridge

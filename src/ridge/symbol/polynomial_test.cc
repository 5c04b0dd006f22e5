#include "ridge/symbol/polynomial.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ridge {
namespace {

const Polynomial B = Polynomial::make_symbol("B"), D = Polynomial::make_symbol("D"), F = Polynomial::make_symbol("F");

TEST(Rational, reduces_and_keeps_its_sign_in_the_numerator) {
  EXPECT_EQ(Rational(6, -4).to_string(), "-3/2");
  EXPECT_EQ(Rational(1, 2) + Rational(1, 3), Rational(5, 6));
  EXPECT_EQ((Rational(3, 4) / Rational(-3)).to_string(), "-1/4");
  EXPECT_LT(Rational(-1, 2), Rational(1, 3));
}

TEST(Rational, overflow_is_inexact_and_propagates) {
  const Rational big = Rational(INT64_MAX) * Rational(2);
  EXPECT_FALSE(big.is_exact());
  EXPECT_FALSE((big / Rational(4)).is_exact());
  EXPECT_FALSE((big - big).is_exact());
  EXPECT_FALSE((-Rational(INT64_MIN)).is_exact());
  EXPECT_FALSE(big.is_zero());
  EXPECT_TRUE(std::isnan(big.to_double()));
}

TEST(Rational, represents_exactly_the_64_bit_numbers) {
  const Rational smallest(INT64_MIN), largest(INT64_MAX);
  EXPECT_EQ((smallest + 0).to_string(), "-9223372036854775808");
  EXPECT_EQ((smallest + 1).to_string(), "-9223372036854775807");
  EXPECT_EQ((largest * 1).to_string(), "9223372036854775807");
  EXPECT_EQ((smallest - 1).to_string(), "(beyond 2^63)");
  EXPECT_EQ((largest + 1).to_string(), "(beyond 2^63)");
  EXPECT_EQ((Rational(1, INT64_MAX) / 2).to_string(), "(beyond 2^63)");
  EXPECT_EQ((Rational(-1, INT64_MAX) * 1).to_string(), "-1/9223372036854775807");
}

TEST(Rational, computes_with_different_denominators) {
  EXPECT_EQ((Rational(3, 4) / Rational(5, 7)).to_string(), "21/20");
  EXPECT_EQ((Rational(3, 4) - Rational(5, 6)).to_string(), "-1/12");
  EXPECT_EQ((Rational(3, 4) * Rational(-2, 9)).to_string(), "-1/6");
  EXPECT_EQ(Rational(1, 2).to_double(), 0.5);
  EXPECT_EQ(Rational(-7, 4).to_double(), -1.75);
  EXPECT_LT(Rational(2, 5), Rational(3, 7));
  EXPECT_GT(Rational(-2, 5), Rational(-3, 7));
  EXPECT_LT(Rational(3, 8), Rational(2, 5));
  EXPECT_GT(Rational(1, 2), Rational(1, 3));
  EXPECT_EQ(Rational(5, 0), Rational(7, 0));
  EXPECT_EQ(Rational(5, 0), Rational(INT64_MAX) * 2);
  for (const Rational& inexact : {Rational(INT64_MAX) * 2, Rational(1, 0)})
    for (const Rational& r : {inexact + 1, inexact - 1, inexact * 3, inexact / 3, Rational(3) / inexact,
                              Rational(0) * inexact, Rational(1) - inexact, -inexact})
      EXPECT_FALSE(r.is_exact());
}

TEST(Polynomial, is_printed_in_the_given_order) {
  const std::vector<std::string> order{"F", "D"};
  EXPECT_EQ((B * D * 2 + D * F * 2 + B * F * 2).to_string(), "2*B*D + 2*B*F + 2*D*F");
  EXPECT_EQ((B * D * 2 + D * F * 2 + B * F * 2).to_string(order), "2*F*D + 2*F*B + 2*D*B");
  EXPECT_EQ((D * F * Rational(1, 2) - B * Rational(3, 2) + 1).to_string(), "-3*B/2 + D*F/2 + 1");
  EXPECT_EQ((B - D - 7).to_string(), "B - D - 7");
  EXPECT_EQ((B * B * D).to_string(), "B*B*D");
  EXPECT_EQ((B - B).to_string(), "0");
  EXPECT_EQ(Polynomial(INT64_MIN).to_string(), "-9223372036854775808");
  // Names in `order` that the polynomial lacks do not affect the others.
  const Polynomial Q = Polynomial::make_symbol("Q");
  EXPECT_EQ((Q * B).to_string(std::vector<std::string>{"A", "B"}), "B*Q");
  EXPECT_EQ((Q * B).to_string(std::vector<std::string>{"R", "Q", "A"}), "Q*B");
}

TEST(Polynomial, algebra_agrees_with_arithmetic) {
  const Polynomial p = (B + D * 2) * (B - D * 2) + F;
  EXPECT_EQ(p, B * B - D * D * 4 + F);
  EXPECT_EQ(p.evaluate({{"B", 7}, {"D", 3}, {"F", 5}}).value(), 49 - 36 + 5);
  EXPECT_DOUBLE_EQ(p.evaluate_double({{"B", 0.5}, {"D", 0.25}, {"F", 2}}), 2.0);
  EXPECT_EQ(p.degree_in("B"), 2);
  EXPECT_EQ(p.degree_in("N"), 0);
  EXPECT_EQ(p.symbols(), (std::vector<std::string>{"B", "D", "F"}));
  EXPECT_EQ((p - p).as_constant(), Rational(0));
  EXPECT_EQ(p.as_constant(), std::nullopt);
}

TEST(Polynomial, grows_in_place_and_multiplies_symbols) {
  Polynomial sum = B;
  sum += D * 2;
  sum += sum;
  EXPECT_EQ(sum, B * 2 + D * 4);
  sum += B * -2;
  EXPECT_EQ(sum, D * 4);
  EXPECT_EQ(Polynomial::make_term(3, {"D", "B", "D"}), B * D * D * 3);
  EXPECT_EQ(Polynomial::make_term(0, {"D"}), Polynomial());
  EXPECT_TRUE((B * D).has_all_values({{"B", 1}, {"D", 2}}));
  EXPECT_FALSE((B * D).has_all_values({{"B", 1}}));
}

TEST(Polynomial, collects_and_substitutes_by_power) {
  const auto by_power = (B * D * 2 + D + B * D * D).collect_by_power("D");
  ASSERT_EQ(by_power.size(), 3u);
  EXPECT_EQ(by_power[0], Polynomial(0));
  EXPECT_EQ(by_power[1], B * 2 + 1);
  EXPECT_EQ(by_power[2], B);
  EXPECT_EQ((F * F + F).substitute("F", D * 4), D * D * 16 + D * 4);
  EXPECT_EQ(F.substitute("B", D), F);
}

TEST(Polynomial, rounds_half_a_byte_up) {
  const Polynomial int4 = D * F * Rational(1, 2);
  EXPECT_EQ(int4.evaluate({{"D", 3}, {"F", 5}}).value(), 8);
  EXPECT_EQ(int4.evaluate({{"D", 4}, {"F", 5}}).value(), 10);
  EXPECT_EQ((int4 * -1).evaluate({{"D", 3}, {"F", 5}}).value(), -7);
  EXPECT_EQ((int4 + B * Rational(1, 2) + Rational(1, 3)).evaluate({{"B", 4}, {"D", 3}, {"F", 5}}).value(), 10);
  EXPECT_EQ((int4 + int4).evaluate({{"D", 3}, {"F", 5}}).value(), 15);
}

TEST(Polynomial, names_the_first_symbol_without_a_value) {
  EXPECT_EQ((D + B).evaluate({{"B", 1}}).error().message, "dimension 'D' has no value");
  EXPECT_EQ(D.evaluate({}).error().message, "dimension 'D' has no value");
  EXPECT_EQ((B * D * F).evaluate({{"B", 1}}).error().to_string(),
            "dimension 'D' has no value\n  hint: give it one with -d D=…\n");
}

TEST(Polynomial, reports_overflow_of_63_bits) {
  const Polynomial flops = B * D * F * 2;
  EXPECT_EQ(flops.evaluate({{"B", 1 << 20}, {"D", 1 << 20}, {"F", 1 << 22}}).error().to_string(),
            "expected a count below 2^63, found 2*B*D*F with B = 1048576, D = 1048576, F = 4194304\n"
            "  hint: use smaller sizes\n");
  EXPECT_EQ(B.evaluate({{"B", INT64_MAX}}).value(), INT64_MAX);
  EXPECT_FALSE((B + 1).evaluate({{"B", INT64_MAX}}).ok());
  EXPECT_EQ((B * B - B * B + B).evaluate({{"B", INT64_MAX}}).value(), INT64_MAX);
  EXPECT_FALSE((B * B * B * D).evaluate({{"B", INT64_MAX}, {"D", INT64_MAX}}).ok());
}

TEST(Polynomial, reports_overflow_of_literals_instead_of_wrapping) {
  const Polynomial literals = Polynomial(std::int64_t{1} << 40) * Polynomial(std::int64_t{1} << 40);
  EXPECT_FALSE(literals.is_exact());
  EXPECT_EQ((literals * B).evaluate({{"B", 2}}).error().to_string(),
            "expected a count below 2^63, found (beyond 2^63)*B with B = 2\n  hint: use smaller sizes\n");
}

}  // namespace
}  // namespace ridge

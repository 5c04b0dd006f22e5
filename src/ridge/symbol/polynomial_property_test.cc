// Random polynomials and the same polynomials as lists of terms: operations and printed text must have the same values
// as the lists, in exact integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "ridge/roofline/testing/calculator.h"
#include "ridge/symbol/polynomial.h"

namespace ridge {
namespace {

const std::vector<std::string> names{"A", "B", "C", "D"};

struct Term {
  std::int64_t numerator, denominator;
  std::vector<int> powers;  // exponents of the names
};

struct Both {
  Polynomial polynomial;
  std::vector<Term> terms;
};

class Polynomials : public ::testing::Test {
 protected:
  int random_below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  Both random_polynomial() {
    Both out;
    for (int i = 0, count = random_below(5); i < count; ++i) {
      Term term{random_below(13) - 6, 1 + random_below(4), {}};
      std::vector<std::string> symbols;
      for (const std::string& name : names) {
        term.powers.push_back(random_below(4) == 0 ? 1 + random_below(2) : 0);
        symbols.insert(symbols.end(), static_cast<std::size_t>(term.powers.back()), name);
      }
      std::shuffle(symbols.begin(), symbols.end(), random_);
      out.polynomial += Polynomial::make_term(Rational(term.numerator, term.denominator), symbols);
      out.terms.push_back(term);
    }
    return out;
  }

  Bindings random_values() {
    Bindings out;
    for (const std::string& name : names) out[name] = random_below(9) - 2;
    return out;
  }

  // 12 times the sum is a whole number.
  static std::int64_t twelve_times_value(const std::vector<Term>& terms, const Bindings& at) {
    std::int64_t sum = 0;
    for (const Term& term : terms) {
      std::int64_t value = 12 / term.denominator * term.numerator;
      for (std::size_t i = 0; i < names.size(); ++i)
        for (int k = 0; k < term.powers[i]; ++k) value *= at.at(names[i]);
      sum += value;
    }
    return sum;
  }
  static std::int64_t rounded_up(std::int64_t n, std::int64_t d) { return n / d + (n % d > 0); }

  std::mt19937 random_{31};
};

TEST_F(Polynomials, HaveTheValueOfTheirTerms) {
  for (int i = 0; i < 3000; ++i) {
    const Both p = random_polynomial(), q = random_polynomial();
    const Bindings at = random_values();
    const std::int64_t x = twelve_times_value(p.terms, at), y = twelve_times_value(q.terms, at);
    const std::string about = p.polynomial.to_string() + " and " + q.polynomial.to_string();
    ASSERT_EQ(p.polynomial.evaluate(at).value(), rounded_up(x, 12)) << about;
    ASSERT_EQ((p.polynomial + q.polynomial).evaluate(at).value(), rounded_up(x + y, 12)) << about;
    ASSERT_EQ((p.polynomial - q.polynomial).evaluate(at).value(), rounded_up(x - y, 12)) << about;
    ASSERT_EQ((p.polynomial * q.polynomial).evaluate(at).value(), rounded_up(x * y, 144)) << about;
    ASSERT_EQ((p.polynomial - p.polynomial).to_string(), "0");
    Polynomial twice = p.polynomial;
    twice += twice;
    ASSERT_EQ(twice.evaluate(at).value(), rounded_up(2 * x, 12)) << about;
    const std::map<std::string, double> real(at.begin(), at.end());
    ASSERT_NEAR(p.polynomial.evaluate_double(real) * 12, static_cast<double>(x), 1e-6) << about;
  }
}

TEST_F(Polynomials, EvaluateAsPrinted) {
  for (int i = 0; i < 2000; ++i) {
    const Both p = random_polynomial();
    const Bindings at = random_values();
    std::vector<std::string> order = names;
    std::shuffle(order.begin(), order.end(), random_);
    order.resize(random_below(5));
    if (!order.empty() && random_below(3) == 0) order.push_back(order.front());  // the first position counts
    const std::string text = p.polynomial.to_string(order);
    const std::string sum = text.starts_with('-') ? "0 " + text : text;
    ASSERT_NEAR(testing::Calculator(sum, {at.begin(), at.end()}).sum() * 12,
                static_cast<double>(twelve_times_value(p.terms, at)), 1e-6)
        << text;
    // In each term, names of `order` come first, in its order, then the others by name.
    const auto rank = [&](char c) {
      const auto found = std::find(order.begin(), order.end(), std::string(1, c));
      return std::pair(found - order.begin(), c);
    };
    std::vector<std::pair<std::ptrdiff_t, char>> term;
    for (const char c : text + " ") {
      if (c == ' ') {
        ASSERT_TRUE(std::is_sorted(term.begin(), term.end())) << text;
        term.clear();
      }
      if (std::isupper(static_cast<unsigned char>(c))) term.push_back(rank(c));
    }
  }
}

TEST_F(Polynomials, ReturnSymbolsDegreesAndConstants) {
  for (int i = 0; i < 2000; ++i) {
    const Both p = random_polynomial();
    std::map<std::vector<int>, std::int64_t> collected;
    for (const Term& t : p.terms) collected[t.powers] += 12 / t.denominator * t.numerator;
    std::erase_if(collected, [](const auto& term) { return term.second == 0; });
    std::set<std::string> symbols;
    for (const auto& term : collected)
      for (std::size_t s = 0; s < names.size(); ++s)
        if (term.first[s] > 0) symbols.insert(names[s]);
    const std::string about = p.polynomial.to_string();
    ASSERT_EQ(p.polynomial.symbols(), std::vector<std::string>(symbols.begin(), symbols.end())) << about;
    ASSERT_EQ(p.polynomial.terms().size(), collected.size()) << about;
    for (std::size_t s = 0; s < names.size(); ++s) {
      int degree = 0;
      for (const auto& term : collected) degree = std::max(degree, term.first[s]);
      ASSERT_EQ(p.polynomial.degree_in(names[s]), degree) << about << " in " << names[s];
      const auto by_power = p.polynomial.collect_by_power(names[s]);
      ASSERT_EQ(by_power.size(), static_cast<std::size_t>(degree) + 1) << about;
      Polynomial again, power = 1;
      for (const Polynomial& coefficient : by_power) {
        ASSERT_EQ(coefficient.degree_in(names[s]), 0) << about;
        again += coefficient * power;
        power = power * Polynomial::make_symbol(names[s]);
      }
      ASSERT_EQ(again, p.polynomial);
    }
    const bool constant = symbols.empty();
    ASSERT_EQ(p.polynomial.as_constant().has_value(), constant) << about;
    if (constant) {
      ASSERT_EQ(p.polynomial.as_constant()->to_double() * 12,
                collected.empty() ? 0 : static_cast<double>(collected.begin()->second));
    }
    const Bindings at = random_values();
    Bindings moved = at;
    moved["B"] = at.at("A") * 2 + 1;
    ASSERT_EQ(p.polynomial.substitute("B", Polynomial::make_symbol("A") * 2 + 1).evaluate(at).value(),
              p.polynomial.evaluate(moved).value())
        << about;
  }
}

// The limit is exactly the largest number of 63 bits, independent of the order of the terms.
TEST_F(Polynomials, ReportOverflowExactly) {
  const Polynomial x = Polynomial::make_symbol("A"), y = Polynomial::make_symbol("B");
  const auto fits = [](const Polynomial& p, std::int64_t a, std::int64_t b) {
    return p.evaluate({{"A", a}, {"B", b}}).ok();
  };
  EXPECT_EQ((x + y).evaluate({{"A", INT64_MAX - 5}, {"B", 5}}).value(), INT64_MAX);
  EXPECT_FALSE(fits(x + y, INT64_MAX - 5, 6));
  EXPECT_EQ((x - y).evaluate({{"A", INT64_MIN + 5}, {"B", 5}}).value(), INT64_MIN);
  EXPECT_FALSE(fits(x - y, INT64_MIN + 5, 6));
  EXPECT_EQ((x * Rational(1, 2) + Rational(1, 2)).evaluate({{"A", INT64_MAX}}).value(), INT64_MAX / 2 + 1);
  EXPECT_FALSE(fits(x * x * y - x * x * y + y + x * x * x * y, INT64_MAX, INT64_MAX)) << "2^252";
  EXPECT_FALSE(fits(x * x * x * x * x, 1 << 30, 1)) << "2^150 wraps to 0 in 128 bits";
  EXPECT_FALSE(fits(x * x * x * x * x + y, std::int64_t{1} << 32, 7)) << "2^160";
  const Polynomial thirds = x * Rational(1, INT64_MAX) + y * Rational(1, INT64_MAX - 1);
  EXPECT_FALSE(fits(thirds, 1, 1)) << "a common denominator of 2^126";
  EXPECT_EQ((x * Rational(1, INT64_MAX)).evaluate({{"A", 1}}).value(), 1);
  EXPECT_EQ((x * Rational(1, INT64_MAX) + y * Rational(2, INT64_MAX)).evaluate({{"A", 5}, {"B", 7}}).value(), 1);
  EXPECT_FALSE(fits(x * Rational(INT64_MAX, 2) + y * Rational(1, 3), INT64_MAX, INT64_MAX));
}

}  // namespace
}  // namespace ridge

// Random polynomials, kept beside them as plain lists of terms: every operation and the printed text must have the
// value that the lists give, in exact integers.
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
  std::vector<int> powers;  // of names
};

struct Both {
  Polynomial polynomial;
  std::vector<Term> terms;
};

class Polynomials : public ::testing::Test {
 protected:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  Both draw() {
    Both out;
    for (int i = 0, count = below(5); i < count; ++i) {
      Term term{below(13) - 6, 1 + below(4), {}};
      std::vector<std::string> symbols;
      for (const std::string& name : names) {
        term.powers.push_back(below(4) == 0 ? 1 + below(2) : 0);
        symbols.insert(symbols.end(), static_cast<std::size_t>(term.powers.back()), name);
      }
      std::shuffle(symbols.begin(), symbols.end(), random_);
      out.polynomial += Polynomial::product(Rational(term.numerator, term.denominator), symbols);
      out.terms.push_back(term);
    }
    return out;
  }

  Bindings point() {
    Bindings out;
    for (const std::string& name : names) out[name] = below(9) - 2;
    return out;
  }

  // Of 12 times the sum, which is whole.
  static std::int64_t twelve(const std::vector<Term>& terms, const Bindings& at) {
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
    const Both p = draw(), q = draw();
    const Bindings at = point();
    const std::int64_t x = twelve(p.terms, at), y = twelve(q.terms, at);
    const std::string about = p.polynomial.text() + " and " + q.polynomial.text();
    ASSERT_EQ(p.polynomial.evaluate(at).value(), rounded_up(x, 12)) << about;
    ASSERT_EQ((p.polynomial + q.polynomial).evaluate(at).value(), rounded_up(x + y, 12)) << about;
    ASSERT_EQ((p.polynomial - q.polynomial).evaluate(at).value(), rounded_up(x - y, 12)) << about;
    ASSERT_EQ((p.polynomial * q.polynomial).evaluate(at).value(), rounded_up(x * y, 144)) << about;
    ASSERT_EQ((p.polynomial - p.polynomial).text(), "0");
    Polynomial twice = p.polynomial;
    twice += twice;
    ASSERT_EQ(twice.evaluate(at).value(), rounded_up(2 * x, 12)) << about;
    const std::map<std::string, double> real(at.begin(), at.end());
    ASSERT_NEAR(p.polynomial.real(real) * 12, static_cast<double>(x), 1e-6) << about;
  }
}

TEST_F(Polynomials, AreReadAsTheyArePrinted) {
  for (int i = 0; i < 2000; ++i) {
    const Both p = draw();
    const Bindings at = point();
    std::vector<std::string> order = names;
    std::shuffle(order.begin(), order.end(), random_);
    order.resize(static_cast<std::size_t>(below(5)));
    if (!order.empty() && below(3) == 0) order.push_back(order.front());  // a name twice: its first place counts
    const std::string text = p.polynomial.text(order);
    const std::string sum = text.starts_with('-') ? "0 " + text : text;
    ASSERT_NEAR(testing::Calculator(sum, {at.begin(), at.end()}).sum() * 12, static_cast<double>(twelve(p.terms, at)),
                1e-6)
        << text;
    // In each term the names that are in the order stand in it, the rest behind them by name.
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

TEST_F(Polynomials, KnowTheirSymbolsDegreesAndConstants) {
  for (int i = 0; i < 2000; ++i) {
    const Both p = draw();
    std::map<std::vector<int>, std::int64_t> collected;
    for (const Term& t : p.terms) collected[t.powers] += 12 / t.denominator * t.numerator;
    std::erase_if(collected, [](const auto& term) { return term.second == 0; });
    std::set<std::string> symbols;
    for (const auto& term : collected)
      for (std::size_t s = 0; s < names.size(); ++s)
        if (term.first[s] > 0) symbols.insert(names[s]);
    const std::string about = p.polynomial.text();
    ASSERT_EQ(p.polynomial.symbols(), std::vector<std::string>(symbols.begin(), symbols.end())) << about;
    ASSERT_EQ(p.polynomial.terms().size(), collected.size()) << about;
    for (std::size_t s = 0; s < names.size(); ++s) {
      int degree = 0;
      for (const auto& term : collected) degree = std::max(degree, term.first[s]);
      ASSERT_EQ(p.polynomial.degree(names[s]), degree) << about << " in " << names[s];
      const auto by_power = p.polynomial.collect(names[s]);
      ASSERT_EQ(by_power.size(), static_cast<std::size_t>(degree) + 1) << about;
      Polynomial again, power = 1;
      for (const Polynomial& coefficient : by_power) {
        ASSERT_EQ(coefficient.degree(names[s]), 0) << about;
        again += coefficient * power;
        power = power * Polynomial::symbol(names[s]);
      }
      ASSERT_EQ(again, p.polynomial);
    }
    const bool constant = symbols.empty();
    ASSERT_EQ(p.polynomial.constant().has_value(), constant) << about;
    if (constant) {
      ASSERT_EQ(p.polynomial.constant()->real() * 12,
                collected.empty() ? 0 : static_cast<double>(collected.begin()->second));
    }
    const Bindings at = point();
    Bindings moved = at;
    moved["B"] = at.at("A") * 2 + 1;
    ASSERT_EQ(p.polynomial.substitute("B", Polynomial::symbol("A") * 2 + 1).evaluate(at).value(),
              p.polynomial.evaluate(moved).value())
        << about;
  }
}

// Up to the last number that 63 bits hold, and no further, whatever the order of the terms.
TEST_F(Polynomials, RefuseExactlyWhatLeavesTheRange) {
  const Polynomial x = Polynomial::symbol("A"), y = Polynomial::symbol("B");
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

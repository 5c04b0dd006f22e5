// Words before inputs and results that replace inputs: their canonical form and every error.
#include <gtest/gtest.h>

#include "ridge/program/program.h"

namespace ridge {
namespace {

std::string printed(const std::string& text) {
  const auto program = parse(text);
  return program.ok() ? print_program(*program) : program.error().to_string();
}

TEST(ParseUses, PrintTheCanonicalForm) {
  const std::string adam =
      "param w: f32[P]\nstate m: f32[P]\ndata g: bf16[P]\nm2: f32[P] replaces m = 0.9 * m + 0.1 * g\n"
      "w2: f32[P] replaces w = w - m2\n";
  EXPECT_EQ(printed("param w: f32[P]  state m: f32[P]  data g: bf16[P]\nm2: f32[P] replaces m = 0.9 * m + 0.1 * g\n"
                    "w2: f32[P] replaces w = w - m2"),
            adam);
  EXPECT_EQ(printed(adam), adam);
  EXPECT_EQ(printed("param bf16[F, D] * data X[D, N] -> Y[F, N]"),
            "param X2: bf16[F, D]\ndata X: bf16[D, N]\nY[F, N] = X2 * X\n");
  EXPECT_EQ(printed("x: bf16[N, D]  param w: bf16[2*F, D]\na[F, D] = w[0:F]\nb[F, D] = w[F:2*F]\nu[N, F] = x * a\n"
                    "y: bf16[N, F] = x * b"),
            "dims N, D, F\nx: bf16[N, D]\nparam w: bf16[2*F, D]\na: bf16[F, D] = w[0:F]\nb: bf16[F, D] = w[F:2*F]\n"
            "u[N, F] = x * a\ny: bf16[N, F] = x * b\n");
}

TEST(ParseUses, AreNoReservedWords) {
  EXPECT_EQ(printed("param: bf16[N]  state[N]  replaces: bf16[N]\ncache[N] = param + state\n"
                    "data: bf16[N] = cache * replaces"),
            "param: bf16[N]\nstate: bf16[N]\nreplaces: bf16[N]\ncache[N] = param + state\n"
            "data: bf16[N] = cache * replaces\n");
}

TEST(ParseUses, RejectWordsBeforeResults) {
  EXPECT_EQ(printed("x: bf16[N]\nparam y: bf16[N] = cos(x)"),
            "program:2:7: expected an input after 'param', found 'y', which the program computes\n"
            "  param y: bf16[N] = cos(x)\n        ^\n  hint: only inputs are declared param, cache, state or data\n");
  EXPECT_EQ(printed("x: bf16[N, D]\nw: bf16[D, F]\nx * param w -> y[N, F]"),
            "program:3:11: expected 'w' without a word before it: it exists already\n"
            "  x * param w -> y[N, F]\n            ^\n  hint: write param where it is declared\n");
  EXPECT_EQ(printed("w: bf16[2*F, D]\nparam a[F, D] = w[0:F]"),
            "program:2:7: expected a part of 'w' without a word before it\n"
            "  param a[F, D] = w[0:F]\n        ^\n  hint: write param where 'w' is declared\n");
}

TEST(ParseUses, RejectReplacementsThatAreNotInPlace) {
  EXPECT_EQ(printed("m: f32[P]  g: f32[P]\nm2: bf16[P] replaces m = m + g"),
            "program:2:22: expected 'm2' as f32[P], like 'm' that it replaces; found bf16[P]\n"
            "  m2: bf16[P] replaces m = m + g\n                       ^\n"
            "  hint: both need the same dtype and the same sizes in the same order\n");
  EXPECT_EQ(printed("m: f32[P]\nm2: f32[P] replaces m = m + 1\nm3: f32[P] replaces m = m2 + 1"),
            "program:3:21: 'm' is replaced already, by 'm2'\n  m3: f32[P] replaces m = m2 + 1\n"
            "                      ^\n  hint: each input is replaced at most once\n");
  EXPECT_EQ(printed("m: f32[P]\nu: f32[P] = m + 1\ny: f32[P] replaces u = u + 1"),
            "program:3:20: expected an input after 'replaces', found 'u', which the program computes\n"
            "  y: f32[P] replaces u = u + 1\n                     ^\n"
            "  hint: only inputs are replaced; the memory of intermediates is reused anyway\n");
  EXPECT_EQ(printed("m: f32[P]\nm2: f32[P] replaces m = m + 1\ny: f32[P] = m * m2"),
            "program:3:1: expected no statement that reads 'm' after 'm2' replaces it\n"
            "  y: f32[P] = m * m2\n  ^^^^^^^^^^^^^^^^^^\n  hint: read 'm2', or move the statement above it\n");
  const std::string hint = "\n  hint: compute the new value in a statement of its own first\n";
  EXPECT_EQ(printed("m: f32[N, D]\nw: f32[D, D2]\nm2: f32[N, D] replaces m = m - sum(m over D)"),
            "program:3:24: expected a statement that reads 'm' element by element, because it overwrites it\n"
            "  m2: f32[N, D] replaces m = m - sum(m over D)\n                         ^" +
                hint);
  EXPECT_EQ(printed("m: f32[N, D]\nm2: f32[N, D] replaces m = cumsum(m over N)"),
            "program:2:24: expected a statement that reads 'm' element by element, because it overwrites it\n"
            "  m2: f32[N, D] replaces m = cumsum(m over N)\n                         ^" +
                hint);
  EXPECT_EQ(printed("m: f32[P]\nm2: f32[P] replaces m"),
            "program:2:22: expected '=' and the new value of 'm', found end of the program\n"
            "  m2: f32[P] replaces m\n                       ^\n"
            "  hint: such as m2: f32[P] replaces m = 0.9 * m + 0.1 * g\n");
  EXPECT_EQ(printed("m: f32[P]\nm2: f32[P] replaces n = m + 1"),
            "program:2:21: unknown tensor 'n'\n  m2: f32[P] replaces n = m + 1\n                      ^\n  hint: "
            "declare it on "
            "a line above: n: bf16[N, D]\n");
}

TEST(ParseUses, AcceptReplacementsInPlace) {
  for (const char* text : {"m: f32[P]\nm2: f32[P] replaces m = m * m", "m: f32[P] x: f32[P]\nm2: f32[P] replaces m = x",
                           "c: bf16[T, E] x: bf16[N, E] i: int32[N]\ny: bf16[T, E] replaces c = scatter(x, i over T)",
                           "m: f32[N, D] x: f32[N, D]\nm2: f32[N, D] replaces m = m - sum(x over D)"})
    EXPECT_TRUE(parse(text).ok()) << printed(text);
}

}  // namespace
}  // namespace ridge

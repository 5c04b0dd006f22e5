// Programs in, programs out: tables of {input, printed form}.
#include "ridge/program/program.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

std::string printed(std::string_view text, const ParseOptions& options = {}) {
  const Result<Program> program = parse(text, options);
  return program ? print(*program) : program.error().text();
}

struct Case {
  std::string_view input;
  std::string_view output;
};

// Every line of note 000 that states a product, as it stands there.
TEST(Parse, ReadsTheProductsOfTheNotes) {
  constexpr Case cases[] = {
      {"x * y: bf16[N], bf16[N] -> bf16[1]", "x: bf16[N]\ny: bf16[N]\nZ: bf16[1] = x * y\n"},
      {"X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]", "X: bf16[B, D]\nY: bf16[D, F]\nZ: bf16[B, F] = X * Y\n"},
      {"X * Y -> Z: bf16[B, S, D], bf16[D, F] -> bf16[B, S, F]",
       "X: bf16[B, S, D]\nY: bf16[D, F]\nZ: bf16[B, S, F] = X * Y\n"},
      {"X' * Y' -> Z': bf16[S, D], bf16[D, F] -> bf16[S, F]",
       "X': bf16[S, D]\nY': bf16[D, F]\nZ': bf16[S, F] = X' * Y'\n"},
      {"A[B, D] * B[D, F] -> C[B, F]", "A: bf16[B, D]\nB: bf16[D, F]\nC[B, F] = A * B\n"},
      {"bfloat16[B, D] * int8[D, F] -> bfloat16[B, F]", "X: bf16[B, D]\nY: int8[D, F]\nZ: bf16[B, F] = X * Y\n"},
      {"int8[B, D]_D * int8[B, D, F]_D -> int8[B, F]", "X: int8[B, D]\nY: int8[B, D, F]\nZ: int8[B, F] = X * Y\n"},
  };
  for (const Case& c : cases) EXPECT_EQ(printed(c.input), c.output);
}

}  // namespace
}  // namespace ridge

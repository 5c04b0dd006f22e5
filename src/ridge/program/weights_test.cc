#include "ridge/program/weights.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

std::vector<std::string> weight_names(const std::string& text) {
  const auto program = parse(text);
  std::vector<std::string> out;
  for (const int tensor : find_weights(*program)) out.push_back(program->tensors[tensor].name);
  return out;
}

using DimSet = std::vector<std::string>;

TEST(Weights, AreTheRightFactorOrTheLeftIfThatIsComputed) {
  EXPECT_EQ(weight_names("X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]"), DimSet{"Y"});
  EXPECT_EQ(weight_names("x: bf16[B, D]  w: bf16[D, F]  v: bf16[F, D]\nu[B, F] = x * w\ny: bf16[B, D] = u * v"),
            (DimSet{"w", "v"}));
  EXPECT_EQ(weight_names("x: bf16[B, D]  w: bf16[D, F]  v: bf16[G, F]\nu[B, F] = x * w\ny: bf16[G, B] = v * u"),
            (DimSet{"w", "v"}));
}

TEST(Weights, AreNotBatchedOperands) {
  EXPECT_EQ(weight_names("q: bf16[H, S, E]  k: bf16[H, T, E]\ns[H, S, T] = q * k"), DimSet{});
  EXPECT_EQ(weight_names("x: bf16[N]\ny[N] = cos(x)"), DimSet{});
}

TEST(Weights, OnlyWeightsChangeTheirDtype) {
  const auto program = with_weight_dtype(*parse("x: bf16[B, D]  w: bf16[D, F]\ny[B, F] = x * w"), DType::int8);
  ASSERT_TRUE(program.ok());
  std::vector<DType> dtypes;
  for (const Tensor& tensor : program->tensors) dtypes.push_back(tensor.dtype);
  EXPECT_EQ(dtypes, (std::vector<DType>{DType::bf16, DType::int8, DType::bf16}));
  EXPECT_EQ(with_weight_dtype(*parse("x: bf16[N]\ny[N] = cos(x)"), DType::int8).error().kind, ErrorKind::usage);
}

TEST(Weights, StackedInputsChangeTheirDtypeWithTheirParts) {
  const auto program = with_weight_dtype(
      *parse("x: bf16[N, D]  w: bf16[2*F, D]\nup[F, D] = w[0:F]\ngate[F, D] = w[F:2*F]\nu[N, F] = x * up\n"
             "g[N, F] = x * gate\ny: bf16[N, F] = u * g"),
      DType::int8);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->stacks.front().dtype, DType::int8);
}

}  // namespace
}  // namespace ridge

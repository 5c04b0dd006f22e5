// Binding of dimensions, and meshes whose axes divide them.
#include <gtest/gtest.h>

#include "ridge/program/program.h"

namespace ridge {
namespace {

std::string bind_program(const Program& program, const Bindings& given) {
  const auto values = program.bind_sizes(given);
  return values ? "bound" : values.error().to_string();
}

TEST(Bind, DefaultsAreEvaluatedInOrderOfDependence) {
  const Program program = *parse("dims G = F + 1, F = 4*D, D = 2\nx: f32[D, F, G]\ny[D, F, G] = cos(x)");
  EXPECT_EQ(*program.bind_sizes({}), (Bindings{{"D", 2}, {"F", 8}, {"G", 9}}));
  EXPECT_EQ(*program.bind_sizes({{"D", 3}}), (Bindings{{"D", 3}, {"F", 12}, {"G", 13}}));
  EXPECT_EQ(*program.bind_sizes({{"F", 1}}), (Bindings{{"D", 2}, {"F", 1}, {"G", 2}}));
  EXPECT_EQ(bind_program(program, {{"D", 0}}),
            "dimension 'D' must be at least 1, found 0\n  hint: give D a size of 1 or more\n");
  const Program less = *parse("dims F = D - 5\nx: f32[D, F]\ny[D, F] = cos(x)");
  EXPECT_EQ(*less.bind_sizes({{"D", 6}}), (Bindings{{"D", 6}, {"F", 1}}));
  EXPECT_EQ(bind_program(less, {{"D", 5}}),
            "program:1:6: dimension 'F' must be at least 1, found D - 5 = 0\n  dims F = D - 5\n       ^\n"
            "  hint: change what it depends on, or give it with -d F=…\n");
  const Program open = *parse("dims F = 4*D\nx: f32[D, F]\ny[D, F] = cos(x)");
  EXPECT_EQ(*open.bind_sizes({}), Bindings{});
}

// Shards may differ in size; counts use the largest.
TEST(Bind, MeshAxesNeedNotDivideDimensions) {
  const Program program = *parse("A[B, D_X] * W[D_X, F] -> C[B, F]{U_X}");
  EXPECT_EQ(bind_program(program, {{"D", 7}}), "bound");
  EXPECT_EQ(bind_program(program, {{"X", 3}}), "bound");
  EXPECT_EQ(bind_program(program, {{"X", 3}, {"D", 7}, {"B", 5}}), "bound");
}

TEST(Bind, IndicesOfTopkMustFitTheirDtype) {
  const Program program = *parse("p: f32[N, E]\ni: int8[N, K] = topk(p over E)");
  EXPECT_EQ(bind_program(program, {{"E", 128}, {"K", 3}}), "bound");
  EXPECT_EQ(bind_program(program, {{"E", 129}, {"K", 3}}),
            "program:2:1: int8 holds indices below 128, and E has 129\n  i: int8[N, K] = topk(p over E)\n  ^\n"
            "  hint: declare the result as int32\n");
}

}  // namespace
}  // namespace ridge

// Numbers for dimensions, and meshes whose axes must divide them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ridge/program/program.h"

namespace ridge {
namespace {

std::string bound(const Program& program, const Bindings& given) {
  const auto values = program.bind(given);
  return values ? "bound" : values.error().text();
}

TEST(Bind, SeveralMeshAxesOfOneDimensionDivideItTogether) {
  const Program program = *parse("mesh X = 4, Y = 6\nA[B, D_XY] * W[D_XY, F] -> C[B, F]{U_XY}");
  EXPECT_EQ(bound(program, {{"D", 48}}), "bound");
  // 12 falls into 4 parts and into 6, not into 24.
  EXPECT_EQ(bound(program, {{"D", 12}}),
            "D = 12 of 'A' does not fall into 6 equal parts over the mesh axis Y\n  hint: choose D as a multiple\n");
  EXPECT_EQ(bound(program, {{"D", 6}}),
            "D = 6 of 'A' does not fall into 4 equal parts over the mesh axis X\n  hint: choose D as a multiple\n");
}

TEST(Bind, DefaultsFollowWhatTheyDependOn) {
  const Program program = *parse("dims G = F + 1, F = 4*D, D = 2\nx: f32[D, F, G]\ny[D, F, G] = cos(x)");
  EXPECT_EQ(*program.bind({}), (Bindings{{"D", 2}, {"F", 8}, {"G", 9}}));
  EXPECT_EQ(*program.bind({{"D", 3}}), (Bindings{{"D", 3}, {"F", 12}, {"G", 13}}));
  EXPECT_EQ(*program.bind({{"F", 1}}), (Bindings{{"D", 2}, {"F", 1}, {"G", 2}}));
  EXPECT_EQ(bound(program, {{"D", 0}}),
            "dimension 'D' must be at least 1, found 0\n  hint: give D a size of 1 or more\n");
  const Program less = *parse("dims F = D - 5\nx: f32[D, F]\ny[D, F] = cos(x)");
  EXPECT_EQ(*less.bind({{"D", 6}}), (Bindings{{"D", 6}, {"F", 1}}));
  EXPECT_EQ(bound(less, {{"D", 5}}),
            "program:1:6: dimension 'F' must be at least 1, found D - 5 = 0\n  dims F = D - 5\n       ^\n"
            "  hint: change what it depends on, or give it with -d F=…\n");
  const Program open = *parse("dims F = 4*D\nx: f32[D, F]\ny[D, F] = cos(x)");
  EXPECT_EQ(*open.bind({}), Bindings{});
}

TEST(Bind, AMeshWithoutSizesOrSizesWithoutAMeshDivideNothing) {
  const Program program = *parse("A[B, D_X] * W[D_X, F] -> C[B, F]{U_X}");
  EXPECT_EQ(bound(program, {{"D", 7}}), "bound");
  EXPECT_EQ(bound(program, {{"X", 3}}), "bound");
  EXPECT_EQ(bound(program, {{"X", 3}, {"D", 7}, {"B", 5}}),
            "D = 7 of 'A' does not fall into 3 equal parts over the mesh axis X\n  hint: choose D as a multiple\n");
}

// A size is bound where every tensor falls into equal parts over the product of its axes, and nowhere else.
TEST(Bind, AcceptsASizeWhereTheProductOfItsMeshAxesDividesIt) {
  std::mt19937 random(5);
  const auto up_to = [&](int n) { return static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(n)); };
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::int64_t x = up_to(6), y = up_to(6), z = up_to(6), d = up_to(72), f = up_to(36);
    const std::int64_t of_d[] = {x * y, y * x, x * y * z, x};
    const char* const axes[] = {"XY", "YX", "ZXY", "X"};
    const std::size_t which = random() % 4;
    const Program program =
        *parse(fmt::format("mesh X = {}, Y = {}, Z = {}\nA[B, D_{}] * W[D_{}, F] -> C[B, F]{{U_{}}}\nv: f32[F_YZ]\n"
                           "w[F_YZ] = cos(v)",
                           x, y, z, axes[which], axes[which], axes[which]));
    const bool divided = d % of_d[which] == 0 && f % (y * z) == 0;
    ASSERT_EQ(program.bind({{"D", d}, {"F", f}}).ok(), divided)
        << "X = " << x << ", Y = " << y << ", Z = " << z << ", D_" << axes[which] << " = " << d << ", F_YZ = " << f;
    refused += !divided;
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace ridge

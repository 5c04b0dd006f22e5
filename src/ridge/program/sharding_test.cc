// Sharded programs: printed form, implied collectives, and errors with their complete messages.
#include <gtest/gtest.h>

#include "ridge/program/testing/reject.h"
#include "ridge/program/testing/round_trip.h"

namespace ridge {
namespace {

using testing::expect_rejected;
using testing::RejectedProgram;
using testing::round_trip_error;

std::string format_implied_collectives(const std::string& text) {
  const auto program = parse(text);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().to_string());
  return program ? ridge::format_collectives(implied_collectives(*program, program->statements.back())) : "";
}

TEST(Shard, PrintsWhatItReads) {
  for (const char* text : {
           "bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]",
           "A[B, D_XY] * W[D_XY, F] -> C[B, F]{U_XY}",
           "mesh X = 4, Y = 2\nA[B_Y, D_X] * W[D_X, F] -> C[B_Y, F_X]",
           "mesh Y, X\nA[B_Y, D_X] * W[D_X, F] -> C[B_Y, F]{U_X}\ny[B_Y, F_X] = C",
           "x: f32[N_Z, d_ff_X]\ny[N_Z, d_ff_X] = gelu(x) * softmax(sum(x over 1) over 1) + index(N)",
           "u: f32[N]{U_XY}\ny[N_Y]{U_X} = u",
       })
    EXPECT_EQ(round_trip_error(text), "") << text;
  EXPECT_EQ(print_program(*parse("mesh X = 4\nA[B, D_X] * W[D_X, F] -> C[B, F]{U_X}")),
            "mesh X = 4\nA: bf16[B, D_X]\nW: bf16[D_X, F]\nC[B, F]{U_X} = A * W\n");
}

TEST(Shard, NamesTheCollectiveThatAStatementImplies) {
  EXPECT_EQ(format_implied_collectives("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]{U_X}"), "");
  EXPECT_EQ(format_implied_collectives("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"), "all-reduce over X");
  EXPECT_EQ(format_implied_collectives("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F_X]"), "reduce-scatter over X");
  EXPECT_EQ(format_implied_collectives("bf16[B_Y, D_XZ] * bf16[D_XZ, F] -> bf16[B_Y, F_Z]"),
            "all-reduce over X, reduce-scatter over Z");
  EXPECT_EQ(format_implied_collectives("bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]"), "");
  EXPECT_EQ(format_implied_collectives("bf16[B_X, D] * bf16[B_X, D, F_Y] -> bf16[B_X, F_Y]"), "");
  EXPECT_EQ(format_implied_collectives("x: bf16[B, D_X]\ny[B, D] = x"), "all-gather over X");
  EXPECT_EQ(format_implied_collectives("x: bf16[B, D_X]\ny[B_X, D] = x"), "all-to-all over X");
  EXPECT_EQ(format_implied_collectives("x: bf16[B, D]\ny[B_X, D] = x"), "");
  EXPECT_EQ(format_implied_collectives("x: bf16[B, D]{U_X}\ny[B, D] = x"), "all-reduce over X");
  EXPECT_EQ(format_implied_collectives("x: bf16[B, D]{U_XY}\ny[B_Y, D]{U_X} = x"), "reduce-scatter over Y");
  EXPECT_EQ(format_implied_collectives("x: bf16[B_Y, D_X]\ny[B_Y, D_X] = softmax(x over D)"), "all-reduce over X");
  EXPECT_EQ(format_implied_collectives("x: bf16[B_Y, D_XZ, E]\ny[B_Y] = max(sum(x over D) over E)"),
            "all-reduce over XZ");
  EXPECT_EQ(format_implied_collectives("x: bf16[B_Y, D_X]\ny[1] = sum(x * sum(x over D) over B, D)"),
            "all-reduce over XY");
  EXPECT_EQ(format_implied_collectives("x: bf16[B_X, D]\ny[B_X] = sum(x over D)"), "");
  EXPECT_EQ(format_implied_collectives("x: bf16[D]\ny[T_X] = max(index(T) * x over D)"), "");
}

TEST(Shard, GivesMeshAxesTheirSizes) {
  const auto program = parse("mesh X = 4, Y\ndims D = 8\nA[B, D_X] * W[D_X, F_Y] -> C[B, F_Y]");
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  EXPECT_EQ(*program->bind_sizes({}), (Bindings{{"D", 8}, {"X", 4}}));
  EXPECT_EQ(*program->bind_sizes({{"X", 2}, {"Y", 3}}), (Bindings{{"D", 8}, {"X", 2}, {"Y", 3}}));
  EXPECT_EQ(*program->bind_sizes({{"D", 10}}), (Bindings{{"D", 10}, {"X", 4}}));
  EXPECT_EQ(program->bind_sizes({{"X", 0}}).error().to_string(),
            "dimension 'X' must be at least 1, found 0\n  hint: give X a size of 1 or more\n");
  EXPECT_EQ(program->bind_sizes({{"Z", 2}}).error().to_string(),
            "unknown dimension 'Z'\n  hint: the program's dimensions are D, B, F, X, Y\n");
}

TEST(Shard, RejectsDifferentShardingsOfADimension) {
  constexpr RejectedProgram rejects[] = {
      {"bf16[B, D_X] * bf16[D, F] -> bf16[B, F]",
       R"(program:1:21: the left operand has D_X, the right operand has D; both must have the same sharding
  bf16[B, D_X] * bf16[D, F] -> bf16[B, F]
                      ^
  hint: write D_X in both, or gather the other first: y[…, D, …] = x
)"},
      {"bf16[B, D] * bf16[D_X, F] -> bf16[B, F]",
       R"(program:1:19: the left operand has D, the right operand has D_X; both must have the same sharding
  bf16[B, D] * bf16[D_X, F] -> bf16[B, F]
                    ^^^
  hint: write D_X in both, or gather the other first: y[…, D, …] = x
)"},
      {"bf16[B, D_X] * bf16[D_Y, F] -> bf16[B, F]",
       R"(program:1:21: the left operand has D_X, the right operand has D_Y; both must have the same sharding
  bf16[B, D_X] * bf16[D_Y, F] -> bf16[B, F]
                      ^^^
  hint: write D_X in both
)"},
      {"bf16[B, D_XY] * bf16[D_YX, F] -> bf16[B, F]",
       R"(program:1:22: the left operand has D_XY, the right operand has D_YX; both must have the same sharding
  bf16[B, D_XY] * bf16[D_YX, F] -> bf16[B, F]
                       ^^^^
  hint: write D_XY in both
)"},
      {"bf16[B_X, D] * bf16[B, D, F] -> bf16[B_X, F]",
       R"(program:1:21: the left operand has B_X, the right operand has B; both must have the same sharding
  bf16[B_X, D] * bf16[B, D, F] -> bf16[B_X, F]
                      ^
  hint: write B_X in both, or gather the other first: y[…, B, …] = x
)"},
      {"bf16[B_X, D] * bf16[D, F] -> bf16[B, F]", R"(program:1:35: the result has B, the left operand has B_X
  bf16[B_X, D] * bf16[D, F] -> bf16[B, F]
                                    ^
  hint: write B_X in both; y[…] = x, a statement of its own, changes the sharding of x
)"},
      {"bf16[B, D] * bf16[D, F] -> bf16[B_X, F]", R"(program:1:33: the result has B_X, the left operand has B
  bf16[B, D] * bf16[D, F] -> bf16[B_X, F]
                                  ^^^
  hint: write B_X in both; y[…] = x, a statement of its own, changes the sharding of x
)"},
      {"bf16[B, D_X] * bf16[D_X, F] -> bf16[B_Y, F]", R"(program:1:37: the result has B_Y, the left operand has B
  bf16[B, D_X] * bf16[D_X, F] -> bf16[B_Y, F]
                                      ^^^
  hint: write B_Y in both; y[…] = x, a statement of its own, changes the sharding of x
)"},
      {"bf16[B_X, D] * bf16[D, F] -> bf16[B_Y, F]", R"(program:1:35: the result has B_Y, the left operand has B_X
  bf16[B_X, D] * bf16[D, F] -> bf16[B_Y, F]
                                    ^^^
  hint: write B_X in both; y[…] = x, a statement of its own, changes the sharding of x
)"},
      {"x: f32[N_X]   b: f32[N]\ny[N_X] = x + b",
       R"(program:2:14: 'b' has N where the result has N_X; all must have the same sharding
  y[N_X] = x + b
               ^
  hint: y[…] = x, a statement of its own, changes the sharding of x
)"},
      {"x: f32[N_X]\ny[N] = cos(x)",
       R"(program:2:12: 'x' has N_X where the result has N; all must have the same sharding
  y[N] = cos(x)
             ^
  hint: y[…] = x, a statement of its own, changes the sharding of x
)"},
      {"x: f32[N, D_X]   b: f32[D]\ny[N] = sum(x + b over D)",
       R"(program:2:16: 'b' has D where another operand has D_X; all must have the same sharding
  y[N] = sum(x + b over D)
                 ^
  hint: y[…] = x, a statement of its own, changes the sharding of x
)"},
  };
  expect_rejected(rejects);
}

TEST(Shard, RejectsAMeshAxisTwice) {
  constexpr RejectedProgram rejects[] = {
      {"bf16[B_X, D_X] * bf16[D_X, F] -> bf16[B_X, F]", R"(program:1:11: mesh axis 'X' appears twice in one tensor
  bf16[B_X, D_X] * bf16[D_X, F] -> bf16[B_X, F]
            ^^^
  hint: each mesh axis splits one dimension of a tensor
)"},
      {"bf16[B, D_XX] * bf16[D_XX, F] -> bf16[B, F]", R"(program:1:9: mesh axis 'X' appears twice in one tensor
  bf16[B, D_XX] * bf16[D_XX, F] -> bf16[B, F]
          ^^^^
  hint: each mesh axis splits one dimension of a tensor
)"},
      {"bf16[B_X, D] * bf16[D, F_X] -> bf16[B_X, F_X]", R"(program:1:42: mesh axis 'X' appears twice in one tensor
  bf16[B_X, D] * bf16[D, F_X] -> bf16[B_X, F_X]
                                           ^^^
  hint: each mesh axis splits one dimension of a tensor
)"},
      {"bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]{U_X}", R"(program:1:43: mesh axis 'X' appears twice in one tensor
  bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]{U_X}
                                            ^^^
  hint: a tensor cannot be both split and partial over a mesh axis
)"},
      {"bf16[B, D] * bf16[D, F] -> bf16[B, F]{U_XX}", R"(program:1:39: mesh axis 'X' appears twice in one tensor
  bf16[B, D] * bf16[D, F] -> bf16[B, F]{U_XX}
                                        ^^^^
  hint: a tensor cannot be both split and partial over a mesh axis
)"},
      {"mesh X = 2, X = 4", R"(program:1:13: mesh axis 'X' is declared twice
  mesh X = 2, X = 4
              ^
  hint: leave one of them out
)"},
      {"bf16[B_XY, D_YZ] * bf16[D_YZ, F] -> bf16[B_XY, F]", R"(program:1:12: mesh axis 'Y' appears twice in one tensor
  bf16[B_XY, D_YZ] * bf16[D_YZ, F] -> bf16[B_XY, F]
             ^^^^
  hint: each mesh axis splits one dimension of a tensor
)"},
  };
  expect_rejected(rejects);
}

TEST(Shard, RejectsPartialSumsWithoutASum) {
  constexpr RejectedProgram rejects[] = {
      {"bf16[B, D] * bf16[D, F] -> bf16[B, F]{U_X}",
       R"(program:1:28: the result has partial sums over 'X', but nothing is summed over it
  bf16[B, D] * bf16[D, F] -> bf16[B, F]{U_X}
                             ^^^^
  hint: a sum over a dimension that is split over it produces them
)"},
      {"bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]{U_Y}",
       R"(program:1:32: the result has partial sums over 'Y', but nothing is summed over it
  bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]{U_Y}
                                 ^^^^
  hint: a sum over a dimension that is split over it produces them
)"},
      {"x: f32[N_X]\ny[N_X]{U_Y} = cos(x)",
       R"(program:2:1: the result has partial sums over 'Y', but nothing is summed over it
  y[N_X]{U_Y} = cos(x)
  ^
  hint: a sum over a dimension that is split over it produces them
)"},
      {"x: f32[N]{U_X}\ny[N] = cos(x)", R"(program:2:12: 'x' holds partial sums {U_X}; only their total can be used
  y[N] = cos(x)
             ^
  hint: add them up first, in a statement of their own: x2[N] = x
)"},
      {"x: f32[N]{U_X}   w: f32[N]\ny[N] = x * w",
       R"(program:2:8: 'x' holds partial sums {U_X}; only their total can be used
  y[N] = x * w
         ^
  hint: add them up first, in a statement of their own: x2[N] = x
)"},
      {"x: f32[N]\ny[N]{U_X} = x", R"(program:2:1: the result has partial sums over 'X', but nothing is summed over it
  y[N]{U_X} = x
  ^
  hint: a sum over a dimension that is split over it produces them
)"},
      {"A[B, D]{U_X} * W[D, F] -> C[B, F]", R"(program:1:1: 'A' holds partial sums {U_X}; only their total can be used
  A[B, D]{U_X} * W[D, F] -> C[B, F]
  ^
  hint: add them up first, in a statement of their own: A2[B, D] = A
)"},
      {"x: f32[N]{U_X}\ny[N]{U_X} = x + x", R"(program:2:13: 'x' holds partial sums {U_X}; only their total can be used
  y[N]{U_X} = x + x
              ^
  hint: add them up first, in a statement of their own: x2[N] = x
)"},
  };
  expect_rejected(rejects);
}

TEST(Shard, ReadsPartialSumsInOneFormOnly) {
  constexpr RejectedProgram rejects[] = {
      {"x: f32[N]{X}", R"(program:1:11: expected U_ and mesh axes, found 'X'
  x: f32[N]{X}
            ^
  hint: partial sums over the mesh axis X are written {U_X}
)"},
      {"x: f32[N]{U_x}", R"(program:1:11: expected U_ and mesh axes, found 'U_x'
  x: f32[N]{U_x}
            ^^^
  hint: partial sums over the mesh axis X are written {U_X}
)"},
      {"x: f32[N]{U_X", R"(program:1:10: expected '}' for this '{', found end of the program
  x: f32[N]{U_X
           ^
  hint: close it on the same line
)"},
      {"x: f32[N]{}", R"(program:1:11: expected U_ and mesh axes, found '}'
  x: f32[N]{}
            ^
  hint: partial sums over the mesh axis X are written {U_X}
)"},
      {"x: f32[N]{U_X}{U_Y}\ny[N] = x",
       R"(program:1:15: expected '=', another declaration or the end of the line, found '{'
  x: f32[N]{U_X}{U_Y}
                ^
  hint: partial sums, {U_X}, are written after the brackets of a tensor
)"},
      {"x: f32[N] {V_X}", R"(program:1:12: expected U_ and mesh axes, found 'V_X'
  x: f32[N] {V_X}
             ^^^
  hint: partial sums over the mesh axis X are written {U_X}
)"},
      {"{U_X}", R"(program:1:1: expected a declaration or a statement, found '{'
  {U_X}
  ^
  hint: partial sums, {U_X}, are written after the brackets of a tensor
)"},
      {"x: f32[N]\ny[N] = x{U_X}", R"(program:2:9: expected an operator or the end of the line, found '{'
  y[N] = x{U_X}
          ^
  hint: partial sums, {U_X}, are written after the brackets of a tensor
)"},
      {"x: f32[N]{U_X, U_Y}", R"(program:1:14: expected '}', found ','
  x: f32[N]{U_X, U_Y}
               ^
  hint: write several mesh axes as {U_XY}
)"},
  };
  expect_rejected(rejects);
}

TEST(Shard, DistinguishesMeshAxesFromDimensions) {
  constexpr RejectedProgram rejects[] = {
      {"bf16[X, D_X] * bf16[D_X, F] -> bf16[X, F]", R"(program:1:9: 'X' is a dimension already; -d X=4 could mean either
  bf16[X, D_X] * bf16[D_X, F] -> bf16[X, F]
          ^^^
  hint: give the mesh axis another letter
)"},
      {"bf16[D_X, B] * bf16[D_X, X] -> bf16[B, X]",
       R"(program:1:26: 'X' is a mesh axis already; -d X=4 could mean either
  bf16[D_X, B] * bf16[D_X, X] -> bf16[B, X]
                           ^
  hint: give the dimension another name
)"},
      {"mesh B = 4\nbf16[B, D] * bf16[D, F] -> bf16[B, F]",
       R"(program:2:6: 'B' is a mesh axis already; -d B=4 could mean either
  bf16[B, D] * bf16[D, F] -> bf16[B, F]
       ^
  hint: give the dimension another name
)"},
      {"dims X = 4\nmesh X = 4", R"(program:2:6: 'X' is a dimension already; -d X=4 could mean either
  mesh X = 4
       ^
  hint: give the mesh axis another letter
)"},
      {"dims D_X = 4", R"(program:1:6: expected a dimension that is not split, found 'D_X'
  dims D_X = 4
       ^^^
  hint: write D; its sharding is written in the brackets of a tensor
)"},
      {"dims D = 4*N_X", R"(program:1:12: expected a dimension that is not split, found 'N_X'
  dims D = 4*N_X
             ^^^
  hint: write N; its sharding is written in the brackets of a tensor
)"},
      {"mesh x = 4", R"(program:1:6: expected a mesh axis, a capital letter, found 'x'
  mesh x = 4
       ^
  hint: such as mesh X = 4, Y = 2
)"},
      {"mesh X = 0", R"(program:1:10: the size of a mesh axis must be at least 1, found 0
  mesh X = 0
           ^
  hint: use 1 or more
)"},
      {"mesh XY = 4", R"(program:1:6: expected a mesh axis, a capital letter, found 'XY'
  mesh XY = 4
       ^^
  hint: such as mesh X = 4, Y = 2
)"},
      {"mesh", R"(program:1:5: expected a mesh axis, a capital letter, found end of the program
  mesh
      ^
  hint: such as mesh X = 4, Y = 2
)"},
      {"mesh X = 4 Y = 2", R"(program:1:12: expected ',' or the end of the line, found 'Y'
  mesh X = 4 Y = 2
             ^
  hint: such as mesh X = 4, Y = 2
)"},
      {"mesh X = N", R"(program:1:10: expected a whole number, found 'N'
  mesh X = N
           ^
)"},
      {"mesh X = 2.5", R"(program:1:10: expected a whole number, found '2.5'
  mesh X = 2.5
           ^^^
  hint: write all its digits, without point and exponent
)"},
      {"mesh = 4", R"(program:1:6: expected a mesh axis, a capital letter, found '='
  mesh = 4
       ^
  hint: such as mesh X = 4, Y = 2
)"},
      {"mesh[N] = x", R"(program:1:1: expected the name of a tensor, found 'mesh', which is a reserved word
  mesh[N] = x
  ^^^^
  hint: use another name, such as x
)"},
      {"x: f32[4_X]", R"(program:1:8: expected a number or a name, found '4_X'
  x: f32[4_X]
         ^^^
  hint: a name begins with a letter, a number holds digits only
)"},
      {"x: f32[N_X]\ny[1]{U_X} = sum(x over N)",
       R"(program:2:1: the result has partial sums {U_X}, but sum gives every device the full result
  y[1]{U_X} = sum(x over N)
  ^
  hint: leave them out, or write the sum as a contraction with a tensor of ones
)"},
      {"x: f32[N_X]   z: f32[D_X]\ny[N_X] = sum(x * z over D)",
       R"(program:2:25: two dimensions of the argument of sum are split over the mesh axis 'X'
  y[N_X] = sum(x * z over D)
                          ^
  hint: gather one of them first: y[…] = x, a statement of its own, changes the sharding of x
)"},
      {"x: f32[N_X]\ny[N_X] = x + index(N_X)", R"(program:2:20: unknown dimension 'N_X'
  y[N_X] = x + index(N_X)
                     ^^^
  hint: use a dimension of a tensor
)"},
      {"x: bf16[bf16_X]", R"(program:1:9: expected the name of a dimension, found 'bf16', which is a reserved word
  x: bf16[bf16_X]
          ^^^^^^
  hint: use another name, such as N
)"},
      {"x: f32[N_X, D]\nx[N, D] * W[D, F] -> y[N, F]", R"(program:2:2: tensor 'x' is f32[N_X, D] already
  x[N, D] * W[D, F] -> y[N, F]
   ^
  hint: repeat it as it is, write its name alone, or use another name
)"},
      {"x: f32[N, D]{U_X}\nx[N, D] * W[D, F] -> y[N, F]", R"(program:2:2: tensor 'x' is f32[N, D]{U_X} already
  x[N, D] * W[D, F] -> y[N, F]
   ^
  hint: repeat it as it is, write its name alone, or use another name
)"},
  };
  expect_rejected(rejects);
}

}  // namespace
}  // namespace ridge

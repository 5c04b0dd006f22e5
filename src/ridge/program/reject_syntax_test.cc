// Errors in tokens, lines and tensors: rows of program and complete message.
#include "ridge/program/testing/reject.h"

namespace ridge {
namespace {

using testing::expect_rejected;
using testing::RejectedProgram;

TEST(Parse, RejectsUnknownCharacters) {
  constexpr RejectedProgram rejects[] = {
      {"bf16[B, D] $ bf16[D, F] -> bf16[B, F]",
       R"(program:1:12: expected '*' after the left operand, found '$'
  bf16[B, D] $ bf16[D, F] -> bf16[B, F]
             ^
  hint: an arrow is a product; other expressions are written y: bf16[N] = a + b
)"},
      {"bf16[B, D] @ bf16[D, F] -> bf16[B, F]",
       R"(program:1:12: expected '*' after the left operand, found '@'
  bf16[B, D] @ bf16[D, F] -> bf16[B, F]
             ^
  hint: a product is written a * b; shared names say what is summed
)"},
      {"bf16[B, D] × bf16[D, F] -> bf16[B, F]",
       R"(program:1:12: expected ASCII, found '×'
  bf16[B, D] × bf16[D, F] -> bf16[B, F]
             ^
  hint: write *
)"},
      {"bf16[B, D] * bf16[D, F] → bf16[B, F]",
       R"(program:1:25: expected ASCII, found '→'
  bf16[B, D] * bf16[D, F] → bf16[B, F]
                          ^
  hint: write ->
)"},
      {"é",
       R"(program:1:1: expected ASCII, found 'é'
  é
  ^
  hint: other characters are allowed only in comments
)"},
      {"x: bf16[N; D]",
       R"(program:1:10: expected ',' or ']', found ';'
  x: bf16[N; D]
           ^
  hint: a line break ends a statement
)"},
      {"_x: bf16[N]",
       R"(program:1:1: expected a declaration or a statement, found '_x'
  _x: bf16[N]
  ^^
  hint: a name begins with a letter
)"},
      {"x: bf16[_N]",
       R"(program:1:9: expected a dimension, found '_N'
  x: bf16[_N]
          ^^
  hint: a name begins with a letter
)"},
      {"4D: bf16[N]",
       R"(program:1:1: expected a number or a name, found '4D'
  4D: bf16[N]
  ^^
  hint: a product is written 4*D
)"},
      {"1_000",
       R"(program:1:1: expected a number or a name, found '1_000'
  1_000
  ^^^^^
  hint: a name begins with a letter, a number holds digits only
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, ClosesItsBrackets) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, D\ny[N] = x",
       R"(program:1:8: expected ']' for this '[', found end of line
  x: bf16[N, D
         ^
  hint: close it on the same line
)"},
      {"bf16[B, D * bf16[D, F] -> bf16[B, F]",
       R"(program:1:11: expected ',' or ']', found '*'
  bf16[B, D * bf16[D, F] -> bf16[B, F]
            ^
  hint: close the bracket; a computed size has a name: dims F = 4*D
)"},
      {"x: [N",
       R"(program:1:4: expected ']' for this '[', found end of the program
  x: [N
     ^
  hint: close it on the same line
)"},
      {"x: bf16[N] ]",
       R"(program:1:12: expected '=', another declaration or the end of the line, found ']'
  x: bf16[N] ]
             ^
  hint: there is no open bracket to close
)"},
      {"x: bf16[N,]",
       R"(program:1:11: expected a dimension, found ']'
  x: bf16[N,]
            ^
  hint: a name such as B, or a size such as 128
)"},
      {"x: bf16[]",
       R"(program:1:9: expected a dimension, found ']'
  x: bf16[]
          ^
  hint: a single number is bf16[1]
)"},
      {"x: bf16",
       R"(program:1:8: expected '[' and the dimensions, found end of the program
  x: bf16
         ^
  hint: such as bf16[N, D]
)"},
      {"x: bf17[N]",
       R"(program:1:4: expected a dtype, found 'bf17'
  x: bf17[N]
     ^^^^
  hint: did you mean 'bf16'?
)"},
      {"bf61[B, D] * bf16[D, F] -> bf16[B, F]",
       R"(program:1:1: expected a dtype, found 'bf61'
  bf61[B, D] * bf16[D, F] -> bf16[B, F]
  ^^^^
  hint: did you mean 'bf16'?
)"},
      {"uint4[B, D] * fp6[D, F] -> bf16[B, F]",
       R"(program:1:1: expected a dtype, found 'uint4'
  uint4[B, D] * fp6[D, F] -> bf16[B, F]
  ^^^^^
  hint: did you mean 'int4'?
)"},
      {"BF16[B, D] * bf16[D, F] -> y[B, F]",
       R"(program:1:1: expected a dtype, found 'BF16'
  BF16[B, D] * bf16[D, F] -> y[B, F]
  ^^^^
  hint: did you mean 'bf16'?
)"},
      {"x: quaternion[N]",
       R"(program:1:4: expected a dtype, found 'quaternion'
  x: quaternion[N]
     ^^^^^^^^^^
  hint: one of f64 f32 tf32 bf16 f16 e4m3 e5m2 int32 int16 int8 int4 u8 e2m1 mxfp8 mxfp4 nvfp4 e4m3_128 int4_32 int4_64 int4_128 u4_32 u4_64 u4_128
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, NeedsAStatement) {
  constexpr RejectedProgram rejects[] = {
      {"",
       R"(program:1:1: expected a statement, found end of the program
  hint: such as bf16[B, D] * bf16[D, F] -> bf16[B, F], or y: bf16[N] = cos(x)
)"},
      {"# only a comment",
       R"(program:1:1: expected a statement, found end of the program
  # only a comment
  ^
  hint: such as bf16[B, D] * bf16[D, F] -> bf16[B, F], or y: bf16[N] = cos(x)
)"},
      {"x: bf16[N]",
       R"(program:1:11: expected a statement, found end of the program
  x: bf16[N]
            ^
  hint: such as bf16[B, D] * bf16[D, F] -> bf16[B, F], or y: bf16[N] = cos(x)
)"},
      {"\n\n",
       R"(program:3:1: expected a statement, found end of the program
  hint: such as bf16[B, D] * bf16[D, F] -> bf16[B, F], or y: bf16[N] = cos(x)
)"},
      {"x",
       R"(program:1:2: expected ':', '[' or '*' after 'x', found end of the program
  x
   ^
  hint: a tensor is declared x: bf16[N, D]
)"},
      {"2 * x -> y",
       R"(program:1:1: expected a declaration or a statement, found '2'
  2 * x -> y
  ^
  hint: such as x: bf16[N, D], u[N, F] = x * w, or bf16[B, D] * bf16[D, F] -> bf16[B, F]
)"},
      {"x: bf16[N] y",
       R"(program:1:13: expected ':', '[' or '*' after 'y', found end of the program
  x: bf16[N] y
              ^
  hint: a tensor is declared x: bf16[N, D]
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsArrowsWithoutAResult) {
  constexpr RejectedProgram rejects[] = {
      {"bf16[B, D, E] * bf16[D, F, E]",
       R"(program:1:1: the result is ambiguous: D and E are in both operands, and each may be summed or kept
  bf16[B, D, E] * bf16[D, F, E]
  ^^^^
  hint: write the result, or the summed dimension: [B, D, E]_E
)"},
      {"bf16[B, D] * bf16[D, F] = bf16[B, F]",
       R"(program:1:25: expected '->' and the result, found '='
  bf16[B, D] * bf16[D, F] = bf16[B, F]
                          ^
  hint: such as bf16[B, D] * bf16[D, F] -> bf16[B, F]
)"},
      {"bf16[B, D] + bf16[B, D] -> bf16[B, D]",
       R"(program:1:12: expected '*' after the left operand, found '+'
  bf16[B, D] + bf16[B, D] -> bf16[B, D]
             ^
  hint: an arrow is a product; other expressions are written y: bf16[N] = a + b
)"},
      {"bf16[B, D] -> bf16[D, B]",
       R"(program:1:12: expected '*' after the left operand, found '->'
  bf16[B, D] -> bf16[D, B]
             ^^
  hint: an arrow is a product; other expressions are written y: bf16[N] = a + b
)"},
      {"bf16[B, D] * -> bf16[B]",
       R"(program:1:14: expected a tensor, found '->'
  bf16[B, D] * -> bf16[B]
               ^^
  hint: such as bf16[B, D] * bf16[D, F] -> bf16[B, F]
)"},
      {"bf16[N] * bf16[N] -> bf16[1] y: bf16[N]",
       R"(program:1:30: expected the end of the line, found 'y'
  bf16[N] * bf16[N] -> bf16[1] y: bf16[N]
                               ^
  hint: a statement ends its line
)"},
      {"x * y: bf16[N], bf16[N]",
       R"(program:1:24: expected '->' and the type of the result, found end of the program
  x * y: bf16[N], bf16[N]
                         ^
  hint: such as bf16[B, D] * bf16[D, F] -> bf16[B, F]
)"},
      {"x * y: bf16[N] -> bf16[1]",
       R"(program:1:16: expected ',' and the type of the right operand, found '->'
  x * y: bf16[N] -> bf16[1]
                 ^^
  hint: such as bf16[B, D] * bf16[D, F] -> bf16[B, F]
)"},
      {"X * Y -> Z",
       R"(program:1:1: the dimensions of 'X' are missing
  X * Y -> Z
  ^
  hint: write X[B, D], or put the types after a colon: X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]
)"},
      {"X[B, D] * Y[D, F] -> Z",
       R"(program:1:22: the dimensions of the result 'Z' are missing
  X[B, D] * Y[D, F] -> Z
                       ^
  hint: write Z[B, F], or put the types after a colon: X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]
)"},
      {"X[B, D] * Y[D, F] -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]",
       R"(program:1:2: the dimensions are given twice: here and after the colon
  X[B, D] * Y[D, F] -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]
   ^
  hint: leave one of them out
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsWritingATensorTwice) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N]\nx: bf16[N]",
       R"(program:2:1: tensor 'x' is declared twice
  x: bf16[N]
  ^
  hint: use another name
)"},
      {"x: bf16[N]\nx[N] = cos(x)",
       R"(program:2:1: tensor 'x' exists already; a tensor is written only once
  x[N] = cos(x)
  ^
  hint: use another name; an output is declared where it is written: y: bf16[N, F] = …
)"},
      {"A[B, D] * A[D, F] -> C[B, F]",
       R"(program:1:12: tensor 'A' is bf16[B, D] already
  A[B, D] * A[D, F] -> C[B, F]
             ^
  hint: repeat it as it is, write its name alone, or use another name
)"},
      {"A[B, D] * B[D, F] -> A[B, F]",
       R"(program:1:22: tensor 'A' exists already; a tensor is written only once
  A[B, D] * B[D, F] -> A[B, F]
                       ^
  hint: use another name; an output is declared where it is written: y: bf16[N, F] = …
)"},
      {"A[B, D] * B[D, F] -> C[B, F]\nC[B, G] * W[G, E] -> Y[B, E]",
       R"(program:2:2: tensor 'C' is bf16[B, F] already
  C[B, G] * W[G, E] -> Y[B, E]
   ^
  hint: repeat it as it is, write its name alone, or use another name
)"},
      {"A[B, D] * B[D, F] -> C[B, F]\nint8[B, F] * C[B, F] -> C[B]",
       R"(program:2:25: tensor 'C' exists already; a tensor is written only once
  int8[B, F] * C[B, F] -> C[B]
                          ^
  hint: use another name; an output is declared where it is written: y: bf16[N, F] = …
)"},
      {"x: bf16[N]\ny = cos(x)",
       R"(program:2:3: expected '[' or ':' and the dimensions of the result, found '='
  y = cos(x)
    ^
  hint: write y[N, F] = …, or y: bf16[N, F] = …
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsReservedWordsAsNames) {
  constexpr RejectedProgram rejects[] = {
      {"cos: bf16[N]",
       R"(program:1:1: expected the name of a tensor, found 'cos', which is a reserved word
  cos: bf16[N]
  ^^^
  hint: use another name, such as x
)"},
      {"x: bf16[N]\ncos[N] = x + 1",
       R"(program:2:1: expected the name of a tensor, found 'cos', which is a reserved word
  cos[N] = x + 1
  ^^^
  hint: use another name, such as x
)"},
      {"sum[B, D] * W[D, F] -> y[B, F]",
       R"(program:1:1: expected the name of a tensor, found 'sum', which is a reserved word
  sum[B, D] * W[D, F] -> y[B, F]
  ^^^
  hint: use another name, such as x
)"},
      {"dims: bf16[N]",
       R"(program:1:1: expected the name of a tensor, found 'dims', which is a reserved word
  dims: bf16[N]
  ^^^^
  hint: use another name, such as x
)"},
  };
  expect_rejected(rejects);
}

}  // namespace
}  // namespace ridge

// Errors in dimensions and sizes: rows of program and complete message.
#include "ridge/program/testing/reject.h"

namespace ridge {
namespace {

using testing::expect_rejected;
using testing::RejectedProgram;

TEST(Parse, RejectsADimensionOfOneOperandOnly) {
  constexpr RejectedProgram rejects[] = {
      {"bf16[B, D] * bf16[E, F] -> bf16[B, F]",
       R"(program:1:19: dimension 'E' of the right operand appears nowhere else; contracted dimensions must share a name
  bf16[B, D] * bf16[E, F] -> bf16[B, F]
                    ^
  hint: did you mean bf16[D, F]?
)"},
      {"bf16[B, D] * bf16[F] -> bf16[B, F]",
       R"(program:1:9: dimension 'D' of the left operand appears nowhere else; contracted dimensions must share a name
  bf16[B, D] * bf16[F] -> bf16[B, F]
          ^
  hint: to sum over it alone give X a statement of its own: sum(X over D)
)"},
      {"bf16[B] * bf16[E, F] -> bf16[B, F]",
       R"(program:1:16: dimension 'E' of the right operand appears nowhere else; contracted dimensions must share a name
  bf16[B] * bf16[E, F] -> bf16[B, F]
                 ^
  hint: to sum over it alone give Y a statement of its own: sum(Y over E)
)"},
      {"bf16[B, 3] * bf16[4, F] -> bf16[B, F]",
       R"(program:1:19: size 4 of the right operand appears nowhere else; contracted dimensions must share a name
  bf16[B, 3] * bf16[4, F] -> bf16[B, F]
                    ^
  hint: did you mean bf16[3, F]?
)"},
      {"A[B, D] * W[E, F] -> C[B, F]",
       R"(program:1:13: dimension 'E' of the right operand appears nowhere else; contracted dimensions must share a name
  A[B, D] * W[E, F] -> C[B, F]
              ^
  hint: did you mean W[D, F]?
)"},
      {"x: bf16[N, D]   w: bf16[E, F]\nu[N, F] = x * w",
       R"(program:2:15: dimension 'E' of 'w' appears nowhere else; contracted dimensions must share a name
  u[N, F] = x * w
                ^
  hint: did you mean w[D, F]?
)"},
      {"x: bf16[N, D]   w: bf16[F]\nu[N, F] = x * w",
       R"(program:2:11: dimension 'D' of 'x' appears nowhere else; contracted dimensions must share a name
  u[N, F] = x * w
            ^
  hint: to sum over it alone give x a statement of its own: sum(x over D)
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsAResultDimensionThatNoOperandHas) {
  constexpr RejectedProgram rejects[] = {
      {"bf16[B, D] * bf16[D, F] -> bf16[B, G]",
       R"(program:1:36: dimension 'G' of the result is in neither operand
  bf16[B, D] * bf16[D, F] -> bf16[B, G]
                                     ^
  hint: did you mean bf16[B, F]?
)"},
      {"bf16[B, D] * bf16[D] -> bf16[B, G]",
       R"(program:1:33: dimension 'G' of the result is in neither operand
  bf16[B, D] * bf16[D] -> bf16[B, G]
                                  ^
  hint: a dimension of the result comes from an operand
)"},
      {"bf16[B, D] * bf16[D, F] -> bf16[B, F, 7]",
       R"(program:1:39: size 7 of the result is in neither operand
  bf16[B, D] * bf16[D, F] -> bf16[B, F, 7]
                                        ^
  hint: a dimension of the result comes from an operand
)"},
      {"x: bf16[N]\ny[N, M] = cos(x)",
       R"(program:2:6: dimension 'M' of the result is in no operand
  y[N, M] = cos(x)
       ^
  hint: a dimension of the result comes from an operand
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, KeepsEveryDimensionInAPointwiseExpression) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, D]   w: bf16[D, F]   b: bf16[F]\ny[N, F] = x * w + b",
       R"(program:2:11: dimension 'D' of 'x' is not in the result y[N, F]
  y[N, F] = x * w + b
            ^
  hint: sum(x over D) leaves it out; a contraction is a statement of its own, t[N, F] = a * b
)"},
      {"x: bf16[N, D]\ny[N] = x",
       R"(program:2:8: dimension 'D' of 'x' is not in the result y[N]
  y[N] = x
         ^
  hint: sum(x over D) leaves it out; a contraction is a statement of its own, t[N, F] = a * b
)"},
      {"x: bf16[N, 3]\ny[N, 4] = cos(x)",
       R"(program:2:15: size 3 of 'x' is not in the result y[N, 4]
  y[N, 4] = cos(x)
                ^
  hint: sum(x over 3) leaves it out; a contraction is a statement of its own, t[N, F] = a * b
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsADimensionTwiceInOneTensor) {
  constexpr RejectedProgram rejects[] = {
      {"bf16[B, B] * bf16[B, F] -> bf16[B, F]",
       R"(program:1:9: dimension 'B' appears twice in one tensor
  bf16[B, B] * bf16[B, F] -> bf16[B, F]
          ^
  hint: give one of them another name, such as B2
)"},
      {"bf16[B, 3, 3] * bf16[B, F] -> bf16[B, F]",
       R"(program:1:12: the size 3 appears twice in one tensor
  bf16[B, 3, 3] * bf16[B, F] -> bf16[B, F]
             ^
  hint: give one of them a name, to distinguish them: dims W = 3
)"},
      {"dims N = 4, N = 8",
       R"(program:1:13: dimension 'N' is declared twice
  dims N = 4, N = 8
              ^
  hint: leave one of them out
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsSuffixesThatDoNotNameTheContractedDimensions) {
  constexpr RejectedProgram rejects[] = {
      {"bf16[B, D]_E * bf16[D, F] -> bf16[B, F]",
       R"(program:1:11: the suffix '_E' names no dimension of the left operand, [B, D]
  bf16[B, D]_E * bf16[D, F] -> bf16[B, F]
            ^^
  hint: it names the contracted dimensions: int8[B, D]_D
)"},
      {"int8[B, D]_B * int8[B, D, F] -> int8[B, F]",
       R"(program:1:11: the suffix '_B' says that 'B' is contracted, but the result keeps it
  int8[B, D]_B * int8[B, D, F] -> int8[B, F]
            ^^
  hint: a contracted dimension is not in the result
)"},
      {"bf16[B, D, E]_D * bf16[D, E, F] -> bf16[B, F]",
       R"(program:1:14: dimension 'E' is contracted too, but the suffix '_D' leaves it out
  bf16[B, D, E]_D * bf16[D, E, F] -> bf16[B, F]
               ^^
  hint: write _D_E, or leave the suffix out
)"},
      {"bf16[B, D] * bf16[D, F] -> bf16[B, F]_D",
       R"(program:1:38: expected no suffix here, found '_D'
  bf16[B, D] * bf16[D, F] -> bf16[B, F]_D
                                       ^^
  hint: after an operand of an arrow product it names the contracted dimensions: int8[B, D]_D
)"},
      {"x: bf16[N]_N",
       R"(program:1:11: expected no suffix here, found '_N'
  x: bf16[N]_N
            ^^
  hint: after an operand of an arrow product it names the contracted dimensions: int8[B, D]_D
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsSizesOutOfRange) {
  constexpr RejectedProgram rejects[] = {
      {"dims N = 0",
       R"(program:1:10: dimension 'N' must be at least 1, found 0
  dims N = 0
           ^
  hint: give it a size of 1 or more
)"},
      {"dims N = -4",
       R"(program:1:10: dimension 'N' must be at least 1, found -4
  dims N = -4
           ^
  hint: give it a size of 1 or more
)"},
      {"dims N = 4 - 4",
       R"(program:1:10: dimension 'N' must be at least 1, found 0
  dims N = 4 - 4
           ^
  hint: give it a size of 1 or more
)"},
      {"bf16[0] * bf16[N] -> bf16[N]",
       R"(program:1:6: a size must be at least 1, found 0
  bf16[0] * bf16[N] -> bf16[N]
       ^
  hint: use 1 or more
)"},
      {"bf16[-3] * bf16[N] -> bf16[N]",
       R"(program:1:6: expected a dimension, found '-'
  bf16[-3] * bf16[N] -> bf16[N]
       ^
  hint: a size is at least 1
)"},
      {"dims N = 9223372036854775808",
       R"(program:1:10: expected a size below 2^63, found '9223372036854775808'
  dims N = 9223372036854775808
           ^^^^^^^^^^^^^^^^^^^
  hint: use a smaller one
)"},
      {"bf16[9223372036854775808] * bf16[N] -> bf16[N]",
       R"(program:1:6: expected a size below 2^63, found '9223372036854775808'
  bf16[9223372036854775808] * bf16[N] -> bf16[N]
       ^^^^^^^^^^^^^^^^^^^
  hint: use a smaller one
)"},
      {"dims N = 5000000000 * 5000000000",
       R"(program:1:21: expected a size below 2^63, found a larger one
  dims N = 5000000000 * 5000000000
                      ^
  hint: use smaller numbers
)"},
      {"dims N = 9000000000000000000*D + 9000000000000000000*D",
       R"(program:1:32: expected a size below 2^63, found a larger one
  dims N = 9000000000000000000*D + 9000000000000000000*D
                                 ^
  hint: use smaller numbers
)"},
      {"dims N = 1e6",
       R"(program:1:10: expected a whole number, found '1e6'
  dims N = 1e6
           ^^^
  hint: write all its digits, without point and exponent
)"},
      {"dims N = 1.5",
       R"(program:1:10: expected a whole number, found '1.5'
  dims N = 1.5
           ^^^
  hint: write all its digits, without point and exponent
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsInvalidSizeExpressions) {
  constexpr RejectedProgram rejects[] = {
      {"dims A = B, B = C + 1, C = A",
       R"(program:1:6: the size of dimension 'A' depends on itself
  dims A = B, B = C + 1, C = A
       ^
  hint: give it a number
)"},
      {"dims A = A",
       R"(program:1:6: the size of dimension 'A' depends on itself
  dims A = A
       ^
  hint: give it a number
)"},
      {"dims N = 128/D",
       R"(program:1:14: expected a whole number after '/', found 'D'
  dims N = 128/D
               ^
  hint: such as G = H/8
)"},
      {"dims N = D/0",
       R"(program:1:12: the divisor of a size must be at least 1, found 0
  dims N = D/0
             ^
  hint: use 1 or more
)"},
      {"dims N = M^2",
       R"(program:1:11: expected ',' or the end of the line, found '^'
  dims N = M^2
            ^
  hint: a power is written as a product: x * x
)"},
      {"dims N = (4 * D",
       R"(program:1:10: expected ')' for this '(', found end of the program
  dims N = (4 * D
           ^
  hint: close it on the same line
)"},
      {"dims N = 4 *",
       R"(program:1:13: expected a size, found end of the program
  dims N = 4 *
              ^
  hint: such as 8192, 4*D or D + 1
)"},
      {"dims N = 4 x: bf16[N]",
       R"(program:1:12: expected ',' or the end of the line, found 'x'
  dims N = 4 x: bf16[N]
             ^
  hint: declare tensors on separate lines
)"},
      {"dims",
       R"(program:1:5: expected the name of a dimension, found end of the program
  dims
      ^
  hint: such as dims N = 32768, F = 4*D
)"},
      {"dims = 4",
       R"(program:1:6: expected the name of a dimension, found '='
  dims = 4
       ^
  hint: such as dims N = 32768, F = 4*D
)"},
      {"dims N =",
       R"(program:1:9: expected a size, found end of the program
  dims N =
          ^
  hint: such as 8192, 4*D or D + 1
)"},
      {"dims bf16 = 4",
       R"(program:1:6: expected the name of a dimension, found 'bf16', which is a reserved word
  dims bf16 = 4
       ^^^^
  hint: use another name, such as N
)"},
      {"x: bf16[bf16]",
       R"(program:1:9: expected the name of a dimension, found 'bf16', which is a reserved word
  x: bf16[bf16]
          ^^^^
  hint: use another name, such as N
)"},
      {"x: bf16[N, 4*D]",
       R"(program:1:13: expected ',' or ']', found '*'
  x: bf16[N, 4*D]
              ^
  hint: close the bracket; a computed size has a name: dims F = 4*D
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsLiteralSizesWhoseProductOverflows) {
  constexpr RejectedProgram rejects[] = {
      {"bf16[B, 4000000000, 4000000001] * bf16[4000000000, 4000000001, F] -> bf16[B, F]",
       R"(program:1:21: expected summed sizes whose product is below 2^63, found 4000000000 * 4000000001
  bf16[B, 4000000000, 4000000001] * bf16[4000000000, 4000000001, F] -> bf16[B, F]
                      ^^^^^^^^^^
  hint: use smaller sizes
)"},
  };
  expect_rejected(rejects);
}

}  // namespace
}  // namespace ridge

// Errors in expressions: rows of program and complete message.
#include "ridge/program/testing/reject.h"

namespace ridge {
namespace {

using testing::expect_rejected;
using testing::RejectedProgram;

TEST(Parse, SuggestsCorrections) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N]\ny[N] = gleu(x)",
       R"(program:2:8: unknown function 'gleu'
  y[N] = gleu(x)
         ^^^^
  hint: did you mean 'gelu'?
)"},
      {"upper: bf16[N]\ny[N] = cos(uper)",
       R"(program:2:12: unknown tensor 'uper'
  y[N] = cos(uper)
             ^^^^
  hint: did you mean 'upper'?
)"},
      {"x: bf16[N]\ny[N] = x + z",
       R"(program:2:12: unknown tensor 'z'
  y[N] = x + z
             ^
  hint: declare it on a line above: z: bf16[N, D]
)"},
      {"x: bf16[N]\ny[N] = x * N",
       R"(program:2:12: unknown tensor 'N'
  y[N] = x * N
             ^
  hint: 'N' is a dimension; the position of an element along it is index(N)
)"},
      {"x: bf16[N]\ny[N] = x(2)",
       R"(program:2:8: unknown function 'x'
  y[N] = x(2)
         ^
  hint: 'x' is a tensor; a product is written x * (…)
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, ListsTheFunctionsIfNoneIsSimilar) {
  const std::string hint = "  hint: known functions are " + testing::list_known_functions() + "\n";
  const std::string elementwise = R"(program:2:8: unknown function 'frobnicate'
  y[N] = frobnicate(x)
         ^^^^^^^^^^
)" + hint;
  const std::string over_dims = R"(program:2:8: unknown function 'avg'
  y[N] = avg(x over D)
         ^^^
)" + hint;
  const RejectedProgram rejects[] = {
      {"x: bf16[N]\ny[N] = frobnicate(x)", elementwise},
      {"x: bf16[N, D]\ny[N] = avg(x over D)", over_dims},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsReadsBeforeWrites) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N]\nu[N] = cos(v)\nv[N] = cos(x)",
       R"(program:2:12: tensor 'v' is used before it is declared or written
  u[N] = cos(v)
             ^
  hint: move its line up
)"},
      {"x: bf16[N]\nu[N] = u + x",
       R"(program:2:8: tensor 'u' is used before it is declared or written
  u[N] = u + x
         ^
  hint: move its line up
)"},
      {"y: bf16[N] = cos(x)\nx: bf16[N]",
       R"(program:1:18: tensor 'x' is used before it is declared or written
  y: bf16[N] = cos(x)
                   ^
  hint: move its line up
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, CountsArguments) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N]\ny[N] = max(x)",
       R"(program:2:8: expected 2 arguments of max, found 1
  y[N] = max(x)
         ^^^
  hint: write max(a, b) or max(x over D)
)"},
      {"x: bf16[N]\ny[N] = cos(x, x)",
       R"(program:2:8: expected 1 argument of cos, found 2
  y[N] = cos(x, x)
         ^^^
  hint: write cos(x)
)"},
      {"x: bf16[N]\ny[N] = cos()",
       R"(program:2:8: expected 1 argument of cos, found 0
  y[N] = cos()
         ^^^
  hint: write cos(x)
)"},
      {"x: bf16[N]\ny[N] = where(x, 1)",
       R"(program:2:8: expected 3 arguments of where, found 2
  y[N] = where(x, 1)
         ^^^^^
  hint: write where(condition, a, b)
)"},
      {"x: bf16[N]\ny[N] = cos x",
       R"(program:2:12: expected '(' after the function 'cos', found 'x'
  y[N] = cos x
             ^
  hint: write cos(x)
)"},
      {"y[N] = cos * 2",
       R"(program:1:12: expected '(' after the function 'cos', found '*'
  y[N] = cos * 2
             ^
  hint: write cos(x)
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, ClosesItsParentheses) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N]\ny[N] = (x + 1",
       R"(program:2:8: expected ')' for this '(', found end of the program
  y[N] = (x + 1
         ^
  hint: close it on the same line
)"},
      {"x: bf16[N]\ny[N] = cos(x + 1",
       R"(program:2:11: expected ')' for this '(', found end of the program
  y[N] = cos(x + 1
            ^
  hint: close it on the same line
)"},
      {"x: bf16[N]\ny[N] = (x + 1]",
       R"(program:2:14: expected an operator or ')', found ']'
  y[N] = (x + 1]
               ^
  hint: there is no open bracket to close
)"},
      {"x: bf16[N]\ny[N] = x + 1)",
       R"(program:2:13: expected an operator or the end of the line, found ')'
  y[N] = x + 1)
              ^
  hint: a statement ends its line
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, SuggestsTheSyntaxForThatOfOtherNotations) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N]\ny[N] = x ^ 2",
       R"(program:2:10: expected an operator or the end of the line, found '^'
  y[N] = x ^ 2
           ^
  hint: a power is written as a product: x * x
)"},
      {"x: bf16[N]\ny[N] = x.cos()",
       R"(program:2:9: expected an operator or the end of the line, found '.'
  y[N] = x.cos()
          ^
  hint: functions are written cos(x); axes are matched by name, so no transpose is needed
)"},
      {"x: bf16[N]\ny[N] = x[N]",
       R"(program:2:9: expected an operator or the end of the expression, found '['
  y[N] = x[N]
          ^
  hint: an expression names tensors without their dimensions: x
)"},
      {"x: bf16[N]\ny[N] = 4x",
       R"(program:2:8: expected a number or a name, found '4x'
  y[N] = 4x
         ^^
  hint: a product is written 4*x
)"},
      {"x: bf16[N]\ny[N] = x 2",
       R"(program:2:10: expected an operator or the end of the line, found '2'
  y[N] = x 2
           ^
  hint: a statement ends its line
)"},
      {"x: bf16[N]\ny: bf16[N] = cos(x) z: bf16[N]",
       R"(program:2:21: expected an operator or the end of the line, found 'z'
  y: bf16[N] = cos(x) z: bf16[N]
                      ^
  hint: a statement ends its line
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsMissingOperands) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N]\ny[N] = x +",
       R"(program:2:11: expected a tensor, a number or a function, found end of the program
  y[N] = x +
            ^
  hint: such as (u + bu) * gelu(g + bg)
)"},
      {"x: bf16[N]\ny[N] =",
       R"(program:2:7: expected a tensor, a number or a function, found end of the program
  y[N] =
        ^
  hint: such as (u + bu) * gelu(g + bg)
)"},
      {"x: bf16[N]\ny[N] = 1e999 * x",
       R"(program:2:8: expected a number that f64 can hold, found '1e999'
  y[N] = 1e999 * x
         ^^^^^
  hint: the range is 2.3e-308 to 1.7e308
)"},
      {"x: bf16[N]\ny[1] = 2 + 3",
       R"(program:2:10: expected a tensor in the expression, found numbers only
  y[1] = 2 + 3
           ^
  hint: an expression must read a tensor
)"},
      {"x: bf16[N]\ny[N] = * x",
       R"(program:2:8: expected a tensor, a number or a function, found '*'
  y[N] = * x
         ^
  hint: such as (u + bu) * gelu(g + bg)
)"},
      {"x: bf16[N]\ny[N] = over",
       R"(program:2:8: expected a tensor, a number or a function, found 'over'
  y[N] = over
         ^^^^
  hint: it is a reserved word
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RepeatsOneFunctionAWholeNumberOfTimes) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N]\ny[N] = repeat(0, cos, x)",
       R"(program:2:15: the count of repeat must be at least 1, found 0
  y[N] = repeat(0, cos, x)
                ^
  hint: use 1 or more
)"},
      {"x: bf16[N]\ny[N] = repeat(3000000000, cos, x)",
       R"(program:2:15: expected a count of repeat below 2^31, found 3000000000
  y[N] = repeat(3000000000, cos, x)
                ^^^^^^^^^^
  hint: use a smaller one
)"},
      {"x: bf16[N]\ny[N] = repeat(2.5, cos, x)",
       R"(program:2:15: expected a whole number, found '2.5'
  y[N] = repeat(2.5, cos, x)
                ^^^
  hint: write all its digits, without point and exponent
)"},
      {"x: bf16[N]\ny[N] = repeat(n, cos, x)",
       R"(program:2:15: expected the number of repetitions, found 'n'
  y[N] = repeat(n, cos, x)
                ^
  hint: write repeat(64, cos, x)
)"},
      {"x: bf16[N]\ny[N] = repeat(64, coz, x)",
       R"(program:2:19: unknown function 'coz'
  y[N] = repeat(64, coz, x)
                    ^^^
  hint: did you mean 'cos'?
)"},
      {"x: bf16[N]\ny[N] = repeat(64, max, x)",
       R"(program:2:19: expected a function of 1 argument, found 'max', which takes 2
  y[N] = repeat(64, max, x)
                    ^^^
  hint: write repeat(64, cos, x)
)"},
      {"x: bf16[N]\ny[N] = repeat(64, cos)",
       R"(program:2:22: expected ',' and the initial value, found ')'
  y[N] = repeat(64, cos)
                       ^
  hint: write repeat(64, cos, x)
)"},
      {"x: bf16[N]\ny[N] = repeat 64",
       R"(program:2:15: expected '(' after 'repeat', found '64'
  y[N] = repeat 64
                ^^
  hint: write repeat(64, cos, x)
)"},
      {"x: f32[N, C]  m: f32[C]  v: f32[C]  w: f32[C]\ny[N, C] = batch_norm(x, m, v, w)",
       R"(program:2:32: expected ',' and the bias, found ')'
  y[N, C] = batch_norm(x, m, v, w)
                                 ^
  hint: write batch_norm(x, mean, variance, weight, bias)
)"},
  };
  expect_rejected(rejects);
}

}  // namespace
}  // namespace ridge

// Errors in functions over dimensions, index, size and comparisons: rows of program and complete message.
#include "ridge/program/testing/reject.h"

namespace ridge {
namespace {

using testing::expect_rejected;
using testing::RejectedProgram;

TEST(Parse, RejectsFunctionsWithoutTheirDimensions) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, D]\ny[N] = sum(x)",
       R"(program:2:8: expected the dimensions that sum runs over, found none
  y[N] = sum(x)
         ^^^
  hint: write sum(x over D)
)"},
      {"x: bf16[N, D]\ny[N] = sum(x, 2)",
       R"(program:2:8: expected the dimensions that sum runs over, found none
  y[N] = sum(x, 2)
         ^^^
  hint: write sum(x over D)
)"},
      {"x: bf16[N, D]\ny[N] = mean()",
       R"(program:2:8: expected the dimensions that mean runs over, found none
  y[N] = mean()
         ^^^^
  hint: write mean(x over D)
)"},
      {"x: bf16[N, D]\ny[N] = softmax(x)",
       R"(program:2:8: expected the dimensions that softmax runs over, found none
  y[N] = softmax(x)
         ^^^^^^^
  hint: write softmax(x over D)
)"},
      {"x: bf16[N, D]\ny[N, D] = layernorm(x, D)",
       R"(program:2:24: unknown tensor 'D'
  y[N, D] = layernorm(x, D)
                         ^
  hint: 'D' is a dimension; the position of an element along it is index(D)
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over)",
       R"(program:2:18: expected a dimension, found ')'
  y[N] = sum(x over)
                   ^
  hint: such as sum(x over D)
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over D",
       R"(program:2:11: expected ')' for this '(', found end of the program
  y[N] = sum(x over D
            ^
  hint: close it on the same line
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over D,)",
       R"(program:2:21: expected a dimension, found ')'
  y[N] = sum(x over D,)
                      ^
  hint: such as sum(x over D)
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over D, D)",
       R"(program:2:22: sum runs over 'D' twice
  y[N] = sum(x over D, D)
                       ^
  hint: remove one of them
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over E)",
       R"(program:2:19: unknown dimension 'E'
  y[N] = sum(x over E)
                    ^
  hint: use a dimension of a tensor
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over (D))",
       R"(program:2:19: expected a dimension, found '('
  y[N] = sum(x over (D))
                    ^
  hint: such as sum(x over D)
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over D_X)",
       R"(program:2:19: unknown dimension 'D_X'
  y[N] = sum(x over D_X)
                    ^^^
  hint: use a dimension of a tensor
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over bf16)",
       R"(program:2:19: unknown dimension 'bf16'
  y[N] = sum(x over bf16)
                    ^^^^
  hint: use a dimension of a tensor
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over 0)",
       R"(program:2:19: a size must be at least 1, found 0
  y[N] = sum(x over 0)
                    ^
  hint: use 1 or more
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over 1.5)",
       R"(program:2:19: expected a whole number, found '1.5'
  y[N] = sum(x over 1.5)
                    ^^^
  hint: write all its digits, without point and exponent
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over D + 1)",
       R"(program:2:21: expected ',' or ')', found '+'
  y[N] = sum(x over D + 1)
                      ^
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over D over N)",
       R"(program:2:21: expected ',' or ')', found 'over'
  y[N] = sum(x over D over N)
                      ^^^^
)"},
      {"x: bf16[N, D]\ny[N] = sum(over D)",
       R"(program:2:12: expected a tensor, a number or a function, found 'over'
  y[N] = sum(over D)
             ^^^^
  hint: it is a reserved word
)"},
      {"x: bf16[N, D]\ny[N] = sum over D",
       R"(program:2:12: expected '(' after the function 'sum', found 'over'
  y[N] = sum over D
             ^^^^
  hint: write sum(x over D)
)"},
      {"x: bf16[N, D]\ny[N] = x over D",
       R"(program:2:10: expected an operator or the end of the line, found 'over'
  y[N] = x over D
           ^^^^
  hint: a statement ends its line
)"},
      {"x: bf16[N, D]\ny[N, D] = cos(x over D)",
       R"(program:2:17: expected no dimensions, found 'over': cos is elementwise
  y[N, D] = cos(x over D)
                  ^^^^
  hint: write cos(x)
)"},
      {"x: bf16[N, D]\ny[N, D] = where(x over D, 1, 2)",
       R"(program:2:19: expected no dimensions, found 'over': where is elementwise
  y[N, D] = where(x over D, 1, 2)
                    ^^^^
  hint: write where(condition, a, b)
)"},
      {"x: bf16[N, D]\ny[N] = max(x, 1 over D)",
       R"(program:2:8: expected 1 argument of max, found 2
  y[N] = max(x, 1 over D)
         ^^^
  hint: write max(a, b) or max(x over D)
)"},
      {"x: bf16[N, D]\ny[N] = max(1, x over D)",
       R"(program:2:8: expected 1 argument of max, found 2
  y[N] = max(1, x over D)
         ^^^
  hint: write max(a, b) or max(x over D)
)"},
      {"x: bf16[N, D]\ny[N] = repeat(2, sum, x)",
       R"(program:2:18: expected a function of 1 argument, found 'sum', which takes dimensions
  y[N] = repeat(2, sum, x)
                   ^^^
  hint: write repeat(64, cos, x)
)"},
      {"x: bf16[N, D]\ny[N] = repeat(2, cos, x over D)",
       R"(program:2:25: expected an operator or ')', found 'over'
  y[N] = repeat(2, cos, x over D)
                          ^^^^
  hint: write repeat(64, cos, x)
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsDimensionsThatTheArgumentLacks) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, D]\nb: bf16[N]\ny[N] = sum(b over D)",
       R"(program:3:19: dimension 'D' is not in the argument of sum, [N]
  y[N] = sum(b over D)
                    ^
  hint: name a dimension of its argument
)"},
      {"x: bf16[N, D]\ny[N] = sum(2 over D) + sum(x over D)",
       R"(program:2:19: dimension 'D' is not in the argument of sum
  y[N] = sum(2 over D) + sum(x over D)
                    ^
  hint: name a dimension of its argument
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over 3)",
       R"(program:2:19: size 3 is not in the argument of sum, [N, D]
  y[N] = sum(x over 3)
                    ^
  hint: name a dimension of its argument
)"},
      {"x: bf16[N, D]\ny[N] = sum(sum(x over D) over D)",
       R"(program:2:31: dimension 'D' is not in the argument of sum, [N]
  y[N] = sum(sum(x over D) over D)
                                ^
  hint: name a dimension of its argument
)"},
      {"x: bf16[N, D]\nw: bf16[D, F]\ny[N, F] = sum(x * w over F)",
       R"(program:3:11: dimension 'D' of 'sum(…)' is not in the result y[N, F]
  y[N, F] = sum(x * w over F)
            ^^^
  hint: add it to the result, or reduce over it: sum(… over D)
)"},
      {"x: bf16[N, D]\ns: bf16[1]\ny[N] = softmax(s over N) + sum(x over D)",
       R"(program:3:23: dimension 'N' is not in the argument of softmax
  y[N] = softmax(s over N) + sum(x over D)
                        ^
  hint: name a dimension of its argument
)"},
      {"x: bf16[N, D]\ny[1] = sum(size(D) over D)",
       R"(program:2:25: dimension 'D' is not in the argument of sum
  y[1] = sum(size(D) over D)
                          ^
  hint: name a dimension of its argument
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsResultsThatLackADimension) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, D]\ny[N] = softmax(x over D)",
       R"(program:2:8: dimension 'D' of 'softmax(…)' is not in the result y[N]
  y[N] = softmax(x over D)
         ^^^^^^^
  hint: add it to the result, or reduce over it: sum(… over D)
)"},
      {"x: bf16[N, D]\ny[D] = sum(x over D)",
       R"(program:2:8: dimension 'N' of 'sum(…)' is not in the result y[D]
  y[D] = sum(x over D)
         ^^^
  hint: add it to the result, or reduce over it: sum(… over D)
)"},
      {"x: bf16[N, D]\ny[N, D] = sum(x over D)",
       R"(program:2:6: dimension 'D' of the result is in no operand
  y[N, D] = sum(x over D)
       ^
  hint: a dimension of the result comes from an operand
)"},
      {"x: bf16[N, D]\ny[N] = rmsnorm(x over D) + 1",
       R"(program:2:8: dimension 'D' of 'rmsnorm(…)' is not in the result y[N]
  y[N] = rmsnorm(x over D) + 1
         ^^^^^^^
  hint: add it to the result, or reduce over it: sum(… over D)
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over D) + index(D)",
       R"(program:2:24: dimension 'D' of 'index(D)' is not in the result y[N]
  y[N] = sum(x over D) + index(D)
                         ^^^^^
  hint: add it to the result, or reduce over it: sum(… over D)
)"},
      {"x: bf16[N, D]\ny[N, D] = x + sum(sum(x over N) over D) * index(E)",
       R"(program:2:49: unknown dimension 'E'
  y[N, D] = x + sum(sum(x over N) over D) * index(E)
                                                  ^
  hint: use a dimension of a tensor
)"},
      {"x: bf16[N, D]\ny[N, F] = sum(x over D)",
       R"(program:2:6: dimension 'F' of the result is in no operand
  y[N, F] = sum(x over D)
       ^
  hint: a dimension of the result comes from an operand
)"},
      {"x: bf16[N, D]\ny[N] = sum(x over N)",
       R"(program:2:8: dimension 'D' of 'sum(…)' is not in the result y[N]
  y[N] = sum(x over N)
         ^^^
  hint: add it to the result, or reduce over it: sum(… over D)
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, IndexAndSizeNameADimension) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, D]\ny[N, D] = x + index(E)",
       R"(program:2:21: unknown dimension 'E'
  y[N, D] = x + index(E)
                      ^
  hint: use a dimension of a tensor
)"},
      {"x: bf16[N, D]\ny[N, D] = x + index()",
       R"(program:2:21: expected the name of a dimension, found ')'
  y[N, D] = x + index()
                      ^
  hint: write index(T)
)"},
      {"x: bf16[N, D]\ny[N, D] = x + index(x)",
       R"(program:2:21: unknown dimension 'x'
  y[N, D] = x + index(x)
                      ^
  hint: use a dimension of a tensor
)"},
      {"x: bf16[N, D]\ny[N, D] = x + index",
       R"(program:2:20: expected '(' after 'index', found end of the program
  y[N, D] = x + index
                     ^
  hint: write index(T)
)"},
      {"x: bf16[N, D]\ny[N, D] = x + size(3)",
       R"(program:2:20: expected the name of a dimension, found '3'
  y[N, D] = x + size(3)
                     ^
  hint: write size(T)
)"},
      {"x: bf16[N, D]\ny[N, D] = x + size(D, N)",
       R"(program:2:21: expected ')', found ','
  y[N, D] = x + size(D, N)
                      ^
  hint: write size(T)
)"},
      {"x: bf16[N, D]\ny[N, D] = x + size D",
       R"(program:2:20: expected '(' after 'size', found 'D'
  y[N, D] = x + size D
                     ^
  hint: write size(T)
)"},
      {"heads: bf16[Heads]\ny[Heads] = heads * size(Haeds)",
       R"(program:2:25: unknown dimension 'Haeds'
  y[Heads] = heads * size(Haeds)
                          ^^^^^
  hint: did you mean 'Heads'?
)"},
      {"index: bf16[N]\ny[N] = cos(index)",
       R"(program:1:1: expected the name of a tensor, found 'index', which is a reserved word
  index: bf16[N]
  ^^^^^
  hint: use another name, such as x
)"},
      {"size[N] = 2",
       R"(program:1:1: expected the name of a tensor, found 'size', which is a reserved word
  size[N] = 2
  ^^^^
  hint: use another name, such as x
)"},
      {"x: bf16[N]\ninf[N] = x",
       R"(program:2:1: expected the name of a tensor, found 'inf', which is a reserved word
  inf[N] = x
  ^^^
  hint: use another name, such as x
)"},
      {"x: bf16[N]\ny[N] = infinity * x",
       R"(program:2:8: unknown tensor 'infinity'
  y[N] = infinity * x
         ^^^^^^^^
  hint: declare it on a line above: infinity: bf16[N, D]
)"},
      {"x: bf16[N, D]\ny[1] = index(N)",
       R"(program:2:8: dimension 'N' of 'index(N)' is not in the result y[1]
  y[1] = index(N)
         ^^^^^
  hint: add it to the result, or reduce over it: sum(… over D)
)"},
      {"x: bf16[N]\ny[N] = index(N)",
       R"(program:2:8: expected a tensor in the expression, found numbers only
  y[N] = index(N)
         ^^^^^
  hint: an expression must read a tensor
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, ComparisonsDoNotChain) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, D]\ny[N, D] = 1 < x < 2",
       R"(program:2:17: expected an operator or the end of the line, found '<'
  y[N, D] = 1 < x < 2
                  ^
  hint: put one of two comparisons in parentheses
)"},
      {"x: bf16[N, D]\ny[N, D] = (1 < x) == x >= 2",
       R"(program:2:24: expected an operator or the end of the line, found '>='
  y[N, D] = (1 < x) == x >= 2
                         ^^
  hint: a statement ends its line
)"},
      {"x: bf16[N, D]\ny[N, D] = x =< 2",
       R"(program:2:13: expected an operator or the end of the line, found '='
  y[N, D] = x =< 2
              ^
  hint: a statement ends its line
)"},
      {"x: bf16[N, D]\ny[N, D] = x != 2",
       R"(program:2:13: expected an operator or the end of the line, found '!'
  y[N, D] = x != 2
              ^
  hint: unequal is written where(a == b, 0, 1)
)"},
      {"x: bf16[N, D]\ny[N, D] = x = 2",
       R"(program:2:13: expected an operator or the end of the line, found '='
  y[N, D] = x = 2
              ^
  hint: a statement ends its line
)"},
      {"x: bf16[N, D]\ny[N, D] = x <",
       R"(program:2:14: expected a tensor, a number or a function, found end of the program
  y[N, D] = x <
               ^
  hint: such as (u + bu) * gelu(g + bg)
)"},
      {"x: bf16[N, D]\ny[N, D] = < x",
       R"(program:2:11: expected a tensor, a number or a function, found '<'
  y[N, D] = < x
            ^
  hint: put one of two comparisons in parentheses
)"},
      {"x: bf16[N, D]\ny[N, D] = x <> 2",
       R"(program:2:14: expected a tensor, a number or a function, found '>'
  y[N, D] = x <> 2
               ^
  hint: such as (u + bu) * gelu(g + bg)
)"},
      {"x: bf16[N, D]\ny[N, D] = less(x, 2)",
       R"(program:2:11: unknown function 'less'
  y[N, D] = less(x, 2)
            ^^^^
  hint: a comparison is written a < b
)"},
      {"x: bf16[N, D]\ny[N, D] = (x < 1) & (x > 0)",
       R"(program:2:19: expected an operator or the end of the line, found '&'
  y[N, D] = (x < 1) & (x > 0)
                    ^
  hint: 'and' is written as a product: (a < b) * (b < c)
)"},
      {"x: bf16[N, D]\ny[N, D] = (x < 1) | (x > 2)",
       R"(program:2:19: expected an operator or the end of the line, found '|'
  y[N, D] = (x < 1) | (x > 2)
                    ^
  hint: 'or' is written max(a, b)
)"},
      {"x: bf16[N, D]\ny[N, D] = x % 2",
       R"(program:2:13: expected an operator or the end of the line, found '%'
  y[N, D] = x % 2
              ^
  hint: there is no remainder operator
)"},
      {"x: bf16[N, D]\ny[N, D] = x == = 2",
       R"(program:2:16: expected a tensor, a number or a function, found '='
  y[N, D] = x == = 2
                 ^
  hint: such as (u + bu) * gelu(g + bg)
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, SuggestsNamesForThoseOfOtherNotations) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, D]\ny[N] = logsumexp(x over D)",
       R"(program:2:8: unknown function 'logsumexp'
  y[N] = logsumexp(x over D)
         ^^^^^^^^^
  hint: with m[N] = max(x over D) it is written m + log(sum(exp(x - m) over D))
)"},
      {"x: bf16[N, D]\ny[N, D] = softmax(x over D, causal)",
       R"(program:2:29: unknown dimension 'causal'
  y[N, D] = softmax(x over D, causal)
                              ^^^^^^
  hint: a causal mask is written softmax(where(index(T) <= index(S), s, -inf) over T)
)"},
      {"x: bf16[N, D]\ny[N, D] = causal(x)",
       R"(program:2:11: unknown function 'causal'
  y[N, D] = causal(x)
            ^^^^^^
  hint: a causal mask is written softmax(where(index(T) <= index(S), s, -inf) over T)
)"},
      {"x: bf16[N, D]\ny[N, D] = sofmax(x over D)",
       R"(program:2:11: unknown function 'sofmax'
  y[N, D] = sofmax(x over D)
            ^^^^^^
  hint: did you mean 'softmax'?
)"},
      {"x: bf16[N, D]\ny[N, D] = rms_norm(x over D)",
       R"(program:2:11: unknown function 'rms_norm'
  y[N, D] = rms_norm(x over D)
            ^^^^^^^^
  hint: did you mean 'rmsnorm'?
)"},
      {"x: bf16[N, D]\ny[N, D] = layer_norm(x over D)",
       R"(program:2:11: unknown function 'layer_norm'
  y[N, D] = layer_norm(x over D)
            ^^^^^^^^^^
  hint: did you mean 'layernorm'?
)"},
      {"x: bf16[N, D]\ny[N] = summ(x over D)",
       R"(program:2:8: unknown function 'summ'
  y[N] = summ(x over D)
         ^^^^
  hint: did you mean 'sum'?
)"},
  };
  expect_rejected(rejects);
}

}  // namespace
}  // namespace ridge

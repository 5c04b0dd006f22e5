// Errors in convolutions: rows of program and complete message.
#include "ridge/program/testing/reject.h"

namespace ridge {
namespace {

using testing::expect_rejected;
using testing::RejectedProgram;

TEST(Parse, RejectsInvalidConvolutions) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w)",
       R"(program:2:9: the result has 'H' positions like the input, but the window has H - 2
  y[N, K, H, W] = conv(x, w)
          ^
  hint: padding = 1 keeps the size; another size has another name
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w, stride = 2, padding = 1)",
       R"(program:2:9: with stride 2 the result is shorter than the input along 'H'
  y[N, K, H, W] = conv(x, w, stride = 2, padding = 1)
          ^
  hint: another size has another name: dims P = H/2
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x)",
       R"(program:2:17: expected 2 tensors in conv, found 1
  y[N, K, H, W] = conv(x)
                  ^^^^
  hint: write conv(x, w, stride = 1, padding = 1, dilation = 1, groups = 1)
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w, x)",
       R"(program:2:17: expected 2 tensors in conv, found 3
  y[N, K, H, W] = conv(x, w, x)
                  ^^^^
  hint: write conv(x, w, stride = 1, padding = 1, dilation = 1, groups = 1)
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w, pading = 1)",
       R"(program:2:28: conv has no option 'pading'
  y[N, K, H, W] = conv(x, w, pading = 1)
                             ^^^^^^
  hint: did you mean 'padding'?
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w, padding = 1, padding = 1)",
       R"(program:2:41: 'padding' is given twice
  y[N, K, H, W] = conv(x, w, padding = 1, padding = 1)
                                          ^^^^^^^
  hint: remove one of them
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w, padding = 1, stride = 0)",
       R"(program:2:50: the stride must be at least 1, found 0
  y[N, K, H, W] = conv(x, w, padding = 1, stride = 0)
                                                   ^
  hint: use 1 or more
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w, padding = 70000)",
       R"(program:2:38: expected a padding of at most 65536, found 70000
  y[N, K, H, W] = conv(x, w, padding = 70000)
                                       ^^^^^
  hint: use a smaller one
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w over C)",
       R"(program:2:27: expected no dimension to run over, found 'over' in conv
  y[N, K, H, W] = conv(x, w over C)
                            ^^^^
  hint: write conv(x, w, stride = 1, padding = 1, dilation = 1, groups = 1)
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x * 2, w, padding = 1)",
       R"(program:2:24: expected ',' or ')', found '*'
  y[N, K, H, W] = conv(x * 2, w, padding = 1)
                         ^
  hint: conv takes names of tensors; compute other arguments in a statement of their own
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w, padding = 1) + 1",
       R"(program:2:41: expected the end of the line, found '+'
  y[N, K, H, W] = conv(x, w, padding = 1) + 1
                                          ^
  hint: conv must be a statement of its own; use its result in another statement
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = 1 + conv(x, w, padding = 1)",
       R"(program:2:21: expected conv alone after '=', found it inside an expression
  y[N, K, H, W] = 1 + conv(x, w, padding = 1)
                      ^^^^
  hint: give it a statement of its own: t[N, D] = conv(…)
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv x",
       R"(program:2:22: expected '(' after 'conv', found 'x'
  y[N, K, H, W] = conv x
                       ^
  hint: write conv(x, w, stride = 1, padding = 1, dilation = 1, groups = 1)
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w, padding = 1",
       R"(program:2:21: expected ')' for this '(', found end of the program
  y[N, K, H, W] = conv(x, w, padding = 1
                      ^
  hint: close it on the same line
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H] = conv(x, w, padding = 1)",
       R"(program:2:1: expected a result with 4 dimensions, found [N, K, H]
  y[N, K, H] = conv(x, w, padding = 1)
  ^
  hint: the batch, the channels of the result, then the window positions: y[N, K, H, W]
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3]\ny[N, K, H, W] = conv(x, w, padding = 1)",
       R"(program:2:25: expected weights with 4 dimensions, found 'w'[K, C, 3]
  y[N, K, H, W] = conv(x, w, padding = 1)
                          ^
  hint: channels of the result, channels of the input, then the windows: w: bf16[K, C, 3, 3]
)"},
      {"x: bf16[N, C]  w: bf16[K, C]\ny[N, K] = conv(x, w)",
       R"(program:2:16: expected a batch, channels and one to three window dimensions, found 'x'[N, C]
  y[N, K] = conv(x, w)
                 ^
  hint: such as x: bf16[N, C, H, W]
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[K, N, H, W] = conv(x, w, padding = 1)",
       R"(program:2:3: expected the batch N of 'x', found K
  y[K, N, H, W] = conv(x, w, padding = 1)
    ^
  hint: the batch is the first dimension of the input and of the result
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, C, H, W] = conv(x, w, padding = 1)",
       R"(program:2:6: expected the channels K of 'w', found C
  y[N, C, H, W] = conv(x, w, padding = 1)
       ^
  hint: the first dimension of the weights is the second of the result, or its last
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, D, 3, 3]\ny[N, K, H, W] = conv(x, w, padding = 1)",
       R"(program:2:25: 'w'[K, D, 3, 3] has D channels of the input, 'x'[N, C, H, W] has C
  y[N, K, H, W] = conv(x, w, padding = 1)
                          ^
  hint: use the same in both; with groups = G the weights have 1/G of them
)"},
      {"x: bf16[N, 8, H, W]  w: bf16[K, 3, 3, 3]\ny[N, K, H, W] = conv(x, w, padding = 1, groups = 4)",
       R"(program:2:25: 4 groups of 3 channels are not the 8 that 'x' has
  y[N, K, H, W] = conv(x, w, padding = 1, groups = 4)
                          ^
  hint: groups times the channels of the weights are the channels of the input
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w, padding = 1)\nz[K] = sum(w over C)",
       R"(program:3:8: size 3 of 'sum(…)' is not in the result z[K]
  z[K] = sum(w over C)
         ^^^
  hint: add it to the result, or reduce over it: sum(… over D)
)"},
      {"x: bf16[N_X, C, H, W]  w: bf16[K, C, 3, 3]\ny[N_X, K, H, W] = conv(x, w, padding = 1)",
       R"(program:2:24: conv takes no operand that is split over devices
  y[N_X, K, H, W] = conv(x, w, padding = 1)
                         ^
  hint: `ridge explain --split N=4` counts what each of several chips does if the program is not split
)"},
      {"x: bf16[N, H, W, C]  w: bf16[K, 3, 3, D]\ny[N, H, W, K] = conv(x, w, padding = 1)",
       R"(program:2:25: 'w'[K, 3, 3, D] has D channels of the input, 'x'[N, H, W, C] has C
  y[N, H, W, K] = conv(x, w, padding = 1)
                          ^
  hint: use the same in both; with groups = G the weights have 1/G of them
)"},
      {"x: bf16[N, H, W, 8]  w: bf16[K, 3, 3, 3]\ny[N, H, W, K] = conv(x, w, padding = 1, groups = 4)",
       R"(program:2:25: 4 groups of 3 channels are not the 8 that 'x' has
  y[N, H, W, K] = conv(x, w, padding = 1, groups = 4)
                          ^
  hint: groups times the channels of the weights are the channels of the input
)"},
      {"x: bf16[N, H, W, C]  w: bf16[K, 3, 3, C]\ny[N, H, W, K] = conv(x, w)",
       R"(program:2:6: the result has 'H' positions like the input, but the window has H - 2
  y[N, H, W, K] = conv(x, w)
       ^
  hint: padding = 1 keeps the size; another size has another name
)"},
      {"conv: bf16[N]",
       R"(program:1:1: expected the name of a tensor, found 'conv', which is a reserved word
  conv: bf16[N]
  ^^^^
  hint: use another name, such as x
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsInvalidTransposedConvolutions) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, C, H, W]  w: bf16[C, K, 2, 2]\ny[N, K, H, W] = conv_transpose(x, w, stride = 2)",
       R"(program:2:9: with stride 2 the result is longer than the input along 'H'
  y[N, K, H, W] = conv_transpose(x, w, stride = 2)
          ^
  hint: another size has another name: dims P = 2*H
)"},
      {"x: bf16[N, C, H, W]  w: bf16[C, K, 3, 3]\ny[N, K, H, W] = conv_transpose(x, w)",
       R"(program:2:9: the result has 'H' elements like the input, but the window makes H + 2
  y[N, K, H, W] = conv_transpose(x, w)
          ^
  hint: padding = 1 keeps the size; another size has another name
)"},
      {"x: bf16[N, C, H]  w: bf16[C, K, 4]\ny[N, K, H] = conv_transpose(x, w, padding = 2)",
       R"(program:2:9: the result has 'H' elements like the input, but the window makes H - 1
  y[N, K, H] = conv_transpose(x, w, padding = 2)
          ^
  hint: another size has another name: dims P = H + 1
)"},
      {"x: bf16[N, C, H, W]  w: bf16[C, K, 2]\ny[N, K, P, Q] = conv_transpose(x, w, stride = 2)",
       R"(program:2:35: expected weights with 4 dimensions, found 'w'[C, K, 2]
  y[N, K, P, Q] = conv_transpose(x, w, stride = 2)
                                    ^
  hint: channels of the input, channels of the result, then the windows: w: bf16[C, K, 3, 3]
)"},
      {"x: bf16[N, C, H, W]  w: bf16[C, K, 2, 2]\ny[N, K, P] = conv_transpose(x, w, stride = 2)",
       R"(program:2:1: expected a result with 4 dimensions, found [N, K, P]
  y[N, K, P] = conv_transpose(x, w, stride = 2)
  ^
  hint: the batch, the channels of the result, then the sizes that windows fill: y[N, K, P, Q]
)"},
      {"x: bf16[N, C, H, W]  w: bf16[K, C, 2, 2]\ny[N, K, P, Q] = conv_transpose(x, w, stride = 2)",
       R"(program:2:35: expected the channels C of 'x' first, found 'w'[K, C, 2, 2]
  y[N, K, P, Q] = conv_transpose(x, w, stride = 2)
                                    ^
  hint: the first dimension of the weights is the second of the input, or its last
)"},
      {"x: bf16[N, C, H, W]  w: bf16[C, D, 2, 2]\ny[N, K, P, Q] = conv_transpose(x, w, stride = 2)",
       R"(program:2:35: 'w'[C, D, 2, 2] has D channels of the result, the result [N, K, P, Q] has K
  y[N, K, P, Q] = conv_transpose(x, w, stride = 2)
                                    ^
  hint: use the same in both; with groups = G the weights have 1/G of them
)"},
      {"x: bf16[N, H, W, C]  w: bf16[C, 2, 2, D]\ny[N, P, Q, K] = conv_transpose(x, w, stride = 2)",
       R"(program:2:35: 'w'[C, 2, 2, D] has D channels of the result, the result [N, P, Q, K] has K
  y[N, P, Q, K] = conv_transpose(x, w, stride = 2)
                                    ^
  hint: use the same in both; with groups = G the weights have 1/G of them
)"},
      {"x: bf16[N, C, H, W]  w: bf16[C, 3, 2, 2]\ny[N, 8, P, Q] = conv_transpose(x, w, stride = 2, groups = 4)",
       R"(program:2:35: 4 groups of 3 channels are not the 8 that the result has
  y[N, 8, P, Q] = conv_transpose(x, w, stride = 2, groups = 4)
                                    ^
  hint: groups times the channels of the weights are the channels of the result
)"},
      {"x: bf16[N, C, H, W]  w: bf16[C, K, 2, 2]\ny[M, K, P, Q] = conv_transpose(x, w, stride = 2)",
       R"(program:2:3: expected the batch N of 'x', found M
  y[M, K, P, Q] = conv_transpose(x, w, stride = 2)
    ^
  hint: the batch is the first dimension of the input and of the result
)"},
      {"x: bf16[N, C, H, W]  w: bf16[C, K, 2, 2]\ny[N, K, P, Q] = conv_transpose(x)",
       R"(program:2:17: expected 2 tensors in conv_transpose, found 1
  y[N, K, P, Q] = conv_transpose(x)
                  ^^^^^^^^^^^^^^
  hint: write conv_transpose(x, w, stride = 2, padding = 1, dilation = 1, groups = 1)
)"},
      {"x: bf16[N, C, H, W]  w: bf16[C, K, 2, 2]\ny[N, K, P, Q] = conv_transpose(x, w, output_padding = 1)",
       R"(program:2:38: conv_transpose has no option 'output_padding'
  y[N, K, P, Q] = conv_transpose(x, w, output_padding = 1)
                                       ^^^^^^^^^^^^^^
  hint: the declared size of the result implies it
)"},
      {"x: bf16[N, C, H, W]  w: bf16[C, K, 2, 2]\ny[N, K, P, Q] = conv_transposed(x, w)",
       R"(program:2:17: unknown function 'conv_transposed'
  y[N, K, P, Q] = conv_transposed(x, w)
                  ^^^^^^^^^^^^^^^
  hint: did you mean 'conv_transpose'?
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsRepeatedSizesThatDoNotMatchInOrder) {
  constexpr RejectedProgram rejects[] = {
      {"w: bf16[K, 3, 3]\ny[K, 3] = relu(w)",
       R"(program:2:1: 'y' has the size 3 once, and 'w' has it twice, so it is unclear which of them match
  y[K, 3] = relu(w)
  ^
  hint: give one of them a name, to distinguish them: dims W = 3
)"},
      {"x: f32[64, 64, 7, 7]  b: f32[64]\ny[64, 64, 7, 7] = x + b",
       R"(program:2:23: 'b' has the size 64 once, and 'y' has it twice, so it is unclear which of them match
  y[64, 64, 7, 7] = x + b
                        ^
  hint: give one of them a name, to distinguish them: dims W = 64
)"},
      {"x: f32[N, 7, 7, 7]\ny[N] = mean(x over 7, 7)",
       R"(program:2:8: 'mean' has the size 7 twice, and 'x' has it 3 times, so it is unclear which of them match
  y[N] = mean(x over 7, 7)
         ^^^^
  hint: give one of them a name, to distinguish them: dims W = 7
)"},
      {"x: f32[8, 8]  w: f32[8, 8]\ny[8, 8] = x * w",
       R"(program:2:15: 'x' and 'w' have the size 8 several times, so it is unclear what is summed
  y[8, 8] = x * w
                ^
  hint: give one of them a name, to distinguish them: dims W = 8
)"},
      {"x: f32[8, 8]  w: f32[8, 8]\ny[8, 8] = x * w * x",
       R"(program:2:15: 'x' and 'w' have the size 8 several times, so it is unclear what is summed
  y[8, 8] = x * w * x
                ^
  hint: give one of them a name, to distinguish them: dims W = 8
)"},
      {"x: f32[8, T]\ny[8, 8] = cumsum(x over T)",
       R"(program:2:6: the size 8 appears twice in one tensor
  y[8, 8] = cumsum(x over T)
       ^
  hint: give one of them a name, to distinguish them: dims W = 8
)"},
      {"x: f32[8, 8, T]\ny[8, 8, T] = cumsum(x over T)",
       R"(program:2:6: the size 8 appears twice in one tensor
  y[8, 8, T] = cumsum(x over T)
       ^
  hint: give one of them a name, to distinguish them: dims W = 8
)"},
      {"x: f32[8, 8, T]\nh[8, T] = scan(h + x over T)",
       R"(program:2:20: 'x' has the size 8 twice, which this statement cannot distinguish
  h[8, T] = scan(h + x over T)
                     ^
  hint: give one of them a name, to distinguish them: dims W = 8
)"},
      {"w: f32[2*F, 3, 3]\nup[F, 3, 3] = w[0:F]",
       R"(program:1:16: the size 3 appears twice in one tensor
  w: f32[2*F, 3, 3]
                 ^
  hint: give one of them a name, to distinguish them: dims W = 3
)"},
      {"bf16[B, D] * bf16[D, F] -> bf16[3, 3]",
       R"(program:1:36: the size 3 appears twice in one tensor
  bf16[B, D] * bf16[D, F] -> bf16[3, 3]
                                     ^
  hint: give one of them a name, to distinguish them: dims W = 3
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsInvalidPools) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, C, H, W]\ny[N, C, P, Q] = max_pool(x, window = 2, stride = 2)",
       R"(program:2:17: expected the dimension that max_pool runs over, found none
  y[N, C, P, Q] = max_pool(x, window = 2, stride = 2)
                  ^^^^^^^^
  hint: write max_pool(x over H, W, window = 3, stride = 2, padding = 1, dilation = 1)
)"},
      {"x: bf16[N, C, H, W]\ny[N, C, P, Q] = avg_pool(x over H, W, stride = 2)",
       R"(program:2:17: expected the size of the window of avg_pool, found none
  y[N, C, P, Q] = avg_pool(x over H, W, stride = 2)
                  ^^^^^^^^
  hint: write avg_pool(x over H, W, window = 3, stride = 2, padding = 1, dilation = 1)
)"},
      {"x: bf16[N, C, H, W]\ny[N, C, H, W] = max_pool(x over H, W, window = 3)",
       R"(program:2:9: the result has 'H' positions like the input, but the window has H - 2
  y[N, C, H, W] = max_pool(x over H, W, window = 3)
          ^
  hint: padding = 1 keeps the size; another size has another name
)"},
      {"x: bf16[N, C, H, W]\ny[C, N, H, W] = max_pool(x over H, W, window = 3, padding = 1)",
       R"(program:2:3: expected N of 'x', found C
  y[C, N, H, W] = max_pool(x over H, W, window = 3, padding = 1)
    ^
  hint: dimensions without a window stay in their places
)"},
      {"x: bf16[N, C, H, W]\ny[N, C, H] = max_pool(x over H, W, window = 3, padding = 1)",
       R"(program:2:1: expected a result with 4 dimensions, found [N, C, H]
  y[N, C, H] = max_pool(x over H, W, window = 3, padding = 1)
  ^
  hint: the dimensions of the argument, with the number of window positions in place of those with a window
)"},
      {"x: bf16[N, 8, 8, 8]\ny[N, 8, 4, 4] = max_pool(x over 8, 8, window = 2, stride = 2)",
       R"(program:2:33: 'max_pool' has the size 8 twice, and 'x' has it 3 times, so it is unclear which of them match
  y[N, 8, 4, 4] = max_pool(x over 8, 8, window = 2, stride = 2)
                                  ^
  hint: give one of them a name, to distinguish them: dims W = 8
)"},
      {"x: bf16[A, B, C, D]\ny[A, B, C, D] = max_pool(x over A, B, C, D, window = 1)",
       R"(program:2:42: expected at most 3 dimensions with a window, found more
  y[A, B, C, D] = max_pool(x over A, B, C, D, window = 1)
                                           ^
  hint: pool the others in a statement of their own
)"},
      {"x: bf16[N, C, H]  z: bf16[D]\ny[N, C, H] = max_pool(x over D, window = 1)",
       R"(program:2:30: dimension 'D' is not in 'x'[N, C, H]
  y[N, C, H] = max_pool(x over D, window = 1)
                               ^
  hint: name a dimension of its argument
)"},
  };
  expect_rejected(rejects);
}

}  // namespace
}  // namespace ridge

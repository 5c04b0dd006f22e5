// Errors in scans, cumulative sums, chains, einsum strings and groups: rows of program and complete message.
#include "ridge/program/testing/reject.h"

namespace ridge {
namespace {

using testing::expect_rejected;
using testing::RejectedProgram;

TEST(Parse, RejectsInvalidScansAndSequences) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, T]\ny[N, T] = cumsum(x)",
       R"(program:2:11: expected the dimension that cumsum runs over, found none
  y[N, T] = cumsum(x)
            ^^^^^^
  hint: write cumsum(x over T)
)"},
      {"x: bf16[N, T]  z: bf16[S]\ny[N, T] = cumsum(x over S)",
       R"(program:2:25: dimension 'S' is not in 'x'[N, T]
  y[N, T] = cumsum(x over S)
                          ^
  hint: name a dimension of its argument
)"},
      {"x: bf16[N, T]\ny[N] = cumsum(x over T)",
       R"(program:2:15: dimension 'T' of 'x' is not in the result [N]
  y[N] = cumsum(x over T)
                ^
  hint: cumsum keeps every dimension
)"},
      {"x: bf16[N, T]\ny[N, T, S] = cumsum(x over T)",
       R"(program:2:9: dimension 'S' of the result is in no operand
  y[N, T, S] = cumsum(x over T)
          ^
  hint: a dimension of the result comes from an operand
)"},
      {"x: bf16[N, T]  a: bf16[N, T]\nh[N, T] = scan(a * x over T)",
       R"(program:2:18: the body of the scan does not name 'h'
  h[N, T] = scan(a * x over T)
                   ^
  hint: 'h' in it is the result of the previous step; without it no scan is needed
)"},
      {"x: bf16[N, T]  a: bf16[N, T]\nh[N] = scan(a * h + x over T)",
       R"(program:2:28: 'T' is not in the result [N]
  h[N] = scan(a * h + x over T)
                             ^
  hint: the result contains all steps along it
)"},
      {"x: bf16[N, T]  a: bf16[N, T]\nh[N, T] = scan(a * h + x)",
       R"(program:2:25: expected an operator or 'over' and the dimension of the scan, found ')'
  h[N, T] = scan(a * h + x)
                          ^
  hint: write h[N, T] = scan(a * h + x over T)
)"},
      {"x: bf16[N, T]  a: bf16[N, T]\nh[N, T] = scan(a * h + sum(x over N) over T)",
       R"(program:2:24: expected elementwise functions in a scan, found sum over dimensions
  h[N, T] = scan(a * h + sum(x over N) over T)
                         ^^^
  hint: compute functions over dimensions in a statement of their own before the scan
)"},
      {"x: bf16[N, T]  a: bf16[N, T]\nh[N, T] = scan(a * g + x over T)",
       R"(program:2:20: unknown tensor 'g'
  h[N, T] = scan(a * g + x over T)
                     ^
  hint: declare it on a line above: g: bf16[N, D]
)"},
      {"dims S = (3, 0)\nx: bf16[S]  y: bf16[S] = x",
       R"(program:1:14: the length of a sequence must be at least 1, found 0
  dims S = (3, 0)
               ^
  hint: use 1 or more
)"},
      {"x: bf16[S]\ny: bf16[S] = sequence(S) + x",
       R"(program:2:23: 'S' has no sequences
  y: bf16[S] = sequence(S) + x
                        ^
  hint: give it sequence lengths on a line above: dims S = (700, 200, 124)
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsInvalidChainsAndEinsums) {
  constexpr RejectedProgram rejects[] = {
      {"A[M, K] * B[K, N] * C[N, P] -> D[M, P]",
       R"(program:1:3: the best order of a chain depends on sizes, and 'M' has none
  A[M, K] * B[K, N] * C[N, P] -> D[M, P]
    ^
  hint: dims M = 1024 above it, or -d M=1024; or write the products one by one
)"},
      {"dims M = 8, K = 8, N = 8, P = 8\nA[M, K] * B[K, N] * C[N, P] -> D[M, Q]",
       R"(program:2:37: dimension 'Q' of the result is in no operand
  A[M, K] * B[K, N] * C[N, P] -> D[M, Q]
                                      ^
  hint: a dimension of the result comes from an operand
)"},
      {"dims M = 8, K = 8, N = 8, P = 8, L = 2\nA[M, K] * B[K, N, L] * C[N, P] -> D[M, P]",
       R"(program:2:19: dimension 'L' of 'B' appears nowhere else; contracted dimensions must share a name
  A[M, K] * B[K, N, L] * C[N, P] -> D[M, P]
                    ^
  hint: to sum over it alone give the tensor a statement of its own: sum(x over D)
)"},
      {"dims M = 8, K = 8, N = 8, P = 8\nA[M, K] * B[K, N] * C[N, P]",
       R"(program:2:28: expected '*' or '->' and the result, found end of the program
  A[M, K] * B[K, N] * C[N, P]
                             ^
  hint: such as bf16[B, D] * bf16[D, F] -> bf16[B, F]
)"},
      {"'bshd,bthd->bsh",
       R"(program:1:1: expected the end of the einsum string on the same line, found none
  'bshd,bthd->bsh
  ^
  hint: write 'ij,jk->ik'
)"},
      {"'bshd,bthd'",
       R"(program:1:11: expected a letter, ',' or '->' in an einsum string, found '''
  'bshd,bthd'
            ^
  hint: such as 'bshd,bthd->bsht'
)"},
      {"'bshd,->bs'",
       R"(program:1:7: expected the letters of an operand in an einsum string
  'bshd,->bs'
        ^
  hint: such as 'bshd,bthd->bsht'
)"},
      {"'bsbd,bd->bs'",
       R"(program:1:4: dimension 'b' appears twice in one tensor
  'bsbd,bd->bs'
     ^
  hint: diagonals are not supported
)"},
      {"'b...d,bd->bs'",
       R"(program:1:3: expected a letter, ',' or '->' in an einsum string, found '.'
  'b...d,bd->bs'
    ^
  hint: every dimension has a letter of its own
)"},
      {"'bs,sd->bdx'",
       R"(program:1:11: dimension 'x' of the result is in neither operand
  'bs,sd->bdx'
            ^
  hint: a dimension of the result comes from an operand
)"},
      {"'bs,sd->bd!'",
       R"(program:1:11: expected a letter or the end of the einsum string, found '!'
  'bs,sd->bd!'
            ^
  hint: such as 'bshd,bthd->bsht'
)"},
      {"'bs,sd->bd' x",
       R"(program:1:13: expected the end of the line, found 'x'
  'bs,sd->bd' x
              ^
  hint: an einsum string is a statement of its own
)"},
      {"'bsx,sd->bd'",
       R"(program:1:4: dimension 'x' of 'X' appears nowhere else; contracted dimensions must share a name
  'bsx,sd->bd'
     ^
  hint: to sum over it alone give X a statement of its own: sum(X over x)
)"},
      {"dims H = 8, G = H/2\nq: bf16[H, E]  k: bf16[G, E]\ns[H, E] = q * k",
       R"(program:3:11: 'G' instead of 'H' needs a product that sums
  s[H, E] = q * k
            ^
  hint: an expression has the same dimensions in all its operands
)"},
      {"dims H = 8, G = H/2\nq: bf16[H, E]  k: bf16[G, E]\ns[H] = q + k",
       R"(program:3:8: dimension 'E' of 'q' is not in the result s[H]
  s[H] = q + k
         ^
  hint: sum(q over E) leaves it out; a contraction is a statement of its own, t[N, F] = a * b
)"},
  };
  expect_rejected(rejects);
}

}  // namespace
}  // namespace ridge

// Errors in gather, scatter and routing: rows of program and complete message.
#include "ridge/program/testing/reject.h"

namespace ridge {
namespace {

using testing::expect_rejected;
using testing::RejectedProgram;

TEST(Parse, RejectsInvalidIndices) {
  constexpr RejectedProgram rejects[] = {
      {"t: bf16[V, D]  i: bf16[N]\ny[N, D] = gather(t, i over V)",
       R"(program:2:21: expected indices in an integer dtype, found 'i', which is bf16
  y[N, D] = gather(t, i over V)
                      ^
  hint: declare i: int32[N]
)"},
      {"t: bf16[V, D]  i: int32[N]\ny[N, D] = gather(t, i)",
       R"(program:2:11: expected the dimension that gather runs over, found none
  y[N, D] = gather(t, i)
            ^^^^^^
  hint: write gather(table, ids over V)
)"},
      {"t: bf16[V, D]  i: int32[N]\ny[N, D] = gather(t over V)",
       R"(program:2:11: expected 2 tensors in gather, found 1
  y[N, D] = gather(t over V)
            ^^^^^^
  hint: write gather(table, ids over V)
)"},
      {"t: bf16[V, D]  i: int32[N]\ny[N, D] = gather(t, i over N)",
       R"(program:2:21: dimension 'N' of 'i' is the one that gather runs over
  y[N, D] = gather(t, i over N)
                      ^
  hint: the indices must have other dimensions than the one they index
)"},
      {"t: bf16[V, D]  i: int32[N]\ny[N, D, V] = gather(t, i over V)",
       R"(program:2:31: dimension 'V' is still in the result [N, D, V]
  y[N, D, V] = gather(t, i over V)
                                ^
  hint: write gather(table, ids over V)
)"},
      {"t: bf16[V, D]  i: int32[N]\ny[N] = gather(t, i over V)",
       R"(program:2:15: dimension 'D' of 't' is not in the result [N]
  y[N] = gather(t, i over V)
                ^
  hint: the result has the dimensions of the indices and of a row
)"},
      {"t: bf16[V, D]  i: int32[N]\ny[N, D, E] = gather(t, i over V)",
       R"(program:2:9: dimension 'E' of the result is in no operand
  y[N, D, E] = gather(t, i over V)
          ^
  hint: a dimension of the result comes from an operand
)"},
      {"t: bf16[V, D]  i: int32[N]\ny[N, D] = gather(t, i over V, D)",
       R"(program:2:29: expected one dimension that gather runs over, found several
  y[N, D] = gather(t, i over V, D)
                              ^
  hint: write gather(table, ids over V)
)"},
      {"t: bf16[V, D]  i: int32[N]\ny[N, D] = gather(t, i over E)",
       R"(program:2:28: unknown dimension 'E'
  y[N, D] = gather(t, i over E)
                             ^
  hint: use a dimension of a tensor
)"},
      {"t: bf16[V, D]  i: int32[N]\ny[N, D] = gather(u, i over V)",
       R"(program:2:18: unknown tensor 'u'
  y[N, D] = gather(u, i over V)
                   ^
  hint: declare it on a line above: u: bf16[N, D]
)"},
      {"t: bf16[V, D]  i: int32[N]\ny[N, D] = gathr(t, i)",
       R"(program:2:11: unknown function 'gathr'
  y[N, D] = gathr(t, i)
            ^^^^^
  hint: did you mean 'gather'?
)"},
      {"x: bf16[N, D]  i: int32[N]\ny[D] = scatter(x, i over V)",
       R"(program:2:26: unknown dimension 'V'
  y[D] = scatter(x, i over V)
                           ^
  hint: use a dimension of a tensor
)"},
      {"x: bf16[N, D]  i: int32[N]  t: bf16[V]\ny[D] = scatter(x, i over V)",
       R"(program:2:26: dimension 'V' is not in the result [D]
  y[D] = scatter(x, i over V)
                           ^
  hint: write scatter(x, ids over V)
)"},
      {"x: bf16[N, D]  i: int32[M]  t: bf16[V]\ny[V, D] = scatter(x, i over V)",
       R"(program:2:22: dimension 'M' of 'i' is not in 'x'[N, D]
  y[V, D] = scatter(x, i over V)
                       ^
  hint: each row that is scattered has an index
)"},
      {"x: bf16[N, D, V]  i: int32[N]\ny[V, D] = scatter(x, i over V)",
       R"(program:2:29: dimension 'V' is still in 'x'[N, D, V]
  y[V, D] = scatter(x, i over V)
                              ^
  hint: write scatter(x, ids over V)
)"},
      {"x: bf16[N, D]  i: int32[N]  t: bf16[V]\ny[V] = scatter(x, i over V)",
       R"(program:2:16: dimension 'D' of 'x' is not in the result [V]
  y[V] = scatter(x, i over V)
                 ^
  hint: the result has the dimensions of a row, and the one that is scattered over
)"},
      {"x: bf16[N, D]  i: int32[N]  t: bf16[V]\ny[V, D, E] = scatter(x, i over V)",
       R"(program:2:9: dimension 'E' of the result is in no operand
  y[V, D, E] = scatter(x, i over V)
          ^
  hint: a dimension of the result comes from an operand
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsInvalidRouting) {
  constexpr RejectedProgram rejects[] = {
      {"p: bf16[N, E]\ni[N, E] = topk(p over E)",
       R"(program:2:1: expected a result with one dimension instead of E, found [N, E]
  i[N, E] = topk(p over E)
  ^
  hint: write i[N, 2] = topk(p over E)
)"},
      {"p: bf16[N, E]\ni: bf16[N, 2] = topk(p over E)",
       R"(program:2:4: expected indices in an integer dtype, found bf16
  i: bf16[N, 2] = topk(p over E)
     ^^^^
  hint: write i: int32[N, 2]
)"},
      {"p: bf16[N, E]\ni[N, 2, 3] = topk(p over E)",
       R"(program:2:1: expected a result with one dimension instead of E, found [N, 2, 3]
  i[N, 2, 3] = topk(p over E)
  ^
  hint: write i[N, 2] = topk(p over E)
)"},
      {"p: bf16[N, E]\ni[2] = topk(p over E)",
       R"(program:2:13: dimension 'N' of 'p' is not in the result [2]
  i[2] = topk(p over E)
              ^
  hint: write i[N, 2] = topk(p over E)
)"},
      {"x: bf16[N, D]  w: bf16[E, F, D]  i: int32[N, 2]\nu[N, 2, F] = routed(x, w, i over F)",
       R"(program:2:1: dimension 'F' is in the result[N, 2, F], too
  u[N, 2, F] = routed(x, w, i over F)
  ^
  hint: the indices replace the dimension of the experts
)"},
      {"x: bf16[N, D]  w: bf16[E, F, D]  i: bf16[N, 2]\nu[N, 2, F] = routed(x, w, i over E)",
       R"(program:2:27: expected indices in an integer dtype, found 'i', which is bf16
  u[N, 2, F] = routed(x, w, i over E)
                            ^
  hint: declare i: int32[N, 2]
)"},
      {"x: bf16[N, D]  w: bf16[E, F, D]  i: int32[N, 2]\nu[N, F] = routed(x, w, i over E)",
       R"(program:2:24: size 2 of 'i' is not in the result [N, F]
  u[N, F] = routed(x, w, i over E)
                         ^
  hint: each row and each of its experts has a result; sum them in a statement of their own
)"},
      {"x: bf16[N, G]  w: bf16[E, F, D]  i: int32[N, 2]\nu[N, 2, F] = routed(x, w, i over E)",
       R"(program:2:21: dimension 'G' of 'x' appears nowhere else; contracted dimensions must share a name
  u[N, 2, F] = routed(x, w, i over E)
                      ^
  hint: write u[N, 2, F] = routed(x, w, i over E)
)"},
      {"x: bf16[N, D]  w: bf16[8, F, D]  i: int32[N, 2]\nu[N, 2, F] = routed(x, w, i over 8, loads = (1, 2))",
       R"(program:2:34: expected a dimension, found '8'
  u[N, 2, F] = routed(x, w, i over 8, loads = (1, 2))
                                   ^
  hint: write routed(x, w, i over E)
)"},
      {"x: bf16[N, D]  w: bf16[E, F, D]  i: int32[N, 2]\nu[N, 2, F] = routed(x, w, i over E, load = (1, 2))",
       R"(program:2:37: routed has no option 'load'
  u[N, 2, F] = routed(x, w, i over E, load = (1, 2))
                                      ^^^^
  hint: did you mean 'loads'?
)"},
      {"x: bf16[N, D]  w: bf16[E, F, D]  i: int32[N, 2]\nu[N, 2, F] = routed(x, w, i over E, capacity = 0)",
       R"(program:2:48: the capacity must be at least 1, found 0
  u[N, 2, F] = routed(x, w, i over E, capacity = 0)
                                                 ^
  hint: use 1 or more
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, RejectsInvalidOrders) {
  constexpr RejectedProgram rejects[] = {
      {"p: bf16[N, E]\ni[N, 1, E] = argmax(p over E)",
       R"(program:2:1: expected a result with the dimensions of 'p'[N, E] without E, found [N, 1, E]
  i[N, 1, E] = argmax(p over E)
  ^
  hint: write i[N] = argmax(p over E); topk gives the indices of several elements
)"},
      {"p: bf16[N, M, E]\ni[N] = argmax(p over E)",
       R"(program:2:1: expected a result with the dimensions of 'p'[N, M, E] without E, found [N]
  i[N] = argmax(p over E)
  ^
  hint: write i[N] = argmax(p over E); topk gives the indices of several elements
)"},
      {"p: bf16[N, E]  x: bf16[D]\ni[N] = argmax(p over D)",
       R"(program:2:22: dimension 'D' is not in 'p'[N, E]
  i[N] = argmax(p over D)
                       ^
  hint: name a dimension of its argument
)"},
      {"p: bf16[N, E]\ni: bf16[N] = argmax(p over E)",
       R"(program:2:4: expected indices in an integer dtype, found bf16
  i: bf16[N] = argmax(p over E)
     ^^^^
  hint: write i: int32[N]
)"},
      {"p: bf16[N, E]\ni: f32[N, E] = argsort(p over E)",
       R"(program:2:4: expected indices in an integer dtype, found f32
  i: f32[N, E] = argsort(p over E)
     ^^^
  hint: write i: int32[N, E]
)"},
      {"p: bf16[N, E]\ns[N, E] = sort(p over E, descending = 2)",
       R"(program:2:39: expected 0 or 1 after descending =, found '2'
  s[N, E] = sort(p over E, descending = 2)
                                        ^
  hint: 1 means yes, 0 no
)"},
      {"p: bf16[N, E]\ns[N, E] = sort(p over N, E)",
       R"(program:2:24: expected one dimension that sort runs over, found several
  s[N, E] = sort(p over N, E)
                         ^
  hint: write sort(x over D, descending = 1)
)"},
      {"q: bf16[S, H, D]  t: int32[S, D]\nr[S, H, D] = rotary(q, t over D)",
       R"(program:2:24: expected positions with dimensions of 'q'[S, H, D] other than D, found 't'[S, D]
  r[S, H, D] = rotary(q, t over D)
                         ^
  hint: each element has one position: t: int32[S]
)"},
  };
  expect_rejected(rejects);
}

}  // namespace
}  // namespace ridge

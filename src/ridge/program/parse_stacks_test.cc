// Stacked inputs: meaning, printed form and all error messages.
#include "ridge/program/testing/reject.h"
#include "ridge/program/testing/round_trip.h"

namespace ridge {
namespace {

using testing::expect_rejected;
using testing::RejectedProgram;
using testing::round_trip_error;

constexpr const char* layer =
    "dims N = 6, D = 8, F = 4*D\n"
    "x: bf16[N, D]   w: f16[2*F, D]   b[F + F]\n"
    "up[F, D] = w[0:F]\n"
    "gate: f16[F, D] = w[F:2*F]  # the second half\n"
    "bu[F] = b[0:F]\nbg[F] = b[F:2*F]\n"
    "u[N, F] = x * up\ng[N, F] = x * gate\ny: bf16[N, F] = (u + bu) * gelu(g + bg)";

TEST(StackedInput, HasPartsAndIsNoTensor) {
  const auto program = parse(layer);
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  ASSERT_EQ(program->stacks.size(), 2u);
  const StackedInput& w = program->stacks[0];
  EXPECT_EQ(w.name, "w");
  EXPECT_EQ(w.dtype, DType::f16);
  EXPECT_EQ(w.rows, Polynomial(2) * Polynomial::make_symbol("F"));
  ASSERT_EQ(w.parts.size(), 2u);
  EXPECT_EQ(program->stacks[1].dtype, DType::bf16);
  for (const char* name : {"up", "gate"}) {
    const std::size_t i = w.parts[name[0] == 'g'];
    const Tensor& part = program->tensors[i];
    EXPECT_EQ(part.name, name);
    EXPECT_EQ(part.dtype, DType::f16);
    EXPECT_EQ(part.role, TensorRole::input);
    EXPECT_EQ(stack_of(*program, static_cast<int>(i)), &w);
  }
  EXPECT_EQ(stack_of(*program, 0), nullptr);  // x
  for (const Tensor& tensor : program->tensors) EXPECT_TRUE(tensor.name != "w" && tensor.name != "b");
}

TEST(StackedInput, PrintsAsItIsRead) {
  EXPECT_EQ(print_program(*parse(layer)),
            "dims N = 6, D = 8, F = 4*D\nx: bf16[N, D]\nw: f16[2*F, D]\nup: f16[F, D] = w[0:F]\n"
            "gate: f16[F, D] = w[F:2*F]\nb: bf16[2*F]\nbu: bf16[F] = b[0:F]\nbg: bf16[F] = b[F:2*F]\n"
            "u[N, F] = x * up\ng[N, F] = x * gate\ny: bf16[N, F] = (u + bu) * gelu(g + bg)\n");
  for (const char* text : {layer,
                           "b: f32[G + 3]   w: f32[G + 2*F, D]\nc[G, D] = w[0:G]\nq[G] = b[0:G]\n"
                           "d[F, D] = w[G:G + F]\nr[3] = b[G:G + 3]\ne[F, D] = w[G + F:G + 2*F]\n"
                           "y[G, F] = c * d\nz: f32[F] = sum(e over D)"})
    EXPECT_EQ(round_trip_error(text), "") << text;
}

TEST(StackedInput, RejectsInvalidParts) {
  constexpr RejectedProgram rejects[] = {
      {"w: bf16[2*F, D]\nup[F, D] = w[F:2*F]\ny[F, D] = cos(up)",
       R"(program:2:1: expected the part of 'w' that begins at 0, found one at F
  up[F, D] = w[F:2*F]
  ^^
  hint: name the parts in order, each starting where the previous one ends
)"},
      {"w: bf16[2*F, D]\nup[F, D] = w[0:F]\ngate[F, D] = w[0:F]\ny[F, D] = up * gate",
       R"(program:3:1: expected the part of 'w' that begins at F, found one at 0
  gate[F, D] = w[0:F]
  ^^^^
  hint: name the parts in order, each starting where the previous one ends
)"},
      {"w: bf16[2*F, D]\nup[F, D] = w[0:2*F]\ny[F, D] = cos(up)",
       R"(program:2:3: 'up' has F rows, w[0:2*F] has 2*F
  up[F, D] = w[0:2*F]
    ^
  hint: the leading size of a part is its end minus its begin
)"},
      {"w: bf16[2*F, D]\nup[D, F] = w[0:F]\ny[F, D] = cos(up)",
       R"(program:2:3: 'up' has D rows, w[0:F] has F
  up[D, F] = w[0:F]
    ^
  hint: the leading size of a part is its end minus its begin
)"},
      {"w: bf16[2*F, D]\nup[F] = w[0:F]\ny[F] = cos(up)",
       R"(program:2:3: expected the sizes of 'w' after the first, found [F]
  up[F] = w[0:F]
    ^
  hint: a part has complete rows: [F, D]
)"},
      {"b: bf16[2*F]\nup[F, D] = b[0:F]\ny[F, D] = cos(up)",
       R"(program:2:3: expected the sizes of 'b' after the first, found [F, D]
  up[F, D] = b[0:F]
    ^
  hint: a part has complete rows: [F]
)"},
      {"w: bf16[2*F, D]\nup[F, E] = w[0:F]\ny[F, E] = cos(up)",
       R"(program:2:3: expected the sizes of 'w' after the first, found [F, E]
  up[F, E] = w[0:F]
    ^
  hint: a part has complete rows: [F, D]
)"},
      {"w: bf16[2*F, 8, D]\nup[F, D, 8] = w[0:F]\ny[F, D, 8] = cos(up)",
       R"(program:2:3: expected the sizes of 'w' after the first, found [F, D, 8]
  up[F, D, 8] = w[0:F]
    ^
  hint: a part has complete rows: [F, 8, D]
)"},
      {"w: bf16[2*F, D]\nup: f32[F, D] = w[0:F]\ny[F, D] = cos(up)",
       R"(program:2:5: 'up' is f32, a part of 'w' is bf16
  up: f32[F, D] = w[0:F]
      ^^^
  hint: a part has the dtype of the full input; it may be omitted
)"},
      {"w: bf16[2*F, D]\nup[F, D_X] = w[0:F]\ny[F, D_X] = cos(up)",
       R"(program:2:3: 'up' is a part of 'w' and cannot be split over devices
  up[F, D_X] = w[0:F]
    ^
  hint: declare each part as an input of its own
)"},
      {"w: bf16[2*F, D]\nup[F, D] = w[0:F]\ny[F, D] = cos(up)",
       R"(program:1:1: expected parts of 'w' up to its end at 2*F, found them up to F
  w: bf16[2*F, D]
  ^
  hint: name parts for all rows, or correct the size
)"},
      {"w: bf16[2*F, D]\nx: f32[N]\ny[N] = cos(x)",
       R"(program:1:1: 'w' has the computed size 2*F, and no part of it is named
  w: bf16[2*F, D]
  ^
  hint: name its parts, up[F, D] = w[0:F]; or the size, dims G = 2*F
)"},
      {"w: bf16[2*F, D]\nup[F, D] = w[0:F] * 2\ny[F, D] = cos(up)",
       R"(program:2:19: expected the end of the line, found '*'
  up[F, D] = w[0:F] * 2
                    ^
  hint: a part ends its line
)"},
      {"w: bf16[2*F, D]\nup[F, D] = w[0 F]",
       R"(program:2:12: 'w' is read in parts
  up[F, D] = w[0 F]
             ^
  hint: name them first: up[F, D] = w[0:F]
)"},
      {"w: bf16[2*F, D]\nup[F, D] = w[0:]",
       R"(program:2:16: expected a size, found ']'
  up[F, D] = w[0:]
                 ^
  hint: such as 8192, 4*D or D + 1
)"},
      {"w: bf16[2*F, D]\nup[F, D] = w[:F]",
       R"(program:2:14: expected a size, found ':'
  up[F, D] = w[:F]
               ^
  hint: such as 8192, 4*D or D + 1
)"},
      {"w: bf16[2*F, D]\nup[F, D] = w[0:F, 0:D]",
       R"(program:2:17: expected ']', found ','
  up[F, D] = w[0:F, 0:D]
                  ^
  hint: a part has complete rows
)"},
      {"w: bf16[2*F, D]\nw[F, D] = w[0:F]",
       R"(program:2:1: tensor 'w' is declared twice
  w[F, D] = w[0:F]
  ^
  hint: use another name
)"},
  };
  expect_rejected(rejects);
}

TEST(StackedInput, IsReadInPartsOnly) {
  constexpr RejectedProgram rejects[] = {
      {"w: bf16[2*F, D]\nup[F, D] = w[0:F]\ngate[F, D] = w[F:2*F]\ny[F, D] = cos(w)",
       R"(program:4:15: 'w' is read in parts
  y[F, D] = cos(w)
                ^
  hint: use up or gate
)"},
      {"w: bf16[2*F, D]\ny[F, D] = cos(w)",
       R"(program:2:15: 'w' is read in parts
  y[F, D] = cos(w)
                ^
  hint: name them first: up[F, D] = w[0:F]
)"},
      {"w: bf16[2*F, D]\nup[F, D] = w[0:F]\nw * x -> y: bf16[F, D], bf16[D, N] -> bf16[F, N]",
       R"(program:3:1: 'w' is read in parts
  w * x -> y: bf16[F, D], bf16[D, N] -> bf16[F, N]
  ^
  hint: use up
)"},
      {"w: bf16[2*F, D]\nup[F, D] = w[0:F]\nx[N, D] * up[F, D] -> w[N, F]",
       R"(program:3:23: tensor 'w' exists already; a tensor is written only once
  x[N, D] * up[F, D] -> w[N, F]
                        ^
  hint: use another name; an output is declared where it is written: y: bf16[N, F] = …
)"},
      {"w: bf16[2*F, D]\nw: bf16[F, D]",
       R"(program:2:1: tensor 'w' is declared twice
  w: bf16[F, D]
  ^
  hint: use another name
)"},
      {"w: bf16[F, D]\nw: bf16[2*F, D]",
       R"(program:2:1: tensor 'w' is declared twice
  w: bf16[2*F, D]
  ^
  hint: use another name
)"},
      {"up[F, D] = w[0:F]\nw: bf16[2*F, D]",
       R"(program:1:12: tensor 'w' is used before it is declared or written
  up[F, D] = w[0:F]
             ^
  hint: move its line up
)"},
      {"w: f32[(N)]\nv[N] = w[0:N]\ny[N] = cos(v)",
       R"(program:1:4: expected a computed size, found one equal to N
  w: f32[(N)]
     ^^^
  hint: an input in parts has more rows than a part: 2*F, or F + G
)"},
      {"w: f32[4 + 4]\nv[4] = w[0:4]\nu[4] = w[4:8]\ny[4] = u + v",
       R"(program:1:4: expected a computed size, found one equal to 8
  w: f32[4 + 4]
     ^^^
  hint: an input in parts has more rows than a part: 2*F, or F + G
)"},
      {"up[F, D] = v[0:F]",
       R"(program:1:12: unknown tensor 'v'
  up[F, D] = v[0:F]
             ^
  hint: declare it on a line above: v: bf16[N, D]
)"},
      {"x: bf16[G, D]\nup[F, D] = x[0:F]",
       R"(program:2:12: expected an input whose leading size is computed, found 'x', which is [G, D]
  up[F, D] = x[0:F]
             ^
  hint: declare w: bf16[2*F, D]; then up[F, D] = w[0:F] are its first F rows
)"},
      {"x: bf16[G, D]\nh[G, D] = cos(x)\nup[F, D] = h[0:F]",
       R"(program:3:12: expected an input, found 'h', which the program writes
  up[F, D] = h[0:F]
             ^
  hint: only inputs have parts; split the weights and write a product for each part
)"},
      {"x: bf16[N]\ny[2*N] = x",
       R"(program:2:2: expected a dimension, found the computed size 2*N
  y[2*N] = x
   ^
  hint: a computed size has a name: dims G = 2*N
)"},
      {"w: bf16[2*F, D_X]\nup[F, D] = w[0:F]",
       R"(program:1:4: 'w' is read in parts and cannot be split over devices
  w: bf16[2*F, D_X]
     ^^^^
  hint: declare each part as an input of its own
)"},
      {"w: bf16[2*F, D]{U_X}\nup[F, D] = w[0:F]",
       R"(program:1:4: 'w' is read in parts and cannot be split over devices
  w: bf16[2*F, D]{U_X}
     ^^^^
  hint: declare each part as an input of its own
)"},
      {"w: bf16[2*F D]\nup[F, D] = w[0:F]",
       R"(program:1:13: expected an operator, ',' or ']', found 'D'
  w: bf16[2*F D]
              ^
)"},
      {"w: bf16[2*F, 2*D]\nup[F, D] = w[0:F]",
       R"(program:1:15: expected ',' or ']', found '*'
  w: bf16[2*F, 2*D]
                ^
  hint: close the bracket; a computed size has a name: dims F = 4*D
)"},
      {"w: bf16[D/2, D]\nup[F, D] = w[0:F]",
       R"(program:1:10: expected ',' or ']', found '/'
  w: bf16[D/2, D]
           ^
  hint: close the bracket; a computed size has a name: dims F = 4*D
)"},
      {"A[2*B, D] * B[D, F] -> C[B, F]",
       R"(program:1:11: expected another declaration or the end of the line, found '*'
  A[2*B, D] * B[D, F] -> C[B, F]
            ^
  hint: a computed size has a name: dims G = 2*B
)"},
  };
  expect_rejected(rejects);
}

TEST(StackedInput, RejectsInvalidSyntax) {
  const auto message = [](const std::string& text) {
    const auto program = parse(text);
    return program ? "accepted" : program.error().to_string().substr(0, program.error().to_string().find('\n'));
  };
  EXPECT_EQ(message("x: f32[-3]\ny[N] = cos(x)"), "program:1:8: expected a dimension, found '-'");
  EXPECT_EQ(message("x: f32[-N]\ny[N] = cos(x)"), "program:1:8: expected a dimension, found '-'");
  EXPECT_EQ(message("w: f32[3 - N]\nv[N] = w[0:N]\ny[N] = cos(v)"),
            "program:1:1: expected parts of 'w' up to its end at -N + 3, found them up to N");
  EXPECT_EQ(message("x: f32[(N)*2, D]\nv[N, D] = x[0:N]\nu[N, D] = x[N:2*N]\ny[N, D] = u + v"), "accepted");
  EXPECT_EQ(message("w: f32[2*F]_F\nup[F] = w[0:F]\ny[F] = cos(up)"),
            "program:1:12: expected no suffix here, found '_F'");
  EXPECT_EQ(message("w: f32[2*F]\nw: f32[3*F]\nup[F] = w[0:F]\ny[F] = cos(up)"),
            "program:2:1: tensor 'w' is declared twice");
  EXPECT_EQ(message("w: f32[2*F]\nx: f32[F]\nx[F] = w[0:F]\ny[F] = cos(x)"),
            "program:3:1: tensor 'x' is declared twice");
  EXPECT_EQ(message("v: f32[2*F]\nw: f32[2*F]\nv[F] = w[0:F]\ny[F] = cos(v)"),
            "program:3:1: tensor 'v' is declared twice");
  EXPECT_EQ(message("up[F] = q[0:F]\ny[F] = cos(up)"), "program:1:9: unknown tensor 'q'");
  EXPECT_EQ(message("w: f32[2*F]\nup[F] = w[0:F\ny[F] = cos(up)"),
            "program:2:10: expected ']' for this '[', found end of line");
  EXPECT_EQ(message("w: f32[2*F]\nup[F] = w[0:F)\ny[F] = cos(up)"),
            "program:2:14: expected an operator or ']', found ')'");
  EXPECT_EQ(message("x: f32[N, 2]\ny[N] = sum(x over 2) + 3:4"),
            "program:2:25: expected an operator or the end of the line, found ':'");
}

TEST(StackedInput, AreAtMost256) {
  const auto message = [](int stacks) {
    std::string text;
    for (int i = 0; i < stacks; ++i) {
      const std::string n = std::to_string(i);
      text += "w" + n + ": f32[2*F]\na" + n + "[F] = w" + n + "[0:F]\nb" + n + "[F] = w" + n + "[F:2*F]\n";
    }
    const auto program = parse(text + "y[F] = a0 + b0");
    return program ? "accepted" : program.error().message;
  };
  EXPECT_EQ(message(256), "accepted");
  EXPECT_EQ(message(257), "expected at most 256 inputs that are read in parts");
}

TEST(StackedInput, HasAtMostSixteenParts) {
  std::string text = "w: f32[17*F]\n";
  for (int i = 0; i < 17; ++i)
    text += "p" + std::to_string(i) + "[F] = w[" + std::to_string(i) + "*F:" + std::to_string(i + 1) + "*F]\n";
  EXPECT_EQ(parse(text + "y[F] = p0 + p16").error().message, "expected at most 16 parts of 'w'");
}

}  // namespace
}  // namespace ridge

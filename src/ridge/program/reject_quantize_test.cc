// Errors in block-scaled formats: rows of program and complete message.
#include <fmt/format.h>

#include "ridge/program/testing/reject.h"
#include "ridge/program/testing/round_trip.h"

namespace ridge {
namespace {

using testing::expect_rejected;
using testing::RejectedProgram;

TEST(Parse, RejectsInvalidQuantize) {
  constexpr RejectedProgram rejects[] = {
      {"x: bf16[N, D]\nq[N, D] = quantize(x, bf16)",
       R"(program:2:23: expected a format with block scales, found 'bf16'
  q[N, D] = quantize(x, bf16)
                        ^^^^
  hint: e4m3 with block = 128, int4 or u4 with block = 32, 64 or 128, mxfp8, mxfp4 or nvfp4; without scales it is a result with that dtype, y: e4m3[N] = x
)"},
      {"x: bf16[N, D]\nq[N, D] = quantize(x, e4m3)",
       R"(program:2:23: expected a block after e4m3, found none
  q[N, D] = quantize(x, e4m3)
                        ^^^^
  hint: block = 128; mxfp8 is e4m3 in blocks of 32, and without scales it is y: e4m3[N] = x
)"},
      {"x: bf16[N, D]\nq[N, D] = quantize(x, e4m3, block = 64)",
       R"(program:2:37: expected a block of 128, found 64
  q[N, D] = quantize(x, e4m3, block = 64)
                                      ^^
  hint: mxfp8 is e4m3 in blocks of 32 with scales of 8 bits
)"},
      {"x: bf16[N, D]\nq[N, D] = quantize(x, u4)",
       R"(program:2:23: expected a block after u4, found none
  q[N, D] = quantize(x, u4)
                        ^^
  hint: block = 32, 64 or 128
)"},
      {"x: bf16[N, D]\nq[N, D] = quantize(x, int4, block = 16)",
       R"(program:2:37: expected a block of 32, 64 or 128, found 16
  q[N, D] = quantize(x, int4, block = 16)
                                      ^^
  hint: nvfp4 has blocks of 16; write quantize(x, int4, block = 128)
)"},
      {"x: bf16[N, D]\nq[N, D] = quantize(x, u4, group = 64)",
       R"(program:2:27: expected block = 32, 64 or 128, found 'group'
  q[N, D] = quantize(x, u4, group = 64)
                            ^^^^^
  hint: write quantize(x, u4, block = 128) or quantize(x, mxfp4)
)"},
      {"x: bf16[N, D]\nq[N, D] = quantize(x, int4_64, block = 32)",
       R"(program:2:32: int4_64 has blocks of 64 already
  q[N, D] = quantize(x, int4_64, block = 32)
                                 ^^^^^
  hint: leave the block out
)"},
      {"x: bf16[N, D]\nq[N, D] = quantize(x, int4_64, 32)",
       R"(program:2:32: expected ')' after int4_64, found '32'
  q[N, D] = quantize(x, int4_64, 32)
                                 ^^
  hint: write quantize(x, e4m3, block = 128) or quantize(x, mxfp4)
)"},
      {"x: bf16[N, D]\nq: u4[N, D] = quantize(x, u4, block = 64)",
       R"(program:2:4: expected a dtype, found 'u4', which needs a block
  q: u4[N, D] = quantize(x, u4, block = 64)
     ^^
  hint: u4_32, u4_64 and u4_128 share a scale and a zero point among 32, 64 or 128 elements
)"},
      {"x: bf16[N, D]\nq: int4_64[N, D] = quantize(x, u4, block = 64)",
       R"(program:2:1: quantize produces u4_64 here, 'q' is declared int4_64
  q: int4_64[N, D] = quantize(x, u4, block = 64)
  ^
  hint: leave the dtype out, or write u4_64
)"},
      {"x: bf16[N, D]\nq[N, D] = quantize(x, mxfp4, block = 32)",
       R"(program:2:30: mxfp4 has blocks of 32 already
  q[N, D] = quantize(x, mxfp4, block = 32)
                               ^^^^^
  hint: leave the block out
)"},
      {"x: bf16[N, D]\nq[N, D] = quantize(x, e4m3, blocks = 32)",
       R"(program:2:29: expected block = 128, found 'blocks'
  q[N, D] = quantize(x, e4m3, blocks = 32)
                              ^^^^^^
  hint: write quantize(x, e4m3, block = 128) or quantize(x, mxfp4)
)"},
      {"x: bf16[N, D]\nq[N, D] = quantize(x)",
       R"(program:2:21: expected ',' and a format, found ')'
  q[N, D] = quantize(x)
                      ^
  hint: write quantize(x, e4m3, block = 128) or quantize(x, mxfp4)
)"},
      {"x: int8[N, D]\nq[N, D] = quantize(x, mxfp4)",
       R"(program:2:20: expected floating point without scales in quantize, found 'x', which is int8
  q[N, D] = quantize(x, mxfp4)
                     ^
  hint: quantize the tensor that it was computed from
)"},
      {"x: bf16[N, D]\nq: mxfp8[N, D] = quantize(x, mxfp4)",
       R"(program:2:1: quantize produces mxfp4 here, 'q' is declared mxfp8
  q: mxfp8[N, D] = quantize(x, mxfp4)
  ^
  hint: leave the dtype out, or write mxfp4
)"},
      {"x: bf16[N, D]\nq[D, N] = quantize(x, mxfp4)",
       R"(program:2:1: blocks are along dimension 'D', the last dimension of 'x'[N, D], not along the result's last dimension
  q[D, N] = quantize(x, mxfp4)
  ^
  hint: give the result the same last dimension
)"},
      {"x: bf16[N, D]\nq[N] = quantize(x, mxfp4)",
       R"(program:2:17: dimension 'D' of 'x' is not in the result [N]
  q[N] = quantize(x, mxfp4)
                  ^
  hint: quantize keeps every dimension
)"},
      {"x: bf16[N, D]  w: bf16[F, D]\ny: mxfp4[N, F] = x * w",
       R"(program:2:1: 'y' is mxfp4, whose scales only quantize can compute
  y: mxfp4[N, F] = x * w
  ^
  hint: store it as bf16, and quantize that in a statement of its own
)"},
  };
  expect_rejected(rejects);
}

TEST(Parse, ReadsFormatsWithBlockScales) {
  const std::string text =
      "dims N = 4, D = 256, F = 64\nx: bf16[N, D]   w: nvfp4[F, D]   b: e4m3_128[F, D]\n"
      "q[N, D] = quantize(x, e4m3, block = 128)\nt[N, D] = quantize(x, mxfp4)\nu[N, F] = q * w\ny: bf16[N, F] = t * b";
  const auto program = parse(text);
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  const auto dtype = [&](const std::string& called) {
    for (const Tensor& t : program->tensors)
      if (t.name == called) return std::string(dtype_name(t.dtype));
    return std::string();
  };
  EXPECT_EQ(dtype("q"), "e4m3_128");
  EXPECT_EQ(dtype("t"), "mxfp4");
  EXPECT_EQ(dtype("u"), "bf16");  // only quantize produces scales
  EXPECT_EQ(testing::round_trip_error(text), "");
}

TEST(Parse, ReadsIntegersWithBlockScales) {
  const std::string text =
      "dims N = 4, D = 256, F = 64\nx: bf16[N, D]   w: u4_64[F, D]\n"
      "a[N, D] = quantize(x, int4, block = 32)\nb[N, D] = quantize(x, u4, block = 128)\n"
      "c[N, D] = quantize(x, int4_64)\nd: u4_32[N, D] = quantize(x, u4, block = 32)\ny[N, F] = a * w";
  const auto program = parse(text);
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  std::string found;
  for (const Tensor& t : program->tensors) found += fmt::format("{}:{} ", t.name, dtype_name(t.dtype));
  EXPECT_EQ(found, "x:bf16 w:u4_64 a:int4_32 b:u4_128 c:int4_64 d:u4_32 y:bf16 ");
  EXPECT_EQ(testing::round_trip_error(text), "");
  EXPECT_NE(print_program(*program).find("c[N, D] = quantize(x, int4, block = 64)"), std::string::npos)
      << print_program(*program);
}

TEST(Bind, BlocksDivideTheLastDimension) {
  const auto refusal = [](const std::string& text, const Bindings& given) {
    const auto dims = parse(text).value().bind_sizes(given);
    return dims ? std::string("accepted") : dims.error().to_string();
  };
  EXPECT_EQ(refusal("w: mxfp4[F, D]\ny: bf16[F] = sum(w over D)", {{"F", 5}, {"D", 64}}), "accepted");
  EXPECT_EQ(refusal("w: mxfp4[F, D]\ny: bf16[F] = sum(w over D)", {{"F", 64}, {"D", 48}}),
            R"(program:1:1: 'w' is mxfp4, whose blocks of 32 do not divide the 48 elements along D
  w: mxfp4[F, D]
  ^
  hint: give it a multiple of 32
)");
  EXPECT_EQ(refusal("mesh X = 4\nw: mxfp4[F, D_X]\ny: bf16[F] = sum(w over D)", {{"F", 1}, {"D", 64}}),
            R"(program:2:1: 'w' is mxfp4, whose blocks of 32 do not divide the 64 elements along D on each of 4 devices
  w: mxfp4[F, D_X]
  ^
  hint: give it a multiple of 128
)");
}

}  // namespace
}  // namespace ridge

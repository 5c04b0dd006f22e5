// Parsing of printed programs, for all small programs of some kinds and thousands of mutated ones. Also limits against
// malicious programs that would exhaust stack or time.
#include <gtest/gtest.h>

#include <random>

#include "ridge/program/testing/round_trip.h"

namespace ridge {
namespace {

using testing::round_trip_error;

// All subsets of a few dimensions as left, right and result of a product. Valid exactly if each dimension is in at
// least two of the three.
TEST(RoundTrip, HoldsForEveryProductOfThreeDimensions) {
  constexpr const char* dims[] = {"B", "D", "7"};
  const auto axes = [&](unsigned set) {
    std::string out;
    for (unsigned i = 0; i < 3; ++i)
      if (set >> i & 1u) out += (out.empty() ? "[" : ", ") + std::string(dims[i]);
    return out.empty() ? "[1]" : out + "]";
  };
  int accepted = 0;
  for (unsigned left = 0; left < 8; ++left)
    for (unsigned right = 0; right < 8; ++right)
      for (unsigned result = 0; result < 8; ++result) {
        const std::string arrow = "int8" + axes(left) + " * f16" + axes(right) + " -> C" + axes(result);
        EXPECT_EQ(round_trip_error(arrow), "") << arrow;
        const unsigned alone = (left & ~right & ~result) | (right & ~left & ~result) | (result & ~left & ~right);
        EXPECT_EQ(parse(arrow).ok(), alone == 0) << arrow;
        accepted += parse(arrow).ok();
      }
  EXPECT_EQ(accepted, 5 * 5 * 5);  // 5 of 8 combinations per dimension are valid: none, three with two tensors, all
}

// All expressions of up to three levels of a tensor, a number, a sign, two operators and a function.
TEST(RoundTrip, HoldsForEverySmallExpression) {
  std::vector<std::string> expressions{"a", "b", "2"};
  for (int level = 0; level < 2; ++level) {
    std::vector<std::string> next = expressions;
    for (const std::string& x : expressions) {
      next.push_back("-(" + x + ")");
      next.push_back("cos(" + x + ")");
      for (const std::string& y : expressions)
        for (const char* sign : {" + ", " - ", " * ", " / ", " ** "})
          next.push_back("(" + x + ")" + sign + "(" + y + ")");
    }
    expressions = std::move(next);
  }
  EXPECT_GT(expressions.size(), 5000u);
  for (const std::string& e : expressions)
    ASSERT_EQ(round_trip_error("a: f32[N, M]\nb: f32[M]\ny[M, N] = a + " + e), "") << e;
}

// Equal sizes are matched in order; the channels of a convolution are second, or last if only that fits.
TEST(RoundTrip, HoldsForEqualSizesAndBothPlacesOfChannels) {
  const auto is_channels_last = [](const std::string& text) {
    EXPECT_EQ(round_trip_error(text), "") << text;
    const Program program = parse(text).value();
    const auto& e = std::get<Expression>(program.statements[0].op);
    return e.routine->channels_last;
  };
  const auto conv = [](const std::string& x, const std::string& w, const std::string& y, const std::string& groups) {
    return "x: f32[" + x + "]\nw: f32[" + w + "]\ny[" + y + "] = conv(x, w, padding = 1, groups = " + groups + ")";
  };
  const auto transposed = [](const std::string& x, const std::string& w, const std::string& y) {
    return "x: f32[" + x + "]\nw: f32[" + w + "]\ny[" + y + "] = conv_transpose(x, w, stride = 2, padding = 1)";
  };
  EXPECT_FALSE(is_channels_last(transposed("N, 64, 7, 7", "64, 32, 4, 4", "N, 32, 14, 14")));
  EXPECT_FALSE(is_channels_last(transposed("4, 4, 4, 4", "4, 4, 4, 4", "4, 4, 8, 8")));
  EXPECT_TRUE(is_channels_last(transposed("N, 7, 7, 64", "64, 4, 4, 32", "N, 14, 14, 32")));
  EXPECT_TRUE(is_channels_last(transposed("N, H, C", "C, 4, K", "N, P, K")));
  EXPECT_FALSE(is_channels_last(conv("N, 128, 56, 56", "128, 128, 3, 3", "N, 128, 56, 56", "1")));
  EXPECT_FALSE(is_channels_last(conv("3, 3, 3, 3", "3, 3, 3, 3", "3, 3, 3, 3", "1")));
  EXPECT_FALSE(is_channels_last(conv("3, C, 3, 3", "K, 2, 3, 3", "3, K, 3, 3", "C/2")));
  EXPECT_TRUE(is_channels_last(conv("1, 56, 56, 64", "64, 3, 3, 64", "1, 56, 56, 64", "1")));
  EXPECT_TRUE(is_channels_last(conv("64, 64, 64, 64", "64, 3, 3, 64", "64, 64, 64, 64", "1")));
  EXPECT_TRUE(is_channels_last(conv("N, H, C", "K, 3, C", "N, H, K", "1")));
  EXPECT_TRUE(is_channels_last(conv("N, H, W, D, C", "C, 3, 3, 3, 1", "N, H, W, D, C", "C")));
  for (const char* text :
       {"x: f32[3, 5, 5]\ny: f32[3, 5, 5] = relu(x) + x", "x: f32[5, 5]\ny: f32[1] = sum(x over 5, 5)",
        "x: f32[N, 5, 5]\ns: f32[N]\ny: f32[N, 5, 5] = x * s"})
    EXPECT_EQ(round_trip_error(text), "") << text;
}

TEST(RoundTrip, PrintsABatchNormAsItsFormula) {
  const std::string text =
      "x: f32[N, C]\nm: f32[C]\nv: f32[C]\nw: f32[C]\nb: f32[C]\ny[N, C] = relu(batch_norm(x, m, v, w, b))";
  EXPECT_EQ(round_trip_error(text), "");
  const std::string printed = print_program(parse(text).value());
  EXPECT_EQ(printed.substr(printed.find("y[")), "y[N, C] = relu((x - m) * (rsqrt(v + 1e-05) * w) + b)\n");
}

TEST(RoundTrip, PowersAreRightAssociativeAndBindTighterThanSigns) {
  const auto printed = [](const std::string& e) {
    const std::string text = print_program(parse("a: f32[N]\ny[N] = " + e).value());
    return text.substr(text.find(" = ") + 3);
  };
  EXPECT_EQ(printed("-a ** 2"), "-a ** 2\n");
  EXPECT_EQ(printed("-(a ** 2)"), "-a ** 2\n");
  EXPECT_EQ(printed("(-a) ** 2"), "(-a) ** 2\n");
  EXPECT_EQ(printed("a ** (2 ** 3)"), "a ** 2 ** 3\n");
  EXPECT_EQ(printed("(a ** 2) ** 3"), "(a ** 2) ** 3\n");
  EXPECT_EQ(printed("a ** -0.5 * a"), "a ** -0.5 * a\n");
  EXPECT_EQ(printed("pow(a, 2)"), "a ** 2\n");
}

// All nestings of two functions over dimensions, with a comparison in between.
TEST(RoundTrip, HoldsForFunctionsAlongDimensions) {
  for (const std::string outer : {"sum", "mean", "max", "min"})
    for (const std::string inner : {"sum", "max", "softmax", "rmsnorm", "layernorm"})
      for (const std::string sign : {" < ", " <= ", " > ", " >= ", " == ", " * "}) {
        const std::string nest = outer + "(a" + sign + inner + "(a over M) over N, M)";
        const std::string text = "a: f32[N, M]\ny[N, M] = (a + index(M))" + sign + "(" + nest + " - size(N))";
        ASSERT_TRUE(parse(text)) << text << parse(text).error().to_string();
        ASSERT_EQ(round_trip_error(text), "") << text;
      }
}

constexpr std::string_view seeds[] = {
    "bf16[B, D] * bf16[D, F] -> bf16[B, F]",
    "X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]",
    "x * y: bf16[N], bf16[N] -> bf16[1]",
    "int8[B, D]_D * int8[B, D, F]_D -> int8[B, F]",
    "X' * Y' -> Z': bf16[S, D], bf16[D, 7] -> bf16[S, 7]",
    "dims N = 32768, D = 8192, F = 4*D + (N - 1)*2\nx: bf16[N, D]   up: bf16[F, D]   bu: bf16[F]\n"
    "u[N, F] = x * up  # one\ny: bf16[N, F] = (u + bu) * gelu(u / 2 - 1e-6)\n",
    "x: f32[N, 1]\ny[N] = where(x < 0, max(x, -1), repeat(64, cos, x))\nz[N] = -(y - x) * (x + y)\n",
    "q[H, S, E] * k[H, T, E] -> s[H, S, T]\np[H, S, T] = softmax(where(index(T) <= index(S), s / sqrt(size(E)), -inf) "
    "over T)\n",
    "x: f32[N, 3, D]\ny[N] = sum(x * max(x over 3) over D, 3) >= mean(rmsnorm(x over D) over 3, D)\n",
    "mesh X = 4, Y\nA[B_Y, D_X] * W[D_X, F] -> C[B_Y, F]{U_X}\ny[B_Y, F_X] = C\nz[B, F] = y\n",
    "A[B, D] * B[D, F] -> C[B, F]\nC[B, F] * W[F, G] -> E[B, G]\n",
};

std::string mutate_program(std::mt19937& random) {
  static constexpr std::string_view alphabet = "BDFNxy[]()*+-/,:=_'#. \n\t019e>{@\xC3\x80";
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  std::string text(seeds[below(std::size(seeds))]);
  for (std::size_t i = 1 + below(6); i > 0; --i) {
    const std::size_t at = below(text.size() + 1), length = below(std::min<std::size_t>(text.size() - at, 12) + 1);
    const std::string_view other = seeds[below(std::size(seeds))];
    const std::size_t from = below(other.size());
    switch (below(5)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, 1, alphabet[below(alphabet.size())]); break;
      case 2:
        if (at < text.size()) text[at] = alphabet[below(alphabet.size())];
        break;
      case 3: text.insert(at, text.substr(at, length)); break;
      default: text.insert(at, other.substr(from, below(20)));
    }
  }
  return text;
}

TEST(RoundTrip, HoldsForMutatedPrograms) {
  std::mt19937 random(20261120);
  int accepted = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string text = mutate_program(random);
    ASSERT_EQ(round_trip_error(text), "") << text;
    accepted += parse(text).ok();
  }
  EXPECT_GT(accepted, 100);  // with heavier mutations only the first error would be tested
}

// Found by the fuzzer: e cancels out of the size of A, so the printed size no longer mentions it before j.
TEST(RoundTrip, KeepsTheOrderOfDimensionsThatCancelOut) {
  EXPECT_EQ(round_trip_error("dims A = B + e - e + j, C = k\nx: f32[A, C]\ny[A, C] = cos(x)"), "");
}

TEST(RoundTrip, HoldsForEveryByteAtEveryPosition) {
  for (int byte = 0; byte < 256; ++byte)
    for (std::size_t at = 0; at <= seeds[2].size(); ++at) {
      std::string text(seeds[2]);
      text.insert(at, 1, static_cast<char>(byte));
      ASSERT_EQ(round_trip_error(text), "") << "byte " << byte << " at " << at;
    }
}

std::string repeat_text(std::string_view part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += part;
  return out;
}

TEST(Limits, NestingEndsAt256Levels) {
  const auto nested = [](int levels) {
    return parse("x: f32[N]\ny[N] = " + repeat_text("(", levels) + "x" + repeat_text(")", levels));
  };
  EXPECT_TRUE(nested(256));
  EXPECT_EQ(nested(257).error().message, "expected at most 256 levels of nesting");
  EXPECT_EQ(nested(300000).error().message, "expected at most 256 levels of nesting");
  EXPECT_EQ(parse("x: f32[N]\ny[N] = " + repeat_text("-", 300000) + "x").error().message,
            "expected at most 256 levels of nesting");
  EXPECT_EQ(parse("x: f32[N]\ny[N] = " + repeat_text("cos(", 300) + "x").error().message,
            "expected at most 256 levels of nesting");
  EXPECT_EQ(parse("dims N = " + repeat_text("(", 300000)).error().message,
            "expected at most 256 levels of parentheses");
  EXPECT_EQ(parse("dims N = " + repeat_text("-", 300000)).error().message,
            "expected at most 256 levels of parentheses");
}

TEST(Limits, LongStatementsDoNotRecurseDeeply) {
  EXPECT_EQ(round_trip_error("x: f32[N]\ny[N] = x" + repeat_text(" + x", 200000)), "");
  EXPECT_EQ(round_trip_error(repeat_text("x: f32[N]\n", 1) + "a[N] = x\n" + repeat_text("# c\n\n", 100000)), "");
}

TEST(Limits, ProgramsAreLimitedTo64MebibytesAndAMillionTokens) {
  const std::string program = "bf16[N] * bf16[N] -> bf16[1]";
  EXPECT_TRUE(parse(program + std::string((64 << 20) - program.size(), ' ')));
  EXPECT_EQ(parse(program + std::string((64 << 20) - program.size() + 1, ' ')).error().to_string(),
            "program: expected a program of at most 67108864 bytes, found 67108865\n"
            "  hint: split it into several programs\n");
  const std::string sum = "x: f32[N]\ny[N] = x";  // 13 tokens and the end
  EXPECT_TRUE(parse(sum + repeat_text(" + x", ((1 << 20) - 14) / 2)));
  EXPECT_EQ(parse(sum + repeat_text(" +\tx", 1 << 20)).error().message,
            "expected a program of at most 1048576 tokens, found more");
}

TEST(Limits, AProgramHasAtMostTenThousandStatements) {
  std::string text = "x: f32[N]\n";
  for (int i = 0; i < 10'000; ++i) text += "y" + std::to_string(i) + "[N] = cos(x)\n";
  EXPECT_TRUE(parse(text));
  EXPECT_EQ(parse(text + "z[N] = cos(x)").error().to_string(),
            "program:10002:1: expected at most 10000 statements, found more\n"
            "  z[N] = cos(x)\n"
            "  ^^^^^^^^^^^^^\n"
            "  hint: split it into several programs\n");
}

TEST(Limits, NamesDimensionsAndAxesAreLimited) {
  const std::string name(64, 'a');
  EXPECT_TRUE(parse(name + ": f32[N]\ny[N] = " + name));
  EXPECT_EQ(parse(name + "a: f32[N]").error().message, "expected a name of at most 64 characters, found one of 65");
  std::string dims = "dims d0";
  for (int i = 1; i < 256; ++i) dims += ", d" + std::to_string(i) + " = d" + std::to_string(i - 1) + " + 1";
  const std::string rest = "\nx: f32[d0]\ny[d0] = cos(x)";
  EXPECT_EQ(round_trip_error(dims + rest), "");
  EXPECT_EQ(parse(dims + rest)->bind_sizes({{"d0", 1}})->at("d255"), 256);
  EXPECT_EQ(parse(dims + ", d256" + rest).error().message, "expected at most 256 dimensions in a program");
  EXPECT_EQ(parse("x: f32[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]").error().message,
            "expected at most 16 dimensions of one tensor");
  std::string sum = "dims n = a0";
  for (int i = 1; i < 65; ++i) sum += " + a" + std::to_string(i);
  EXPECT_EQ(parse(sum).error().message, "expected a size of at most 64 terms");
}

TEST(Limits, LongLinesAreOmittedAndLongNamesTruncated) {
  const std::string text = parse(std::string(500, ' ') + "x").error().to_string();
  EXPECT_EQ(text,
            "program:1:502: expected ':', '[' or '*' after 'x', found end of the program\n"
            "  hint: a tensor is declared x: bf16[N, D]\n");
  EXPECT_EQ(parse("dims N = " + std::string(50, '9')).error().message,
            "expected a size below 2^63, found '9999999999999999999999999999999999999999…'");
}

// Invalid bytes are reported as numbers and never printed, for terminals and JSON cannot handle them.
TEST(Errors, ShowInvalidBytesAsNumbers) {
  using namespace std::string_literals;
  EXPECT_EQ(parse("x: bf16[N]\0"s).error().to_string(),
            "program:1:11: expected text, found the byte 0x00\n"
            "  x: bf16[N]?\n"
            "            ^\n"
            "  hint: save the program as plain UTF-8 text\n");
  EXPECT_EQ(parse("x: bf16[N] # caf\xC3\xA9 \xFF").error().to_string(),
            "program:1:19: expected text, found the byte 0xff\n"
            "  x: bf16[N] # caf\xC3\xA9 ?\n"
            "                    ^\n"
            "  hint: save the program as plain UTF-8 text\n");
  EXPECT_EQ(parse("x: bf16[N] \x1B[31m").error().message, "expected text, found the byte 0x1b");
}

}  // namespace
}  // namespace ridge

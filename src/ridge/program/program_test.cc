// Tables of {input, printed form}, and tests of the parsed program.
#include "ridge/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ridge {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string parse_and_print(std::string_view text, const ParseOptions& options = {}) {
  const Result<Program> program = parse(text, options);
  return program ? print_program(*program) : program.error().to_string();
}

Program parse_valid(std::string_view text) {
  Result<Program> program = parse(text);
  EXPECT_TRUE(program) << program.error().to_string();
  return *std::move(program);
}

const Contraction& contraction_at(const Program& program, std::size_t statement = 0) {
  return std::get<Contraction>(program.statements.at(statement).op);
}

struct Case {
  std::string_view input;
  std::string_view output;
};

// Products in the notation of papers.
TEST(Parse, ReadsProductsAsPapersWriteThem) {
  constexpr Case cases[] = {
      {"x * y: bf16[N], bf16[N] -> bf16[1]", "x: bf16[N]\ny: bf16[N]\nZ: bf16[1] = x * y\n"},
      {"X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]", "X: bf16[B, D]\nY: bf16[D, F]\nZ: bf16[B, F] = X * Y\n"},
      {"X * Y -> Z: bf16[B, S, D], bf16[D, F] -> bf16[B, S, F]",
       "X: bf16[B, S, D]\nY: bf16[D, F]\nZ: bf16[B, S, F] = X * Y\n"},
      {"X' * Y' -> Z': bf16[S, D], bf16[D, F] -> bf16[S, F]",
       "X': bf16[S, D]\nY': bf16[D, F]\nZ': bf16[S, F] = X' * Y'\n"},
      {"A[B, D] * B[D, F] -> C[B, F]", "A: bf16[B, D]\nB: bf16[D, F]\nC[B, F] = A * B\n"},
      {"bfloat16[B, D] * int8[D, F] -> bfloat16[B, F]", "X: bf16[B, D]\nY: int8[D, F]\nZ: bf16[B, F] = X * Y\n"},
      {"int8[B, D]_D * int8[B, D, F]_D -> int8[B, F]", "X: int8[B, D]\nY: int8[B, D, F]\nZ: int8[B, F] = X * Y\n"},
  };
  for (const Case& c : cases) EXPECT_EQ(parse_and_print(c.input), c.output);
}

TEST(Parse, ReadsLinesInEveryForm) {
  constexpr Case cases[] = {
      // Arrow products with some names; names in use get a number.
      {"bf16[B, D] * W[D, F] -> f32[B, F]", "X: bf16[B, D]\nW: bf16[D, F]\nZ: f32[B, F] = X * W\n"},
      {"f16[B, D] * X[D, F] -> Z[B, F]", "X2: f16[B, D]\nX: bf16[D, F]\nZ[B, F] = X2 * X\n"},
      {"A * B -> C: [B, D], int8[D, F] -> [B, F]", "A: bf16[B, D]\nB: int8[D, F]\nC[B, F] = A * B\n"},
      // Consecutive arrow products; a tensor is repeated with or without its dimensions.
      {"A[B, D] * B[D, F] -> C[B, F]\nC * W[F, G] -> E[B, G]\nC[B, F] * V[F, G] -> H[B, G]",
       "A: bf16[B, D]\nB: bf16[D, F]\nC[B, F] = A * B\nW: bf16[F, G]\nE[B, G] = C * W\nV: bf16[F, G]\n"
       "H[B, G] = C * V\n"},
      // Equal operands, batches, outer and elementwise products, literal sizes.
      {"x * x: bf16[N], bf16[N] -> f32[1]", "x: bf16[N]\nZ: f32[1] = x * x\n"},
      {"q[B, H, T, C] * k[B, H, S, C] -> s[B, H, T, S]",
       "q: bf16[B, H, T, C]\nk: bf16[B, H, S, C]\ns[B, H, T, S] = q * k\n"},
      {"bf16[8, 128] * bf16[128, 64] -> bf16[8, 64]", "X: bf16[8, 128]\nY: bf16[128, 64]\nZ: bf16[8, 64] = X * Y\n"},
      // Blanks, comments, CRLF, byte order mark, several declarations and a definition on one line.
      {"\n# a\n  x:bf16[ N ]  # b\r\n\ty[N]=cos(x)# \xC3\xA9\r\n\n", "x: bf16[N]\ny[N] = cos(x)\n"},
      {"\xEF\xBB\xBFx: bf16[N] y: bf16[N] z: f32[N] = x + y", "x: bf16[N]\ny: bf16[N]\nz: f32[N] = x + y\n"},
      {"x[N] w[N]\ny[N] = x * w", "x: bf16[N]\nw: bf16[N]\ny[N] = x * w\n"},
      // Primes, underscores, a tensor and a dimension of the same name.
      {"x'': f32[d_ff, d_model2']\ny_1[d_ff, d_model2'] = x''",
       "x'': f32[d_ff, d_model2']\ny_1[d_ff, d_model2'] = x''\n"},
      {"N: f32[N]\nW_Q[N] = N / 2", "N: f32[N]\nW_Q[N] = N / 2\n"},
      // dtypes and their synonyms.
      {"a: float32[N] b: fp16[N] c: fp8[N] d: e5m2[N] e: int4[N] f: i32[N] g: tf32[N] h: f64[N]\ny[N] = a + b + c",
       "a: f32[N]\nb: f16[N]\nc: e4m3[N]\nd: e5m2[N]\ne: int4[N]\nf: int32[N]\ng: tf32[N]\nh: f64[N]\n"
       "y[N] = a + b + c\n"},
  };
  for (const Case& c : cases) EXPECT_EQ(parse_and_print(c.input), c.output);
}

TEST(Parse, ReadsAGeglu) {
  EXPECT_EQ(parse_and_print("dims N = 32768, D = 8192, F = 4*D                  # defaults, overridden by -d\n"
                            "x: bf16[N, D]   up: bf16[F, D]   gate: bf16[F, D]   bu: bf16[F]   bg: bf16[F]\n"
                            "u[N, F] = x * up                                   # one contraction a statement\n"
                            "g[N, F] = x * gate\n"
                            "y: bf16[N, F] = (u + bu) * gelu(g + bg)            # pointwise, broadcast by name\n"),
            "dims N = 32768, D = 8192, F = 4*D\n"
            "x: bf16[N, D]\nup: bf16[F, D]\ngate: bf16[F, D]\nbu: bf16[F]\nbg: bf16[F]\n"
            "u[N, F] = x * up\ng[N, F] = x * gate\ny: bf16[N, F] = (u + bu) * gelu(g + bg)\n");
}

TEST(Parse, ReadsSizesThatDependOnOthers) {
  constexpr Case cases[] = {
      {"dims F = 4*D, D = 2", "dims F = 4*D, D = 2\n"},
      {"dims F = (D + 1)*(D - 1)", "dims F = D*D - 1, D\n"},
      {"dims F = -(1 - D)*2 + 0", "dims F = 2*D - 2, D\n"},
      {"dims N\ndims M = N, F", "dims N, M = N, F\n"},
      {"dims B, A, F", "dims B, A, F\n"},
      {"dims F = 9223372036854775807", "dims F = 9223372036854775807\n"},
      {"dims F = D - D + 4", "dims F = 4, D\n"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(parse_and_print(std::string(c.input) + "\nx: bf16[F]\ny[F] = cos(x)"),
              std::string(c.output) + "x: bf16[F]\ny[F] = cos(x)\n");
}

TEST(Parse, KeepsTheShapeOfAnExpression) {
  constexpr Case cases[] = {
      {"a+b*c", "a + b * c"},
      {"(a+b)*c", "(a + b) * c"},
      {"a-(b-c)", "a - (b - c)"},
      {"(a-b)-c", "a - b - c"},
      {"a+(b+c)", "a + (b + c)"},
      {"a/(b*c)", "a / (b * c)"},
      {"a/b/c", "a / b / c"},
      {"-a*b", "-a * b"},
      {"-(a*b)", "-(a * b)"},
      {"--a", "--a"},
      {"a - -2", "a - -2"},
      {"a*-(-2)", "a * 2"},
      {"((a))", "a"},
      {"a*0.5 + 1e-6", "a * 0.5 + 1e-06"},
      {"a*1E+20 - .25", "a * 1e+20 - 0.25"},
      {"max(a, min(b, 0))", "max(a, min(b, 0))"},
      {"where(a<0, a*b, -c)", "where(a < 0, a * b, -c)"},
      {"(a+b<=c)*(a>b)", "(a + b <= c) * (a > b)"},
      {"(a==b)==c", "(a == b) == c"},
      {"a - sum( a*b over N ) / size( N )", "a - sum(a * b over N) / size(N)"},
      {"max(a, max(b over N))", "max(a, max(b over N))"},
      {"softmax(where(index(N) >= 2, a, -inf) over N)", "softmax(where(index(N) >= 2, a, -inf) over N)"},
      {"repeat(64, cos, a + b)", "repeat(64, cos, a + b)"},
      {"repeat(1, cos, a)", "cos(a)"},
      {"gelu_tanh(silu(relu(sigmoid(tanh(a)))))", "gelu_tanh(silu(relu(sigmoid(tanh(a)))))"},
      {"sqrt(a) + rsqrt(b) + abs(c) + exp(a) + log(b) + sin(c)",
       "sqrt(a) + rsqrt(b) + abs(c) + exp(a) + log(b) + sin(c)"},
      {"a * b * c", "a * b * c"},
      {"(a * b)", "a * b"},
  };
  for (const Case& c : cases) {
    const std::string declared = "a: bf16[N]\nb: bf16[N]\nc: bf16[N]\ny[N] = ";
    EXPECT_EQ(parse_and_print(declared + std::string(c.input)), declared + std::string(c.output) + "\n");
  }
}

// Programs of the rooflines note.
TEST(Parse, ReadsEveryProductOfTheNotes) {
  for (const char* line :
       {"x * y: bf16[N], bf16[N] -> bf16[1]", "X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]",
        "X * Y -> Z: bf16[B, S, D], bf16[D, F] -> bf16[B, S, F]", "X' * Y' -> Z': bf16[S, D], bf16[D, F] -> bf16[S, F]",
        "A[B, D] * B[D, F] -> C[B, F]", "bfloat16[B, D] * int8[D, F] -> bfloat16[B, F]",
        "int8[B, D]_D * int8[B, D, F]_D -> int8[B, F]", "int8[B, D] * int8[B, D, F] -> int8[B, F]",
        "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "A[B, D_X] * B[D_X, F] -> C[B, F]{U_X}"})
    EXPECT_TRUE(parse(line)) << line;
}

TEST(Parse, DistinguishesContractionsFromExpressions) {
  const Program p =
      parse_valid("x: bf16[N] y: bf16[N]\na[N] = x * y\nb[N] = (x * y)\nc[N] = x * y * x\nd[N] = 2 * x\ne[N] = x");
  std::vector<bool> contractions;
  for (const Statement& s : p.statements) contractions.push_back(std::holds_alternative<Contraction>(s.op));
  EXPECT_THAT(contractions, ElementsAre(true, true, false, false, false));
  EXPECT_THAT(contraction_at(p).batch, ElementsAre("N"));
  EXPECT_THAT(contraction_at(p).contracted, IsEmpty());
}

TEST(Parse, ReadsASummedProductAsAContraction) {
  const std::string in = "x: bf16[N, D] w: bf16[D, F] v: bf16[D]\n";
  for (const char* statement :
       {"y[N, F] = sum(x * w over D)", "y[N] = sum((x * v) over D)", "y[1] = sum(x * x over N, D)"})
    EXPECT_TRUE(std::holds_alternative<Contraction>(parse_valid(in + statement).statements[0].op)) << statement;
  for (const char* statement : {"y[N] = sum(x * w over D, F)", "y[D] = sum(x * v over N)", "y[N] = sum(x + v over D)",
                                "y[N] = max(x * v over D)"})
    EXPECT_TRUE(std::holds_alternative<Expression>(parse_valid(in + statement).statements[0].op)) << statement;
}

TEST(Parse, TakesOnlyNumberedPrefixesForDtypes) {
  const Program p = parse_valid("int[B, D] * integral[D, F] -> y[B, F]");
  EXPECT_EQ(p.tensors[0].name, "int");
  EXPECT_EQ(p.tensors[1].name, "integral");
}

TEST(Parse, GroupsADimensionOnlyIfItIsAFraction) {
  const std::string product = "q: bf16[B, G]   k: bf16[H, F]\ns[B, F] = q * k";
  EXPECT_EQ(contraction_at(parse_valid("dims G = H/2\n" + product)).grouped->group_size, 2);
  EXPECT_FALSE(parse("dims G = H\n" + product));
}

TEST(Parse, OrdersAChainOfProductsByItsSizes) {
  const auto chain = [](Bindings sizes) {
    return parse("a: bf16[M, K]  b: bf16[K, L]  c: bf16[L, N]\ny[M, N] = a * b * c", {.sizes = std::move(sizes)})
        .value();
  };
  const Program right = chain({{"M", 2}, {"K", 1}, {"L", 10}, {"N", 3}});
  EXPECT_EQ(right.statements[0].text, "y2[K, N] = b * c");
  EXPECT_THAT(right.remarks, ElementsAre(StartsWith("order of the product y: a * (b * c), 72 ")));
  const Program left = chain({{"M", 3}, {"K", 10}, {"L", 1}, {"N", 2}});
  EXPECT_EQ(left.statements[0].text, "y2[M, L] = a * b");
  EXPECT_THAT(left.remarks, ElementsAre(StartsWith("order of the product y: (a * b) * c, 72 ")));
}

TEST(Parse, RejectsTheDeleteCharacter) {
  EXPECT_EQ(parse("x: bf16[N] \x7f").error().message, "expected text, found the byte 0x7f");
}

TEST(Parse, ClassifiesTheDimensionsOfAContraction) {
  const Program p = parse_valid("q[B, H, T, C] * k[S, C, H, B] -> s[T, B, S, H]");
  EXPECT_THAT(contraction_at(p).batch, ElementsAre("B", "H"));
  EXPECT_THAT(contraction_at(p).left_free, ElementsAre("T"));
  EXPECT_THAT(contraction_at(p).right_free, ElementsAre("S"));
  EXPECT_THAT(contraction_at(p).contracted, ElementsAre("C"));
  EXPECT_THAT(p.dim_names(), ElementsAre("B", "H", "T", "C", "S"));

  const Program wide = parse_valid("bf16[B, D_ff, E]_D_ff_E * bf16[E, D_ff, F] -> bf16[B, F]");
  EXPECT_THAT(contraction_at(wide).contracted, ElementsAre("D_ff", "E"));

  const Program outer = parse_valid("bf16[B] * bf16[F] -> bf16[F, B]");
  EXPECT_THAT(contraction_at(outer).left_free, ElementsAre("B"));
  EXPECT_THAT(contraction_at(outer).right_free, ElementsAre("F"));
  EXPECT_THAT(contraction_at(outer).contracted, IsEmpty());
}

TEST(Parse, MatchesLiteralSizesByValue) {
  const Program p = parse_valid("bf16[B, 16, 3, 1] * bf16[16, F, 5, 3] -> bf16[B, 5, 1, F]");
  EXPECT_EQ(contraction_at(p).literal_contracted, 48);
  EXPECT_THAT(contraction_at(p).left_free, ElementsAre("B"));
  EXPECT_THAT(contraction_at(p).right_free, ElementsAre("F"));
  EXPECT_THAT(contraction_at(p).contracted, IsEmpty());
  EXPECT_EQ(contraction_at(parse_valid("bf16[7] * bf16[7] -> bf16[1]")).literal_contracted, 7);
  EXPECT_EQ(contraction_at(parse_valid("bf16[7] * bf16[7] -> bf16[7]")).literal_contracted, 1);
  EXPECT_EQ(parse_and_print("x: f32[N, 3] s: f32[1]\ny[3, N, 1] = x * 2 + s"),
            "x: f32[N, 3]\ns: f32[1]\ny[3, N, 1] = x * 2 + s\n");
}

TEST(Parse, ResultsHaveTheWidestDtypeByDefault) {
  const auto result_dtype = [](std::string_view text, DType dtype = DType::bf16) {
    return parse(text, {.dtype = dtype}).value().tensors.back().dtype;
  };
  EXPECT_EQ(result_dtype("A[B, D] * B[D, F] -> C[B, F]"), DType::bf16);
  EXPECT_EQ(result_dtype("A[B, D] * B[D, F] -> C[B, F]", DType::int8), DType::int8);
  EXPECT_EQ(result_dtype("A[B, D] * int8[D, F] -> C[B, F]"), DType::bf16);
  EXPECT_EQ(result_dtype("int8[B, D] * int8[D, F] -> C[B, F]"), DType::int8);
  EXPECT_EQ(result_dtype("int8[B, D] * int8[D, F] -> int32[B, F]"), DType::int32);
  EXPECT_EQ(result_dtype("x: int8[N] w: f16[N]\ny[N] = x + w * 2"), DType::f16);
  EXPECT_EQ(result_dtype("x[N]\ny[N] = cos(x)", DType::f32), DType::f32);
}

TEST(Parse, AssignsRolesToTensors) {
  const Program p =
      parse_valid("x: f32[N] unused: f32[N]\na[N] = cos(x)\nb: f32[N] = cos(a)\nc[N] = cos(b)\nd[N] = cos(x)");
  std::vector<TensorRole> roles;
  for (const Tensor& t : p.tensors) roles.push_back(t.role);
  EXPECT_THAT(roles, ElementsAre(TensorRole::input, TensorRole::input, TensorRole::intermediate, TensorRole::output,
                                 TensorRole::output, TensorRole::output));
}

TEST(Parse, KeepsTheStatementAsItWasWritten) {
  const Program p = parse_valid("x: f32[N]   y : f32[N]  =  cos( x )   # why\n bf16[B] *bf16[B]->bf16[1]\r\n");
  EXPECT_EQ(p.statements[0].text, "y : f32[N]  =  cos( x )");
  EXPECT_EQ(p.statements[0].span, (TextSpan{1, 13, 23}));
  EXPECT_EQ(p.statements[1].text, "bf16[B] *bf16[B]->bf16[1]");
  EXPECT_EQ(p.statements[1].span, (TextSpan{2, 2, 25}));
}

TEST(Parse, NamesTheSourceInMessages) {
  EXPECT_EQ(parse("x", {.source = "examples/mlp.ridge"}).error().to_string(),
            "examples/mlp.ridge:1:2: expected ':', '[' or '*' after 'x', found end of the program\n"
            "  x\n"
            "   ^\n"
            "  hint: a tensor is declared x: bf16[N, D]\n");
}

// --- bind

std::string bind_program(std::string_view text, const Bindings& given) {
  const Result<Bindings> values = parse_valid(text).bind_sizes(given);
  if (!values) return values.error().to_string();
  std::string out;
  for (const auto& [name, value] : *values) out += name + "=" + std::to_string(value) + " ";
  return out;
}

TEST(Bind, EvaluatesDefaultsFromGivenValues) {
  const std::string text = "dims F = 4*D, D = 8192, N = 32768\nx: bf16[N, D] w: bf16[D, F]\ny[N, F] = x * w";
  EXPECT_EQ(bind_program(text, {}), "D=8192 F=32768 N=32768 ");
  EXPECT_EQ(bind_program(text, {{"D", 10}}), "D=10 F=40 N=32768 ");
  EXPECT_EQ(bind_program(text, {{"D", 10}, {"F", 7}}), "D=10 F=7 N=32768 ");
}

TEST(Bind, OmitsDimensionsWithoutValue) {
  EXPECT_EQ(bind_program("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"D", 8192}}), "D=8192 ");
  EXPECT_EQ(bind_program("dims F = 4*D\nbf16[B, D] * bf16[D, F] -> bf16[B, F]", {}), "");
}

TEST(Bind, RejectsInvalidValues) {
  const std::string text = "dims batch = 8, d_model, d_ff = d_model - 4\nx: f32[batch, d_ff]\ny[batch, d_ff] = cos(x)";
  EXPECT_EQ(bind_program(text, {{"bacth", 1}}), "unknown dimension 'bacth'\n  hint: did you mean 'batch'?\n");
  EXPECT_EQ(bind_program(text, {{"E", 1}}),
            "unknown dimension 'E'\n  hint: the program's dimensions are batch, d_model, d_ff\n");
  EXPECT_EQ(bind_program("bf16[3] * bf16[3] -> bf16[1]", {{"E", 1}}),
            "unknown dimension 'E'\n  hint: the program has no named dimension\n");
  EXPECT_EQ(bind_program(text, {{"batch", 0}}),
            "dimension 'batch' must be at least 1, found 0\n  hint: give batch a size of 1 or more\n");
  EXPECT_EQ(bind_program(text, {{"batch", -3}}),
            "dimension 'batch' must be at least 1, found -3\n  hint: give batch a size of 1 or more\n");
  EXPECT_EQ(bind_program(text, {{"d_model", 4}}),
            "program:1:26: dimension 'd_ff' must be at least 1, found d_model - 4 = 0\n"
            "  dims batch = 8, d_model, d_ff = d_model - 4\n"
            "                           ^^^^\n"
            "  hint: change what it depends on, or give it with -d d_ff=…\n");
  EXPECT_EQ(bind_program("dims F = 4*D\nx: f32[D, F]\ny[D, F] = cos(x)", {{"D", INT64_MAX}}),
            "program:1:6: dimension 'F': expected a count below 2^63, found 4*D with D = 9223372036854775807\n"
            "  dims F = 4*D\n"
            "       ^\n"
            "  hint: use smaller sizes\n");
}

}  // namespace
}  // namespace ridge

#include "ridge/program/weights.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

std::vector<std::string> weight_names(const std::string& text) {
  const auto program = parse(text);
  std::vector<std::string> out;
  for (const int tensor : find_weights(*program)) out.push_back(program->tensors[tensor].name);
  return out;
}

using DimSet = std::vector<std::string>;

// Returns the inputs in order with the first letter of their use: "x:d w:p".
std::string uses(const std::string& text) {
  const auto program = parse(text);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().to_string());
  if (!program.ok()) return {};
  const InputUses found = find_input_uses(*program);
  std::string out;
  for (std::size_t t = 0; t < program->tensors.size(); ++t)
    if (program->tensors[t].role == TensorRole::input)
      out += (out.empty() ? "" : " ") + program->tensors[t].name + ":" + input_use_word(found.of_tensor[t])[0];
  return out;
}

TEST(InputUses, DoNotDependOnTheOrderOfDeclarations) {
  EXPECT_EQ(uses("x: bf16[N, D]  w: bf16[D, F]\ny: bf16[N, F] = x * w"), "x:d w:p");
  EXPECT_EQ(uses("w: bf16[D, F]  x: bf16[N, D]\ny: bf16[N, F] = x * w"), "w:p x:d");
  EXPECT_EQ(uses("w: bf16[D, F]  x: bf16[N, D]\ny: bf16[N, F] = w * x"), "w:p x:d");
  EXPECT_EQ(uses("down: bf16[F, D]  up: bf16[D, F]  x: bf16[B, D]\nu[B, F] = x * up\ny: bf16[B, D] = u * down"),
            "down:p up:p x:d");
  // Columns for rows: N passes two products.
  EXPECT_EQ(uses("w: bf16[F, D]  v: bf16[D, F]  x: bf16[D, N]\nu[F, N] = w * x\ny: bf16[D, N] = v * u"), "w:p v:p x:d");
  EXPECT_EQ(uses("bu: bf16[F] up: bf16[F, D] x: bf16[N, D] gate: bf16[F, D]\nu[F, N] = x * up\ng[F, N] = x * gate\n"
                 "y: bf16[F, N] = (u + bu) * gelu(g)"),
            "bu:p up:p x:d gate:p");
}

TEST(InputUses, FollowTheBatchThroughALayer) {
  EXPECT_EQ(uses("wq: bf16[D, H, E]  wk: bf16[D, H, E]  wv: bf16[D, H, E]  c: bf16[T, D]  x: bf16[S, D]\n"
                 "q[H, S, E] = x * wq\nk[H, T, E] = c * wk\nv[H, T, E] = c * wv\ns[H, S, T] = q * k\n"
                 "p[H, S, T] = softmax(s over T)\no: bf16[H, S, E] = p * v"),
            "wq:p wk:p wv:p c:d x:d");
  EXPECT_EQ(uses("w: bf16[D]  x: bf16[N, D]\ny: bf16[N, D] = rmsnorm(x over D) * w"), "w:p x:d");
  EXPECT_EQ(uses("b: bf16[F]  x: bf16[N, F]\ny: bf16[N, F] = gelu(x + b)"), "b:p x:d");
  // A vector of each sequence is no parameter, a vector of each position is.
  EXPECT_EQ(uses("pos: bf16[S, D] cond: bf16[B, D] w: bf16[D, F] x: bf16[B, S, D]\nh[B, S, D] = x + pos + cond\n"
                 "y: bf16[B, S, F] = h * w"),
            "pos:p cond:d w:p x:d");
  EXPECT_EQ(uses("w: bf16[E, D, F]  v: bf16[E, F, D]  x: bf16[E, B, D]\nu[E, B, F] = x * w\ny: bf16[E, B, D] = u * v"),
            "w:p v:p x:d");
  EXPECT_EQ(uses("w: bf16[E, D, F]  x: bf16[E, B, D]\nu: bf16[E, B, F] = x * w"), "w:d x:d");  // Or keys and queries
  EXPECT_EQ(uses("w: bf16[D_X, F]  x: bf16[B_X, D]\nmesh X = 4\ng[D, F] = w\ny: bf16[B_X, F] = x * g"), "w:p x:d");
  EXPECT_EQ(uses("w: bf16[K, C, 3, 3]  x: bf16[N, C, H, W]\ny: bf16[N, K, H, W] = conv(x, w, padding = 1)"), "w:p x:d");
  EXPECT_EQ(uses("w: bf16[C, K, 2, 2]  x: bf16[N, C, H, W]\ny: bf16[N, K, P, Q] = conv_transpose(x, w, stride = 2)"),
            "w:p x:d");
  EXPECT_EQ(uses("table: bf16[V, D]  ids: int32[N]\nx: bf16[N, D] = gather(table, ids over V)"), "table:p ids:d");
  EXPECT_EQ(uses("r: bf16[E, D]  up: bf16[E, F, D]  down: bf16[E, D, F]  x: bf16[B, D]\ns[B, E] = x * r\n"
                 "p[B, E] = softmax(s over E)\ni[B, 2] = topk(p over E)\nu[B, 2, F] = routed(x, up, i over E)\n"
                 "o[B, 2, D] = routed(u, down, i over E)\nc[B, 2] = gather(p, i over E)\ny: bf16[B, D] = c * o"),
            "r:p up:p down:p x:d");
}

TEST(InputUses, FollowTheBatchToALoss) {
  EXPECT_EQ(uses("w: bf16[D, C]  x: bf16[N, D]  t: bf16[N, C]\ny[N, C] = x * w\nl: f32[1] = sum(y * t over N, C)"),
            "w:p x:d t:d");
  EXPECT_EQ(uses("w: bf16[D, F] v: bf16[F, C]  x: bf16[N, D]\nh[N, F] = x * w\ny[N, C] = h * v\n"
                 "l: f32[C] = mean(y * y over N)"),
            "w:p v:p x:d");
  EXPECT_EQ(uses("x * y: bf16[N], bf16[N] -> f32[1]"), "x:d y:d");
}

TEST(InputUses, OfConvertedWeightsAndOfExpertsAreFound) {
  EXPECT_EQ(uses("w: int8[D, F]  scale: bf16[F]  x: bf16[N, D]\nv[D, F] = w * scale\ny: bf16[N, F] = x * v"),
            "w:p scale:p x:d");
  EXPECT_EQ(uses("w: bf16[E, D, F]  r: bf16[D, E]  x: bf16[B, D]\ns[B, E] = x * r\np[B, E] = softmax(s over E)\n"
                 "z[B, E, F] = x * w\ny: bf16[B, F] = p * z"),
            "w:p r:p x:d");
}

TEST(InputUses, OfGradientsAreActivations) {
  EXPECT_EQ(uses("x: bf16[N, D]  dy: bf16[N, F]\ndw: bf16[D, F] = x * dy"), "x:d dy:d");
  EXPECT_EQ(uses("r: bf16[N, F]  z: bf16[N, F]  x: bf16[N, D]\ndu[N, F] = r * gelu(z)\ndw: bf16[F, D] = du * x"),
            "r:d z:d x:d");
  EXPECT_EQ(uses("x: bf16[B, S, D]  dy: bf16[B, S, F]  w: bf16[D, F]\ndw: bf16[D, F] = x * dy\n"
                 "dx: bf16[B, S, D] = dy * w"),
            "x:d dy:d w:p");
  EXPECT_EQ(uses("x: bf16[N, D]  w: bf16[D]  dy: bf16[N, D]\nr[N] = rsqrt(mean(x * x over D))\nh[N, D] = x * r\n"
                 "g[N, D] = dy * w\nc[N] = mean(g * h over D)\ndx: bf16[N, D] = r * (g - h * c)\ndw: bf16[D] = dy * h"),
            "x:d w:p dy:d");
  EXPECT_EQ(
      uses("dims T = 7\nq: bf16[S, H, E] k: bf16[T, H, E] v: bf16[T, H, E] do: bf16[S, H, E]\ns[S, H, T] = q * k\n"
           "p[S, H, T] = softmax(s over T)\ndv: bf16[T, H, E] = p * do\ndp[S, H, T] = do * v\n"
           "ds[S, H, T] = p * dp\ndq: bf16[S, H, E] = ds * k\ndk: bf16[T, H, E] = ds * q"),
      "q:d k:d v:d do:d");
  EXPECT_EQ(uses("dy: bf16[N, D]  ids: int32[N]\ndtable: bf16[V, D] = scatter(dy, ids over V)"), "dy:d ids:d");
}

TEST(InputUses, FindCaches) {
  EXPECT_EQ(uses("values: bf16[T, H, E]  keys: bf16[T, H, E]  w: bf16[D, H, E]  x: bf16[S, D]\nq[S, H, E] = x * w\n"
                 "s[S, H, T] = q * keys\np[S, H, T] = softmax(s over T)\no: bf16[S, H, E] = p * values"),
            "values:c keys:c w:p x:d");
  // Pages that indices name, and a cache to which rows are added.
  EXPECT_EQ(
      uses("k: bf16[P, R, E]  v: bf16[P, R, E]  q: bf16[B, E]  pages: int32[B, M]\n"
           "a[B, M, R, E] = gather(k, pages over P)\nb[B, M, R, E] = gather(v, pages over P)\ns[B, M, R] = q * a\n"
           "p[B, M, R] = softmax(s over M, R)\no: bf16[B, E] = p * b"),
      "k:c v:c q:d pages:d");
  EXPECT_EQ(uses("keys: bf16[B, T, E]  values: bf16[B, T, E]  q: bf16[B, E]  kn: bf16[B, E]  at: int32[B]\n"
                 "k: bf16[B, T, E] replaces keys = scatter(kn, at over T)\ns[B, T] = q * k\n"
                 "p[B, T] = softmax(s over T)\no: bf16[B, E] = p * values"),
            "keys:c values:c q:d kn:d at:d");
}

TEST(InputUses, WithoutBatchAreMatricesThatMultiplyAVector) {
  EXPECT_EQ(uses("w: bf16[F, D]  v: bf16[D, F]  x: bf16[D]\nu[F] = w * x\nh[F] = relu(u)\no[D] = v * h\n"
                 "y: bf16[D] = x + o"),
            "w:p v:p x:d");
  EXPECT_EQ(uses("a: bf16[M, K]  x: bf16[K]\ny: bf16[M] = a * x"), "a:p x:d");
  EXPECT_EQ(uses("x: bf16[N]  y: bf16[N]\nz: bf16[N] = x + y"), "x:d y:d");
}

TEST(InputUses, AreThoseDeclared) {
  EXPECT_EQ(uses("param W[F, D] * X[D, N] -> Y[F, N]"), "W:p X:d");
  EXPECT_EQ(uses("W[F, D] * data X[D, N] -> Y[F, N]"), "W:p X:d");
  EXPECT_EQ(uses("W[F, D] * X[D, N] -> Y[F, N]"), "W:d X:p");  // Nothing distinguishes them; the result begins with F
  EXPECT_EQ(uses("param w: f32[P]  state m: f32[P]  g: bf16[P]\nm2: f32[P] replaces m = m + g\n"
                 "w2: f32[P] replaces w = w - m2"),
            "w:p m:s g:d");
  EXPECT_EQ(uses("w: f32[P]  m: f32[P]  g: bf16[P]\nm2: f32[P] replaces m = m + g\nw2: f32[P] replaces w = w - m2"),
            "w:s m:s g:d");
}

TEST(InputUses, NameTheBatchDimensions) {
  EXPECT_EQ(find_input_uses(*parse("dims T = S\nw: bf16[D, F] x: bf16[S, D]\ny[S, F] = x * w\nz: bf16[S, F] = y + y"))
                .batch_dims,
            (DimSet{"T", "S"}));
}

TEST(Weights, AreFactorsWithoutBatchDimension) {
  EXPECT_EQ(weight_names("X * Y -> Z: bf16[B, D], bf16[D, F] -> bf16[B, F]"), DimSet{"Y"});
  EXPECT_EQ(weight_names("x: bf16[B, D]  w: bf16[D, F]  v: bf16[F, D]\nu[B, F] = x * w\ny: bf16[B, D] = u * v"),
            (DimSet{"w", "v"}));
  EXPECT_EQ(weight_names("x: bf16[B, D]  w: bf16[D, F]  v: bf16[G, F]\nu[B, F] = x * w\ny: bf16[G, B] = v * u"),
            (DimSet{"w", "v"}));
}

TEST(Weights, AreReadByProductsAndRoutinesOrAreCopied) {
  EXPECT_EQ(weight_names("x: bf16[B, D] w: bf16[D, F] b: bf16[F]\nu[B, F] = x * w\ny: bf16[B, F] = u + b"),
            DimSet{"w"});
  EXPECT_EQ(weight_names("mesh X = 4\nw: bf16[D_X, F]  x: bf16[B_X, D]\ng[D, F] = w\ny: bf16[B_X, F] = x * g"),
            DimSet{"w"});
  EXPECT_EQ(weight_names("r: bf16[E, D]  up: bf16[E, F, D]  x: bf16[B, D]\ns[B, E] = x * r\n"
                         "p[B, E] = softmax(s over E)\ni[B, 2] = topk(p over E)\n"
                         "u: bf16[B, 2, F] = routed(x, up, i over E)"),
            (DimSet{"r", "up"}));
  EXPECT_EQ(weight_names("t: bf16[V, D]  i: int32[N]\nx: bf16[N, D] = gather(t, i over V)"), DimSet{"t"});
  EXPECT_EQ(weight_names("du: bf16[N, F]  x: bf16[N, D]  up: bf16[F, D]\ndup: bf16[F, D] = du * x\n"
                         "dx: bf16[N, D] = du * up"),
            DimSet{"up"});
}

TEST(Weights, AreNotBatchedOperands) {
  EXPECT_EQ(weight_names("q: bf16[H, S, E]  k: bf16[H, T, E]\ns[H, S, T] = q * k"), DimSet{});
  EXPECT_EQ(weight_names("x: bf16[N]\ny[N] = cos(x)"), DimSet{});
}

TEST(Weights, OnlyWeightsChangeTheirDtype) {
  const auto program = with_weight_dtype(*parse("x: bf16[B, D]  w: bf16[D, F]\ny[B, F] = x * w"), DType::int8);
  ASSERT_TRUE(program.ok());
  std::vector<DType> dtypes;
  for (const Tensor& tensor : program->tensors) dtypes.push_back(tensor.dtype);
  EXPECT_EQ(dtypes, (std::vector<DType>{DType::bf16, DType::int8, DType::bf16}));
  EXPECT_EQ(with_weight_dtype(*parse("x: bf16[N]\ny[N] = cos(x)"), DType::int8).error().kind, ErrorKind::usage);
}

TEST(Weights, ActivationsThatTheyMultiplyChangeTheirDtypeOnRequest) {
  const auto program = with_weight_dtype(
      *parse("x: bf16[B, D]  w: bf16[D, F]  v: bf16[F, D]  k: bf16[B, D]\nu[B, F] = x * w\nh[B, F] = gelu(u)\n"
             "o: bf16[B, D] = h * v\ny: bf16[B, D] = o + k"),
      DType::int8, Narrowed::weights_and_activations);
  ASSERT_TRUE(program.ok());
  std::string dtypes;
  for (const Tensor& tensor : program->tensors)
    dtypes += tensor.name + ":" + std::string(dtype_name(tensor.dtype)) + " ";
  EXPECT_EQ(dtypes, "x:int8 w:int8 v:int8 k:bf16 u:bf16 h:int8 o:bf16 y:bf16 ");
}

TEST(Weights, StackedInputsChangeTheirDtypeWithTheirParts) {
  const auto program = with_weight_dtype(
      *parse("x: bf16[N, D]  w: bf16[2*F, D]\nup[F, D] = w[0:F]\ngate[F, D] = w[F:2*F]\nu[N, F] = x * up\n"
             "g[N, F] = x * gate\ny: bf16[N, F] = u * g"),
      DType::int8);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->stacks.front().dtype, DType::int8);
}

}  // namespace
}  // namespace ridge

// Compares formulas evaluated at sizes with what explain() counts at the same sizes.
#include "ridge/roofline/sizes/formulas.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ridge/roofline/prediction.h"

namespace ridge {
namespace {

// Returns the value of every size, each from the preceding ones.
Bindings evaluate_sizes(const Formulas& formulas, const Bindings& own) {
  Bindings out;
  for (const SizeFormula& size : formulas.sizes) {
    std::int64_t value = 0;
    if (size.formula)
      value = *size.formula->evaluate(out);
    else if (size.shard)
      value = (out.at(size.shard->dim) - 1) / size.shard->shards + 1;
    else if (size.mask)
      value = *count_unmasked(*size.mask, out);
    else
      value = own.contains(size.name) ? own.at(size.name) : size.value.value_or(0);
    out[size.name] = value;
  }
  return out;
}

void expect_counts(const std::string& text, const Bindings& given, const std::optional<DimensionSplit>& cut = {}) {
  const auto program = parse(text);
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  const auto formulas = make_formulas(*program, {}, cut);
  const auto e = explain(*program, *find_machine("h100"), given, cut);
  ASSERT_TRUE(formulas.ok() && e.ok());
  const Bindings sizes = evaluate_sizes(*formulas, given);
  ASSERT_EQ(formulas->statements.size(), e->ops.size());
  for (std::size_t i = 0; i < e->ops.size(); ++i) {
    EXPECT_EQ(*formulas->statements[i].flops.evaluate_count(sizes), *e->ops[i].flops) << text;
    EXPECT_EQ(*formulas->kernels[i].bytes.evaluate_count(sizes), *e->ops[i].bytes) << text;
  }
  ASSERT_EQ(formulas->fused.has_value(), e->fused.has_value());
  if (e->fused) {
    EXPECT_EQ(*formulas->fused->bytes.evaluate_count(sizes), *e->fused->bytes) << text;
  }
}

TEST(Formulas, HaveTheCountsOfExplain) {
  for (const std::int64_t b : {1, 7, 64}) {
    expect_counts("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", b}, {"D", 48}, {"F", 80}});
    expect_counts("x: int8[B, D]  w: int4[D, F]\ny: int8[B, F] = x * w\n", {{"B", b}, {"D", 47}, {"F", 81}});
    expect_counts(
        "dims B, D, F = 4*D, G = F + 2*D\nx: bf16[B, D]  w: bf16[D, F]  v: bf16[F, G]\nu[B, F] = x * w\n"
        "y: bf16[B, G] = u * v\n",
        {{"B", b}, {"D", 3 + b}});
    expect_counts(
        "mesh X = 4\ndims B, D, F\nx: bf16[B, D_X]  w: bf16[D_X, F]\nu[B, F] = x * w\ny: bf16[B, F] = gelu(u)\n",
        {{"B", b}, {"D", 41 + b}, {"F", 9}});
    expect_counts("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", b}, {"D", 48}, {"F", 79 + b}},
                  DimensionSplit{"F", 3});
    expect_counts(
        "dims S, T = S, E = 8\nq: bf16[S, E]  k: bf16[T, E]  v: bf16[T, E]\ns[S, T] = q * k\n"
        "p[S, T] = softmax(where(index(T) <= index(S), s, -inf) over T)\no: bf16[S, E] = p * v\n",
        {{"S", 5 * b}});
  }
}

TEST(Formulas, IndependentSizesComeFirst) {
  const auto program =
      parse("dims G = F + D, F = 4*D, D = 8, B\nx: bf16[B, D]  w: bf16[D, G]\ny: bf16[B, G] = x * w\n");
  const auto formulas = make_formulas(*program, {{"B", 5}});
  std::string names;
  for (const SizeFormula& size : formulas->sizes)
    names += fmt::format("{}{} ", size.name, size.value ? fmt::format("={}", *size.value) : "");
  EXPECT_EQ(names, "D=8 B=5 F G ");
  EXPECT_EQ(make_formulas(*program, {{"F", 3}})->sizes[0].name, "F") << "what is given follows nothing";
}

TEST(Formulas, ATensorIsLiveUntilItsLastRead) {
  const auto program = parse("x: bf16[B, D]  w: bf16[D, F]  v: bf16[F, D]\nu[B, F] = x * w\ny: bf16[B, D] = u * v\n");
  const auto formulas = make_formulas(*program, {});
  std::string held;
  for (const TensorFormula& t : formulas->tensors) held += fmt::format("{} {}..{}; ", t.name, t.begin, t.end);
  EXPECT_EQ(held, "x -1..1; w -1..1; v -1..1; u 0..1; y 1..1; ");
}

TEST(Formulas, RejectAMeshWithoutASize) {
  const auto program = parse("x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F] = x * w\n");
  EXPECT_EQ(make_formulas(*program, {}).error().to_string(),
            "mesh axis X has no size; expected one to count what each device does\n  hint: -d X=4, or a line mesh X = "
            "4\n");
}

}  // namespace
}  // namespace ridge

// Compares the device calls made of chains with the chains: both are evaluated in fp64, the chain step by step, the
// call with the operands at its pointers.
#include "ridge/ops/fused/cuda.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "ridge/plan/plan.h"

namespace ridge::ops::cuda {
namespace {

using Index = std::int64_t;

// p and q are products of x; `result` is an expression of these and of the inputs b, d, f, c, r and s.
constexpr const char* inputs =
    "x: bf16[M, K]  w: bf16[N, K]  v: bf16[N, K]  b: bf16[N]  d: bf16[N]  f: f32[N]  c: f32[M]  r: bf16[M, N]\n"
    "s: f16[M, N]\n";
std::string make_program(const std::string& result) {
  const bool two = result.find('q') != std::string::npos;
  return std::string(inputs) + "p[M, N] = x * w\n" + (two ? "q[M, N] = x * v\n" : "") + "y: bf16[M, N] = " + result;
}

FusedMatmul lower_fused(const std::string& text, Index m, Index n, Index k = 3) {
  const Program program = parse(text).value();
  Bindings dims{{"M", m}, {"N", n}, {"K", k}};
  if (text.find("[B,") != std::string::npos) dims["B"] = 2;
  const Plan lowered = make_plan(program, dims).value();
  for (const PlanStep& step : lowered.steps)
    if (const auto* found = std::get_if<FusedMatmul>(&step.kernel)) return *found;
  ADD_FAILURE() << "no fused product: " << text;
  return {};
}
FusedMatmul lower_fused(const std::string& result) { return lower_fused(make_program(result), 5, 4); }

double apply_activation(ChainOp op, double x) {
  switch (op) {
    case ChainOp::relu: return std::max(x, 0.0);
    case ChainOp::gelu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case ChainOp::gelu_tanh: return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case ChainOp::silu: return x / (1 + std::exp(-x));
    default: ADD_FAILURE() << "another operation"; return NAN;
  }
}
double apply_activation(EpilogueActivation function, double x) {
  switch (function) {
    case EpilogueActivation::none: return x;
    case EpilogueActivation::relu: return apply_activation(ChainOp::relu, x);
    case EpilogueActivation::gelu: return apply_activation(ChainOp::gelu, x);
    case EpilogueActivation::gelu_tanh: return apply_activation(ChainOp::gelu_tanh, x);
    case EpilogueActivation::silu: return apply_activation(ChainOp::silu, x);
  }
  return NAN;
}

// Sums and operands as fp64 matrices; the formats of the call are ignored.
class TestOperands {
 public:
  TestOperands(const FusedMatmul& problem, std::uint32_t seed) : problem_(problem) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> normal(-2, 2);
    const std::size_t count = problem.product.batch * problem.product.size.m * problem.product.size.n;
    for (std::size_t t = 0; t < problem.chain.tensors.size() + 3; ++t) {
      tensors_.emplace_back(count);
      for (double& x : tensors_.back()) x = normal(random);
    }
    for (std::vector<double>& t : tensors_) data_.push_back(t.data());
  }
  // Returns A, B, C and the chain's tensors after the sums. The sums themselves are stored last.
  std::vector<void*> data() const { return {data_.begin(), data_.end() - problem_.product_count()}; }
  double product_sum(int product, Index m, Index n) const {
    return tensors_[tensors_.size() - static_cast<std::size_t>(1 + product)][m * problem_.product.size.n + n];
  }

  double evaluate_chain(Index m, Index n) const {
    std::map<int, double> at;
    double stored = NAN;
    for (const ChainStep& s : problem_.chain.steps) {
      const double a = at[s.a], b = at[s.b];
      switch (s.op) {
        case ChainOp::load:
          at[s.result] = s.slot < problem_.product_count() ? product_sum(s.slot, m, n) : operand(s.slot, m, n);
          break;
        case ChainOp::constant: at[s.result] = s.constant; break;
        case ChainOp::store: stored = a; break;
        case ChainOp::add: at[s.result] = a + b; break;
        case ChainOp::subtract: at[s.result] = a - b; break;
        case ChainOp::multiply: at[s.result] = a * b; break;
        case ChainOp::divide: at[s.result] = a / b; break;
        case ChainOp::negate: at[s.result] = -a; break;
        case ChainOp::max: at[s.result] = std::max(a, b); break;
        default: at[s.result] = apply_activation(s.op, a);
      }
    }
    return stored;
  }

  double evaluate_call(const MatmulCall& call, Index m, Index n) const {
    const MatmulEpilogue& e = call.epilogue;
    const auto of = [&](const EpilogueOperand& x, double none) {
      return x.data ? static_cast<const double*>(x.data)[m * x.row_stride + n * x.col_stride] : none;
    };
    const double inner = e.alpha * of(e.scale, 1) * product_sum(0, m, n) + of(e.bias, 0);
    return apply_activation(e.activation, inner) * of(e.gate, 1) + e.beta * of(e.addend, 0);
  }
  double evaluate_call(const GatedCall& call, Index m, Index n) const {
    const auto of = [&](const void* bias) { return bias ? static_cast<const double*>(bias)[n] : 0.0; };
    const auto half = [&](const void* weights) { return product_sum(weights == data_[1] ? 0 : 1, m, n); };
    EXPECT_NE(call.up, call.gate);
    return (half(call.up) + of(call.bu)) * apply_activation(call.activation, half(call.gate) + of(call.bg));
  }

 private:
  double operand(int slot, Index m, Index n) const {
    const auto& strides = problem_.chain.tensors[slot].strides;
    const std::size_t t = 3 + slot - problem_.product_count();
    return tensors_[t][m * strides[1] + n * strides[2]];
  }
  const FusedMatmul& problem_;
  std::vector<std::vector<double>> tensors_;
  std::vector<void*> data_;
};

// Returns false if the chain is unsupported; otherwise expects the call to give the chain's results.
bool expect_call_equals_chain(const FusedMatmul& problem, const std::string& what) {
  const auto reason = unsupported_reason(problem);
  if (reason) return false;
  const TestOperands numbers(problem, 11);
  const FusedCall call = make_fused_call(problem, numbers.data());
  for (Index m = 0; m < problem.product.size.m; ++m)
    for (Index n = 0; n < problem.product.size.n; ++n) {
      const double expected = numbers.evaluate_chain(m, n);
      const double found = std::visit([&](const auto& c) { return numbers.evaluate_call(c, m, n); }, call);
      EXPECT_NEAR(found, expected, 1e-9 * (1 + std::fabs(expected))) << what << " at " << m << ", " << n;
    }
  return true;
}

TEST(FusedCuda, RecognizesEpilogues) {
  for (const char* result : {"relu(p)",
                             "p + b",
                             "b + p",
                             "p - b",
                             "r - p",
                             "p * 2",
                             "0.3 * p",
                             "p / 4",
                             "-p",
                             "p * b",
                             "p * 2 + r",
                             "r + 2 * p",
                             "0.3 * p - 0.7 * r",
                             "p + r / 8",
                             "(p + b) * 0.5",
                             "(p - b) * 4",
                             "gelu(p + b)",
                             "gelu_tanh(b + p * 0.125)",
                             "silu(p) * r",
                             "r * silu(p)",
                             "relu(p * b + c) * s + r",
                             "relu(p * b + c) * s - 3 * r",
                             "-(p * c) + b",
                             "(p * b * 2 + c) * r",
                             "p * r + r",
                             "p * b * c",
                             "max(p + b, 0)",
                             "max(0, p)",
                             "b - p * (2 * 3)",
                             "c * p * b - r",
                             "-r + gelu(p) * s",
                             "p + b + r",
                             "(p * s + r) * -2",
                             "c + p",
                             "p * (2 * b)"})
    EXPECT_TRUE(expect_call_equals_chain(lower_fused(result), result))
        << result << ": " << unsupported_reason(lower_fused(result)).text();
}

TEST(FusedCuda, RecognizesGatedLayers) {
  for (const char* result :
       {"p * q", "(p + b) * gelu(q + d)", "gelu(d + q) * (b + p)", "relu(p) * q", "q * silu(p + b)",
        "silu(q) * (p + b)", "(p + f) * (q + f)", "max(p, 0) * (q + b)", "gelu_tanh(p + f) * q"}) {
    const FusedMatmul problem = lower_fused(result);
    ASSERT_TRUE(expect_call_equals_chain(problem, result)) << result << ": " << unsupported_reason(problem).text();
    const TestOperands numbers(problem, 1);
    EXPECT_TRUE(std::holds_alternative<GatedCall>(make_fused_call(problem, numbers.data()))) << result;
  }
}

TEST(FusedCuda, GatedCallHasTheRightAddressesAndSizes) {
  const FusedMatmul problem = lower_fused("silu(p + b) * q");
  const TestOperands numbers(problem, 1);
  const std::vector<void*> data = numbers.data();
  const auto call = std::get<GatedCall>(make_fused_call(problem, data));
  EXPECT_EQ(call.x, data[0]);
  EXPECT_EQ(call.gate, data[1]) << "p has the activation";
  EXPECT_EQ(call.up, data[2]);
  EXPECT_EQ(call.bg, data[3]);
  EXPECT_EQ(call.bu, nullptr);
  EXPECT_EQ(call.y, data[4]);
  EXPECT_EQ(call.bias, DType::bf16);
  EXPECT_EQ((std::vector{call.size.m, call.size.n, call.size.k, call.x_row_stride, call.weight_line_stride,
                         call.y_row_stride}),
            (std::vector<Index>{5, 4, 3, 3, 3, 4}));
}

// Weights [K, N] instead of [N, K].
TEST(FusedCuda, SupportsBothWeightLayouts) {
  const FusedMatmul problem = lower_fused(
      "x: bf16[M, K]  w: bf16[K, N]  v: bf16[K, N]\np[M, N] = x * w\nq[M, N] = x * v\ny: bf16[M, N] = p * silu(q)", 5,
      4);
  ASSERT_TRUE(expect_call_equals_chain(problem, "[K, N]"));
  const TestOperands numbers(problem, 1);
  const auto call = std::get<GatedCall>(make_fused_call(problem, numbers.data()));
  EXPECT_EQ(call.weights, tile::Major::mn);
  EXPECT_EQ(call.weight_line_stride, 4);
}

TEST(FusedCuda, ReportsUnsupportedChains) {
  const std::string start = "the device's epilogue is scale, bias, activation, gate and residual; this chain has ";
  for (const auto& [result, why] : std::initializer_list<std::pair<const char*, const char*>>{
           {"cos(p)", "an unsupported operation"},
           {"p + 1", "a sum of unsupported expressions"},
           {"p / 3", "a division by no power of two"},
           {"p / b", "a division"},
           {"p * silu(r)", "a function of something other than a product's sums"},
           {"relu(gelu(p))", "a second activation"},
           {"relu(p - b)", "an activation after a gate or a residual"},
           {"gelu(p) * 2", "a constant after an activation"},
           {"(p + b) * 0.3", "a constant after other operands"},
           {"(p + b + r) * 2", "a constant after a bias and another operand"},
           {"p + b + r + c", "more than two terms"},
           {"p + (b + r)", "a sum of unsupported expressions"},
           {"(gelu(p) + b) * r", "a gate after a residual"},
           {"gelu(p) * b * c", "a second gate"},
           {"p * (0.3 * b)", "a gate with a factor"},
           {"p * p", "the sums times themselves"},
           {"gelu(p) * gelu(q)", "activations of both products"},
           {"(p * 2) * q", "two products with more than a bias each and an activation"},
           {"p + q", "a sum of unsupported expressions"},
           {"p * q + r", "a sum of unsupported expressions"},
           {"min(p, b)", "an unsupported operation"},
           {"where(p < 0, b, p)", "an unsupported operation"}})
    EXPECT_EQ(unsupported_reason(lower_fused(result)).text(), start + why) << result;
}

TEST(FusedCuda, ReportsUnsupportedGatedLayers) {
  const std::string start = "the device has no kernel for this: its gated layer ";
  const auto why = [&](const std::string& declared, const std::string& result = "p * q") {
    const Reason reason = unsupported_reason(
        lower_fused(declared + "\np[M, N] = x * w\nq[M, N] = x * v\ny: bf16[M, N] = " + result, 6, 4));
    return reason ? reason.text() : "none";
  };
  EXPECT_EQ(why("x: f32[M, K]  w: f32[N, K]  v: f32[N, K]"),
            start + "supports only bf16 and f16, and this one multiplies f32");
  EXPECT_EQ(why("x: bf16[M, K]  w: bf16[K, N]  v: bf16[K, N]"), "none");
  EXPECT_EQ(why("x: bf16[M, K]  w: bf16[N, K]  v: bf16[K, N]"), start + "needs two weights of the same layout");
  EXPECT_EQ(why("x: bf16[M, K]  w: bf16[K, N]  v: bf16[N, K]"), start + "needs two weights of the same layout");
  EXPECT_EQ(why("x: bf16[K, M]  w: bf16[N, K]  v: bf16[N, K]"),
            start + "needs x contiguous along the summed dimension");
  EXPECT_EQ(why("x: bf16[M, K]  w: bf16[N, K]  v: bf16[N, K]  b: f32[N]  d: bf16[N]", "(p + b) * (q + d)"),
            start + "takes biases of one dtype");
  EXPECT_EQ(why("x: bf16[M, K]  w: bf16[N, K]  v: bf16[N, K]  c: f32[M]", "(p + c) * q"),
            start + "takes biases along the columns");
  EXPECT_EQ(
      unsupported_reason(
          lower_fused("x: bf16[B, M, K]  w: bf16[B, N, K]  v: bf16[B, N, K]\np[B, M, N] = x * w\nq[B, M, N] = x * v\n"
                      "y: bf16[B, M, N] = p * q",
                      6, 4))
          .text(),
      start + "takes a batch of 1, found 2");
}

TEST(FusedCuda, ReportsTwoResultsAndUnusedSums) {
  FusedMatmul problem = lower_fused("relu(p)");
  const auto last = problem.chain.tensors.back();
  problem.chain.tensors.push_back(last);
  problem.chain.steps.push_back(
      {.op = ChainOp::store, .a = 0, .slot = static_cast<int>(problem.chain.tensors.size()) - 1});
  EXPECT_NE(unsupported_reason(problem).text().find("more than one stored result"), std::string::npos);
  problem = lower_fused("p * q");
  for (ChainStep& step : problem.chain.steps)
    if (step.op == ChainOp::multiply) step = {.op = ChainOp::relu, .result = step.result, .a = step.a};
  EXPECT_NE(unsupported_reason(problem).text().find("a result that uses only one product"), std::string::npos);
}

// Random expressions: most are unsupported, and the others give the right results.
TEST(FusedCuda, RandomSupportedChainsAreRight) {
  std::mt19937 random(3);
  const auto pick = [&](const std::vector<std::string>& of) {
    return of[std::uniform_int_distribution<std::size_t>(0, of.size() - 1)(random)];
  };
  int supported = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string e = pick({"p", "p", "p", "(p + b)", "(q + d)"});
    for (int depth = std::uniform_int_distribution<int>(1, 6)(random); depth > 0; --depth) {
      const std::string x = pick({"b", "c", "r", "s", "0.5", "2", "-1", "0.3", "4 * r", "q", "(q + d)", "silu(q)"});
      const std::string how = pick({"E + X", "X + E", "E - X", "X - E", "E * X", "X * E", "E / 2", "relu(E)", "gelu(E)",
                                    "-E", "max(E, 0)", "E * X", "E + X"});
      std::string next;
      for (const char letter : how)
        if (letter == 'E' || letter == 'X')
          next += "(" + (letter == 'E' ? e : x) + ")";
        else
          next += letter;
      e = next;
    }
    if (e.find('p') == std::string::npos) continue;
    supported += expect_call_equals_chain(lower_fused(e), e);
    if (HasFailure()) return;
  }
  EXPECT_GT(supported, 200);
}

}  // namespace
}  // namespace ridge::ops::cuda

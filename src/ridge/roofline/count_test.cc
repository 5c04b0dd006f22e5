// Compares the formulas with a literal loop nest, which visits every combination of indices, counts what it multiplies
// and applies, and records the elements that it touches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "ridge/roofline/masks.h"
#include "ridge/roofline/testing/random_program.h"
#include "ridge/roofline/work.h"

namespace ridge {
namespace {

Program parsed(const std::string& text) {
  auto program = parse(text);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().to_string());
  return program.ok() ? *program : Program{};
}

// --- reference implementation

using Index = std::map<std::string, std::int64_t>;

std::string axis_key(const Axis& axis) { return axis.is_named() ? axis.dim : std::to_string(axis.literal); }

// Calls `body` once for every combination of indices along `axes`.
void for_each_index(const std::vector<std::pair<std::string, std::int64_t>>& axes,
                    const std::function<void(const Index&)>& body) {
  Index at;
  const std::function<void(std::size_t)> loop = [&](std::size_t depth) {
    if (depth == axes.size()) return body(at);
    for (std::int64_t i = 0; i < axes[depth].second; ++i) {
      at[axes[depth].first] = i;
      loop(depth + 1);
    }
  };
  loop(0);
}

struct LoopCounts {
  std::int64_t flops = 0, bits_read = 0, bits_written = 0;
};

class LoopNest {
 public:
  LoopNest(const Program& program, const Bindings& sizes) : program_(program), sizes_(sizes) {}

  LoopCounts run(const Statement& statement) {
    std::visit([&](const auto& op) { run_op(op); }, statement.op);
    for (const auto& [tensor, elements] : touched_)
      (tensor == statement.result() ? counts_.bits_written : counts_.bits_read) +=
          static_cast<std::int64_t>(elements.size()) * dtype_bits(program_.tensors[tensor].dtype);
    return counts_;
  }

 private:
  std::int64_t extent(const Axis& axis) const { return axis.is_named() ? sizes_.at(axis.dim) : axis.literal; }

  void touch(int tensor, const Index& at) {
    std::vector<std::int64_t> element;
    for (const Axis& axis : program_.tensors[tensor].axes)
      element.push_back(extent(axis) == 1 ? 0 : at.at(axis_key(axis)));
    touched_[tensor].insert(element);
  }

  std::vector<std::pair<std::string, std::int64_t>> space(const std::vector<int>& tensors) const {
    std::map<std::string, std::int64_t> all;
    for (const int t : tensors)
      for (const Axis& axis : program_.tensors[t].axes) all[axis_key(axis)] = extent(axis);
    return {all.begin(), all.end()};
  }

  void run_op(const Contraction& op) {
    const auto all = space({op.result, op.left, op.right});
    std::set<std::string> kept{"1"};
    for (const Axis& axis : program_.tensors[op.result].axes) kept.insert(axis_key(axis));
    const bool sums = std::any_of(all.begin(), all.end(), [&](const auto& a) { return !kept.contains(a.first); });
    for_each_index(all, [&](const Index& at) {
      counts_.flops += sums ? 2 : 1;
      for (const int t : {op.left, op.right, op.result}) touch(t, at);
    });
  }

  void run_op(const Expression& op) {
    std::map<std::string, std::int64_t> result;
    for (const Axis& axis : program_.tensors[op.result].axes) result[axis_key(axis)] = extent(axis);
    for_each_index({result.begin(), result.end()}, [&](const Index& at) { touch(op.result, at); });
    level(op, static_cast<int>(op.nodes.size()) - 1, result, 0);
  }

  const Node& node(const Expression& op, int i) const { return op.nodes[i]; }

  // Returns the dimensions and sizes of the value of node i.
  std::map<std::string, std::int64_t> dims_of(const Expression& op, int i) const {
    const Node& n = node(op, i);
    std::map<std::string, std::int64_t> all;
    if (n.kind == Node::Kind::tensor)
      for (const Axis& axis : program_.tensors[n.tensor].axes) all[axis_key(axis)] = extent(axis);
    if (n.kind == Node::Kind::index) all[axis_key(n.over[0])] = extent(n.over[0]);
    for (const int argument : n.arguments) all.merge(dims_of(op, argument));
    if (n.kind == Node::Kind::along_dims && is_reducing_function(n.function))
      for (const Axis& axis : n.over) all.erase(axis_key(axis));
    return all;
  }

  // Visits every point of an index space. Counts `passes` FLOPs and the operations at each point, then visits the
  // spaces of the arguments of functions along dimensions.
  void level(const Expression& op, int root, const std::map<std::string, std::int64_t>& space, int passes) {
    std::set<int> below;
    for_each_index({space.begin(), space.end()}, [&](const Index& at) {
      counts_.flops += passes;
      visit(op, root, at, below);
    });
    for (const int i : below) {
      const Node& n = node(op, i);
      int each = 1;
      if (n.function == Function::rmsnorm) each = 3;
      if (n.function == Function::softmax || n.function == Function::layernorm) each = 5;
      level(op, n.arguments[0], dims_of(op, n.arguments[0]), each);
    }
  }

  bool visit(const Expression& op, int i, const Index& at, std::set<int>& below) {
    const Node& n = node(op, i);
    if (n.kind == Node::Kind::tensor) {
      touch(n.tensor, at);
      return true;
    }
    if (n.kind == Node::Kind::along_dims) {
      below.insert(i);
      return true;
    }
    bool varies = n.kind == Node::Kind::index;
    for (const int argument : n.arguments) varies = visit(op, argument, at, below) || varies;
    if (n.kind == Node::Kind::call && varies) counts_.flops += n.repeat;
    return varies;
  }

  const Program& program_;
  const Bindings& sizes_;
  std::map<int, std::set<std::vector<std::int64_t>>> touched_;
  LoopCounts counts_;
};

std::int64_t bits_to_bytes(std::int64_t bits) { return (bits + 7) / 8; }

void expect_agreement(const std::string& text, testing::RandomProgram& random) {
  const Program program = parsed(text);
  for (int trial = 0; trial < 3; ++trial) {
    Bindings sizes;
    for (const std::string& dim : program.dim_names()) sizes[dim] = 1 + random.below(5);
    const std::vector<Work> work = count_work(program);
    ASSERT_EQ(work.size(), 1u);
    const LoopCounts tally = LoopNest(program, sizes).run(program.statements[0]);
    // masks_nest_test.cc tests what conditions on indices leave.
    EXPECT_EQ(get_flops_without_masks(work[0]).evaluate(sizes).value(), tally.flops) << text;
    if (find_masks(program).all.empty()) {
      EXPECT_EQ(work[0].bytes_in.evaluate(sizes).value(), bits_to_bytes(tally.bits_read)) << text;
    }
    EXPECT_EQ(work[0].bytes_out.evaluate(sizes).value(), bits_to_bytes(tally.bits_written)) << text;
  }
}

const std::vector<DType> all_dtypes{DType::f64, DType::f32, DType::bf16, DType::e4m3, DType::int8, DType::int4};

TEST(Count, agrees_with_a_loop_nest_over_contractions) {
  for (unsigned seed = 0; seed < testing::program_count(400); ++seed) {
    testing::RandomProgram random(seed);
    expect_agreement(random.contraction(all_dtypes), random);
  }
}

TEST(Count, agrees_with_a_loop_nest_over_pointwise_expressions) {
  for (unsigned seed = 0; seed < testing::program_count(400); ++seed) {
    testing::RandomProgram random(seed);
    expect_agreement(random.pointwise(all_dtypes), random);
  }
}

TEST(Count, agrees_with_a_loop_nest_over_functions_along_dimensions) {
  int along = 0;
  for (unsigned seed = 0; seed < testing::program_count(600); ++seed) {
    testing::RandomProgram random(seed);
    const std::string text = random.along_dimensions(all_dtypes);
    along += text.find(" over ") != std::string::npos;
    expect_agreement(text, random);
  }
  EXPECT_GT(along, testing::program_count(600) / 2);
}

// --- formulas as text

std::string formulas(const std::string& text, std::size_t statement = 0) {
  const Program program = parsed(text);
  const Work work = count_work(program).at(statement);
  const auto order = program.dim_names();
  return fmt::format("{}{}: {} FLOP, {} + {} B", work.contraction ? "contraction " : "", dtype_name(work.math),
                     work.flops.to_string(order), work.bytes_in.to_string(order), work.bytes_out.to_string(order));
}

TEST(Count, of_a_product) {
  EXPECT_EQ(formulas("bf16[B, D] * bf16[D, F] -> bf16[B, F]"),
            "contraction bf16: 2*B*D*F FLOP, 2*B*D + 2*D*F + 2*B*F B");
  EXPECT_EQ(formulas("bf16[B, D] * int8[D, F] -> bf16[B, F]"), "contraction bf16: 2*B*D*F FLOP, 2*B*D + D*F + 2*B*F B");
  EXPECT_EQ(formulas("int8[B, D] * int8[B, D, F] -> int8[B, F]"),
            "contraction int8: 2*B*D*F FLOP, B*D*F + B*D + B*F B");
  EXPECT_EQ(formulas("bf16[B, D] * int4[D, F] -> bf16[B, F]"),
            "contraction bf16: 2*B*D*F FLOP, 2*B*D + D*F/2 + 2*B*F B");
  EXPECT_EQ(formulas("x * y: bf16[N], bf16[N] -> bf16[1]"), "contraction bf16: 2*N FLOP, 4*N + 2 B");
  EXPECT_EQ(formulas("f32[B, 64] * f32[64, F] -> f32[B, F]"), "contraction f32: 128*B*F FLOP, 256*B + 256*F + 4*B*F B");
}

TEST(Count, of_a_product_without_a_sum_is_one_flop_per_element) {
  EXPECT_EQ(formulas("bf16[B] * bf16[F] -> bf16[B, F]"), "f32: B*F FLOP, 2*B + 2*F + 2*B*F B");
  EXPECT_EQ(formulas("x: bf16[N]\ny: bf16[N] = x * x"), "f32: N FLOP, 2*N + 2*N B");
}

TEST(Count, reads_an_operand_that_occurs_twice_once) {
  EXPECT_EQ(formulas("x: bf16[N, D]\ng[N] = x * x"), "contraction bf16: 2*N*D FLOP, 2*N*D + 2*N B");
  EXPECT_EQ(formulas("x: f32[N]\ny: f32[N] = x * x + x"), "f32: 2*N FLOP, 4*N + 4*N B");
}

TEST(Count, of_pointwise_work_is_one_flop_per_operation_and_element) {
  EXPECT_EQ(formulas("u: bf16[N, F]   g: bf16[N, F]   bu: bf16[F]   bg: bf16[F]\n"
                     "y: bf16[N, F] = (u + bu) * gelu(g + bg)"),
            "f32: 4*N*F FLOP, 4*N*F + 4*F + 2*N*F B");
  EXPECT_EQ(formulas("x: f32[N]\ny: f32[N] = repeat(64, cos, x)"), "f32: 64*N FLOP, 4*N + 4*N B");
  EXPECT_EQ(formulas("x: f32[N]\ny: f32[N] = (2 * 3 + 1) * x"), "f32: N FLOP, 4*N + 4*N B");
  EXPECT_EQ(formulas("x: bf16[N]\ny: f32[N] = x"), "f32: 0 FLOP, 2*N + 4*N B");
}

TEST(Count, of_a_reduction_is_one_flop_per_input_element) {
  EXPECT_EQ(formulas("x: bf16[N, D]\ny[N] = sum(x over D)"), "f32: N*D FLOP, 2*N*D + 2*N B");
  EXPECT_EQ(formulas("x: bf16[N, D]\ny[1] = max(x over N, D)"), "f32: N*D FLOP, 2*N*D + 2 B");
  EXPECT_EQ(formulas("x: f32[N, D]   g: f32[D]\ny[N] = sum(x * g over D) / size(D)"),
            "f32: 2*N*D + N FLOP, 4*N*D + 4*D + 4*N B");
}

TEST(Count, computes_a_sum_once_and_not_per_element_that_reads_it) {
  EXPECT_EQ(formulas("x: f32[N, D]\ny[N, D] = x / sum(x over D)"), "f32: 2*N*D FLOP, 4*N*D + 4*N*D B");
  EXPECT_EQ(formulas("x: f32[N, D]\ny[N] = sum(x / sum(x over D) over D)"), "f32: 3*N*D FLOP, 4*N*D + 4*N B");
}

TEST(Count, of_softmax_rmsnorm_layernorm_is_5_3_5_flops_per_element) {
  EXPECT_EQ(formulas("s: bf16[S, T]\np[S, T] = softmax(s over T)"), "f32: 5*S*T FLOP, 2*S*T + 2*S*T B");
  EXPECT_EQ(formulas("s: bf16[S, T]\np[S, T] = softmax(where(index(T) <= index(S), s * rsqrt(64), -inf) over T)"),
            "f32: 8*pairs FLOP, 2*pairs + 2*S*T B");
  EXPECT_EQ(formulas("x: bf16[N, D]   w: bf16[D]\ny[N, D] = rmsnorm(x over D) * w"),
            "f32: 4*N*D FLOP, 2*N*D + 2*D + 2*N*D B");
  EXPECT_EQ(formulas("x: bf16[N, D]\ny[N, D] = layernorm(x over D)"), "f32: 5*N*D FLOP, 2*N*D + 2*N*D B");
}

TEST(Count, of_a_summed_product_equals_that_of_the_contraction) {
  EXPECT_EQ(formulas("x: bf16[B, D]   w: bf16[D, F]\ny[B, F] = sum(x * w over D)"),
            "contraction bf16: 2*B*D*F FLOP, 2*B*D + 2*D*F + 2*B*F B");
}

std::string device_formulas(const std::string& text, const Bindings& sizes) {
  const Program program = parsed(text);
  const Work work = count_work(program, sizes).back();
  const auto order = program.dim_names();
  return fmt::format("{} FLOP, {} + {} B; {}", work.flops.to_string(order), work.bytes_in.to_string(order),
                     work.bytes_out.to_string(order), work.collective);
}

TEST(Count, of_a_sharded_product_is_for_one_device) {
  EXPECT_EQ(device_formulas("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]{U_X}", {{"X", 2}}),
            "B*D*F FLOP, B*D + D*F + 2*B*F B; ");
  EXPECT_EQ(device_formulas("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F_X]", {{"X", 4}}),
            "B*D*F/2 FLOP, B*D/2 + D*F/2 + B*F/2 B; reduce-scatter over X");
  EXPECT_EQ(device_formulas("bf16[B_Y, D_X] * bf16[D_X, F] -> bf16[B_Y, F]", {{"X", 2}, {"Y", 4}}),
            "B*D*F/4 FLOP, B*D/4 + D*F + B*F/2 B; all-reduce over X");
  EXPECT_EQ(device_formulas("bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]", {}),
            "2*B*D*F FLOP, 2*B*D + 2*D*F + 2*B*F B; ");
  EXPECT_EQ(device_formulas("x: f32[N_X, D_Y]   b: f32[D_Y]\ny[N_X, D_Y] = gelu(x + b)", {{"X", 2}, {"Y", 2}}),
            "N*D/2 FLOP, N*D + 2*D + N*D B; ");
}

TEST(Count, of_a_fused_program_omits_undeclared_intermediates) {
  const Program program = parsed(
      "x: bf16[N, D]   w: bf16[D, F]   unused: bf16[N]\n"
      "u[N, F] = x * w\nv: f32[N, F] = exp(u)\ny[N] = sum(u * v over F)");
  const Work fused = count_fused(program, count_work(program));
  const auto order = program.dim_names();
  EXPECT_EQ(fused.flops.to_string(order), "2*N*D*F + 3*N*F");
  EXPECT_EQ(fused.bytes_in.to_string(order), "2*N*D + 2*D*F");
  EXPECT_EQ(fused.bytes_out.to_string(order), "4*N*F + 4*N");
}

// Rows that are added to an input in place are read and written; nothing else of it is.
TEST(Count, of_a_scatter_in_place_is_that_of_its_rows) {
  const Program program = parsed(
      "c: f32[T, E]  x: bf16[N, E]  i: int32[N]\ny: f32[T, E] replaces c = scatter(x, i over T)\nz: f32[N, E] = x + x");
  const auto order = program.dim_names();
  const std::vector<Work> work = count_work(program);
  EXPECT_EQ(work[0].bytes_in.to_string(order), "6*E*N + 4*N");
  EXPECT_EQ(work[0].bytes_out.to_string(order), "4*E*N");
  const Work fused = count_fused(program, work);
  EXPECT_EQ(fused.bytes_in.to_string(order), "6*E*N + 4*N");
  EXPECT_EQ(fused.bytes_out.to_string(order), "8*E*N");
}

TEST(Count, lists_statements_in_order) {
  const Program program = parsed("x: bf16[N, D]   w: bf16[D, F]\nu[N, F] = x * w\ny: f32[N, F] = exp(u)");
  const std::vector<Work> work = count_work(program);
  ASSERT_EQ(work.size(), 2u);
  EXPECT_EQ(work[0].name, "u");
  EXPECT_EQ(work[1].name, "y");
  EXPECT_EQ(work[1].text, "y: f32[N, F] = exp(u)");
}

// "exp: S*T, divide: S"; a division by a number is no call.
std::string calls_text(const Work& work, const Program& program) {
  std::string out;
  for (const FunctionCalls& calls : work.calls)
    out += std::string(out.empty() ? "" : ", ") + std::string(function_info(calls.function).name) + ": " +
           calls.count.to_string(program.dim_names());
  return out;
}

TEST(Count, lists_the_calls_of_functions) {
  const auto calls = [](const std::string& text) {
    const Program program = parsed(text);
    return calls_text(count_work(program).back(), program);
  };
  EXPECT_EQ(calls("x: f32[N]\ny: f32[N] = repeat(3, cos, x) + cos(x) / 2"), "cos: 4*N");
  EXPECT_EQ(calls("x: f32[N]  z: f32[N]\ny: f32[N] = exp(x) / z + max(x, 0)"), "exp: N, divide: N");
  EXPECT_EQ(calls("x: f32[N, D]\ny: f32[N, D] = softmax(x over D)"), "exp: N*D");
  // Elements with the same arguments share a call, those with the same divisor its reciprocal.
  EXPECT_EQ(calls("x: f32[N, D]  s: f32[N]\ny: f32[N, D] = x / s"), "divide: N");
  EXPECT_EQ(calls("x: f32[N, D]\ny: f32[N, D] = x * rsqrt(mean(x * x over D))"), "rsqrt: N");
  EXPECT_EQ(calls("x: f32[N, D]\ny: f32[N] = log(sum(exp(x) over D))"), "exp: N*D, log: N");
  EXPECT_EQ(calls("x: f32[D]  z: f32[N, D]\ny: f32[N, D] = exp(x) + z"), "exp: D");
  EXPECT_EQ(calls("x: f32[N, D]\ny: f32[N] = sqrt(sum(exp(x) over D))"), "exp: N*D, sqrt: N");
  EXPECT_EQ(calls("x: f32[N, D]\ny: f32[N, D] = x + exp(1)"), "");
}

TEST(Count, of_literal_sizes_beyond_64_bits_is_inexact) {
  const Work work =
      count_work(parsed("bf16[4000000000, 4000000001] * bf16[4000000001, N] -> bf16[4000000000, N]")).at(0);
  EXPECT_FALSE(work.flops.is_exact());
}

}  // namespace
}  // namespace ridge

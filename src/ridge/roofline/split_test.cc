// The product of the roofline notes that is summed over two chips, and the effect of a split on other tensors.
#include "ridge/roofline/split.h"

#include <gtest/gtest.h>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

constexpr const char* product = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";

Machine v5e() {
  Machine machine = testing::make_test_machine({{DType::bf16, 1.97e14}}, {}, 8.2e11);
  machine.links.push_back({.name = "ici", .bandwidth = testing::make_number(4.5e10)});
  return machine;
}

Explanation split_in_two(const std::string& dim, const Bindings& sizes = {}) {
  return explain(parse(product).value(), v5e(), sizes, DimensionSplit{dim, 2}).value();
}

const Threshold& threshold(const Explanation& e, const std::string& dim, Limiter over, Limiter under) {
  for (const Threshold& t : e.ops[0].thresholds)
    if (t.dim == dim && t.roofs == std::array{over, under}) return t;
  ADD_FAILURE() << "no threshold for " << dim;
  return e.ops[0].thresholds[0];
}

TEST(Split, of_the_summed_dimension_sends_partial_sums) {
  const Explanation e = split_in_two("D");
  const Work& work = e.ops[0].work;
  EXPECT_EQ(work.flops.to_string(e.dim_names), "B*D*F");
  EXPECT_EQ(work.bytes().to_string(e.dim_names), "B*D + 2*B*F + D*F");
  EXPECT_EQ(work.bytes_sent.to_string(e.dim_names), "2*B*F");
  const Threshold& t = threshold(e, "D", Limiter::compute, Limiter::network);
  EXPECT_EQ(t.exact, "2*r");
  EXPECT_EQ(t.value, 8756);
  EXPECT_DOUBLE_EQ(*t.value_real, 2 * 1.97e14 / 4.5e10);
  EXPECT_DOUBLE_EQ(t.ratio, 1.97e14 / 4.5e10);
  EXPECT_EQ(t.condition, "");
}

TEST(Split, is_network_bound_only_below_the_threshold) {
  const Bindings below{{"B", 4096}, {"D", 8754}, {"F", 8192}}, above{{"B", 4096}, {"D", 8756}, {"F", 8192}};
  EXPECT_EQ(split_in_two("D", below).ops[0].limiter, Limiter::network);
  EXPECT_EQ(split_in_two("D", below).ops[0].runner_up, Limiter::compute);
  EXPECT_EQ(split_in_two("D", above).ops[0].limiter, Limiter::compute);
  EXPECT_EQ(split_in_two("D", above).total.limiter, Limiter::compute);
  EXPECT_EQ(split_in_two("D", above).total.runner_up, Limiter::network);
}

TEST(Split, has_a_separate_threshold_of_memory_against_network) {
  const Explanation e = split_in_two("D");
  const Threshold& t = threshold(e, "D", Limiter::memory, Limiter::network);
  EXPECT_EQ(t.exact, "(2*r*B*F - 2*B*F)/(B + F)");
  const Threshold& upper = threshold(e, "B", Limiter::memory, Limiter::network);
  EXPECT_EQ(upper.relation, Relation::at_most);
  EXPECT_EQ(upper.exact, "(D*F)/(2*r*F - (D + 2*F))");
  EXPECT_EQ(upper.condition, "2*r*F > D + 2*F");
}

TEST(Split, of_any_other_dimension_sends_nothing) {
  for (const char* dim : {"B", "F"}) {
    const Explanation e = split_in_two(dim, {{"B", 512}, {"D", 512}, {"F", 512}});
    EXPECT_TRUE(e.ops[0].work.bytes_sent.is_zero());
    EXPECT_FALSE(e.ops[0].time_network_s);
    EXPECT_EQ(e.ops[0].flops, 2ll * 512 * 512 * 256);
  }
}

TEST(Split, over_more_chips_sends_a_ring_all_reduce) {
  const Explanation e = explain(parse(product).value(), v5e(), {}, DimensionSplit{"D", 4}).value();
  EXPECT_EQ(e.ops[0].work.bytes_sent.to_string(e.dim_names), "3*B*F");  // 2*3/4 of 2*B*F
  EXPECT_TRUE(
      explain(parse(product).value(), v5e(), {}, DimensionSplit{"D", 1}).value().ops[0].work.bytes_sent.is_zero());
}

TEST(Split, along_a_functions_dimension_sends_as_the_sharded_program) {
  const auto sent = [](const std::string& text, const std::optional<DimensionSplit>& cut) {
    const Explanation e = explain(parse(text).value(), v5e(), cut ? Bindings{} : Bindings{{"X", 4}}, cut).value();
    return e.ops.back().work.bytes_sent.to_string(e.dim_names) + " B, " +
           e.ops.back().work.flops.to_string(e.dim_names);
  };
  for (const std::string run : {"y[B{}, D{}] = softmax(x over D)", "y[B{}] = sum(x over D)",
                                "y[B{}, D{}] = x - max(x over D)", "y[D{}] = mean(x over B)", "y[B{}, D{}] = cos(x)"})
    for (const std::string dim : {"B", "D"}) {
      std::string plain = "x: bf16[B{}, D{}]\n" + run, sharded = plain;
      for (const char* name : {"B", "D"})
        for (std::size_t at; (at = sharded.find(std::string(name) + "{}")) != std::string::npos;)
          sharded.replace(at + 1, 2, name == dim ? "_X" : "");
      for (std::size_t at; (at = plain.find("{}")) != std::string::npos;) plain.erase(at, 2);
      EXPECT_EQ(sent(plain, DimensionSplit{dim, 4}), sent(sharded, std::nullopt)) << sharded;
    }
  EXPECT_EQ(sent("x: bf16[B, D]\ny[B, D] = softmax(x over D)", DimensionSplit{"D", 4}), "12*B B, 5*B*D/4");
}

// A program sharded in its text has the same numbers and thresholds as --split.
TEST(Sharded, product_equals_the_split_product) {
  const std::string sharded[] = {"bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]",
                                 "bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]"};
  for (std::size_t i = 0; i < 2; ++i)
    for (const std::int64_t chips : {1, 2, 4, 8}) {
      const Bindings sizes{{"B", 4096}, {"D", 8192}, {"F", 1024}};
      Bindings with_mesh = sizes;
      with_mesh["X"] = chips;
      const Explanation a =
          explain(parse(product).value(), v5e(), sizes, DimensionSplit{i == 0 ? "D" : "B", chips}).value();
      const Explanation b = explain(parse(sharded[i]).value(), v5e(), with_mesh).value();
      const Prediction &x = a.ops[0], &y = b.ops[0];
      EXPECT_EQ(x.flops, y.flops);
      EXPECT_EQ(x.bytes, y.bytes);
      EXPECT_EQ(x.time_network_s, y.time_network_s);
      EXPECT_EQ(x.time_lower_s, y.time_lower_s);
      EXPECT_EQ(x.time_upper_s, y.time_upper_s);
      EXPECT_EQ(x.limiter, y.limiter);
      EXPECT_EQ(x.work.bytes_sent, y.work.bytes_sent);
      ASSERT_EQ(x.thresholds.size(), y.thresholds.size());
      for (std::size_t t = 0; t < x.thresholds.size(); ++t) {
        EXPECT_EQ(x.thresholds[t].exact, y.thresholds[t].exact);
        EXPECT_EQ(x.thresholds[t].value, y.thresholds[t].value);
      }
      EXPECT_EQ(a.total.limiter, b.total.limiter);
    }
}

TEST(Sharded, statements_send_what_their_collectives_send_on_a_ring) {
  const auto sent = [](const std::string& text, const Bindings& mesh) {
    const Explanation e = explain(parse(text).value(), v5e(), mesh).value();
    return e.ops.back().work.bytes_sent.to_string(e.dim_names);
  };
  const std::string a = "x: bf16[B, D_X]\n", w = "w: bf16[D_X, F]\n";
  EXPECT_EQ(sent(a + w + "y[B, F]{U_X} = x * w", {{"X", 4}}), "0");
  EXPECT_EQ(sent(a + w + "y[B, F] = x * w", {{"X", 4}}), "3*B*F");      // all-reduce: 2*3/4 of 2*B*F
  EXPECT_EQ(sent(a + w + "y[B, F_X] = x * w", {{"X", 4}}), "3*B*F/2");  // reduce-scatter: 3/4 of 2*B*F
  EXPECT_EQ(sent(a + "y[B, D] = x", {{"X", 4}}), "3*B*D/2");            // all-gather: 3/4 of 2*B*D
  EXPECT_EQ(sent(a + "y[B_X, D] = x", {{"X", 4}}), "3*B*D/4");          // all-to-all: 3/2 of 2*B*D/4
  EXPECT_EQ(sent(a + "y[B, D] = x", {{"X", 1}}), "0");
  // After a scatter over Y, half remains to all-reduce over X: 2*B*F/2 + 2*1/2*2*B*F/2.
  EXPECT_EQ(sent("x: bf16[B, D_XY]\nw: bf16[D_XY, F]\ny[B, F_Y] = x * w", {{"X", 2}, {"Y", 2}}), "2*B*F");
}

// On one of four devices, an all-reduce in f32 sends 2*3/4 of 4 bytes per row.
TEST(Sharded, functions_along_a_split_dimension_all_reduce_per_row) {
  const auto work = [](const std::string& text) {
    const Bindings mesh = text.find('Y') == std::string::npos ? Bindings{{"X", 4}} : Bindings{{"X", 4}, {"Y", 2}};
    const Explanation e = explain(parse(text).value(), v5e(), mesh).value();
    const Work& w = e.ops.back().work;
    return w.bytes_sent.to_string(e.dim_names) + " B, " + w.flops.to_string(e.dim_names) + " FLOP";
  };
  const std::string x = "x: bf16[B, D_X]\n";
  EXPECT_EQ(work(x + "y[B] = sum(x over D)"), "6*B B, B*D/4 FLOP");
  EXPECT_EQ(work(x + "y[B] = max(x over D)"), "6*B B, B*D/4 FLOP");
  EXPECT_EQ(work(x + "y[B, D_X] = rmsnorm(x over D)"), "6*B B, 3*B*D/4 FLOP");
  EXPECT_EQ(work(x + "y[B, D_X] = softmax(x over D)"), "12*B B, 5*B*D/4 FLOP");    // maximum and sum
  EXPECT_EQ(work(x + "y[B, D_X] = layernorm(x over D)"), "12*B B, 5*B*D/4 FLOP");  // mean and mean square
  EXPECT_EQ(work(x + "y[1] = sum(x over B, D)"), "6 B, B*D/4 FLOP");
  EXPECT_EQ(work(x + "y[1] = sum(max(x over D) over B)"),
            "6*B B, B*D/4 + B FLOP");  // Every device computes the second one
  EXPECT_EQ(work("x: bf16[B_Y, D_X]\ny[B_Y, D_X] = softmax(x over D)"), "6*B B, 5*B*D/8 FLOP");
  EXPECT_EQ(work("x: bf16[B, D_XY]\ny[B] = mean(x over D)"), "7*B B, B*D/8 FLOP");  // 2*7/8 of 4 bytes
  EXPECT_EQ(work("x: bf16[B, T_X]\ny[B] = sum(x * index(T) over T)"), "6*B B, B*T/2 FLOP");
  EXPECT_EQ(work("x: bf16[B, D]\ny[T_X, B] = sum(index(T) * x over D)"), "0 B, B*D*T/2 FLOP");
}

TEST(Sharded, needs_a_link_only_if_something_is_sent) {
  const Machine alone = testing::make_test_machine({{DType::bf16, 1}}, {}, 1);
  const auto error = [&](const std::string& text) {
    const auto e = explain(parse(text).value(), alone, {{"X", 2}});
    return e ? std::string("none") : e.error().to_string();
  };
  EXPECT_EQ(error("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]{U_X}"), "none");
  EXPECT_EQ(error("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"),
            "machine 'test' has no link on record\n  hint: give its rate one way: --link 4.5e10\n");
}

TEST(Split, counts_the_largest_shard_of_an_indivisible_dimension) {
  const Program p = parse(product).value();
  const Explanation e = explain(p, v5e(), {{"B", 3}, {"D", 7}, {"F", 5}}, DimensionSplit{"D", 2}).value();
  EXPECT_EQ(e.ops[0].work.flops.to_string(e.dim_names), "2*B*F*ceil(D/2)");
  EXPECT_EQ(e.ops[0].flops, 2 * 3 * 4 * 5);
  EXPECT_EQ(e.ops[0].bytes, 2 * (3 * 4 + 4 * 5 + 3 * 5));
  EXPECT_EQ(*e.ops[0].bytes_sent, 2 * 3 * 5);
  for (const Threshold& t : e.ops[0].thresholds) EXPECT_EQ(t.numerical, t.dim == "D") << t.dim;
}

TEST(Split, rejects_dimensions_that_cannot_be_split) {
  const auto error = [](const auto& result) { return result ? std::string("none") : result.error().to_string(); };
  const Program p = parse(product).value();
  EXPECT_EQ(error(explain(p, v5e(), {}, DimensionSplit{"E", 2})),
            "the program has no dimension 'E' to split; it has B, D, F\n");
  EXPECT_EQ(error(explain(p, testing::make_test_machine({{DType::bf16, 1}}, {}, 1), {}, DimensionSplit{"D", 2})),
            "machine 'test' has no link on record\n  hint: give its rate one way: --link 4.5e10\n");
  for (const char* text : {"D", "D=", "=2", "D=0", "D=x", "D=2x", "D=2097152", ""})
    EXPECT_EQ(error(parse_split(text)), "expected DIMENSION=CHIPS with 1 to 1048576 chips after --split, found '" +
                                            std::string(text) + "'\n  hint: --split D=2\n");
  EXPECT_EQ(parse_split("d_ff=8")->chips, 8);
}

TEST(Split, splits_two_dimensions_over_the_same_chips) {
  const std::string text =
      "dims B = 64, D = 512, F = 2048, H = 8, G = H/4, E = 64\n"
      "x: bf16[B, D]   wq: bf16[D, H, E]   up: bf16[D, F]   down: bf16[F, D]\n"
      "q[B, H, E] = x * wq\nu[B, F] = x * up\ny: bf16[B, D] = u * down";
  const auto program = parse(text).value();
  const auto both = parse_splits({"F=8", "H=8"}).value();
  EXPECT_EQ(format_dims(both), "F and H");
  const std::vector<Work> work = count_work(shard_program(program, both), {{split_axis, both.chips}});
  const Bindings dims = program.bind_sizes({}).value();
  EXPECT_EQ(work[0].flops.evaluate(dims).value(), 2 * 64 * 512 * 8 * 64 / 8);
  EXPECT_EQ(work[1].flops.evaluate(dims).value(), 2 * 64 * 512 * 2048 / 8);
  EXPECT_EQ(work[2].bytes_sent.evaluate(dims).value(), 2 * 7 * 64 * 512 * 2 / 8);  // 2*(n - 1)/n of the result
  EXPECT_TRUE(work[0].bytes_sent.is_zero());
}

TEST(Split, names_two_dimensions_that_cannot_be_split_together) {
  const auto refusal = [](const std::string& text, const std::vector<std::string>& splits) {
    const auto split = parse_splits(splits);
    if (!split) return split.error().message;
    const Status valid = validate_split(parse(text).value(), *split);
    return valid ? "accepted" : valid.error().message;
  };
  const std::string matmul = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";
  EXPECT_EQ(refusal(matmul, {"D=2"}), "accepted");
  EXPECT_EQ(refusal(matmul, {"B=2", "F=2"}), "'Z' has both B and F, which cannot be split over the same chips");
  EXPECT_EQ(refusal(matmul, {"B=2", "F=4"}), "expected splits over the same chips, found B=2 and F=4");
  EXPECT_EQ(refusal(matmul, {"B=2", "B=2"}), "dimension 'B' is split twice");
  EXPECT_EQ(refusal("dims Z = 8\nx: bf16[N, D]   y: bf16[N] = sum(x over D)", {"Z=8"}),
            "no tensor has dimension 'Z', so splitting it changes nothing");
  EXPECT_EQ(refusal(matmul, {"B=2", "G=2"}), "the program has no dimension 'G' to split; it has B, D, F");
  EXPECT_EQ(refusal("x: bf16[N, T]\ny: bf16[N, T] = cumsum(x over T)", {"T=2"}),
            "'y: bf16[N, T] = cumsum(x over T)' cannot be split along T: each step needs the previous one");
  EXPECT_EQ(refusal("x: bf16[N, C, H]  w: bf16[K, C, 3]\ny: bf16[N, K, H] = conv(x, w, padding = 1)", {"H=2"}),
            "'y: bf16[N, K, H] = conv(x, w, padding = 1)' cannot be split along H: windows cross the boundary of a "
            "shard, and the halo exchange is not modelled");
  EXPECT_EQ(refusal("x: bf16[N, C, H]  w: bf16[C, K, 2]\ny: bf16[N, K, P] = conv_transpose(x, w, stride = 2)", {"P=2"}),
            "'y: bf16[N, K, P] = conv_transpose(x, w, stride = 2)' cannot be split along P: windows cross the boundary "
            "of a shard, and the halo exchange is not modelled");
  EXPECT_EQ(refusal("x: bf16[N, C, H]  w: bf16[C, 4, 1]\ny: bf16[N, 8, H] = conv_transpose(x, w, groups = 2)", {"C=2"}),
            "'y: bf16[N, 8, H] = conv_transpose(x, w, groups = 2)' cannot be split along C: its groups would be split");
}

// Channels of a convolution and rows of a table are split like a contraction's dimensions.
TEST(Split, of_routines) {
  const auto one = [](const std::string& text, const std::string& dim) {
    const Program program = parse(text).value();
    const Work work = count_work(shard_program(program, DimensionSplit{dim, 2}), {{split_axis, 2}}).front();
    const auto order = program.dim_names();
    return work.flops.to_string(order) + " FLOP, " + work.bytes_in.to_string(order) + " + " +
           work.bytes_out.to_string(order) + " B, " + work.bytes_sent.to_string(order) + " sent";
  };
  const std::string conv = "x: bf16[N, C, H]  w: bf16[K, C, 1]\ny[N, K, H] = conv(x, w)";
  EXPECT_EQ(one(conv, "N"), "N*C*H*K FLOP, N*C*H + 2*C*K + N*H*K B, 0 sent");
  EXPECT_EQ(one(conv, "C"), "N*C*H*K FLOP, N*C*H + C*K + 2*N*H*K B, 2*N*H*K sent");
  const std::string transposed = "x: bf16[N, C, H]  w: bf16[C, K, 1]\ny[N, K, H] = conv_transpose(x, w)";
  EXPECT_EQ(one(transposed, "K"), "N*C*H*K FLOP, 2*N*C*H + C*K + N*H*K B, 0 sent");
  EXPECT_EQ(one(transposed, "C"), "N*C*H*K FLOP, N*C*H + C*K + 2*N*H*K B, 2*N*H*K sent");
  const std::string gather = "t: bf16[V, D]  i: int32[N]\ny[N, D] = gather(t, i over V)";
  EXPECT_EQ(one(gather, "D"), "0 FLOP, D*rows + 4*N + D*N B, 0 sent");
  EXPECT_EQ(one(gather, "V"), "0 FLOP, 2*D*rows + 4*N + 2*D*N B, 2*D*N sent");
}

}  // namespace
}  // namespace ridge

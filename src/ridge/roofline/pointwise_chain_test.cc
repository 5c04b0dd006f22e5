// Chains on an A100: compute-bound from 104 FLOPs per element, not from the often quoted 50.
#include "ridge/roofline/pointwise_chain.h"

#include <gtest/gtest.h>

#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

Machine a100() {
  Machine machine = testing::make_test_machine({}, 19.5e12, 1.5e12);
  machine.numbers.emplace("launch_s", testing::make_number(3e-6));
  return machine;
}

PointwiseChain chain(const std::string& text, const FunctionCosts& costs = {}, const Bindings& dims = {}) {
  const auto found = analyze_chains(parse(text).value(), a100(), dims, costs);
  EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().to_string());
  EXPECT_EQ(found->size(), 1u);
  return found->at(0);
}

TEST(PointwiseChain, of_two_cosines_moves_twice_as_much_unfused) {  // s1_8
  const PointwiseChain c = chain("x: f32[N]\nx1[N] = cos(x)\nx2: f32[N] = cos(x1)");
  EXPECT_EQ(c.fused_bytes, 8);
  EXPECT_EQ(c.unfused_bytes, 16);
  EXPECT_EQ(c.kernels, 2);
  EXPECT_EQ(c.text, "x1[N] = cos(x); x2: f32[N] = cos(x1)");
}

TEST(PointwiseChain, is_compute_bound_from_104_flops_per_element) {  // s1_5
  const PointwiseChain c = chain("x: f32[N]\ny: f32[N] = repeat(103, cos, x)");
  EXPECT_DOUBLE_EQ(c.break_even_flops, 104);
  EXPECT_EQ(c.break_even_repeats, 104);
  EXPECT_FALSE(c.compute_bound);
  EXPECT_EQ(c.unfused_bytes, 103 * 8);
  EXPECT_TRUE(chain("x: f32[N]\ny: f32[N] = repeat(104, cos, x)").compute_bound);
}

TEST(PointwiseChain, prefers_the_callers_function_cost_to_the_machines) {
  const std::string text = "x: f32[N]\ny: f32[N] = repeat(3, cos, x) + 1";
  EXPECT_EQ(chain(text).flops, 4);
  const PointwiseChain c = chain(text, {{"cos", 20}});
  EXPECT_EQ(c.flops, 61);
  EXPECT_EQ(c.break_even_repeats, 6);  // (104 - 1)/20
  EXPECT_EQ(c.functions[0].source, "--cost");
  EXPECT_EQ(c.functions[1].source, "counted as 1");
  Machine machine = a100();
  machine.numbers.emplace("cost_cos", testing::make_number(50));
  EXPECT_EQ(analyze_chains(parse(text).value(), machine, {}, {})->at(0).flops, 151);
}

TEST(PointwiseChain, is_limited_by_launches_below_a_number_of_elements) {
  const PointwiseChain c = chain("x: f32[N]\ny: f32[N] = repeat(4, cos, x)");
  EXPECT_DOUBLE_EQ(c.fused_elements, 3e-6 * 1.5e12 / 8);
  EXPECT_DOUBLE_EQ(c.unfused_elements, 3e-6 * 1.5e12 / 8);  // four times both
}

TEST(PointwiseChain, ends_at_a_result_that_is_read_elsewhere_or_summed) {
  const Program p =
      parse("x: f32[N, M]\nw: f32[M]\na[N, M] = x + w\nb[N, M] = cos(a)\ny: f32[N] = b * w\nc: f32[N, M] = a * 2")
          .value();
  const auto found = analyze_chains(p, a100(), {{"N", 10}, {"M", 5}}, {});
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  ASSERT_EQ(found->size(), 3u);
  EXPECT_EQ(found->at(0).name, "a");  // Read twice
  EXPECT_DOUBLE_EQ(found->at(0).fused_bytes, (50 * 4 + 5 * 4 + 50 * 4) / 50.0);
  EXPECT_EQ(found->at(1).name, "b");
  EXPECT_EQ(found->at(2).name, "c");
}

TEST(PointwiseChain, continues_over_outputs_and_counts_what_it_stores_of_them) {
  const PointwiseChain c = chain("x: bf16[N]\nu: f32[N] = exp(x)\nv[N] = u + 1\ny: bf16[N] = v / 2");
  EXPECT_EQ(c.text, "u: f32[N] = exp(x); v[N] = u + 1; y: bf16[N] = v / 2");
  EXPECT_EQ(c.stored, std::vector<std::string>{"u"});
  EXPECT_EQ(c.fused_bytes, 2 + 4 + 2);
  EXPECT_EQ(chain("x: bf16[N]\nu[N] = exp(x)\nv[N] = u + 1\ny: bf16[N] = v / 2").fused_bytes, 2 + 2);
}

TEST(PointwiseChain, ends_if_the_next_statement_has_another_size) {
  const Program p = parse(
                        "x: f32[N]\nz: f32[N, M]\na[N] = cos(x)\nb[N] = a * 2\nc[N, M] = z + b\n"
                        "y: f32[N, M] = cos(c)")
                        .value();
  const auto found = analyze_chains(p, a100(), {{"N", 10}, {"M", 5}}, {});
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ(found->at(0).text, "a[N] = cos(x); b[N] = a * 2");
  EXPECT_DOUBLE_EQ(found->at(0).fused_bytes, 4 + 4);
  EXPECT_EQ(found->at(1).text, "c[N, M] = z + b; y: f32[N, M] = cos(c)");
  EXPECT_DOUBLE_EQ(found->at(1).fused_bytes, (50 * 4 + 10 * 4 + 50 * 4) / 50.0);
}

TEST(PointwiseChain, continues_only_if_the_next_statement_is_the_only_reader) {
  const auto texts = [](const std::string& text) {
    std::vector<std::string> out;
    const auto found = analyze_chains(parse(text).value(), a100(), {{"N", 10}, {"M", 5}}, {});
    EXPECT_TRUE(found.ok()) << text;
    if (found)
      for (const PointwiseChain& c : *found) out.push_back(c.name + " " + std::to_string(c.kernels));
    return out;
  };
  using Texts = std::vector<std::string>;
  const std::string head = "x: f32[N, M]\nw: f32[N, M]\na[N, M] = cos(x)\n";
  EXPECT_EQ(texts(head + "y: f32[N, M] = a + 1"), (Texts{"y 2"}));
  EXPECT_EQ(texts(head + "b: f32[N, M] = cos(w)\ny: f32[N, M] = a + 1"), (Texts{"a 1", "b 1", "y 1"}));
  EXPECT_EQ(texts("x: f32[N, M]\na: f32[N, M] = cos(x)\ny: f32[N, M] = a + 1"), (Texts{"y 2"})) << "a is stored, too";
  EXPECT_EQ(texts(head + "y: f32[N, M] = a + 1\nz: f32[N] = a * w"), (Texts{"a 1", "y 1"})) << "a product reads a";
  EXPECT_EQ(texts(head + "y: f32[N, M] = a + 1\nz: f32[N] = w * a"), (Texts{"a 1", "y 1"}));
  EXPECT_EQ(texts(head + "y: f32[N, M] = a + 1\nz: f32[N] = w * x"), (Texts{"y 2"})) << "this one does not";
  EXPECT_EQ(texts(head + "y: f32[N, M] = a + 1\nz: f32[N] = sum(a over M)"), (Texts{"a 1", "y 1"}));
}

TEST(PointwiseChain, ignores_constant_calls_and_reads_each_input_once) {
  const PointwiseChain c = chain("x: f32[N]\nw: f32[N]\na[N] = x * w + exp(2)\ny: f32[N] = a * x - w");
  EXPECT_EQ(c.fused_bytes, 12) << "x, w and y";
  EXPECT_EQ(chain("x: f32[4, N]\ny: f32[4, N] = cos(x)").fused_bytes, 8);
  EXPECT_EQ(c.kernels, 4) << "exp(2) is a number";
  EXPECT_EQ(c.unfused_bytes, 12 + 8 + 12 + 12);
  EXPECT_EQ(chain("x: bf16[N]\ny: f32[N] = repeat(2, cos, x)").unfused_bytes, 2 + 4 + 8) << "the second one reads f32";
}

TEST(PointwiseChain, solves_for_the_one_function_that_is_repeated) {
  EXPECT_FALSE(chain("x: f32[N]\ny: f32[N] = repeat(3, cos, x) + repeat(2, sin, x)").break_even_repeats);
  EXPECT_FALSE(chain("x: f32[N]\ny: f32[N] = cos(x)").break_even_repeats);
  // 104 FLOPs, of which the additions are 2 and every cosine is 7: 102 / 7 = 14.57.
  const PointwiseChain c = chain("x: f32[N]\ny: f32[N] = repeat(2, cos, x) + 1 + x", {{"cos", 7}});
  EXPECT_EQ(c.break_even_repeats, 15);
  EXPECT_EQ(chain("x: f32[N]\ny: f32[N] = repeat(2, cos, x) + 1 + x", {{"cos", 3}}).break_even_repeats, 34);
  EXPECT_EQ(chain("x: f32[N]\ny: f32[N] = repeat(2, cos, x) + 1", {{"add", 200}}).break_even_repeats, 0);
  EXPECT_FALSE(chain("x: f32[N]\ny: f32[N] = repeat(2, cos, x)", {{"cos", 1e-20}}).break_even_repeats) << "10^22";
}

TEST(PointwiseChain, rejects_programs_without_an_answer) {
  const auto error = [](const std::string& text, const Machine& machine) {
    const auto found = analyze_chains(parse(text).value(), machine, {}, {});
    return found ? std::string("none") : found.error().to_string();
  };
  EXPECT_EQ(error("f32[N] * f32[N] -> f32[1]", a100()),
            "the program has no pointwise work, so no chain\n"
            "  hint: ridge explain 'x: f32[N]   y: f32[N] = repeat(64, cos, x)' --chain\n");
  const auto unbound = analyze_chains(parse("x: f32[N]\ny: f32[N] = cos(x)").value(), a100(), {{"M", 1}}, {});
  EXPECT_EQ(unbound.error().message, "unknown dimension 'M'");
  Machine blind = a100();
  blind.memory.clear();
  EXPECT_EQ(error("x: f32[N]\ny: f32[N] = cos(x)", blind),
            "machine 'test' has no memory\n  hint: add bandwidth under [memory.dram]\n");
  EXPECT_EQ(error("x: f32[N]\ny: f32[N] = cos(x)", testing::make_test_machine({}, {}, 1)),
            "machine 'test' has no vector peak for f32\n"
            "  hint: choose a machine that has one, or add f32 under [vector] in a machine file\n");
  EXPECT_EQ(error("x: f32[N, M]\nw: f32[M]\ny: f32[N, M] = x + w", a100()),
            "dimension 'M' has no value\n  hint: give it one with -d M=…\n");
}

}  // namespace
}  // namespace ridge

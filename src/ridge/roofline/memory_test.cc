#include "ridge/roofline/memory.h"

#include <gtest/gtest.h>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/toy_machine.h"

namespace ridge {
namespace {

Machine machine_of(double capacity) {
  Machine machine = testing::toy_machine({{DType::bf16, 64}, {DType::int8, 64}}, 16, 8);
  machine.memory[0].capacity = testing::number(capacity);
  machine.links.push_back({.name = "ici", .bandwidth = testing::number(1)});
  return machine;
}

Memory memory(const std::string& text, const Bindings& given, double capacity) {
  const auto e = explain(parse(text).value(), machine_of(capacity), given);
  EXPECT_TRUE(e.ok()) << (e.ok() ? "" : e.error().text());
  return *e->memory;
}

const std::string mlp =
    "dims D = 10, F = 40\nx: bf16[B, D]   up: bf16[D, F]   down: bf16[F, D]\nu[B, F] = x * up\n"
    "h[B, F] = gelu(u)\ny: bf16[B, D] = h * down";

TEST(Memory, holds_inputs_throughout_and_results_until_they_are_read) {
  const Memory m = memory(mlp, {{"B", 3}}, 1e6);
  EXPECT_EQ(m.peak_at, "h");  // u and h together; at y they are h and y
  EXPECT_EQ(m.peak_bytes, 2 * (3 * 10 + 400 + 400 + 3 * 40 + 3 * 40));
  EXPECT_EQ(m.parameter_count, 800);
  EXPECT_EQ(m.parameter_bytes, 1600);
  EXPECT_EQ(m.token_dims, std::vector<std::string>{"B"});
  EXPECT_EQ(m.chips, 1);
}

TEST(Memory, says_up_to_which_size_it_fits) {
  const Memory m = memory(mlp, {{"B", 3}}, 100000);
  const auto of = [&](const std::string& dim) {
    for (const Threshold& t : m.fits)
      if (t.dim == dim) return t;
    return Threshold{};
  };
  EXPECT_EQ(of("B").exact, "(100000 - (4*D*F))/(2*D + 4*F)");
  EXPECT_EQ(of("B").value, 546);  // 98400/180
  EXPECT_LE(*memory(mlp, {{"B", 546}}, 100000).peak_bytes, 100000);
  EXPECT_GT(*memory(mlp, {{"B", 547}}, 100000).peak_bytes, 100000);
  for (const char* dim : {"D", "F"}) {
    Bindings most{{"B", 3}};
    most[dim] = *of(dim).value;
    EXPECT_LE(*memory(mlp, most, 100000).peak_bytes, 100000);
    ++most[dim];
    EXPECT_GT(*memory(mlp, most, 100000).peak_bytes, 100000);
  }
}

TEST(Memory, searches_where_a_size_occurs_squared) {
  const std::string square = "dims M = N\nx: bf16[N, M]\ny: bf16[N, M] = cos(x)";
  const Memory m = memory(square, {{"N", 3}}, 10000);
  ASSERT_EQ(m.fits.size(), 2u);
  EXPECT_EQ(m.fits[0].dim, "M");
  EXPECT_EQ(m.fits[0].value, 833);  // 4*3*833
  EXPECT_EQ(m.fits[1].value, 50);   // 4*50*50
  EXPECT_TRUE(m.fits[1].numerical);
}

TEST(Memory, that_does_not_suffice_is_said_in_chips) {
  const Memory m = memory(mlp, {{"B", 3}}, 1000);
  EXPECT_EQ(m.chips, 3);  // 2140 B
  EXPECT_EQ(m.fits.back().dim, "B");
  EXPECT_EQ(m.fits.back().relation, Relation::never);  // the weights alone are 1600 B
}

TEST(Memory, of_a_mesh_counts_every_copy) {
  const Memory m =
      memory("mesh X = 2, Y = 8, Z = 2\na: int8[I_XY, J]\ny: int8[I_XY, J] = a", {{"I", 128}, {"J", 2048}}, 1e9);
  EXPECT_EQ(m.tensors[0].device_bytes, 16384);
  EXPECT_EQ(m.tensors[0].all_bytes, 524288);
  EXPECT_EQ(m.tensors[0].copies, 2);
}

TEST(Memory, of_a_gathered_weight_holds_all_of_it) {
  const Memory m = memory("mesh X = 64\nw: bf16[D_X, F]   x: bf16[B_X, D]\ng[D, F] = w\ny: bf16[B_X, F] = x * g",
                          {{"B", 64}, {"D", 64}, {"F", 100}}, 1e9);
  EXPECT_EQ(m.peak_at, "y");
  EXPECT_EQ(m.peak_bytes, 2 * (100 + 64 + 64 * 100 + 100));
}

}  // namespace
}  // namespace ridge

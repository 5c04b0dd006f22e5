#include "ridge/distributed/open_mesh.h"

#include <gtest/gtest.h>

#include <random>

#include "ridge/roofline/testing/toy_machine.h"

namespace ridge {
namespace {

// Whole rates, so that times compare exactly as whole numbers.
Machine toy(std::int64_t peak, std::int64_t link, std::int64_t links, Topology topology) {
  Machine machine = testing::toy_machine({{DType::bf16, static_cast<double>(peak)}}, 1e12, 1e12);
  machine.links.push_back(
      {.name = "ici", .bandwidth = testing::number(static_cast<double>(link)), .topology = topology});
  machine.links.back().count = testing::number(static_cast<double>(links));
  return machine;
}

constexpr const char* fsdp = "x: bf16[B_X, D]   w: bf16[D_X, F]\ng[D, F] = w\ny: bf16[B_X, F] = x * g";
constexpr const char* tensor_parallel =
    "x: bf16[B, D]   up: bf16[D, F_X]   down: bf16[F_X, D]\nh[B, F_X] = x * up\ny: bf16[B, D] = h * down";
constexpr const char* data_parallel =
    "x: bf16[B_X, D]   dy: bf16[B_X, F]   w: bf16[D, F]\ndw: bf16[D, F] = x * dy\ndx: bf16[B_X, D] = dy * w";

TEST(OpenMesh, keeps_its_size_as_a_symbol) {
  const auto open = open_mesh(parse(fsdp).value(), toy(1000, 5, 2, Topology::ring), {}, 0);
  ASSERT_TRUE(open.ok()) << open.error().text();
  EXPECT_EQ(open->axes, "X");
  EXPECT_EQ(open->ratio, 100);  // both ways
  EXPECT_EQ(open->flops.text(open->order), "B");
  EXPECT_EQ(open->sent.text(open->order), "X - 1");
  ASSERT_EQ(open->thresholds.size(), 3U);
  EXPECT_EQ(open->thresholds[0].dim, "B");
  EXPECT_EQ(open->thresholds[0].exact, "r*(X - 1)");
  EXPECT_EQ(open->thresholds[2].dim, "B/X");
  EXPECT_EQ(open->thresholds[2].exact, "r*(X - 1)/(X)");
}

TEST(OpenMesh, of_several_axes_is_one_size) {
  const std::string text = "x: bf16[B_XYZ, D]   w: bf16[D_XYZ, F]\ng[D, F] = w\ny: bf16[B_XYZ, F] = x * g";
  const auto open = open_mesh(parse(text).value(), toy(1000, 5, 6, Topology::ring), {}, 0);
  ASSERT_TRUE(open.ok()) << open.error().text();
  EXPECT_NEAR(open->ratio, 1000 / 30.0, 1e-9);  // six links
}

// Whole sizes on both sides of every threshold, counted by themselves.
TEST(OpenMesh, thresholds_are_exact_over_whole_numbers) {
  std::vector<OpenMesh> all;
  for (const char* text : {fsdp, tensor_parallel, data_parallel})
    all.push_back(open_mesh(parse(text).value(), toy(1000, 5, 2, Topology::ring), {}, 0).value());
  std::size_t crossed = 0;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    std::mt19937 engine(seed);
    const auto between = [&](std::int64_t a, std::int64_t b) {
      return std::uniform_int_distribution<std::int64_t>(a, b)(engine);
    };
    const std::int64_t n = 2 * between(2, 40), peak = between(100, 100000), link = between(1, 50);
    const std::int64_t D = n * between(1, 20), F = n * between(1, 20);
    const OpenMesh& open = all[seed % 3];
    const auto rate = static_cast<__int128>(2 * link);
    // By hand: FLOPs and bytes of a device, both times n.
    const auto compute_longer = [&](std::int64_t B) {
      const __int128 product = static_cast<__int128>(2) * B * D * F;
      if (seed % 3 == 0) return product * rate >= static_cast<__int128>(2) * D * F * (n - 1) * peak;
      if (seed % 3 == 1) return 2 * product * rate >= static_cast<__int128>(4) * B * D * (n - 1) * peak;
      return 2 * product * rate >= static_cast<__int128>(4) * D * F * (n - 1) * peak;
    };
    Bindings sizes{{"D", D}, {"F", F}, {"X", n}};
    for (const Threshold& t : thresholds({open.flops,
                                          open.sent,
                                          Roofs{static_cast<double>(peak), 2.0 * static_cast<double>(link)},
                                          {Limiter::compute, Limiter::network}},
                                         sizes, open.order)) {
      if (t.dim != "B") continue;
      ASSERT_TRUE(t.relation != Relation::always || compute_longer(1)) << seed;
      ASSERT_TRUE(t.relation != Relation::never || !compute_longer(std::int64_t{1} << 40)) << seed;
      if (t.relation != Relation::at_least) continue;
      ASSERT_TRUE(t.value.has_value()) << seed;
      ASSERT_TRUE(compute_longer(*t.value)) << seed;
      ASSERT_TRUE(*t.value == 1 || !compute_longer(*t.value - 1)) << seed;
      ++crossed;
    }
  }
  EXPECT_GT(crossed, 5000U);
}

TEST(OpenMesh, sizes_are_searched_for) {
  const std::string text =
      "x: bf16[B_X, D_Y]   w: bf16[D_X, F_Y]   v: bf16[F_Y, D_X]\ng[D, F_Y] = w\nz[B_X, D] = x\nh[B_X, F_Y] = z * g\n"
      "u[F_Y, D] = v\ny: bf16[B_X, D_Y] = h * u";
  const auto open =
      open_mesh(parse(text).value(), toy(1000000, 10, 6, Topology::ring), {{"B", 4096}, {"D", 1024}, {"F", 4096}}, 64);
  ASSERT_TRUE(open.ok()) << open.error().text();
  for (const MeshChoice& c : open->choices) {
    EXPECT_EQ(c.mesh.devices(), 64);
    EXPECT_GE(c.seconds(), open->choices[0].seconds());
    EXPECT_LE(c.rings.at('X') + c.rings.at('Y'), 3);
  }
}

TEST(OpenMesh, refuses_in_sentences) {
  const Machine machine = toy(1000, 5, 2, Topology::ring);
  const auto said = [&](const std::string& text, const Bindings& sizes) {
    return open_mesh(parse(text).value(), machine, sizes, 0).error().message;
  };
  EXPECT_EQ(said("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {}), "expected a program that is sharded");
  EXPECT_EQ(said(fsdp, {{"X", 4}}), "its mesh has all its sizes");
  EXPECT_EQ(said("x: bf16[B_X, D_Y]   w: bf16[D_Y, F]\ny: bf16[B_X, F] = x * w", {}),
            "mesh axes XY do not always cut together, so that they are several symbols");
  EXPECT_EQ(said("x: bf16[B_X, D]   w: bf16[D, F]\ny: bf16[B_X, F] = x * w", {}), "nothing is sent, whatever the mesh");
}

}  // namespace
}  // namespace ridge

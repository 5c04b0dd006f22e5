#include "ridge/distributed/mesh_sizing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

// Uses integer rates, so that times compare exactly.
Machine make_ring_machine(std::int64_t peak, std::int64_t link, std::int64_t links, Topology topology) {
  Machine machine = testing::make_test_machine({{DType::bf16, static_cast<double>(peak)}}, 1e12, 1e12);
  machine.links.push_back(
      {.name = "ici", .bandwidth = testing::make_number(static_cast<double>(link)), .topology = topology});
  machine.links.back().count = testing::make_number(static_cast<double>(links));
  return machine;
}

constexpr const char* fsdp = "x: bf16[B_X, D]   w: bf16[D_X, F]\ng[D, F] = w\ny: bf16[B_X, F] = x * g";
constexpr const char* tensor_parallel =
    "x: bf16[B, D]   up: bf16[D, F_X]   down: bf16[F_X, D]\nh[B, F_X] = x * up\ny: bf16[B, D] = h * down";
constexpr const char* data_parallel =
    "x: bf16[B_X, D]   dy: bf16[B_X, F]   w: bf16[D, F]\ndw: bf16[D, F] = x * dy\ndx: bf16[B_X, D] = dy * w";

MeshSizing solve_text(const std::string& program, const Machine& machine, const Bindings& sizes = {}) {
  auto found = solve_mesh_sizes(parse(program).value(), machine, sizes, 0);
  EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().to_string());
  return *std::move(found);
}

// Two devices share one link; from three devices on a ring sends both ways.
TEST(MeshSizing, keeps_the_size_as_a_symbol) {
  const MeshSizing open = solve_text(fsdp, make_ring_machine(1000, 5, 2, Topology::ring));
  EXPECT_EQ(open.open_axes, "X");
  ASSERT_EQ(open.intervals.size(), 2U);
  EXPECT_EQ(format_sizes(open.intervals[0].interval, "X"), "X = 2");
  EXPECT_EQ(open.intervals[0].roofs.ridge(), 200);
  const SolvedInterval& ring = open.intervals[1];
  EXPECT_EQ(format_sizes(ring.interval, "X"), "X >= 3");
  EXPECT_EQ(ring.roofs.ridge(), 100);
  EXPECT_EQ(ring.flops.to_string(open.symbols), "B");
  EXPECT_EQ(ring.bytes_sent.to_string(open.symbols), "X - 1");
  ASSERT_EQ(ring.thresholds.size(), 3U);
  EXPECT_EQ(ring.thresholds[0].dim, "B");
  EXPECT_EQ(ring.thresholds[0].exact, "r*(X - 1)");
  EXPECT_EQ(ring.thresholds[2].dim, "B/X");
  EXPECT_EQ(ring.thresholds[2].exact, "r*(X - 1)/(X)");
}

TEST(MeshSizing, several_open_axes_are_one_symbol) {
  const std::string text = "x: bf16[B_XYZ, D]   w: bf16[D_XYZ, F]\ng[D, F] = w\ny: bf16[B_XYZ, F] = x * g";
  const MeshSizing open = solve_text(text, make_ring_machine(1000, 5, 6, Topology::ring));
  EXPECT_NEAR(open.intervals.back().roofs.ridge(), 1000 / 30.0, 1e-9);  // six links
}

// Of the sizes of three axes, those are solved for that are 2 x 2 x n/4 lines or 4 x 4 x n/16 rings.
TEST(MeshSizing, several_open_axes_are_lines_or_rings) {
  const std::string text = "x: bf16[B_XYZ, D]   w: bf16[D_XYZ, F]\ng[D, F] = w\ny: bf16[B_XYZ, F] = x * g";
  Machine machine = make_ring_machine(1000, 5, 6, Topology::ring);
  machine.numbers["wrap_chips"] = testing::make_number(4);
  machine.numbers["wrap_slice_chips"] = testing::make_number(64);
  machine.numbers["pod_chips"] = testing::make_number(200);
  std::vector<std::string> said;
  for (const SolvedInterval& s : solve_text(text, machine).intervals)
    said.push_back(fmt::format("{}: {}", format_sizes(s.interval, "XYZ"), s.interval.rate));
  EXPECT_EQ(said, (std::vector<std::string>{"XYZ = 2 to 7: 5", "XYZ = 8, 12, … 60 as 2 x 2 x XYZ/4: 15",
                                            "XYZ = 64, 80, … 192 as 4 x 4 x XYZ/16: 30"}));
  machine.numbers["pod_chips"] = testing::make_number(192);
  machine.links.push_back({.name = "dcn", .bandwidth = testing::make_number(1), .topology = Topology::switched});
  EXPECT_EQ(format_sizes(solve_text(text, machine).intervals[3].interval, "XYZ"), "XYZ = 384, 576, …");
}

// Nodes of 8, 450 B/s for each chip inside and 50 outside: from 40 chips on the traffic between nodes takes longer.
Machine make_node_machine(std::int64_t peak, std::int64_t inside, std::int64_t outside, std::int64_t chips) {
  Machine machine = make_ring_machine(peak, inside, 1, Topology::switched);
  machine.links.push_back({.name = "scaleout",
                           .bandwidth = testing::make_number(static_cast<double>(outside)),
                           .topology = Topology::switched});
  machine.numbers["host_chips"] = testing::make_number(static_cast<double>(chips));
  return machine;
}

TEST(MeshSizing, each_interval_has_a_formula) {
  const MeshSizing open = solve_text(fsdp, make_node_machine(1000, 450, 50, 8));
  ASSERT_EQ(open.intervals.size(), 3U);
  const auto said = [&](std::size_t i) {
    const SolvedInterval& s = open.intervals[i];
    return format_sizes(s.interval, "X") + ", " + s.interval.link + ": B " +
           std::string(name(s.thresholds[0].relation)) + " " + s.thresholds[0].exact;
  };
  EXPECT_EQ(said(0), "X = 2 to 8, ici: B >= r*(X - 1)");
  EXPECT_EQ(said(1), "X = 16, 24, 32, ici: B >= 7*r*X/(8)");
  EXPECT_EQ(said(2), "X = 40, 48, …, scaleout: B >= r*(X - 8)/(8)");
}

// Closed-form work of a device among n: an all-gather, an all-reduce or both directions of a layer, over as many link
// levels as n devices use.
struct ClosedFormWork {
  std::int64_t peak, inside, outside, spine, node, leaf;  // rates for each chip; 0 without such a level
  // True if 2*products*B*D*F/n FLOPs take at least as long as an all-gather of `bytes`, or an all-reduce (twice that).
  bool computes_longer(__int128 flops, __int128 bytes, std::int64_t n) const {
    // flops/n/peak >= bytes*(members - 1)/(members*before)/rate on every level; a chip's link to the leaf carries what
    // comes from all other nodes, through the spine or not
    const auto level = [&](std::int64_t members, std::int64_t before, std::int64_t rate) {
      return flops * members * before * rate >= bytes * (members - 1) * peak * n;
    };
    const std::int64_t d0 = node > 0 ? std::min(n, node) : n;
    const std::int64_t d1 = leaf > 0 ? std::min(n, leaf) / d0 : n / d0;
    return level(d0, 1, inside) && level(n / d0, d0, outside) && level(n / d0 / d1, d0 * d1, spine);
  }
};

struct Random {
  std::mt19937 engine;
  std::int64_t between(std::int64_t a, std::int64_t b) {
    return std::uniform_int_distribution<std::int64_t>(a, b)(engine);
  }
};

struct Case {
  Machine machine;
  ClosedFormWork hand;
  std::int64_t kind = 0;  // index of the program
  bool computes_longer(std::int64_t B, std::int64_t D, std::int64_t F, std::int64_t n) const {
    const __int128 product = static_cast<__int128>(2) * B * D * F;
    if (kind == 0) return hand.computes_longer(product, static_cast<__int128>(2) * D * F, n);
    if (kind == 1) return hand.computes_longer(2 * product, static_cast<__int128>(4) * B * D, n);
    return hand.computes_longer(2 * product, static_cast<__int128>(4) * D * F, n);
  }
};

// Draws a machine with one to three link levels.
Case draw_case(Random& random) {
  ClosedFormWork hand{random.between(100, 100000), random.between(20, 400), random.between(1, 60), 1, 0, 0};
  const std::int64_t levels = random.between(1, 3), share = random.between(1, 4);
  if (levels > 2) hand.outside = (hand.outside + share - 1) / share * share;
  hand.inside = std::max(hand.inside, hand.outside);
  Machine machine = make_ring_machine(hand.peak, hand.inside, 1, Topology::switched);
  if (levels > 1) {
    hand.node = random.between(2, 9);
    machine = make_node_machine(hand.peak, hand.inside, hand.outside, hand.node);
  }
  if (levels > 2) {
    hand.leaf = hand.node * random.between(2, 5);
    hand.spine = hand.outside / share;
    machine.numbers["leaf_chips"] = testing::make_number(static_cast<double>(hand.leaf));
    machine.numbers["spine_part"] = testing::make_number(static_cast<double>(share));
  }
  return {std::move(machine), hand, random.between(0, 2)};
}

// Checks the integer sizes on both sides of every threshold in every interval.
TEST(MeshSizing, thresholds_are_exact_for_integer_sizes) {
  std::size_t crossed = 0, beyond = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Random random{std::mt19937(seed)};
    const Case c = draw_case(random);
    const MeshSizing open = solve_text(
        std::vector<const char*>{fsdp, tensor_parallel, data_parallel}[static_cast<std::size_t>(c.kind)], c.machine);
    for (int i = 0; i < 25; ++i) {
      const std::int64_t D = random.between(1, 200), F = random.between(1, 200);
      const SolvedInterval& one = open.intervals[random.between(0, std::ssize(open.intervals) - 1)];
      const SizeInterval& s = one.interval;
      const std::int64_t last = s.to == 0 ? s.from + 50 * s.step : s.to;
      const std::int64_t n = s.from + random.between(0, (last - s.from) / s.step) * s.step;
      const RoofPair meeting{one.flops, one.bytes_sent, one.roofs, {Limiter::compute, Limiter::network}};
      for (const Threshold& t : find_thresholds(meeting, {{"D", D}, {"F", F}, {"X", n}}, open.symbols)) {
        if (t.dim != "B") continue;
        ASSERT_TRUE(t.relation != Relation::always || c.computes_longer(1, D, F, n)) << seed;
        ASSERT_TRUE(t.relation != Relation::never || !c.computes_longer(std::int64_t{1} << 40, D, F, n)) << seed;
        if (t.relation != Relation::at_least) continue;
        ASSERT_TRUE(c.computes_longer(t.value.value(), D, F, n)) << seed << ": " << format_sizes(s, "X");
        ASSERT_TRUE(*t.value == 1 || !c.computes_longer(*t.value - 1, D, F, n)) << seed << ": " << format_sizes(s, "X");
        ++crossed;
        beyond += c.hand.node > 0 && n > c.hand.node ? 1 : 0;
      }
    }
  }
  EXPECT_GT(crossed, 5000U);
  EXPECT_GT(beyond, 2000U);
}

// Three direct links to other devices: up to three shards use a link each, and no link joins more.
TEST(MeshSizing, direct_links_to_all_devices) {
  const MeshSizing open = solve_text(fsdp, make_ring_machine(1000, 5, 3, Topology::direct));
  ASSERT_EQ(open.intervals.size(), 1U);
  EXPECT_EQ(format_sizes(open.intervals[0].interval, "X"), "X = 2 to 4");
  EXPECT_EQ(
      open.intervals[0].flops.to_string(open.symbols) + " to " + open.intervals[0].bytes_sent.to_string(open.symbols),
      "B to 1");
  EXPECT_EQ(open.intervals[0].roofs.ridge(), 200);
}

// With another axis after the open one, fewer chips of the open axis share a node.
TEST(MeshSizing, other_axis_after_the_open_axis) {
  const std::string program = "x: bf16[B_X, D_Y]   w: bf16[D_XY, F]\ng[D_Y, F] = w\ny: bf16[B_X, F]{U_Y} = x * g";
  const MeshSizing open = solve_text("mesh X, Y = 4\n" + program, make_node_machine(1000, 450, 50, 8));
  EXPECT_EQ(format_sizes(open.intervals[0].interval, "X"), "X = 2");
  EXPECT_EQ(format_sizes(open.intervals[1].interval, "X"), "X = 4, 6, …");
  EXPECT_EQ(open.intervals[1].interval.link, "scaleout");
}

TEST(MeshSizing, searches_sizes_for_a_number_of_chips) {
  const std::string text =
      "x: bf16[B_X, D_Y]   w: bf16[D_X, F_Y]   v: bf16[F_Y, D_X]\ng[D, F_Y] = w\nz[B_X, D] = x\nh[B_X, F_Y] = z * g\n"
      "u[F_Y, D] = v\ny: bf16[B_X, D_Y] = h * u";
  const auto open = solve_mesh_sizes(parse(text).value(), make_ring_machine(1000000, 10, 6, Topology::ring),
                                     {{"B", 4096}, {"D", 1024}, {"F", 4096}}, 64);
  ASSERT_TRUE(open.ok()) << open.error().to_string();
  for (const MeshChoice& c : open->choices) {
    EXPECT_EQ(c.mesh.devices(), 64);
    EXPECT_GE(c.slowest_seconds(), open->choices[0].slowest_seconds());
    EXPECT_LE(c.placement.rings.at('X') + c.placement.rings.at('Y'), 3);
  }
}

TEST(MeshSizing, rejects_invalid_programs) {
  const Machine machine = make_ring_machine(1000, 5, 2, Topology::ring);
  const auto said = [&](const std::string& text, const Bindings& sizes) {
    return solve_mesh_sizes(parse(text).value(), machine, sizes, 0).error().message;
  };
  EXPECT_EQ(said("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {}), "expected a program that is sharded");
  EXPECT_EQ(said(fsdp, {{"X", 4}}), "every mesh axis has a size already");
  EXPECT_EQ(said("x: bf16[B_X, D_Y]   w: bf16[D_Y, F]\ny: bf16[B_X, F] = x * w", {}),
            "mesh axes XY do not always split a tensor axis together, so they are not one symbol");
  const Machine levels = make_node_machine(1000, 450, 50, 8);
  const auto refused = solve_mesh_sizes(
      parse("mesh X, Y = 3\nx: bf16[B_X, D]   w: bf16[D_X, F_Y]\ng[D, F_Y] = w\ny: bf16[B_X, F_Y] = x * g").value(),
      levels, {}, 0);
  EXPECT_EQ(refused.error().message,
            "3 chips of the axes after X do not divide ici's reach of 8 chips, so the bytes sent have no closed "
            "form in X");
  EXPECT_EQ(refused.error().hint, "give it a size: -d X=8");
  EXPECT_EQ(
      solve_mesh_sizes(
          parse("mesh X, Y = 2, Z\nx: bf16[B_XZ, D]   w: bf16[D_XZ, F_Y]\ng[D, F_Y] = w\ny: bf16[B_XZ, F_Y] = x * g")
              .value(),
          levels, {}, 0)
          .error()
          .message,
      "mesh axis Y is between those of XZ, so their chips are not contiguous in a node");
  EXPECT_EQ(said("x: bf16[B_X, D]   w: bf16[D, F]\ny: bf16[B_X, F] = x * w", {}),
            "the program sends nothing on any mesh");
}

}  // namespace
}  // namespace ridge

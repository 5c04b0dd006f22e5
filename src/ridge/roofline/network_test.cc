#include "ridge/roofline/network.h"

#include <gtest/gtest.h>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

Machine make_linked_machine(std::optional<Topology> topology, double links, double latency = 0) {
  Machine machine = testing::make_test_machine({{DType::bf16, 1e15}}, 1e15, 1e15);
  Link link{.name = "ici", .bandwidth = testing::make_number(1e9), .topology = topology};
  if (links > 0) link.count = testing::make_number(links);
  if (latency > 0) link.latency = testing::make_number(latency);
  machine.links.push_back(link);
  return machine;
}

double seconds(const std::string& text, const Machine& machine, const Bindings& given) {
  const auto e = explain(parse(text).value(), machine, given);
  EXPECT_TRUE(e.ok()) << (e.ok() ? "" : e.error().to_string());
  return *e->total.time_network_s;
}

const std::string gather = "x: bf16[N, D_X]\ny: bf16[N, D] = x", exchange = "x: bf16[N, D_X]\ny: bf16[N_X, D] = x",
                  reduce = "x: bf16[N, D]{U_X}\ny: bf16[N, D] = x";
const Bindings eight{{"X", 8}, {"N", 1000}, {"D", 1000}};  // 2 MB

TEST(Network, unknown_topology_is_one_ring_in_one_direction) {
  const Machine machine = make_linked_machine({}, 4);
  EXPECT_DOUBLE_EQ(seconds(gather, machine, eight), 7 / 8.0 * 2e6 / 1e9);
  EXPECT_DOUBLE_EQ(seconds(reduce, machine, eight), 2 * 7 / 8.0 * 2e6 / 1e9);
  EXPECT_DOUBLE_EQ(seconds(exchange, machine, eight), 7 / 2.0 * 2.5e5 / 1e9);
}

TEST(Network, ring_sends_in_both_directions) {
  const Machine machine = make_linked_machine(Topology::ring, 4);
  EXPECT_DOUBLE_EQ(seconds(gather, machine, eight), 7 / 8.0 * 2e6 / 2e9);
  // A quarter of the unidirectional ring's time: half the distance over twice the links.
  EXPECT_DOUBLE_EQ(seconds(exchange, machine, eight), 64 / 4 / 8.0 * 2.5e5 / 2e9);
  const Bindings two{{"X", 2}, {"N", 1000}, {"D", 1000}};
  EXPECT_DOUBLE_EQ(seconds(gather, machine, two), 1 / 2.0 * 2e6 / 1e9);  // Two devices: one link between them
}

TEST(Network, transfer_over_two_mesh_axes_uses_the_links_of_both) {
  const std::string text = "x: bf16[N, D_XY]\ny: bf16[N, D] = x";
  EXPECT_DOUBLE_EQ(
      seconds(text, make_linked_machine(Topology::ring, 4), {{"X", 4}, {"Y", 4}, {"N", 1000}, {"D", 1600}}),
      15 / 16.0 * 3.2e6 / 4e9);
}

// Two chips have one link between them along each axis, and a line's ends have one.
TEST(Network, transfer_over_two_mesh_axes_uses_the_links_of_each) {
  const std::string text = "x: bf16[N, D_XY]\ny: bf16[N, D] = x", scatter = "x: bf16[N, D_XY]\ny: bf16[N_XY, D] = x";
  Machine machine = make_linked_machine(Topology::ring, 4, 1e-6);
  const auto at = [](std::int64_t x, std::int64_t y) { return Bindings{{"X", x}, {"Y", y}, {"N", 1600}, {"D", 1600}}; };
  const double bytes = 1600 * 1600 * 2;
  EXPECT_DOUBLE_EQ(seconds(text, machine, at(2, 2)), 3 / 4.0 * bytes / 2e9 + 2e-6);
  EXPECT_DOUBLE_EQ(seconds(text, machine, at(2, 8)), 15 / 16.0 * bytes / 3e9 + 5e-6);
  EXPECT_DOUBLE_EQ(seconds(scatter, machine, at(2, 8)), 16 / 8.0 * (bytes / 16) / 2e9 + 5e-6);
  machine.numbers["wrap_chips"] = testing::make_number(8);
  EXPECT_DOUBLE_EQ(seconds(text, machine, at(4, 8)), 31 / 32.0 * bytes / 3e9 + 7e-6);
  EXPECT_DOUBLE_EQ(seconds(scatter, machine, at(4, 8)), 16 / 8.0 * (bytes / 32) / 2e9 + 7e-6);
  machine.numbers["wrap_slice_chips"] = testing::make_number(64);
  EXPECT_DOUBLE_EQ(seconds(text, machine, at(4, 8)), 31 / 32.0 * bytes / 2e9 + 10e-6);
  EXPECT_DOUBLE_EQ(seconds(text, machine, at(8, 8)), 63 / 64.0 * bytes / 4e9 + 8e-6);
  const auto said = [&](std::int64_t x, std::int64_t y) {
    return describe_network(*explain(parse(text).value(), machine, at(x, y))->network);
  };
  EXPECT_EQ(said(4, 16), "3 x ici: a ring along Y, both ways, a line along X, 3.000 GB/s one way, 1.000 us per hop");
  EXPECT_EQ(said(4, 8), "2 x ici: a line along each mesh axis, 2.000 GB/s one way, 1.000 us per hop");
}

// Of 2 x 3 chips on nodes of 4, the first three are in one node, and the others in two.
TEST(Network, the_slowest_of_several_collectives_sets_the_time) {
  Machine machine = make_linked_machine(Topology::switched, 4);
  machine.links.push_back({.name = "scaleout", .bandwidth = testing::make_number(1e9), .topology = Topology::switched});
  machine.numbers["host_chips"] = testing::make_number(4);
  const std::string text = "x: bf16[N_X, D_Y]\ny: bf16[N_X, D] = x";
  const auto at = [](std::int64_t y) { return Bindings{{"X", 2}, {"Y", y}, {"N", 1000}, {"D", 1200}}; };
  EXPECT_DOUBLE_EQ(seconds(text, machine, at(4)), 3 / 4.0 * 1.2e6 / 4e9);
  EXPECT_DOUBLE_EQ(seconds(text, machine, at(3)), 2 / 3.0 * 1.2e6 / 1e9);      // {3} and {4, 5}
  EXPECT_DOUBLE_EQ(seconds(text, machine, at(6)), 4 / 6.0 * 1.2e6 / 2 / 1e9);  // {0 … 3} and {4, 5}
}

// Leaves of three nodes of two chips: of 2 x 4 chips, the second four are in two leaves.
TEST(Network, a_collective_across_leaves_uses_the_spine) {
  Machine machine = make_linked_machine(Topology::switched, 4);
  machine.links.push_back({.name = "scaleout", .bandwidth = testing::make_number(1e9), .topology = Topology::switched});
  machine.numbers["host_chips"] = testing::make_number(2);
  machine.numbers["leaf_chips"] = testing::make_number(6);
  machine.numbers["spine_part"] = testing::make_number(10);
  const std::string text = "x: bf16[N_X, D_Y]\ny: bf16[N_X, D] = x";
  EXPECT_DOUBLE_EQ(seconds(text, machine, {{"X", 2}, {"Y", 4}, {"N", 1000}, {"D", 1200}}), 2 / 4.0 * 1.2e6 / 2 / 1e8);
  EXPECT_DOUBLE_EQ(seconds(text, machine, {{"X", 1}, {"Y", 4}, {"N", 500}, {"D", 1200}}), 2 / 4.0 * 1.2e6 / 2 / 1e9);
}

TEST(Network, more_devices_than_the_first_link_joins_need_a_further_link) {
  const Machine machine = make_linked_machine(Topology::direct, 7);
  const auto error = [&](std::int64_t x) {
    const auto found = explain(parse(gather).value(), machine, {{"X", x}, {"N", 1000}, {"D", 1008}});
    return found ? std::string() : found.error().to_string();
  };
  EXPECT_EQ(error(8), "");
  EXPECT_EQ(
      error(16),
      "expected collectives over at most 8 chips, which ici joins, found one over 16; no link beyond is on record\n"
      "  hint: use at most 8 chips, or a machine file with a further [link.NAME]\n");
  EXPECT_EQ(
      explain(parse("bf16[B, D] * bf16[D, F] -> bf16[B, F]").value(), machine, {{"B", 16}, {"D", 16}, {"F", 16}},
              DimensionSplit{"D", 16})
          .error()
          .message,
      "expected collectives over at most 8 chips, which ici joins, found one over 16; no link beyond is on record");
}

// A timed library sets the time where it takes longer than the links.
TEST(Network, a_timed_library_sets_the_time_of_small_transfers) {
  Machine machine = make_linked_machine(Topology::switched, 18);
  for (const auto& [key, value] : std::map<std::string, double>{{"collective_call_s", 5e-6},
                                                                {"collective_step_s", 1e-6},
                                                                {"collective_narrow_rate", 4e9},
                                                                {"collective_wide_rate", 16e9},
                                                                {"collective_wide_s", 10e-6},
                                                                {"collective_copy_rate", 1e12}})
    machine.numbers[key] = testing::make_number(value);
  const Bindings small{{"X", 8}, {"N", 1}, {"D", 800}};  // 1600 B
  EXPECT_DOUBLE_EQ(seconds(gather, machine, small), 5e-6 + 7e-6 + 1400 / 4e9);
  EXPECT_DOUBLE_EQ(seconds(reduce, machine, small), 5e-6 + 14e-6 + 2800 / 4e9);
  EXPECT_DOUBLE_EQ(seconds(gather, machine, eight), 22e-6 + 1.75e6 / 16e9 + 2.5e5 / 1e12);
  EXPECT_DOUBLE_EQ(seconds(exchange, machine, eight), 7 / 8.0 * 2.5e5 / 18e9);  // Not timed
  machine.numbers["collective_wide_rate"] = testing::make_number(1e12);
  EXPECT_DOUBLE_EQ(seconds(gather, machine, {{"X", 8}, {"N", 100000}, {"D", 1000}}), 7 / 8.0 * 2e8 / 18e9);
}

TEST(Network, more_chips_than_elements_are_idle) {
  const Machine machine = make_linked_machine(Topology::switched, 18);
  const auto remarks = [&](const std::string& text, const Bindings& given, const std::optional<DimensionSplit>& split) {
    return explain(parse(text).value(), machine, given, split)->remarks;
  };
  using Lines = std::vector<std::string>;
  const std::string product = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";
  const Bindings sizes{{"B", 8}, {"D", 64}, {"F", 64}};
  EXPECT_EQ(remarks(product, sizes, DimensionSplit{"B", 16}),
            Lines{"B = 8 is split over 16 chips: 8 of them have no part of it"});
  EXPECT_EQ(remarks(product, sizes, DimensionSplit{"B", 8}), Lines{});
  EXPECT_EQ(remarks("mesh X = 4, Y = 3\nx: bf16[N_XY]\ny: bf16[N_XY] = cos(x)", {{"N", 10}}, {}),
            Lines{"N = 10 is split over 12 chips: 2 of them have no part of it"});
}

TEST(Network, switch_sends_directly_over_every_link) {
  const Machine machine = make_linked_machine(Topology::switched, 18);
  EXPECT_DOUBLE_EQ(seconds(gather, machine, eight), 7 / 8.0 * 2e6 / 18e9);
  EXPECT_DOUBLE_EQ(seconds(exchange, machine, eight), 7 / 8.0 * 2.5e5 / 18e9);
}

TEST(Network, direct_links_use_one_link_per_other_device) {
  const Machine machine = make_linked_machine(Topology::direct, 7);
  EXPECT_DOUBLE_EQ(seconds(gather, machine, eight), 7 / 8.0 * 2e6 / 7e9);
  const Bindings four{{"X", 4}, {"N", 1000}, {"D", 1000}};
  EXPECT_DOUBLE_EQ(seconds(gather, machine, four), 3 / 4.0 * 2e6 / 3e9);
}

TEST(Network, adds_the_latency_of_hops) {
  const Bindings small{{"X", 4}, {"N", 1}, {"D", 128}};  // 256 B
  EXPECT_NEAR(seconds(gather, make_linked_machine(Topology::ring, 4, 1e-6), small), 2e-6 + 192 / 2e9, 1e-9);
  EXPECT_NEAR(seconds(gather, make_linked_machine({}, 0, 1e-6), small), 3e-6 + 192 / 1e9, 1e-9);
  EXPECT_NEAR(seconds(reduce, make_linked_machine(Topology::switched, 4, 1e-6), small), 2e-6 + 384 / 4e9, 1e-9);
}

// If transfers use different links, the slower one sets the rate, and the others' bytes are scaled.
TEST(Network, adds_transfers_over_different_links) {
  const std::string text = "x: bf16[N, D_XY]   z: bf16[N, D_X]\ny: bf16[N, D] = x\nu: bf16[N, D] = z";
  const double expected = 15 / 16.0 * 3.2e6 / 4e9 + 3 / 4.0 * 3.2e6 / 2e9;
  EXPECT_DOUBLE_EQ(
      seconds(text, make_linked_machine(Topology::ring, 4), {{"X", 4}, {"Y", 4}, {"N", 1000}, {"D", 1600}}), expected);
}

// Eight nodes of eight chips: each chip's link carries an eighth of the data from outside, at 50 GB/s.
TEST(Network, more_chips_than_the_first_link_joins_use_the_next_link) {
  Machine machine = make_linked_machine(Topology::switched, 18);
  machine.links[0].bandwidth = testing::make_number(25e9);
  machine.links.push_back(
      {.name = "scaleout", .bandwidth = testing::make_number(50e9), .topology = Topology::switched});
  machine.numbers["host_chips"] = testing::make_number(8);
  const Bindings sizes{{"X", 64}, {"N", 1000}, {"D", 6400}};  // 12.8 MB
  EXPECT_NEAR(seconds(gather, machine, sizes), 7 / 8.0 * 12.8e6 / 400e9, 1e-12);
  EXPECT_NEAR(seconds(reduce, machine, sizes), 2 * 7 / 8.0 * 12.8e6 / 400e9, 1e-12);
  const Network network = *explain(parse(gather).value(), machine, sizes)->network;
  EXPECT_EQ(network.slowest_level, "scaleout");
  EXPECT_EQ(describe_network(network),
            "18 x ici: directly through a switch, 450.0 GB/s one way; beyond 8 chips: scaleout, 50.00 GB/s per chip; "
            "the latency of a collective is not on record");
  // Along X, consecutive chips have a stride of eight, one per node; along Y they are in one node.
  const std::string two = "mesh X = 8, Y = 8\nx: bf16[N, D_Y]\ny: bf16[N, D] = x";
  EXPECT_NEAR(seconds(two, machine, {{"N", 1000}, {"D", 6400}}), 7 / 8.0 * 12.8e6 / 450e9, 1e-12);
  const std::string across_nodes =
      "mesh X = 8, Y = 8\nx: bf16[N, D_X]   z: bf16[M_Y]\ny: bf16[N, D] = x\nu: bf16[M_Y] = cos(z)";
  EXPECT_NEAR(seconds(across_nodes, machine, {{"N", 1000}, {"D", 6400}, {"M", 8}}), 7 / 8.0 * 12.8e6 / 50e9, 1e-12);
}

// Chip (0,0) to chip (3,3) of a 4 x 4 torus: two links lead away from the first chip.
TEST(Network, times_a_point_to_point_transfer) {
  const PointToPointTransfer p = *time_point_to_point(make_linked_machine(Topology::ring, 4, 1e-6), 17e6, 6);
  EXPECT_EQ(p.links, 2);
  EXPECT_DOUBLE_EQ(p.first_byte_s, 6e-6);
  EXPECT_DOUBLE_EQ(p.last_byte_s, 6e-6 + 17e6 / 2e9);
  EXPECT_EQ(time_point_to_point(make_linked_machine(Topology::switched, 18), 18e9, 1)->last_byte_s, 1);
  EXPECT_EQ(time_point_to_point(make_linked_machine({}, 0), 0, 1).error().message,
            "expected bytes above 0 and 1 to 1048576 hops, found 0 and 1");
}

TEST(Network, describes_its_assumptions) {
  const auto said = [](const std::string& text, const Machine& machine) {
    return ridge::describe_network(*explain(parse(text).value(), machine, eight)->network);
  };
  EXPECT_EQ(said(gather, make_linked_machine(Topology::switched, 18)),
            "18 x ici: directly through a switch, 18.00 GB/s one way; the latency of a collective is not on record");
  EXPECT_EQ(said(gather, make_linked_machine(Topology::ring, 4, 1e-6)),
            "2 x ici: a ring along each mesh axis, both ways, 2.000 GB/s one way, 1.000 us per hop");
  EXPECT_EQ(said(gather, make_linked_machine({}, 4)),
            "ici: one ring, one way, 1.000 GB/s one way; the latency of a collective is not on record");
}

}  // namespace
}  // namespace ridge

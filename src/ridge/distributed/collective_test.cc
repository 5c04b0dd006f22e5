#include "ridge/distributed/collective.h"

#include <gtest/gtest.h>

#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

// Returns a machine with nodes of 8 chips: 450 GB/s for each chip inside a node, 50 GB/s between nodes.
Machine make_node_machine() {
  Machine machine = testing::make_test_machine({{DType::bf16, 1e15}}, 1e15, 1e15);
  machine.links.push_back({.name = "nvlink", .bandwidth = testing::make_number(25e9), .topology = Topology::switched});
  machine.links.back().count = testing::make_number(18);
  machine.links.push_back(
      {.name = "scaleout", .bandwidth = testing::make_number(50e9), .topology = Topology::switched});
  machine.numbers["host_chips"] = testing::make_number(8);
  return machine;
}

double collective_seconds(CollectivePattern pattern, double bytes, std::int64_t chips, std::int64_t chip_stride = 1,
                          Machine machine = make_node_machine()) {
  return collective_time(machine, {.pattern = pattern, .bytes = bytes, .chips = chips, .chip_stride = chip_stride})
      ->time_s;
}

TEST(Collective, one_node_uses_its_links) {
  EXPECT_DOUBLE_EQ(collective_seconds(CollectivePattern::all_gather, 8e9, 8), 7 / 8.0 * 8e9 / 450e9);
  EXPECT_DOUBLE_EQ(collective_seconds(CollectivePattern::all_reduce, 8e9, 8), 2 * 7 / 8.0 * 8e9 / 450e9);
  EXPECT_DOUBLE_EQ(collective_seconds(CollectivePattern::all_to_all, 8e9, 8), 7 / 8.0 * 8e9 / 450e9);
}

// 128 nodes: the eight chips of a node receive data from outside at 400 GB/s together.
TEST(Collective, many_nodes_take_as_long_as_the_slowest_level) {
  EXPECT_NEAR(collective_seconds(CollectivePattern::all_gather, 1e12, 1024), 127 / 128.0 * 1e12 / 400e9, 1e-9);
  EXPECT_NEAR(collective_seconds(CollectivePattern::all_reduce, 1e12, 1024), 2 * 127 / 128.0 * 1e12 / 400e9, 1e-9);
  // Only the bytes that leave the node count.
  EXPECT_NEAR(collective_seconds(CollectivePattern::all_to_all, 1e12, 1024), (1024 - 8) / 1024.0 * 1e12 / 50e9, 1e-9);
  // One chip of each node takes part and has its link for itself.
  EXPECT_NEAR(collective_seconds(CollectivePattern::all_gather, 1e9, 128, 8), 127 / 128.0 * 1e9 / 50e9, 1e-12);
  // Two nodes: half of the data crosses nodes at 400 GB/s, which takes longer than 7/8 inside at 450 GB/s.
  const auto two =
      collective_time(make_node_machine(), {.pattern = CollectivePattern::all_gather, .bytes = 1e9, .chips = 16});
  ASSERT_EQ(two->levels.size(), 2U);
  EXPECT_NEAR(two->levels[0].transfer_seconds(), 7 / 8.0 * 1e9 / 450e9, 1e-12);
  EXPECT_NEAR(two->levels[1].transfer_seconds(), 1 / 2.0 * 1e9 / 400e9, 1e-12);
  EXPECT_EQ(two->sending_s, two->levels[0].transfer_seconds());
}

TEST(Collective, leaf_switches_below_a_spine) {
  Machine machine = make_node_machine();
  machine.numbers["leaf_chips"] = testing::make_number(256);
  machine.numbers["spine_part"] = testing::make_number(4);
  const auto found = collective_time(machine, {.pattern = CollectivePattern::all_gather, .bytes = 1e12, .chips = 1024});
  ASSERT_EQ(found->levels.size(), 3U);
  EXPECT_EQ(found->levels[1].members, 32);
  EXPECT_EQ(found->levels[2].members, 4);
  EXPECT_NEAR(found->levels[2].transfer_seconds(), 3 / 4.0 * 1e12 / (256 * 12.5e9), 1e-9);
}

// Nodes of 8 and 1, of 2 and 1, of 3 and 1: the chip that is alone in its node sends and receives all that the others
// need of it over its own link.
TEST(Collective, uneven_nodes_take_as_long_as_the_smallest) {
  using enum CollectivePattern;
  EXPECT_NEAR(collective_seconds(all_reduce, 1e9, 9), 1e9 / 50e9, 1e-12);
  EXPECT_NEAR(collective_seconds(all_reduce, 1e9, 3, 4), 1e9 / 50e9, 1e-12);
  EXPECT_NEAR(collective_seconds(all_reduce, 1e9, 4, 3), 1e9 / 50e9, 1e-12);
  for (const auto pattern : {all_gather, reduce_scatter, all_to_all, gather})
    EXPECT_NEAR(collective_seconds(pattern, 1e9, 9), 8 / 9.0 * 1e9 / 50e9, 1e-12);
  // 12 chips are 8 and 4: the four share what their node receives.
  EXPECT_NEAR(collective_seconds(all_gather, 1e9, 12), 8 / 12.0 * 1e9 / 4 / 50e9, 1e-12);
  EXPECT_NEAR(collective_seconds(all_reduce, 1e9, 12), 1e9 / 4 / 50e9, 1e-12);
  EXPECT_NEAR(collective_seconds(all_to_all, 1e9, 12), 8 / 12.0 * 1e9 / 50e9, 1e-12);
  // 33 chips are four nodes and one chip. Of 17 with 2*(3 - 1)/17 V for each link on average, one still sends all of V.
  EXPECT_NEAR(collective_seconds(all_reduce, 1e9, 33), 1e9 / 50e9, 1e-12);
  EXPECT_NEAR(collective_seconds(all_reduce, 1e9, 15), 2 * 7 / 8.0 * 1e9 / 450e9, 1e-12);  // 1/7 of V outside is less
  // Five nodes of 8, 8, 8, 8 and 7: all links together limit, 2*4/39 of V for each.
  EXPECT_NEAR(collective_seconds(all_reduce, 1e9, 39), 8 / 39.0 * 1e9 / 50e9, 1e-12);
}

// Without a further link, more chips than the first joins are refused.
TEST(Collective, more_chips_than_links_join_are_refused) {
  Machine direct = make_node_machine();
  direct.links.pop_back();
  direct.numbers.erase("host_chips");
  direct.links[0].topology = Topology::direct;
  direct.links[0].count = testing::make_number(7);
  const auto error = [](const Machine& machine, std::int64_t chips, std::int64_t stride = 1) {
    const auto found = collective_time(
        machine, {.pattern = CollectivePattern::all_reduce, .bytes = 1e9, .chips = chips, .chip_stride = stride});
    return found ? std::string() : found.error().message;
  };
  EXPECT_EQ(error(direct, 8), "");
  EXPECT_EQ(
      error(direct, 9),
      "expected collectives over at most 8 chips, which nvlink joins, found one over 9; no link beyond is on record");
  EXPECT_EQ(error(direct, 2, 7), "");
  EXPECT_NE(error(direct, 2, 8), "");
  Machine domain = make_node_machine();
  domain.links.pop_back();
  domain.numbers["pod_chips"] = testing::make_number(72);
  EXPECT_EQ(error(domain, 72), "");
  EXPECT_NE(error(domain, 73), "");
}

// A torus of two axes: 256 chips are faster as 16 x 16 than as one ring.
TEST(Collective, names_a_faster_mesh) {
  Machine torus = make_node_machine();
  torus.links[0] = {.name = "ici", .bandwidth = testing::make_number(50e9), .topology = Topology::ring};
  torus.links[0].count = testing::make_number(4);
  torus.links.pop_back();
  torus.numbers["wrap_chips"] = testing::make_number(16);
  const auto find = [&](std::int64_t chips) {
    return collective_time(torus, {.pattern = CollectivePattern::all_gather, .bytes = 1e9, .chips = chips})
        ->faster_mesh;
  };
  ASSERT_TRUE(find(256));
  EXPECT_EQ(find(256)->sizes, (std::vector<std::int64_t>{16, 16}));
  EXPECT_DOUBLE_EQ(find(256)->time_s, 255 / 256.0 * 1e9 / 200e9);
  ASSERT_TRUE(find(8));
  EXPECT_DOUBLE_EQ(find(8)->time_s, 7 / 8.0 * 1e9 / 100e9);  // 2 x 4, two lines instead of one
  EXPECT_FALSE(find(7));
  EXPECT_FALSE(find(2));
}

// The steps of a ragged all-to-all send no more than it does.
TEST(Collective, ragged_all_to_all_sends_a_fraction_in_steps) {
  Machine machine = make_node_machine();
  machine.numbers["collective_step_s"] = testing::make_number(0.816e-6);
  const auto found = collective_time(
      machine, {.pattern = CollectivePattern::all_to_all, .bytes = 1e9, .chips = 8, .ragged_to = 1, .ragged_of = 8});
  ASSERT_TRUE(found->small_messages);
  const double sending_s = 7 / 8.0 * 1e9 / 8 / 450e9;
  EXPECT_NEAR(found->sending_s, sending_s, 1e-12);
  EXPECT_NEAR(found->small_messages->ring_seconds(1e9), sending_s + 7 * 0.816e-6, 1e-12);
  EXPECT_NEAR(found->small_messages->tree_seconds(1e9), 12 / 7.0 * sending_s + 3 * 0.816e-6, 1e-12);
  const double V = found->small_messages->max_tree_bytes;
  EXPECT_NEAR(found->small_messages->ring_seconds(V), found->small_messages->tree_seconds(V), 1e-15);
}

TEST(Collective, ragged_all_to_all_sends_a_fraction) {
  CollectiveRequest request{
      .pattern = CollectivePattern::all_to_all, .bytes = 1e9, .chips = 64, .ragged_to = 8, .ragged_of = 64};
  EXPECT_NEAR(collective_time(make_node_machine(), request)->time_s,
              collective_seconds(CollectivePattern::all_to_all, 1e9, 64) / 8, 1e-12);
}

TEST(Collective, gather_uses_the_links_of_the_receiver) {
  Machine torus = make_node_machine();
  torus.links[0].topology = Topology::ring;
  torus.links[0].count = testing::make_number(4);
  torus.links.pop_back();
  EXPECT_NEAR(collective_seconds(CollectivePattern::gather, 16e9, 16, 1, torus), 15 / 16.0 * 16e9 / 50e9, 1e-9);
  torus.numbers["wrap_chips"] = testing::make_number(17);  // A chip at the end of a line
  EXPECT_NEAR(collective_seconds(CollectivePattern::gather, 16e9, 16, 1, torus), 15 / 16.0 * 16e9 / 25e9, 1e-9);
}

TEST(Collective, all_reduce_uses_a_reducing_switch) {
  Machine machine = make_node_machine();
  machine.numbers["switch_reduces"] = testing::make_number(1);
  EXPECT_DOUBLE_EQ(collective_seconds(CollectivePattern::all_reduce, 9e9, 8, 1, machine), 9e9 / 450e9);
  EXPECT_DOUBLE_EQ(collective_seconds(CollectivePattern::all_gather, 8e9, 8, 1, machine), 7 / 8.0 * 8e9 / 450e9);
}

// An axis too short for a ring is a line: one direction, one link and all of its hops.
TEST(Collective, short_axis_is_a_line) {
  Machine torus = make_node_machine();
  torus.links[0].topology = Topology::ring;
  torus.links[0].count = testing::make_number(4);
  torus.links[0].latency = testing::make_number(1e-6);
  torus.links.pop_back();
  torus.numbers["wrap_chips"] = testing::make_number(16);
  EXPECT_NEAR(collective_seconds(CollectivePattern::all_gather, 4e6, 4, 1, torus), 3 / 4.0 * 4e6 / 25e9 + 3e-6, 1e-12);
  EXPECT_NEAR(collective_seconds(CollectivePattern::all_gather, 16e6, 16, 1, torus), 15 / 16.0 * 16e6 / 50e9 + 8e-6,
              1e-12);
}

// Every second chip of a ring of 32: a message passes two links to the next of the 16.
TEST(Collective, chips_apart_are_more_hops_apart) {
  Machine torus = make_node_machine();
  torus.links[0].topology = Topology::ring;
  torus.links[0].count = testing::make_number(4);
  torus.links[0].latency = testing::make_number(1e-6);
  torus.links.pop_back();
  const auto found =
      collective_time(torus, {.pattern = CollectivePattern::all_gather, .bytes = 16e6, .chips = 16, .chip_stride = 2});
  EXPECT_NEAR(found->time_s, 15 / 16.0 * 16e6 / 50e9 + 16e-6, 1e-12);
  EXPECT_NEAR(found->latency_s, 16e-6, 1e-12);
}

TEST(Collective, overlaps_chunks_with_computation) {
  Machine machine = make_node_machine();
  machine.links[0].latency = testing::make_number(1e-6);
  CollectiveRequest request{.pattern = CollectivePattern::all_gather, .bytes = 450e6, .chips = 8, .compute_s = 1e-3};
  const auto long_one = collective_time(machine, request);  // 875 us of sending
  EXPECT_DOUBLE_EQ(long_one->min_compute_for_chunks_s, 2e-6);
  EXPECT_GT(long_one->chunk_count, 1);
  EXPECT_LT(long_one->overlapped_s, 1.1e-3);
  // The minimum over all numbers of chunks, each chunk with its own wait.
  for (std::int64_t k = 1; k <= 64; ++k) {
    const double s = 875e-6 / static_cast<double>(k) + 1e-6, c = 1e-3 / static_cast<double>(k);
    EXPECT_LE(long_one->overlapped_s, s + static_cast<double>(k - 1) * std::max(s, c) + c + 1e-15);
  }
  request.compute_s = 1.9e-6;  // less than two waits
  EXPECT_EQ(collective_time(machine, request)->chunk_count, 1);
}

TEST(Collective, rejects_invalid_requests) {
  EXPECT_EQ(collective_time(make_node_machine(), {.bytes = 0, .chips = 8}).error().message,
            "expected 1 to 2^60 bytes of a collective, found 0");
  EXPECT_EQ(collective_time(make_node_machine(), {.bytes = 1, .chips = 1}).error().message,
            "expected 2 to 1048576 chips with a stride of 1 to 1048576, found 1 and 1");
  EXPECT_EQ(
      collective_time(make_node_machine(), {.bytes = 1, .chips = 8, .ragged_to = 1, .ragged_of = 2}).error().message,
      "expected a ragged all-to-all, to 1 to 2 of 2, found all-gather to 1");
}

}  // namespace
}  // namespace ridge

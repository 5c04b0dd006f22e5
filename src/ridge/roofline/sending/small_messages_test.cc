#include "ridge/roofline/sending/small_messages.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ridge/roofline/network.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

Network network(double step = 1e-6, Topology topology = Topology::switched) {
  Network out{.link = "nvlink", .topology = topology, .links = 4, .rate = 1e10, .latency_s = step, .step_s = step};
  return out;
}

SmallMessages small(Collective kind, std::int64_t n, const Network& net = network()) {
  std::vector<SmallMessages> out;
  add_small_messages(out, {kind, "X", n, Polynomial(1)}, net);
  return out.at(0);
}

struct SimulatedCollective {
  std::int64_t steps = 0, max_blocks_sent = 0;  // Maximum over the devices; halves of V for trees
};

// Simulates a ring all-gather: each device forwards the block that it received last.
SimulatedCollective simulate_ring_gather(std::int64_t n) {
  std::vector<std::set<std::int64_t>> has(n);
  for (std::int64_t d = 0; d < n; ++d) has[d] = {d};
  SimulatedCollective out;
  for (; has[0].size() < static_cast<std::size_t>(n); ++out.steps, ++out.max_blocks_sent) {
    const auto before = has;
    for (std::int64_t d = 0; d < n; ++d) {
      const std::int64_t from = (d + n - 1) % n, block = (from - out.steps % n + n) % n;
      if (before[from].contains(block)) has[d].insert(block);
    }
  }
  return out;
}

// Simulates an all-gather by doubling: in step k, each device sends all blocks that the device 2^k positions before it
// lacks.
SimulatedCollective simulate_doubling_gather(std::int64_t n) {
  std::vector<std::set<std::int64_t>> has(n);
  for (std::int64_t d = 0; d < n; ++d) has[d] = {d};
  SimulatedCollective out;
  for (std::int64_t far = 1; far < n; far *= 2, ++out.steps) {
    const auto before = has;
    std::size_t most = 0;
    for (std::int64_t d = 0; d < n; ++d) {
      auto& here = has[d];
      const std::size_t had = here.size();
      for (const std::int64_t block : before[(d + far) % n]) here.insert(block);
      most = std::max(most, here.size() - had);
    }
    out.max_blocks_sent += static_cast<std::int64_t>(most);
  }
  for (const auto& each : has) EXPECT_EQ(each.size(), static_cast<std::size_t>(n));
  return out;
}

// Simulates an all-to-all with one block per destination. In step k, a block moves 2^k positions if bit k of its
// distance is set.
SimulatedCollective simulate_doubling_exchange(std::int64_t n) {
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> has(n);
  for (std::int64_t d = 0; d < n; ++d)
    for (std::int64_t to = 0; to < n; ++to) has[d].emplace_back(to, d);
  SimulatedCollective out;
  for (std::int64_t far = 1; far < n; far *= 2, ++out.steps) {
    auto next = has;
    for (auto& each : next) each.clear();
    std::int64_t most = 0;
    for (std::int64_t d = 0; d < n; ++d) {
      std::int64_t sent = 0;
      for (const auto& block : has[d]) {
        const bool goes = (((block.first - block.second + n) % n) & far) != 0;
        next[goes ? (d + far) % n : d].push_back(block);
        sent += goes ? 1 : 0;
      }
      most = std::max(most, sent);
    }
    out.max_blocks_sent += most;
    has = std::move(next);
  }
  for (std::int64_t d = 0; d < n; ++d)
    for (const auto& block : has[d]) EXPECT_EQ(block.first, d);
  return out;
}

// Simulates an all-reduce over two binary trees, the second shifted by one device: inner nodes of the first are even,
// those of the second odd. A device sends V/2 to its parent and V/2 to each child. The height sets the latency.
SimulatedCollective simulate_two_trees(std::int64_t n) {
  std::vector<std::int64_t> halves(n, 0);
  std::int64_t height = 0;
  const auto parent = [n](std::int64_t place) {  // Nodes count from 1; the largest power of two has no parent
    const std::int64_t bit = place & -place, up = (place ^ bit) | (bit << 1);
    return up <= n ? up : (place ^ bit);
  };
  for (const std::int64_t moved : {0, 1})
    for (std::int64_t place = 1; place <= n; ++place) {
      const auto device = [&](std::int64_t p) { return static_cast<std::size_t>((p + moved) % n); };
      std::int64_t above = 0;
      for (std::int64_t p = place; parent(p) != 0; p = parent(p)) ++above;
      height = std::max(height, above);
      if (parent(place) == 0) continue;
      ++halves[device(place)];
      ++halves[device(parent(place))];
    }
  return {2 * height, *std::max_element(halves.begin(), halves.end())};
}

// Compares steps and bytes of the closed form with devices that hold blocks.
TEST(SmallMessages, equal_a_simulation_of_devices) {
  for (std::int64_t n = 2; n <= 70; ++n) {
    const auto N = static_cast<double>(n);
    const auto bytes = [&](const LinearCost& line) { return 4e10 / line.rate; };  // of V = 1
    const SmallMessages gather = small(Collective::all_gather, n), reduce = small(Collective::all_reduce, n),
                        exchange = small(Collective::all_to_all, n);
    const SimulatedCollective ring = simulate_ring_gather(n), tree = simulate_doubling_gather(n),
                              pairs = simulate_doubling_exchange(n);
    EXPECT_EQ(gather.ring.steps, ring.steps) << n;
    EXPECT_NEAR(bytes(gather.ring), static_cast<double>(ring.max_blocks_sent) / N, 1e-9) << n;
    EXPECT_EQ(gather.tree.steps, tree.steps) << n;
    EXPECT_NEAR(bytes(gather.tree), static_cast<double>(tree.max_blocks_sent) / N, 1e-9) << n;
    EXPECT_EQ(exchange.tree.steps, pairs.steps) << n;
    EXPECT_NEAR(bytes(exchange.tree), static_cast<double>(pairs.max_blocks_sent) / N, 1e-9) << n;
    EXPECT_EQ(reduce.ring.steps, 2 * ring.steps) << n;
    const SimulatedCollective trees = simulate_two_trees(n);
    EXPECT_LE(trees.steps, reduce.tree.steps) << n;
    EXPECT_LE(static_cast<double>(trees.max_blocks_sent) / 2, bytes(reduce.tree) + 1e-9) << n;
  }
}

TEST(SmallMessages, tree_and_ring_cross_at_the_closed_form) {
  const double a = 1e-6, w = 4e10;
  const SmallMessages reduce = small(Collective::all_reduce, 8);
  EXPECT_NEAR(reduce.max_tree_bytes, 8 * (8 - 1 - 3) * a * w, 1);
  EXPECT_LT(reduce.tree_seconds(0.99 * reduce.max_tree_bytes), reduce.ring_seconds(0.99 * reduce.max_tree_bytes));
  EXPECT_GT(reduce.tree_seconds(1.01 * reduce.max_tree_bytes), reduce.ring_seconds(1.01 * reduce.max_tree_bytes));
  EXPECT_TRUE(small(Collective::all_gather, 8).is_tree_always_faster());
  EXPECT_EQ(small(Collective::all_gather, 2).max_tree_bytes, 0);  // one step either way
  EXPECT_EQ(small(Collective::all_reduce, 3).max_tree_bytes, 0);  // two
  EXPECT_NEAR(small(Collective::all_to_all, 4).max_tree_bytes, 4 * a * w, 1);
  EXPECT_EQ(describe_small_messages(reduce),
            "all-reduce over X, small: a tree (2 x 3 steps of 1.000 us) below 1.280 MB, a ring (2 x 7) above");
  EXPECT_EQ(describe_small_messages(small(Collective::all_gather, 8)),
            "all-gather over X, small: a tree (3 steps of 1.000 us) instead of a ring (7)");
  EXPECT_EQ(describe_small_messages(small(Collective::all_gather, 2)),
            "all-gather over X, small: a ring (1 step of 1.000 us) at any size");
}

// Nodes of eight: steps of the levels add up, and the members of a node share the data that leaves it.
TEST(SmallMessages, add_the_steps_of_network_levels) {
  Network net = network();
  net.first_link_chips = 8;
  net.outer_levels = {{"scaleout", 1e9}};
  const SmallMessages s = small(Collective::all_reduce, 64, net);
  EXPECT_EQ(s.ring.steps, 2 * (7 + 7));
  EXPECT_EQ(s.tree.steps, 2 * (3 + 3));
  EXPECT_NEAR(1 / s.ring.rate, 2 * 7 / 8.0 / 8 / 1e9, 1e-18);
  EXPECT_NEAR(1 / s.tree.rate, 2 / 8.0 / 1e9, 1e-18);
}

TEST(SmallMessages, are_empty_for_unsupported_networks) {
  std::vector<SmallMessages> out;
  add_small_messages(out, {Collective::all_reduce, "X", 8, Polynomial(1)}, network(1e-6, Topology::ring));
  add_small_messages(out, {Collective::all_reduce, "X", 8, Polynomial(1)}, network(0));
  add_small_messages(out, {Collective::permute, "X", 8, Polynomial(1)}, network());
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace ridge

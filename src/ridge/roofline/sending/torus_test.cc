// Compares the closed forms of a torus with schedules that are executed on a grid of chips, block by block.
#include "ridge/roofline/sending/torus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "ridge/roofline/network.h"
#include "ridge/roofline/sending/level_work.h"

namespace ridge {
namespace {

// A grid of chips. Each chip has a link to each neighbour along each axis; along an axis that wraps around, the last
// chip is a neighbour of the first. Two chips have one link between them.
class Grid {
 public:
  Grid(std::vector<int> sizes, std::vector<bool> wraps) : sizes_(std::move(sizes)), wraps_(std::move(wraps)) {
    for (const int size : sizes_) chips_ *= size;
  }
  int chips() const { return chips_; }
  int axes() const { return static_cast<int>(sizes_.size()); }
  int size(int axis) const { return sizes_[axis]; }

  // Returns the neighbour one step up or down an axis, or -1.
  int neighbour(int chip, int axis, bool up) const {
    int stride = 1;
    for (int i = 0; i < axis; ++i) stride *= sizes_[i];
    const int at = chip / stride % sizes_[axis], to = at + (up ? 1 : -1);
    if (to >= 0 && to < sizes_[axis]) return chip + (to - at) * stride;
    if (!wraps_[axis] || sizes_[axis] == 2) return -1;
    return chip + ((to + sizes_[axis]) % sizes_[axis] - at) * stride;
  }

  int count_neighbours(int chip) const {
    int out = 0;
    for (int axis = 0; axis < axes(); ++axis)
      for (const bool up : {false, true}) out += neighbour(chip, axis, up) >= 0 ? 1 : 0;
    return out;
  }

  // Returns the steps from a chip to the farthest other one.
  int count_steps_to_farthest(int chip) const {
    std::vector<int> steps(chips_, -1), queue{chip};
    steps[chip] = 0;
    for (std::size_t i = 0; i < queue.size(); ++i)
      for (int axis = 0; axis < axes(); ++axis)
        for (const bool up : {false, true})
          if (const int next = neighbour(queue[i], axis, up); next >= 0 && steps[next] < 0) {
            steps[next] = steps[queue[i]] + 1;
            queue.push_back(next);
          }
    return steps[queue.back()];
  }

 private:
  std::vector<int> sizes_;
  std::vector<bool> wraps_;
  int chips_ = 1;
};

// Half blocks that each link of each chip has sent, by axis and direction.
class LinkLoads {
 public:
  explicit LinkLoads(const Grid& grid) : loads_(grid.chips() * grid.axes() * 2), axes_(grid.axes()) {}
  void add(int chip, int axis, bool up, int halves) { loads_[(chip * axes_ + axis) * 2 + (up ? 1 : 0)] += halves; }
  int max_halves(int axis) const {
    int out = 0;
    for (std::size_t i = axis * 2; i < loads_.size(); i += axes_ * 2) out = std::max({out, loads_[i], loads_[i + 1]});
    return out;
  }

 private:
  std::vector<int> loads_;
  int axes_;
};

// Gathers along one axis: in each step, each chip forwards what it received last. On a ring of an even number of chips,
// the last step in each direction carries the halves of the blocks. `halves` has the half blocks of each chip.
void gather_along(const Grid& grid, int axis, std::vector<std::vector<int>>& halves, LinkLoads& loads) {
  const auto before = halves;
  const int n = grid.size(axis);
  const bool is_ring = n > 2 && grid.neighbour(0, axis, false) >= 0;
  const int steps = is_ring ? n / 2 : n - 1;
  for (const bool up : {false, true}) {
    auto last = before;
    for (int step = 1; step <= steps; ++step) {
      const bool is_half = is_ring && n % 2 == 0 && step == steps;
      std::vector<std::vector<int>> next(grid.chips(), std::vector<int>(grid.chips(), 0));
      for (int chip = 0; chip < grid.chips(); ++chip) {
        const int to = grid.neighbour(chip, axis, up);
        for (int block = 0; to >= 0 && block < grid.chips(); ++block) {
          const int sent = is_half ? last[chip][block] / 2 : last[chip][block];
          next[to][block] = sent;
          halves[to][block] += sent;
          loads.add(chip, axis, up, sent);
        }
      }
      last = std::move(next);
    }
  }
}

// Returns the most half blocks that a link of each axis sends if all blocks are gathered along the axes in an order.
std::vector<int> simulate_gather(const Grid& grid, const std::vector<int>& order) {
  std::vector<std::vector<int>> halves(grid.chips(), std::vector<int>(grid.chips(), 0));
  for (int chip = 0; chip < grid.chips(); ++chip) halves[chip][chip] = 2;
  LinkLoads loads(grid);
  for (const int axis : order) gather_along(grid, axis, halves, loads);
  for (const auto& held : halves)
    EXPECT_TRUE(std::all_of(held.begin(), held.end(), [](int each) { return each == 2; }));
  std::vector<int> out;
  for (int axis = 0; axis < grid.axes(); ++axis) out.push_back(loads.max_halves(axis));
  return out;
}

// Sends each chip's block for each other chip along the axes, one after another, the shorter way around a ring; halves
// of it take both ways if they are equally long. Returns the most half blocks that a link of each axis sends.
std::vector<int> simulate_exchange(const Grid& grid) {
  LinkLoads loads(grid);
  for (int from = 0; from < grid.chips(); ++from)
    for (int to = 0; to < grid.chips(); ++to) {
      int at = from, stride = 1;
      for (int axis = 0; axis < grid.axes(); stride *= grid.size(axis++)) {
        const int n = grid.size(axis), distance = (to / stride % n - at / stride % n + n) % n;
        const bool is_ring = n > 2 && grid.neighbour(0, axis, false) >= 0;
        const int start = at;
        const auto walk = [&](bool up, int steps, int halves) {
          at = start;
          for (int i = 0; i < steps; ++i) {
            loads.add(at, axis, up, halves);
            at = grid.neighbour(at, axis, up);
          }
        };
        const bool is_up = is_ring ? distance <= n / 2 : to / stride % n > at / stride % n;
        if (is_ring && 2 * distance == n) {
          walk(false, distance, 1);
          walk(true, distance, 1);
        } else {
          const int line_steps = std::abs(to / stride % n - start / stride % n);
          const int ring_steps = is_up ? distance : n - distance;
          walk(is_up, is_ring ? ring_steps : line_steps, 2);
        }
      }
      EXPECT_EQ(at, to);
    }
  std::vector<int> out;
  for (int axis = 0; axis < grid.axes(); ++axis) out.push_back(loads.max_halves(axis));
  return out;
}

using Row = std::vector<Rational>;

// Solves a square system by elimination; nullopt if it is singular.
std::optional<Row> solve(std::vector<Row> rows) {
  for (std::size_t p = 0; p < rows.size(); ++p) {
    std::size_t pivot = p;
    while (pivot < rows.size() && rows[pivot][p].is_zero()) ++pivot;
    if (pivot == rows.size()) return std::nullopt;
    std::swap(rows[p], rows[pivot]);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i == p) continue;
      const Rational by = rows[i][p] / rows[p][p];
      for (std::size_t j = p; j < rows[i].size(); ++j) rows[i][j] = rows[i][j] - by * rows[p][j];
    }
  }
  Row out;
  for (std::size_t i = 0; i < rows.size(); ++i) out.push_back(rows[i].back() / rows[i][i]);
  return out;
}

// Returns the blocks that the busiest link sends if the data is divided among axis orders such that all axes finish at
// the same time: the unknowns are the parts of as many orders as there are axes, and that time.
std::optional<Rational> divide_among_orders(const std::vector<std::vector<int>>& orders, int axes) {
  std::vector<int> chosen(orders.size(), 0);
  std::fill(chosen.end() - std::min<int>(axes, static_cast<int>(orders.size())), chosen.end(), 1);
  std::optional<Rational> best;
  do {
    std::vector<Row> rows;
    Row parts(axes + 2, 0);
    for (int i = 0; i < axes; ++i) parts[i] = 1;
    parts.back() = 1;
    rows.push_back(parts);
    for (int axis = 0; axis < axes; ++axis) {
      Row row;
      for (std::size_t order = 0; order < orders.size(); ++order)
        if (chosen[order] == 1) row.push_back(Rational(orders[order][axis], 2));
      row.push_back(-1);
      row.push_back(0);
      rows.push_back(row);
    }
    const auto found = solve(rows);
    const auto is_part = [](const Rational& part) { return part >= Rational(0); };
    if (found && std::all_of(found->begin(), found->end(), is_part) && (!best || found->back() < *best))
      best = found->back();
  } while (std::next_permutation(chosen.begin(), chosen.end()));
  return best;
}

struct RandomTorus {
  Network network;
  Grid grid;
  Transfer transfer;
};

RandomTorus make_random_torus(std::mt19937_64& random) {
  Network network{.link = "ici", .topology = Topology::ring, .links = 6, .rate = 1};
  network.min_ring_chips = static_cast<std::int64_t>(random() % 8);
  network.min_torus_chips = random() % 3 == 0 ? 16 : 0;
  std::vector<int> sizes;
  const std::size_t axes = 1 + random() % 3;
  int chips = 1;
  std::string letters;
  for (std::size_t i = 0; i < axes; ++i) {
    const int limit = std::vector<int>{40, 9, 5}[axes - 1];
    sizes.push_back(2 + static_cast<int>(random() % (limit - 1)));
    chips *= sizes.back();
    letters += static_cast<char>('X' + i);
    network.mesh.emplace_back(letters.back(), sizes.back());
  }
  std::vector<bool> wraps;
  for (const int size : sizes) wraps.push_back(size >= network.min_ring_chips && chips >= network.min_torus_chips);
  return {network, Grid(sizes, wraps), {Collective::all_gather, letters, chips, Polynomial(1)}};
}

// Returns the time of a transfer with one byte for each chip, in bytes of one link.
Rational count_link_blocks(RandomTorus& torus, Collective kind) {
  torus.transfer.kind = kind;
  const TorusWork work = count_torus_work(kind, list_torus_axes(torus.transfer, torus.network), torus.network.links);
  return work.bytes_sent * Rational(torus.grid.chips(), work.links);
}

TEST(Torus, equals_schedules_on_2000_random_meshes) {
  std::mt19937_64 random(61);
  for (int i = 0; i < 2000; ++i) {
    RandomTorus torus = make_random_torus(random);
    const Grid& grid = torus.grid;
    std::vector<int> order(grid.axes());
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::vector<int>> orders;
    do orders.push_back(simulate_gather(grid, order));
    while (std::next_permutation(order.begin(), order.end()));
    const auto gathered = divide_among_orders(orders, grid.axes());
    ASSERT_TRUE(gathered) << i;
    EXPECT_EQ(count_link_blocks(torus, Collective::all_gather), *gathered) << i;
    EXPECT_EQ(count_link_blocks(torus, Collective::reduce_scatter), *gathered) << i;  // The same in reverse
    EXPECT_EQ(count_link_blocks(torus, Collective::all_reduce), *gathered * 2) << i;
    // No schedule is faster: the first chip receives all other blocks over its links.
    EXPECT_EQ(*gathered, Rational(grid.chips() - 1, grid.count_neighbours(0))) << i;
    const std::vector<int> exchanged = simulate_exchange(grid);
    const Rational slowest(*std::max_element(exchanged.begin(), exchanged.end()), 2);
    EXPECT_EQ(count_link_blocks(torus, Collective::all_to_all), slowest) << i;
    EXPECT_EQ(count_link_blocks(torus, Collective::permute), slowest * 2) << i;
    EXPECT_EQ(count_hops(torus.transfer, torus.network), grid.count_steps_to_farthest(0)) << i;
  }
}

// Rotating a ring by half of it takes as long as any permutation: a part goes h steps up, the rest n - h steps down.
TEST(Torus, permutes_as_slowly_as_half_a_turn) {
  for (int n = 3; n <= 40; ++n) {
    const Network network{.topology = Topology::ring, .links = 4, .rate = 1, .mesh = {{'X', n}}};
    const Transfer transfer{Collective::permute, "X", n, Polynomial(n)};
    const TorusWork work = count_torus_work(transfer.kind, list_torus_axes(transfer, network), network.links);
    EXPECT_EQ(work.links, 2);
    const int half = n / 2;
    Rational fastest = n;
    for (int part = 0; part <= n; ++part)  // part/n of the data goes up
      fastest = std::min(fastest, std::max(Rational(part * half, n), Rational((n - part) * (n - half), n)));
    EXPECT_EQ(work.bytes_sent * Rational(1, work.links), fastest) << n;
  }
}

std::vector<std::int64_t> sizes_over_axes(std::int64_t chips, std::int64_t count, std::int64_t min_ring_chips) {
  const Network network{
      .topology = Topology::ring, .links = 6, .min_ring_chips = min_ring_chips, .mesh = {{'X', chips}}};
  std::vector<std::int64_t> out;
  for (const TorusAxis& axis : lay_over_axes(chips, count, network)) out.push_back(axis.chips);
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Torus, lays_an_axis_over_several) {
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes_over_axes(256, 2, 16), (Sizes{16, 16}));
  EXPECT_EQ(sizes_over_axes(64, 3, 4), (Sizes{4, 4, 4}));
  EXPECT_EQ(sizes_over_axes(64, 2, 16), (Sizes{4, 16}));  // A ring of 16 and a line rather than lines of 8
  EXPECT_EQ(sizes_over_axes(8, 2, 16), (Sizes{2, 4}));
  EXPECT_EQ(sizes_over_axes(7, 2, 4), (Sizes{7}));
  EXPECT_EQ(sizes_over_axes(1, 2, 4), Sizes{});
}

TEST(Torus, suggests_a_shape_that_uses_more_links) {
  const auto suggest = [](std::vector<std::pair<char, std::int64_t>> mesh) {
    return suggest_wider_shape(
        {.link = "ici", .topology = Topology::ring, .links = 4, .min_ring_chips = 16, .mesh = std::move(mesh)});
  };
  EXPECT_EQ(suggest({{'X', 256}}),
            "256 chips along one axis use 2 links of ici, as 16 x 16 they use 4 (mesh X = 16, Y = 16)");
  EXPECT_EQ(suggest({{'X', 1}, {'Y', 8}}),
            "8 chips along one axis use 1 link of ici, as 4 x 2 they use 2 (mesh X = 4, Y = 2)");
  EXPECT_EQ(suggest({{'X', 16}, {'Y', 16}}), "");
  EXPECT_EQ(suggest({{'X', 7}}), "");
}

// 3 axes of a mesh on a torus of two share its four links.
TEST(Torus, more_mesh_axes_than_the_torus_has_share_links) {
  const Network network{.topology = Topology::ring, .links = 4, .rate = 1, .mesh = {{'X', 4}, {'Y', 4}, {'Z', 4}}};
  const auto axes = list_torus_axes({Collective::all_to_all, "XYZ", 64, Polynomial(1)}, network);
  EXPECT_EQ(count_torus_work(Collective::all_gather, axes, network.links).links, 4);
  const TorusWork exchange = count_torus_work(Collective::all_to_all, axes, network.links);
  EXPECT_EQ(exchange.bytes_sent, Rational(3));
  EXPECT_EQ(exchange.links, 4);
}

}  // namespace
}  // namespace ridge

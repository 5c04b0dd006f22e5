// Tests plans of products that share rows with other ranks (tile/shared_rows.h): which shapes have a plan, no deadlock
// between ranks, and gathered rows multiplied in the order of arrival.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/plan/testing/hopper.h"

namespace ridge::ops::cuda {
namespace {

constexpr std::size_t workspace = std::size_t{64} << 20;

struct Shape {
  std::int64_t m, n, k;
  int rows, cols;  // Size of a chunk
};

MatmulCall make_scatter_call(const Shape& s, int ranks) {
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };  // Never accessed
  MatmulCall c;
  c.problem = {1, s.m, s.n, s.k, {DType::bf16, s.k, 1, 0}, {DType::bf16, s.n, 1, 0}, {DType::bf16, s.n, 1, 0}};
  c.a = at(1 << 20);
  c.b = at(2 << 20);
  c.d = at(3 << 20);
  c.scattered.rows = s.rows;
  c.scattered.cols = s.cols;
  c.scattered.chunks_across = static_cast<int>((s.n + s.cols - 1) / s.cols);
  c.scattered.total_rows = static_cast<int>(s.m);
  c.scattered.shard_rows = c.scattered.first_added_row = c.scattered.total_rows / ranks;
  c.scattered.chunks_per_shard = c.scattered.shard_rows / s.rows * c.scattered.chunks_across;
  return c;
}

// Simulates ranks in a ring whose blocks process their tiles in sequence. A tile after the first chunk of rows is
// stored when the next rank has stored the whole chunk that the tile is added to.
class RingSimulation {
 public:
  RingSimulation(const MatmulCall& call, const MatmulPlan& plan, int ranks)
      : n_(static_cast<int>(call.problem.size.n)) {
    const MatmulConfig& c = sm90_kernel_configs[plan.config];
    tile_ = {.m = c.m, .n = c.n, .k = c.k, .cluster_m = c.cluster_m, .cluster_n = c.cluster_n};
    for (int r = 0; r < ranks; ++r) {
      Rank rank{call.scattered};
      rank.chunks.first = (r + 1) % ranks * rank.chunks.shard_rows;
      const tile::ProductShape sizes{.m = rank.chunks.total_rows,
                                     .n = n_,
                                     .k = static_cast<int>(call.problem.size.k),
                                     .raster_rows = plan.raster_rows,
                                     .first_row = rank.chunks.first / (c.m * c.cluster_m)};
      for (int b = 0; b < plan.blocks; ++b) {
        tile::TileScheduler scheduler(tile_, sizes, plan.blocks, b, b % c.cluster());
        rank.remaining.emplace_back();
        for (tile::WorkItem x; scheduler.next(x);)
          if (x.n0 < n_) rank.remaining.back().push_back(x);
        std::reverse(rank.remaining.back().begin(), rank.remaining.back().end());
      }
      rank.stored.resize(ranks * rank.chunks.chunks_per_shard);
      ranks_.push_back(std::move(rank));
    }
  }

  bool completes() {
    while (store_ready_tiles()) {}
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
      return std::all_of(rank.remaining.begin(), rank.remaining.end(), [](const auto& block) { return block.empty(); });
    });
  }

 private:
  struct Rank {
    tile::ScatteredRows chunks;
    std::vector<std::vector<tile::WorkItem>> remaining = {};  // Remaining tiles of each block; the next one is last
    std::vector<std::int64_t> stored = {};                    // Stored elements of each chunk
  };

  bool store_ready_tiles() {  // True if any block stored a tile
    bool any = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      for (auto& block : ranks_[r].remaining)
        while (!block.empty() && try_store(ranks_[r], ranks_[(r + 1) % ranks_.size()], block.back())) {
          block.pop_back();
          any = true;
        }
    return any;
  }

  bool try_store(Rank& rank, const Rank& next, const tile::WorkItem& x) const {
    const tile::ScatteredRows& chunks = rank.chunks;
    const int end = std::min(n_, x.n0 + tile_.n), per_shard = chunks.chunks_per_shard;
    const int first = chunks.chunk_number(x.m0, x.n0), last = chunks.chunk_number(x.m0, end - 1);
    for (int number = first; number <= last; ++number)
      if (number >= per_shard && !is_chunk_stored(next, number - per_shard)) return false;
    for (int col = x.n0; col < end; ++col) rank.stored[first + col / chunks.cols - x.n0 / chunks.cols] += tile_.m;
    return true;
  }
  bool is_chunk_stored(const Rank& rank, int number) const {
    const int begin = number % rank.chunks.chunks_across * rank.chunks.cols,
              cols = std::min(rank.chunks.cols, n_ - begin);
    return rank.stored[number] == std::int64_t{cols} * rank.chunks.rows;
  }

  int n_;
  tile::TileShape tile_ = {};
  std::vector<Rank> ranks_;
};

TEST(SharedRows, RanksDoNotDeadlock) {
  for (const int ranks : {2, 3, 4})
    for (const Shape& one : {Shape{2048, 8192, 2048, 2048, 2048},
                             {2048, 8192, 2048, 2048, 1024},
                             {1024, 4096, 4096, 512, 4096},
                             {384, 640, 64, 384, 192},
                             {256, 1000, 512, 128, 320}}) {
      Shape shape = one;
      shape.m *= ranks;  // The rows of all ranks
      const MatmulCall call = make_scatter_call(shape, ranks);
      const auto plan = choose_exchanged_rows_plan(call, workspace, h200_numbers());
      ASSERT_TRUE(plan) << shape.m << " x " << shape.n;
      EXPECT_TRUE(sm90_kernel_configs[plan->config].can_scatter_rows());
      EXPECT_TRUE(RingSimulation(call, *plan, ranks).completes()) << ranks << " ranks, " << shape.m << " x " << shape.n;
    }
}

// Shows that the simulation detects deadlocks: a band of rows in the chunks of two ranks waits for itself.
TEST(SharedRows, BandAcrossTwoChunksDeadlocks) {
  const MatmulCall call = make_scatter_call({768, 4096, 4096, 384, 4096}, 2);
  auto plan = choose_exchanged_rows_plan(call, workspace, h200_numbers());
  ASSERT_TRUE(plan);
  EXPECT_TRUE(RingSimulation(call, *plan, 2).completes());
  plan->raster_rows = 6;
  plan->blocks = 1;
  EXPECT_FALSE(RingSimulation(call, *plan, 2).completes());
}

TEST(SharedRows, UnsupportedCallsHaveNoPlan) {
  const Shape good{4096, 4096, 4096, 2048, 2048};
  const auto planned = [&](auto change) {
    MatmulCall call = make_scatter_call(good, 2);
    change(call);
    return choose_exchanged_rows_plan(call, workspace, h200_numbers()).has_value();
  };
  EXPECT_TRUE(planned([](MatmulCall&) {}));
  EXPECT_FALSE(planned([](MatmulCall& c) { c.scattered.rows = 100; })) << "a tile in two bands of rows";
  EXPECT_FALSE(planned([](MatmulCall& c) { c.scattered.cols = 32; })) << "chunks narrower than a tile";
  EXPECT_FALSE(planned([](MatmulCall& c) { c.problem.size.m = 4000; }))
      << "rows of ranks that do not add up to the result";
  EXPECT_FALSE(planned([](MatmulCall& c) { c.problem.d.dtype = DType::f32; })) << "the copy engine cannot add f32";
  EXPECT_FALSE(planned([](MatmulCall& c) { c.epilogue.activation = EpilogueActivation::relu; }))
      << "an activation of a partial sum";
  EXPECT_FALSE(planned([](MatmulCall& c) { c.problem.d = {DType::bf16, 1, 4096, 0}; })) << "rows that are columns";
  EXPECT_FALSE(planned([](MatmulCall& c) { c.problem.batch = 2; }));
}

MatmulCall make_gather_call(std::int64_t m, int ranks, int rank, int cols) {
  MatmulCall c = make_scatter_call({m, 2048, 4096, 1, 1}, ranks);
  c.scattered = {};
  c.gathered.total_rows = static_cast<int>(m);
  c.gathered.shard_rows = c.gathered.rows = c.gathered.total_rows / ranks;
  c.gathered.cols = cols;
  c.gathered.chunks_across = c.gathered.chunks_per_shard = 4096 / cols;
  c.gathered.first = rank * c.gathered.shard_rows;
  return c;
}

TEST(SharedRows, GatheredRowsAreMultipliedInArrivalOrder) {
  constexpr int ranks = 4;
  for (const int rank : {0, 1, 3})
    for (const int rows : {2048, 1536, 4096, 384}) {
      const MatmulCall call = make_gather_call(ranks * rows, ranks, rank, 2048);
      const auto plan = choose_exchanged_rows_plan(call, workspace, h200_numbers());
      ASSERT_TRUE(plan) << rows;
      const MatmulConfig& c = sm90_kernel_configs[plan->config];
      EXPECT_TRUE(c.can_gather_rows());
      EXPECT_LE(plan->raster_rows * c.m * c.cluster_m, max_scatter_band_rows);
      const tile::TileShape cut{.m = c.m, .n = c.n, .k = c.k, .cluster_m = c.cluster_m, .cluster_n = c.cluster_n};
      const tile::ProductShape sizes{
          .m = ranks * rows, .n = 2048, .k = 4096, .raster_rows = plan->raster_rows, .first_row = plan->first_tile_row};
      tile::TileScheduler scheduler(cut, sizes, c.cluster(), 0, 0);  // All tiles in sequence
      int at = 0;
      for (tile::WorkItem x; scheduler.next(x);) {
        const int next = call.gathered.shard_position(x.m0).shard;
        EXPECT_EQ(call.gathered.shard_position(x.m0 + c.m - 1).shard, next) << "a tile in the rows of two ranks";
        EXPECT_TRUE(next == at || next == at + 1) << "at " << x.m0 << ", " << x.n0;
        at = next;
      }
      EXPECT_EQ(at, ranks - 1);
      EXPECT_EQ(call.gathered.chunk_number(rank * rows, 2048), 1) << "a rank's own rows are first";
    }
}

TEST(SharedRows, RowsAreNotGatheredIfAIsCopied) {
  const MatmulCall good = make_gather_call(8192, 4, 0, 2048);
  EXPECT_TRUE(choose_exchanged_rows_plan(good, workspace, h200_numbers()));
  MatmulCall odd = good;
  odd.problem.a.row_stride = 4100;  // 8200 bytes, not a multiple of 16
  EXPECT_FALSE(choose_exchanged_rows_plan(odd, workspace, h200_numbers()));
  MatmulCall turned = good;
  turned.problem.a = {DType::bf16, 1, 8192, 0};
  EXPECT_FALSE(choose_exchanged_rows_plan(turned, workspace, h200_numbers())) << "rows that are columns";
  MatmulCall narrow = good;
  narrow.gathered.cols = 32;
  EXPECT_FALSE(choose_exchanged_rows_plan(narrow, workspace, h200_numbers())) << "a stage in two chunks";
  EXPECT_FALSE(choose_exchanged_rows_plan(make_gather_call(800, 4, 0, 2048), workspace, h200_numbers()))
      << "a tile in the rows of two ranks";
}

}  // namespace
}  // namespace ridge::ops::cuda

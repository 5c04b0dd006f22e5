// Runs a kernel's functions only to count its traffic and multiplications; no data is copied or multiplied. There are
// two kinds of schedules: TileSchedule for the persistent blocks of a GPU, with full tiles that the copy engine clips
// at the matrix's edge, and CpuTileSchedule for a CPU, with balanced ranges of rows and columns and packed panels.
#pragma once

#include <type_traits>
#include <vector>

#include "ridge/tile/cpu/schedule.h"
#include "ridge/tile/grouped_scheduler.h"
#include "ridge/tile/role_checks.h"
#include "ridge/tile/sum_functions.h"
#include "ridge/tile/trace/traffic_counts.h"

namespace ridge::tile::trace {

struct ItemPosition {
  Row row_range;
  Col col_range;
  Index batch = 0;
  Row row() const { return row_range; }
  Col col() const { return col_range; }
};

struct MulticastPart {  // the part of a tile that this block loads and multicasts to the other blocks that need the
                        // tile
  int blocks = 1, rank = 0;  // number of blocks that need the tile, and the index of this one
};

// Each role has its own operations, so a multiply in `load` does not compile.
struct LoadCounter : CheckedLoads<LoadCounter, ItemPosition> {
  TrafficCounter& counter;
  MulticastPart left, right;  // parts of A's tiles, and of B's

  template <int first, int count, class Tile, class View, class Along>
  void load_rows(TileRows<first, count, Tile> part, const View& view, Along where, Range k) const {
    constexpr bool is_left = std::is_same_v<Along, Row>;
    part.tile.parts[part.tile.part_count++] = {&view, where, k, first};
    const MulticastPart mine = is_left ? left : right;
    const Index each = where.size / mine.blocks;
    const Range share{where.begin + mine.rank * each, each};
    counter.load({&view, sizeof(typename Tile::type), where, k, share, this->batch, is_left});
  }
};

struct MultiplyCounter : OnlyMultiplies<ItemPosition> {
  TrafficCounter& counter;
  template <int m, int n, int warpgroups_per_tile, class Sum, class A, class B>
  void mma(Accumulator<m, n, warpgroups_per_tile, Sum>& acc, const A& a, Transposed<B> b) const {
    static_assert(A::rows == m && B::rows == n && A::cols == B::cols, "mma: [m, k] x [n, k] transposed -> [m, n]");
    counter.count_multiply(a.parts, a.part_count, b.tile.parts, b.tile.part_count);
    acc.is_written = true;
  }
  template <class State> void wait_for_product(State&) const {}
  template <class State, class F> void map(State&, F) const {}
};

struct StoreCounter : OnlyStores<ItemPosition> {
  TrafficCounter& counter;
  template <class Sums, class F> MappedSums<Sums, F> map(const Sums& sums, F f) const { return {sums, f}; }
  template <class Sums, class F> FoldedColumns<Sums, F> fold(const Sums& sums, F f) const { return {sums, f}; }
  template <class T, int m, int n, class Sums>
  void store(const OutputView<T, m, n>& view, const Sums& sums, Row row, Col col) const {
    static_assert(Sums::rows == m && Sums::cols == n, "store: the output's tile has the shape of what is stored");
    const Index high = size_inside(row, view.rows), wide = size_inside(col, view.cols);
    if constexpr (requires { requires stores_full_tiles<decltype(sums.f)>; }) {
      for (const EpilogueInput& x : sums.f.operands()) counter.count_column_read(x, high, wide, col.begin);
      for (const EpilogueInput& x : sums.f.results()) counter.store(&x, bytes_of(x.format), high, wide);
      return;
    }
    const Epilogue& f = view.target.epilogue;
    for (const EpilogueInput* x : {&f.scale, &f.bias, &f.gate, &f.addend}) counter.count_read(*x, high, wide);
    counter.store(&view, sizeof(T), high, wide);
  }
};

// Schedule of persistent blocks that take full tiles. All blocks advance stage by stage together, which is the order in
// which the cache sees their loads.
struct TileSchedule {
  TileShape tile_shape;
  ProductShape sizes;
  int blocks = 1;  // a multiple of the cluster
  RegisterBlock registers{};
  Index cache_bytes = 0;        // size of the cache between the blocks and memory; 0 if there is none
  const int* starts = nullptr;  // first rows of the groups of a grouped product, which has no clusters
};

template <class Kernel, class Scheduler> class BlockTrafficCount {
 public:
  BlockTrafficCount(const typename Kernel::Globals& globals, const TileSchedule& s)
      : globals_(globals), s_(s), counter_(s.registers, Retention::no, Retention::no, s.cache_bytes) {}

  TrafficCounts operator()() {
    std::vector<BlockState> blocks;
    for (int b = 0; b < s_.blocks; ++b) blocks.push_back({scheduler(b), b % s_.tile_shape.cluster()});
    for (BlockState& b : blocks) b.busy = take_item(b);
    for (bool any = true; any;) {
      any = false;
      for (BlockState& b : blocks)
        if (b.busy) {
          any = true;
          advance_block(b);
        }
    }
    return counter_.counts;
  }

 private:
  static constexpr bool grouped = std::is_same_v<Scheduler, GroupedScheduler>;
  struct BlockState {
    Scheduler scheduler;
    int rank = 0;
    WorkItem item{};
    int stage = 0;
    bool busy = false;
    typename Kernel::State state{};
  };

  Scheduler scheduler(int block) const {
    if constexpr (grouped)
      return {s_.tile_shape, s_.sizes, {s_.starts}, s_.blocks, block};
    else
      return {s_.tile_shape, s_.sizes, s_.blocks, block, block % s_.tile_shape.cluster()};
  }

  bool take_item(BlockState& b) {
    if (!b.scheduler.next(b.item)) return false;
    b.stage = b.item.first_stage;
    b.state = {};
    ++counter_.counts.items;
    return true;
  }

  ItemPosition item_position(const BlockState& b) const {
    return {{{b.item.m0, s_.tile_shape.m}}, {{b.item.n0, s_.tile_shape.n}}, b.item.batch};
  }
  // Returns the position of the stored rows, which end with their group.
  ItemPosition stored_position(const BlockState& b) const {
    ItemPosition at = item_position(b);
    if (grouped && at.row_range.end() > b.item.row_end) at.row_range.size = b.item.row_end - b.item.m0;
    return at;
  }

  // Blocks along n of a cluster share a tile of A, those along m a tile of B.
  LoadCounter make_load_counter(const BlockState& b) {
    const TileShape& c = s_.tile_shape;
    return {item_position(b), counter_, {c.cluster_n, b.rank / c.cluster_m}, {c.cluster_m, b.rank % c.cluster_m}};
  }

  void advance_block(BlockState& b) {
    if (b.stage < b.item.end_stage) {
      typename Kernel::Stage tiles;
      LoadCounter load = make_load_counter(b);
      Kernel::load(load, tiles, globals_, Range{Index{b.stage} * s_.tile_shape.k, s_.tile_shape.k});
      MultiplyCounter multiply{item_position(b), counter_};
      Kernel::compute(multiply, b.state, tiles);
      ++counter_.counts.stages;
      ++b.stage;
    }
    if (b.stage < b.item.end_stage) return;
    finish_item(b);
    b.busy = take_item(b);
  }

  void finish_item(BlockState& b) {
    const int splits = b.item.splits;
    if (splits > 1 && s_.sizes.split_mode != SplitMode::cluster_split_k) {
      const Index bytes = Index{s_.tile_shape.m} * s_.tile_shape.n * sizeof(typename Kernel::State::Sum);
      counter_.counts.partial_written_bytes += bytes;
      if (b.item.split + 1 < splits) return;
      counter_.counts.partial_read_bytes += bytes * splits;
    } else if (b.item.split + 1 < splits) {
      return;  // each block stores a slice of the tile: the full tile is counted once
    }
    StoreCounter store{stored_position(b), counter_};
    Kernel::store(store, globals_, b.state);
  }

  const typename Kernel::Globals& globals_;
  TileSchedule s_;
  TrafficCounter counter_;
};

// Schedule of the CPU target. Its loops, from the outermost: groups of rows, column blocks, stages, row blocks. A
// packed panel of A is kept for its group of rows, a packed stage of B until the next stage overwrites it.
struct CpuTileSchedule {
  cpu::CpuSchedule schedule;
  cpu::MatmulSizes problem;
  Index row_granularity = 1, k_granularity = 32, col_granularity = 1;  // ranges of m, k, n are multiples of these
  RegisterBlock registers{};
};

template <class Kernel> class CpuTrafficCount {
 public:
  CpuTrafficCount(const typename Kernel::Globals& globals, const CpuTileSchedule& s)
      : globals_(globals),
        s_(s),
        counter_(s.registers, s.schedule.pack_left ? Retention::all : Retention::no,
                 s.schedule.pack_right ? Retention::newest : Retention::no, 0) {}

  TrafficCounts operator()() {
    for (Index i = 0; i < s_.problem.batch * s_.schedule.groups; ++i) {
      counter_.forget_tiles();
      count_row_group(i / s_.schedule.groups, cpu::split_range(s_.problem.size.m, s_.schedule.groups,
                                                               i % s_.schedule.groups, s_.row_granularity));
    }
    return counter_.counts;
  }

 private:
  void count_row_group(Index batch, Range rows) {
    const cpu::CpuSchedule& s = s_.schedule;
    for (Index c = 0; c < s.column_blocks; ++c) {
      const Col col{cpu::split_range(s_.problem.size.n, s.column_blocks, c, s_.col_granularity)};
      if (col.size == 0) continue;
      for (Index ks = 0; ks < s.stages; ++ks)
        for (Index i = 0; i < s.row_blocks; ++i) {
          const Range in_group = cpu::split_range(rows.size, s.row_blocks, i, s_.row_granularity);
          if (in_group.size > 0) count_item({{{rows.begin + in_group.begin, in_group.size}}, col, batch}, ks);
        }
    }
  }

  void count_item(const ItemPosition& position, Index stage) {
    typename Kernel::State state;
    state.is_written = stage > 0;
    if (s_.problem.size.k > 0) {
      typename Kernel::Stage tiles;
      LoadCounter load{position, counter_, {}, {}};
      Kernel::load(load, tiles, globals_,
                   cpu::split_range(s_.problem.size.k, s_.schedule.stages, stage, s_.k_granularity));
      MultiplyCounter multiply{position, counter_};
      Kernel::compute(multiply, state, tiles);
      ++counter_.counts.stages;
    }
    if (stage + 1 < s_.schedule.stages) return;
    ++counter_.counts.items;
    StoreCounter store{position, counter_};
    Kernel::store(store, globals_, state);
  }

  const typename Kernel::Globals& globals_;
  CpuTileSchedule s_;
  TrafficCounter counter_;
};

template <class Kernel>
TrafficCounts count_traffic_of(const typename Kernel::Globals& globals, const TileSchedule& schedule) {
  if (schedule.starts != nullptr) return BlockTrafficCount<Kernel, GroupedScheduler>(globals, schedule)();
  return BlockTrafficCount<Kernel, TileScheduler>(globals, schedule)();
}
template <class Kernel>
TrafficCounts count_traffic_of(const typename Kernel::Globals& globals, const CpuTileSchedule& schedule) {
  return CpuTrafficCount<Kernel>(globals, schedule)();
}

}  // namespace ridge::tile::trace

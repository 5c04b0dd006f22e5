// Runs a matmul kernel on this CPU. The kernel defines what a work item loads, multiplies and stores; this file assigns
// work items and stages to threads (schedule.h). Sums are in memory: in the output if the kernel stores them unchanged
// (`OperandScan` calls `store` once to find out), else in scratch.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ridge/base/float16.h"
#include "ridge/pool/arena.h"
#include "ridge/tile/cpu/worker.h"
#include "ridge/tile/role_checks.h"
#include "ridge/tile/sum_functions.h"

namespace ridge::tile::cpu {

struct CpuPosition {
  Row row_range;
  Col col_range;
  Row row() const { return row_range; }
  Col col() const { return col_range; }
};

// Each role has its own operations, so a multiply in `load` does not compile.
struct CpuLoader : CheckedLoads<CpuLoader, CpuPosition> {
  template <int first, int count, class Tile, class View, class Along>
  void load_rows(TileRows<first, count, Tile> part, const View& view, Along where, Range k) const {
    part.tile.parts[part.tile.part_count++] = {&view, where, k, first};
  }
};

struct CpuMultiplier : OnlyMultiplies<CpuPosition> {
  Worker& worker;
  Index width = 0;          // number of columns of the sums, over all matrices in the right tile
  Bf16* rounded = nullptr;  // if not null, the product completes the sums, which are rounded and stored here
  Index rounded_stride = 0;
  template <int m, int n, int groups, class Sum, class A, class B>
  void mma(Accumulator<m, n, groups, Sum>& acc, const A& a, Transposed<B> b) const {
    static_assert(A::rows == m && B::rows == n && A::cols == B::cols, "mma: [m, k] x [n, k] transposed -> [m, n]");
    static_assert(sizeof(Sum) == sizeof(Unit), "mma: sums are f32 or int32");
    Sum* sums = acc.sums;
    for (int i = 0; i < b.tile.part_count; ++i) {
      worker.multiply_operands({sums, acc.stride, acc.is_written, rounded, rounded_stride}, a.parts[0], b.tile.parts[i],
                               i);
      sums += b.tile.parts[i].rows.size;
    }
    acc.is_written = true;
  }
  template <class State> void wait_for_product(State&) const {}  // on a CPU mma returns when the product is finished
  template <int m, int n, int groups, class Sum, class F> void map(Accumulator<m, n, groups, Sum>& acc, F f) const {
    for (Index i = 0; i < row().size; ++i)
      for (Index j = 0; j < width; ++j) {
        Sum& x = acc.sums[i * acc.stride + j];
        x = f(x, row().begin + i, col().begin + j % col().size);
      }
  }
};

template <class To, class From> To convert_value(From x) {
  if constexpr (std::is_same_v<To, Bf16>) {
    return to_bf16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, F16>) {
    return to_f16(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

struct CpuStorer : OnlyStores<CpuPosition> {
  Index batch = 0;

  template <class Sums, class F> MappedSums<Sums, F> map(const Sums& sums, F f) const { return {sums, f}; }
  template <class Sums, class F> FoldedColumns<Sums, F> fold(const Sums& sums, F f) const { return {sums, f}; }

  template <int m, int n, int groups, class Sum>
  Sum value_at(const Accumulator<m, n, groups, Sum>& acc, Index i, Index j) const {
    return acc.sums[i * acc.stride + j];
  }
  template <class Sums, class F> auto value_at(const MappedSums<Sums, F>& x, Index i, Index j) const {
    return static_cast<typename Sums::Sum>(x.f(value_at(x.sums, i, j), row().begin + i, col().begin + j));
  }
  template <class Sums, class F> auto value_at(const FoldedColumns<Sums, F>& x, Index i, Index j) const {
    return static_cast<typename Sums::Sum>(
        x.f(value_at(x.sums, i, j), value_at(x.sums, i, j + col().size), row().begin + i, col().begin + j));
  }

  // Stores functions of sums in parts of a row, unless the function stores full tiles itself.
  template <class T, int m, int n, class Sums>
  void store(const OutputView<T, m, n>& view, const Sums& sums, Row rows, Col cols) const {
    static_assert(Sums::rows == m && Sums::cols == n, "store: the output's tile has the shape of what is stored");
    using Sum = typename Sums::Sum;
    if constexpr (stores_full_tiles<decltype(sums.f)>) {
      sums.f.tile({view.target.epilogue, sums.sums.sums, std::is_integral_v<Sum>, sums.sums.stride, view.data,
                   view.row_stride, view.col_stride, view.batch_stride, rows, cols, batch});
    } else {
      store_row_parts(view, sums, rows, cols);
    }
  }
  template <class T, int m, int n, class Sums>
  void store_row_parts(const OutputView<T, m, n>& view, const Sums& sums, Row rows, Col cols) const {
    using Sum = typename Sums::Sum;
    constexpr Index part_columns = 256;
    Sum buffer[part_columns];
    Accumulator<m, n, 1, Sum> part{buffer, part_columns, true};
    for (Index i = 0; i < rows.size; ++i)
      for (Index j = 0; j < cols.size; j += part_columns) {
        const Index wide = std::min(part_columns, cols.size - j);
        for (Index q = 0; q < wide; ++q) buffer[q] = value_at(sums, i, j + q);
        store(view, part, Row{{rows.begin + i, 1}}, Col{{cols.begin + j, wide}});
      }
  }
  template <class T, int m, int n, int groups, class Sum>
  void store(const OutputView<T, m, n>& view, const Accumulator<m, n, groups, Sum>& acc, Row row, Col col) const {
    if (const TargetOutput& o = view.target; o.write_tile != nullptr) {
      return o.write_tile({o.epilogue, acc.sums, std::is_integral_v<Sum>, acc.stride, view.data, view.row_stride,
                           view.col_stride, view.batch_stride, row, col, batch});
    }
    T* const out = view.data + batch * view.batch_stride + row.begin * view.row_stride + col.begin * view.col_stride;
    if (static_cast<const void*>(out) == acc.sums) return;
    for (Index i = 0; i < row.size; ++i) {
      const Sum* const from = acc.sums + i * acc.stride;
      T* const to = out + i * view.row_stride;
      if (view.col_stride == 1) {
        for (Index j = 0; j < col.size; ++j) to[j] = convert_value<T>(from[j]);
      } else {
        for (Index j = 0; j < col.size; ++j) to[j * view.col_stride] = convert_value<T>(from[j]);
      }
    }
  }
};

struct OperandScan : CpuPosition {  // records the operands that a kernel loads and the output that it stores
  const Matrix *left = nullptr, *right = nullptr;
  int left_bytes = 0, right_bytes = 0;  // bytes per element
  Index right_parts = 0;                // number of right matrices
  bool right_uniform = true;
  void* direct_output = nullptr;   // output that stores sums unchanged, or null
  Bf16* rounded_output = nullptr;  // output that stores sums rounded to bf16, or null
  Index row_stride = 0, batch_stride = 0;

  template <class Tile, class Along, bool is_constant>
  void load(Tile& tile, const GlobalView<Tile, Along, is_constant>& view, Along where, Range k) {
    load(rows<0, Tile::rows>(tile), view, where, k);
  }
  template <int first, int count, class Tile, class Box, class Along, bool is_constant>
  void load(TileRows<first, count, Tile>, const GlobalView<Box, Along, is_constant>& view, Along, Range) {
    if (std::is_same_v<Along, Col> && right != nullptr)
      right_uniform &=
          (right->col_stride == 1) == (view.col_stride == 1) && (right->row_stride == 1) == (view.row_stride == 1);
    (std::is_same_v<Along, Row> ? left : right) = &view;
    (std::is_same_v<Along, Row> ? left_bytes : right_bytes) = sizeof(typename Tile::type);
    right_parts += std::is_same_v<Along, Col>;
  }
  template <class Sums, class F> MappedSums<Sums, F> map(const Sums& sums, F f) { return {sums, f}; }
  template <class Sums, class F> FoldedColumns<Sums, F> fold(const Sums& sums, F f) { return {sums, f}; }
  template <class T, int m, int n, class Sums> void store(const OutputView<T, m, n>&, const Sums&, Row, Col) {}
  template <class T, int m, int n, int groups, class Sum>
  void store(const OutputView<T, m, n>& view, const Accumulator<m, n, groups, Sum>&, Row, Col) {
    if (!std::is_same_v<T, Sum> || view.col_stride != 1) return;
    if (view.target.only_rounds_to_bf16)
      rounded_output = reinterpret_cast<Bf16*>(view.data);
    else if (view.target.write_tile == nullptr)
      direct_output = view.data;
    row_stride = view.row_stride;
    batch_stride = view.batch_stride;
  }
};

template <class Kernel> class MatmulRun {
 public:
  using Globals = typename Kernel::Globals;
  using State = typename Kernel::State;
  using Sum = typename State::Sum;
  static constexpr auto config = Kernel::config;

  MatmulRun(const Globals& globals, const MatmulSizes& problem, const Engine& engine, int threads)
      : globals_(globals), problem_(problem), threads_(threads) {
    typename Kernel::Stage stage;
    Kernel::load(scan_, stage, globals_, Range{});
    Kernel::store(scan_, globals_, State{});
    const Engine& chosen = choose_engine(problem_, engine, *scan_.right, scan_.right_uniform);
    operands_ = {&chosen,     scan_.left_bytes,  scan_.right_bytes,  scan_.left,
                 scan_.right, scan_.right_parts, scan_.right_uniform};
    schedule_ = choose_schedule(problem_, operands_, {config.m, output_columns<Kernel>(), config.k}, threads);
  }

  void operator()() {
    const Index items = problem_.batch * schedule_.groups;
    std::atomic<Index> next{threads_};
    if (schedule_.shares_groups) {
      for (Index i = 0; i < items; ++i) {
        next = threads_;
        Team team = make_team(i);
        pool::run_parallel(threads_, [&](int w) { run_group(team, next, w, threads_); });
      }
      return;
    }
    pool::run_parallel(threads_, [&](int w) {
      for (Index i = w; i < items; i = next.fetch_add(1, std::memory_order_relaxed)) {
        std::atomic<Index> columns{1};
        Team team = make_team(i);
        run_group(team, columns, 0, 1);
      }
    });
  }

 private:
  Team make_team(Index item) const {
    const Range rows =
        split_range(problem_.size.m, schedule_.groups, item % schedule_.groups, operands_.engine->row_multiple);
    Team team{problem_, schedule_, operands_, item / schedule_.groups, rows};
    if (!schedule_.pack_left && !schedule_.skinny) return team;
    const Engine& e = *operands_.engine;
    const Index units = packed_units(e, problem_.size.k),
                panels = ceil_div(split_range(rows.size, schedule_.row_blocks, 0, e.row_multiple).size,
                                  schedule_.panel_rows);
    const Index flags = schedule_.row_blocks * panels * schedule_.stages;
    team.panels = panels;
    // Skinny products have k blocks of at least 512 units, and their rows may be padded to full tiles.
    const Index tails = (schedule_.skinny ? ceil_div(units, 512) : schedule_.stages) * e.left_tail;
    const Index packed_rows = schedule_.skinny && e.skinny_left_packers.along_k != nullptr
                                  ? ceil_div(rows.size, e.row_multiple) * e.row_multiple
                                  : rows.size;
    team.left =
        static_cast<Unit*>(pool::thread_arenas().left.ensure_size(sizeof(Unit) * (packed_rows * (units + tails) + 64)));
    team.packed_state = static_cast<std::atomic<unsigned char>*>(pool::thread_arenas().packed_flags.ensure_size(flags));
    for (Index i = 0; i < flags; ++i) new (&team.packed_state[i]) std::atomic<unsigned char>(0);
    return team;
  }

  Range row_block_range(const Team& team, Index block) const {
    return split_range(team.rows.size, schedule_.row_blocks, block, operands_.engine->row_multiple);
  }
  Range stage_range(Index stage) const {
    return split_range(problem_.size.k, schedule_.stages, stage, stage_multiple(*operands_.engine, *operands_.right));
  }
  Range column_range(Index block) const {
    return split_range(problem_.size.n, schedule_.column_blocks, block, operands_.engine->cols);
  }

  // Runs one worker of a group: for each of its column blocks, all stages of k, and in a stage all row blocks. A worker
  // starts with the same column block in every call, because its core's caches may still have the block's data, and
  // then takes the next free column block.
  void run_group(const Team& team, std::atomic<Index>& next, int worker_index, int workers) {
    Worker worker(team);
    for (Index i = 0; i < schedule_.row_blocks; ++i)
      worker.panels += ceil_div(row_block_range(team, i).size, schedule_.panel_rows);
    const CpuSchedule& s = schedule_;
    const Index first = worker_index * s.row_blocks / workers;  // workers start by packing different blocks of A
    for (Index c = worker_index; c < s.column_blocks; c = next.fetch_add(1, std::memory_order_relaxed)) {
      const Col col{column_range(c)};
      if (col.size == 0) continue;
      for (Index ks = 0; ks < s.stages; ++ks) {
        worker.stage = ks;
        worker.panels_remaining = worker.panels;
        set_next_operand(worker, c, ks, col, workers);
        for (Index i = 0; i < s.row_blocks; ++i) {
          worker.row_block = (first + i) % s.row_blocks;
          const bool last = i + 1 == s.row_blocks;
          const Index after_last = ks + 1 < s.stages ? first : -1;
          worker.next.row_block = last ? after_last : (first + i + 1) % s.row_blocks;
          worker.next.stage = last ? ks + 1 : ks;
          run_work_item(team, worker, col, ks);
        }
      }
    }
  }

  void set_next_operand(Worker& worker, Index column_block, Index stage, Col col, int workers) const {
    const bool same = stage + 1 < schedule_.stages;
    const Index next_column_block = column_block + workers;
    worker.next = {};
    const bool stages_of_panels = schedule_.pack_right || operands_.right->prepacked != nullptr;
    if (operands_.right->computed != nullptr || !stages_of_panels ||
        (!same && next_column_block >= schedule_.column_blocks))
      return;
    worker.next.right = operands_.right;
    worker.next.k = stage_range(same ? stage + 1 : 0);
    worker.next.columns = same ? Range(col) : column_range(next_column_block);
  }

  void run_work_item(const Team& team, Worker& worker, Col col, Index stage) {
    const Range in_group = row_block_range(team, worker.row_block);
    const CpuPosition position{{{team.rows.begin + in_group.begin, in_group.size}}, col};
    if (in_group.size == 0) return;
    State acc = make_accumulator(team, in_group, col);
    acc.is_written = stage > 0;
    if (problem_.size.k > 0) {
      typename Kernel::Stage tiles;
      CpuLoader loader{position};
      Kernel::load(loader, tiles, globals_, stage_range(stage));
      CpuMultiplier multiplier{position, worker, sums_width(col)};
      if (stage + 1 == schedule_.stages && rounds_in_block()) {
        multiplier.rounded = scan_.rounded_output + team.batch * scan_.batch_stride +
                             position.row_range.begin * scan_.row_stride + col.begin;
        multiplier.rounded_stride = scan_.row_stride;
      }
      Kernel::compute(multiplier, acc, tiles);
    } else {
      for (Index i = 0; i < in_group.size; ++i) std::fill_n(acc.sums + i * acc.stride, sums_width(col), Sum{});
    }
    worker.panels_remaining -= ceil_div(in_group.size, schedule_.panel_rows);
    if (stage + 1 < schedule_.stages || (problem_.size.k > 0 && rounds_in_block())) return;
    CpuStorer storer{position, team.batch};
    Kernel::store(storer, globals_, acc);
  }

  // True if the register block rounds complete sums and stores them in the output.
  bool rounds_in_block() const {
    return scan_.rounded_output != nullptr && operands_.engine->rounds_to_bf16 && !schedule_.skinny;
  }

  Index sums_width(Col col) const { return col.size * scan_.right_parts; }

  State make_accumulator(const Team& team, Range in_group, Col col) const {
    State acc;
    if (scan_.direct_output != nullptr && !schedule_.scratch_sums) {
      acc.sums = static_cast<Sum*>(scan_.direct_output) + team.batch * scan_.batch_stride +
                 (team.rows.begin + in_group.begin) * scan_.row_stride + col.begin;
      acc.stride = scan_.row_stride;
      return acc;
    }
    const Index resident_rows = schedule_.stages > 1 ? team.rows.size : row_block_range(team, 0).size;
    acc.stride = ceil_div(sums_width(col), 16) * 16 + 16;  // keeps rows in different cache sets
    acc.sums = static_cast<Sum*>(pool::thread_arenas().sums.ensure_size(sizeof(Sum) * resident_rows * acc.stride));
    if (schedule_.stages > 1) acc.sums += in_group.begin * acc.stride;
    return acc;
  }

  const Globals& globals_;
  MatmulSizes problem_;
  int threads_;
  OperandScan scan_;
  MatmulOperands operands_;
  CpuSchedule schedule_;
};

template <class Kernel> void run_kernel(const typename Kernel::Globals& globals, const MatmulSizes& problem,
                                        const Engine& engine, int threads) {
  MatmulRun<Kernel>(globals, problem, engine, threads)();
}

}  // namespace ridge::tile::cpu

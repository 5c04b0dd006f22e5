// Runs a matmul kernel on this CPU. The kernel defines what a work item loads, multiplies and stores; this file decides
// the order of work items and stages and the thread of each (schedule.h). Sums are in memory: in the output itself if
// the kernel stores them unchanged (which `OperandScan` finds out by one call of `store`), else in scratch.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ridge/base/float16.h"
#include "ridge/pool/arena.h"
#include "ridge/tile/cpu/worker.h"
#include "ridge/tile/sums.h"
#include "ridge/tile/words.h"

namespace ridge::tile::cpu {

struct Position {
  Row row_range;
  Col col_range;
  Row row() const { return row_range; }
  Col col() const { return col_range; }
};

// Each role has its own operations, so a multiply in `load` does not compile.
struct Loader : OnlyLoads<Position> {
  template <class Tile, class Box, class Along, bool is_constant, class Where>
  void load(Tile& tile, const GlobalView<Box, Along, is_constant>& view, Where where, Range k) const {
    static_assert(std::is_same_v<Along, Where>,
                  "load: a view along rows is loaded at a row, one along columns at a column");
    load(rows<0, Tile::rows>(tile), view, where, k);
  }
  template <int first, int count, class Tile, class Box, class Along, bool is_constant>
  void load(Part<first, count, Tile> part, const GlobalView<Box, Along, is_constant>& view, Along where,
            Range k) const {
    static_assert(Box::rows == count && Box::cols == Tile::cols,
                  "load: a view must have the shape of the tile, or of the rows of it that are loaded");
    part.tile.parts[part.tile.count++] = {&view, where, k, first};
  }
};

struct Multiplier : OnlyMultiplies<Position> {
  Worker& worker;
  Index width = 0;  // columns of the sums, over all parts of the right tile
  template <int m, int n, int sharers, class Sum, class A, class B>
  void mma(Accumulator<m, n, sharers, Sum>& acc, const A& a, Transposed<B> b) const {
    static_assert(A::rows == m && B::rows == n && A::cols == B::cols, "mma: [m, k] x [n, k] transposed -> [m, n]");
    static_assert(sizeof(Sum) == sizeof(Unit), "mma: sums are f32 or int32");
    Sum* sums = acc.sums;
    for (int i = 0; i < b.tile.count; ++i) {
      worker.multiply({sums, acc.stride, acc.live}, a.parts[0], b.tile.parts[i], i);
      sums += b.tile.parts[i].along.size;
    }
    acc.live = true;
  }
  template <class State> void settle(State&) const {}  // on a CPU mma returns after the product
  template <int m, int n, int sharers, class Sum, class F> void map(Accumulator<m, n, sharers, Sum>& acc, F f) const {
    for (Index i = 0; i < row().size; ++i)
      for (Index j = 0; j < width; ++j) {
        Sum& x = acc.sums[i * acc.stride + j];
        x = f(x, row().begin + i, col().begin + j % col().size);
      }
  }
};

template <class To, class From> To converted(From x) {
  if constexpr (std::is_same_v<To, Bf16>) {
    return to_bf16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, F16>) {
    return to_f16(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

struct Storer : OnlyStores<Position> {
  Index batch = 0;

  template <class Sums, class F> Mapped<Sums, F> map(const Sums& sums, F f) const { return {sums, f}; }
  template <class Sums, class F> Folded<Sums, F> fold(const Sums& sums, F f) const { return {sums, f}; }

  template <int m, int n, int sharers, class Sum>
  Sum value(const Accumulator<m, n, sharers, Sum>& acc, Index i, Index j) const {
    return acc.sums[i * acc.stride + j];
  }
  template <class Sums, class F> auto value(const Mapped<Sums, F>& x, Index i, Index j) const {
    return static_cast<typename Sums::Sum>(x.f(value(x.of, i, j), row().begin + i, col().begin + j));
  }
  template <class Sums, class F> auto value(const Folded<Sums, F>& x, Index i, Index j) const {
    return static_cast<typename Sums::Sum>(
        x.f(value(x.of, i, j), value(x.of, i, j + col().size), row().begin + i, col().begin + j));
  }

  // Stores computed values in parts of a row, unless the function takes full tiles.
  template <class T, int m, int n, class Sums>
  void store(const OutputView<T, m, n>& view, const Sums& sums, Row rows, Col cols) const {
    static_assert(Sums::rows == m && Sums::cols == n, "store: the output's tile has the shape of what is stored");
    using Sum = typename Sums::Sum;
    if constexpr (takes_tiles<decltype(sums.f)>) {
      sums.f.tile({view.on_target.finish, sums.of.sums, std::is_integral_v<Sum>, sums.of.stride, view.data,
                   view.row_stride, view.col_stride, view.batch_stride, rows, cols, batch});
    } else {
      in_stretches(view, sums, rows, cols);
    }
  }
  template <class T, int m, int n, class Sums>
  void in_stretches(const OutputView<T, m, n>& view, const Sums& sums, Row rows, Col cols) const {
    using Sum = typename Sums::Sum;
    constexpr Index stretch = 256;
    Sum held[stretch];
    Accumulator<m, n, 1, Sum> part{held, stretch, true};
    for (Index i = 0; i < rows.size; ++i)
      for (Index j = 0; j < cols.size; j += stretch) {
        const Index wide = std::min(stretch, cols.size - j);
        for (Index q = 0; q < wide; ++q) held[q] = value(sums, i, j + q);
        store(view, part, Row{{rows.begin + i, 1}}, Col{{cols.begin + j, wide}});
      }
  }
  template <class T, int m, int n, int sharers, class Sum>
  void store(const OutputView<T, m, n>& view, const Accumulator<m, n, sharers, Sum>& acc, Row row, Col col) const {
    if (const OutputOnTarget& o = view.on_target; o.write != nullptr) {
      return o.write({o.finish, acc.sums, std::is_integral_v<Sum>, acc.stride, view.data, view.row_stride,
                      view.col_stride, view.batch_stride, row, col, batch});
    }
    T* const out = view.data + batch * view.batch_stride + row.begin * view.row_stride + col.begin * view.col_stride;
    if (static_cast<const void*>(out) == acc.sums) return;
    for (Index i = 0; i < row.size; ++i) {
      const Sum* const from = acc.sums + i * acc.stride;
      T* const to = out + i * view.row_stride;
      if (view.col_stride == 1) {
        for (Index j = 0; j < col.size; ++j) to[j] = converted<T>(from[j]);
      } else {
        for (Index j = 0; j < col.size; ++j) to[j * view.col_stride] = converted<T>(from[j]);
      }
    }
  }
};

struct Survey : Position {  // records what a kernel loads and stores
  const Matrix *left = nullptr, *right = nullptr;
  int left_bytes = 0, right_bytes = 0;  // bytes per element
  Index right_parts = 0;                // matrices in the tile along columns
  bool right_alike = true;
  void* plain_output = nullptr;  // output that stores sums unchanged, or null
  Index row_stride = 0, batch_stride = 0;

  template <class Tile, class Along, bool is_constant>
  void load(Tile& tile, const GlobalView<Tile, Along, is_constant>& view, Along where, Range k) {
    load(rows<0, Tile::rows>(tile), view, where, k);
  }
  template <int first, int count, class Tile, class Box, class Along, bool is_constant>
  void load(Part<first, count, Tile>, const GlobalView<Box, Along, is_constant>& view, Along, Range) {
    if (std::is_same_v<Along, Col> && right != nullptr)
      right_alike &=
          (right->col_stride == 1) == (view.col_stride == 1) && (right->row_stride == 1) == (view.row_stride == 1);
    (std::is_same_v<Along, Row> ? left : right) = &view;
    (std::is_same_v<Along, Row> ? left_bytes : right_bytes) = sizeof(typename Tile::type);
    right_parts += std::is_same_v<Along, Col>;
  }
  template <class Sums, class F> Mapped<Sums, F> map(const Sums& sums, F f) { return {sums, f}; }
  template <class Sums, class F> Folded<Sums, F> fold(const Sums& sums, F f) { return {sums, f}; }
  template <class T, int m, int n, class Sums> void store(const OutputView<T, m, n>&, const Sums&, Row, Col) {}
  template <class T, int m, int n, int sharers, class Sum>
  void store(const OutputView<T, m, n>& view, const Accumulator<m, n, sharers, Sum>&, Row, Col) {
    if (!std::is_same_v<T, Sum> || view.col_stride != 1 || view.on_target.write != nullptr) return;
    plain_output = view.data;
    row_stride = view.row_stride;
    batch_stride = view.batch_stride;
  }
};

template <class Kernel> class Run {
 public:
  using Globals = typename Kernel::Globals;
  using State = typename Kernel::State;
  using Sum = typename State::Sum;
  static constexpr auto config = Kernel::config;

  Run(const Globals& globals, const Problem& problem, const Engine& engine, int threads)
      : globals_(globals), problem_(problem), threads_(threads) {
    typename Kernel::Stage stage;
    Kernel::load(survey_, stage, globals_, Range{});
    Kernel::store(survey_, globals_, State{});
    const Engine& chosen = engine_for(problem_, engine, *survey_.right, survey_.right_alike);
    operands_ = {&chosen,       survey_.left_bytes,  survey_.right_bytes, survey_.left,
                 survey_.right, survey_.right_parts, survey_.right_alike};
    schedule_ = choose(problem_, operands_, {config.m, columns_of<Kernel>(), config.k}, threads);
  }

  void operator()() {
    const Index items = problem_.batch * schedule_.groups;
    std::atomic<Index> next{threads_};
    if (schedule_.team) {
      for (Index i = 0; i < items; ++i) {
        next = threads_;
        Team team = team_of(i);
        cpu::run(threads_, [&](int w) { group(team, next, w, threads_); });
      }
      return;
    }
    cpu::run(threads_, [&](int w) {
      for (Index i = w; i < items; i = next.fetch_add(1, std::memory_order_relaxed)) {
        std::atomic<Index> columns{1};
        Team team = team_of(i);
        group(team, columns, 0, 1);
      }
    });
  }

 private:
  Team team_of(Index item) const {
    const Range rows = part(problem_.m, schedule_.groups, item % schedule_.groups, operands_.engine->row_grain);
    Team team{problem_, schedule_, operands_, item / schedule_.groups, rows};
    if (!schedule_.pack_left && !schedule_.thin) return team;
    const Engine& e = *operands_.engine;
    const Index units = units_of(e, problem_.k),
                panels = ceil_div(part(rows.size, schedule_.row_blocks, 0, e.row_grain).size, schedule_.panel_rows);
    const Index flags = schedule_.row_blocks * panels * schedule_.stages;
    team.panels = panels;
    // k blocks of skinny products have at least 512 units; their rows may be padded to full tiles.
    const Index tails = (schedule_.thin ? ceil_div(units, 512) : schedule_.stages) * e.left_tail;
    const Index packed_rows =
        schedule_.thin && e.thin_left.along != nullptr ? ceil_div(rows.size, e.row_grain) * e.row_grain : rows.size;
    team.left = static_cast<Unit*>(arenas().left.need(sizeof(Unit) * (packed_rows * (units + tails) + 64)));
    team.done = static_cast<std::atomic<unsigned char>*>(arenas().packed_flags.need(flags));
    for (Index i = 0; i < flags; ++i) new (&team.done[i]) std::atomic<unsigned char>(0);
    return team;
  }

  Range rows_of(const Team& team, Index block) const {
    return part(team.rows.size, schedule_.row_blocks, block, operands_.engine->row_grain);
  }
  Range stage_range(Index stage) const { return part(problem_.k, schedule_.stages, stage, operands_.engine->k_grain); }
  Range column_range(Index block) const {
    return part(problem_.n, schedule_.column_blocks, block, operands_.engine->cols);
  }

  // Runs column blocks through all stages of k, and in a stage all row blocks of the group. A worker starts with the
  // same column block in every call, because its core's caches may still have it, and then takes the next free one.
  void group(const Team& team, std::atomic<Index>& next, int worker_index, int workers) {
    Worker worker(team);
    for (Index i = 0; i < schedule_.row_blocks; ++i)
      worker.panels += ceil_div(rows_of(team, i).size, schedule_.panel_rows);
    const Schedule& s = schedule_;
    const Index first = worker_index * s.row_blocks / workers;  // workers start by packing different blocks of A
    for (Index c = worker_index; c < s.column_blocks; c = next.fetch_add(1, std::memory_order_relaxed)) {
      const Col col{column_range(c)};
      if (col.size == 0) continue;
      for (Index ks = 0; ks < s.stages; ++ks) {
        worker.stage = ks;
        worker.panels_left = worker.panels;
        announce(worker, c, ks, col, workers);
        for (Index i = 0; i < s.row_blocks; ++i) {
          worker.row_block = (first + i) % s.row_blocks;
          const bool last = i + 1 == s.row_blocks;
          const Index after_last = ks + 1 < s.stages ? first : -1;
          worker.next.row_block = last ? after_last : (first + i + 1) % s.row_blocks;
          worker.next.stage = last ? ks + 1 : ks;
          item(team, worker, col, ks);
        }
      }
    }
  }

  void announce(Worker& worker, Index column_block, Index stage, Col col, int workers) const {
    const bool same = stage + 1 < schedule_.stages;
    const Index following = column_block + workers;
    worker.next = {};
    const bool stages_of_panels = schedule_.pack_right || operands_.right->prepacked != nullptr;
    if (!stages_of_panels || (!same && following >= schedule_.column_blocks)) return;
    worker.next.right = operands_.right;
    worker.next.k = stage_range(same ? stage + 1 : 0);
    worker.next.columns = same ? Range(col) : column_range(following);
  }

  void item(const Team& team, Worker& worker, Col col, Index stage) {
    const Range in_group = rows_of(team, worker.row_block);
    const Position position{{{team.rows.begin + in_group.begin, in_group.size}}, col};
    if (in_group.size == 0) return;
    State acc = sums(team, in_group, col);
    acc.live = stage > 0;
    if (problem_.k > 0) {
      typename Kernel::Stage tiles;
      Loader loader{position};
      Kernel::load(loader, tiles, globals_, stage_range(stage));
      Multiplier multiplier{position, worker, width(col)};
      Kernel::compute(multiplier, acc, tiles);
    } else {
      for (Index i = 0; i < in_group.size; ++i) std::fill_n(acc.sums + i * acc.stride, width(col), Sum{});
    }
    worker.panels_left -= ceil_div(in_group.size, schedule_.panel_rows);
    if (stage + 1 < schedule_.stages) return;
    Storer storer{position, team.batch};
    Kernel::store(storer, globals_, acc);
  }

  Index width(Col col) const { return col.size * survey_.right_parts; }

  State sums(const Team& team, Range in_group, Col col) const {
    State acc;
    if (survey_.plain_output != nullptr && !schedule_.scratch) {
      acc.sums = static_cast<Sum*>(survey_.plain_output) + team.batch * survey_.batch_stride +
                 (team.rows.begin + in_group.begin) * survey_.row_stride + col.begin;
      acc.stride = survey_.row_stride;
      return acc;
    }
    const Index held = schedule_.stages > 1 ? team.rows.size : rows_of(team, 0).size;
    acc.stride = ceil_div(width(col), 16) * 16 + 16;  // keeps rows in different cache sets
    acc.sums = static_cast<Sum*>(arenas().sums.need(sizeof(Sum) * held * acc.stride));
    if (schedule_.stages > 1) acc.sums += in_group.begin * acc.stride;
    return acc;
  }

  const Globals& globals_;
  Problem problem_;
  int threads_;
  Survey survey_;
  Operands operands_;
  Schedule schedule_;
};

template <class Kernel>
void run_kernel(const typename Kernel::Globals& globals, const Problem& problem, const Engine& engine, int threads) {
  Run<Kernel>(globals, problem, engine, threads)();
}

}  // namespace ridge::tile::cpu

// What the roles of a text that takes steps may say on Hopper (tile/steps.h has the words): where they are, what they
// share, and what load, compute and store do.
#pragma once

#include "ridge/tile/ring.h"
#include "ridge/tile/sm90/ops.h"
#include "ridge/tile/sm90/registers.h"

namespace ridge::tile::sm90 {

struct StepProblem {
  StepOrder order;
  int* counters;           // of items taken, then of parts that each tile has; zero between launches
  float* parts = nullptr;  // room for the states of all items, where tiles have parts
};

struct BoxPlace {  // a box's corner: along the contiguous axis, across it, and the matrix
  int x, y, inner, outer;
};
TILE_FN void load_box(std::uint32_t to, const CUtensorMap* map, BoxPlace c, std::uint32_t bar) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
      "[%6];" ::"r"(to),
      "l"(map), "r"(c.x), "r"(c.y), "r"(c.inner), "r"(c.outer), "r"(bar)
      : "memory");
}
TILE_FN void store_box(const CUtensorMap* map, std::uint32_t from, BoxPlace c) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(map),
               "r"(c.x), "r"(c.y), "r"(c.inner), "r"(c.outer), "r"(from)
               : "memory");
}
TILE_FN BoxPlace corner(const Matrices& of, int matrix, int row, int col) {
  const int inner = static_cast<int>(of.inner);
  return {col, row, matrix % inner, matrix / inner};
}

template <class Kernel> struct StepShared {
  static constexpr auto config = Kernel::config;
  // A group's output leaves from where its own rows of what is held were. With two of these the next item's comes
  // meanwhile.
  typename Kernel::Held held[config.helds];
  typename Kernel::Stage stages[config.stages];
  std::uint64_t full[Kernel::rings][config.stages], empty[Kernel::rings][config.stages];
  std::uint64_t held_full[config.helds], held_empty[config.helds], item_full[2], item_empty[2];
  StepItem item[2];
  bool is_last_part;
  float never;
};
template <class Kernel>
inline constexpr int step_shared_bytes = sizeof(StepShared<Kernel>) + 1024;  // its base is aligned by hand
template <class Kernel> inline constexpr int step_threads = 128 * (Kernel::config.consumers + 1);

// Where a block has two groups their registers are full: tiles have no parts there.
template <class Kernel> inline constexpr bool has_parts = Kernel::config.consumers == 1;

struct StepPlace {
  StepItem item;
  int number = 0, count = 0;  // of the step, among all of these rows
  Span own;                   // those of the item
  TILE_FN int matrix() const { return item.matrix; }
  TILE_FN int row() const { return item.row; }
  TILE_FN int step() const { return number; }
  TILE_FN int steps() const { return count; }
  TILE_FN bool is_first() const { return number == own.begin; }
  TILE_FN bool is_last() const { return number == own.end; }

  template <class Kernel> TILE_FN void begin(const StepProblem& p, StepItem next, const typename Kernel::Globals& g) {
    item = next;
    if (!item.is_real) return;
    count = Kernel::steps(*this, g).count;
    own = {0, count};
    if constexpr (has_parts<Kernel>) own = p.order.steps_of(item.part, count);
  }
};

template <class Tile>
concept InARing = requires {
  Tile::ring;
};

// One thread.
template <class Kernel> struct StepProducer : StepPlace {
  StepShared<Kernel>& s;
  Ring<Kernel::config.stages> rings[Kernel::rings];
  Ring<Kernel::config.helds> held;

  TILE_FN explicit StepProducer(StepShared<Kernel>& shared) : s(shared) {}

  template <class Tile, class Box>
  TILE_FN void load(Tile& tile, const MatricesView<Box>& view, int matrix, int first_row) {
    static_assert(Tile::rows == Box::rows && Tile::cols == Box::cols && Tile::cols % atom == 0 && Tile::rows <= 256,
                  "load: a view is loaded into a tile of its own shape, of columns x64 and at most 256 rows");
    if constexpr (InARing<Tile>) {
      auto& ring = rings[Tile::ring];
      const std::uint32_t full = address(&s.full[Tile::ring][ring.slot]);
      wait(address(&s.empty[Tile::ring][ring.slot]), ring.phase ^ 1);
      boxes<Tile>(address(tile.data) + ring.slot * static_cast<int>(sizeof(typename Kernel::Stage)), view,
                  corner(view, matrix, first_row, 0), full);
      arrive(full);
      ring.advance();
    } else {
      boxes<Tile>(address(tile.data), view, corner(view, matrix, first_row, 0), address(&s.held_full[held.slot]));
    }
  }

 private:
  template <class Tile, class View>
  TILE_FN static void boxes(std::uint32_t to, const View& view, BoxPlace at, std::uint32_t full) {
    expect_bytes(full, Tile::rows * Tile::cols * 2);
#pragma unroll
    for (int j = 0; j < Tile::cols / atom; ++j)
      load_box(to + j * Tile::rows * 128, &view.on_target.map, {at.x + j * atom, at.y, at.inner, at.outer}, full);
  }
};

// A warpgroup: what lasts from step to step.
template <class Kernel> struct StepConsumer : StepPlace {
  static constexpr auto config = Kernel::config;
  StepShared<Kernel>& s;
  int id;  // of the group
  Ring<config.stages> rings[Kernel::rings];
  Ring<config.helds> held;
  int issued = 0;                   // products of this step
  int reading[Kernel::rings] = {};  // which of them reads a ring's tile, counted from 1; 0: none
  bool has_turn = false;
  float reduced = 0;  // by the last sum of a row

  TILE_FN StepConsumer(StepShared<Kernel>& shared, int number) : s(shared), id(number) {}

  TILE_FN bool leads() const { return threadIdx.x % 128 == 0; }
  TILE_FN void sync_group() const { sync_threads(1 + id, 128); }
  TILE_FN int first_row() const { return row() + id * 64; }

  TILE_FN void begin_step() {
    issued = 0;
    has_turn = false;
    reduced = 0;
  }
  TILE_FN void end_step() {  // what the text has not settled
    mma_wait<0>();
    settled(issued);
  }

  template <class Tile> TILE_FN std::uint32_t place_of(const Tile& tile) const {
    if constexpr (InARing<Tile>)
      return address(tile.data) + rings[Tile::ring].slot * static_cast<int>(sizeof(typename Kernel::Stage));
    else
      return address(tile.data);
  }
  template <class Tile> TILE_FN void await(const Tile&) {
    if constexpr (InARing<Tile>) {
      constexpr int r = Tile::ring;
      if (reading[r] == 0) wait(address(&s.full[r][rings[r].slot]), rings[r].phase);
      reading[r] = issued + 1;
    }
  }
  TILE_FN void wait_turn() {
    if (issued == 0) {
      sync_threads(8 + id, 256);
      has_turn = true;
    }
  }
  TILE_FN void pass_turn() {
    if (has_turn) arrive_threads(8 + (id + 1) % config.consumers, 256);
    has_turn = false;
  }
  TILE_FN void settled(int age) { settle_ring<0>(age); }
  template <int r> TILE_FN void settle_ring(int age) {
    if (reading[r] != 0 && reading[r] <= age) {
      if (leads()) arrive(address(&s.empty[r][rings[r].slot]));
      rings[r].advance();
      reading[r] = 0;
    }
    if constexpr (r + 1 < Kernel::rings) settle_ring<r + 1>(age);
  }
};

// What compute may say; compiled for the first step, those in the middle and the last.
template <class Kernel, bool first_, bool last_> struct StepCompute {
  static constexpr bool first = first_, last = last_;
  static constexpr auto config = Kernel::config;
  StepConsumer<Kernel>& on;

  TILE_FN int matrix() const { return on.matrix(); }
  TILE_FN int row() const { return on.row(); }
  TILE_FN int step() const { return on.step(); }
  TILE_FN int steps() const { return on.steps(); }
  // The rows of the item that these threads own.
  TILE_FN Range own_rows() const { return {on.first_row(), 64}; }

  template <int m, int n, int sharers, class A, class B>
  TILE_FN void mma(Accumulator<m, n, sharers>& sum, const A& a, Transposed<B> b) const {
    static_assert(A::rows == m && B::rows == n && A::cols == B::cols, "mma: [m, k] x [n, k] transposed -> [m, n]");
    static_assert(m == 64 * sharers, "mma: each group owns 64 rows");
    begin(b.tile);
    const std::uint64_t left = descriptor<Major::k>(on.place_of(a) + on.id * 64 * 128, 0);
    const std::uint64_t right = descriptor<Major::k>(on.place_of(b.tile), 0);
#pragma unroll
    for (int k = 0; k < A::cols / 16; ++k)
      mma_64<n, typename A::type, Major::k, Major::k>(sum.v, left + k / 4 * (m * 128 / 16) + k % 4 * 2,
                                                      right + k / 4 * (n * 128 / 16) + k % 4 * 2,
                                                      k == 0 ? static_cast<int>(sum.live) : 1);
    end(sum);
  }
  template <int m, int n, int k, int sharers, class T, class B>
  TILE_FN void mma(Accumulator<m, n, sharers>& sum, const Operands<m, k, sharers, T>& a, const B& b) const {
    static_assert(B::rows == k && B::cols == n, "mma: [m, k] x [k, n] -> [m, n]");
    begin(b);
    const std::uint64_t right = descriptor<Major::mn>(on.place_of(b), k * 128);
#pragma unroll
    for (int i = 0; i < k / 16; ++i)
      mma_64_held<n, T>(sum.v, a.v + 4 * i, right + i * (16 * 128 / 16), i == 0 ? static_cast<int>(sum.live) : 1);
    end(sum);
  }
  template <class Sum> TILE_FN void settle(const Sum& sum) const {
    if constexpr (config.turns && !last) on.pass_turn();
    // ptxas moves waits up, above work that is to run beside the products; it leaves them behind a store that depends
    // on that work.
    if (on.reduced < 0) *static_cast<volatile float*>(&on.s.never) = on.reduced;
    const int left = on.issued - sum.age;
    if (left == 0)
      mma_wait<0>();
    else if (left == 1)
      mma_wait<1>();
    else
      mma_wait<2>();
    on.settled(sum.age);
  }
  template <class X, class F, class... Others> TILE_FN void map(X& x, const F& f, Others&... others) const {
    sm90::map(x, f, others...);
  }
  template <class X, class F> TILE_FN void clip(X& x, const F& columns) const {
    sm90::clip(x, on.first_row(), columns);
  }
  template <class X, class F> TILE_FN bool any(const X& x, const F& f) const { return sm90::any(x, f); }
  template <class Row, class X> TILE_FN void reduce(Row& into, const X& x, Max by) const { sm90::reduce(into, x, by); }
  template <class Row, class X> TILE_FN void reduce(Row& into, const X& x, Add by, const Row& times) const {
    sm90::reduce(into, x, by, times);
    on.reduced = fminf(into.v[0], into.v[1]);
  }
  template <class To, class From> TILE_FN void copy(To& to, const From& from) const { sm90::copy(to, from); }

 private:
  template <class Tile> TILE_FN void begin(const Tile& tile) const {
    on.await(tile);
    if constexpr (config.turns && !last) on.wait_turn();
    mma_fence();
  }
  template <class Sum> TILE_FN void end(Sum& sum) const {
    mma_commit();
    sum.live = true;
    sum.age = ++on.issued;
  }
};

// What store may say.
template <class Kernel> struct StepStore {
  static constexpr auto config = Kernel::config;
  StepConsumer<Kernel>& on;

  TILE_FN int matrix() const { return on.matrix(); }
  TILE_FN int row() const { return on.row(); }
  template <class X, class F, class... Others> TILE_FN void map(X& x, const F& f, Others&... others) const {
    sm90::map(x, f, others...);
  }
  // A number a row.
  template <int m, int sharers>
  TILE_FN void store(const MatricesOut<float, m, 1>& view, Accumulator<m, 1, sharers>& x) const {
    join(x);
    if (view.data == nullptr || threadIdx.x % 4 != 0) return;
    const BoxPlace at = corner(view, on.matrix(), 0, 0);
    float* const to =
        static_cast<float*>(const_cast<void*>(view.data)) + at.outer * view.outer_stride + at.inner * view.inner_stride;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Index row = on.first_row() + row_of_thread() + 8 * r;
      if (row < view.rows) to[row * view.row_stride] = x.v[r];
    }
  }
  template <class T, int m, int n, int sharers>
  TILE_FN void store(const MatricesOut<T, m, n>& view, const Accumulator<m, n, sharers>& x) const {
    static_assert(n % atom == 0, "store: columns x64");
    const std::uint32_t out = address(&on.s.held[on.held.slot]) + on.id * 64 * 128;
    on.sync_group();
    const int lane = threadIdx.x % 32, r = threadIdx.x % 128 / 32 * 16 + lane % 8 + lane / 8 % 2 * 8;
#pragma unroll
    for (int c = 0; c < n / 16; ++c) {
      const float* const v = x.v + 8 * c;
      store_matrix4(out + c / 4 * (m * 128) + r * 128 + ((c % 4 * 2 + lane / 16) ^ r % 8) * 16, pack<T>(v[0], v[1]),
                    pack<T>(v[2], v[3]), pack<T>(v[4], v[5]), pack<T>(v[6], v[7]));
    }
    shared_writes_done();
    on.sync_group();
    if (!on.leads()) return;
    if (on.first_row() < view.rows) {
#pragma unroll
      for (int j = 0; j < n / atom; ++j)
        store_box(&view.on_target.map, out + j * m * 128, corner(view, on.matrix(), on.first_row(), j * atom));
    }
    store_commit();
  }
};

}  // namespace ridge::tile::sm90

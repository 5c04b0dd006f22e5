// Operations of kernels that run in steps on Hopper (tile/steps.h): the shared memory of a block, and the operations of
// load, compute and store.
#pragma once

#include "ridge/tile/sm90/ops.h"
#include "ridge/tile/sm90/registers.h"
#include "ridge/tile/step_ring.h"

namespace ridge::tile::sm90 {

struct StepProblem {
  StepOrder order;
  int* counters;           // number of items taken, then finished parts of each tile; zero between launches
  float* parts = nullptr;  // states of all items if the steps of a tile are divided into parts
};

struct BoxPlace {  // first element of a box: along the contiguous axis, along the other axis, and the matrix
  int x, y, inner, outer;
};
TILE_FN void load_box(std::uint32_t to, const CUtensorMap* map, BoxPlace c, std::uint32_t bar) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
      "[%6];" ::"r"(to),
      "l"(map), "r"(c.x), "r"(c.y), "r"(c.inner), "r"(c.outer), "r"(bar)
      : "memory");
}
struct RaggedPlace {  // the same for a tensor of five axes
  int x, line, row, inner, outer;
};
TILE_FN void load_box(std::uint32_t to, const CUtensorMap* map, RaggedPlace c, std::uint32_t bar) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, "
      "%6}], [%7];" ::"r"(to),
      "l"(map), "r"(c.x), "r"(c.line), "r"(c.row), "r"(c.inner), "r"(c.outer), "r"(bar)
      : "memory");
}
TILE_FN void store_box(const CUtensorMap* map, std::uint32_t from, RaggedPlace c) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(map),
      "r"(c.x), "r"(c.line), "r"(c.row), "r"(c.inner), "r"(c.outer), "r"(from)
      : "memory");
}
TILE_FN void load_bytes(std::uint32_t to, const void* from, int bytes, std::uint32_t bar) {  // multiples of 16
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(bar)
               : "memory");
}
TILE_FN void add_four(float* to, const float* x) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
               "f"(x[3])
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

// Returns the box origin in a matrix that has only `rows` of the view's rows. The copy engine clips a box only at the
// end of an axis, so row r has the index view.rows - rows + r on one axis of size view.rows, and the index `rows` on
// another axis, whose origin lies view.rows before.
template <class View> TILE_FN RaggedPlace ragged_corner(const View& of, int matrix, int row, int rows) {
  const int inner = static_cast<int>(of.inner), outer = matrix / inner, head = matrix % inner;
  if (!of.ends) return {0, 0, row, head, outer};
  const int clipped = static_cast<int>(of.rows) - rows + row;
  if (of.starts == nullptr) return {0, clipped, rows, head, outer};
  return {0, clipped, of.starts[outer] + rows, head, 0};
}
template <class T, int m, int n>
TILE_FN RaggedPlace corner(const RaggedOut<T, m, n>& of, int matrix, int row, int col) {
  RaggedPlace out = ragged_corner(of, matrix, row, rows_of(of, matrix));
  out.x = col;
  return out;
}
// A load of a ragged matrix: the matrix, the first row, and the number of rows that the matrix has.
struct RaggedRows {
  int matrix, row, rows;
};
template <class Tile> TILE_FN RaggedRows corner(const RaggedView<Tile>&, int matrix, int row, int rows) {
  return {matrix, row, rows};
}

// Requests for turns from a group to the thread that waits for them (`serve_turns`), so that no thread that multiplies
// waits for memory.
struct TurnAsked {
  int* counted = nullptr;  // counter of the adds to a tile; null ends the serving thread
  int before = 0;          // number of adds by other items that come first
};
template <int groups> struct TurnKeeping {
  TurnAsked wanted[groups];
  std::uint64_t asked[groups], come[groups], added[groups];
};
struct NoTurns {};

template <class Kernel> struct StepShared {
  static constexpr auto config = Kernel::config;
  // A group's output is staged over its own rows of the resident tiles. With two buffers the next item is loaded during
  // that.
  typename Kernel::Held held[config.helds];
  typename Kernel::Stage stages[config.stages];
  std::uint64_t full[Kernel::rings][config.stages], empty[Kernel::rings][config.stages];
  std::uint64_t held_full[config.helds], held_empty[config.helds], item_full[2], item_empty[2];
  StepItem item[2];
  bool is_last_part;
  float never;
  std::conditional_t<AddsInOrder<Kernel>, TurnKeeping<config.consumers>, NoTurns> turns;
};
template <class Kernel> inline constexpr int step_shared_bytes = sizeof(StepShared<Kernel>);
template <class Kernel> inline constexpr int step_threads = 128 * (Kernel::config.consumers + 1);

// Operations of the loading thread.
template <class Kernel> struct StepProducer : StepLoads<Kernel, StepProducer<Kernel>> {
  StepShared<Kernel>& s;
  const typename Kernel::Globals& g;
  const StepProblem& p;
  int next = static_cast<int>(blockIdx.x);  // number of the next item

  TILE_FN StepProducer(StepShared<Kernel>& shared, const typename Kernel::Globals& globals, const StepProblem& problem)
      : s(shared), g(globals), p(problem) {}

  TILE_FN void begin_item() {
    this->template begin<Kernel>(p.order, p.order.template item<has_parts<Kernel>>(next), g);
  }
  // Takes the next item. Each block gets one number past the end; the block with the last such number resets the
  // counter for the next launch.
  TILE_FN void next_item() {
    const int taken = atomicAdd(p.counters, 1);
    if (taken == p.order.items() - 1) *p.counters = 0;
    next = static_cast<int>(gridDim.x) + taken;
  }
  TILE_FN void wait_item_empty(int slot, int phase) { wait(address(&s.item_empty[slot]), phase); }
  TILE_FN void put_item(int slot) {
    s.item[slot] = this->item;
    arrive(address(&s.item_full[slot]));
  }
  TILE_FN void wait_held_empty(int slot, int phase) { wait(address(&s.held_empty[slot]), phase); }
  TILE_FN void hold(int slot) {
    Kernel::hold(*this, s.held[slot], g);
    arrive(address(&s.held_full[slot]));
  }
  TILE_FN void load_step() { Kernel::load(*this, s.stages[0], g); }

  TILE_FN void wait_empty(int r, int slot, int phase) { wait(address(&s.empty[r][slot]), phase); }
  TILE_FN void arrive_full(int r, int slot) { arrive(address(&s.full[r][slot])); }
  template <class Tile, class View>
  TILE_FN void fill(int r, int slot, Tile& tile, const View& view, int matrix, int first_row, int rows) {
    boxes<Tile>(address(tile.data) + slot * static_cast<int>(sizeof(typename Kernel::Stage)), view,
                corner(view, matrix, first_row, rows), address(&s.full[r][slot]));
  }
  template <class Tile, class View>
  TILE_FN void fill_held(int slot, Tile& tile, const View& view, int matrix, int first_row, int rows) {
    boxes<Tile>(address(tile.data), view, corner(view, matrix, first_row, rows), address(&s.held_full[slot]));
  }

 private:
  template <class Tile, class View>
  TILE_FN static void boxes(std::uint32_t to, const View& view, RaggedRows at, std::uint32_t full) {
    static_assert(Tile::cols % atom == 0 && Tile::rows <= 256, "load: columns x64 and at most 256 rows");
    if (view.pages != nullptr) return paged<Tile>(to, view, at, full);
    expect_bytes(full, view.lines * Tile::cols * 2);
    columns<Tile>(to, view, ragged_corner(view, at.matrix, at.row, at.rows), full);
  }
  template <class Tile, class View>
  TILE_FN static void columns(std::uint32_t to, const View& view, RaggedPlace at, std::uint32_t full) {
#pragma unroll
    for (int j = 0; j < Tile::cols / atom; ++j) {
      load_box(to + j * Tile::rows * 128, &view.on_target.map, at, full);
      at.x += atom;
    }
  }
  // Loads a tile page by page; a box is in one page. Boxes after the matrix's end read neither data nor the page table.
  template <class Tile, class View>
  TILE_FN static void paged(std::uint32_t to, const View& view, RaggedRows at, std::uint32_t full) {
    const int inner = static_cast<int>(view.inner), page_rows = static_cast<int>(view.rows);
    const int* const pages = view.pages + at.matrix / inner * view.pages_each;
    expect_bytes(full, Tile::rows * Tile::cols * 2);
    TILE_ROLLED
    for (int line = 0; line < Tile::rows; line += view.lines) {
      const int row = at.row + line, page = row / page_rows, left = at.rows - page * page_rows;
      const int rows = left < 0 ? 0 : left < page_rows ? left : page_rows;
      const int number = rows > 0 ? pages[page] : 0;
      columns<Tile>(to + line * 128, view,
                    {0, page_rows - rows + row - page * page_rows, rows, at.matrix % inner, number}, full);
    }
  }
  template <class Tile, class View>
  TILE_FN static void boxes(std::uint32_t to, const View& view, BoxPlace at, std::uint32_t full) {
    if constexpr (std::is_same_v<typename Tile::type, float>)
      return numbers<Tile>(to, view, at, full);
    else
      tiles<Tile>(to, view, at, full);
  }
  template <class Tile>
  TILE_FN static void numbers(std::uint32_t to, const Matrices& view, BoxPlace at, std::uint32_t full) {
    constexpr int bytes = Tile::rows * Tile::cols * 4;
    expect_bytes(full, bytes);
    load_bytes(to,
               static_cast<const float*>(view.data) + at.outer * view.outer_stride + at.inner * view.inner_stride +
                   at.y * view.row_stride,
               bytes, full);
  }
  template <class Tile, class View>
  TILE_FN static void tiles(std::uint32_t to, const View& view, BoxPlace at, std::uint32_t full) {
    static_assert(Tile::cols % atom == 0 && Tile::rows <= 256, "load: columns x64 and at most 256 rows");
    expect_bytes(full, Tile::rows * Tile::cols * 2);
#pragma unroll
    for (int j = 0; j < Tile::cols / atom; ++j)
      load_box(to + j * Tile::rows * 128, &view.on_target.map, BoxPlace{at.x + j * atom, at.y, at.inner, at.outer},
               full);
  }
};

// Writes a group's left operand of 64 rows, transposed, to 64 columns of a tile of `rows` rows.
template <int rows> TILE_FN void copy_transposed(std::uint32_t to, const std::uint32_t* v) {
  static_assert(rows % 16 == 0, "copy: rows x16");
  const int lane = threadIdx.x % 32, unit = threadIdx.x % 128 / 32 * 2 + lane / 8 % 2, r = lane / 16 * 8 + lane % 8;
#pragma unroll
  for (int c = 0; c < rows / 16; ++c)
    store_matrix4_transposed(to + (c * 16 + r) * 128 + (unit ^ r % 8) * 16, v[4 * c], v[4 * c + 1], v[4 * c + 2],
                             v[4 * c + 3]);
}

// Writes a group's left operand to 64 rows and `width` columns of a tile of `rows` rows.
template <int rows, int width>
TILE_FN void copy_rows(std::uint32_t to, int first_row, int first_col, const std::uint32_t* v) {
  static_assert(width % 16 == 0, "copy: columns x16");
  const int lane = threadIdx.x % 32, r = threadIdx.x % 128 / 32 * 16 + lane % 8 + lane / 8 % 2 * 8;
#pragma unroll
  for (int c = 0; c < width / 16; ++c) {
    const int block = first_col / 16 + c;
    store_matrix4(to + block / 4 * (rows * 128) + (first_row + r) * 128 + ((block % 4 * 2 + lane / 16) ^ r % 8) * 16,
                  v[4 * c], v[4 * c + 1], v[4 * c + 2], v[4 * c + 3]);
  }
}

template <class Kernel, bool first, bool last> struct StepCompute;

// Operations of a warpgroup.
template <class Kernel> struct StepConsumer : StepGroup<Kernel, StepConsumer<Kernel>> {
  using Group = StepGroup<Kernel, StepConsumer<Kernel>>;
  static constexpr auto config = Kernel::config;
  StepShared<Kernel>& s;
  const typename Kernel::Globals& g;
  const StepProblem& p;
  const typename Kernel::Held* held_now = nullptr;
  float reduced = 0;  // a result of the last row sum, for `keep_order`
  std::uint32_t turn_phase = 0;

  TILE_FN StepConsumer(StepShared<Kernel>& shared, const typename Kernel::Globals& globals, const StepProblem& problem,
                       int number)
      : Group(number), s(shared), g(globals), p(problem) {}

  TILE_FN bool leads() const { return threadIdx.x % 128 == 0; }
  TILE_FN void sync_group() const { sync_threads(1 + this->id, 128); }
  TILE_FN void take_item(int slot, int phase) {
    wait(address(&s.item_full[slot]), phase);
    this->template begin<Kernel>(p.order, s.item[slot], g);
  }
  TILE_FN void give_item(int slot) const {
    if (leads()) arrive(address(&s.item_empty[slot]));
  }
  TILE_FN void wait_held(int slot, int phase) {
    wait(address(&s.held_full[slot]), phase);
    held_now = &s.held[slot];
  }
  TILE_FN void give_held(int slot) const {
    if (!leads()) return;
    store_wait<0>();
    arrive(address(&s.held_empty[slot]));
  }
  TILE_FN void await_stores() const {  // a block must not end before its stores have read shared memory
    if (leads()) store_wait<0>();
  }
  template <bool first, bool last> TILE_FN void compute(typename Kernel::State& state);
  TILE_FN void store(typename Kernel::State& state);

  TILE_FN void wait_full(int r, int slot, int phase) const { wait(address(&s.full[r][slot]), phase); }
  TILE_FN void give_slot(int r, int slot) const {
    if (leads()) arrive(address(&s.empty[r][slot]));
  }
  TILE_FN void sync_groups(int meeting) const { sync_threads(8 + (this->id + 1) % 2 + 2 * meeting, 256); }
  TILE_FN void join_groups(int meeting) const { arrive_threads(8 + this->id + 2 * meeting, 256); }
  TILE_FN void ask_turn(int* counted, int before) {
    if (!leads()) return;
    s.turns.wanted[this->id] = {counted, before};
    arrive(address(&s.turns.asked[this->id]));
  }
  TILE_FN void await_turn() { wait(address(&s.turns.come[this->id]), turn_phase); }
  TILE_FN void pass_turn() {
    arrive(address(&s.turns.added[this->id]));
    turn_phase ^= 1;
  }
  TILE_FN void sync_turn(int of) const { sync_threads(8 + of, 256); }
  TILE_FN void join_turn(int of) const { arrive_threads(8 + of, 256); }
  TILE_FN void mma_fence() const { sm90::mma_fence(); }
  TILE_FN void mma_commit() const { sm90::mma_commit(); }
  template <int left> TILE_FN void mma_wait() const { sm90::mma_wait<left>(); }
  // Keeps ptxas from moving a wait for products above the work that should overlap them: it does not move the wait
  // above a volatile store that depends on that work. The store never happens, since a sum of exponentials is not
  // negative.
  TILE_FN void lean() const {
    if (reduced < 0) *static_cast<volatile float*>(&s.never) = reduced;
  }

  template <class Tile> TILE_FN std::uint32_t place_of(const Tile& tile) {
    if constexpr (InARing<Tile>)
      return address(tile.data) +
             this->template ring<Tile::ring>().slot * static_cast<int>(sizeof(typename Kernel::Stage));
    else
      return address(tile.data);
  }
};

// Operations of compute; compiled for the first step, the middle steps and the last.
template <class Kernel, bool first_, bool last_> struct StepCompute {
  static constexpr bool first = first_, last = last_;
  static constexpr auto config = Kernel::config;
  StepConsumer<Kernel>& on;

  TILE_FN int matrix() const { return on.matrix(); }
  TILE_FN int row() const { return on.row(); }
  TILE_FN int step() const { return on.step(); }
  TILE_FN int steps() const { return on.steps(); }
  TILE_FN int length() const { return on.length(); }
  TILE_FN int round() const { return on.round(); }
  TILE_FN int step_of_round() const { return on.step_of_round(); }
  // Returns the rows of the matrix that this group owns.
  TILE_FN Range own_rows() const { return {on.first_row(), 64}; }

  // Returns the first column of x that this group owns.
  template <class X> TILE_FN int own_column(const X&) const {
    return on.by_columns ? on.id * (X::cols / X::sharers) : 0;
  }

  template <class Sum, class A, class B> TILE_FN void mma(Sum& sum, const A& a, Transposed<B> b) const {
    multiply<false, true>(sum, a, b.tile);
  }
  template <class Sum, class A, class B> TILE_FN void mma(Sum& sum, const A& a, const B& b) const {
    multiply<false, false>(sum, a, b);
  }
  template <class Sum, class A, class B> TILE_FN void mma(Sum& sum, Transposed<A> a, Transposed<B> b) const {
    multiply<true, true>(sum, a.tile, b.tile);
  }
  template <class Sum, class A, class B> TILE_FN void mma(Sum& sum, Transposed<A> a, const B& b) const {
    multiply<true, false>(sum, a.tile, b);
  }
  template <int m, int n, int k, int sharers, class T, class B>
  TILE_FN void mma(Accumulator<m, n, sharers>& sum, const Operands<m, k, sharers, T>& a, const B& b) const {
    static_assert(B::rows == k && B::cols == n, "mma: [m, k] x [k, n] -> [m, n]");
    on.template begin_product<last>(b);
    const std::uint64_t right = descriptor<Major::mn>(on.place_of(b), k * 128);
#pragma unroll
    for (int i = 0; i < k / 16; ++i)
      mma_64_held<n, T>(sum.v, a.v + 4 * i, right + i * (16 * 128 / 16), i == 0 ? static_cast<int>(sum.live) : 1);
    on.end_product(sum);
  }
  template <class Sum> TILE_FN void settle(const Sum& sum) const { on.template settle<last>(sum); }
  TILE_FN void join() const {
    shared_writes_done();
    on.join_groups(on.template meeting<last>());
  }
  TILE_FN void meet() const { on.template meet<last>(); }
  // Returns the numbers of a tile from `first` on, for the columns of x that this group owns.
  template <class X, class Tile> TILE_FN Columns columns(const Tile& tile, int first, const X& x) const {
    on.begin_reading(tile);
    const char* const in_slot = reinterpret_cast<const char*>(tile.data) +
                                on.template ring<Tile::ring>().slot * static_cast<int>(sizeof(typename Kernel::Stage));
    return {reinterpret_cast<const float*>(in_slot) + first + own_column(x) + col_of_thread()};
  }
  // Adds x to tile `number` of a matrix in memory and clears x. Ordered adds need a call of `request_turn` before.
  template <class X> TILE_FN void add(const SumsInMemory& view, X& x, int matrix, int number) const {
    float* const to =
        view.data + static_cast<Index>(group_of<X>(view, matrix, number)) * (X::size * 128) + threadIdx.x % 128 * 4;
    if constexpr (AddsInOrder<Kernel>) on.await_turn();
#pragma unroll
    for (int i = 0; i < X::size / 4; ++i) add_four(to + i * 512, x.v + 4 * i);
    if constexpr (AddsInOrder<Kernel>) on.pass_turn();
    x.live = false;
  }
  // Requests a turn to add to a tile after `before` other adds.
  template <class X>
  TILE_FN void ask_turn(const SumsInMemory& view, const X&, int matrix, int number, int before) const {
    on.ask_turn(view.turns + group_of<X>(view, matrix, number), before);
  }
  template <class X, class F, class... Others> TILE_FN void map(X& x, const F& f, Others&... others) const {
    sm90::map(x, f, others...);
  }
  template <class X, class F> TILE_FN void clip(X& x, const F& columns) const {
    sm90::clip(x, on.first_row(), columns, -INFINITY);
  }
  template <class X, class F> TILE_FN void clip(X& x, const F& columns, float outside) const {
    sm90::clip(x, on.first_row(), columns, outside);
  }
  template <class X, class F> TILE_FN bool any(const X& x, const F& f) const { return sm90::any(x, f); }
  template <class Row, class X> TILE_FN void reduce(Row& into, const X& x, Max by) const { sm90::reduce(into, x, by); }
  template <class Row, class X> TILE_FN void reduce(Row& into, const X& x, Add by, const Row& times) const {
    sm90::reduce(into, x, by, times);
    on.reduced = fminf(into.v[0], into.v[1]);
  }
  template <class To, class From> TILE_FN void copy(To& to, const From& from) const { sm90::copy(to, from); }
  // Copies an operand to a tile whose rows are the operand's columns.
  template <class T, int rows, int cols, int sharers>
  TILE_FN void copy(const HeldTile<T, rows, cols>& to, Transposed<Operands<cols, rows, sharers, T>> from) const {
    copy_transposed<rows>(address(to.data) + on.id * rows * 128, from.tile.v);
  }
  // Copies an operand to a tile of the same orientation.
  template <class T, int rows, int cols, int sharers>
  TILE_FN void copy(const HeldTile<T, rows, cols>& to, const Operands<rows, cols, sharers, T>& from) const {
    constexpr int width = on.by_columns ? cols / sharers : cols;
    copy_rows<rows, width>(address(to.data), on.by_columns ? 0 : on.id * 64, on.by_columns ? on.id * width : 0, from.v);
  }

 private:
  template <class X> TILE_FN int group_of(const SumsInMemory& view, int matrix, int number) const {
    return (matrix * view.tiles + number) * X::sharers + on.id;
  }
  // Issues a product. A group owns 64 rows of the sums or, if all groups have the same 64 rows, a part of the columns.
  template <bool is_a_transposed, bool is_b_transposed, int m, int n, int sharers, class A, class B>
  TILE_FN void multiply(Accumulator<m, n, sharers>& sum, const A& a, const B& b) const {
    constexpr bool by_columns = m < 64 * sharers;
    static_assert(m == (by_columns ? 64 : 64 * sharers), "mma: each group owns 64 rows");
    constexpr int depth = is_a_transposed ? A::rows : A::cols, width = by_columns ? n / sharers : n;
    static_assert(
        (is_a_transposed ? A::cols : A::rows) == m && (is_b_transposed ? B::rows : B::cols) == n &&
            (is_b_transposed ? B::cols : B::rows) == depth,
        "mma: [m, k] x [k, n] -> [m, n]; the two sizes of a transposed operand are exchanged");
    constexpr Major of_a = is_a_transposed ? Major::mn : Major::k, of_b = is_b_transposed ? Major::k : Major::mn;
    on.template begin_product<last>(b);
    const int own_a = by_columns ? 0 : on.id * (is_a_transposed ? A::rows : 64);
    const int own_b = by_columns ? on.id * (is_b_transposed ? width : width / atom * B::rows) : 0;
    const std::uint64_t left = descriptor<of_a>(on.place_of(a) + own_a * 128, A::rows * 128);
    const std::uint64_t right = descriptor<of_b>(on.place_of(b) + own_b * 128, B::rows * 128);
#pragma unroll
    for (int k = 0; k < depth / 16; ++k) {
      const int in_a = is_a_transposed ? k * 128 : k / 4 * (A::rows * 8) + k % 4 * 2;
      const int in_b = is_b_transposed ? k / 4 * (B::rows * 8) + k % 4 * 2 : k * 128;
      mma_64<width, typename A::type, of_a, of_b>(sum.v, left + in_a, right + in_b,
                                                  k == 0 ? static_cast<int>(sum.live) : 1);
    }
    on.end_product(sum);
  }
};

// Returns the number of lines of an item that begins at `row`; `line_address` returns the address of a line.
template <class T, int m, int n> TILE_FN int lines_of(const RaggedOut<T, m, n>& view, int matrix, int row) {
  const int left = rows_of(view, matrix) - row;
  return min(left * view.group, m / view.group * view.group);
}
template <class T, int m, int n>
TILE_FN T* place_of_line(const RaggedOut<T, m, n>& view, int matrix, int row, int line) {
  const int inner = static_cast<int>(view.inner), outer = matrix / inner;
  const int start = view.starts == nullptr ? 0 : view.starts[outer];
  return static_cast<T*>(const_cast<void*>(view.data)) + outer * view.outer_stride +
         matrix % inner * view.inner_stride + (start + row + line / view.group) * view.row_stride +
         line % view.group * view.line_stride;
}

// Operations of store.
template <class Kernel> struct StepStore {
  static constexpr auto config = Kernel::config;
  StepConsumer<Kernel>& on;
  int left = 0;  // bytes of the outputs stored before this one

  TILE_FN int matrix() const { return on.matrix(); }
  TILE_FN int row() const { return on.row(); }
  template <class X, class F, class... Others> TILE_FN void map(X& x, const F& f, Others&... others) const {
    sm90::map(x, f, others...);
  }
  // Stores one number for each line of a ragged output.
  template <int m, int sharers> TILE_FN void store(const RaggedOut<float, m, 1>& view, Accumulator<m, 1, sharers>& x) {
    join(x);
    if (view.data == nullptr || threadIdx.x % 4 != 0) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int line = on.id * 64 + row_of_thread() + 8 * r;
      if (line < lines_of(view, on.matrix(), on.row())) *place_of_line(view, on.matrix(), on.row(), line) = x.v[r];
    }
  }
  // Stores one number for each row.
  template <int m, int sharers>
  TILE_FN void store(const MatricesOut<float, m, 1>& view, Accumulator<m, 1, sharers>& x) {
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
  TILE_FN void store(const MatricesOut<T, m, n>& view, const Accumulator<m, n, sharers>& x) {
    store_boxes(view, x);
  }
  template <class T, int m, int n, int sharers>
  TILE_FN void store(const RaggedOut<T, m, n>& view, const Accumulator<m, n, sharers>& x) {
    store_boxes(view, x);
  }

 private:
  template <class View> TILE_FN Index rows_here(const View& view) const {
    if constexpr (IsRagged<Kernel>)
      return rows_of(view, on.matrix());
    else
      return view.rows;
  }
  template <class View, int m, int n, int sharers>
  TILE_FN void store_boxes(const View& view, const Accumulator<m, n, sharers>& x) {
    using T = typename View::type;
    static_assert(n % atom == 0, "store: columns x64");
    constexpr int width = on.by_columns ? n / sharers : n;
    const int first_col = on.by_columns ? on.id * width : 0;
    const std::uint32_t out = address(&on.s.held[on.held.slot]) + left + (on.by_columns ? 0 : on.id * 64 * 128) +
                              first_col / atom * (m * 128);
    left += m * n * static_cast<int>(sizeof(T));
    on.sync_group();
    const int lane = threadIdx.x % 32, r = threadIdx.x % 128 / 32 * 16 + lane % 8 + lane / 8 % 2 * 8;
#pragma unroll
    for (int c = 0; c < width / 16; ++c) {
      const float* const v = x.v + 8 * c;
      store_matrix4(out + c / 4 * (m * 128) + r * 128 + ((c % 4 * 2 + lane / 16) ^ r % 8) * 16, pack<T>(v[0], v[1]),
                    pack<T>(v[2], v[3]), pack<T>(v[4], v[5]), pack<T>(v[6], v[7]));
    }
    shared_writes_done();
    on.sync_group();
    if (!on.leads()) return;
    if (on.first_row() < (IsRagged<Kernel> ? rows_here(view) : view.rows)) {
#pragma unroll
      for (int j = 0; j < width / atom; ++j)
        store_box(&view.on_target.map, out + j * m * 128,
                  corner(view, on.matrix(), on.first_row(), first_col + j * atom));
    }
    store_commit();
  }
};

}  // namespace ridge::tile::sm90

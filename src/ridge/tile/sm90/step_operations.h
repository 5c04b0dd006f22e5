// Operations of kernels that run in steps on Hopper (tile/steps.h): the shared memory of a block, and the operations of
// load, compute and store.
#pragma once

#include "ridge/tile/sm90/register_tiles.h"
#include "ridge/tile/sm90/tile_operations.h"
#include "ridge/tile/step_ring.h"

namespace ridge::tile::sm90 {

struct StepKernelArgs {
  ItemOrder order;
  int* counters;            // number of items taken, then finished parts of each tile; zero between launches
  float* states = nullptr;  // memory for the states of all items if the steps of a tile are divided into parts
};

struct BoxOrigin4d {  // position of a box: x along the contiguous axis, y along the other axis, and the matrix
  int x, y, inner, outer;
};
TILE_FN void load_box(std::uint32_t to, const CUtensorMap* map, BoxOrigin4d c, std::uint32_t bar) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
      "[%6];" ::"r"(to),
      "l"(map), "r"(c.x), "r"(c.y), "r"(c.inner), "r"(c.outer), "r"(bar)
      : "memory");
}
struct BoxOrigin5d {  // position of a box in a tensor of five axes
  int x, line, row, inner, outer;
};
TILE_FN void load_box(std::uint32_t to, const CUtensorMap* map, BoxOrigin5d c, std::uint32_t bar) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, "
      "%6}], [%7];" ::"r"(to),
      "l"(map), "r"(c.x), "r"(c.line), "r"(c.row), "r"(c.inner), "r"(c.outer), "r"(bar)
      : "memory");
}
TILE_FN void store_box(const CUtensorMap* map, std::uint32_t from, BoxOrigin5d c) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(map),
      "r"(c.x), "r"(c.line), "r"(c.row), "r"(c.inner), "r"(c.outer), "r"(from)
      : "memory");
}
TILE_FN void load_bytes(std::uint32_t to, const void* from, int bytes, std::uint32_t bar) {  // bytes: a multiple of 16
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(bar)
               : "memory");
}
TILE_FN void add_four_floats(float* to, const float* x) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
               "f"(x[3])
               : "memory");
}
TILE_FN void store_box(const CUtensorMap* map, std::uint32_t from, BoxOrigin4d c) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(map),
               "r"(c.x), "r"(c.y), "r"(c.inner), "r"(c.outer), "r"(from)
               : "memory");
}
TILE_FN BoxOrigin4d box_origin(const Matrices& of, int matrix, int row, int col) {
  const int inner = static_cast<int>(of.inner);
  return {col, row, matrix % inner, matrix / inner};
}

// Returns the box origin in a matrix that has only `rows` of the view's rows. The copy engine clips a box only at the
// end of an axis. So row r has the index view.rows - rows + r on an axis of size view.rows, and the index `rows` on
// another axis, whose origin is view.rows rows before the matrix.
template <class View> TILE_FN BoxOrigin5d ragged_box_origin(const View& of, int matrix, int row, int rows) {
  const int inner = static_cast<int>(of.inner), outer = matrix / inner, head = matrix % inner;
  if (!of.may_end_early) return {0, 0, row, head, outer};
  const int clipped = static_cast<int>(of.rows) - rows + row;
  if (of.starts == nullptr) return {0, clipped, rows, head, outer};
  return {0, clipped, of.starts[outer] + rows, head, 0};
}
template <class T, int m, int n>
TILE_FN BoxOrigin5d box_origin(const RaggedOut<T, m, n>& of, int matrix, int row, int col) {
  BoxOrigin5d out = ragged_box_origin(of, matrix, row, row_count(of, matrix));
  out.x = col;
  return out;
}
// A load from a ragged matrix: index of the matrix, first row to load, and number of rows of the matrix.
struct RaggedLoad {
  int matrix, row, rows;
};
// Zeros in global memory, for the rows after a matrix's end. The copy engine cannot make them: for a box outside its
// tensor it translates the address of the tensor's origin, which is before the matrix (`ragged_box_origin`) and, if no
// memory is there, an illegal access.
template <int bytes> __device__ uint4 zeros_in_memory[bytes / 16];
template <class Tile> TILE_FN RaggedLoad box_origin(const RaggedView<Tile>&, int matrix, int row, int rows) {
  return {matrix, row, rows};
}

// A request of a group that wants to add to a tile after other groups. A separate thread polls the counter in memory
// (`serve_turns`), so that no thread that multiplies does.
struct TurnRequest {
  int* add_count = nullptr;  // counter of the adds to the tile; null ends the serving thread
  int adds_before = 0;       // number of adds by other items that come first
};
template <int groups> struct TurnQueues {
  TurnRequest requests[groups];
  std::uint64_t requested[groups], granted[groups], finished[groups];  // mbarriers
};
struct NoTurns {};

template <class Kernel> struct StepSharedMemory {
  static constexpr auto config = Kernel::config;
  // A group's output overwrites its rows of the resident tiles. With two slots the next item is loaded meanwhile.
  typename Kernel::Resident resident[config.resident_slots];
  typename Kernel::Stage stages[config.stages];
  std::uint64_t full[Kernel::rings][config.stages], empty[Kernel::rings][config.stages];
  std::uint64_t resident_full[config.resident_slots], resident_empty[config.resident_slots], item_full[2],
      item_empty[2];
  StepItem item[2];
  bool is_last_part;  // true if this item finished last of its tile's parts
  float reordering_guard;
  std::conditional_t<AddsInOrder<Kernel>, TurnQueues<config.consumers>, NoTurns> turns;
};
template <class Kernel> inline constexpr int step_shared_bytes = sizeof(StepSharedMemory<Kernel>);
template <class Kernel> inline constexpr int step_threads = 128 * (Kernel::config.consumers + 1);

// Operations of the loading thread.
template <class Kernel> struct StepProducer : RingLoader<Kernel, StepProducer<Kernel>> {
  StepSharedMemory<Kernel>& s;
  const typename Kernel::Globals& g;
  const StepKernelArgs& p;
  int next = static_cast<int>(blockIdx.x);  // number of the next item

  TILE_FN StepProducer(StepSharedMemory<Kernel>& shared, const typename Kernel::Globals& globals,
                       const StepKernelArgs& problem)
      : s(shared), g(globals), p(problem) {}

  TILE_FN void begin_item() {
    this->template set_item<Kernel>(p.order, p.order.template item_at<can_divide_steps<Kernel>>(next), g);
  }
  // Takes the next item. Each block gets one number past the end; the block with the last such number resets the
  // counter for the next launch.
  TILE_FN void next_item() {
    const int taken = atomicAdd(p.counters, 1);
    if (taken == p.order.item_count() - 1) *p.counters = 0;
    next = static_cast<int>(gridDim.x) + taken;
  }
  TILE_FN void wait_item_empty(int slot, int phase) { wait_mbarrier(shared_address(&s.item_empty[slot]), phase); }
  TILE_FN void publish_item(int slot) {
    s.item[slot] = this->item;
    arrive_mbarrier(shared_address(&s.item_full[slot]));
  }
  TILE_FN void wait_resident_empty(int slot, int phase) {
    wait_mbarrier(shared_address(&s.resident_empty[slot]), phase);
  }
  TILE_FN void load_resident(int slot) {
    Kernel::load_resident(*this, s.resident[slot], g);
    arrive_mbarrier(shared_address(&s.resident_full[slot]));
  }
  TILE_FN void load_step() { Kernel::load(*this, s.stages[0], g); }

  TILE_FN void wait_empty(int r, int slot, int phase) { wait_mbarrier(shared_address(&s.empty[r][slot]), phase); }
  TILE_FN void arrive_full(int r, int slot) { arrive_mbarrier(shared_address(&s.full[r][slot])); }
  template <class Tile, class View>
  TILE_FN void fill(int r, int slot, Tile& tile, const View& view, int matrix, int first_row, int rows) {
    load_boxes<Tile>(shared_address(tile.data) + slot * static_cast<int>(sizeof(typename Kernel::Stage)), view,
                     box_origin(view, matrix, first_row, rows), shared_address(&s.full[r][slot]));
  }
  template <class Tile, class View>
  TILE_FN void fill_resident(int slot, Tile& tile, const View& view, int matrix, int first_row, int rows) {
    load_boxes<Tile>(shared_address(tile.data), view, box_origin(view, matrix, first_row, rows),
                     shared_address(&s.resident_full[slot]));
  }

 private:
  template <class Tile> static constexpr int swizzled = swizzle_elements<typename Tile::type>;
  template <class Tile> static constexpr bool is_swizzled = Tile::cols % swizzled<Tile> == 0;
  template <class Tile> static constexpr int row_bytes = Tile::cols* static_cast<int>(sizeof(typename Tile::type));
  template <class Tile, class View>
  TILE_FN static void load_boxes(std::uint32_t to, const View& view, RaggedLoad at, std::uint32_t full) {
    static_assert(is_swizzled<Tile> && Tile::rows <= 256, "load: columns x128 bytes and at most 256 rows");
    if (view.pages != nullptr) return load_pages<Tile>(to, view, at, full);
    expect_bytes(full, view.box_lines * row_bytes<Tile>);
    if (view.may_end_early && at.row >= at.rows) return load_zeros<Tile>(to, view.box_lines, full);
    load_columns<Tile>(to, view, ragged_box_origin(view, at.matrix, at.row, at.rows), full);
  }
  template <class Tile> TILE_FN static void load_zeros(std::uint32_t to, int lines, std::uint32_t full) {
#pragma unroll
    for (int j = 0; j < Tile::cols / swizzled<Tile>; ++j)
      load_bytes(to + j * Tile::rows * 128, zeros_in_memory<Tile::rows * 128>, lines * 128, full);
  }
  template <class Tile, class View>
  TILE_FN static void load_columns(std::uint32_t to, const View& view, BoxOrigin5d at, std::uint32_t full) {
#pragma unroll
    for (int j = 0; j < Tile::cols / swizzled<Tile>; ++j) {
      load_box(to + j * Tile::rows * 128, &view.target.map, at, full);
      at.x += swizzled<Tile>;
    }
  }
  // Loads a tile page by page; a box is in one page. Lines after the matrix's end read neither data nor the page table.
  template <class Tile, class View>
  TILE_FN static void load_pages(std::uint32_t to, const View& view, RaggedLoad at, std::uint32_t full) {
    const int inner = static_cast<int>(view.inner), page_rows = static_cast<int>(view.rows);
    const int* const pages = view.pages + at.matrix / inner * view.pages_per_matrix;
    expect_bytes(full, Tile::rows * row_bytes<Tile>);
    TILE_ROLLED
    for (int line = 0; line < Tile::rows; line += view.box_lines) {
      const int row = at.row + line, page = row / page_rows;
      if (row >= at.rows) {
        load_zeros<Tile>(to + line * 128, view.box_lines, full);
        continue;
      }
      const int left = at.rows - page * page_rows, rows = left < page_rows ? left : page_rows;
      load_columns<Tile>(to + line * 128, view,
                         {0, page_rows - rows + row - page * page_rows, rows, at.matrix % inner, pages[page]}, full);
    }
  }
  template <class Tile, class View>
  TILE_FN static void load_boxes(std::uint32_t to, const View& view, BoxOrigin4d at, std::uint32_t full) {
    if constexpr (std::is_same_v<typename Tile::type, float>)
      return load_floats<Tile>(to, view, at, full);
    else
      load_tiles<Tile>(to, view, at, full);
  }
  template <class Tile>
  TILE_FN static void load_floats(std::uint32_t to, const Matrices& view, BoxOrigin4d at, std::uint32_t full) {
    constexpr int bytes = Tile::rows * row_bytes<Tile>;
    expect_bytes(full, bytes);
    load_bytes(to,
               static_cast<const float*>(view.data) + at.outer * view.outer_stride + at.inner * view.inner_stride +
                   at.y * view.row_stride,
               bytes, full);
  }
  template <class Tile, class View>
  TILE_FN static void load_tiles(std::uint32_t to, const View& view, BoxOrigin4d at, std::uint32_t full) {
    static_assert(is_swizzled<Tile> && Tile::rows <= 256, "load: columns x128 bytes and at most 256 rows");
    expect_bytes(full, Tile::rows * row_bytes<Tile>);
#pragma unroll
    for (int j = 0; j < Tile::cols / swizzled<Tile>; ++j)
      load_box(to + j * Tile::rows * 128, &view.target.map,
               BoxOrigin4d{at.x + j * swizzled<Tile>, at.y, at.inner, at.outer}, full);
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

// Operations of a warpgroup that multiplies.
template <class Kernel> struct StepConsumer : StepWarpgroup<Kernel, StepConsumer<Kernel>> {
  using Group = StepWarpgroup<Kernel, StepConsumer<Kernel>>;
  static constexpr auto config = Kernel::config;
  StepSharedMemory<Kernel>& s;
  const typename Kernel::Globals& g;
  const StepKernelArgs& p;
  const typename Kernel::Resident* current_resident = nullptr;
  float last_row_sum = 0;  // number that depends on the last row sum, for `prevent_reordering`
  std::uint32_t turn_phase = 0;

  TILE_FN StepConsumer(StepSharedMemory<Kernel>& shared, const typename Kernel::Globals& globals,
                       const StepKernelArgs& problem, int number)
      : Group(number), s(shared), g(globals), p(problem) {}

  TILE_FN bool leads() const { return threadIdx.x % 128 == 0; }
  TILE_FN void sync_group() const { sync_threads(1 + this->id, 128); }
  TILE_FN void acquire_item(int slot, int phase) {
    wait_mbarrier(shared_address(&s.item_full[slot]), phase);
    this->template set_item<Kernel>(p.order, s.item[slot], g);
  }
  TILE_FN void release_item(int slot) const {
    if (leads()) arrive_mbarrier(shared_address(&s.item_empty[slot]));
  }
  TILE_FN void wait_for_resident(int slot, int phase) {
    wait_mbarrier(shared_address(&s.resident_full[slot]), phase);
    current_resident = &s.resident[slot];
  }
  TILE_FN void release_resident(int slot) const {
    if (!leads()) return;
    wait_for_store_reads<0>();
    arrive_mbarrier(shared_address(&s.resident_empty[slot]));
  }
  TILE_FN void wait_for_stores() const {  // a block must not end before its stores have read shared memory
    if (leads()) wait_for_store_reads<0>();
  }
  template <bool first, bool last> TILE_FN void compute(typename Kernel::State& state);
  TILE_FN void store(typename Kernel::State& state);

  TILE_FN void wait_full(int r, int slot, int phase) const { wait_mbarrier(shared_address(&s.full[r][slot]), phase); }
  TILE_FN void release_slot(int r, int slot) const {
    if (leads()) arrive_mbarrier(shared_address(&s.empty[r][slot]));
  }
  TILE_FN void sync_groups(int barrier) const { sync_threads(8 + (this->id + 1) % 2 + 2 * barrier, 256); }
  TILE_FN void arrive_groups(int barrier) const { arrive_threads(8 + this->id + 2 * barrier, 256); }
  TILE_FN void request_turn(int* add_count, int before) {
    if (!leads()) return;
    s.turns.requests[this->id] = {add_count, before};
    arrive_mbarrier(shared_address(&s.turns.requested[this->id]));
  }
  TILE_FN void wait_for_turn() { wait_mbarrier(shared_address(&s.turns.granted[this->id]), turn_phase); }
  TILE_FN void pass_turn() {
    arrive_mbarrier(shared_address(&s.turns.finished[this->id]));
    turn_phase ^= 1;
  }
  TILE_FN void sync_turn(int of) const { sync_threads(8 + of, 256); }
  TILE_FN void pass_turn_to(int of) const { arrive_threads(8 + of, 256); }
  TILE_FN void mma_fence() const { sm90::mma_fence(); }
  TILE_FN void mma_commit() const { sm90::mma_commit(); }
  template <int left> TILE_FN void mma_wait() const { sm90::mma_wait<left>(); }
  // Keeps ptxas from moving a wait for products above the work that should overlap the products: a wait is not moved
  // above a volatile store that depends on the work. The store never happens, since a sum of exponentials is not
  // negative.
  TILE_FN void prevent_reordering() const {
    if (last_row_sum < 0) *static_cast<volatile float*>(&s.reordering_guard) = last_row_sum;
  }

  template <class Tile> TILE_FN std::uint32_t tile_address(const Tile& tile) {
    if constexpr (IsRingTile<Tile>)
      return shared_address(tile.data) +
             this->template ring<Tile::ring>().slot * static_cast<int>(sizeof(typename Kernel::Stage));
    else
      return shared_address(tile.data);
  }
};

// Operations of a kernel's `compute`, compiled for the first step, the middle steps and the last step.
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
  // Returns the range of rows that this group owns.
  TILE_FN Range own_rows() const { return {on.first_row(), 64}; }

  // Returns the first column of x that this group owns.
  template <class X> TILE_FN int first_own_column(const X&) const {
    return on.splits_columns ? on.id * (X::cols / X::warpgroups_per_tile) : 0;
  }

  template <class Sum, class A, class B> TILE_FN void mma(Sum& sum, const A& a, Transposed<B> b) const {
    issue_products<false, true>(sum, a, b.tile);
  }
  template <class Sum, class A, class B> TILE_FN void mma(Sum& sum, const A& a, const B& b) const {
    issue_products<false, false>(sum, a, b);
  }
  template <class Sum, class A, class B> TILE_FN void mma(Sum& sum, Transposed<A> a, Transposed<B> b) const {
    issue_products<true, true>(sum, a.tile, b.tile);
  }
  template <class Sum, class A, class B> TILE_FN void mma(Sum& sum, Transposed<A> a, const B& b) const {
    issue_products<true, false>(sum, a.tile, b);
  }
  template <int m, int n, int k, int warpgroups_per_tile, class T, class B>
  TILE_FN void mma(Accumulator<m, n, warpgroups_per_tile>& sum, const RegisterOperand<m, k, warpgroups_per_tile, T>& a,
                   const B& b) const {
    static_assert(B::rows == k && B::cols == n, "mma: [m, k] x [k, n] -> [m, n]");
    on.template begin_product<last>(b);
    const std::uint64_t right = make_descriptor<Major::mn>(on.tile_address(b), k * 128);
#pragma unroll
    for (int i = 0; i < k / OperandType<T>::k; ++i)
      mma_64_registers<n, T>(sum.v, a.v + 4 * i, right + step_units<T, Major::mn>(i, k),
                             i == 0 ? static_cast<int>(sum.is_written) : 1);
    on.end_product(sum);
  }
  template <class Sum> TILE_FN void wait_for_product(const Sum& sum) const { on.template wait_for_product<last>(sum); }
  TILE_FN void arrive_at_barrier() const {
    fence_shared_proxy();
    on.arrive_groups(on.template barrier_number<last>());
  }
  TILE_FN void wait_at_barrier() const { on.template wait_at_barrier<last>(); }
  // Returns the numbers of a tile, beginning with number `first`, for the columns of x that this group owns.
  template <class X, class Tile> TILE_FN ColumnValues column_values(const Tile& tile, int first, const X& x) const {
    on.begin_reading(tile);
    const char* const in_slot = reinterpret_cast<const char*>(tile.data) +
                                on.template ring<Tile::ring>().slot * static_cast<int>(sizeof(typename Kernel::Stage));
    return {reinterpret_cast<const float*>(in_slot) + first + first_own_column(x) + first_col_of_thread()};
  }
  // Adds x to tile `number` of a matrix in memory and marks x as empty. Ordered adds need an earlier `request_turn`.
  template <class X> TILE_FN void add_to_memory(const SumsInMemory& view, X& x, int matrix, int number) const {
    float* const to = view.data + static_cast<Index>(warpgroup_part_index<X>(view, matrix, number)) * (X::size * 128) +
                      threadIdx.x % 128 * 4;
    if constexpr (AddsInOrder<Kernel>) on.wait_for_turn();
#pragma unroll
    for (int i = 0; i < X::size / 4; ++i) add_four_floats(to + i * 512, x.v + 4 * i);
    if constexpr (AddsInOrder<Kernel>) on.pass_turn();
    x.is_written = false;
  }
  // Requests a turn to add to a tile after `before` other adds.
  template <class X>
  TILE_FN void request_turn(const SumsInMemory& view, const X&, int matrix, int number, int before) const {
    on.request_turn(view.add_counts + warpgroup_part_index<X>(view, matrix, number), before);
  }
  template <class X, class F, class... Others> TILE_FN void map(X& x, const F& f, Others&... others) const {
    sm90::map(x, f, others...);
  }
  template <class X, class F> TILE_FN void mask_columns(X& x, const F& columns) const {
    sm90::mask_columns(x, on.first_row(), columns, -INFINITY);
  }
  template <class X, class F> TILE_FN void mask_columns(X& x, const F& columns, float outside) const {
    sm90::mask_columns(x, on.first_row(), columns, outside);
  }
  template <class X, class F> TILE_FN bool has_any(const X& x, const F& f) const { return sm90::has_any(x, f); }
  template <class Row, class X> TILE_FN void reduce(Row& into, const X& x, Max by) const { sm90::reduce(into, x, by); }
  template <class Row, class X> TILE_FN void reduce(Row& into, const X& x, Add by, const Row& times) const {
    sm90::reduce(into, x, by, times);
    on.last_row_sum = fminf(into.v[0], into.v[1]);
  }
  template <class To, class From> TILE_FN void copy(To& to, const From& from) const { sm90::copy(to, from); }
  // Copies the transpose of an operand to a tile.
  template <class T, int rows, int cols, int warpgroups_per_tile>
  TILE_FN void copy(const ResidentTile<T, rows, cols>& to,
                    Transposed<RegisterOperand<cols, rows, warpgroups_per_tile, T>> from) const {
    copy_transposed<rows>(shared_address(to.data) + on.id * rows * 128, from.tile.v);
  }
  // Copies an operand to a tile of the same orientation.
  template <class T, int rows, int cols, int warpgroups_per_tile>
  TILE_FN void copy(const ResidentTile<T, rows, cols>& to,
                    const RegisterOperand<rows, cols, warpgroups_per_tile, T>& from) const {
    constexpr int width = on.splits_columns ? cols / warpgroups_per_tile : cols;
    copy_rows<rows, width>(shared_address(to.data), on.splits_columns ? 0 : on.id * 64,
                           on.splits_columns ? on.id * width : 0, from.v);
  }

 private:
  template <class X> TILE_FN int warpgroup_part_index(const SumsInMemory& view, int matrix, int number) const {
    return (matrix * view.tiles_per_matrix + number) * X::warpgroups_per_tile + on.id;
  }
  // Issues a product. A group owns 64 rows of the sums or, if all groups own the same 64 rows, a part of the columns.
  template <bool is_a_transposed, bool is_b_transposed, int m, int n, int warpgroups_per_tile, class A, class B>
  TILE_FN void issue_products(Accumulator<m, n, warpgroups_per_tile>& sum, const A& a, const B& b) const {
    constexpr bool splits_columns = m < 64 * warpgroups_per_tile;
    static_assert(m == (splits_columns ? 64 : 64 * warpgroups_per_tile), "mma: each group owns 64 rows");
    constexpr int depth = is_a_transposed ? A::rows : A::cols, width = splits_columns ? n / warpgroups_per_tile : n;
    static_assert((is_a_transposed ? A::cols : A::rows) == m && (is_b_transposed ? B::rows : B::cols) == n &&
                      (is_b_transposed ? B::cols : B::rows) == depth,
                  "mma: [m, k] x [k, n] -> [m, n]; the two sizes of a transposed operand are exchanged");
    using T = typename A::type;
    constexpr Major of_a = is_a_transposed ? Major::mn : Major::k, of_b = is_b_transposed ? Major::k : Major::mn;
    on.template begin_product<last>(b);
    const int own_a = splits_columns ? 0 : on.id * (is_a_transposed ? A::rows : 64);
    const int own_b = splits_columns ? on.id * (is_b_transposed ? width : width / swizzle_elements<T> * B::rows) : 0;
    const std::uint64_t left = make_descriptor<of_a>(on.tile_address(a) + own_a * 128, A::rows * 128);
    const std::uint64_t right = make_descriptor<of_b>(on.tile_address(b) + own_b * 128, B::rows * 128);
#pragma unroll
    for (int k = 0; k < depth / OperandType<T>::k; ++k) {
      const int in_a = step_units<T, of_a>(k, A::rows), in_b = step_units<T, of_b>(k, B::rows);
      mma_64<width, T, of_a, of_b>(sum.v, left + in_a, right + in_b, k == 0 ? static_cast<int>(sum.is_written) : 1);
    }
    on.end_product(sum);
  }
};

// Returns the number of lines of an item that begins at `row`; `line_address` returns the address of a line.
template <class T, int m, int n> TILE_FN int line_count(const RaggedOut<T, m, n>& view, int matrix, int row) {
  const int left = row_count(view, matrix) - row;
  return min(left * view.lines_per_row, m / view.lines_per_row * view.lines_per_row);
}
template <class T, int m, int n>
TILE_FN T* line_address(const RaggedOut<T, m, n>& view, int matrix, int row, int line) {
  const int inner = static_cast<int>(view.inner), outer = matrix / inner;
  const int start = view.starts == nullptr ? 0 : view.starts[outer];
  return static_cast<T*>(const_cast<void*>(view.data)) + outer * view.outer_stride +
         matrix % inner * view.inner_stride + (start + row + line / view.lines_per_row) * view.row_stride +
         line % view.lines_per_row * view.line_stride;
}

// Operations of a kernel's `store`.
template <class Kernel> struct StepStore {
  static constexpr auto config = Kernel::config;
  StepConsumer<Kernel>& on;
  int staged_bytes = 0;  // bytes of the resident slot that outputs already use

  TILE_FN int matrix() const { return on.matrix(); }
  TILE_FN int row() const { return on.row(); }
  template <class X, class F, class... Others> TILE_FN void map(X& x, const F& f, Others&... others) const {
    sm90::map(x, f, others...);
  }
  // Stores one number for each line of a ragged output.
  template <int m, int warpgroups_per_tile>
  TILE_FN void store(const RaggedOut<float, m, 1>& view, Accumulator<m, 1, warpgroups_per_tile>& x) {
    reduce_row_partials(x);
    if (view.data == nullptr || threadIdx.x % 4 != 0) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int line = on.id * 64 + first_row_of_thread() + 8 * r;
      if (line < line_count(view, on.matrix(), on.row())) *line_address(view, on.matrix(), on.row(), line) = x.v[r];
    }
  }
  // Stores one number for each row.
  template <int m, int warpgroups_per_tile>
  TILE_FN void store(const MatricesOut<float, m, 1>& view, Accumulator<m, 1, warpgroups_per_tile>& x) {
    reduce_row_partials(x);
    if (view.data == nullptr || threadIdx.x % 4 != 0) return;
    const BoxOrigin4d at = box_origin(view, on.matrix(), 0, 0);
    float* const to =
        static_cast<float*>(const_cast<void*>(view.data)) + at.outer * view.outer_stride + at.inner * view.inner_stride;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Index row = on.first_row() + first_row_of_thread() + 8 * r;
      if (row < view.rows) to[row * view.row_stride] = x.v[r];
    }
  }
  template <class T, int m, int n, int warpgroups_per_tile>
  TILE_FN void store(const MatricesOut<T, m, n>& view, const Accumulator<m, n, warpgroups_per_tile>& x) {
    store_boxes(view, x);
  }
  template <class T, int m, int n, int warpgroups_per_tile>
  TILE_FN void store(const RaggedOut<T, m, n>& view, const Accumulator<m, n, warpgroups_per_tile>& x) {
    store_boxes(view, x);
  }

 private:
  template <class View> TILE_FN Index matrix_rows(const View& view) const {
    if constexpr (IsRagged<Kernel>)
      return row_count(view, on.matrix());
    else
      return view.rows;
  }
  template <class View, int m, int n, int warpgroups_per_tile>
  TILE_FN void store_boxes(const View& view, const Accumulator<m, n, warpgroups_per_tile>& x) {
    using T = typename View::type;
    constexpr int swizzled = swizzle_elements<T>;
    static_assert(n % swizzled == 0, "store: columns x128 bytes");
    constexpr int width = on.splits_columns ? n / warpgroups_per_tile : n;
    const int first_col = on.splits_columns ? on.id * width : 0;
    const std::uint32_t out = shared_address(&on.s.resident[on.resident.slot]) + staged_bytes +
                              (on.splits_columns ? 0 : on.id * 64 * 128) + first_col / swizzled * (m * 128);
    staged_bytes += m * n * static_cast<int>(sizeof(T));
    on.sync_group();
    const int lane = threadIdx.x % 32, r = threadIdx.x % 128 / 32 * 16 + lane % 8 + lane / 8 % 2 * 8;
#pragma unroll
    for (int c = 0; c < width / 16; ++c) {
      const float* const v = x.v + 8 * c;
      store_matrix4(out + c / 4 * (m * 128) + r * 128 + ((c % 4 * 2 + lane / 16) ^ r % 8) * 16,
                    pack_pair<T>(v[0], v[1]), pack_pair<T>(v[2], v[3]), pack_pair<T>(v[4], v[5]),
                    pack_pair<T>(v[6], v[7]));
    }
    fence_shared_proxy();
    on.sync_group();
    if (!on.leads()) return;
    if (on.first_row() < (IsRagged<Kernel> ? matrix_rows(view) : view.rows)) {
#pragma unroll
      for (int j = 0; j < width / swizzled; ++j)
        store_box(&view.target.map, out + j * m * 128,
                  box_origin(view, on.matrix(), on.first_row(), first_col + j * swizzled));
    }
    commit_stores();
  }
};

}  // namespace ridge::tile::sm90

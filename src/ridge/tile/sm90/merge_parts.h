// Combines the parts of a tile whose steps are divided among items, on Hopper. Each item writes its state to memory;
// the last to finish merges all states in order and stores the result.
#pragma once

#include "ridge/tile/sm90/step_operations.h"

namespace ridge::tile::sm90 {

// Layout of a state in memory: [pair][thread][2] with 128 threads; the pairs of the tile precede the numbers per row.
template <class Kernel> struct StateLayout {
  using Sums = decltype(Kernel::State::o);
  static constexpr int pairs = Sums::size / 2, rows = 2;  // pairs of a thread
  static constexpr Index floats = (pairs + rows) * 256;
};

// Writes the existing rows of a state to memory.
template <class Kernel> struct StateWriter {
  float2* at;  // address of this thread's next pair
  int rows;    // rows of the item that exist

  template <class X> TILE_FN void visit_state(X& x) {
    reduce_row_partials(x);
#pragma unroll
    for (int i = 0; i < X::size; i += 2, at += 128)
      if (first_row_of_thread() + (is_per_row<X> ? 0 : i / 2 % 2 * 8) < rows) *at = {x.v[i], x.v[i + 1]};
  }
};

// Reads 16 rows of a state. Each of the group's four warps reads a slice of the columns.
template <class Kernel> struct StateSliceReader {
  static constexpr int pairs = StateLayout<Kernel>::pairs / Kernel::column_slices;
  const float2* at;  // address of the state's first pair for these rows
  int row, rows;     // first of the 16 rows, and number of existing rows of the item
  TILE_FN static int warp_slice() { return threadIdx.x % 128 / 32; }
  TILE_FN int slice_row(int r) const { return row + threadIdx.x % 32 / 4 + 8 * r; }

  template <class X> TILE_FN void visit_state(X& x) {
    if constexpr (!is_per_row<X>) at += warp_slice() * pairs * 128;
#pragma unroll
    for (int i = 0; i < X::size; i += 2, at += 128) {
      const float2 both = slice_row(is_per_row<X> ? 0 : i / 2 % 2) < rows ? __ldcg(at) : float2{};
      x.v[i] = both.x;
      x.v[i + 1] = both.y;
    }
    if constexpr (!is_per_row<X>) at += (Kernel::column_slices - 1 - warp_slice()) * pairs * 128;
  }
};
// Stores a slice of the merged state to the output.
template <class Kernel> struct StateSliceStorer {
  const StepConsumer<Kernel>& on;
  StateSliceReader<Kernel> of;

  template <class X, class F, class... Others> TILE_FN void map(X& x, const F& f, Others&... others) const {
    sm90::map(x, f, others...);
  }
  template <class T, int m, int n, class X> TILE_FN void store(const MatricesOut<T, m, n>& view, const X& x) const {
    if (view.data == nullptr || (is_per_row<X> && (threadIdx.x % 4 != 0 || of.warp_slice() != 0))) return;
    const BoxOrigin4d at = box_origin(view, on.matrix(), 0, 0);
    T* const to = static_cast<T*>(const_cast<void*>(view.data)) + at.outer * view.outer_stride +
                  at.inner * view.inner_stride + on.row() * view.row_stride;
    store_lines<T>(view, x, [&](int row) { return to + row * view.row_stride; });
  }
  template <class T, int m, int n, class X> TILE_FN void store(const RaggedOut<T, m, n>& view, const X& x) const {
    if (view.data == nullptr || (is_per_row<X> && (threadIdx.x % 4 != 0 || of.warp_slice() != 0))) return;
    store_lines<T>(view, x, [&](int line) { return line_address(view, on.matrix(), on.row(), line); });
  }

 private:
  template <class T, class View, class X, class Address>
  TILE_FN void store_lines(const View& view, const X& x, const Address& address) const {
#pragma unroll
    for (int i = 0; i < X::size; i += is_per_row<X> ? 1 : 2) {
      const int row = of.slice_row(is_per_row<X> ? i : i / 2 % 2);
      const int col = of.warp_slice() * X::cols + i / 4 * 8 + first_col_of_thread();
      if (row >= of.rows) continue;
      if constexpr (is_per_row<X>)
        *address(row) = x.v[i];
      else if (col < view.cols)
        *reinterpret_cast<std::uint32_t*>(address(row) + col) = pack_pair<T>(x.v[i], x.v[i + 1]);
    }
  }
};

template <class T, int m, int n> TILE_FN int lines_of_item(const MatricesOut<T, m, n>&, int left, int, int) {
  return left < 64 ? left : 64;
}
template <class T, int m, int n> TILE_FN int lines_of_item(const RaggedOut<T, m, n>& view, int, int matrix, int row) {
  return line_count(view, matrix, row);
}

// Writes the state of a finished part. The last part of a tile then merges all states in order and stores the result.
template <class Kernel> TILE_FN void merge_parts(StepConsumer<Kernel>& on, typename Kernel::State& state,
                                                 const typename Kernel::Globals& g, const StepKernelArgs& p) {
  using Slice = typename Kernel::ColumnSlice;
  using States = StateLayout<Kernel>;
  const int parts = p.order.nonempty_parts(on.step_count);
  const int rows = lines_of_item(g.o, p.order.rows - on.row(), on.matrix(), on.row());
  const auto state_address = [&](int part, int thread) {
    const Index number = static_cast<Index>(on.item.tile) * p.order.parts + part;
    return reinterpret_cast<float2*>(p.states + number * States::floats) + thread;
  };
  StateWriter<Kernel> save{state_address(on.item.part, threadIdx.x % 128), rows};
  Kernel::visit_state(save, state);
  __threadfence();
  on.sync_group();
  if (on.leads()) {
    int* const counter = p.counters + 1 + on.item.tile;
    const bool is_last = atomicAdd(counter, 1) == parts - 1;
    if (is_last) *counter = 0;
    on.s.is_last_part = is_last;
  }
  on.sync_group();
  if (!on.s.is_last_part) return;
  __threadfence();
  TILE_ROLLED
  for (int row = 0; row < rows; row += 16) {
    const auto from = [&](int part) {
      return StateSliceReader<Kernel>{state_address(part, row * 2 + threadIdx.x % 32), row, rows};
    };
    typename Slice::State sum, other;
    StateSliceReader<Kernel> first = from(0);
    Slice::visit_state(first, sum);
    const StateSliceStorer<Kernel> storer{on, first};
#pragma unroll 4
    for (int part = 1; part < parts; ++part) {
      StateSliceReader<Kernel> next = from(part);
      Slice::visit_state(next, other);
      Slice::merge_states(storer, sum, other, g);
    }
    Slice::store(storer, sum, g);
  }
}

}  // namespace ridge::tile::sm90

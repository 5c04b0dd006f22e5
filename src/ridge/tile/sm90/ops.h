// Operations of a product kernel on Hopper, by role: a producer loads, a consumer multiplies and stores. A tile whose
// rows are contiguous along k is stored as consecutive blocks of rows x 64 elements (128 bytes, swizzled); one that is
// contiguous along the output's axis, as blocks of k x 64. Each block is one box of the copy engine.
#pragma once

#include "ridge/tile/ring.h"
#include "ridge/tile/sm90/finish.h"
#include "ridge/tile/sm90/tma.h"
#include "ridge/tile/sm90/wgmma.h"

namespace ridge::tile::sm90 {

inline constexpr int atom = 64;  // 16-bit elements in the 128 bytes that are swizzled together

template <class Kernel> struct Position {  // position of the work item
  int m0, n0, batch, rank;                 // `rank` is the block's rank in its cluster
  int end;                                 // end of the rows of D that may be written, in grouped products
  TILE_FN Row row() const { return {{m0, Kernel::config.m}}; }
  TILE_FN Col col() const { return {{n0, Kernel::config.n}}; }
};

template <class Along> inline constexpr bool along_rows = std::is_same_v<Along, Row>;
template <class Kernel, class Along> inline constexpr Major major_of =
    along_rows<Along> ? Kernel::config.a : Kernel::config.b;
// Number of blocks of a cluster that load the same tile: those along the other axis.
template <class Kernel, class Along> inline constexpr int wanted_by =
    along_rows<Along> ? Kernel::config.cluster_n : Kernel::config.cluster_m;

// True if rows that a kernel loads may arrive while it multiplies, or if its result is scattered (shared_rows.h).
template <class Kernel> inline constexpr bool gathers_rows = [] {
  if constexpr (requires { Kernel::config.gathers_rows(); }) return Kernel::config.gathers_rows();
  return false;
}();
template <class Kernel> inline constexpr bool scatters_rows = [] {
  if constexpr (requires { Kernel::config.scatters_rows(); }) return Kernel::config.scatters_rows();
  return false;
}();

struct NoRows {};
template <class Kernel> struct RowsOf
    : std::conditional_t<gathers_rows<Kernel> || scatters_rows<Kernel>, RowsOnTarget, NoRows> {};

template <class Kernel, Half half> struct Producer : Position<Kernel> {
  std::uint32_t full;  // address of the full barrier of the slot that is being filled
  const RowsOf<Kernel>* shared;

  template <class Tile, class Along, bool is_constant>
  TILE_FN void load(Tile& tile, const GlobalView<Tile, Along, is_constant>& view, Along where, Range k) const {
    load(rows<0, Tile::rows>(tile), view, where, k);
  }

  template <int first, int count, class Tile, class Box, class Along, bool is_constant>
  TILE_FN void load(Part<first, count, Tile> part, const GlobalView<Box, Along, is_constant>& view, Along where,
                    Range k) const {
    static_assert(Box::rows == count && Box::cols == Tile::cols,
                  "load: a view is loaded into a tile of its own shape, or into as many rows of one");
    constexpr bool is_prefetched = is_constant != Kernel::config.swap;  // `swap` exchanges the operands
    if constexpr (half != Half::both && is_prefetched != (half == Half::constants)) return;
    expect_bytes(full, count * Tile::cols * 2);
    int along = static_cast<int>(where.begin);
    const int depth = static_cast<int>(k.begin), product = view.on_target.batched ? this->batch : 0;
    const CUtensorMap* map = &view.on_target.map;
    if constexpr (along_rows<Along> && gathers_rows<Kernel>)
      if (const GatheredRows& rows = shared->gathered; rows.rows > 0) {
        if (depth % rows.cols == 0) await_rows(rows, along, depth);
        if (rows.walked(along) < rows.piece) {
          along = rows.walked(along);
          map = &shared->own;
        }
      }
    const Source from{map, view.on_target.kept};
    if constexpr (major_of<Kernel, Along> == Major::k)
      load_k_major<first, count, Along>(part.tile, from, {depth, along, product});
    else
      load_mn_major<first, count, Along>(part.tile, from, {along, depth, product});
  }

 private:
  struct Source {
    const CUtensorMap* map;
    std::uint64_t kept;
  };

  TILE_FN static void await_rows(const GatheredRows& rows, int row, int column) {
    const int number = rows.number(row, column) - rows.of_piece;
    if (number < 0) return;
    while (read_acquire_system(rows.come + number) == 0) {}
    copies_follow();
  }

  template <int first, int count, class Along, class Tile>
  TILE_FN void load_k_major(Tile& tile, const Source& from, Corner c) const {
    constexpr int blocks = wanted_by<Kernel, Along>, mine = count / blocks;
    static_assert(Tile::cols % atom == 0 && mine % 8 == 0 && first % 8 == 0 && mine <= 256,
                  "load: a tile needs columns x64 and, for each block that shares it, rows x8 up to 256");
    const int offset = my_share<Along>() * mine;
#pragma unroll
    for (int j = 0; j < Tile::cols / atom; ++j)
      load_shared<Along>(address(tile.data + (j * Tile::rows + first + offset) * atom), from,
                         {c.x + j * atom, c.y + offset, c.batch});
  }

  template <int first, int count, class Along, class Tile>
  TILE_FN void load_mn_major(Tile& tile, const Source& from, Corner c) const {
    constexpr int blocks = wanted_by<Kernel, Along>;
    constexpr bool groups =
        count / blocks % atom == 0;  // true if each block loads some groups of rows, false if a part of k
    constexpr int mine = groups ? count / blocks : count, depth = groups ? Tile::cols : Tile::cols / blocks;
    static_assert(mine % atom == 0 && first % atom == 0 && depth % 8 == 0 && depth <= 256,
                  "load: a tile that is contiguous along the output needs rows x64 and, for each block that shares it, "
                  "columns x8 up to 256");
    const int row = groups ? my_share<Along>() * mine : 0, k = groups ? 0 : my_share<Along>() * depth;
#pragma unroll
    for (int g = 0; g < mine / atom; ++g)
      load_shared<Along>(address(tile.data + (first + row + g * atom) * Tile::cols + k * atom), from,
                         {c.x + row + g * atom, c.y + k, c.batch});
  }

  template <class Along> TILE_FN int my_share() const {  // index of this block among those that load the same tile
    if constexpr (wanted_by<Kernel, Along> == 1) return 0;
    return along_rows<Along> ? this->rank / Kernel::config.cluster_m : this->rank % Kernel::config.cluster_m;
  }
  template <class Along> TILE_FN void load_shared(std::uint32_t to, const Source& from, Corner box) const {
    constexpr int m = Kernel::config.cluster_m, n = Kernel::config.cluster_n;
    if constexpr (wanted_by<Kernel, Along> == 1) {
      load_box(to, from.map, from.kept, box, full);
    } else {  // the ranks of a cluster advance along m first
      constexpr int along_n = ((1 << m * n) - 1) / ((1 << m) - 1), along_m = (1 << m) - 1;
      const int wanted = along_rows<Along> ? along_n << this->rank % m : along_m << this->rank / m * m;
      load_box_multicast(to, from.map, from.kept, box, full, static_cast<std::uint16_t>(wanted));
    }
  }
};

TILE_FN void store_matrix4(std::uint32_t to, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
TILE_FN void store_matrix4_transposed(std::uint32_t to, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                      std::uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}
TILE_FN void store_matrix2_transposed(std::uint32_t to, std::uint32_t a, std::uint32_t b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}

// An epilogue step processes 16 columns of 64 rows of a group's part of a tile, in the order of the registers.
template <class Kernel> inline constexpr int turns_across = (Kernel::config.n + 15) / 16;
template <class Kernel> inline constexpr int turns_of = Kernel::config.turns();
struct Registers {
  int first, count;
};
template <class Kernel> TILE_FN constexpr Registers registers_of(int turn) {
  constexpr int n = Kernel::config.n;
  const int across = turn % turns_across<Kernel>;
  return {turn / turns_across<Kernel> * (n / 2) + across * 8, (across + 1) * 16 <= n ? 8 : n % 16 / 2};
}
struct SomeTurns {
  int first, end;
};

template <class Kernel> struct Consumer : Position<Kernel> {
  int share;              // index of this consumer's part of the tile's rows
  int id;                 // number of this consumer in the block
  std::uint8_t* staging;  // this consumer's output buffers
  const RowsOf<Kernel>* shared;
  int buffer = 0;
  SomeTurns turns{0, turns_of<Kernel>};  // fewer if other blocks store the rest of the tile

  TILE_FN bool leads() const { return threadIdx.x % 128 == 0; }
  TILE_FN void sync_group() const { sync_threads(1 + id, 128); }
  template <int left> TILE_FN void store_wait() const { sm90::store_wait<left>(); }
  TILE_FN void shared_writes_done() const { sm90::shared_writes_done(); }
  TILE_FN void store_commit() const { sm90::store_commit(); }
  TILE_FN void next_buffer() { buffer = buffer + 1 == Kernel::config.staging ? 0 : buffer + 1; }

  template <int m, int n, int sharers, class A, class B>
  TILE_FN void mma(Accumulator<m, n, sharers>& acc, const A& a, Transposed<B> b) const {
    static_assert(A::rows == m && B::rows == n && A::cols == B::cols, "mma: [m, k] x [n, k] transposed -> [m, n]");
    static_assert(m % (64 * sharers) == 0, "mma: each consumer owns whole groups of 64 rows");
    constexpr int mine = m / sharers;
    constexpr bool a_k = Kernel::config.a == Major::k, b_k = Kernel::config.b == Major::k;
    constexpr int group = A::cols * 128;                   // bytes of a k x 64 block
    constexpr int a_rows = (a_k ? 64 * 128 : group) / 16;  // stride of 64 rows, in descriptor units
    const std::uint64_t from_a = descriptor<Kernel::config.a>(address(a.data), group) + share * (mine / 64) * a_rows;
    const std::uint64_t from_b = descriptor<Kernel::config.b>(address(b.tile.data), group);
#pragma unroll
    for (int k = 0; k < A::cols / 16; ++k) {
      const int step_a = a_k ? k / 4 * (m * 128 / 16) + k % 4 * 2 : k * (16 * 128 / 16);
      const int step_b = b_k ? k / 4 * (n * 128 / 16) + k % 4 * 2 : k * (16 * 128 / 16);
#pragma unroll
      for (int i = 0; i < mine / 64; ++i)
        mma_64<n, typename A::type, Kernel::config.a, Kernel::config.b>(acc.v + i * (n / 2),
                                                                        from_a + step_a + i * a_rows, from_b + step_b,
                                                                        k == 0 ? static_cast<int>(acc.live) : 1);
    }
    acc.live = true;
  }

  template <class T, int m, int n, int sharers>
  TILE_FN void store(const OutputView<T, m, n>& view, const Accumulator<m, n, sharers>& acc, Row row, Col col) {
    const int first = static_cast<int>(row.begin) + share * (m / sharers), column = static_cast<int>(col.begin);
    if (view.on_target.bulk && turns.end - turns.first == turns_of<Kernel> &&
        lies_in_group(first, column, m / sharers)) {
      store_bulk(view, acc, first, column);
      if constexpr (scatters_rows<Kernel>)
        if (leads()) tell_others(view, m / sharers, first, column);
    } else {
      take_buffers<Kernel>(*this);
      store_finished(view, acc, first, column);
    }
  }
  // Stores the rounded sums in bulk, for kernels without an epilogue.
  template <class T, int m, int n, int sharers>
  TILE_FN void store_rounded(const OutputView<T, m, n>& view, const Accumulator<m, n, sharers>& acc, Row row, Col col) {
    store_bulk(view, acc, static_cast<int>(row.begin) + share * (m / sharers), static_cast<int>(col.begin));
  }

 private:
  static constexpr bool swap = Kernel::config.swap;

  // True if the `high` rows of this consumer's part of a tile are all in one group of rows.
  TILE_FN bool lies_in_group(int row, int col, int high) const {
    if constexpr (is_grouped<Kernel>) return (swap ? col + Kernel::config.n : row + high) <= this->end;
    return true;
  }
  struct Bounds {
    Index rows, cols;
  };
  // Returns the rows and columns of D that may be written.
  template <class View> TILE_FN decltype(auto) bounds(const View& view) const {
    if constexpr (is_grouped<Kernel>)
      return Bounds{this->end, view.cols};
    else
      return (view);
  }

  // Operations of a scattered result (shared_rows.h), called by the consumer's first thread, which stores. A consumer's
  // part of a tile is in one group of rows, and in one or two chunks of columns.
  template <class View> TILE_FN static int end_of(const View& view, int col) {
    const int cols = static_cast<int>(view.cols);
    return cols - col < Kernel::config.n ? cols : col + Kernel::config.n;
  }
  template <class View> TILE_FN void await_others(const View& view, int row, int col) const {
    const ScatteredRows& rows = shared->scattered;
    const int end = end_of(view, col);
    if (rows.rows == 0 || end <= col) return;
    while (read_acquire_system(rows.begun) == 0) {}
    if (rows.adds(row)) {
      int strip = rows.number_in_piece(0, col), chunk = rows.number(row, col) - rows.of_piece;
      for (int next = strip * rows.cols; next < end; next += rows.cols, ++strip, ++chunk) {
        const int all = rows.rows * rows.width(strip, static_cast<int>(view.cols));
        const std::uint32_t* const word = rows.come + rows.word(chunk);
        while (read_acquire_system(word) != static_cast<std::uint32_t>(rows.sent ? 1 : all)) {}
      }
    }
    copies_follow();
  }
  template <class View> TILE_FN void tell_others(const View& view, int height, int row, int col) const {
    const ScatteredRows& rows = shared->scattered;
    const int end = end_of(view, col);
    if (rows.rows == 0 || end <= col) return;
    const bool is_last = rows.is_last(rows.walked(row));
    if (is_last && !rows.counts_last) return;
    stores_done();
    std::uint32_t* const words = is_last || rows.sent ? rows.counts : rows.stored;
    int chunk = rows.number(row, col);
    for (int next = col; col < end; col = next, ++chunk) {
      next = (rows.number_in_piece(0, col) + 1) * rows.cols;
      if (next > end) next = end;
      add_release_system(words + rows.word(chunk), static_cast<std::uint32_t>(height * (next - col)));
    }
  }

  template <class T, int m, int n, int sharers>
  TILE_FN void store_bulk(const OutputView<T, m, n>& view, const Accumulator<m, n, sharers>& acc, int row, int col) {
    constexpr int bytes = (swap ? n : atom) * 128;
#pragma unroll
    for (int i = 0; i < m / sharers / 64; ++i)
#pragma unroll
      for (int c = 0; c < (swap ? 1 : (n + atom - 1) / atom); ++c) {
        constexpr int rest = n % atom;
        const bool tail = !swap && rest != 0 && c == n / atom;
        const std::uint32_t out = address(staging) + buffer * bytes;
        const float* const v = acc.v + i * (n / 2) + c * (atom / 2);
        auto write = [&] {
          if constexpr (swap)
            stage_transposed<T, n>(out, v);
          else if (tail)
            stage_dense<T, rest>(out, v);
          else
            stage_swizzled<T>(out, v);
        };
        auto send = [&] {
          const OutputOnTarget& o = view.on_target;
          const int from = row + i * 64;
          const CUtensorMap* const map = tail ? &o.tail : &o.map;
          const int product = is_grouped<Kernel> ? 0 : this->batch;
          const Corner corner = swap ? Corner{from, col, product} : Corner{col + c * atom, from, product};
          if constexpr (scatters_rows<Kernel>) {
            if (i == 0 && c == 0) await_others(view, row, col);
            const ScatteredRows& rows = shared->scattered;
            auto place = RowWalk::Place{0, from};
            const CUtensorMap* to = map;
            bool adds = o.adds;
            if (rows.rows > 0) {
              adds = rows.adds(from);
              if (!rows.sent || rows.is_last(rows.walked(from))) {
                place = rows.place(from);
                to = shared->pieces + place.piece;
              }
            }
            store_or_add_box(to, out, {corner.x, place.row, corner.batch}, adds);
          } else {
            store_or_add_box(map, out, corner, o.adds);
          }
        };
        send_box<Kernel::config.staging>(*this, write, send);
      }
  }

  // Writes 16 rows x 16 columns for each warp and step, to 64 rows of 128 bytes, swizzled in 16-byte units.
  template <class T> TILE_FN void stage_swizzled(std::uint32_t out, const float* v) const {
    const int lane = threadIdx.x % 32, r = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int unit = j * 2 + lane / 16;
      const float* const x = v + j * 8;
      store_matrix4(out + r * 128 + (unit ^ (r % 8)) * 16, pack<T>(x[0], x[1]), pack<T>(x[2], x[3]),
                    pack<T>(x[4], x[5]), pack<T>(x[6], x[7]));
    }
  }
  template <class T, int cols> TILE_FN void stage_dense(std::uint32_t out, const float* v) const {
    const int lane = threadIdx.x % 32, r = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < cols / 16; ++j) {
      const float* const x = v + j * 8;
      store_matrix4(out + r * (cols * 2) + (j * 2 + lane / 16) * 16, pack<T>(x[0], x[1]), pack<T>(x[2], x[3]),
                    pack<T>(x[4], x[5]), pack<T>(x[6], x[7]));
    }
  }
  // Writes 16 rows x 8 columns of the tile for each warp and step, as 8 rows of 16 columns of the output.
  template <class T, int cols> TILE_FN void stage_transposed(std::uint32_t out, const float* v) const {
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < cols / 8; ++j) {
      const float* const x = v + j * 4;
      const int r = j * 8 + lane % 8, unit = warp * 2 + lane / 8 % 2;
      store_matrix2_transposed(out + r * 128 + (unit ^ (r % 8)) * 16, pack<T>(x[0], x[1]), pack<T>(x[2], x[3]));
    }
  }

  template <class T, int m, int n, int sharers> TILE_FN void store_finished(const OutputView<T, m, n>& view,
                                                                            const Accumulator<m, n, sharers>& acc,
                                                                            int row, int col) {
    if (view.on_target.vector_epilogue)
      store_vectors<T, m / sharers, n>(view, acc.v, row, col);
    else if (view.on_target.vectors)
      store_runs<Run::row, m / sharers, n>(view, acc.v, row, col);
    else
      store_runs<Run::column, m / sharers, n>(view, acc.v, row, col);
  }

  // Position of a thread's eight sums in an epilogue step: eight columns of a row (across), or eight rows.
  template <bool across, int n> struct Turn {
    static constexpr int wide = turns_across<Kernel>;
    int r, c;
    TILE_FN Turn() {
      const int lane = threadIdx.x % 32;
      r = across ? (swap ? lane % 16 : lane / 2) : lane / 16 * 8;
      c = across ? (swap ? lane / 16 : lane % 2) * 8 : lane % 16;
    }
    TILE_FN int row(int turn) const { return turn / wide * 64 + threadIdx.x % 128 / 32 * 16 + r; }
    TILE_FN int col(int turn) const { return turn % wide * 16 + c; }
    TILE_FN bool is_real(int turn) const { return n % 16 == 0 || turn % wide + 1 < wide || c < n % 16; }
    TILE_FN Lanes<8> take(float* mine, const float* v, int turn) const {
      __syncwarp();  // the warp has read the previous 16 x 16 sums
      pick<0, turns_of<Kernel>>(turn, [&]<int i>() {
        constexpr Registers registers = registers_of<Kernel>(i);
        stage_sums<registers.count * 2>(mine, v + registers.first);
      });
      __syncwarp();
      return take_sums<across>(mine, r, c);
    }
  };
  TILE_FN float* sums_of_warp() const { return reinterpret_cast<float*>(staging) + threadIdx.x % 128 / 32 * 256; }

  // Position of eight contiguous elements of D, which are all inside or all outside.
  struct Eight {
    unsigned batch, y, x;
    bool inside;
    TILE_FN unsigned at(Index row_stride, Index batch_stride) const {
      return batch * static_cast<unsigned>(batch_stride) + y * static_cast<unsigned>(row_stride) + x;
    }
    template <class T> TILE_FN void ask(const Operand& p, std::uint32_t* to) const {
      if (p.data && inside) copy_words<4>(to, static_cast<const T*>(p.data) + at(p.row_stride, p.batch_stride));
    }
  };

  // Fast epilogue: all operands have type T and aligned 16-byte units along D's rows, and offsets fit in 32 bits. If
  // enough registers are free, the operands of a step are loaded during the previous one.
  template <class T, int rows, int n, class View>
  TILE_FN void store_vectors(const View& view, const float* v, int row, int col) {
    constexpr bool ahead = rows / 64 * n / 2 < 192;
    const Turn<!swap, n> mine;
    const OutputOnTarget& o = view.on_target;
    const auto eight = [&](int group, int across) {
      const int r = row + group * 64 + mine.row(0), c = col + mine.col(across), y = swap ? c : r, x = swap ? r : c;
      const bool inside =
          mine.is_real(across) && y < static_cast<int>(bounds(view).rows) && x < static_cast<int>(view.cols);
      return Eight{static_cast<unsigned>(this->batch), static_cast<unsigned>(y), static_cast<unsigned>(x), inside};
    };
    std::uint32_t beside[4][4] = {};
    const auto ask = [&](const Eight& here) {
      here.template ask<T>(o.scale, beside[0]);
      here.template ask<T>(o.bias, beside[1]);
      here.template ask<T>(o.gate, beside[2]);
      here.template ask<T>(o.addend, beside[3]);
    };
    fetch_ahead<rows, n>(view, o.gate, row, col);
    fetch_ahead<rows, n>(view, o.addend, row, col);
    int turn = turns.first, group = turn / mine.wide, across = turn % mine.wide;
    Eight here = eight(group, across);
    if (ahead) ask(here);
#pragma unroll 1
    for (; turn < turns.end; ++turn) {
      const Lanes<8> sums = mine.take(sums_of_warp(), v, turn);
      const Lanes<8> z = tile::finished<Math>(o, sums, [&](const Operand& p) {
        if (ahead) return widened<T, 8>(beside[&p == &o.scale ? 0 : &p == &o.bias ? 1 : &p == &o.gate ? 2 : 3]);
        std::uint32_t two[4] = {};
        here.template ask<T>(p, two);
        return widened<T, 8>(two);
      });
      const std::uint32_t two[4] = {pack<T>(z.v[0], z.v[1]), pack<T>(z.v[2], z.v[3]), pack<T>(z.v[4], z.v[5]),
                                    pack<T>(z.v[6], z.v[7])};
      if (here.inside) write_words<4>(view.data + here.at(view.row_stride, view.batch_stride), two);
      if (++across == mine.wide) {
        across = 0;
        ++group;
      }
      here = eight(group, across);
      if (ahead && turn + 1 < turns.end) ask(here);
    }
  }

  // General epilogue: a thread stores eight contiguous elements of a row of D if they are aligned, else eight elements
  // of a column, so that a warp's stores are contiguous. With `swap`, D is the transpose of the tile.
  template <Run run, int rows, int n, class View>
  TILE_FN void store_runs(const View& view, const float* v, int row, int col) {
    const Turn<(run == Run::row) != swap, n> mine;
#pragma unroll 1
    for (int turn = turns.first; turn < turns.end; ++turn) {
      const Lanes<8> sums = mine.take(sums_of_warp(), v, turn);
      const int r = row + mine.row(turn), c = col + mine.col(turn);
      const auto at = Spot<8, run>::in(bounds(view), swap ? c : r, swap ? r : c, this->batch);
      if (mine.is_real(turn) && at.inside > 0) put_finished(view, sums, at);
    }
  }
  // Prefetches the tile's part of an operand into the L2.
  template <int rows, int n, class View>
  TILE_FN void fetch_ahead(const View& view, const Operand& p, Index row, Index col) const {
    if (swap || !p.data || p.row_stride == 0) return;
    const int line = 128 / bytes_of(p.stored), r = threadIdx.x % 128;
    if (r >= rows || row + r >= view.rows) return;
    const char* const data = static_cast<const char*>(p.data) +
                             (this->batch * p.batch_stride + (row + r) * p.row_stride + col) * bytes_of(p.stored);
#pragma unroll 1
    for (int x = 0; x < n && col + x < view.cols; x += line)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(data + x * bytes_of(p.stored)));
  }
  // Calls do_it<i>() for first <= i < end, because registers can only be indexed by constants.
  template <int first, int end, class Do> TILE_FN static void pick(int i, const Do& do_it) {
    constexpr int middle = (first + end) / 2;
    if constexpr (end - first == 1)
      do_it.template operator()<first>();
    else if (i < middle)
      pick<first, middle>(i, do_it);
    else
      pick<middle, end>(i, do_it);
  }
};

}  // namespace ridge::tile::sm90

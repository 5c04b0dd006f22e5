// Operations of a product kernel's consumers on Hopper, which multiply and store. tile_loader.h has those of the
// producer and the order of tiles in shared memory.
#pragma once

#include "ridge/tile/ring.h"
#include "ridge/tile/sm90/epilogue.h"
#include "ridge/tile/sm90/tile_loader.h"
#include "ridge/tile/sm90/tma.h"
#include "ridge/tile/sm90/wgmma.h"

namespace ridge::tile::sm90 {

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

// A group processes its part of a tile in epilogue steps of 64 rows x 16 columns, in the order of the registers.
template <class Kernel> inline constexpr int steps_across = (Kernel::config.n + 15) / 16;
template <class Kernel> inline constexpr int epilogue_steps_of = Kernel::config.epilogue_steps();
struct RegisterRange {
  int first, count;
};
template <class Kernel> TILE_FN constexpr RegisterRange step_registers(int step) {
  constexpr int n = Kernel::config.n;
  const int across = step % steps_across<Kernel>;
  return {step / steps_across<Kernel> * (n / 2) + across * 8, (across + 1) * 16 <= n ? 8 : n % 16 / 2};
}
struct EpilogueStepRange {
  int first, end;
};

// The scales of four blocks of k of a tile's rows and columns.
template <int rows, int columns> struct ScaleQuads {
  alignas(16) float of_row[rows][scale_quad];
  alignas(16) float of_column[scale_quad][columns];
  // By warp that loads scales: bit i is 1 if the columns of piece i that it loads share a scale in each block, and no
  // scale that it loads is extreme
  alignas(16) std::uint32_t shared_pieces[4];
};
template <int rows, int columns> struct BufferedScales {
  ScaleQuads<rows, columns> buffers[scale_buffers];
  std::uint64_t full[scale_buffers], empty[scale_buffers];
};
// The scales of a block of k that a thread needs: `columns` points to that of its first column, which those of the
// columns after it follow, and `of_piece` are those of the first column of each piece of the sums.
template <SumPieces pieces> struct ThreadScales {
  const float* columns;
  std::uint32_t shared_pieces;
  float rows[pieces.down()][2], of_piece[pieces.across()];
};

template <class Kernel> struct TileConsumer : ItemPosition<Kernel> {
  int row_part;           // index of this consumer's part of the tile's rows
  int id;                 // number of this consumer in the block
  std::uint8_t* staging;  // this consumer's output buffers
  const PeerRowMapsOf<Kernel>* peer_rows;
  int buffer = 0;
  EpilogueStepRange epilogue_steps{0,
                                   epilogue_steps_of<Kernel>};  // steps to store; fewer if other blocks store the rest

  TILE_FN bool leads() const { return threadIdx.x % 128 == 0; }
  TILE_FN void sync_group() const { sync_threads(1 + id, 128); }
  TILE_FN void pass_turn(int to) const { arrive_threads(8 + to, 256); }
  TILE_FN void wait_turn(int mine) const { sync_threads(8 + mine, 256); }
  template <int left> TILE_FN void wait_for_store_reads() const { sm90::wait_for_store_reads<left>(); }
  TILE_FN void fence_shared_proxy() const { sm90::fence_shared_proxy(); }
  TILE_FN void commit_stores() const { sm90::commit_stores(); }
  TILE_FN void next_buffer() { buffer = buffer + 1 == Kernel::config.staging ? 0 : buffer + 1; }

  // The matrix descriptors of a stage's operands for one group.
  template <class A, class B, int warpgroups_per_tile> struct StageOperands {
    using T = typename A::type;
    static constexpr Major of_a = Kernel::config.a, of_b = Kernel::config.b;
    static constexpr int m = A::rows, n = B::rows, steps = A::cols / OperandType<T>::k;
    static constexpr int group = A::cols * swizzle_bytes;                          // bytes of a [k][128 bytes] block
    static constexpr int a_rows = of_a == Major::k ? 64 * row_units : group / 16;  // 64 rows, in descriptor units
    static_assert(std::is_same_v<T, typename B::type>, "mma: operands of one type");
    static_assert(A::cols == B::cols, "mma: [m, k] x [n, k] transposed -> [m, n]");
    static_assert(m % (64 * warpgroups_per_tile) == 0, "mma: each consumer owns whole groups of 64 rows");
    static constexpr int row_blocks = m / warpgroups_per_tile / 64;
    std::uint64_t a, b;

    TILE_FN StageOperands(const A& left, const B& right, int row_part)
        : a(make_descriptor<of_a>(shared_address(left.data), group) + row_part * row_blocks * a_rows),
          b(make_descriptor<of_b>(shared_address(right.data), group)) {}
    // Issues a step of k for 64 rows and the columns from `first_column` on.
    template <int columns, class Sum>
    TILE_FN void multiply(Sum* sums, int step, int row_block, int first_column, int add) const {
      mma_64<columns, T, of_a, of_b>(sums, a + step_units<T, of_a>(step, m) + row_block * a_rows,
                                     b + step_units<T, of_b>(step, n) + first_column * row_units, add);
    }
  };

  template <int m, int n, int warpgroups_per_tile, class Sum, class A, class B>
  TILE_FN void mma(Accumulator<m, n, warpgroups_per_tile, Sum>& acc, const A& a, Transposed<B> b) const {
    static_assert(A::rows == m && B::rows == n, "mma: [m, k] x [n, k] transposed -> [m, n]");
    if constexpr (OperandType<typename A::type>::bytes == 4 && Kernel::config.a == Major::mn) {
      multiply_left_registers(acc, a, b.tile);
    } else {
      using Operands = StageOperands<A, B, warpgroups_per_tile>;
      const Operands operands(a, b.tile, row_part);
#pragma unroll
      for (int k = 0; k < Operands::steps; ++k)
#pragma unroll
        for (int i = 0; i < Operands::row_blocks; ++i)
          operands.template multiply<n>(acc.v + i * (n / 2), k, i, 0, k == 0 ? static_cast<int>(acc.is_written) : 1);
    }
    acc.is_written = true;
  }
  // Multiplies a tf32 tile that is contiguous along m, which instructions cannot read: threads load it to registers
  // after the earlier products have read these. An instruction starts when all warps of the group have loaded theirs,
  // so that the slot may be released after it.
  template <int m, int n, int warpgroups_per_tile, class A, class B>
  TILE_FN void multiply_left_registers(Accumulator<m, n, warpgroups_per_tile>& acc, const A& a, const B& b) const {
    using T = typename A::type;
    constexpr int row_blocks = m / warpgroups_per_tile / 64, per_step = OperandType<T>::k, steps = A::cols / per_step;
    constexpr int group = A::cols * swizzle_bytes, group_rows = swizzle_elements<T>;
    const int lane = threadIdx.x % 32, first = threadIdx.x % 128 / 32 * 16 + lane / 4;
    const auto word = [&](int row, int k) {  // The copy engine exchanges units of 16 bytes by the line's number
      const int unit = row % group_rows / 4 ^ k % 8;
      return read_shared(shared_address(a.data) + row / group_rows * group + k * swizzle_bytes + unit * 16 +
                         row % 4 * 4);
    };
    const std::uint64_t from_b = make_descriptor<Major::k>(shared_address(b.data), group);
    mma_wait<0>();
    std::uint32_t left[row_blocks][steps][4];
#pragma unroll
    for (int i = 0; i < row_blocks; ++i)
#pragma unroll
      for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int q = 0; q < 4; ++q)
          left[i][step][q] =
              word((row_part * row_blocks + i) * 64 + first + q % 2 * 8, step * per_step + lane % 4 + q / 2 * 4);
    mma_fence();
#pragma unroll
    for (int step = 0; step < steps; ++step)
#pragma unroll
      for (int i = 0; i < row_blocks; ++i)
        mma_64_registers<n, T>(acc.v + i * (n / 2), left[i][step], from_b + step_units<T, Major::k>(step, n),
                               step == 0 ? static_cast<int>(acc.is_written) : 1);
  }

  // Operations of `multiply_in_pieces` (ring.h).
  struct NoScales {};
  template <class Sums, class Operands, class Scales = NoScales> struct PieceMultiplier {
    static constexpr SumPieces pieces = Sums::pieces;
    static constexpr int steps = SumPieces::added_bytes / wgmma_bytes;
    static constexpr bool has_scales = !std::is_same_v<Scales, NoScales>;
    Sums& acc;
    const Operands& operands;
    const TileConsumer& on;
    int first_step;
    Scales scales{};
    TILE_FN void wait_turn() const {
      if constexpr (Kernel::config.takes_turns()) on.wait_turn(on.id);
    }
    TILE_FN void pass_turn() const {
      if constexpr (Kernel::config.takes_turns()) on.pass_turn((on.id + 1) % Kernel::config.consumers);
    }
    TILE_FN void mma_fence() const { sm90::mma_fence(); }
    TILE_FN void mma_commit() const { sm90::mma_commit(); }
    template <int left> TILE_FN void mma_wait() const { sm90::mma_wait<left>(); }
    template <int piece> TILE_FN void multiply_piece() const {
#pragma unroll
      for (int k = 0; k < steps; ++k)
        operands.template multiply<pieces.columns(piece)>(acc.piece[piece % pieces.buffers()], first_step + k,
                                                          pieces.first_row(piece) / 64, pieces.first_column(piece),
                                                          k > 0);
    }
    template <int piece> TILE_FN void add_piece() const {
      constexpr int n = Sums::cols, count = pieces.columns(piece) / 2;
      float *const from = acc.piece[piece % pieces.buffers()], *const to = acc.v +
                                                                           pieces.first_row(piece) / 64 * (n / 2) +
                                                                           pieces.first_column(piece) / 2;
      fix_order<count>(from);  // No read moves before the wait
      if constexpr (has_scales) {
        if (scales.shared_pieces >> piece % pieces.across() & 1)
          add_with_one_scale<piece, count>(to, from);
        else
          add_with_scales<piece, count>(to, from);
      } else {
#pragma unroll
        for (int i = 0; i < count; ++i) to[i] += from[i];
        fix_order<count>(to);
      }
    }

   private:
    // Keeps reads and writes of the registers on their side of this call, so that sums are complete when a turn begins.
    template <int count> TILE_FN static void fix_order(float* x) {
#pragma unroll
      for (int i = 0; i < count; ++i) asm volatile("" : "+f"(x[i]));
    }
    template <int piece, int count> TILE_FN void add_with_one_scale(float* to, const float* from) const {
      const float(&rows)[2] = scales.rows[piece / pieces.across()];
      const float shared = scales.of_piece[piece % pieces.across()], factors[] = {rows[0] * shared, rows[1] * shared};
#pragma unroll
      for (int i = 0; i < count; ++i) to[i] = __fmaf_rn(factors[i / 2 % 2], from[i], to[i]);
      fix_order<count>(to);
    }
    template <int piece, int count> TILE_FN void add_with_scales(float* to, const float* from) const {
      const float(&rows)[2] = scales.rows[piece / pieces.across()];
      const float* const columns = scales.columns + pieces.first_column(piece);
#pragma unroll
      for (int i = 0; i < count; i += 4) {
        const float2 pair = *reinterpret_cast<const float2*>(columns + 2 * i);
#pragma unroll
        for (int q = 0; q < 4; ++q)
          to[i + q] = __fmaf_rn(rows[q / 2], (q % 2 == 0 ? pair.x : pair.y) * from[i + q], to[i + q]);
      }
      fix_order<count>(to);
    }
  };
  template <int m, int n, int warpgroups_per_tile, class A, class B>
  TILE_FN void mma(StagedAccumulator<m, n, warpgroups_per_tile>& acc, const A& a, Transposed<B> b) const {
    using Sums = StagedAccumulator<m, n, warpgroups_per_tile>;
    const StageOperands<A, B, warpgroups_per_tile> operands(a, b.tile, row_part);
    using Multiplier = PieceMultiplier<Sums, decltype(operands)>;
#pragma unroll
    for (int step = 0; step < operands.steps; step += Multiplier::steps) {
      Multiplier at{acc, operands, *this, step};
      multiply_in_pieces<Sums::pieces>(at);
    }
    acc.is_written = true;
  }
  // Multiplies a block of k of e4m3_128: threads multiply the sums by the scales of their rows and columns.
  template <int m, int n, int warpgroups_per_tile, class A, class B, class Scales>
  TILE_FN void multiply_scaled(StagedAccumulator<m, n, warpgroups_per_tile>& acc, const A& a, const B& b,
                               const Scales& scales) const {
    static_assert(A::cols == BlockPlanes<DType::e4m3_128>::block, "multiply_scaled: a stage has one block of k");
    using Sums = StagedAccumulator<m, n, warpgroups_per_tile>;
    const StageOperands<A, B, warpgroups_per_tile> operands(a, b, row_part);
    PieceMultiplier<Sums, decltype(operands), Scales> at{acc, operands, *this, 0, scales};
    multiply_in_pieces<Sums::pieces>(at);
    acc.is_written = true;
  }

  template <class T, int m, int n, int warpgroups_per_tile>
  TILE_FN void store(const OutputView<T, m, n>& view, const Accumulator<m, n, warpgroups_per_tile>& acc, Row row,
                     Col col) {
    const int first = static_cast<int>(row.begin) + row_part * (m / warpgroups_per_tile),
              column = static_cast<int>(col.begin);
    if (view.target.stores_in_bulk && epilogue_steps.end - epilogue_steps.first == epilogue_steps_of<Kernel> &&
        is_in_group(first, column, m / warpgroups_per_tile)) {
      store_bulk(view, acc, first, column);
      if constexpr (scatters_rows<Kernel>)
        if (leads()) signal_stored_chunks(view, m / warpgroups_per_tile, first, column);
    } else {
      wait_for_buffers<Kernel>(*this);
      store_with_epilogue(view, acc, first, column);
    }
  }
  // The same for sums of int32. Unless the results are int32, too, the caller has replaced the sums by the bits of f32
  // (`convert_to_floats`). Results of int32 have a loop of their own, because one for all results needs more registers.
  template <class T, int m, int n, int warpgroups_per_tile>
  TILE_FN void store(const OutputView<T, m, n>& view, const Accumulator<m, n, warpgroups_per_tile, std::int32_t>& acc,
                     Row row, Col col) {
    Accumulator<m, n, warpgroups_per_tile> sums;
#pragma unroll
    for (int i = 0; i < sums.size; ++i) sums.v[i] = __int_as_float(acc.v[i]);
    if (view.target.format != StorageFormat::int32) return store(view, sums, row, col);
    constexpr int high = m / warpgroups_per_tile;
    const int first = static_cast<int>(row.begin) + row_part * high, column = static_cast<int>(col.begin);
    wait_for_buffers<Kernel>(*this);
    if (view.target.aligned_fours)
      store_runs<RunDirection::row, high, n, false>(view, sums.v, first, column);
    else
      store_runs<RunDirection::column, high, n, false>(view, sums.v, first, column);
  }
  // Stores the rounded sums in bulk, for kernels without an epilogue.
  template <class T, int m, int n, int warpgroups_per_tile>
  TILE_FN void store_rounded(const OutputView<T, m, n>& view, const Accumulator<m, n, warpgroups_per_tile>& acc,
                             Row row, Col col) {
    store_bulk(view, acc, static_cast<int>(row.begin) + row_part * (m / warpgroups_per_tile),
               static_cast<int>(col.begin));
  }

 private:
  static constexpr bool swap = Kernel::config.swap;

  // True if all rows of this consumer's part of a tile are in one group of a grouped product.
  TILE_FN bool is_in_group(int row, int col, int high) const {
    if constexpr (is_grouped<Kernel>) return (swap ? col + Kernel::config.n : row + high) <= this->row_end;
    return true;
  }
  struct OutputBounds {
    Index rows, cols;
  };
  // Returns the rows and columns of D that may be written.
  template <class View> TILE_FN decltype(auto) output_bounds(const View& view) const {
    if constexpr (is_grouped<Kernel>)
      return OutputBounds{this->row_end, view.cols};
    else
      return (view);
  }

  // Operations for a scattered result (shared_rows.h), called by the consumer's first thread, which stores. A
  // consumer's part of a tile belongs to one or two chunks, side by side.
  template <class View> TILE_FN static int column_end(const View& view, int col) {
    const int cols = static_cast<int>(view.cols);
    return cols - col < Kernel::config.n ? cols : col + Kernel::config.n;
  }
  template <class View> TILE_FN void wait_for_peers(const View& view, int row, int col) const {
    const ScatteredRows& rows = peer_rows->scattered;
    const int end = column_end(view, col);
    if (rows.rows == 0 || end <= col) return;
    while (read_acquire_system(rows.ready_flag) == 0) {}
    if (rows.adds_to_row(row)) {
      int column_chunk = rows.chunk_in_shard(0, col), chunk = rows.chunk_number(row, col) - rows.chunks_per_shard;
      for (int next = column_chunk * rows.cols; next < end; next += rows.cols, ++column_chunk, ++chunk) {
        const int all = rows.rows * rows.chunk_width(column_chunk, static_cast<int>(view.cols));
        const std::uint32_t* const word = rows.arrived + rows.flag_index(chunk);
        while (read_acquire_system(word) != static_cast<std::uint32_t>(rows.copies_chunks ? 1 : all)) {}
      }
    }
    fence_global_proxy();
  }
  template <class View> TILE_FN void signal_stored_chunks(const View& view, int height, int row, int col) const {
    const ScatteredRows& rows = peer_rows->scattered;
    const int end = column_end(view, col);
    if (rows.rows == 0 || end <= col) return;
    const bool is_last = rows.is_in_last_shard(rows.walk_position(row));
    if (is_last && !rows.counts_last_shard) return;
    wait_for_all_stores();
    std::uint32_t* const words = is_last || rows.copies_chunks ? rows.chunk_counts : rows.next_rank_counts;
    int chunk = rows.chunk_number(row, col);
    for (int next = col; col < end; col = next, ++chunk) {
      next = (rows.chunk_in_shard(0, col) + 1) * rows.cols;
      if (next > end) next = end;
      add_release_system(words + rows.flag_index(chunk), static_cast<std::uint32_t>(height * (next - col)));
    }
  }

  template <class T, int m, int n, int warpgroups_per_tile>
  TILE_FN void store_bulk(const OutputView<T, m, n>& view, const Accumulator<m, n, warpgroups_per_tile>& acc, int row,
                          int col) {
    constexpr int swizzled = swizzle_elements<T>;
    constexpr int bytes = (swap ? n : 64) * swizzle_bytes;
#pragma unroll
    for (int i = 0; i < m / warpgroups_per_tile / 64; ++i)
#pragma unroll
      for (int c = 0; c < (swap ? 1 : (n + swizzled - 1) / swizzled); ++c) {
        constexpr int rest = n % swizzled;
        const bool tail = !swap && rest != 0 && c == n / swizzled;
        const std::uint32_t out = shared_address(staging) + buffer * bytes;
        const float* const v = acc.v + i * (n / 2) + c * (swizzled / 2);
        auto write = [&] {
          if constexpr (swap)
            stage_transposed<T, n>(out, v);
          else if (tail)
            stage_dense<T, rest>(out, v);
          else
            stage_swizzled<T>(out, v);
        };
        auto send = [&] {
          const TargetOutput& o = view.target;
          const int from = row + i * 64;
          const CUtensorMap* const map = tail ? &o.tail : &o.map;
          const int product = is_grouped<Kernel> ? 0 : this->batch;
          const BoxOrigin box = swap ? BoxOrigin{from, col, product} : BoxOrigin{col + c * swizzled, from, product};
          if constexpr (scatters_rows<Kernel>) {
            if (i == 0 && c == 0) wait_for_peers(view, row, col);
            const ScatteredRows& rows = peer_rows->scattered;
            auto position = RowWalk::ShardPosition{0, from};
            const CUtensorMap* to = map;
            bool adds = o.adds_to_output;
            if (rows.rows > 0) {
              adds = rows.adds_to_row(from);
              if (!rows.copies_chunks || rows.is_in_last_shard(rows.walk_position(from))) {
                position = rows.shard_position(from);
                to = peer_rows->shards + position.shard;
              }
            }
            store_or_add_box(to, out, {box.x, position.row, box.batch}, adds);
          } else {
            store_or_add_box(map, out, box, o.adds_to_output);
          }
        };
        store_through_buffer<Kernel::config.staging>(*this, write, send);
      }
  }

  // Writes 64 x 64 rounded sums to shared memory, as 64 rows of 128 bytes, swizzled in 16-byte units.
  template <class T> TILE_FN void stage_swizzled(std::uint32_t out, const float* v) const {
    const int lane = threadIdx.x % 32, r = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int unit = j * 2 + lane / 16;
      const float* const x = v + j * 8;
      store_matrix4(out + r * 128 + (unit ^ (r % 8)) * 16, pack_pair<T>(x[0], x[1]), pack_pair<T>(x[2], x[3]),
                    pack_pair<T>(x[4], x[5]), pack_pair<T>(x[6], x[7]));
    }
  }
  template <class T, int cols> TILE_FN void stage_dense(std::uint32_t out, const float* v) const {
    const int lane = threadIdx.x % 32, r = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < cols / 16; ++j) {
      const float* const x = v + j * 8;
      store_matrix4(out + r * (cols * static_cast<int>(sizeof(T))) + (j * 2 + lane / 16) * 16, pack_pair<T>(x[0], x[1]),
                    pack_pair<T>(x[2], x[3]), pack_pair<T>(x[4], x[5]), pack_pair<T>(x[6], x[7]));
    }
  }
  // Writes the transpose of 64 rows x `cols` columns of sums to shared memory, rounded and swizzled.
  template <class T, int cols> TILE_FN void stage_transposed(std::uint32_t out, const float* v) const {
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < cols / 8; ++j) {
      const float* const x = v + j * 4;
      const int r = j * 8 + lane % 8, unit = warp * 2 + lane / 8 % 2;
      store_matrix2_transposed(out + r * 128 + (unit ^ (r % 8)) * 16, pack_pair<T>(x[0], x[1]),
                               pack_pair<T>(x[2], x[3]));
    }
  }

  template <class T, int m, int n, int warpgroups_per_tile>
  TILE_FN void store_with_epilogue(const OutputView<T, m, n>& view, const Accumulator<m, n, warpgroups_per_tile>& acc,
                                   int row, int col) {
    if (view.target.vector_epilogue)
      store_vectors<T, m / warpgroups_per_tile, n>(view, acc.v, row, col);
    else if (view.target.aligned_fours)
      store_runs<RunDirection::row, m / warpgroups_per_tile, n>(view, acc.v, row, col);
    else
      store_runs<RunDirection::column, m / warpgroups_per_tile, n>(view, acc.v, row, col);
  }

  // A thread's eight sums in an epilogue step: eight columns of a row if `across`, else eight rows of a column.
  template <bool across, int n> struct EpilogueStep {
    static constexpr int steps_per_row = steps_across<Kernel>;
    int r, c;
    TILE_FN EpilogueStep() {
      const int lane = threadIdx.x % 32;
      r = across ? (swap ? lane % 16 : lane / 2) : lane / 16 * 8;
      c = across ? (swap ? lane / 16 : lane % 2) * 8 : lane % 16;
    }
    TILE_FN int row(int step) const { return step / steps_per_row * 64 + threadIdx.x % 128 / 32 * 16 + r; }
    TILE_FN int col(int step) const { return step % steps_per_row * 16 + c; }
    TILE_FN bool is_inside(int step) const {
      return n % 16 == 0 || step % steps_per_row + 1 < steps_per_row || c < n % 16;
    }
    TILE_FN EpilogueVector<8> read_step(float* mine, const float* v, int step) const {
      __syncwarp();  // the warp has read the previous 16 x 16 sums
      call_with_constant<0, epilogue_steps_of<Kernel>>(step, [&]<int i>() {
        constexpr RegisterRange registers = step_registers<Kernel>(i);
        stage_sums<registers.count * 2>(mine, v + registers.first);
      });
      __syncwarp();
      return read_sums<across>(mine, r, c);
    }
  };
  TILE_FN float* warp_staging() const { return reinterpret_cast<float*>(staging) + threadIdx.x % 128 / 32 * 256; }

  // Eight contiguous elements of D, which are all inside or all outside D.
  struct EightElements {
    unsigned batch, y, x;
    bool inside;
    TILE_FN unsigned line_offset(Index row_stride, Index batch_stride) const {
      return batch * static_cast<unsigned>(batch_stride) + y * static_cast<unsigned>(row_stride);
    }
    // Loads the operand at these elements: pairs of T, eight floats, or one float that all of them share.
    template <class T> TILE_FN void load_operand(const EpilogueInput& p, std::uint32_t (&to)[8]) const {
      if (!p.data || !inside) return;
      const unsigned line = line_offset(p.row_stride, p.batch_stride);
      if (p.format != StorageFormat::f32) return copy_words<4>(to, static_cast<const T*>(p.data) + line + x);
      const float* const floats = static_cast<const float*>(p.data) + line;
      if (p.col_stride != 0) return copy_words<8>(to, floats + x);
      to[0] = __float_as_uint(*floats);
    }
    template <class T>
    TILE_FN static EpilogueVector<8> widen_operand(const EpilogueInput& p, const std::uint32_t (&from)[8]) {
      if (p.format != StorageFormat::f32) return widen_pairs<T, 8>(from);
      const bool is_shared = p.col_stride == 0;
      return EpilogueVector<8>::of([&](int q) { return __uint_as_float(is_shared ? from[0] : from[q]); });
    }
  };

  // Fast epilogue: all operands have type T or are f32, with aligned 16-byte units along D's rows, or with one f32 for
  // each row; and offsets fit in 32 bits. If enough registers are free, the operands of a step are loaded during the
  // previous one.
  template <class T, int rows, int n, class View>
  TILE_FN void store_vectors(const View& view, const float* v, int row, int col) {
    constexpr bool loads_early = rows / 64 * n / 2 < 176;
    const EpilogueStep<!swap, n> mine;
    const TargetOutput& o = view.target;
    const auto eight = [&](int group, int across) {
      const int r = row + group * 64 + mine.row(0), c = col + mine.col(across), y = swap ? c : r, x = swap ? r : c;
      const bool inside =
          mine.is_inside(across) && y < static_cast<int>(output_bounds(view).rows) && x < static_cast<int>(view.cols);
      return EightElements{static_cast<unsigned>(this->batch), static_cast<unsigned>(y), static_cast<unsigned>(x),
                           inside};
    };
    std::uint32_t operands[4][8] = {};
    const auto load_operands = [&](const EightElements& here) {
      here.template load_operand<T>(o.scale, operands[0]);
      here.template load_operand<T>(o.bias, operands[1]);
      here.template load_operand<T>(o.gate, operands[2]);
      here.template load_operand<T>(o.addend, operands[3]);
    };
    prefetch_to_l2<rows, n>(view, o.gate, row, col);
    prefetch_to_l2<rows, n>(view, o.addend, row, col);
    int step = epilogue_steps.first, group = step / mine.steps_per_row, across = step % mine.steps_per_row;
    EightElements here = eight(group, across);
    if (loads_early) load_operands(here);
#pragma unroll 1
    for (; step < epilogue_steps.end; ++step) {
      const EpilogueVector<8> sums = mine.read_step(warp_staging(), v, step);
      const EpilogueVector<8> z = tile::apply_epilogue<Math>(o, sums, [&](const EpilogueInput& p) {
        if (loads_early) {
          const int q = &p == &o.scale ? 0 : &p == &o.bias ? 1 : &p == &o.gate ? 2 : 3;
          return here.template widen_operand<T>(p, operands[q]);
        }
        std::uint32_t loaded[8] = {};
        here.template load_operand<T>(p, loaded);
        return here.template widen_operand<T>(p, loaded);
      });
      const std::uint32_t two[4] = {pack_pair<T>(z.v[0], z.v[1]), pack_pair<T>(z.v[2], z.v[3]),
                                    pack_pair<T>(z.v[4], z.v[5]), pack_pair<T>(z.v[6], z.v[7])};
      if (here.inside) write_words<4>(view.data + here.line_offset(view.row_stride, view.batch_stride) + here.x, two);
      if (++across == mine.steps_per_row) {
        across = 0;
        ++group;
      }
      here = eight(group, across);
      if (loads_early && step + 1 < epilogue_steps.end) load_operands(here);
    }
  }

  // General epilogue: a thread stores eight contiguous elements of a row of D if they are aligned, else eight elements
  // of a column, so that a warp's stores are contiguous. With `swap`, D is the transpose of the tile. Unless
  // `has_epilogue`, the sums are stored as they are.
  template <RunDirection run, int rows, int n, bool has_epilogue = true, class View>
  TILE_FN void store_runs(const View& view, const float* v, int row, int col) {
    const EpilogueStep<(run == RunDirection::row) != swap, n> mine;
#pragma unroll 1
    for (int step = epilogue_steps.first; step < epilogue_steps.end; ++step) {
      const EpilogueVector<8> sums = mine.read_step(warp_staging(), v, step);
      const int r = row + mine.row(step), c = col + mine.col(step);
      const auto at = EpilogueRun<8, run>::in(output_bounds(view), swap ? c : r, swap ? r : c, this->batch);
      if (mine.is_inside(step) && at.inside_count > 0) apply_and_store<has_epilogue>(view, sums, at);
    }
  }
  // Prefetches the tile's part of an operand into the L2.
  template <int rows, int n, class View>
  TILE_FN void prefetch_to_l2(const View& view, const EpilogueInput& p, Index row, Index col) const {
    if (swap || !p.data || p.row_stride == 0 || p.col_stride == 0) return;
    const int line = 128 / bytes_of(p.format), r = threadIdx.x % 128;
    if (r >= rows || row + r >= view.rows) return;
    const char* const data = static_cast<const char*>(p.data) +
                             (this->batch * p.batch_stride + (row + r) * p.row_stride + col) * bytes_of(p.format);
#pragma unroll 1
    for (int x = 0; x < n && col + x < view.cols; x += line)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(data + x * bytes_of(p.format)));
  }
  // Calls do_it<i>() with i, first <= i < end, as a constant, because registers can only be indexed by constants.
  template <int first, int end, class Do> TILE_FN static void call_with_constant(int i, const Do& do_it) {
    constexpr int middle = (first + end) / 2;
    if constexpr (end - first == 1)
      do_it.template operator()<first>();
    else if (i < middle)
      call_with_constant<first, middle>(i, do_it);
    else
      call_with_constant<middle, end>(i, do_it);
  }
};

}  // namespace ridge::tile::sm90

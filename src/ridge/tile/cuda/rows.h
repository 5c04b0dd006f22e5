// Runs row kernels (tile/rows.h) on a CUDA device with rows in registers: a row is distributed over part of a warp, a
// warp, a block or a cluster of blocks, is read once and stays in registers for all passes. Softmax of 131,072 columns
// uses eight blocks of 256 lanes whose warps exchange two numbers. A generated kernel (ops/rows/source.cc) chooses the
// layout and adds the operations before and after the row kernel. A block processes one row and ends; starting a
// cluster takes longer, so clusters are persistent and process several rows.
#pragma once

#include "ridge/tile/cuda/passes.h"
#include "ridge/tile/cuda/prefetch.h"

namespace ridge::tile::cuda {

// Masking of a lane's elements outside the row. full: no masking; vectors: masks full vectors; ragged: masks single
// elements; shifted: the row begins unaligned, and its first vector is aligned and has elements before the row.
enum class TailMode { full, vectors, ragged, shifted };

// Layout of a row on `lanes` lanes of one or several blocks of `threads` threads; consecutive lanes own consecutive
// vectors.
template <int lanes_, int threads_, int blocks_, int vectors_, int width_, TailMode tail_mode_, bool persistent_>
struct LaneLayout {
  static constexpr int lanes = lanes_, threads = threads_, blocks = blocks_, vectors = vectors_, width = width_;
  static constexpr int warps = threads / 32, elements = vectors * width;
  static constexpr TailMode tail_mode = tail_mode_;
  static constexpr bool persistent = persistent_;  // true if the block or cluster processes several rows
};

template <class S, NumberFormat format> struct LanePacks { Pack<format, S::width> of[S::vectors]; };

// A tensor whose rows begin at element `offset(row)`, a multiple of `aligned_elements`.
template <NumberFormat format_, int aligned_elements_, CachePolicy policy_, class Offset> struct TensorRows {
  static constexpr NumberFormat format = format_;
  static constexpr int aligned_elements = aligned_elements_;
  static constexpr CachePolicy policy = policy_;
  char* data;
  Offset offset;
};
template <NumberFormat format, int aligned_elements = 1, CachePolicy policy = CachePolicy::cached, class Offset>
RIDGE_FN TensorRows<format, aligned_elements, policy, Offset> tensor_rows(char* data, Offset offset) {
  return {data, offset};
}

// Storage for the exchange of partial results. A persistent block alternates between two buffers, because warps may
// still read the numbers of the previous row.
template <int warps, int blocks, bool persistent> struct ExchangeStorage {
  using type = ClusterExchange<warps, blocks>;
};
template <int warps, bool persistent> struct ExchangeStorage<warps, 1, persistent> {
  using type = float[persistent ? 2 * warps : warps];
};

// A lane's elements in local memory, so that a loop can index them.
template <class At> struct LaneElements {
  static constexpr int unroll_count = 1;
  const At at;  // a copy, because a reference would force the original into memory
  const u32 iteration;
  typename At::RowElements x;
  typename At::RowElements y{};

  RIDGE_FN static i64 count() { return At::elements; }
  RIDGE_FN bool is_inside(i64 i) const { return at.is_inside(static_cast<int>(i)); }
  RIDGE_FN float read(i64 i) const { return x[static_cast<int>(i)]; }
  RIDGE_FN static float weight(i64) { return 1; }
  RIDGE_FN void write(i64 i, float each) { y[static_cast<int>(i)] = each; }
  template <class F, int slot> RIDGE_FN float reduce_all_lanes(float each) const {
    return at.template reduce_all_lanes<F, slot>(each, iteration);
  }
  template <int slot> RIDGE_FN float first_element() const {
    return reduce_all_lanes<SumOp, slot>(at.is_first_lane() ? x[at.row_start_in_lane()] : 0);
  }
};

// A row in registers: each lane processes all of its elements in one call of a pass.
template <class Rows, int count> struct RegisterRow {
  const Rows& rows;
  u32& rescaled_rows;
  using At = RowOperations<Rows::elements, count>;
  At at;

  // Runs the passes of a round. A lane sends its partial results of all passes before it waits for any total.
  template <class Kernel, int slot, int... pass>
  RIDGE_FN void run_round(PassList<pass...>, const typename Kernel::Globals& g, float* numbers) {
    ((numbers[pass] =
          rows.template reduce_own_elements<OpOf<Kernel, pass, At>>(run_pass<Kernel, pass>(at, g, numbers).of)),
     ...);
    (rows.template send_partial<OpOf<Kernel, pass, At>, slot + pass>(numbers[pass], rows.iteration()), ...);
    rows.sync_lanes();
    ((numbers[pass] = FinalizeOf<Kernel, pass, At>{}(
          rows.template receive_total<OpOf<Kernel, pass, At>, slot + pass>(numbers[pass], rows.iteration()), g)),
     ...);
  }
  template <class Pass, class Before> RIDGE_FN void each_element(const Pass& pass, const Before&) { pass(at); }
  // True if x is true for any row of the warp. Rows that share a warp must take the same branch.
  RIDGE_FN static bool any_lane(bool x) {
    if constexpr (Rows::shares_warps) return __any_sync(0xffffffffu, x);
    return x;
  }
  template <class Kernel, int slot> RIDGE_FN void run_rescaled(const typename Kernel::Globals& g) {
    LaneElements<Rows> lane{rows, rescaled_rows++, at.x[0]};
    LoopedRow<LaneElements<Rows>>{lane}.template run_rescaled<Kernel, slot>(g);
    at.y = lane.y;
  }
};

template <class S> class RowOnLanes {
 public:
  static constexpr int elements = S::elements;
  static constexpr bool shares_warps = S::lanes < 32;
  using RowElements = cuda::RowElements<elements>;
  using PartialStorage = typename ExchangeStorage<S::warps, S::blocks, S::persistent>::type;

  template <int count> RIDGE_FN RowOnLanes(PartialStorage (&storage)[count], u32 columns) : storage_(storage) {
    if constexpr (S::blocks > 1) init_exchange(storage);
    lane_ = S::lanes <= 32 ? threadIdx.x % S::lanes : threadIdx.x;
    if constexpr (S::blocks > 1) lane_ += cluster_rank() * S::threads;
    columns_left_ = static_cast<int>(columns) - lane_ * S::width;
    if constexpr (is_shifted) columns_left_unshifted_ = columns_left_;
  }

  // Sets the distance of the row's first element from the aligned address before it.
  template <class Index> RIDGE_FN void begin_row(Index offset) {
    shift_ = shift_of(offset);
    columns_left_ = columns_left_unshifted_ + shift_;
  }
  template <class Index> RIDGE_FN static int shift_of(Index offset) {
    return static_cast<int>(offset & (S::width - 1));
  }

  template <class Index> RIDGE_FN Index first_row() const {
    if constexpr (S::lanes <= 32) return (blockIdx.x * static_cast<Index>(S::threads) + threadIdx.x) / S::lanes;
    return blockIdx.x / S::blocks;
  }
  template <class Index> RIDGE_FN Index next_row(Index row, Index after = 1) const {
    return row + after * (gridDim.x / S::blocks);
  }
  template <class Index, class F> RIDGE_FN void for_each_row(Index rows, const F& f) {
    Index row = first_row<Index>();
    if constexpr (S::lanes <= 32) {
      const Index team = threadIdx.x / S::lanes, teams = gridDim.x * static_cast<Index>(S::threads / S::lanes);
      do {
        has_row_ = row < rows;
        f(has_row_ ? row : 0);
        row += teams;
      } while (S::persistent && row - team < rows);
    } else if constexpr (S::persistent) {
      if constexpr (S::blocks > 1) cluster_wait();
      for (; row < rows; row = next_row(row), ++iteration_) f(row);
    } else {
      f(row);
    }
    if constexpr (S::blocks > 1) {  // a block must not end while others write to its shared memory
      cluster_arrive();
      cluster_wait();
    }
  }

  template <class T, class Index> RIDGE_FN LanePacks<S, T::format> read(const T& from, Index row) const {
    LanePacks<S, T::format> packs;
    const i64 at = from.offset(row) + lane_ * S::width - shift_;
    if constexpr (is_shifted) return read_shifted<T>(from.data, at);
#pragma unroll
    for (int k = 0; k < S::vectors; ++k) {
      const int count = columns_left_ - k * stride;
      if constexpr (S::tail_mode == TailMode::full)
        packs.of[k] = cuda::read<T::format, S::width, T::aligned_elements, T::policy>(from.data, at + k * stride);
      else if constexpr (S::tail_mode == TailMode::vectors)
        packs.of[k] =
            cuda::read<T::format, S::width, T::aligned_elements, T::policy>(from.data, at + k * stride, count > 0);
      else
        packs.of[k] = read_some<T::format, S::width, T::aligned_elements, T::policy>(from.data, at + k * stride, count);
    }
    return packs;
  }
  // Reads through shared memory: `prefetch` copies a row to a buffer, and `read_prefetched` reads the row as many
  // iterations later as the buffer has rows.
  template <int rows, class T>
  RIDGE_FN static PrefetchBuffer<S, T::format, rows> prefetch_buffer(const T&, const uint4* memory) {
    return {shared_address(memory) + threadIdx.x * async_copy_bytes};
  }
  template <class To, class T, class Index>
  RIDGE_FN void prefetch(const To& to, const T& from, Index row, u32 iteration, int shift = 0) const {
    const char* const data = from.data + (from.offset(row) + lane_ * S::width - shift) * i64{size_of<T::format>};
#pragma unroll
    for (int k = 0; k < S::vectors; ++k)
#pragma unroll
      for (int i = 0; i < To::copies; ++i) {
        int valid = To::elements_per_copy;
        if constexpr (S::tail_mode != TailMode::full)
          valid = min(max((is_shifted ? columns_left_unshifted_ + shift : columns_left_) - k * stride -
                              i * To::elements_per_copy,
                          0),
                      To::elements_per_copy);
        copy_async<async_copy_bytes>(to.address_of(iteration, k, i),
                                     data + k * stride * size_of<T::format> + i * async_copy_bytes,
                                     valid * size_of<T::format>);
      }
  }
  template <class To> RIDGE_FN LanePacks<S, To::format> read_prefetched(const To& from, u32 iteration) const {
    LanePacks<S, To::format> packs;
#pragma unroll
    for (int k = 0; k < S::vectors; ++k) packs.of[k] = from.load_pack(iteration, k);
    return packs;
  }
  template <class T> RIDGE_FN static ConstantRow<S, T::format> constant_buffer(const T&, const uint4* memory) {
    return {shared_address(memory)};
  }
  template <class To, class T> RIDGE_FN void copy_constant_row(const To& to, const T& from) const {
    constexpr int size = size_of<T::format>;
    const char* const data = from.data + from.offset(0) * i64{size};
    const auto vector = [&](int k, int lane) {
      const int column = (lane_ - static_cast<int>(threadIdx.x) + lane) * S::width + k * stride;
#pragma unroll
      for (int i = 0; i < S::width; i += To::elements_per_copy) {
        const int left = column < 0 ? 0 : columns_left_unshifted_ + lane_ * S::width - column - i;
        copy_async<To::piece>(to.address_of(k, lane) + i * size, data + (left > 0 ? column + i : 0) * size,
                              min(max(left, 0), To::elements_per_copy) * size);
      }
    };
#pragma unroll
    for (int k = 0; k < S::vectors; ++k) {
      vector(k, threadIdx.x);
      if (threadIdx.x == 0) vector(k, -1);
    }
    commit_row();
    wait_for_all_but<0>();
    __syncthreads();
  }
  template <class From> RIDGE_FN LanePacks<S, From::format> read_constant(const From& from) const {
    LanePacks<S, From::format> packs;
#pragma unroll
    for (int k = 0; k < S::vectors; ++k) packs.of[k] = from.load_pack(k, shift_);
    return packs;
  }
  template <NumberFormat format> RIDGE_FN RowElements unpack(const LanePacks<S, format>& packs) const {
    return each_element([&](int i) { return packs.of[i / S::width][i % S::width]; });
  }
  template <class T, class Index> RIDGE_FN RowElements load(const T& from, Index row) const {
    return unpack(read(from, row));
  }
  template <class T, class Index> RIDGE_FN float load_one(const T& from, Index row) const {
    return read_one<T::format>(from.data, from.offset(row));
  }
  template <class T, class Index> RIDGE_FN void store(const T& to, Index row, const RowElements& x) const {
    if (!has_row_) return;
    const i64 at = to.offset(row) + lane_ * S::width - shift_;
#pragma unroll
    for (int k = 0; k < S::vectors; ++k) {
      float y[S::width];
#pragma unroll
      for (int i = 0; i < S::width; ++i) y[i] = x[k * S::width + i];
      if (is_shifted && is_cut(k))
        for_each_inside(k, [&](int i) { write_one<T::format>(to.data, at + k * stride + i, y[i]); });
      else if constexpr (S::tail_mode == TailMode::full || is_shifted)
        write<T::format, S::width, T::aligned_elements, T::policy>(to.data, at + k * stride, y);
      else
        write<T::format, S::width, T::aligned_elements, T::policy>(to.data, at + k * stride, y,
                                                                   columns_left_ - k * stride);
    }
  }
  template <class T, class Index> RIDGE_FN void store_one(const T& to, Index row, float x) const {
    if (has_row_ && is_first_lane()) write_one<T::format>(to.data, to.offset(row), x);
  }

  template <class F> RIDGE_FN RowElements each_element(const F& f) const {
    RowElements out;
#pragma unroll
    for (int i = 0; i < S::elements; ++i) out[i] = f(i);
    return out;
  }
  RIDGE_FN RowElements broadcast(float x) const {
    return each_element([&](int) { return x; });
  }

  // Column sums: `add_column_sums` adds a row to this lane's sums; `store_column_sums` adds the sums of the block or
  // cluster and stores them as a row of `to`.
  RIDGE_FN void add_column_sums(RowElements& sums, const RowElements& x) const {
#pragma unroll
    for (int i = 0; has_row_ && i < S::elements; ++i) sums[i] += x[i];
  }
  template <class T> RIDGE_FN void store_column_sums(const T& to, RowElements sums) {
    if constexpr (S::lanes <= 32) {
      __shared__ float all[S::lanes * S::elements];
#pragma unroll
      for (int other = S::lanes; other < 32; other *= 2)
#pragma unroll
        for (int i = 0; i < S::elements; ++i) sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], other);
      for (int warp = 0; warp < S::warps; ++warp) {
        if (threadIdx.x / 32 == warp && threadIdx.x % 32 < S::lanes)
#pragma unroll
          for (int i = 0; i < S::elements; ++i) {
            float& one = all[i * S::lanes + lane_];
            one = sums[i] += warp == 0 ? 0 : one;
          }
        __syncthreads();
      }
      has_row_ = threadIdx.x / 32 == S::warps - 1 && threadIdx.x % 32 < S::lanes;
    }
    store(to, blockIdx.x / S::blocks, sums);
  }

  // Returns the reduction of the full row. Lanes exchange partial results through storage[slot].
  template <class F, int slot> RIDGE_FN float reduce_row(const RowElements& x) const {
    return reduce_all_lanes<F, slot>(reduce_own_elements<F>(x), iteration_);
  }
  template <class F> RIDGE_FN float reduce_own_elements(const RowElements& x) const {
    RowElements some = each_element(
        [&](int i) { return S::tail_mode == TailMode::full || is_inside(i) ? x[i] : __uint_as_float(F::identity); });
    return reduce_elements<F>(some.of);
  }

  // Runs a row kernel on the row x and the further inputs `others`. `rescaled_rows` counts the rows that this cluster
  // has rescaled.
  template <class Kernel, int slot, class... Parts>
  RIDGE_FN auto run_row_kernel(const RowElements& x, const typename Kernel::Globals& g, u32& rescaled_rows,
                               const Parts&... others) const {
    RegisterRow<RowOnLanes, 1 + sizeof...(others)> row{*this, rescaled_rows, {{x, others...}}};
    run_passes<Kernel, slot, true>(row, g);
    if constexpr (tile::is_row_reduction<Kernel>)
      return row.at.number;
    else
      return row.at.y;
  }

  RIDGE_FN bool is_inside(int i) const {
    if (is_shifted && lane_ == 0 && i < shift_) return false;
    return i / S::width * stride + i % S::width < columns_left_;
  }
  RIDGE_FN bool is_first_lane() const { return lane_ == 0; }
  // Returns the index of the row's first element among the elements of lane 0.
  RIDGE_FN int row_start_in_lane() const { return is_shifted ? shift_ : 0; }
  template <class F, int slot> RIDGE_FN float reduce_all_lanes(float x, u32 iteration) const {
    send_partial<F, slot>(x, iteration);
    sync_lanes();
    return receive_total<F, slot>(x, iteration);
  }
  // send_partial, sync_lanes and receive_total are the steps of `reduce_all_lanes`; separate calls let several numbers
  // share one barrier.
  template <class F, int slot> RIDGE_FN void send_partial(float x, u32 iteration) const {
    if constexpr (S::lanes > 32 && S::blocks == 1) write_warp_partial<F>(x, warp_storage(slot, iteration));
    if constexpr (S::blocks > 1) {
      if constexpr (slot == 0 && !S::persistent) cluster_wait();
      send_to_cluster<F>(x, storage_[slot], iteration);
    }
  }
  RIDGE_FN void sync_lanes() const {
    if constexpr (S::lanes > 32 && S::blocks == 1) __syncthreads();
  }
  template <class F, int slot> RIDGE_FN float receive_total(float x, u32 iteration) const {
    if constexpr (S::lanes <= 32) return reduce_lanes<F, S::lanes>(x);
    if constexpr (S::lanes > 32 && S::blocks == 1)
      return reduce_warp_partials<F, S::warps>(warp_storage(slot, iteration));
    if constexpr (S::blocks > 1) return reduce_from_cluster<F>(storage_[slot], iteration);
  }
  RIDGE_FN u32 iteration() const { return iteration_; }

 private:
  static constexpr int stride = S::lanes * S::width;
  static constexpr bool is_shifted = S::tail_mode == TailMode::shifted;

  RIDGE_FN float* warp_storage(int slot, u32 iteration) const {
    if constexpr (S::lanes > 32 && S::blocks == 1)
      return storage_[slot] + (S::persistent ? iteration % 2 * S::warps : 0);
    return nullptr;
  }

  // True if a vector of a shifted row has elements outside the row.
  RIDGE_FN bool is_cut(int k) const {
    return columns_left_ - k * stride < S::width || (k == 0 && lane_ == 0 && shift_ > 0);
  }
  template <class F> RIDGE_FN void for_each_inside(int k, const F& f) const {
#pragma unroll
    for (int i = 0; i < S::width; ++i)
      if (is_inside(k * S::width + i)) f(i);
  }
  // Reads full vectors first, all concurrently. Vectors at the ends of the row, and unaligned tensors, are read by
  // elements afterwards.
  template <class T> RIDGE_FN LanePacks<S, T::format> read_shifted(const char* data, i64 at) const {
    constexpr bool in_vectors = T::aligned_elements > 1;
    LanePacks<S, T::format> packs;
#pragma unroll
    for (int k = 0; k < S::vectors; ++k)
      packs.of[k] = cuda::read<T::format, S::width, T::aligned_elements, T::policy>(data, at + k * stride,
                                                                                    in_vectors && !is_cut(k));
#pragma unroll
    for (int k = 0; k < S::vectors; ++k)
      if (!in_vectors || is_cut(k))
#pragma unroll
        for (int i = 0; i < S::width; ++i) {
          const bool exists = is_inside(k * S::width + i);
          const char* const address = data + (at + k * stride + i) * size_of<T::format>;
          if constexpr (T::format == NumberFormat::f32) {
            u32 one;
            read_bytes<4, CachePolicy::cached>(&one, address, exists);
            packs.of[k].word[i] |= one;
          } else {
            packs.of[k].word[i / 2] |= static_cast<u32>(read_16_bits(address, exists)) << (i % 2 * 16);
          }
        }
    return packs;
  }

  PartialStorage* const storage_;
  int lane_, columns_left_, columns_left_unshifted_ = 0, shift_ = 0;
  u32 iteration_ = 0;
  bool has_row_ = true;
};

}  // namespace ridge::tile::cuda

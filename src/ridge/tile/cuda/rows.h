// Runs row kernels (tile/rows.h) on a CUDA device with rows in registers: a row is distributed over part of a warp, a
// warp, a block or a cluster of blocks, is read once and stays in registers for all passes. Softmax of 131,072 columns
// uses eight blocks of 256 lanes whose warps exchange two numbers. A generated kernel (ops/rows/source.cc) chooses the
// layout and adds the operations before and after the row kernel. A block processes one row and ends; starting a
// cluster takes longer, so clusters are persistent and process several rows.
#pragma once

#include "ridge/tile/cuda/passes.h"
#include "ridge/tile/cuda/prefetch.h"

namespace ridge::device {

// Masking of a lane's elements at the end of a row. full: none; vectors: full vectors; ragged: single elements;
// shifted: rows with unaligned begin, whose first vector is aligned and contains elements before the row.
enum class Extent { whole, vectors, ragged, shifted };

// Layout of a row on `lanes` lanes of one or several blocks of `threads` threads; consecutive lanes own consecutive
// vectors.
template <int lanes_, int threads_, int blocks_, int vectors_, int width_, Extent extent_, bool resident_>
struct Spread {
  static constexpr int lanes = lanes_, threads = threads_, blocks = blocks_, vectors = vectors_, width = width_;
  static constexpr int warps = threads / 32, elements = vectors * width;
  static constexpr Extent extent = extent_;
  static constexpr bool resident = resident_;  // true if the block or cluster processes several rows
};

template <class S, Form form> struct Packs { Pack<form, S::width> of[S::vectors]; };

// A tensor whose rows begin at `offset(row)`, a multiple of `aligned_elements`.
template <Form form_, int together_, Use use_, class Offset> struct Tensor {
  static constexpr Form form = form_;
  static constexpr int together = together_;
  static constexpr Use use = use_;
  char* data;
  Offset offset;
};
template <Form form, int together = 1, Use use = Use::kept, class Offset>
RIDGE_FN Tensor<form, together, use, Offset> tensor(char* data, Offset offset) {
  return {data, offset};
}

// Storage for the exchange of partial results. A persistent block alternates between two buffers, because warps may
// still read the numbers of the previous row.
template <int warps, int blocks, bool resident> struct PlaceOf { using type = Exchange<warps, blocks>; };
template <int warps, bool resident> struct PlaceOf<warps, 1, resident> {
  using type = float[resident ? 2 * warps : warps];
};

// A lane's elements in memory, so that a loop can index them.
template <class At> struct LaneAt {
  static constexpr int at_once = 1;
  const At at;  // a copy, because a reference would force the original into memory
  const u32 turn;
  typename At::Part x;
  typename At::Part y{};

  RIDGE_FN static i64 count() { return At::elements; }
  RIDGE_FN bool inside(i64 i) const { return at.inside(static_cast<int>(i)); }
  RIDGE_FN float read(i64 i) const { return x[static_cast<int>(i)]; }
  RIDGE_FN static float weight(i64) { return 1; }
  RIDGE_FN void write(i64 i, float each) { y[static_cast<int>(i)] = each; }
  template <class F, int slot> RIDGE_FN float over(float each) const {
    return at.template over_lanes<F, slot>(each, turn);
  }
  template <int slot> RIDGE_FN float first() const {
    return over<Sum, slot>(at.holds_first() ? x[at.first_held()] : 0);
  }
};

// A row of which a lane processes all of its elements together.
template <class Rows, int count> struct HeldRow {
  const Rows& rows;
  u32& again;
  using At = TextAt<Rows::elements, count>;
  At at;

  // Sends this lane's partial results of all passes before it waits for any total.
  template <class Text, int slot, int... pass>
  RIDGE_FN void leave(Passes<pass...>, const typename Text::Globals& g, float* numbers) {
    ((numbers[pass] = rows.template of_held<JoinedBy<Text, pass, At>>(at_pass<Text, pass>(at, g, numbers).of)), ...);
    (rows.template tell<JoinedBy<Text, pass, At>, slot + pass>(numbers[pass], rows.turn()), ...);
    rows.meet();
    ((numbers[pass] = LeftBy<Text, pass, At>{}(
          rows.template hear<JoinedBy<Text, pass, At>, slot + pass>(numbers[pass], rows.turn()), g)),
     ...);
  }
  template <class Pass, class Before> RIDGE_FN void each(const Pass& pass, const Before&) { pass(at); }
  // Several rows in a warp must take the same branch; otherwise all lanes have the same row and the same numbers.
  RIDGE_FN static bool any(bool x) {
    if constexpr (Rows::shares_warps) return __any_sync(0xffffffffu, x);
    return x;
  }
  template <class Text, int slot> RIDGE_FN void in_units(const typename Text::Globals& g) {
    LaneAt<Rows> lane{rows, again++, at.x[0]};
    LoopedRow<LaneAt<Rows>>{lane}.template in_units<Text, slot>(g);
    at.y = lane.y;
  }
};

template <class S> class RowAt {
 public:
  static constexpr int elements = S::elements;
  static constexpr bool shares_warps = S::lanes < 32;
  using Part = device::Part<elements>;
  using Place = typename PlaceOf<S::warps, S::blocks, S::resident>::type;

  template <int count> RIDGE_FN RowAt(Place (&places)[count], u32 columns) : places_(places) {
    if constexpr (S::blocks > 1) prepare(places);
    lane_ = S::lanes <= 32 ? threadIdx.x % S::lanes : threadIdx.x;
    if constexpr (S::blocks > 1) lane_ += block_of_cluster() * S::threads;
    left_ = static_cast<int>(columns) - lane_ * S::width;
    if constexpr (is_shifted) room_ = left_;
  }

  // Sets the distance of the row's first element from the aligned address before it.
  template <class Index> RIDGE_FN void begin(Index offset) {
    shift_ = shift_of(offset);
    left_ = room_ + shift_;
  }
  template <class Index> RIDGE_FN static int shift_of(Index offset) {
    return static_cast<int>(offset & (S::width - 1));
  }

  template <class Index> RIDGE_FN Index first() const {
    if constexpr (S::lanes <= 32) return (blockIdx.x * static_cast<Index>(S::threads) + threadIdx.x) / S::lanes;
    return blockIdx.x / S::blocks;
  }
  template <class Index> RIDGE_FN Index next(Index row, Index after = 1) const {
    return row + after * (gridDim.x / S::blocks);
  }
  template <class Index, class F> RIDGE_FN void over_rows(Index rows, const F& f) {
    Index row = first<Index>();
    if constexpr (S::lanes <= 32) {
      const Index team = threadIdx.x / S::lanes, teams = gridDim.x * static_cast<Index>(S::threads / S::lanes);
      do {
        live_ = row < rows;
        f(live_ ? row : 0);
        row += teams;
      } while (S::resident && row - team < rows);
    } else if constexpr (S::resident) {
      if constexpr (S::blocks > 1) cluster_wait();
      for (; row < rows; row = next(row), ++turn_) f(row);
    } else {
      f(row);
    }
    if constexpr (S::blocks > 1) {  // a block must not end while others write to its shared memory
      cluster_arrive();
      cluster_wait();
    }
  }

  template <class T, class Index> RIDGE_FN Packs<S, T::form> read(const T& from, Index row) const {
    Packs<S, T::form> packs;
    const i64 at = from.offset(row) + lane_ * S::width - shift_;
    if constexpr (is_shifted) return read_shifted<T>(from.data, at);
#pragma unroll
    for (int k = 0; k < S::vectors; ++k) {
      const int count = left_ - k * stride;
      if constexpr (S::extent == Extent::whole)
        packs.of[k] = device::read<T::form, S::width, T::together, T::use>(from.data, at + k * stride);
      else if constexpr (S::extent == Extent::vectors)
        packs.of[k] = device::read<T::form, S::width, T::together, T::use>(from.data, at + k * stride, count > 0);
      else
        packs.of[k] = read_some<T::form, S::width, T::together, T::use>(from.data, at + k * stride, count);
    }
    return packs;
  }
  // The same through shared memory: `prefetch` copies a row to it, and `read_prefetched` reads the row some iterations
  // later, as many as the buffer holds rows.
  template <int rows, class T> RIDGE_FN static Prefetched<S, T::form, rows> prefetched(const T&, const uint4* room) {
    return {shared_place(room) + threadIdx.x * piece_bytes};
  }
  template <class To, class T, class Index>
  RIDGE_FN void prefetch(const To& to, const T& from, Index row, u32 turn, int shift = 0) const {
    const char* const data = from.data + (from.offset(row) + lane_ * S::width - shift) * i64{size_of<T::form>};
#pragma unroll
    for (int k = 0; k < S::vectors; ++k)
#pragma unroll
      for (int i = 0; i < To::pieces; ++i) {
        int there = To::in_piece;
        if constexpr (S::extent != Extent::whole)
          there = min(max((is_shifted ? room_ + shift : left_) - k * stride - i * To::in_piece, 0), To::in_piece);
        copy_async<piece_bytes>(to.place(turn, k, i), data + k * stride * size_of<T::form> + i * piece_bytes,
                                there * size_of<T::form>);
      }
  }
  template <class To> RIDGE_FN Packs<S, To::form> take(const To& from, u32 turn) const {
    Packs<S, To::form> packs;
#pragma unroll
    for (int k = 0; k < S::vectors; ++k) packs.of[k] = from.pack(turn, k);
    return packs;
  }
  template <class T> RIDGE_FN static KeptInOrder<S, T::form> kept_in_order(const T&, const uint4* room) {
    return {shared_place(room)};
  }
  template <class To, class T> RIDGE_FN void keep(const To& to, const T& from) const {
    constexpr int size = size_of<T::form>;
    const char* const data = from.data + from.offset(0) * i64{size};
    const auto vector = [&](int k, int lane) {
      const int column = (lane_ - static_cast<int>(threadIdx.x) + lane) * S::width + k * stride;
#pragma unroll
      for (int i = 0; i < S::width; i += To::in_piece) {
        const int left = column < 0 ? 0 : room_ + lane_ * S::width - column - i;
        copy_async<To::piece>(to.place(k, lane) + i * size, data + (left > 0 ? column + i : 0) * size,
                              min(max(left, 0), To::in_piece) * size);
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
  template <class From> RIDGE_FN Packs<S, From::form> take_shifted(const From& from) const {
    Packs<S, From::form> packs;
#pragma unroll
    for (int k = 0; k < S::vectors; ++k) packs.of[k] = from.pack(k, shift_);
    return packs;
  }
  template <Form form> RIDGE_FN Part unpacked(const Packs<S, form>& packs) const {
    return each([&](int i) { return packs.of[i / S::width][i % S::width]; });
  }
  template <class T, class Index> RIDGE_FN Part load(const T& from, Index row) const {
    return unpacked(read(from, row));
  }
  template <class T, class Index> RIDGE_FN float load_one(const T& from, Index row) const {
    return read_one<T::form>(from.data, from.offset(row));
  }
  template <class T, class Index> RIDGE_FN void store(const T& to, Index row, const Part& x) const {
    if (!live_) return;
    const i64 at = to.offset(row) + lane_ * S::width - shift_;
#pragma unroll
    for (int k = 0; k < S::vectors; ++k) {
      float y[S::width];
#pragma unroll
      for (int i = 0; i < S::width; ++i) y[i] = x[k * S::width + i];
      if (is_shifted && is_cut(k))
        each_there(k, [&](int i) { write_one<T::form>(to.data, at + k * stride + i, y[i]); });
      else if constexpr (S::extent == Extent::whole || is_shifted)
        write<T::form, S::width, T::together, T::use>(to.data, at + k * stride, y);
      else
        write<T::form, S::width, T::together, T::use>(to.data, at + k * stride, y, left_ - k * stride);
    }
  }
  template <class T, class Index> RIDGE_FN void store_one(const T& to, Index row, float x) const {
    if (live_ && holds_first()) write_one<T::form>(to.data, to.offset(row), x);
  }

  template <class F> RIDGE_FN Part each(const F& f) const {
    Part out;
#pragma unroll
    for (int i = 0; i < S::elements; ++i) out[i] = f(i);
    return out;
  }
  RIDGE_FN Part all(float x) const {
    return each([&](int) { return x; });
  }

  // Column sums: `add_column_sums` accumulates this lane's rows, `store_column_sums` reduces them over the block or
  // cluster and stores them as a row of `to`.
  RIDGE_FN void add(Part& sums, const Part& x) const {
#pragma unroll
    for (int i = 0; live_ && i < S::elements; ++i) sums[i] += x[i];
  }
  template <class T> RIDGE_FN void leave(const T& to, Part sums) {
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
      live_ = threadIdx.x / 32 == S::warps - 1 && threadIdx.x % 32 < S::lanes;
    }
    store(to, blockIdx.x / S::blocks, sums);
  }

  // Returns the reduction of the full row, exchanged through storage[slot].
  template <class F, int slot> RIDGE_FN float along(const Part& x) const {
    return over_lanes<F, slot>(of_held<F>(x), turn_);
  }
  template <class F> RIDGE_FN float of_held(const Part& x) const {
    Part some =
        each([&](int i) { return S::extent == Extent::whole || inside(i) ? x[i] : __uint_as_float(F::nothing); });
    return of_elements<F>(some.of);
  }

  // Runs a row kernel on these elements and on those of `others`. `rescaled_rows` counts the rows that this cluster has
  // rescaled.
  template <class Text, int slot, class... Parts>
  RIDGE_FN auto through(const Part& x, const typename Text::Globals& g, u32& again, const Parts&... others) const {
    HeldRow<RowAt, 1 + sizeof...(others)> row{*this, again, {{x, others...}}};
    go_through<Text, slot, true>(row, g);
    if constexpr (tile::leaves_number<Text>)
      return row.at.number;
    else
      return row.at.y;
  }

  RIDGE_FN bool inside(int i) const {
    if (is_shifted && lane_ == 0 && i < shift_) return false;
    return i / S::width * stride + i % S::width < left_;
  }
  RIDGE_FN bool holds_first() const { return lane_ == 0; }
  RIDGE_FN int first_held() const { return is_shifted ? shift_ : 0; }  // index of the row's first element in lane 0
  template <class F, int slot> RIDGE_FN float over_lanes(float x, u32 turn) const {
    tell<F, slot>(x, turn);
    meet();
    return hear<F, slot>(x, turn);
  }
  // The steps of `over_lanes` apart, so that several numbers share one barrier.
  template <class F, int slot> RIDGE_FN void tell(float x, u32 turn) const {
    if constexpr (S::lanes > 32 && S::blocks == 1) tell_block<F>(x, place_in_block(slot, turn));
    if constexpr (S::blocks > 1) {
      if constexpr (slot == 0 && !S::resident) cluster_wait();
      tell_cluster<F>(x, places_[slot], turn);
    }
  }
  RIDGE_FN void meet() const {
    if constexpr (S::lanes > 32 && S::blocks == 1) __syncthreads();
  }
  template <class F, int slot> RIDGE_FN float hear(float x, u32 turn) const {
    if constexpr (S::lanes <= 32) return of_lanes<F, S::lanes>(x);
    if constexpr (S::lanes > 32 && S::blocks == 1) return hear_block<F, S::warps>(place_in_block(slot, turn));
    if constexpr (S::blocks > 1) return hear_cluster<F>(places_[slot], turn);
  }
  RIDGE_FN u32 turn() const { return turn_; }

 private:
  static constexpr int stride = S::lanes * S::width;
  static constexpr bool is_shifted = S::extent == Extent::shifted;

  RIDGE_FN float* place_in_block(int slot, u32 turn) const {
    if constexpr (S::lanes > 32 && S::blocks == 1) return places_[slot] + (S::resident ? turn % 2 * S::warps : 0);
    return nullptr;
  }

  // True if a vector of a shifted row has elements outside the row.
  RIDGE_FN bool is_cut(int k) const { return left_ - k * stride < S::width || (k == 0 && lane_ == 0 && shift_ > 0); }
  template <class F> RIDGE_FN void each_there(int k, const F& f) const {
#pragma unroll
    for (int i = 0; i < S::width; ++i)
      if (inside(k * S::width + i)) f(i);
  }
  // Reads full vectors first, all concurrently; then the vectors at the ends, and unaligned tensors, by elements.
  template <class T> RIDGE_FN Packs<S, T::form> read_shifted(const char* data, i64 at) const {
    constexpr bool in_vectors = T::together > 1;
    Packs<S, T::form> packs;
#pragma unroll
    for (int k = 0; k < S::vectors; ++k)
      packs.of[k] =
          device::read<T::form, S::width, T::together, T::use>(data, at + k * stride, in_vectors && !is_cut(k));
#pragma unroll
    for (int k = 0; k < S::vectors; ++k)
      if (!in_vectors || is_cut(k))
#pragma unroll
        for (int i = 0; i < S::width; ++i) {
          const bool there = inside(k * S::width + i);
          const char* const place = data + (at + k * stride + i) * size_of<T::form>;
          if constexpr (T::form == Form::f32) {
            u32 one;
            read_piece<4, Use::kept>(&one, place, there);
            packs.of[k].word[i] |= one;
          } else {
            packs.of[k].word[i / 2] |= static_cast<u32>(read_half(place, there)) << (i % 2 * 16);
          }
        }
    return packs;
  }

  Place* const places_;
  int lane_, left_, room_ = 0, shift_ = 0;
  u32 turn_ = 0;
  bool live_ = true;
};

}  // namespace ridge::device

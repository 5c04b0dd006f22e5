// Runs a product kernel on Hopper. One thread of the last warpgroup fills the slots of a ring by the copy engine, and
// three of its warps load scales, if there are any; the other warpgroups multiply the slots, and the loads of the next
// tile overlap the stores of this one. ring.h has the order of the waits; this file implements its operations.
#pragma once

#include "ridge/tile/sm90/tile_operations.h"

namespace ridge::tile::sm90 {

// Arguments of a product besides its operands and epilogue, which Kernel::Globals holds.
struct ProductArgs {
  ProductShape sizes;
  bool prefetch_constants;  // true if constant operands may be read before earlier kernels have ended
  float* partial;           // partial sums of the splits of k
  std::uint32_t* arrived;   // counters of arrived splits, one per tile and thread group; zero between launches
  const int* starts;        // first rows of the groups of a grouped product (grouped_scheduler.h)
};

template <class Kernel> TILE_FN SchedulerOf<Kernel> make_scheduler(const ProductArgs& p, int rank) {
  constexpr auto c = Kernel::config;
  const TileShape tile_shape = {c.m, c.n, c.k, c.cluster_m, c.cluster_n, c.can_split()};
  const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  if constexpr (is_grouped<Kernel>)
    return GroupedScheduler(tile_shape, p.sizes, {p.starts, c.swap}, blocks, block);
  else
    return TileScheduler(tile_shape, p.sizes, blocks, block, rank);
}

template <class Kernel> struct PipelineStorage {
  static constexpr auto config = Kernel::config;
  static constexpr int bulk_bytes = config.staging * (config.swap ? config.n : 64) * swizzle_bytes;
  static constexpr int staging_bytes = bulk_bytes > 8192 ? (bulk_bytes + 1023) / 1024 * 1024 : 8192;
  typename Kernel::Stage ring[config.stages];
  alignas(1024) std::uint8_t staging[config.consumers][staging_bytes];
  std::uint64_t full[config.stages], empty[config.stages];
  std::uint32_t granted[config.consumers];  // by group: bit mask of the slices to store, set by its first thread
  struct NoScales {};
  std::conditional_t<has_block_scales<Kernel>, BufferedScales<config.m, config.n>, NoScales> scales;
};
template <class Kernel>
inline constexpr int shared_bytes = sizeof(PipelineStorage<Kernel>) + 1024;  // with room to align the base to 1024
template <class Kernel> inline constexpr int block_threads = 128 * (Kernel::config.consumers + 1);

// The registers of each thread of a multiplying and of the loading warpgroup; together as many as the block starts
// with. Threads that load scales need more.
template <class Kernel> inline constexpr int consumer_registers = (Kernel::config.consumers == 3 ? 160 : 232) -
                                                                  (has_block_scales<Kernel> ? 8 : 0);
template <class Kernel> inline constexpr int producer_registers =
    (Kernel::config.consumers == 3 ? 512 : 504) - Kernel::config.consumers* consumer_registers<Kernel>;

template <class Kernel> struct RingProducer {  // operations of the loading thread
  PipelineStorage<Kernel>& s;
  const typename Kernel::Globals& g;
  const PeerRowMapsOf<Kernel>& rows;
  int rank;

  template <LoadSubset subset> TILE_FN void fill(const WorkItem& item, int slot, int stage) const {
    TileLoader<Kernel, subset> at;
    at.m0 = item.m0;
    at.n0 = item.n0;
    at.batch = item.batch;
    at.rank = rank;
    at.full = shared_address(s.full) + 8 * slot;
    at.peer_rows = &rows;
    Kernel::load(at, s.ring[slot], g, Range{stage * Kernel::config.k, Kernel::config.k});
  }
  TILE_FN void wait_for_earlier_kernels() const { sm90::wait_for_earlier_kernels(); }
  TILE_FN void arrive_full(int slot) const { arrive_mbarrier(shared_address(s.full) + 8 * slot); }
  TILE_FN void wait_empty(int slot, std::uint32_t phase) const {
    wait_mbarrier(shared_address(s.empty) + 8 * slot, phase);
  }
};

// Operations of the warps that load scales: the three of the last warpgroup that do not load operands.
template <class Kernel> struct ScaleLoader {
  static constexpr int warps = 3, threads = 32 * warps,
                       barrier = 12;  // The number of a barrier that no other code uses
  static constexpr auto config = Kernel::config;
  static constexpr int rows = (config.m + threads - 1) / threads, columns = (config.n + threads - 1) / threads;
  PipelineStorage<Kernel>& s;
  const typename Kernel::Globals& g;
  int thread = static_cast<int>(threadIdx.x) % 128 - 32;
  float4 of_row[rows], of_column[columns];  // The scales that the thread has requested

  TILE_FN void wait_for_earlier_kernels() const { sm90::wait_for_earlier_kernels(); }
  TILE_FN void load_scales(const WorkItem& item, int quad) {
    load_lines<config.m>(of_row, g.a_scales, item.batch, item.m0, quad);
    load_lines<config.n>(of_column, g.b_scales, item.batch, item.n0, quad);
  }
  TILE_FN void wait_scales_read(int buffer, std::uint32_t phase) const {
    wait_mbarrier(shared_address(s.scales.empty) + 8 * buffer, phase);
  }
  TILE_FN void store_scales(const WorkItem& item, int buffer) const {
    auto& to = s.scales.buffers[buffer];
#pragma unroll
    for (int i = 0; i < rows; ++i)
      if (const int row = thread + i * threads; row < config.m) *reinterpret_cast<float4*>(to.of_row[row]) = of_row[i];
#pragma unroll
    for (int i = 0; i < columns; ++i)
      if (const int column = thread + i * threads; column < config.n) {
        to.of_column[0][column] = of_column[i].x;
        to.of_column[1][column] = of_column[i].y;
        to.of_column[2][column] = of_column[i].z;
        to.of_column[3][column] = of_column[i].w;
      }
    sync_threads(barrier, threads);
    const std::uint32_t mask = find_shared_pieces(to, static_cast<int>(g.b_scales.lines) - item.n0);
    if (thread % 32 == 0) {
      to.shared_pieces[thread / 32] = mask;
      arrive_mbarrier(shared_address(s.scales.full) + 8 * buffer);
    }
  }

 private:
  // Loads the scales of four blocks of every 96th line of a tile of `lines`; those beyond the matrix are zero.
  template <int lines, int count>
  TILE_FN void load_lines(float4 (&to)[count], const BlockScales& x, int product, int first_line, int quad) const {
    const int line = first_line + thread, left = x.blocks - quad * scale_quad;
    const float* from = x.data + product * x.batch_stride + line * x.line_stride + quad * scale_quad;
#pragma unroll
    for (int i = 0; i < count; ++i, from += threads * x.line_stride) {
      to[i] = make_float4(0, 0, 0, 0);
      if (thread + i * threads >= lines || line + i * threads >= x.lines) continue;
      if (x.has_aligned_quads) {
        to[i] = __ldcg(reinterpret_cast<const float4*>(from));
      } else {
        to[i].x = __ldcg(from);
        if (left > 1) to[i].y = __ldcg(from + 1);
        if (left > 2) to[i].z = __ldcg(from + 2);
        if (left > 3) to[i].w = __ldcg(from + 3);
      }
    }
  }
  // True if the product of two such scales is 0 or a normal number.
  TILE_FN static bool is_moderate(float x) { return x == 0 || (fabsf(x) > 1e-18F && fabsf(x) < 1e18F); }
  TILE_FN static bool are_moderate(const float4& x) {
    return is_moderate(x.x) & is_moderate(x.y) & is_moderate(x.z) & is_moderate(x.w);
  }
  // Returns the bit mask of the pieces of the sums whose columns share a scale in each of four blocks, as 128 lines of
  // weights of DeepSeek do, so that sums need one factor. A warp looks at the lines that it loads, and at all scales'
  // sizes. Columns from `end` on are not in D.
  TILE_FN std::uint32_t find_shared_pieces(const ScaleQuads<config.m, config.n>& all, int end) const {
    constexpr SumPieces pieces = Kernel::State::pieces;
    bool have_moderate_scales = true;
#pragma unroll
    for (const float4& x : of_row) have_moderate_scales &= are_moderate(x);
    std::uint32_t mask = 0;
#pragma unroll
    for (int piece = 0; piece < pieces.across(); ++piece) {
      const int first = pieces.first_column(piece);
      const float shared[] = {all.of_column[0][first], all.of_column[1][first], all.of_column[2][first],
                              all.of_column[3][first]};
      bool are_shared = have_moderate_scales;
#pragma unroll
      for (int i = 0; i < columns; ++i) {
        const int column = thread + i * threads;
        const float4& x = of_column[i];
        if (column >= first && column < first + pieces.columns(piece) && column < end)
          are_shared &=
              are_moderate(x) & (x.x == shared[0]) & (x.y == shared[1]) & (x.z == shared[2]) & (x.w == shared[3]);
      }
      mask |= static_cast<std::uint32_t>(__all_sync(~0U, are_shared)) << piece;
    }
    return mask;
  }
};

template <class Kernel> struct RingConsumer : TileConsumer<Kernel> {  // operations of a warpgroup
  using State = typename Kernel::State;
  PipelineStorage<Kernel>& s;
  const typename Kernel::Globals& g;
  const ProductArgs& p;

  TILE_FN RingConsumer(PipelineStorage<Kernel>& shared_memory, const typename Kernel::Globals& globals,
                       const ProductArgs& problem, const PeerRowMapsOf<Kernel>& rows, int number, int rank)
      : s(shared_memory), g(globals), p(problem) {
    this->peer_rows = &rows;
    this->id = number;
    this->rank = rank;
    this->staging = s.staging[number];
    this->row_part = Kernel::config.roles == Roles::pingpong ? 0 : number;
  }
  TILE_FN void wait_for_earlier_kernels() const { sm90::wait_for_earlier_kernels(); }
  TILE_FN void wait_full(int slot, std::uint32_t phase) const {
    wait_mbarrier(shared_address(s.full) + 8 * slot, phase);
  }
  TILE_FN void release_slot(int slot) const {
    constexpr auto config = Kernel::config;
    const std::uint32_t empty = shared_address(s.empty) + 8 * slot;
    if constexpr (config.cluster() == 1) {
      if (this->leads()) arrive_mbarrier(empty);
    } else {
      const int block = threadIdx.x % 128;
      if (block < config.cluster() && config.shares_loads(block, this->rank)) arrive_mbarrier_of_block(empty, block);
    }
  }
  TILE_FN void mma_fence() const { sm90::mma_fence(); }
  TILE_FN void mma_commit() const { sm90::mma_commit(); }
  template <int left> TILE_FN void mma_wait() const { sm90::mma_wait<left>(); }
  TILE_FN void compute(State& acc, const WorkItem& item, int slot, int stage) {
    set_item(item);
    if constexpr (has_block_scales<Kernel>) scales.block = stage % scale_quad;
    Kernel::compute(*this, acc, s.ring[slot]);
  }
  TILE_FN void wait_scales(int buffer, std::uint32_t phase) {
    wait_mbarrier(shared_address(s.scales.full) + 8 * buffer, phase);
    const uint4 found = *reinterpret_cast<const uint4*>(s.scales.buffers[buffer].shared_pieces);
    scales.buffer = buffer;
    scales.shared_pieces = found.x & found.y & found.z;
  }
  TILE_FN void release_scales(int buffer) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive_mbarrier(shared_address(s.scales.empty) + 8 * buffer);
  }
  template <int m, int n, int warpgroups_per_tile, class A, class B>
  TILE_FN void mma_scaled(StagedAccumulator<m, n, warpgroups_per_tile>& acc, const A& a, Transposed<B> b) const {
    constexpr SumPieces pieces = State::pieces;
    const auto& from = s.scales.buffers[scales.buffer];
    const int thread = threadIdx.x % 128,
              row = this->row_part * (m / warpgroups_per_tile) + thread / 32 * 16 + thread % 32 / 4;
    const float* const columns = from.of_column[scales.block];
    ThreadScales<pieces> mine{.columns = columns + thread % 4 * 2, .shared_pieces = scales.shared_pieces};
#pragma unroll
    for (int i = 0; i < pieces.down() * 2; ++i)
      mine.rows[i / 2][i % 2] = from.of_row[row + i / 2 * 64 + i % 2 * 8][scales.block];
#pragma unroll
    for (int i = 0; i < pieces.across(); ++i) mine.of_piece[i] = columns[pieces.first_column(i)];
    this->multiply_scaled(acc, a, b.tile, mine);
  }

  TILE_FN void store(State& acc, const WorkItem& item) {
    set_item(item);
    std::uint32_t left = 0;  // bit mask of the slices that remain to be stored; 0 means the full tile
    if constexpr (Kernel::config.can_split())
      if (item.splits > 1 && (is_cooperative() || splits_in_cluster())) left = s.granted[this->id];
    do {
      if constexpr (Kernel::config.can_split())
        if (left) sum_slice(acc, __ffs(static_cast<int>(left)) - 1, item);
      if constexpr (std::is_same_v<Sum, std::int32_t>)
        if (g.d.target.format != StorageFormat::int32) convert_to_floats(acc);
      Kernel::store(*static_cast<TileConsumer<Kernel>*>(this), g, acc);
    } while (left &= left - 1);
  }

  // Partial sums of splits in memory: [register / 4][thread][4], so that each thread accesses 16 bytes at a time. Those
  // of type int32 remain integers, so that they are exact.
  using Sum = typename State::Sum;
  static_assert(sizeof(Sum) == sizeof(float), "partial sums have 32 bits");
  using FourSums = std::conditional_t<std::is_same_v<Sum, std::int32_t>, int4, float4>;
  static constexpr int group_floats = State::size * 128;  // sums of a group
  TILE_FN static FourSums* thread_vector(float* sums, int i) {
    return reinterpret_cast<FourSums*>(sums + i * 128 + threadIdx.x % 128 * 4);
  }
  TILE_FN float* partial_sums(const WorkItem& item, int split) const {
    return p.partial + (static_cast<std::size_t>(item.first_partial + split) * Kernel::config.warpgroups_per_tile() +
                        this->row_part) *
                           group_floats;
  }
  TILE_FN void write_partial(const State& acc, const WorkItem& item) const {
    float* const to = partial_sums(item, item.split);
#pragma unroll
    for (int i = 0; i < State::size; i += 4)
      __stcg(thread_vector(to, i), FourSums{acc.v[i], acc.v[i + 1], acc.v[i + 2], acc.v[i + 3]});
  }
  TILE_FN std::uint32_t* arrival_counter(const WorkItem& item) const {
    return p.arrived + item.block_tile * Kernel::config.warpgroups_per_tile() + this->row_part;
  }
  TILE_FN void count_arrival(const WorkItem& item) const {
    const bool is_last = add_acquire_release(item, 1) + 1 == static_cast<std::uint32_t>(item.splits);
    s.granted[this->id] = is_last;
    if (is_last) write_relaxed(arrival_counter(item), 0);
  }
  TILE_FN bool arrived_last() const { return s.granted[this->id] != 0; }
  TILE_FN void add_partials(State& acc, const WorkItem& item) const {
    constexpr int free_registers = Kernel::config.consumers == 1 ? 64 : 32;  // registers for loads in flight
    if constexpr (State::size > 96) {  // too few registers: half of the sums at a time
      add_splits<0, State::size / 2, 1>(acc, item.splits, partials_in_memory(item));
      add_splits<State::size / 2, State::size / 2, 1>(acc, item.splits, partials_in_memory(item));
    } else {
      add_splits<0, State::size, State::size >= free_registers ? 1 : free_registers / State::size>(
          acc, item.splits, partials_in_memory(item));
    }
  }
  TILE_FN auto partials_in_memory(const WorkItem& item) const {
    return [=, this](int split, int i) { return __ldcg(thread_vector(partial_sums(item, split), i)); };
  }
  // Sums registers first … first + count - 1 over all splits, in the order of the splits.
  template <int first, int count, int splits_per_round, class Read>
  TILE_FN static void add_splits(State& acc, int splits, const Read& read) {
#pragma unroll
    for (int i = 0; i < count; ++i) acc.v[first + i] = 0;
#pragma unroll 1
    for (int split = 0; split < splits; split += splits_per_round) {
      FourSums x[splits_per_round][count / 4];
#pragma unroll
      for (int j = 0; j < splits_per_round; ++j)
#pragma unroll
        for (int i = 0; i < count / 4; ++i)
          x[j][i] = split + j < splits ? read(split + j, first + 4 * i) : FourSums{0, 0, 0, 0};
#pragma unroll
      for (int j = 0; j < splits_per_round; ++j)
#pragma unroll
        for (int i = 0; i < count / 4; ++i) {
          Sum* const sum = acc.v + first + 4 * i;
          sum[0] += x[j][i].x;
          sum[1] += x[j][i].y;
          sum[2] += x[j][i].z;
          sum[3] += x[j][i].w;
        }
    }
  }

  // Operations of splits that run concurrently (ring.h).
  TILE_FN bool is_cooperative() const { return p.sizes.split_mode == SplitMode::cooperative_split_k; }
  TILE_FN void wait_for_splits(const WorkItem& item) const { tile::wait_for_splits(*this, item); }
  TILE_FN std::uint32_t add_acquire_release(const WorkItem& item, std::uint32_t by) const {
    return sm90::add_acquire_release(arrival_counter(item), by);
  }
  TILE_FN std::uint32_t add_relaxed(const WorkItem& item, std::uint32_t by) const {
    return sm90::add_relaxed(arrival_counter(item), by);
  }
  TILE_FN bool have_all_arrived(const WorkItem& item) const {
    constexpr long long timeout_cycles = 50000;  // about 30 us
    const std::uint32_t* const counter = this->arrival_counter(item);
    const std::uint32_t splits = item.splits;
    for (const long long since = clock64(); (read_acquire(counter) & count_mask) != splits;)
      if (clock64() - since > timeout_cycles) return false;
    return true;
  }
  TILE_FN void grant_slices(std::uint32_t mask) const { s.granted[this->id] = mask; }
  TILE_FN void clear_counter(const WorkItem& item) const { write_relaxed(arrival_counter(item), 0); }
  // True if the group has slices of the tile to store.
  TILE_FN bool has_slice(const WorkItem&) const { return s.granted[this->id] != 0; }

  // Operations of splits in a cluster. The sums overwrite the ring, whose stages have all been multiplied, and the
  // other blocks of the cluster read them there.
  TILE_FN bool splits_in_cluster() const { return p.sizes.split_mode == SplitMode::cluster_split_k; }
  TILE_FN void sync_consumers() const {
    if constexpr (Kernel::config.consumers > 1) sync_threads(11, 128 * Kernel::config.consumers);
  }
  TILE_FN float* shared_sums() const { return reinterpret_cast<float*>(s.ring) + this->row_part * group_floats; }
  TILE_FN void publish_sums(const State& acc) const {
    static_assert(sizeof s.ring >= sizeof(float) * group_floats * Kernel::config.warpgroups_per_tile(),
                  "the sums do not fit in the ring for cluster split-K: use more stages");
#pragma unroll
    for (int i = 0; i < State::size; i += 4)
      *thread_vector(shared_sums(), i) = FourSums{acc.v[i], acc.v[i + 1], acc.v[i + 2], acc.v[i + 3]};
    if (this->leads()) s.granted[this->id] = 1u << cluster_rank();
  }
  TILE_FN void sync_cluster() const { cluster_sync(); }

 private:
  struct ScalePosition {
    int buffer = 0, block = 0;
    std::uint32_t shared_pieces = 0;
  };
  struct NoScalePosition {};
  std::conditional_t<has_block_scales<Kernel>, ScalePosition, NoScalePosition> scales;

  // Replaces sums of int32 by the bits of the nearest f32, in place, so that they need no other registers.
  TILE_FN static void convert_to_floats(State& acc) {
#pragma unroll
    for (int i = 0; i < State::size; ++i) acc.v[i] = __float_as_int(__int2float_rn(acc.v[i]));
  }
  // Sums one slice of the tile over all splits. The epilogue steps (tile_operations.h) are divided among the splits.
  TILE_FN void sum_slice(State& acc, int split, const WorkItem& item) {
    this->epilogue_steps = {epilogue_steps_of<Kernel> * split / item.splits,
                            epilogue_steps_of<Kernel> * (split + 1) / item.splits};
    if (is_cooperative()) return sum_steps<0>(acc, item.splits, partials_in_memory(item));
    if constexpr (Kernel::config.can_split_in_cluster()) {
      const std::uint32_t from = shared_address(thread_vector(shared_sums(), 0));
      sum_steps<0>(acc, item.splits,
                   [from](int block, int i) { return read_shared_of_block<FourSums>(from + i * 512, block); });
    }
  }
  template <int step, class Read> TILE_FN void sum_steps(State& acc, int splits, const Read& read) const {
    constexpr auto registers = step_registers<Kernel>(step);
    if (step >= this->epilogue_steps.first && step < this->epilogue_steps.end)
      add_splits<registers.first, registers.count, 8>(acc, splits, read);
    if constexpr (step + 1 < epilogue_steps_of<Kernel>) sum_steps<step + 1>(acc, splits, read);
  }
  TILE_FN void set_item(const WorkItem& item) {
    this->m0 = item.m0;
    this->n0 = item.n0;
    this->batch = item.batch;
    this->row_end = item.row_end;
  }
};

// Runs a product with one persistent block on each SM. The grid is a multiple of the cluster.
template <class Kernel> __global__ void __launch_bounds__(block_threads<Kernel>, 1)
    run_product(const __grid_constant__ typename Kernel::Globals g, const __grid_constant__ ProductArgs p,
                const __grid_constant__ PeerRowMapsOf<Kernel> rows) {
  constexpr auto config = Kernel::config;
  static_assert(shared_bytes<Kernel> <= max_shared_bytes,
                "the ring and the output buffers exceed a block's shared memory: use fewer stages");
  extern __shared__ std::uint8_t raw[];
  auto& s = *reinterpret_cast<PipelineStorage<Kernel>*>(raw + (1024 - shared_address(raw) % 1024) % 1024);
  const int rank = config.cluster() > 1 ? cluster_rank() : 0;
  const bool splits_in_cluster = config.can_split_in_cluster() && p.sizes.split_mode == SplitMode::cluster_split_k;
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < config.stages; ++i) {
      init_mbarrier(shared_address(s.full) + 8 * i, 1);
      init_mbarrier(shared_address(s.empty) + 8 * i, config.warpgroups_per_tile() * config.blocks_sharing_loads());
    }
    if constexpr (has_block_scales<Kernel>)
      for (int i = 0; i < scale_buffers; ++i) {
        init_mbarrier(shared_address(s.scales.full) + 8 * i, ScaleLoader<Kernel>::warps);
        init_mbarrier(shared_address(s.scales.empty) + 8 * i, 4 * config.warpgroups_per_tile());
      }
    publish_mbarrier_init();
  }
  if constexpr (config.cluster() > 1)
    cluster_sync();
  else
    __syncthreads();
  let_next_kernel_start();
  if (warpgroup == config.consumers) {
    if constexpr (config.consumers > 1) decrease_registers<producer_registers<Kernel>>();
    if (threadIdx.x % 128 == 0) {
      prefetch_map(&g.a.target.map);
      prefetch_map(&g.b.target.map);
      prefetch_map(&g.d.target.map);
      RingProducer<Kernel> on{s, g, rows, rank};
      run_producer<Kernel>(on, make_scheduler<Kernel>(p, rank), p.prefetch_constants);
    }
    if constexpr (has_block_scales<Kernel>)
      if (threadIdx.x % 128 >= 32) {
        ScaleLoader<Kernel> on{s, g};
        run_scale_loader<Kernel>(on, make_scheduler<Kernel>(p, rank));
      }
    if (splits_in_cluster) cluster_sync();
  } else {
    if constexpr (config.consumers > 1) increase_registers<consumer_registers<Kernel>>();
    RingConsumer<Kernel> on(s, g, p, rows, warpgroup, rank);
    run_consumer<Kernel>(on, make_scheduler<Kernel>(p, rank), warpgroup);
  }
  if (config.cluster() > 1 || splits_in_cluster)
    cluster_sync();  // other blocks may still read this block's shared memory
}

}  // namespace ridge::tile::sm90

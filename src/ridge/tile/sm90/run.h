// Runs a product kernel on Hopper. One thread of the last warpgroup fills the slots of a ring by the copy engine; the
// other warpgroups multiply them, and the loads of the next tile overlap the stores of this one. ring.h has the order
// of the waits; this file implements its operations.
#pragma once

#include "ridge/tile/sm90/ops.h"

namespace ridge::tile::sm90 {

struct Problem {
  Sizes sizes;
  bool prefetch_constants;  // true if constant operands may be read before earlier kernels have ended
  float* partial;           // partial sums of the splits of k
  std::uint32_t* arrived;   // a counter of arrived splits for each group's part of a tile; zero between launches
  const int* starts;        // first rows of the groups (grouped_scheduler.h)
};

template <class Kernel> TILE_FN SchedulerOf<Kernel> scheduler_of(const Problem& p, int rank) {
  constexpr auto c = Kernel::config;
  const Cut cut = {c.m, c.n, c.k, c.cluster_m, c.cluster_n, c.can_split()};
  const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  if constexpr (is_grouped<Kernel>)
    return GroupedScheduler(cut, p.sizes, {p.starts, c.swap}, blocks, block);
  else
    return TileScheduler(cut, p.sizes, blocks, block, rank);
}

template <class Kernel> struct Shared {
  static constexpr auto config = Kernel::config;
  static constexpr int bulk_bytes = config.staging * (config.swap ? config.n : atom) * 128;
  static constexpr int staging_bytes = bulk_bytes > 8192 ? (bulk_bytes + 1023) / 1024 * 1024 : 8192;
  typename Kernel::Stage ring[config.stages];
  alignas(1024) std::uint8_t staging[config.consumers][staging_bytes];
  std::uint64_t full[config.stages], empty[config.stages];
  std::uint32_t granted[config.consumers];  // slices that each group stores, as set by its first thread
};
template <class Kernel>
inline constexpr int shared_bytes = sizeof(Shared<Kernel>) + 1024;  // with room to align the base to 1024
template <class Kernel> inline constexpr int threads = 128 * (Kernel::config.consumers + 1);

// Registers of a thread that multiplies and of one that loads. All threads together use the 65,536 registers of an SM.
constexpr int multiplying_registers(int consumers) { return consumers == 3 ? 160 : 232; }
constexpr int loading_registers(int consumers) { return consumers == 3 ? 32 : 40; }

template <class Kernel> struct Producing {  // operations of the loading thread
  Shared<Kernel>& s;
  const typename Kernel::Globals& g;
  const RowsOf<Kernel>& rows;
  int rank;

  template <Half half> TILE_FN void fill(const Item& item, int slot, int stage) const {
    Producer<Kernel, half> at;
    at.m0 = item.m0;
    at.n0 = item.n0;
    at.batch = item.batch;
    at.rank = rank;
    at.full = address(s.full) + 8 * slot;
    at.shared = &rows;
    Kernel::load(at, s.ring[slot], g, Range{stage * Kernel::config.k, Kernel::config.k});
  }
  TILE_FN void wait_for_earlier_kernels() const { sm90::wait_for_earlier_kernels(); }
  TILE_FN void arrive_full(int slot) const { arrive(address(s.full) + 8 * slot); }
  TILE_FN void wait_empty(int slot, std::uint32_t phase) const { wait(address(s.empty) + 8 * slot, phase); }
};

template <class Kernel> struct Consuming : Consumer<Kernel> {  // operations of a warpgroup
  using State = typename Kernel::State;
  Shared<Kernel>& s;
  const typename Kernel::Globals& g;
  const Problem& p;

  TILE_FN Consuming(Shared<Kernel>& shared_memory, const typename Kernel::Globals& globals, const Problem& problem,
                    const RowsOf<Kernel>& rows, int number, int rank)
      : s(shared_memory), g(globals), p(problem) {
    this->shared = &rows;
    this->id = number;
    this->rank = rank;
    this->staging = s.staging[number];
    this->share = Kernel::config.roles == Roles::pingpong ? 0 : number;
  }
  TILE_FN void wait_for_earlier_kernels() const { sm90::wait_for_earlier_kernels(); }
  TILE_FN void pass_turn(int to) const { arrive_threads(8 + to, 256); }
  TILE_FN void wait_turn(int mine) const { sync_threads(8 + mine, 256); }
  TILE_FN void wait_full(int slot, std::uint32_t phase) const { wait(address(s.full) + 8 * slot, phase); }
  TILE_FN void release(int slot) const {
    constexpr auto config = Kernel::config;
    const std::uint32_t empty = address(s.empty) + 8 * slot;
    if constexpr (config.cluster() == 1) {
      if (this->leads()) arrive(empty);
    } else {
      const int block = threadIdx.x % 128;
      if (block < config.cluster() && config.share_loads(block, this->rank)) arrive_at(empty, block);
    }
  }
  TILE_FN void mma_fence() const { sm90::mma_fence(); }
  TILE_FN void mma_commit() const { sm90::mma_commit(); }
  template <int left> TILE_FN void mma_wait() const { sm90::mma_wait<left>(); }
  TILE_FN void compute(State& acc, const Item& item, int slot, int) {
    at_item(item);
    Kernel::compute(*this, acc, s.ring[slot]);
  }
  TILE_FN void store(State& acc, const Item& item) {
    at_item(item);
    std::uint32_t left = 0;  // slices that remain to be stored, one bit for each split; 0 means the full tile
    if constexpr (Kernel::config.can_split())
      if (item.splits > 1 && (is_cooperative() || shares())) left = s.granted[this->id];
    do {
      if constexpr (Kernel::config.can_split())
        if (left) take_share(acc, __ffs(static_cast<int>(left)) - 1, item);
      Kernel::store(*static_cast<Consumer<Kernel>*>(this), g, acc);
    } while (left &= left - 1);
  }

  // Partial sums of a split of k in memory, arranged so that each thread writes and reads 16 bytes at a time.
  static constexpr int part = State::size * 128;  // floats of a group
  TILE_FN static float4* of_thread(float* sums, int i) {
    return reinterpret_cast<float4*>(sums + i * 128 + threadIdx.x % 128 * 4);
  }
  TILE_FN float* partial(const Item& item, int split) const {
    return p.partial + (static_cast<std::size_t>(item.partial + split) * Kernel::config.sharers() + this->share) * part;
  }
  TILE_FN void write_partial(const State& acc, const Item& item) const {
    float* const to = partial(item, item.split);
#pragma unroll
    for (int i = 0; i < State::size; i += 4)
      __stcg(of_thread(to, i), make_float4(acc.v[i], acc.v[i + 1], acc.v[i + 2], acc.v[i + 3]));
  }
  TILE_FN std::uint32_t* counter(const Item& item) const {
    return p.arrived + item.block_tile * Kernel::config.sharers() + this->share;
  }
  TILE_FN void count_arrival(const Item& item) const {
    const bool is_last = add_acquire_release(item, 1) + 1 == static_cast<std::uint32_t>(item.splits);
    s.granted[this->id] = is_last;
    if (is_last) write_relaxed(counter(item), 0);
  }
  TILE_FN bool is_last() const { return s.granted[this->id] != 0; }
  TILE_FN void add_partials(State& acc, const Item& item) const {
    constexpr int room = Kernel::config.consumers == 1 ? 64 : 32;  // registers for loads in flight
    if constexpr (State::size > 96) {                              // too few registers: half of the sums at a time
      add_splits<0, State::size / 2, 1>(acc, item.splits, from_memory(item));
      add_splits<State::size / 2, State::size / 2, 1>(acc, item.splits, from_memory(item));
    } else {
      add_splits<0, State::size, State::size >= room ? 1 : room / State::size>(acc, item.splits, from_memory(item));
    }
  }
  TILE_FN auto from_memory(const Item& item) const {
    return [=, this](int split, int i) { return __ldcg(of_thread(partial(item, split), i)); };
  }
  // Sums registers first … first + count - 1 over all splits, in their order.
  template <int first, int count, int at_once, class Read>
  TILE_FN static void add_splits(State& acc, int splits, const Read& read) {
#pragma unroll
    for (int i = 0; i < count; ++i) acc.v[first + i] = 0;
#pragma unroll 1
    for (int split = 0; split < splits; split += at_once) {
      float4 x[at_once][count / 4];
#pragma unroll
      for (int j = 0; j < at_once; ++j)
#pragma unroll
        for (int i = 0; i < count / 4; ++i)
          x[j][i] = split + j < splits ? read(split + j, first + 4 * i) : make_float4(0, 0, 0, 0);
#pragma unroll
      for (int j = 0; j < at_once; ++j)
#pragma unroll
        for (int i = 0; i < count / 4; ++i) {
          float* const sum = acc.v + first + 4 * i;
          sum[0] += x[j][i].x;
          sum[1] += x[j][i].y;
          sum[2] += x[j][i].z;
          sum[3] += x[j][i].w;
        }
    }
  }

  // Operations of splits that run concurrently (ring.h).
  TILE_FN bool is_cooperative() const { return p.sizes.split_mode == SplitMode::cooperative_split_k; }
  TILE_FN void await_splits(const Item& item) const { tile::await_splits(*this, item); }
  TILE_FN std::uint32_t add_acquire_release(const Item& item, std::uint32_t by) const {
    return sm90::add_acquire_release(counter(item), by);
  }
  TILE_FN std::uint32_t add_relaxed(const Item& item, std::uint32_t by) const {
    return sm90::add_relaxed(counter(item), by);
  }
  TILE_FN bool all_arrived(const Item& item) const {
    constexpr long long patience = 50000;  // about 30 us
    const std::uint32_t* const counter = this->counter(item);
    const std::uint32_t splits = item.splits;
    for (const long long since = clock64(); (read_acquire(counter) & count_mask) != splits;)
      if (clock64() - since > patience) return false;
    return true;
  }
  TILE_FN void grant(std::uint32_t shares) const { s.granted[this->id] = shares; }
  TILE_FN void clear(const Item& item) const { write_relaxed(counter(item), 0); }
  // True if the group has slices to store. A slice may be empty.
  TILE_FN bool has_share(const Item&) const { return s.granted[this->id] != 0; }

  // Operations of splits in a cluster. The sums are written over the ring, whose stages have all been multiplied, so
  // that the other blocks can read them.
  TILE_FN bool shares() const { return p.sizes.split_mode == SplitMode::cluster_split_k; }
  TILE_FN void sync_consumers() const {
    if constexpr (Kernel::config.consumers > 1) sync_threads(8, 128 * Kernel::config.consumers);
  }
  TILE_FN float* shared_sums() const { return reinterpret_cast<float*>(s.ring) + this->share * part; }
  TILE_FN void put_sums(const State& acc) const {
    static_assert(sizeof s.ring >= sizeof(float) * part * Kernel::config.sharers(),
                  "the sums do not fit in the ring for cluster split-K: use more stages");
#pragma unroll
    for (int i = 0; i < State::size; i += 4)
      *of_thread(shared_sums(), i) = make_float4(acc.v[i], acc.v[i + 1], acc.v[i + 2], acc.v[i + 3]);
    if (this->leads()) s.granted[this->id] = 1u << cluster_rank();
  }
  TILE_FN void sync_cluster() const { cluster_sync(); }

 private:
  // Sums one slice of the tile: the epilogue steps (tile_operations.h) are divided among the splits.
  TILE_FN void take_share(State& acc, int split, const Item& item) {
    this->turns = {turns_of<Kernel> * split / item.splits, turns_of<Kernel> * (split + 1) / item.splits};
    if (is_cooperative()) return add_turns<0>(acc, item.splits, from_memory(item));
    if constexpr (Kernel::config.shares()) {
      const std::uint32_t from = address(of_thread(shared_sums(), 0));
      add_turns<0>(acc, item.splits, [from](int block, int i) { return read_of_block(from + i * 512, block); });
    }
  }
  template <int turn, class Read> TILE_FN void add_turns(State& acc, int splits, const Read& read) const {
    constexpr auto registers = registers_of<Kernel>(turn);
    if (turn >= this->turns.first && turn < this->turns.end)
      add_splits<registers.first, registers.count, 8>(acc, splits, read);
    if constexpr (turn + 1 < turns_of<Kernel>) add_turns<turn + 1>(acc, splits, read);
  }
  TILE_FN void at_item(const Item& item) {
    this->m0 = item.m0;
    this->n0 = item.n0;
    this->batch = item.batch;
    this->end = item.end;
  }
};

// Runs a product with one persistent block on each SM. The grid is a multiple of the cluster.
template <class Kernel> __global__ void __launch_bounds__(threads<Kernel>, 1)
    run(const __grid_constant__ typename Kernel::Globals g, const __grid_constant__ Problem p,
        const __grid_constant__ RowsOf<Kernel> rows) {
  constexpr auto config = Kernel::config;
  static_assert(shared_bytes<Kernel> <= most_shared_bytes,
                "the ring and the output buffers exceed a block's shared memory: use fewer stages");
  extern __shared__ std::uint8_t raw[];
  auto& s = *reinterpret_cast<Shared<Kernel>*>(raw + (1024 - address(raw) % 1024) % 1024);
  const int rank = config.cluster() > 1 ? cluster_rank() : 0;
  const bool shares = config.shares() && p.sizes.split_mode == SplitMode::cluster_split_k;
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < config.stages; ++i) {
      barrier_init(address(s.full) + 8 * i, 1);
      barrier_init(address(s.empty) + 8 * i, config.sharers() * config.loaders());
    }
    barrier_init_done();
  }
  if constexpr (config.cluster() > 1)
    cluster_sync();
  else
    __syncthreads();
  let_next_kernel_start();
  if (warpgroup == config.consumers) {
    if constexpr (config.consumers > 1) registers_down<loading_registers(config.consumers)>();
    if (threadIdx.x % 128 == 0) {
      prefetch_map(&g.a.on_target.map);
      prefetch_map(&g.b.on_target.map);
      prefetch_map(&g.d.on_target.map);
      Producing<Kernel> on{s, g, rows, rank};
      produce<Kernel>(on, scheduler_of<Kernel>(p, rank), p.prefetch_constants);
    }
    if (shares) cluster_sync();
  } else {
    if constexpr (config.consumers > 1) registers_up<multiplying_registers(config.consumers)>();
    Consuming<Kernel> on(s, g, p, rows, warpgroup, rank);
    consume<Kernel>(on, scheduler_of<Kernel>(p, rank), warpgroup);
  }
  if (config.cluster() > 1 || shares) cluster_sync();  // other blocks may still read this block's shared memory
}

}  // namespace ridge::tile::sm90

// Runs a kernel text on Hopper. One thread of the last warpgroup fills the slots of a ring by the copy engine; the
// other warpgroups multiply them. A consumer issues the products of stage i before it waits for those of stage i - 1
// and gives slot i - 1 back, so the tensor cores never drain between stages (draining costs a quarter of the speed),
// and loads of the next tile run under the stores of this one. The text knows none of it.
#pragma once

#include "ridge/tile/target/sm90/ops.h"
#include "ridge/tile/walk.h"

namespace ridge::tile::sm90 {

struct Problem {
  Sizes sizes;
  bool early;         // constants may be read before the kernels before this one have ended
  float* partial;     // sums of the pieces of k
  int* arrived;       // pieces that have come, a counter for each part of a tile; zero between launches
  long long* cycles;  // null, or where block 0 says how long it multiplied
};

template <class Kernel> TILE_FN Walk walk_of(const Problem& p, int rank) {
  constexpr auto c = Kernel::config;
  const Cut cut = {c.m, c.n, c.k, c.cluster_m, c.cluster_n, c.splits()};
  return Walk(cut, p.sizes, static_cast<int>(gridDim.x), static_cast<int>(blockIdx.x), rank);
}

template <int slots> struct Ring {
  int slot = 0;
  std::uint32_t phase = 0;
  TILE_FN void advance() {
    if (++slot == slots) slot = 0, phase ^= 1;
  }
  TILE_FN void skip(int stages) {
    slot += stages;
    phase ^= slot / slots & 1;
    slot %= slots;
  }
};

template <class Kernel> struct Shared {
  static constexpr auto config = Kernel::config;
  static constexpr int bulk_bytes = config.staging * (config.swap ? config.n : atom) * 128;
  static constexpr int staging_bytes = bulk_bytes > 8192 ? (bulk_bytes + 1023) / 1024 * 1024 : 8192;
  typename Kernel::Stage ring[config.stages];
  alignas(1024) std::uint8_t staging[config.consumers][staging_bytes];
  std::uint64_t full[config.stages], empty[config.stages];
  int is_last[config.consumers];
};
template <class Kernel>
inline constexpr int shared_bytes = sizeof(Shared<Kernel>) + 1024;  // its base is aligned by hand
template <class Kernel> inline constexpr int threads = 128 * (Kernel::config.consumers + 1);

// Every piece of k writes its sums; the last to arrive adds all of them in the order of the pieces, so the result does
// not depend on who is last. True: this warpgroup stores the tile.
template <class Kernel, class State>
TILE_FN bool combine(State& acc, const Problem& p, const Item& x, int share, int id, int* is_last) {
  constexpr int n = State::size, sharers = Kernel::config.sharers();
  const int t = threadIdx.x % 128;
  auto sums = [&](int piece, int i) {
    const std::size_t part = (static_cast<std::size_t>(x.tile) * p.sizes.pieces + piece) * sharers + share;
    return reinterpret_cast<float4*>(p.partial + part * (n * 128) + i * 128 + t * 4);
  };
#pragma unroll
  for (int i = 0; i < n; i += 4)
    __stcg(sums(x.piece, i), make_float4(acc.v[i], acc.v[i + 1], acc.v[i + 2], acc.v[i + 3]));
  sync_threads(1 + id, 128);
  if (t == 0) {  // the barrier orders the group's writes before this one release
    int* const counter = p.arrived + x.tile * sharers + share;
    *is_last = add_acquire_release(counter, 1) == p.sizes.pieces - 1;
    if (*is_last) *counter = 0;
  }
  sync_threads(1 + id, 128);
  if (!*is_last) return false;
#pragma unroll
  for (int i = 0; i < n; ++i) acc.v[i] = 0;
#pragma unroll 1
  for (int piece = 0; piece < p.sizes.pieces; ++piece)
#pragma unroll
    for (int i = 0; i < n; i += 4) {
      const float4 s = __ldcg(sums(piece, i));
      acc.v[i] += s.x, acc.v[i + 1] += s.y, acc.v[i + 2] += s.z, acc.v[i + 3] += s.w;
    }
  return true;
}

template <class Kernel>
TILE_FN void produce(Shared<Kernel>& s, const typename Kernel::Globals& g, const Problem& p, int rank) {
  constexpr auto config = Kernel::config;
  const std::uint32_t full = address(s.full), empty = address(s.empty);
  prefetch_map(&g.a.on_target.map), prefetch_map(&g.b.on_target.map), prefetch_map(&g.d.on_target.map);
  Walk walk = walk_of<Kernel>(p, rank);
  Ring<config.stages> ring;
  Item item;
  auto fill = [&](auto& at, int slot, int stage) {
    at.m0 = item.m0, at.n0 = item.n0, at.batch = item.batch, at.rank = rank, at.full = full + 8 * slot;
    Kernel::load(at, s.ring[slot], g, Range{stage * Kernel::config.k, Kernel::config.k});
  };
  bool more = walk.next(item);
  int ahead = 0;  // stages of the first item whose constants are on their way
  if (p.early) {
    Producer<Kernel, true> half;
    half.constants = true;
    ahead = !more ? 0 : item.last - item.first < config.stages ? item.last - item.first : config.stages;
#pragma unroll 1
    for (int i = 0; i < ahead; ++i) fill(half, i, item.first + i);
    wait_for_earlier_kernels();
    half.constants = false;
#pragma unroll 1
    for (int i = 0; i < ahead; ++i, ring.advance()) {
      fill(half, i, item.first + i);
      arrive(full + 8 * i);
    }
  } else {
    wait_for_earlier_kernels();
  }
  Producer<Kernel> at;
  for (; more; more = walk.next(item), ahead = 0)
#pragma unroll 1
    for (int stage = item.first + ahead; stage < item.last; ++stage, ring.advance()) {
      wait(empty + 8 * ring.slot, ring.phase ^ 1);
      fill(at, ring.slot, stage);
      arrive(full + 8 * ring.slot);
    }
}

template <class Kernel>
TILE_FN void consume(Shared<Kernel>& s, const typename Kernel::Globals& g, const Problem& p, int rank, int id) {
  constexpr auto config = Kernel::config;
  constexpr bool pingpong = config.roles == Roles::pingpong;
  static_assert(!pingpong || config.consumers == 2, "ping-pong is played by two");
  const std::uint32_t full = address(s.full), empty = address(s.empty);
  const int thread = threadIdx.x % 128;
  Walk walk = walk_of<Kernel>(p, rank);
  Ring<config.stages> ring;
  Item item;
  Consumer<Kernel> at;
  at.rank = rank, at.id = id, at.share = pingpong ? 0 : id, at.staging = s.staging[id];
  auto release = [&](int slot) {
    if constexpr (Kernel::config.cluster() == 1) {
      if (thread == 0) arrive(empty + 8 * slot);
    } else {
      if (thread < Kernel::config.cluster()) arrive_at(empty + 8 * slot, thread);
    }
  };
  if (pingpong && id == 1) arrive_threads(8, 256);  // consumer 0 serves
  long long started = 0;
  for (int turn = 0; walk.next(item); ++turn) {
    at.m0 = item.m0, at.n0 = item.n0, at.batch = item.batch;
    if (pingpong && turn % 2 != id) {
      ring.skip(item.last - item.first);
      continue;
    }
    typename Kernel::State acc;
    int previous = ring.slot;
    if constexpr (pingpong) sync_threads(8 + id, 256);
#pragma unroll 1
    for (int stage = item.first; stage < item.last; ++stage) {
      wait(full + 8 * ring.slot, ring.phase);
      if (!started) started = clock64();
      mma_fence();
      Kernel::compute(at, acc, s.ring[ring.slot]);
      mma_commit();
      if (stage > item.first) {
        mma_wait<1>();
        release(previous);
      }
      previous = ring.slot;
      ring.advance();
    }
    if constexpr (pingpong) arrive_threads(8 + (id ^ 1), 256);
    mma_wait<0>();
    release(previous);
    if constexpr (config.splits())
      if (p.sizes.pieces > 1 && !combine<Kernel>(acc, p, item, at.share, id, &s.is_last[id])) continue;
    Kernel::store(at, g, acc);
  }
  if (p.cycles && threadIdx.x == 0 && blockIdx.x == 0) *p.cycles = clock64() - started;
  if (thread == 0)
    store_wait<0>();  // shared memory must outlive the stores' reading of it; the grid's end waits for the rest
}

// One block an SM, persistent. The grid is a multiple of the cluster.
template <class Kernel> __global__ void __launch_bounds__(threads<Kernel>, 1)
    run(const __grid_constant__ typename Kernel::Globals g, const __grid_constant__ Problem p) {
  constexpr auto config = Kernel::config;
  static_assert(shared_bytes<Kernel> <= 227 * 1024,
                "the ring and the output buffers exceed a block's shared memory: use fewer stages");
  extern __shared__ std::uint8_t raw[];
  auto& s = *reinterpret_cast<Shared<Kernel>*>(raw + (1024 - address(raw) % 1024) % 1024);
  const int rank = config.cluster() > 1 ? cluster_rank() : 0;
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < config.stages; ++i) {
      barrier_init(address(s.full) + 8 * i, 1);
      barrier_init(address(s.empty) + 8 * i, config.sharers() * config.cluster());
    }
    barrier_init_done();
  }
  if constexpr (config.cluster() > 1)
    cluster_sync();
  else
    __syncthreads();
  let_next_kernel_start();
  if (warpgroup == config.consumers) {
    if constexpr (config.consumers > 1) registers_down<40>();
    if (threadIdx.x % 128 == 0) produce<Kernel>(s, g, p, rank);
  } else {
    if constexpr (config.consumers == 2) registers_up<232>();
    consume<Kernel>(s, g, p, rank, warpgroup);
  }
  if constexpr (config.cluster() > 1) cluster_sync();
}

}  // namespace ridge::tile::sm90

// Reductions over the elements of a lane, the lanes of a warp, the warps of a block and the blocks of a cluster. Their
// order is fixed, so results are reproducible.
#pragma once

#include "ridge/tile/cuda/vector_access.h"

namespace ridge::tile::cuda {

struct SumOp {
  static constexpr u32 identity = 0;
  RIDGE_FN static float combine(float a, float b) { return a + b; }
};
struct MaxOp {
  static constexpr u32 identity = 0xff800000u;
  RIDGE_FN static float combine(float a, float b) { return max(a, b); }
};
struct MinOp {
  static constexpr u32 identity = 0x7f800000u;
  RIDGE_FN static float combine(float a, float b) { return min(a, b); }
};

template <class F, int n, int count> RIDGE_FN float fold_elements(float (&x)[count]) {
  if constexpr (n > 1) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) x[i] = F::combine(x[i], x[n - 1 - i]);
    return fold_elements<F, (n + 1) / 2>(x);
  } else {
    return x[0];
  }
}
template <class F, int count> RIDGE_FN float reduce_elements(float (&x)[count]) { return fold_elements<F, count>(x); }
template <class F, int lanes> RIDGE_FN float reduce_lanes(float x) {
#pragma unroll
  for (int other = lanes / 2; other > 0; other /= 2) x = F::combine(x, __shfl_xor_sync(0xffffffffu, x, other));
  return x;
}
// Writes a warp's partial result. `warp_partials` has one float for each warp. Every warp writes before the barrier,
// and all warps read after it.
template <class F> RIDGE_FN void write_warp_partial(float x, float* warp_partials) {
  x = reduce_lanes<F, 32>(x);
  if (threadIdx.x % 32 == 0) warp_partials[threadIdx.x / 32] = x;
}
template <class F, int warps> RIDGE_FN float reduce_warp_partials(const float* warp_partials) {
  return reduce_lanes<F, 32>(threadIdx.x % 32 < warps ? warp_partials[threadIdx.x % 32] : __uint_as_float(F::identity));
}
template <class F, int warps> RIDGE_FN float reduce_block(float x, float* warp_partials) {
  write_warp_partial<F>(x, warp_partials);
  __syncthreads();
  return reduce_warp_partials<F, warps>(warp_partials);
}
RIDGE_FN u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
RIDGE_FN void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
RIDGE_FN void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Buffers by which the blocks of a cluster exchange partial results of a row. Every warp sends its number to every
// block, whose mbarrier counts the bytes. Iterations alternate between two buffers. A warp never overwrites a buffer
// that is being read, because it needs the numbers of all warps and so is at most one iteration ahead of them.
template <int warps, int blocks> struct ClusterExchange {
  float partials[2][warps * blocks];
  u64 arrived[2];
};
RIDGE_FN u32 shared_address(const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); }
RIDGE_FN u32 cluster_address(u32 block, u32 own) {
  u32 remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(own), "r"(block));
  return remote;
}
// Initialises the barriers of exchanges. cluster_wait() must be called before the first `send_to_cluster`; loads may be
// issued in between.
template <int warps, int blocks, int count> RIDGE_FN void init_exchange(ClusterExchange<warps, blocks> (&all)[count]) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * count; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&all[i / 2].arrived[i % 2]))
                   : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_arrive();
}
template <class F, int warps, int blocks>
RIDGE_FN void send_to_cluster(float x, ClusterExchange<warps, blocks>& by, u32 iteration) {
  float* const partials = by.partials[iteration % 2];
  const u32 arrived = shared_address(&by.arrived[iteration % 2]), lane = threadIdx.x % 32;
  x = reduce_lanes<F, 32>(x);
  if (threadIdx.x == 0)
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived), "r"(warps * blocks * 4)
                 : "memory");
  if (lane < blocks) {
    const u32 own = shared_address(partials + cluster_rank() * warps + threadIdx.x / 32);
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(cluster_address(lane, own)),
        "r"(__float_as_uint(x)), "r"(cluster_address(lane, arrived))
        : "memory");
  }
}
template <class F, int warps, int blocks>
RIDGE_FN float reduce_from_cluster(const ClusterExchange<warps, blocks>& by, u32 iteration) {
  const float* const partials = by.partials[iteration % 2];
  const u32 arrived = shared_address(&by.arrived[iteration % 2]), lane = threadIdx.x % 32;
  for (u32 done = 0; done == 0;)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(arrived), "r"(iteration / 2 % 2)
        : "memory");
  float x = lane < warps * blocks ? partials[lane] : __uint_as_float(F::identity);
#pragma unroll
  for (int i = 32; i < warps * blocks; i += 32)
    if (i + lane < warps * blocks) x = F::combine(x, partials[i + lane]);
  return reduce_lanes<F, 32>(x);
}

}  // namespace ridge::tile::cuda

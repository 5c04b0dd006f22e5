// Reductions of a row over the elements of a lane, the lanes of a warp, the warps of a block and the blocks of a
// cluster. The order is always the same, so results are reproducible.
#pragma once

#include "ridge/tile/cuda/words.h"

namespace ridge::device {

struct Sum {
  static constexpr u32 nothing = 0;
  RIDGE_FN static float of(float a, float b) { return a + b; }
};
struct Most {
  static constexpr u32 nothing = 0xff800000u;
  RIDGE_FN static float of(float a, float b) { return max(a, b); }
};
struct Least {
  static constexpr u32 nothing = 0x7f800000u;
  RIDGE_FN static float of(float a, float b) { return min(a, b); }
};

template <class F, int n, int count> RIDGE_FN float folded(float (&x)[count]) {
  if constexpr (n > 1) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) x[i] = F::of(x[i], x[n - 1 - i]);
    return folded<F, (n + 1) / 2>(x);
  } else {
    return x[0];
  }
}
template <class F, int count> RIDGE_FN float of_elements(float (&x)[count]) { return folded<F, count>(x); }
template <class F, int lanes> RIDGE_FN float of_lanes(float x) {
#pragma unroll
  for (int other = lanes / 2; other > 0; other /= 2) x = F::of(x, __shfl_xor_sync(0xffffffffu, x, other));
  return x;
}
// Writes a warp's partial result. `warp_partials` has one float for each warp. Every warp writes before the barrier,
// and all warps read after it.
template <class F> RIDGE_FN void tell_block(float x, float* place) {
  x = of_lanes<F, 32>(x);
  if (threadIdx.x % 32 == 0) place[threadIdx.x / 32] = x;
}
template <class F, int warps> RIDGE_FN float hear_block(const float* place) {
  return of_lanes<F, 32>(threadIdx.x % 32 < warps ? place[threadIdx.x % 32] : __uint_as_float(F::nothing));
}
template <class F, int warps> RIDGE_FN float of_block(float x, float* place) {
  tell_block<F>(x, place);
  __syncthreads();
  return hear_block<F, warps>(place);
}
RIDGE_FN u32 block_of_cluster() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
RIDGE_FN void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
RIDGE_FN void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Buffers by which the blocks of a cluster exchange partial results of a row: every warp sends its number to every
// block, whose barrier counts the bytes. Iterations alternate between two buffers. A warp can be at most one iteration
// ahead of another, because it needs the numbers of all warps, so it never overwrites a buffer that is being read.
template <int warps, int blocks> struct Exchange {
  float partials[2][warps * blocks];
  u64 arrived[2];
};
RIDGE_FN u32 shared_place(const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); }
RIDGE_FN u32 place_in(u32 block, u32 mine) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(mine), "r"(block));
  return there;
}
// Initialises the exchange. cluster_wait() must be called before the first `send_to_cluster`; loads may come first.
template <int warps, int blocks, int count> RIDGE_FN void prepare(Exchange<warps, blocks> (&all)[count]) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * count; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_place(&all[i / 2].arrived[i % 2])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_arrive();
}
template <class F, int warps, int blocks> RIDGE_FN void tell_cluster(float x, Exchange<warps, blocks>& by, u32 turn) {
  float* const partials = by.partials[turn % 2];
  const u32 arrived = shared_place(&by.arrived[turn % 2]), lane = threadIdx.x % 32;
  x = of_lanes<F, 32>(x);
  if (threadIdx.x == 0)
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived), "r"(warps * blocks * 4)
                 : "memory");
  if (lane < blocks) {
    const u32 mine = shared_place(partials + block_of_cluster() * warps + threadIdx.x / 32);
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(place_in(lane, mine)),
        "r"(__float_as_uint(x)), "r"(place_in(lane, arrived))
        : "memory");
  }
}
template <class F, int warps, int blocks> RIDGE_FN float hear_cluster(const Exchange<warps, blocks>& by, u32 turn) {
  const float* const partials = by.partials[turn % 2];
  const u32 arrived = shared_place(&by.arrived[turn % 2]), lane = threadIdx.x % 32;
  for (u32 done = 0; done == 0;)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(arrived), "r"(turn / 2 % 2)
        : "memory");
  float x = lane < warps * blocks ? partials[lane] : __uint_as_float(F::nothing);
#pragma unroll
  for (int i = 32; i < warps * blocks; i += 32)
    if (i + lane < warps * blocks) x = F::of(x, partials[i + lane]);
  return of_lanes<F, 32>(x);
}

}  // namespace ridge::device

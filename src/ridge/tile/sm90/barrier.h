// Hopper's synchronisation instructions, one function for each. An mbarrier in shared memory counts arrivals of threads
// and bytes of copies, and flips its phase when both are complete; a thread waits for the end of phase 0 or 1. PTX
// ISA 9.0, sections "mbarrier", "barrier", "griddepcontrol", "setmaxnreg".
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile::sm90 {

TILE_FN std::uint32_t shared_address(const void* p) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(p)); }

TILE_FN void init_mbarrier(std::uint32_t bar, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
// Makes the initialised barriers visible to the copy engine and to the other blocks of the cluster.
TILE_FN void publish_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

TILE_FN void expect_bytes(std::uint32_t bar, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
// Arrives with .cta scope. The memory model literally requires .cluster, which costs a quarter of the speed; .cta
// suffices because only the copy engine and the tensor cores access a slot's data.
TILE_FN void arrive_mbarrier(std::uint32_t bar) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
// Arrives when all earlier asynchronous copies (cp.async) of this thread are complete.
TILE_FN void arrive_after_copies(std::uint32_t bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}
TILE_FN void arrive_mbarrier_of_block(std::uint32_t bar,
                                      int block) {  // arrives at the same barrier of another block of the cluster
  asm volatile(
      "{ .reg .b32 a; mapa.shared::cluster.u32 a, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [a]; }" ::"r"(bar),
      "r"(block)
      : "memory");
}
TILE_FN void wait_mbarrier(std::uint32_t bar, std::uint32_t phase) {
  asm volatile(
      "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra done; bra again; done: }" ::
          "r"(bar),
      "r"(phase)
      : "memory");
}

TILE_FN void sync_threads(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
TILE_FN void arrive_threads(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

TILE_FN void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
TILE_FN std::uint32_t read_shared(std::uint32_t address) {
  std::uint32_t x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}
// Reads four floats or four integers from another block's shared memory.
template <class Four> TILE_FN Four read_shared_of_block(std::uint32_t shared, int block) {
  float4 x;
  asm volatile("{ .reg .b32 a; mapa.shared::cluster.u32 a, %4, %5; ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [a]; }"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(shared), "r"(block)
               : "memory");
  if constexpr (std::is_same_v<Four, int4>)
    return {__float_as_int(x.x), __float_as_int(x.y), __float_as_int(x.z), __float_as_int(x.w)};
  else
    return x;
}
TILE_FN int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Set the number of registers of each thread of a warpgroup to `count`, a multiple of 8. The block hangs if 128 times
// the sum of the counts over all warpgroups exceeds 65,536.
template <int count> TILE_FN void increase_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count> TILE_FN void decrease_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

// Programmatic dependent launch: the first function waits for earlier kernels and their stores, the second lets the
// next kernel start.
TILE_FN void wait_for_earlier_kernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
TILE_FN void let_next_kernel_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

TILE_FN std::uint32_t add_acquire_release(std::uint32_t* counter, std::uint32_t by) {  // returns the value before
  std::uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(by) : "memory");
  return before;
}
// Adds with release: writes before it are visible to a thread that reads the counter with acquire.
TILE_FN void add_release(std::uint32_t* counter, std::uint32_t by) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(by) : "memory");
}
// Adds with release at system scope: writes before it are visible to readers on any device.
TILE_FN void add_release_system(std::uint32_t* counter, std::uint32_t by) {
  asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(counter), "r"(by) : "memory");
}
TILE_FN std::uint32_t add_relaxed(std::uint32_t* counter, std::uint32_t by) {
  std::uint32_t before;
  asm volatile("atom.add.relaxed.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(by) : "memory");
  return before;
}
TILE_FN void write_relaxed(std::uint32_t* counter, std::uint32_t x) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(counter), "r"(x) : "memory");
}
TILE_FN std::uint32_t read_acquire(const std::uint32_t* counter) {
  std::uint32_t now;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  return now;
}

// Reads a flag that another device writes. Writes of that device before the flag are visible afterwards.
TILE_FN std::uint32_t read_acquire_system(const std::uint32_t* word) {
  std::uint32_t now;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
  return now;
}

}  // namespace ridge::tile::sm90

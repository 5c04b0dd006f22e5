// Hopper's copy engine (TMA): one thread asks for a box of a tensor, the engine clips it at the tensor's edge (what
// lies outside reads as zero and is not written), swizzles it and reports its bytes to an mbarrier. A box of 64 x 128
// bf16 is 16 KiB in one instruction. PTX ISA 9.0, "cp.async.bulk.tensor".
#pragma once

#include "ridge/tile/sm90/barrier.h"

namespace ridge::tile::sm90 {

struct Corner {  // of a box, in elements: along the contiguous axis, across it, and the product of a batch
  int x, y, batch;
};

TILE_FN void prefetch_map(const CUtensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

TILE_FN void load_box(std::uint32_t to, const CUtensorMap* map, std::uint64_t policy, Corner c, std::uint32_t bar) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(map), "r"(c.x), "r"(c.y), "r"(c.batch), "r"(bar), "l"(policy)
      : "memory");
}

// Into every block of the cluster that the mask names, at the same place; each block's barrier hears of its bytes.
TILE_FN void load_box_multicast(std::uint32_t to, const CUtensorMap* map, std::uint64_t policy, Corner c,
                                std::uint32_t bar, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6, %7;" ::"r"(to),
      "l"(map), "r"(c.x), "r"(c.y), "r"(c.batch), "r"(bar), "h"(blocks), "l"(policy)
      : "memory");
}

TILE_FN void store_box(const CUtensorMap* map, std::uint32_t from, Corner c) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map),
               "r"(c.x), "r"(c.y), "r"(c.batch), "r"(from)
               : "memory");
}
// Stores the box, or adds its 16-bit numbers to what the tensor holds, in the L2, which rounds once more; nothing of
// the tensor is read here ("cp.reduce.async.bulk.tensor"). One text for both: as two calls they cost registers.
TILE_FN void store_or_add_box(const CUtensorMap* map, std::uint32_t from, Corner c, bool add) {
  asm volatile(
      "{ .reg .pred p;\n\tsetp.ne.b32 p, %5, 0;\n\t"
      "@p cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3}], [%4];\n\t"
      "@!p cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4]; }" ::"l"(map),
      "r"(c.x), "r"(c.y), "r"(c.batch), "r"(from), "r"(static_cast<int>(add))
      : "memory");
}
TILE_FN void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// At most `left` stores may still read shared memory.
template <int left> TILE_FN void store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory");
}
// All that this thread's stores wrote has come to memory; and what the engine copies next comes behind what this thread
// has read.
TILE_FN void stores_done() { asm volatile("cp.async.bulk.wait_group 0;\n\tfence.proxy.async.global;" ::: "memory"); }
TILE_FN void copies_follow() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
// What this thread wrote to shared memory becomes visible to the copy engine.
TILE_FN void shared_writes_done() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace ridge::tile::sm90

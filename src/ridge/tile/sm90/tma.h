// Hopper's copy engine (TMA): one thread requests a box of a tensor, the engine clips it at the tensor's edge (elements
// outside read as zero and are not written), swizzles it and reports its bytes to an mbarrier. A box of 64 x 128 bf16
// is 16 KiB in one instruction. PTX ISA 9.0, "cp.async.bulk.tensor".
#pragma once

#include "ridge/tile/sm90/barrier.h"

namespace ridge::tile::sm90 {

struct BoxOrigin {  // position of a box: x along the contiguous axis, y along the other axis, index in the batch
  int x, y, batch;
};

TILE_FN void prefetch_map(const CUtensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

TILE_FN void load_box(std::uint32_t to, const CUtensorMap* map, std::uint64_t policy, BoxOrigin c, std::uint32_t bar) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(map), "r"(c.x), "r"(c.y), "r"(c.batch), "r"(bar), "l"(policy)
      : "memory");
}

// Loads a box into the shared memory of every block in the mask `blocks`, at the same address, and reports the bytes to
// each block's barrier.
TILE_FN void load_box_multicast(std::uint32_t to, const CUtensorMap* map, std::uint64_t policy, BoxOrigin c,
                                std::uint32_t bar, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6, %7;" ::"r"(to),
      "l"(map), "r"(c.x), "r"(c.y), "r"(c.batch), "r"(bar), "h"(blocks), "l"(policy)
      : "memory");
}

// A box of the input of a convolution: `channel`, the position of the first output's pixel along the window axes (the
// innermost first), the image, and the distance from the pixel to the element of the kernel.
struct WindowOrigin {
  int channel, pixel[3], image;
  std::uint16_t offset[3];
};
TILE_FN void load_window(std::uint32_t to, const CUtensorMap* map, std::uint64_t policy, const WindowOrigin& c,
                         std::uint32_t bar, bool has_three_axes) {
  if (has_three_axes)
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
        "[%1, {%2, %3, %4, %5, %6}], [%7], {%8, %9, %10}, %11;" ::"r"(to),
        "l"(map), "r"(c.channel), "r"(c.pixel[0]), "r"(c.pixel[1]), "r"(c.pixel[2]), "r"(c.image), "r"(bar),
        "h"(c.offset[0]), "h"(c.offset[1]), "h"(c.offset[2]), "l"(policy)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
        "[%1, {%2, %3, %4, %5}], [%6], {%7, %8}, %9;" ::"r"(to),
        "l"(map), "r"(c.channel), "r"(c.pixel[0]), "r"(c.pixel[1]), "r"(c.image), "r"(bar), "h"(c.offset[0]),
        "h"(c.offset[1]), "l"(policy)
        : "memory");
}
TILE_FN void load_window_multicast(std::uint32_t to, const CUtensorMap* map, std::uint64_t policy,
                                   const WindowOrigin& c, std::uint32_t bar, bool has_three_axes,
                                   std::uint16_t blocks) {
  if (has_three_axes)
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
        ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5, %6}], [%7], {%8, %9, %10}, %11, %12;" ::"r"(to),
        "l"(map), "r"(c.channel), "r"(c.pixel[0]), "r"(c.pixel[1]), "r"(c.pixel[2]), "r"(c.image), "r"(bar),
        "h"(c.offset[0]), "h"(c.offset[1]), "h"(c.offset[2]), "h"(blocks), "l"(policy)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
        ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8}, %9, %10;" ::"r"(to),
        "l"(map), "r"(c.channel), "r"(c.pixel[0]), "r"(c.pixel[1]), "r"(c.image), "r"(bar), "h"(c.offset[0]),
        "h"(c.offset[1]), "h"(blocks), "l"(policy)
        : "memory");
}

TILE_FN void store_box(const CUtensorMap* map, std::uint32_t from, BoxOrigin c) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map),
               "r"(c.x), "r"(c.y), "r"(c.batch), "r"(from)
               : "memory");
}
// Stores the box, or adds its 16-bit numbers to the tensor in the L2 ("cp.reduce.async.bulk.tensor"), which rounds once
// more. One asm statement has both instructions, because two calls cost more registers.
TILE_FN void store_or_add_box(const CUtensorMap* map, std::uint32_t from, BoxOrigin c, bool add) {
  asm volatile(
      "{ .reg .pred p;\n\tsetp.ne.b32 p, %5, 0;\n\t"
      "@p cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3}], [%4];\n\t"
      "@!p cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4]; }" ::"l"(map),
      "r"(c.x), "r"(c.y), "r"(c.batch), "r"(from), "r"(static_cast<int>(add))
      : "memory");
}
TILE_FN void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until at most `left` groups of stores still read shared memory.
template <int left> TILE_FN void wait_for_store_reads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory");
}
// `wait_for_all_stores` waits until this thread's bulk stores have reached memory. `fence_global_proxy` orders this
// thread's earlier reads before its later copies by the engine.
TILE_FN void wait_for_all_stores() {
  asm volatile("cp.async.bulk.wait_group 0;\n\tfence.proxy.async.global;" ::: "memory");
}
TILE_FN void fence_global_proxy() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
// Makes this thread's writes to shared memory visible to the copy engine.
TILE_FN void fence_shared_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace ridge::tile::sm90

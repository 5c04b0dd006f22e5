// Sums that are added to what the output holds: rounded to its 16 bits in shared memory, from where the copy engine
// adds them in the L2 (PTX ISA 9.0, "cp.reduce.async.bulk.tensor"), rounding once more. Nothing of the output is read.
#pragma once

#include "ridge/tile/sm90/fold.h"

namespace ridge::tile::sm90 {

TILE_FN void add_box(const CUtensorMap* map, std::uint32_t from, Corner c) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map),
      "r"(c.x), "r"(c.y), "r"(c.batch), "r"(from)
      : "memory");
}

// add: the same for every thread. The output's map has boxes of 64 x 64.
template <class Kernel, class T, int m, int n, int sharers>
TILE_FN void store_or_add(Consumer<Kernel>& at, const OutputView<T, m, n>& view, const Accumulator<m, n, sharers>& acc,
                          Row row, Col col, bool add) {
  static_assert(n % atom == 0, "store_or_add: whole boxes of 64 columns");
  const int first = static_cast<int>(row.begin) + at.share * (m / sharers), column = static_cast<int>(col.begin);
#pragma unroll
  for (int i = 0; i < m / sharers / 64; ++i)
#pragma unroll
    for (int c = 0; c < n / atom; ++c) {
      const std::uint32_t out = address(at.staging) + at.buffer * (atom * 128);
      const float* const v = acc.v + i * (n / 2) + c * (atom / 2);
      const Corner corner = {column + c * atom, first + i * 64, at.batch};
      const auto write = [&] {
#pragma unroll
        for (int j = 0; j < atom / 16; ++j) {
          const float* const x = v + j * 8;
          const std::uint32_t two[4] = {pack<T>(x[0], x[1]), pack<T>(x[2], x[3]), pack<T>(x[4], x[5]),
                                        pack<T>(x[6], x[7])};
          stage_packed<atom>(out, j, two);
        }
      };
      const auto send = [&] {
        if (add)
          add_box(&view.on_target.map, out, corner);
        else
          store_box(&view.on_target.map, out, corner);
      };
      send_box<Kernel::config.staging>(at, write, send);
    }
}

}  // namespace ridge::tile::sm90

// Division of a running sum's lines among the threads of a device. The kernels and their prediction share it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ridge/base/ceil_div.h"
#include "ridge/base/dtype_set.h"
#include "ridge/ops/loops/lines.h"

namespace ridge::ops {

inline constexpr int running_sum_threads = 256;  // Threads of a block

struct RunningSumPlan {
  std::vector<LoopAxis> axes;
  std::int64_t lines = 1, splits = 1, split_extent = 1;
  bool is_along = false;           // True if a team sums a line with contiguous elements.
  int team = running_sum_threads;  // Threads of a team, or adjacent lines of a block
};
inline RunningSumPlan plan_running_sum(const RunningSumLoops& l, int multiprocessors) {
  constexpr std::int64_t tile = 4096, min_warp_lines = 1024, min_steps = 64;
  constexpr std::int64_t min_threads_per_sm = 1024;  // Fewer threads do not fill a multiprocessor.
  constexpr int threads = running_sum_threads;
  RunningSumPlan out{merge_loop_axes(l.axes)};
  out.lines = count_points(out.axes);
  out.is_along = StoredFloats::contains(l.values) && l.axis.values == 1 && l.axis.result == 1 && l.axis.extent > 1;
  const std::int64_t n = l.axis.extent, useful_threads = min_threads_per_sm * multiprocessors;
  std::int64_t part = tile;  // Smallest part of a line that is worth a split
  if (out.is_along) {
    out.team = n < 2 * 32 * 16 && out.lines >= min_warp_lines ? 32 : threads;
  } else {
    // The more lines there are, the fewer threads share one.
    out.team = 32;
    while (out.team < threads && out.lines * (threads / out.team) >= 2 * useful_threads) out.team *= 2;
    while (out.team < threads && n < min_steps / 8 * (threads / out.team)) out.team *= 2;
    part = min_steps * (threads / out.team);
  }
  const std::int64_t busy = out.is_along ? out.lines * out.team : ceil_div(out.lines, out.team) * threads;
  const bool can_split = !out.is_along || out.team == threads;
  const std::int64_t splits = can_split ? std::clamp<std::int64_t>(useful_threads / std::max<std::int64_t>(busy, 1), 1,
                                                                   std::max<std::int64_t>(n / part, 1))
                                        : 1;
  out.split_extent = ceil_div(ceil_div(n, splits), part) * part;
  if (splits == 1) out.split_extent = std::max<std::int64_t>(n, 1);
  out.splits = ceil_div(n, out.split_extent);
  return out;
}

}  // namespace ridge::ops

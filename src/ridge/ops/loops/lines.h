// Loops over the axes of problem.h. Axes that one stride covers in every tensor are merged: a gather of rows into
// y[2, 3, 64] from indices [2, 3] has two axes, 6 rows and 64 columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ridge/ops/loops/problem.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {

// Returns the axes in order, without those of extent 1; adjacent ones are merged where strides allow it.
inline std::vector<LoopAxis> merge_loop_axes(const std::vector<LoopAxis>& axes) {
  std::vector<LoopAxis> out;
  for (const LoopAxis& axis : axes) {
    if (axis.extent == 1) continue;
    const auto continues = [&](std::int64_t LoopAxis::*stride) {
      return out.back().*stride == axis.*stride * axis.extent;
    };
    if (!out.empty() && continues(&LoopAxis::values) && continues(&LoopAxis::indices) && continues(&LoopAxis::result)) {
      const std::int64_t extent = out.back().extent * axis.extent;
      out.back() = axis;
      out.back().extent = extent;
    } else {
      out.push_back(axis);
    }
  }
  return out;
}

// Removes and returns the last axis, or an axis of one element if there is none.
inline LoopAxis take_last_axis(std::vector<LoopAxis>& axes) {
  if (axes.empty()) return {};
  const LoopAxis last = axes.back();
  axes.pop_back();
  return last;
}

inline std::int64_t count_points(const std::vector<LoopAxis>& axes) {
  std::int64_t n = 1;
  for (const LoopAxis& axis : axes) n *= axis.extent;
  return n;
}

// The offsets of one point of the axes, in elements. Moving to the next point takes no division.
class LoopCursor {
 public:
  LoopCursor(const std::vector<LoopAxis>& axes, std::int64_t point) : axes_(axes), at_(axes.size()) {
    for (std::size_t i = axes.size(); i-- > 0; point /= axes[i].extent) {
      at_[i] = point % axes[i].extent;
      move(axes[i], at_[i]);
    }
  }
  const LoopAxis& offsets() const { return offsets_; }
  void advance() {
    for (std::size_t i = axes_.size(); i-- > 0;) {
      move(axes_[i], 1);
      if (++at_[i] < axes_[i].extent) return;
      move(axes_[i], -at_[i]);
      at_[i] = 0;
    }
  }

 private:
  void move(const LoopAxis& axis, std::int64_t steps) {
    offsets_.values += steps * axis.values;
    offsets_.indices += steps * axis.indices;
    offsets_.result += steps * axis.result;
  }

  const std::vector<LoopAxis>& axes_;
  std::vector<std::int64_t> at_;
  LoopAxis offsets_;
};

// Calls work(begin, end) for contiguous parts of 0 … count - 1: one for each thread, of at least `min_part`.
template <class Work> void run_in_parts(std::int64_t count, std::int64_t min_part, int threads, const Work& work) {
  const std::int64_t useful_threads = std::max<std::int64_t>(count / std::max<std::int64_t>(min_part, 1), 1);
  const int parts = static_cast<int>(std::min<std::int64_t>(std::max(threads, 1), useful_threads));
  pool::run_parallel(parts, [&](int part) {
    const pool::WorkSlice mine = pool::split_evenly(count, parts, part);
    if (mine.begin < mine.end) work(mine.begin, mine.end);
  });
}

}  // namespace ridge::ops

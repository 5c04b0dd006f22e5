// Rotary position embeddings (Su et al. 2021, "RoFormer"). Cosines and sines are computed once for consecutive lines of
// one position, such as the heads of a token.
#include <cmath>
#include <limits>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/element.h"
#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/isa_kernels.h"
#include "ridge/ops/loops/strided.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

// Rotates lines on one thread.
class LineRotation {
 public:
  LineRotation(const RotaryLoops& l, std::span<void* const> data)
      : l_(l),
        data_(data),
        frequencies_(l.axis.extent / 2),
        cosines_(frequencies_.size()),
        sines_(frequencies_.size()),
        x_(l.axis.extent),
        y_(l.axis.extent) {
    for (std::size_t i = 0; i < frequencies_.size(); ++i)
      frequencies_[i] = std::pow(l.base, -2.0 * static_cast<double>(i) / static_cast<double>(l.axis.extent));
  }

  void rotate(const LoopAxis& at) {
    set_position(load_element(l_.positions, data_[1], at.indices));
    const StridedElements from{l_.values, data_[0], at.values, l_.axis.values},
        to{l_.result, data_[2], at.result, l_.axis.result};
    const float* x = x_.data();
    if (from.are_floats())
      x = from.floats();
    else
      load_floats(from, l_.axis.extent, x_.data());
    pool::select_for_isa(plain::rotate_pairs, avx2::rotate_pairs, avx512::rotate_pairs)(
        {x, cosines_.data(), sines_.data(), l_.axis.extent / 2, l_.interleaved, y_.data()});
    store_floats(y_.data(), l_.axis.extent, to);
  }

 private:
  void set_position(double position) {
    if (position == position_) return;
    position_ = position;
    pool::select_for_isa(plain::fill_rotary_angles, avx2::fill_rotary_angles,
                         avx512::fill_rotary_angles)({position, frequencies_, cosines_.data(), sines_.data()});
  }

  const RotaryLoops& l_;
  std::span<void* const> data_;
  double position_ = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> frequencies_;
  std::vector<float> cosines_, sines_, x_, y_;
};

}  // namespace

void run_loops(const RotaryLoops& l, std::span<void* const> data, int threads) {
  const std::vector<LoopAxis> axes = merge_loop_axes(l.axes);
  run_in_parts(count_points(axes), min_elements_per_part / l.axis.extent, threads,
               [&](std::int64_t begin, std::int64_t end) {
                 LineRotation rotation(l, data);
                 LoopCursor cursor(axes, begin);
                 for (std::int64_t line = begin; line < end; ++line, cursor.advance())
                   rotation.rotate(cursor.offsets());
               });
}

}  // namespace ridge::ops

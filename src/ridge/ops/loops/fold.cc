// Folds on a CPU. For each tap along the last axis, the rows of columns that the other axes' taps select are added, and
// their sum is added to the outputs that it reaches: with stride 2, to every second one. The outputs of a row are
// therefore summed as `stride` phases, in each of which adjacent sums belong to adjacent positions.
#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/isa_kernels.h"
#include "ridge/ops/loops/strided.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

class FoldRun {
 public:
  FoldRun(const FoldLoops& fold, std::span<void* const> data)
      : fold_(fold), data_(data), axes_(merge_fold_axes(fold.axes)), line_(axes_.back()) {
    axes_.pop_back();
    phases_ = std::min(line_.stride, line_.out);
    phase_size_ = ceil_div(line_.out, line_.stride);
  }
  std::int64_t count_rows() const {
    std::int64_t rows = 1;
    for (const FoldAxis& axis : axes_) rows *= axis.out;
    return rows;
  }
  std::int64_t row_elements() const { return line_.out + line_.taps * line_.positions + 1; }

  void run_rows(std::int64_t begin, std::int64_t end) const {
    std::vector<float> sums(phases_ * phase_size_), part(line_.positions), result(line_.out), copies;
    std::vector<std::int64_t> rows;
    for (std::int64_t row = begin; row < end; ++row) {
      rows.clear();
      const std::int64_t first_result = find_rows(row, rows);
      if (line_.has_window()) {
        std::fill(sums.begin(), sums.end(), 0.0f);
        for (std::int64_t tap = 0; tap < line_.taps; ++tap) add_tap(tap, rows, copies, part.data(), sums.data());
        for (std::int64_t o = 0; line_.stride > 1 && o < line_.out; ++o)
          result[o] = sums[o % line_.stride * phase_size_ + o / line_.stride];
      } else {
        sum_rows(rows, 0, line_.out, copies, result.data());
      }
      const float* const from = line_.has_window() && line_.stride == 1 ? sums.data() : result.data();
      store_floats(from, line_.out, {fold_.y, data_[1], first_result, line_.y_stride});
    }
  }

 private:
  // Appends the offsets of the rows of columns that reach an output row, with the taps of the first axis outermost.
  // Returns the offset of the output row.
  std::int64_t find_rows(std::int64_t row, std::vector<std::int64_t>& rows) const {
    rows.push_back(0);
    std::int64_t result = 0;
    for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
      const std::int64_t o = row % axis->out;
      result += o * axis->y_stride;
      row /= axis->out;
      const std::size_t before = rows.size();
      for (std::int64_t tap = 0; tap < axis->taps; ++tap) {
        const std::int64_t distance = o + axis->padding - tap * axis->dilation, position = distance / axis->stride;
        if (distance < 0) break;
        if (distance % axis->stride != 0 || position >= axis->positions) continue;
        for (std::size_t i = 0; i < before; ++i)
          rows.push_back(rows[i] + position * axis->position_stride + tap * axis->tap_stride);
      }
      rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(before));
    }
    return result;
  }

  // Sums n elements, from `first` on, of all rows.
  void sum_rows(const std::vector<std::int64_t>& rows, std::int64_t first, std::int64_t n, std::vector<float>& copies,
                float* result) const {
    std::vector<std::int64_t> from;
    const bool is_contiguous = line_.position_stride == 1;
    if (!is_contiguous) copies.resize(rows.size() * n);
    for (const std::int64_t row : rows) {
      from.push_back(is_contiguous ? row + first : static_cast<std::int64_t>(from.size()) * n);
      if (!is_contiguous)
        load_floats({fold_.columns, data_[0], row + first, line_.position_stride}, n, copies.data() + from.back());
    }
    pool::select_for_isa(plain::pool_rows, avx2::pool_rows, avx512::pool_rows)(
        {is_contiguous ? fold_.columns : DType::f32, is_contiguous ? data_[0] : copies.data(), from, n, false, result});
  }

  // Adds the columns of one tap of the last axis to the outputs that they reach.
  void add_tap(std::int64_t tap, const std::vector<std::int64_t>& rows, std::vector<float>& copies, float* part,
               float* sums) const {
    const std::int64_t before = line_.padding - tap * line_.dilation;  // position 0 reaches output -before
    const auto first_position = [&](std::int64_t distance) {
      return distance <= 0 ? 0 : std::min(line_.positions, ceil_div(distance, line_.stride));
    };
    const std::int64_t first = first_position(before), n = first_position(before + line_.out) - first;
    if (n <= 0 || rows.empty()) return;
    sum_rows(rows, tap * line_.tap_stride + first * line_.position_stride, n, copies, part);
    const std::int64_t o = first * line_.stride - before;
    float* const to = sums + o % line_.stride * phase_size_ + o / line_.stride;
    for (std::int64_t i = 0; i < n; ++i) to[i] += part[i];
  }

  const FoldLoops& fold_;
  std::span<void* const> data_;
  std::vector<FoldAxis> axes_;  // All but the last
  FoldAxis line_;               // The last axis
  std::int64_t phases_ = 1, phase_size_ = 0;
};

}  // namespace

std::vector<FoldAxis> merge_fold_axes(const std::vector<FoldAxis>& axes) {
  std::vector<FoldAxis> out;
  for (const FoldAxis& axis : axes) {
    if (!axis.has_window() && axis.out == 1) continue;
    const bool is_merged = !axis.has_window() && !out.empty() && !out.back().has_window() &&
                           out.back().position_stride == axis.out * axis.position_stride &&
                           out.back().y_stride == axis.out * axis.y_stride;
    if (!is_merged) {
      out.push_back(axis);
      continue;
    }
    const std::int64_t extent = out.back().out * axis.out;
    out.back() = axis;
    out.back().positions = out.back().out = extent;
  }
  if (out.empty()) out.emplace_back();
  return out;
}

void run_loops(const FoldLoops& fold, std::span<void* const> data, int threads) {
  const FoldRun run(fold, data);
  run_in_parts(run.count_rows(), min_elements_per_part / run.row_elements(), threads,
               [&](std::int64_t begin, std::int64_t end) { run.run_rows(begin, end); });
}

}  // namespace ridge::ops

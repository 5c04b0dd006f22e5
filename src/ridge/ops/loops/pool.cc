// Maxima and means of windows. The rows of x in the window of an output row are combined elementwise first; then, if
// the last axis has a window, the elements along that row. A window of 3 x 3 takes three rows and three elements.
#include <algorithm>
#include <array>
#include <limits>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/isa_kernels.h"
#include "ridge/ops/loops/strided.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

// Returns the axes without those of one element; adjacent ones without a window are merged where strides allow it.
std::vector<PoolAxis> merge_pool_axes(const std::vector<PoolAxis>& axes) {
  std::vector<PoolAxis> out;
  for (const PoolAxis& axis : axes) {
    if (!axis.is_pooled() && axis.in == 1) continue;
    const bool is_merged = !axis.is_pooled() && !out.empty() && !out.back().is_pooled() &&
                           out.back().x_stride == axis.in * axis.x_stride &&
                           out.back().y_stride == axis.out * axis.y_stride;
    if (!is_merged) {
      out.push_back(axis);
      continue;
    }
    const std::int64_t extent = out.back().in * axis.in;
    out.back() = axis;
    out.back().in = out.back().out = extent;
  }
  if (out.empty()) out.emplace_back();
  return out;
}

class PoolRun {
 public:
  PoolRun(const PoolLoops& pool, std::span<void* const> data)
      : pool_(pool), data_(data), axes_(merge_pool_axes(pool.axes)), line_(axes_.back()) {
    axes_.pop_back();
    for (const PoolAxis& axis : pool.axes) window_elements_ *= axis.kernel;
    phase_ =
        (std::max(line_.padding + line_.in, (line_.out - 1) * line_.stride + line_.dilation * (line_.kernel - 1) + 1) +
         line_.stride - 1) /
        line_.stride;
  }
  std::int64_t count_rows() const {
    std::int64_t rows = 1;
    for (const PoolAxis& axis : axes_) rows *= axis.out;
    return rows;
  }
  std::int64_t row_elements() const { return std::max(line_.in, line_.out) + 1; }

  void run_rows(std::int64_t begin, std::int64_t end) const {
    const float identity = pool_.is_maximum ? -std::numeric_limits<float>::infinity() : 0;
    const std::int64_t padded_elements = phase_ * line_.stride;
    std::vector<float> padded(padded_elements, identity), phases(line_.stride > 1 ? padded_elements : 0);
    std::vector<float> result(line_.out), copies;
    std::vector<std::int64_t> rows;
    for (std::int64_t row = begin; row < end; ++row) {
      rows.clear();
      const std::int64_t first_result = find_rows(row, rows);
      float* const combined = line_.is_pooled() ? padded.data() + line_.padding : result.data();
      if (line_.x_stride == 1) {
        run_isa(PoolRows{pool_.x, data_[0], rows, line_.in, pool_.is_maximum, combined});
      } else {
        copy_rows(rows, copies);
        run_isa(PoolRows{DType::f32, copies.data(), rows, line_.in, pool_.is_maximum, combined});
      }
      if (line_.is_pooled()) pool_line(padded, phases, result.data());
      if (!pool_.is_maximum)
        for (float& value : result) value /= static_cast<float>(window_elements_);
      store_floats(result.data(), line_.out, {pool_.y, data_[1], first_result, line_.y_stride});
    }
  }

 private:
  static void run_isa(const PoolRows& run) {
    pool::select_for_isa(plain::pool_rows, avx2::pool_rows, avx512::pool_rows)(run);
  }

  // Appends the first elements of the rows of x in the window of an output row, and returns that row's first element.
  std::int64_t find_rows(std::int64_t row, std::vector<std::int64_t>& rows) const {
    rows.push_back(0);
    std::int64_t result = 0;
    for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
      const std::int64_t first = row % axis->out * axis->stride - axis->padding;
      result += row % axis->out * axis->y_stride;
      row /= axis->out;
      const std::size_t before = rows.size();
      for (std::int64_t k = 0; k < axis->kernel; ++k) {
        const std::int64_t at = first + k * axis->dilation;
        if (at < 0 || at >= axis->in) continue;
        for (std::size_t i = 0; i < before; ++i) rows.push_back(rows[i] + at * axis->x_stride);
      }
      rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(before));
    }
    return result;
  }

  // Copies rows of x to contiguous floats, in which `rows` are then their first elements.
  void copy_rows(std::vector<std::int64_t>& rows, std::vector<float>& copies) const {
    copies.resize(rows.size() * line_.in);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * line_.in;
      load_floats({pool_.x, data_[0], rows[i], line_.x_stride}, line_.in, copies.data() + first);
      rows[i] = first;
    }
  }

  void pool_line(const std::vector<float>& padded, std::vector<float>& phases, float* result) const {
    for (std::int64_t p = 0; line_.stride > 1 && p < line_.stride; ++p)
      for (std::int64_t i = 0; i < phase_; ++i) phases[p * phase_ + i] = padded[i * line_.stride + p];
    pool::select_for_isa(plain::pool_windows, avx2::pool_windows,
                         avx512::pool_windows)({line_.stride > 1 ? phases.data() : padded.data(), phase_, line_.stride,
                                                line_.dilation, line_.kernel, line_.out, pool_.is_maximum, result});
  }

  const PoolLoops& pool_;
  std::span<void* const> data_;
  std::vector<PoolAxis> axes_;  // All but the last
  PoolAxis line_;
  std::int64_t window_elements_ = 1, phase_ = 0;
};

}  // namespace

void run_loops(const PoolLoops& pool, std::span<void* const> data, int threads) {
  const PoolRun run(pool, data);
  run_in_parts(run.count_rows(), min_elements_per_part / run.row_elements(), threads,
               [&](std::int64_t begin, std::int64_t end) { run.run_rows(begin, end); });
}

}  // namespace ridge::ops

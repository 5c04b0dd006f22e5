#include "ridge/simulate/systolic_elements.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge {
namespace {

// View of a matrix in the array's coordinates: a stride from one cycle's number to the next, and a stride from one row
// or column of elements to the adjacent one.
struct OperandStream {
  const float* data = nullptr;
  std::int64_t step_stride = 0, lane_stride = 0;
  float value_at(std::int64_t s, std::int64_t l) const { return data[s * step_stride + l * lane_stride]; }
};

// Operands and outputs of one fold. `stationary` is the stationary tile (step = row, lane = column); it is unused if
// the output is stationary.
struct FoldOperands {
  std::int64_t rows = 0, cols = 0;  // elements in use
  OperandStream left, down, stationary;
  float* c = nullptr;  // the fold's first output, with the strides below
  std::int64_t c_step_stride = 0, c_lane_stride = 0;
};

FoldOperands fold_operands(const SystolicMapping& map, const ProductSize& p, std::span<const float> a,
                           std::span<const float> b, std::int64_t row, std::int64_t col) {
  FoldOperands operands;
  if (map.is_output_stationary) {
    operands.left = {a.data() + row * p.k, 1, p.k};
    operands.down = {b.data() + col, p.n, 1};
  } else if (map.is_transposed) {
    operands.left = {b.data() + row * p.n, 1, p.n};
    operands.stationary = {a.data() + col * p.k + row, 1, p.k};
  } else {
    operands.left = {a.data() + row, p.k, 1};
    operands.stationary = {b.data() + row * p.n + col, p.n, 1};
  }
  return operands;
}

// Updates one row of elements: sum[i] += x[i]·y[i]. This loop dominates the run time.
void multiply_add(float* __restrict sum, const float* __restrict x, const float* __restrict y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i] * y[i];
}

// Registers of all elements. No data is copied: a shift down rotates a ring of rows, and a shift right decrements
// the common start offset of all rows. Every row stays contiguous, so a step is one pass over it.
class ElementRegisters {
 public:
  ElementRegisters(std::int64_t rows, std::int64_t cols)
      : rows_(rows),
        cols_(cols),
        margin_(std::max<std::int64_t>(cols, 64)),
        row_offset_(margin_),
        stationary_(static_cast<std::size_t>(rows * cols)),
        down_(stationary_.size()),
        left_(static_cast<std::size_t>(rows * (cols + margin_))) {}

  float* stationary_row(std::int64_t r) { return stationary_.data() + ring_index(stationary_top_, r) * cols_; }
  float* down_row(std::int64_t r) { return down_.data() + ring_index(down_top_, r) * cols_; }
  float* left_row(std::int64_t r) { return left_.data() + r * (cols_ + margin_) + row_offset_; }

  void shift_stationary_down() { stationary_top_ = ring_index(stationary_top_, rows_ - 1); }
  void shift_down() { down_top_ = ring_index(down_top_, rows_ - 1); }
  void shift_right() {
    if (row_offset_ == 0) {
      for (std::int64_t r = 0; r < rows_; ++r) {
        float* row = left_.data() + r * (cols_ + margin_);
        std::copy_backward(row, row + cols_ - 1, row + margin_ + cols_);
      }
      row_offset_ = margin_ + 1;
    }
    --row_offset_;
  }
  void clear_stationary() { std::fill(stationary_.begin(), stationary_.end(), 0.0F); }
  void multiply_add_all(bool is_output_stationary) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      float *stationary = stationary_row(r), *moving = down_row(r);
      multiply_add(is_output_stationary ? stationary : moving, is_output_stationary ? moving : stationary, left_row(r),
                   cols_);
    }
  }

 private:
  std::int64_t ring_index(std::int64_t top, std::int64_t r) const {
    return top + r < rows_ ? top + r : top + r - rows_;
  }
  std::int64_t rows_, cols_, margin_, row_offset_, stationary_top_ = 0, down_top_ = 0;
  std::vector<float> stationary_, down_, left_;
};

class Stepper {
 public:
  Stepper(const SystolicArray& array, const SystolicMapping& map, const ElementOptions& options, ElementRun& run)
      : array_(array), map_(map), options_(options), run_(run), registers_(array.rows, array.cols) {}

  void run_fold(const FoldOperands& operands) {
    if (map_.is_output_stationary)
      registers_.clear_stationary();
    else
      load_tile(operands);
    for (std::int64_t t = 0; t < map_.stream_cycles; ++t) run_stream_cycle(operands, t);
    if (map_.is_output_stationary) collect_stationary(operands);
    ++fold_;
  }

 private:
  // Loads the tile from the top, last row first, one row for each cycle; a preloaded tile takes no cycles.
  void load_tile(const FoldOperands& operands) {
    for (std::int64_t l = 0; l < array_.rows; ++l) {
      const std::int64_t r = array_.rows - 1 - l;
      registers_.shift_stationary_down();
      float* top = registers_.stationary_row(0);
      std::fill(top, top + array_.cols, 0.0F);
      if (r < operands.rows)
        for (std::int64_t c = 0; c < operands.cols; ++c) top[c] = operands.stationary.value_at(r, c);
      if (map_.load_cycles > 0) end_cycle(operands, -1);
    }
    stationary_words() += operands.rows * operands.cols;
  }

  void run_stream_cycle(const FoldOperands& operands, std::int64_t t) {
    registers_.shift_right();
    std::int64_t words = 0;
    for (std::int64_t r = 0; r < array_.rows; ++r) {
      const bool is_entering = r < operands.rows && t >= r && t - r < map_.t;
      registers_.left_row(r)[0] = is_entering ? operands.left.value_at(t - r, r) : 0.0F;
      words += is_entering;
    }
    moving_words() += words;
    registers_.shift_down();
    feed_top(operands, t);
    registers_.multiply_add_all(map_.is_output_stationary);
    run_.multiply_adds += count_useful(operands, t);
    if (!map_.is_output_stationary) collect_bottom(operands, t);
    end_cycle(operands, t);
  }

  // Sets the top edge: sums start at 0; with a stationary output, B enters there.
  void feed_top(const FoldOperands& operands, std::int64_t t) {
    float* top = registers_.down_row(0);
    std::fill(top, top + array_.cols, 0.0F);
    if (!map_.is_output_stationary) return;
    for (std::int64_t c = std::max<std::int64_t>(0, t - map_.t + 1); c < std::min(operands.cols, t + 1); ++c) {
      top[c] = operands.down.value_at(t - c, c);
      ++run_.sram_words.b;
    }
  }

  // Adds the sums that leave the last row: step s of the stream leaves column c at cycle s + R − 1 + c.
  void collect_bottom(const FoldOperands& operands, std::int64_t t) {
    const float* bottom = registers_.down_row(array_.rows - 1);
    const std::int64_t steps_after_first = t - (array_.rows - 1);
    for (std::int64_t c = std::max<std::int64_t>(0, steps_after_first - map_.t + 1);
         c < std::min(operands.cols, steps_after_first + 1); ++c) {
      operands.c[(steps_after_first - c) * operands.c_step_stride + c * operands.c_lane_stride] += bottom[c];
      ++run_.sram_words.c;
    }
  }

  void collect_stationary(const FoldOperands& operands) {
    for (std::int64_t r = 0; r < operands.rows; ++r)
      for (std::int64_t c = 0; c < operands.cols; ++c)
        operands.c[r * operands.c_step_stride + c * operands.c_lane_stride] = registers_.stationary_row(r)[c];
    run_.sram_words.c += operands.rows * operands.cols;
  }

  // Returns the number of elements in use that process a step of the stream; element (r, c) processes step t − r − c.
  std::int64_t count_useful(const FoldOperands& operands, std::int64_t t) const {
    if (t >= operands.rows + operands.cols - 2 && t < map_.t)
      return operands.rows * operands.cols;  // all elements are busy
    std::int64_t count = 0;
    for (std::int64_t r = 0; r < std::min(operands.rows, t + 1); ++r)
      count +=
          std::max<std::int64_t>(0, std::min(operands.cols, t - r + 1) - std::max<std::int64_t>(0, t - r - map_.t + 1));
    return count;
  }

  // `t` is the cycle of the stream, or -1 while the tile is shifted in.
  void end_cycle(const FoldOperands& operands, std::int64_t t) {
    if (options_.frames) store_frame(operands, t);
    ++run_.cycles;
    run_.element_steps += array_.rows * array_.cols;
  }

  void store_frame(const FoldOperands& operands, std::int64_t t) {
    ArrayFrame frame;
    frame.cycle = run_.cycles;
    frame.fold = fold_;
    for (std::int64_t r = 0; r < array_.rows; ++r) {
      frame.stationary.insert(frame.stationary.end(), registers_.stationary_row(r),
                              registers_.stationary_row(r) + array_.cols);
      frame.left.insert(frame.left.end(), registers_.left_row(r), registers_.left_row(r) + array_.cols);
      frame.down.insert(frame.down.end(), registers_.down_row(r), registers_.down_row(r) + array_.cols);
      for (std::int64_t c = 0; c < array_.cols; ++c) {
        const std::int64_t step = t - r - c;
        frame.busy.push_back(r < operands.rows && c < operands.cols && step >= 0 && step < map_.t);
      }
    }
    run_.frames.push_back(std::move(frame));
  }

  std::int64_t& moving_words() { return map_.is_transposed ? run_.sram_words.b : run_.sram_words.a; }
  std::int64_t& stationary_words() { return map_.is_transposed ? run_.sram_words.a : run_.sram_words.b; }

  const SystolicArray& array_;
  const SystolicMapping& map_;
  const ElementOptions& options_;
  ElementRun& run_;
  ElementRegisters registers_;
  std::int64_t fold_ = 0;
};

Status check_elements(const SystolicArray& array, const ProductSize& p, std::size_t a, std::size_t b,
                      const ElementOptions& options) {
  RIDGE_TRY_STATUS(check_systolic(array, p));
  const auto elements_of = [](std::int64_t x, std::int64_t y) { return static_cast<std::size_t>(x * y); };
  if (a != elements_of(p.m, p.k))
    return input_error(fmt::format("expected {} numbers of A [{}, {}], found {}", p.m * p.k, p.m, p.k, a));
  if (b != elements_of(p.k, p.n))
    return input_error(fmt::format("expected {} numbers of B [{}, {}], found {}", p.k * p.n, p.k, p.n, b));
  if (p.m * p.n > ElementOptions::max_results)
    return input_error(
        fmt::format("expected at most {} results to step, found {}·{}", ElementOptions::max_results, p.m, p.n),
        "the closed form gives the same cycles");
  const SystolicMapping map = make_mapping(array, p);
  const std::int64_t element_count = array.rows * array.cols, cycles = map.fold_count() * map.fold_cycles();
  if (element_count > ElementOptions::max_elements)
    return input_error(fmt::format("expected an array of at most {} elements to step, found {}",
                                   ElementOptions::max_elements, element_count),
                       "the closed form gives the same cycles");
  std::int64_t steps = 0;
  if (__builtin_mul_overflow(cycles, element_count, &steps) || steps > ElementOptions::max_steps)
    return input_error(fmt::format("expected at most {} element-steps, found {} cycles of {} elements",
                                   ElementOptions::max_steps, cycles, element_count),
                       "the closed form gives the same cycles");
  if (options.frames && steps > ElementOptions::max_frame_words / 3)
    return input_error(fmt::format("expected frames of at most {} numbers, found {} cycles of 3·{}",
                                   ElementOptions::max_frame_words, cycles, element_count));
  return Done{};
}

}  // namespace

Result<ElementRun> simulate_elements(const SystolicArray& array, const ProductSize& p, std::span<const float> a,
                                     std::span<const float> b, const ElementOptions& options) {
  RIDGE_TRY_STATUS(check_elements(array, p, a.size(), b.size(), options));
  const SystolicMapping map = make_mapping(array, p);
  ElementRun run;
  run.c.assign(p.m * p.n, 0.0F);
  Stepper stepper(array, map, options, run);
  for (std::int64_t col = 0; col < map.sc; col += array.cols) {
    for (std::int64_t row = 0; row < map.sr; row += array.rows) {
      FoldOperands operands = fold_operands(map, p, a, b, row, col);
      operands.rows = std::min(array.rows, map.sr - row);
      operands.cols = std::min(array.cols, map.sc - col);
      // Output [step, lane] is C[m, n] for ws, C[n, m] for is; for os [row, column].
      operands.c_step_stride = map.is_transposed ? 1 : p.n;
      operands.c_lane_stride = map.is_transposed ? p.n : 1;
      operands.c = run.c.data() + (map.is_output_stationary ? row * p.n : 0) + col * operands.c_lane_stride;
      stepper.run_fold(operands);
    }
  }
  if (!array.preload) --run.cycles;
  return run;
}

}  // namespace ridge

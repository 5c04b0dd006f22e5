#include "ridge/simulate/elements.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge {
namespace {

// A matrix as the array sees it: `step` is the stride from one cycle's number to the next, `lane` from one row or
// column of elements to its neighbour.
struct Stream {
  const float* data = nullptr;
  std::int64_t step = 0, lane = 0;
  float at(std::int64_t s, std::int64_t l) const { return data[s * step + l * lane]; }
};

// What one fold feeds and collects. `held`: the stationary tile, step = row, lane = column; unused where the output
// stays.
struct Feed {
  std::int64_t rows = 0, cols = 0;  // elements in use
  Stream left, down, held;
  float* c = nullptr;  // the fold's first output, with the strides below
  std::int64_t c_step = 0, c_lane = 0;
};

Feed feed_of(const SystolicMapping& map, const ProductSize& p, std::span<const float> a, std::span<const float> b,
             std::int64_t row, std::int64_t col) {
  Feed feed;
  if (map.output_stays) {
    feed.left = {a.data() + row * p.k, 1, p.k};
    feed.down = {b.data() + col, p.n, 1};
  } else if (map.transposed) {
    feed.left = {b.data() + row * p.n, 1, p.n};
    feed.held = {a.data() + col * p.k + row, 1, p.k};
  } else {
    feed.left = {a.data() + row, p.k, 1};
    feed.held = {b.data() + row * p.n + col, p.n, 1};
  }
  return feed;
}

// One register row of elements: sum[i] += x[i]·y[i]. The place where the time goes.
void multiply_add(float* __restrict sum, const float* __restrict x, const float* __restrict y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i] * y[i];
}

// The registers. What moves does not move in memory: a shift down turns the ring of rows, a shift right turns back the
// common head of the rows' windows, so that every row stays contiguous and a step is one pass over it.
class Grid {
 public:
  Grid(std::int64_t rows, std::int64_t cols)
      : rows_(rows),
        cols_(cols),
        slack_(std::max<std::int64_t>(cols, 64)),
        head_(slack_),
        held_(static_cast<std::size_t>(rows * cols)),
        down_(held_.size()),
        left_(static_cast<std::size_t>(rows * (cols + slack_))) {}

  float* held(std::int64_t r) { return held_.data() + turn(held_top_, r) * cols_; }
  float* down(std::int64_t r) { return down_.data() + turn(down_top_, r) * cols_; }
  float* left(std::int64_t r) { return left_.data() + r * (cols_ + slack_) + head_; }

  void shift_held_down() { held_top_ = turn(held_top_, rows_ - 1); }
  void shift_down() { down_top_ = turn(down_top_, rows_ - 1); }
  void shift_right() {
    if (head_ == 0) {
      for (std::int64_t r = 0; r < rows_; ++r) {
        float* row = left_.data() + r * (cols_ + slack_);
        std::copy_backward(row, row + cols_ - 1, row + slack_ + cols_);
      }
      head_ = slack_ + 1;
    }
    --head_;
  }
  void clear_held() { std::fill(held_.begin(), held_.end(), 0.0F); }
  void multiply_add_all(bool output_stays) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      float *stays = held(r), *moves = down(r);
      multiply_add(output_stays ? stays : moves, output_stays ? moves : stays, left(r), cols_);
    }
  }

 private:
  std::int64_t turn(std::int64_t top, std::int64_t r) const { return top + r < rows_ ? top + r : top + r - rows_; }
  std::int64_t rows_, cols_, slack_, head_, held_top_ = 0, down_top_ = 0;
  std::vector<float> held_, down_, left_;
};

class Stepper {
 public:
  Stepper(const SystolicArray& array, const SystolicMapping& map, const ElementOptions& options, ElementRun& run)
      : array_(array), map_(map), options_(options), run_(run), grid_(array.rows, array.cols) {}

  void fold(const Feed& feed) {
    if (map_.output_stays)
      grid_.clear_held();
    else
      load(feed);
    for (std::int64_t t = 0; t < map_.stream; ++t) stream(feed, t);
    if (map_.output_stays) collect_held(feed);
    ++fold_;
  }

 private:
  // The tile enters at the top, last row first, and moves down a row a cycle; preloaded, it takes no cycles.
  void load(const Feed& feed) {
    for (std::int64_t l = 0; l < array_.rows; ++l) {
      const std::int64_t r = array_.rows - 1 - l;
      grid_.shift_held_down();
      float* top = grid_.held(0);
      std::fill(top, top + array_.cols, 0.0F);
      if (r < feed.rows)
        for (std::int64_t c = 0; c < feed.cols; ++c) top[c] = feed.held.at(r, c);
      if (map_.load > 0) end_cycle(feed, -1);
    }
    stationary_words() += feed.rows * feed.cols;
  }

  void stream(const Feed& feed, std::int64_t t) {
    grid_.shift_right();
    std::int64_t words = 0;
    for (std::int64_t r = 0; r < array_.rows; ++r) {
      const bool enters = r < feed.rows && t >= r && t - r < map_.t;
      grid_.left(r)[0] = enters ? feed.left.at(t - r, r) : 0.0F;
      words += enters;
    }
    moving_words() += words;
    grid_.shift_down();
    feed_top(feed, t);
    grid_.multiply_add_all(map_.output_stays);
    run_.multiply_adds += useful(feed, t);
    if (!map_.output_stays) collect_bottom(feed, t);
    end_cycle(feed, t);
  }

  // At the top edge sums start at 0; with the output stationary it is where B enters.
  void feed_top(const Feed& feed, std::int64_t t) {
    float* top = grid_.down(0);
    std::fill(top, top + array_.cols, 0.0F);
    if (!map_.output_stays) return;
    for (std::int64_t c = std::max<std::int64_t>(0, t - map_.t + 1); c < std::min(feed.cols, t + 1); ++c) {
      top[c] = feed.down.at(t - c, c);
      ++run_.sram_words.b;
    }
  }

  // Step s of the stream leaves column c of the last row at cycle s + R − 1 + c.
  void collect_bottom(const Feed& feed, std::int64_t t) {
    const float* bottom = grid_.down(array_.rows - 1);
    const std::int64_t late = t - (array_.rows - 1);
    for (std::int64_t c = std::max<std::int64_t>(0, late - map_.t + 1); c < std::min(feed.cols, late + 1); ++c) {
      feed.c[(late - c) * feed.c_step + c * feed.c_lane] += bottom[c];
      ++run_.sram_words.c;
    }
  }

  void collect_held(const Feed& feed) {
    for (std::int64_t r = 0; r < feed.rows; ++r)
      for (std::int64_t c = 0; c < feed.cols; ++c) feed.c[r * feed.c_step + c * feed.c_lane] = grid_.held(r)[c];
    run_.sram_words.c += feed.rows * feed.cols;
  }

  // Elements (r, c) in use that hold step t − r − c of the stream.
  std::int64_t useful(const Feed& feed, std::int64_t t) const {
    if (t >= feed.rows + feed.cols - 2 && t < map_.t) return feed.rows * feed.cols;  // all of them
    std::int64_t count = 0;
    for (std::int64_t r = 0; r < std::min(feed.rows, t + 1); ++r)
      count +=
          std::max<std::int64_t>(0, std::min(feed.cols, t - r + 1) - std::max<std::int64_t>(0, t - r - map_.t + 1));
    return count;
  }

  // t: the stream's cycle, -1 while the tile is shifted in.
  void end_cycle(const Feed& feed, std::int64_t t) {
    if (options_.frames) keep_frame(feed, t);
    ++run_.cycles;
    run_.element_steps += array_.rows * array_.cols;
  }

  void keep_frame(const Feed& feed, std::int64_t t) {
    ArrayFrame frame;
    frame.cycle = run_.cycles;
    frame.fold = fold_;
    for (std::int64_t r = 0; r < array_.rows; ++r) {
      frame.held.insert(frame.held.end(), grid_.held(r), grid_.held(r) + array_.cols);
      frame.left.insert(frame.left.end(), grid_.left(r), grid_.left(r) + array_.cols);
      frame.down.insert(frame.down.end(), grid_.down(r), grid_.down(r) + array_.cols);
      for (std::int64_t c = 0; c < array_.cols; ++c) {
        const std::int64_t step = t - r - c;
        frame.busy.push_back(r < feed.rows && c < feed.cols && step >= 0 && step < map_.t);
      }
    }
    run_.frames.push_back(std::move(frame));
  }

  std::int64_t& moving_words() { return map_.transposed ? run_.sram_words.b : run_.sram_words.a; }
  std::int64_t& stationary_words() { return map_.transposed ? run_.sram_words.a : run_.sram_words.b; }

  const SystolicArray& array_;
  const SystolicMapping& map_;
  const ElementOptions& options_;
  ElementRun& run_;
  Grid grid_;
  std::int64_t fold_ = 0;
};

Status check_elements(const SystolicArray& array, const ProductSize& p, std::size_t a, std::size_t b,
                      const ElementOptions& options) {
  if (const Status status = check_systolic(array, p); !status) return status.error();
  const auto elements_of = [](std::int64_t x, std::int64_t y) { return static_cast<std::size_t>(x * y); };
  if (a != elements_of(p.m, p.k))
    return input_error(fmt::format("expected {} numbers of A [{}, {}], found {}", p.m * p.k, p.m, p.k, a));
  if (b != elements_of(p.k, p.n))
    return input_error(fmt::format("expected {} numbers of B [{}, {}], found {}", p.k * p.n, p.k, p.n, b));
  if (p.m * p.n > ElementOptions::max_results)
    return input_error(
        fmt::format("expected at most {} results to step, found {}·{}", ElementOptions::max_results, p.m, p.n),
        "the clock per fold gives the same cycles");
  const SystolicMapping map = map_product(array, p);
  const std::int64_t grid = array.rows * array.cols, cycles = map.folds() * map.fold();
  if (grid > ElementOptions::max_elements)
    return input_error(
        fmt::format("expected an array of at most {} elements to step, found {}", ElementOptions::max_elements, grid),
        "the clock per fold gives the same cycles");
  std::int64_t steps = 0;
  if (__builtin_mul_overflow(cycles, grid, &steps) || steps > ElementOptions::max_steps)
    return input_error(fmt::format("expected at most {} element-steps, found {} cycles of {} elements",
                                   ElementOptions::max_steps, cycles, grid),
                       "the clock per fold gives the same cycles");
  if (options.frames && steps > ElementOptions::max_frame_words / 3)
    return input_error(fmt::format("expected frames of at most {} numbers, found {} cycles of 3·{}",
                                   ElementOptions::max_frame_words, cycles, grid));
  return Done{};
}

}  // namespace

Result<ElementRun> step_elements(const SystolicArray& array, const ProductSize& p, std::span<const float> a,
                                 std::span<const float> b, const ElementOptions& options) {
  if (const Status status = check_elements(array, p, a.size(), b.size(), options); !status) return status.error();
  const SystolicMapping map = map_product(array, p);
  ElementRun run;
  run.c.assign(static_cast<std::size_t>(p.m * p.n), 0.0F);
  Stepper stepper(array, map, options, run);
  for (std::int64_t col = 0; col < map.sc; col += array.cols) {
    for (std::int64_t row = 0; row < map.sr; row += array.rows) {
      Feed feed = feed_of(map, p, a, b, row, col);
      feed.rows = std::min(array.rows, map.sr - row);
      feed.cols = std::min(array.cols, map.sc - col);
      // Output [step, lane] is C[m, n] for ws, C[n, m] for is; for os [row, column].
      feed.c_step = map.transposed ? 1 : p.n;
      feed.c_lane = map.transposed ? p.n : 1;
      feed.c = run.c.data() + (map.output_stays ? row * p.n : 0) + col * feed.c_lane;
      stepper.fold(feed);
    }
  }
  if (!array.preload) --run.cycles;
  return run;
}

}  // namespace ridge

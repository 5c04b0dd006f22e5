// Recurrences. Each step is a chain (ops/chain) over a block of independent lines: h = a * h + x over 4096 lines runs
// three operations on 128 lines at a time, and h stays in a buffer between steps. Operands whose lines are contiguous
// are read in place; others, such as lines whose steps are contiguous, are copied to tiles of some steps first.
// Arithmetic is that of chains: f32, whatever the dtypes.
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/chain/lower.h"
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/isa_kernels.h"
#include "ridge/ops/loops/recurrence.h"
#include "ridge/ops/loops/strided.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

// Runs lines on one thread, a block at a time.
class LineBlocks {
 public:
  LineBlocks(const ScanProblem& p, const LoweredChain& code) : p_(p), code_(code), group_(chain_group_elements()) {
    const auto tensors = static_cast<std::int64_t>(p.tensors.size());
    const std::int64_t saved = code.saved_groups * max_group_elements;
    memory_.resize(tensors * tile_elements + saved + max_lines + alignment);
    const auto misaligned = reinterpret_cast<std::uintptr_t>(memory_.data()) / sizeof(float) % alignment;
    saved_ = memory_.data() + (alignment - misaligned) % alignment;
    previous_ = saved_ + saved;
    tiles_ = previous_ + max_lines;
    offsets_.resize(tensors);
    is_in_place_.resize(tensors);
  }

  void run(std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      std::int64_t count = std::min(max_lines, end - begin);
      if (count > group_) count -= count % group_;
      if (const std::int64_t narrow = run_block(begin, count); narrow > 0) begin += narrow;
    }
  }

 private:
  static constexpr std::int64_t max_lines = 4096, tile_elements = 1 << 14, alignment = 16;

  // Computes the offsets of the lines first … first + count - 1 in each tensor.
  void find_offsets(std::int64_t first, std::int64_t count) {
    for (std::size_t t = 0; t < p_.tensors.size(); ++t) {
      std::vector<std::int64_t>& out = offsets_[t];
      out.resize(count);
      const std::vector<std::int64_t>& strides = p_.tensors[t].line_strides;
      for (std::int64_t i = 0; i < count;) {
        std::int64_t rest = first + i, offset = 0;
        for (std::size_t a = p_.line_extents.size(); a-- > 0; rest /= p_.line_extents[a])
          offset += rest % p_.line_extents[a] * strides[a];
        const bool has_axes = !strides.empty();
        const std::int64_t stride = has_axes ? strides.back() : 0, extent = has_axes ? p_.line_extents.back() : 1;
        const std::int64_t stop = std::min(count, i + extent - (first + i) % extent);
        for (; i < stop; ++i, offset += stride) out[i] = offset;
      }
    }
  }
  bool is_contiguous(std::size_t t, std::int64_t count) const {
    for (std::int64_t i = 1; i < count; ++i)
      if (offsets_[t][i] != offsets_[t][0] + i) return false;
    return true;
  }

  // Runs the block, or less of it if tiles are needed; returns the number of lines.
  std::int64_t run_block(std::int64_t first, std::int64_t count) {
    find_offsets(first, count);
    bool needs_tiles = false;
    for (std::size_t t = 0; t < p_.tensors.size(); ++t) {
      is_in_place_[t] = p_.tensors[t].data != nullptr && count % group_ == 0 && is_contiguous(t, count);
      needs_tiles = needs_tiles || !is_in_place_[t];
    }
    if (needs_tiles && count > group_) return run_block(first, group_);
    width_ = ceil_div(count, group_) * group_;
    row_stride_ = width_ + alignment;  // Rows at multiples of a large power of two would share cache sets.
    const std::int64_t tile_steps = needs_tiles ? std::min(p_.steps, tile_elements / row_stride_) : p_.steps;
    std::fill_n(previous_, width_, 0.0f);
    for (std::int64_t step = 0; step < p_.steps; step += tile_steps)
      run_steps(step, std::min(tile_steps, p_.steps - step), count);
    return count;
  }

  void run_steps(std::int64_t first, std::int64_t steps, std::int64_t count) {
    std::vector<RepeatedTensor> tensors;
    for (std::size_t t = 0; t < p_.tensors.size(); ++t) {
      const ScanTensor& x = p_.tensors[t];
      const std::int64_t bytes = dtype_bits(x.dtype) / 8;
      if (is_in_place_[t]) {
        char* const data = static_cast<char*>(x.data) + (offsets_[t][0] + first * x.step_stride) * bytes;
        tensors.push_back({x.dtype, data, x.step_stride * bytes});
        continue;
      }
      float* const tile = tiles_ + static_cast<std::int64_t>(t) * tile_elements;
      const bool is_result = t + 1 == p_.tensors.size(), is_constant = x.step_stride == 0 && !is_result;
      if (!is_result && (first == 0 || !is_constant)) fill_tile(t, first, is_constant ? 1 : steps, count, tile);
      tensors.push_back({DType::f32, reinterpret_cast<char*>(tile),
                         is_constant ? 0 : row_stride_ * static_cast<std::int64_t>(sizeof(float))});
    }
    tensors.push_back({DType::f32, reinterpret_cast<char*>(previous_), 0});
    run_repeated_chain({code_, tensors, width_ / group_, steps, saved_});
    if (!is_in_place_.back()) store_tile(first, steps, count);
  }

  LineTransposition transposition(std::size_t t, std::int64_t first, std::int64_t steps, float* tile) const {
    const ScanTensor& x = p_.tensors[t];
    return {.dtype = x.dtype,
            .data = static_cast<char*>(x.data) + first * dtype_bits(x.dtype) / 8,
            .lines = offsets_[t],
            .elements = steps,
            .tile = tile,
            .row_stride = row_stride_};
  }
  // Copies steps of the block's lines to a tile; the elements after the last line are 0.
  void fill_tile(std::size_t t, std::int64_t first, std::int64_t steps, std::int64_t count, float* tile) {
    const ScanTensor& x = p_.tensors[t];
    for (std::int64_t step = 0; count < width_ && step < steps; ++step)
      std::fill(tile + step * row_stride_ + count, tile + step * row_stride_ + width_, 0.0f);
    if (x.data != nullptr && x.step_stride == 1) return transpose(transposition(t, first, steps, tile));
    const auto fill = [&](const auto& read) {
      for (std::int64_t step = 0; step < steps; ++step)
        for (std::int64_t i = 0; i < count; ++i)
          tile[step * row_stride_ + i] = read(offsets_[t][i] + (first + step) * x.step_stride);
    };
    if (x.data == nullptr) return fill([](std::int64_t offset) { return static_cast<float>(offset); });
    with_stored_type(x.dtype, [&]<class T>() {
      fill([&](std::int64_t offset) { return static_cast<float>(to_double(static_cast<const T*>(x.data)[offset])); });
    });
  }
  void store_tile(std::int64_t first, std::int64_t steps, std::int64_t count) {
    const std::size_t t = p_.tensors.size() - 1;
    const ScanTensor& x = p_.tensors[t];
    float* const tile = tiles_ + static_cast<std::int64_t>(t) * tile_elements;
    if (x.step_stride == 1) {
      LineTransposition run = transposition(t, first, steps, tile);
      run.stores = true;
      return transpose(run);
    }
    with_stored_type(x.dtype, [&]<class T>() {
      for (std::int64_t step = 0; step < steps; ++step)
        for (std::int64_t i = 0; i < count; ++i)
          static_cast<T*>(x.data)[offsets_[t][i] + (first + step) * x.step_stride] =
              round_to<T>(tile[step * row_stride_ + i]);
    });
  }
  static void transpose(const LineTransposition& run) {
    pool::select_for_isa(plain::transpose_lines, avx2::transpose_lines, avx512::transpose_lines)(run);
  }

  const ScanProblem& p_;
  const LoweredChain& code_;
  std::int64_t group_, width_ = 0, row_stride_ = 0;
  std::vector<float> memory_;
  float *saved_, *previous_, *tiles_;
  std::vector<std::vector<std::int64_t>> offsets_;  // Offset of each line of the block, for each tensor.
  std::vector<bool> is_in_place_;  // True for the tensors that the block is read from or written to directly.
};

}  // namespace

void run_loops(const RecurrenceLoops& l, std::span<void* const> data, int threads) {
  const ScanProblem problem = make_scan_problem(l, data);
  const LoweredChain code = lower_chain(problem.step);
  const std::int64_t group = chain_group_elements(), line = 16;
  const std::int64_t multiple = problem.lines >= group * threads ? group : line;
  const std::int64_t elements = problem.lines * problem.steps,
                     useful = std::max<std::int64_t>(elements / min_elements_per_part, 1);
  const int parts =
      static_cast<int>(std::min({std::int64_t{std::max(threads, 1)}, useful, ceil_div(problem.lines, multiple)}));
  pool::run_parallel(parts, [&](int part) {
    const pool::WorkSlice mine = pool::split_evenly(problem.lines, parts, part, multiple);
    LineBlocks(problem, code).run(mine.begin, mine.end);
  });
}

}  // namespace ridge::ops

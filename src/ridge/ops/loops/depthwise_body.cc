// Computes depthwise convolutions, one block of channels of one image at a time. Rows of x are transposed to pixels,
// which have one float for each channel of the block. The sums are pixels, too, and are transposed to rows of y.
// Compiled once per instruction set.
#include <algorithm>
#include <array>

#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/loops/direct_convolution.h"
#include "ridge/ops/loops/isa_kernels.h"

namespace ridge::ops::RIDGE_BODY_ISA {
namespace {

using V = FloatLanes;
constexpr std::int64_t pixel_floats = ChannelBlocks::channels;

class Depthwise {
 public:
  explicit Depthwise(const DepthwiseRun& run)
      : conv_(run.conv),
        g_(run.geometry),
        run_(run),
        rows_(conv_.windows.size() == 2 ? conv_.windows[0] : ConvWindow{}),
        columns_(conv_.windows.back()),
        row_padding_(conv_.windows.size() == 2 ? conv_.padding : 0),
        in_(run.scratch),
        ring_(in_ + g_.in_floats()),
        out_(ring_ + g_.ring_floats()),
        weights_(out_ + g_.out_floats()),
        zero_row_(ring_ + g_.ring_rows * g_.row_pixels * pixel_floats) {}

  void run() {
    // Lanes without a channel and pixels of the padding stay 0.
    std::fill_n(run_.channels < pixel_floats ? in_ : ring_,
                run_.channels < pixel_floats ? g_.scratch_floats() : g_.ring_floats(), 0.0f);
    transpose(conv_.w, const_cast<void*>(run_.w), g_.kernel, 0, g_.kernel, weights_, false);
    has_finite_weights_ = are_weights_finite();
    loaded_rows_ = std::clamp<std::int64_t>(run_.first_row * conv_.stride - row_padding_, 0, rows_.in);
    for (std::int64_t first = run_.first_row; first < run_.last_row; first += g_.rows_out) {
      const std::int64_t count = std::min(g_.rows_out, run_.last_row - first);
      for (std::int64_t row = first; row < first + count; ++row)
        compute_row(row, out_ + pixel_floats * (row - first) * g_.out_width);
      store_pixels(first * g_.out_width, count * g_.out_width);
    }
  }

 private:
  // Only then can rows of the padding be skipped, because 0 times infinity is NaN.
  bool are_weights_finite() const {
    V sum = V::broadcast(0);
    for (std::int64_t i = 0; i < pixel_floats * g_.kernel; i += V::lanes)
      sum = fma(V::load(weights_ + i), V::broadcast(0), sum);
    float lanes[V::lanes];
    sum.store(lanes);
    return std::all_of(lanes, lanes + V::lanes, [](float x) { return x == 0; });
  }

  // Transposes elements first … first + count - 1 of each channel from or, if `stores`, to a tensor whose channels have
  // `size` elements.
  void transpose(DType dtype, void* data, std::int64_t size, std::int64_t first, std::int64_t count, float* pixels,
                 bool stores) const {
    std::array<std::int64_t, pixel_floats> lines;
    for (std::int64_t c = 0; c < run_.channels; ++c) lines[c] = c * size + first;
    transpose_lines({.dtype = dtype,
                     .data = data,
                     .lines = {lines.data(), static_cast<std::size_t>(run_.channels)},
                     .elements = count,
                     .tile = pixels,
                     .row_stride = pixel_floats,
                     .stores = stores});
  }

  // Copies pixels of x to the beginning of `in_`.
  void load_pixels(std::int64_t first, std::int64_t count) const {
    if (!conv_.channels_last)
      return transpose(conv_.x, const_cast<void*>(run_.x), rows_.in * g_.in_width, first, count, in_, false);
    with_typed_pointer(conv_.x, const_cast<void*>(run_.x), [&](auto* x) {
      for (std::int64_t i = 0; i < count; ++i)
        widen_array<V>(x + (first + i) * conv_.channels, run_.channels, in_ + i * pixel_floats);
    });
  }

  // Copies the first pixels of `out_` to y.
  void store_pixels(std::int64_t first, std::int64_t count) const {
    if (!conv_.channels_last) return transpose(conv_.y, run_.y, rows_.out * g_.out_width, first, count, out_, true);
    with_typed_pointer(conv_.y, run_.y, [&](auto* y) {
      for (std::int64_t i = 0; i < count; ++i)
        round_array<V>(out_ + i * pixel_floats, run_.channels, y + (first + i) * conv_.channels, false);
    });
  }

  float* ring_row(std::int64_t row) const { return ring_ + row % g_.ring_rows * g_.row_pixels * pixel_floats; }

  // Copies the rows of x before `end` that are not yet in the ring.
  void load_rows(std::int64_t end) {
    while (loaded_rows_ < end) {
      const std::int64_t count = std::min(g_.rows_in, rows_.in - loaded_rows_);
      load_pixels(loaded_rows_ * g_.in_width, count * g_.in_width);
      for (std::int64_t i = 0; i < count; ++i)
        std::copy_n(in_ + pixel_floats * i * g_.in_width, pixel_floats * g_.in_width,
                    ring_row(loaded_rows_ + i) + pixel_floats * conv_.padding);
      loaded_rows_ += count;
    }
  }

  // Computes one row of y as pixels. Up to max_tile pixels after it are overwritten with sums that are not used.
  void compute_row(std::int64_t row, float* to) {
    const std::int64_t first = row * conv_.stride - row_padding_;
    std::int64_t begin = 0, end = rows_.kernel;  // rows of the kernel that read inside of x
    while (begin < end && first + begin * conv_.dilation < 0) ++begin;
    while (begin < end && first + (end - 1) * conv_.dilation >= rows_.in) --end;
    if (begin < end) load_rows(first + (end - 1) * conv_.dilation + 1);
    input_rows_.clear();
    const std::int64_t first_used = has_finite_weights_ ? begin : 0,
                       last_used = has_finite_weights_ ? end : rows_.kernel;
    for (std::int64_t i = first_used; i < last_used; ++i)
      input_rows_.push_back(i >= begin && i < end ? ring_row(first + i * conv_.dilation) : zero_row_);
    const float* const kernel = weights_ + pixel_floats * first_used * columns_.kernel;
    const bool dense = conv_.stride == 1 && conv_.dilation == 1;
    if (dense && columns_.kernel == 3) return compute_tiles<1, 3>(kernel, to);
    if (dense && columns_.kernel == 5) return compute_tiles<1, 5>(kernel, to);
    if (dense && columns_.kernel == 7) return compute_tiles<1, 7>(kernel, to);
    if (conv_.stride == 1) return compute_tiles<1, 0>(kernel, to);
    conv_.stride == 2 ? compute_tiles<2, 0>(kernel, to) : compute_tiles<0, 0>(kernel, to);
  }

  template <int stride, int size> void compute_tiles(const float* kernel, float* to) const {
    for (std::int64_t column = 0; column < g_.out_width; column += g_.tile)
      for (std::int64_t lane = 0; lane < pixel_floats; lane += V::lanes) {
        const std::int64_t x = pixel_floats * column * conv_.stride + lane;
        float* const sums = to + pixel_floats * column + lane;
        g_.tile == 7 ? compute_tile<7, stride, size>(kernel + lane, x, sums)
                     : compute_tile<8, stride, size>(kernel + lane, x, sums);
      }
  }

  // Computes `tile` pixels of a row, whose first input is at `x` in the padded rows. `kernel` points to the weights of
  // the first input row. A `stride` or `size` of 0 is not known at compile time.
  template <int tile, int stride, int size> void compute_tile(const float* kernel, std::int64_t x, float* sums) const {
    V part[tile];
#pragma GCC unroll 8
    for (int i = 0; i < tile; ++i) part[i] = V::broadcast(0);
    for (const float* const row : input_rows_) {
      if constexpr (size > 0)
        add_dense_row<size>(row + x, kernel, part);
      else
        add_kernel_row<stride>(row + x, kernel, part);
      kernel += pixel_floats * columns_.kernel;
    }
#pragma GCC unroll 8
    for (int i = 0; i < tile; ++i) part[i].store(sums + i * pixel_floats);
  }

  // Adds a row of the kernel with `size` elements, stride 1 and dilation 1: each pixel is loaded once for all sums that
  // it adds to.
  template <int size, int tile>
  [[gnu::always_inline]] void add_dense_row(const float* in, const float* w, V (&part)[tile]) const {
    V weight[size];
#pragma GCC unroll 7
    for (int c = 0; c < size; ++c) weight[c] = V::load(w + c * pixel_floats);
#pragma GCC unroll 16
    for (int i = 0; i < tile + size - 1; ++i) {
      const V x = V::load(in + i * pixel_floats);
#pragma GCC unroll 7
      for (int c = 0; c < size; ++c)
        if (i - c >= 0 && i - c < tile) part[i - c] = fma(x, weight[c], part[i - c]);
    }
  }

  // Adds a row of the kernel with any stride and dilation.
  template <int stride, int tile>
  [[gnu::always_inline]] void add_kernel_row(const float* in, const float* w, V (&part)[tile]) const {
    const std::int64_t step = pixel_floats * (stride > 0 ? stride : conv_.stride);
    for (std::int64_t c = 0; c < columns_.kernel; ++c, in += pixel_floats * conv_.dilation, w += pixel_floats) {
      const V weight = V::load(w);
#pragma GCC unroll 8
      for (int i = 0; i < tile; ++i) part[i] = fma(V::load(in + i * step), weight, part[i]);
    }
  }

  const ConvLoops& conv_;
  const ChannelBlocks& g_;
  const DepthwiseRun& run_;
  const ConvWindow rows_, columns_;
  std::int64_t row_padding_, loaded_rows_ = 0;
  std::vector<const float*> input_rows_;  // rows of the ring that an output row reads
  float *in_, *ring_, *out_, *weights_;
  const float* zero_row_;
  bool has_finite_weights_ = true;
};

}  // namespace

void run_depthwise(const DepthwiseRun& run) { Depthwise(run).run(); }

}  // namespace ridge::ops::RIDGE_BODY_ISA

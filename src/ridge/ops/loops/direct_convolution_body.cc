// Convolutions in groups of few output channels, one group of one image at a time. Compiled once per instruction set.
#include "ridge/ops/loops/direct_convolution.h"

#include "ridge/ops/function/vector_math_storage.h"

namespace ridge::ops {
namespace {

using V = FloatLanes;
constexpr int rows_together = 4;  // output rows whose sums stay in registers

class DirectConvolution {
 public:
  explicit DirectConvolution(const DirectConvolutionRun& run)
      : conv_(run.conv),
        g_(run.geometry),
        run_(run),
        inputs_(conv_.channels / conv_.groups),
        outputs_(conv_.out_channels / conv_.groups),
        row_(g_.row_floats(conv_.stride)) {
    channel_ = run.scratch;
    sums_ = channel_ + g_.channel_floats(conv_.stride);
    weights_ = sums_ + outputs_ * g_.plane_floats();
  }

  void run_group() {
    const std::int64_t kernel = kernel_size();
    with_typed_pointer(conv_.w, const_cast<void*>(run_.w),
                       [&](auto* from) { widen_array<V>(from, outputs_ * inputs_ * kernel, weights_); });
    std::fill_n(channel_, g_.channel_floats(conv_.stride), 0.0f);
    for (std::int64_t c = 0; c < inputs_; ++c) {
      load_channel(c);
      for (std::int64_t k = 0; k < outputs_; ++k)
        add_channel(weights_ + (k * inputs_ + c) * kernel, sums_ + k * g_.plane_floats(), c > 0);
    }
    for (std::int64_t k = 0; k < outputs_; ++k) store_plane(k);
  }

 private:
  std::int64_t kernel_size() const { return g_.windows[0].kernel * g_.windows[1].kernel * g_.windows[2].kernel; }

  // Copies a channel of x to the inner part of the padded channel, whose padding stays 0.
  void load_channel(std::int64_t c) {
    const std::int64_t lines = g_.windows[0].in * g_.windows[1].in, line = g_.windows[2].in;
    with_typed_pointer(conv_.x, const_cast<void*>(run_.x), [&](auto* x) {
      for (std::int64_t i = 0; i < lines; ++i) {
        const std::int64_t row = i / g_.windows[1].in + g_.padding[0], column = i % g_.windows[1].in + g_.padding[1];
        load_line(x + (c * lines + i) * line, channel_ + (row * g_.rows[1] + column) * row_);
      }
    });
  }
  template <class T> void load_line(const T* from, float* to) const {
    const std::int64_t n = g_.windows[2].in, stride = conv_.stride, padding = g_.padding[2];
    if (stride == 1) return widen_array<V>(from, n, to + padding);
    for (std::int64_t p = 0; p < stride; ++p) {
      const std::int64_t first = ((p - padding) % stride + stride) % stride;  // first input in phase p
      if (first < n)
        gather_strided<V>(from + first, stride, (n - first + stride - 1) / stride,
                          to + p * g_.phase + (first + padding) / stride);
    }
  }

  // Adds the products of a channel and its kernel to the sums of a plane, or overwrites them.
  void add_channel(const float* w, float* sums, bool add) const {
    const ConvWindow &a = g_.windows[0], &b = g_.windows[1], &c = g_.windows[2];
    const bool dense = conv_.stride == 1 && conv_.dilation == 1 && b.kernel == c.kernel && a.kernel == 1;
    for (std::int64_t o0 = 0; o0 < a.out; ++o0)
      for (std::int64_t o1 = 0; o1 < b.out;) {
        // The last rows are computed together with rows before them, again, unless that would add twice.
        if (b.out - o1 < rows_together && b.out >= rows_together && !add) o1 = b.out - rows_together;
        const bool whole = b.out - o1 >= rows_together;
        const float* const x = channel_ + (o0 * conv_.stride * g_.rows[1] + o1 * conv_.stride) * row_;
        float* const to = sums + (o0 * b.out + o1) * g_.sums;
        for (std::int64_t o2 = 0; o2 < c.out; o2 += V::lanes) {
          if (!whole)
            add_kernel<1>(x + o2, w, to + o2, add);
          else if (dense && c.kernel == 3)
            add_square<3>(x + o2, w, to + o2, add);
          else if (dense && c.kernel == 5)
            add_square<5>(x + o2, w, to + o2, add);
          else if (dense && c.kernel == 7)
            add_square<7>(x + o2, w, to + o2, add);
          else
            add_kernel<rows_together>(x + o2, w, to + o2, add);
        }
        o1 += whole ? rows_together : 1;
      }
  }

  template <int rows> [[gnu::always_inline]] void load_sums(V (&part)[rows], const float* sums, bool add) const {
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) part[r] = add ? V::load(sums + r * g_.sums) : V::broadcast(0);
  }
  template <int rows> [[gnu::always_inline]] void store_sums(const V (&part)[rows], float* sums) const {
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) part[r].store(sums + r * g_.sums);
  }

  // A kernel of size x size elements without gaps: each vector of x is loaded once for all rows that it adds to.
  template <int size> void add_square(const float* x, const float* w, float* sums, bool add) const {
    V part[rows_together];
    load_sums(part, sums, add);
#pragma GCC unroll 10
    for (int i = 0; i < rows_together + size - 1; ++i, x += row_) {
#pragma GCC unroll 7
      for (int c = 0; c < size; ++c) {
        const V in = V::load(x + c);
#pragma GCC unroll 4
        for (int r = 0; r < rows_together; ++r)
          if (i - r >= 0 && i - r < size) part[r] = fma(in, V::broadcast(w[(i - r) * size + c]), part[r]);
      }
    }
    store_sums(part, sums);
  }

  // Any kernel, stride and dilation.
  template <int rows> void add_kernel(const float* x, const float* w, float* sums, bool add) const {
    V part[rows];
    load_sums(part, sums, add);
    for (std::int64_t a = 0; a < g_.windows[0].kernel; ++a)
      for (std::int64_t b = 0; b < g_.windows[1].kernel; ++b) {
        const float* const line = x + (a * g_.rows[1] + b) * conv_.dilation * row_;
        for (const std::int64_t element : g_.elements) {
          const float* const in = line + element;
          const V weight = V::broadcast(*w++);
#pragma GCC unroll 4
          for (int r = 0; r < rows; ++r) part[r] = fma(V::load(in + r * conv_.stride * row_), weight, part[r]);
        }
      }
    store_sums(part, sums);
  }

  void store_plane(std::int64_t k) const {
    const std::int64_t lines = g_.windows[0].out * g_.windows[1].out, line = g_.windows[2].out;
    const float* const from = sums_ + k * g_.plane_floats();
    with_typed_pointer(conv_.y, run_.y, [&](auto* y) {
      for (std::int64_t i = 0; i < lines; ++i)
        round_array<V>(from + i * g_.sums, line, y + (k * lines + i) * line, false);
    });
  }

  const ConvLoops& conv_;
  const PaddedChannel& g_;
  const DirectConvolutionRun& run_;
  std::int64_t inputs_, outputs_, row_;
  float *channel_, *sums_, *weights_;
};

}  // namespace
}  // namespace ridge::ops

namespace ridge::ops::RIDGE_BODY_ISA {

void run_direct_convolution(const DirectConvolutionRun& run) { DirectConvolution(run).run_group(); }

}  // namespace ridge::ops::RIDGE_BODY_ISA

#include "ridge/ops/loops/cpu.h"

#include <algorithm>
#include <array>

#include "ridge/ops/loops/element.h"

namespace ridge::ops {
namespace {

// Returns three window dimensions; missing leading ones have size 1.
std::array<ConvWindow, 3> pad_windows_to_3d(const ConvLoops& conv) {
  std::array<ConvWindow, 3> out;
  std::copy(conv.windows.begin(), conv.windows.end(), out.end() - static_cast<std::ptrdiff_t>(conv.windows.size()));
  return out;
}

struct ConvolutionRunner {
  const ConvLoops& conv;
  std::array<ConvWindow, 3> w;
  std::array<std::int64_t, 3> padding;
  std::span<void* const> data;

  std::int64_t in_size() const { return w[0].in * w[1].in * w[2].in; }
  std::int64_t out_size() const { return w[0].out * w[1].out * w[2].out; }
  std::int64_t kernel_size() const { return w[0].kernel * w[1].kernel * w[2].kernel; }

  // Returns the index in x of element k of the window in dimension d, or -1 in the padding.
  std::int64_t input_index(std::size_t d, std::int64_t position, std::int64_t k) const {
    const std::int64_t at = position * conv.stride + k * conv.dilation - padding[d];
    return at >= 0 && at < w[d].in ? at : -1;
  }

  double sum_window(std::int64_t x_at, std::int64_t w_at, const std::array<std::int64_t, 3>& o) const {
    double sum = 0;
    for (std::int64_t a = 0; a < w[0].kernel; ++a) {
      const std::int64_t i = input_index(0, o[0], a);
      for (std::int64_t b = 0; b < w[1].kernel && i >= 0; ++b) {
        const std::int64_t j = input_index(1, o[1], b);
        for (std::int64_t c = 0; c < w[2].kernel && j >= 0; ++c) {
          const std::int64_t k = input_index(2, o[2], c);
          if (k < 0) continue;
          sum += load_element(conv.x, data[0], x_at + (i * w[1].in + j) * w[2].in + k) *
                 load_element(conv.w, data[1], w_at + (a * w[1].kernel + b) * w[2].kernel + c);
        }
      }
    }
    return sum;
  }

  void compute_output_plane(std::int64_t plane) const {  // `plane` is n * out_channels + k
    const std::int64_t n = plane / conv.out_channels, k = plane % conv.out_channels, each = conv.channels / conv.groups;
    const std::int64_t first = k / (conv.out_channels / conv.groups) * each;
    for (std::int64_t at = 0; at < out_size(); ++at) {
      const std::array<std::int64_t, 3> o{at / (w[1].out * w[2].out), at / w[2].out % w[1].out, at % w[2].out};
      double sum = 0;
      for (std::int64_t c = 0; c < each; ++c)
        sum += sum_window((n * conv.channels + first + c) * in_size(), (k * each + c) * kernel_size(), o);
      store_element(conv.y, data[2], plane * out_size() + at, sum);
    }
  }
};

}  // namespace

void run_loops(const ConvLoops& conv, std::span<void* const> data, int threads) {
  ConvolutionRunner work{conv, pad_windows_to_3d(conv), {}, data};
  for (std::size_t d = 3 - conv.windows.size(); d < 3; ++d) work.padding[d] = conv.padding;
  parallel_for(conv.batch * conv.out_channels, threads, [&](std::int64_t plane) { work.compute_output_plane(plane); });
}

}  // namespace ridge::ops

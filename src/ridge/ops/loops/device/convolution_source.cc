// Generates a direct convolution's kernel: convolution_kernels.h with the window and the formats as constants.
#include <algorithm>
#include <array>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/chain/source.h"
#include "ridge/ops/loops/device/source.h"

namespace ridge::ops {
namespace {

using namespace generated;

struct PaddedWindows {
  std::array<ConvWindow, 3> windows;
  std::array<std::int64_t, 3> padding{};
  explicit PaddedWindows(const ConvLoops& conv) {
    const std::size_t missing = windows.size() - conv.windows.size();
    std::copy(conv.windows.begin(), conv.windows.end(), windows.begin() + static_cast<std::ptrdiff_t>(missing));
    for (std::size_t d = missing; d < windows.size(); ++d) padding[d] = conv.padding;
  }
};

// The function of convolution_kernels.h that computes the convolution, and how many rows of the result a thread
// computes. More rows reuse more of what is loaded.
struct ConvolutionMethod {
  enum class Kind { down, rows, large } kind = Kind::large;
  std::int64_t rows = 1;
};
ConvolutionMethod choose_method(const ConvLoops& conv, const PaddedWindows& g, int multiprocessors) {
  constexpr std::int64_t max_unrolled_kernel = 64, max_rows = 4, max_loads = 48, max_strip = 64, threads_per_sm = 2048;
  const std::int64_t height = g.windows[1].kernel, width = g.windows[2].kernel, rows = g.windows[1].out;
  const std::int64_t columns = conv.batch * conv.out_channels * g.windows[0].out * g.windows[2].out;
  if (height * width > max_unrolled_kernel) return {};
  if (conv.stride == 1 && conv.dilation == 1 && conv.channels == conv.groups &&
      conv.windows.size() < g.windows.size()) {
    ConvolutionMethod out{ConvolutionMethod::Kind::down, 4};
    while (out.rows < max_strip && out.rows < rows &&
           columns * (rows / (2 * out.rows)) >= threads_per_sm * multiprocessors)
      out.rows *= 2;
    return out;
  }
  const auto loads = [&](std::int64_t n) { return ((n - 1) * conv.stride + (height - 1) * conv.dilation + 1) * width; };
  if (loads(1) > max_loads) return {};
  ConvolutionMethod out{ConvolutionMethod::Kind::rows, 1};
  while (2 * out.rows <= std::min(max_rows, rows) && loads(2 * out.rows) <= max_loads) out.rows *= 2;
  return out;
}

std::string list(const std::array<std::int64_t, 3>& numbers) {
  return "{" + std::to_string(numbers[0]) + ", " + std::to_string(numbers[1]) + ", " + std::to_string(numbers[2]) + "}";
}

std::string write_window(const ConvLoops& conv, const PaddedWindows& g, std::int64_t rows) {
  std::string out = "  constexpr ops::cuda::ConvolutionWindow window{";
  for (const DType dtype : {conv.x, conv.w, conv.y}) out += std::string(number_format_name(dtype)) + ", ";
  return out + list({g.windows[0].kernel, g.windows[1].kernel, g.windows[2].kernel}) + ", " + list(g.padding) + ", " +
         std::to_string(conv.stride) + ", " + std::to_string(conv.dilation) + ", " + std::to_string(rows) + "};\n";
}
std::string write_sizes(const ConvLoops& conv, const PaddedWindows& g, std::span<void* const> data,
                        ArgumentWords& arguments) {
  const auto number = [&](std::int64_t n) { return "(u32)" + arguments.add_argument(static_cast<std::uint64_t>(n)); };
  std::string out = "  const ops::cuda::ConvolutionSizes sizes{";
  for (void* const each : data.first(3)) out += arguments.add_argument(each) + ", ";
  for (const std::int64_t n :
       {conv.channels, conv.channels / conv.groups, conv.out_channels, conv.out_channels / conv.groups})
    out += number(n) + ", ";
  return out + "{" + number(g.windows[0].in) + ", " + number(g.windows[1].in) + ", " + number(g.windows[2].in) +
         "}, {" + number(g.windows[0].out) + ", " + number(g.windows[1].out) + ", " + number(g.windows[2].out) +
         "}};\n";
}

}  // namespace

device::GeneratedKernel generate_convolution_kernel(const ConvLoops& conv, std::span<void* const> data,
                                                    int multiprocessors) {
  constexpr int threads = 128;
  constexpr std::int64_t max_narrow_index = std::int64_t{1} << 31;
  using Kind = ConvolutionMethod::Kind;
  const PaddedWindows g(conv);
  const auto [kind, rows] = choose_method(conv, g, multiprocessors);
  const std::int64_t items =
      conv.batch * conv.out_channels * g.windows[0].out * ceil_div(g.windows[1].out, rows) * g.windows[2].out;
  device::GeneratedKernel out;
  if (items == 0) return out;
  ArgumentWords arguments(out.arguments);
  std::string body = write_window(conv, g, kind == Kind::rows ? rows : 1) + write_sizes(conv, g, data, arguments);
  body += "  const Index item = blockIdx.x * Index{" + std::to_string(threads) +
          "} + threadIdx.x;\n  if (item < (Index)" + arguments.add_argument(static_cast<std::uint64_t>(items)) + ") ";
  if (kind == Kind::down)
    body += "ops::cuda::convolve_down<window>(sizes, (int)" + arguments.add_argument(static_cast<std::uint64_t>(rows)) +
            ", item);\n";
  else
    body +=
        std::string("ops::cuda::convolve<window, ") + (kind == Kind::large ? "true" : "false") + ">(sizes, item);\n";
  out.threads = threads;
  out.blocks = ceil_div(items, std::int64_t{threads});
  out.source =
      device::make_kernel_source(out, "ridge/ops/loops/device/convolution_kernels.h", items >= max_narrow_index, body);
  return out;
}

}  // namespace ridge::ops

// Generates a direct convolution's kernel: convolution_kernels.h, or depthwise_kernels.h for channels last, with the
// window and the formats as constants.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>

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
  constexpr std::int64_t max_unrolled_kernel = 64, max_rows = 4, max_loads = 48, max_tile = 64, threads_per_sm = 2048;
  const std::int64_t height = g.windows[1].kernel, width = g.windows[2].kernel, rows = g.windows[1].out;
  const std::int64_t columns = conv.batch * conv.out_channels * g.windows[0].out * g.windows[2].out;
  if (height * width > max_unrolled_kernel) return {};
  if (conv.stride == 1 && conv.dilation == 1 && conv.channels == conv.groups &&
      conv.windows.size() < g.windows.size()) {
    ConvolutionMethod out{ConvolutionMethod::Kind::down, 4};
    while (out.rows < max_tile && out.rows < rows &&
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
std::string write_formats(const ConvLoops& conv) {
  std::string out;
  for (const DType dtype : {conv.x, conv.w, conv.y}) out += std::string(number_format_name(dtype)) + ", ";
  return out;
}
std::string write_kernel(const PaddedWindows& g) {
  return list({g.windows[0].kernel, g.windows[1].kernel, g.windows[2].kernel}) + ", " + list(g.padding);
}

std::string write_window(const ConvLoops& conv, const PaddedWindows& g, std::int64_t rows) {
  return "  constexpr ops::cuda::ConvolutionWindow window{" + write_formats(conv) + write_kernel(g) + ", " +
         std::to_string(conv.stride) + ", " + std::to_string(conv.dilation) + ", " + std::to_string(rows) + "};\n";
}
std::string write_pointers(std::span<void* const> data, ArgumentWords& arguments) {
  std::string out;
  for (void* const each : data.first(3)) out += arguments.add_argument(each) + ", ";
  return out;
}
// Writes the extents of x and y, of an integer type.
std::string write_extents(const PaddedWindows& g, const std::string& type, ArgumentWords& arguments) {
  std::string out;
  for (const auto extent : {&ConvWindow::in, &ConvWindow::out}) {
    out += extent == &ConvWindow::in ? "{" : "}, {";
    for (const ConvWindow& window : g.windows)
      out += "(" + type + ")" + arguments.add_argument(static_cast<std::uint64_t>(window.*extent)) + ", ";
  }
  return out + "}";
}
std::string write_sizes(const ConvLoops& conv, const PaddedWindows& g, std::span<void* const> data,
                        ArgumentWords& arguments) {
  std::string out = "  const ops::cuda::ConvolutionSizes sizes{" + write_pointers(data, arguments);
  for (const std::int64_t n :
       {conv.channels, conv.channels / conv.groups, conv.out_channels, conv.out_channels / conv.groups})
    out += "(u32)" + arguments.add_argument(static_cast<std::uint64_t>(n)) + ", ";
  return out + write_extents(g, "u32", arguments) + "};\n";
}

// The tiles of results that threads of depthwise_kernels.h compute.
struct DepthwiseTiles {
  std::int64_t vector = 0, rows = 0, columns = 0;  // Results of a tile along each dimension; 0 if there is none
  std::int64_t row_tiles = 0, column_tiles = 0;    // Tiles of a plane of y along each dimension
  std::int64_t threads = 0;
  double thread_instructions = 0;
};

// Returns the pixels of a row of x that `columns` results read.
std::int64_t count_pixels(const ConvLoops& conv, std::int64_t columns) {
  std::set<std::int64_t> out;
  for (std::int64_t o = 0; o < columns; ++o)
    for (std::int64_t t = 0; t < conv.windows.back().kernel; ++t) out.insert(o * conv.stride + t * conv.dilation);
  return static_cast<std::int64_t>(out.size());
}

// Returns tiles of a size, or none if their sums and pixels do not fit the registers. Instructions were counted in the
// machine code: those of a pixel load it, test whether it exists and widen its channels.
DepthwiseTiles make_tiles(const ConvLoops& conv, std::int64_t vector, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t max_registers = 116, max_reach = 32, store = 4, tile_overhead = 400;
  const PaddedWindows g(conv);
  const std::int64_t depth = g.windows[0].kernel, height = g.windows[1].kernel, width = g.windows[2].kernel;
  if ((columns - 1) * conv.stride + (width - 1) * conv.dilation >= max_reach) return {};
  const std::int64_t pixels = count_pixels(conv, columns), words = ceil_div(vector * dtype_bits(conv.x), 32);
  if (rows * vector * (pixels + columns) + pixels * words + vector * width > max_registers) return {};
  DepthwiseTiles out{vector, rows, columns, ceil_div(g.windows[1].out, rows), ceil_div(g.windows[2].out, columns)};
  out.threads = conv.batch * g.windows[0].out * out.row_tiles * out.column_tiles * (conv.out_channels / vector);
  const std::int64_t loads = (rows - 1 + height) * pixels * (2 + vector);
  const std::int64_t products = height * width * (1 + rows * columns * vector);
  out.thread_instructions = static_cast<double>(depth * (loads + products) + rows * columns * store + tile_overhead);
  return out;
}

// Returns the tiles that take the shortest time. Large tiles load fewer pixels, but a multiprocessor takes as long
// for a few warps as for one.
DepthwiseTiles choose_tiles(const ConvLoops& conv, std::int64_t max_vector, int multiprocessors) {
  constexpr std::int64_t max_rows = 4, max_columns = 8;
  const double min_threads = 256.0 * multiprocessors;
  DepthwiseTiles best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (std::int64_t vector = max_vector; vector > 0; --vector)
    for (std::int64_t rows = 1; rows <= (conv.stride == conv.dilation ? max_rows : 1); ++rows)
      for (std::int64_t columns = 1; columns <= max_columns; ++columns) {
        const DepthwiseTiles tiles = make_tiles(conv, vector, rows, columns);
        const double cost = std::max(static_cast<double>(tiles.threads), min_threads) * tiles.thread_instructions;
        if (tiles.rows == 0 || cost >= best_cost) continue;
        best = tiles;
        best_cost = cost;
      }
  return best;
}

// Returns 2 if all pixels of x and y are aligned to pairs of channels, and otherwise 1.
std::int64_t find_max_vector(const ConvLoops& conv, std::span<void* const> data) {
  if (conv.out_channels != conv.channels) return 1;
  const std::int64_t stride[] = {conv.channels};
  return std::min(vector_width(data[0], conv.x, stride, 2), vector_width(data[2], conv.y, stride, 2));
}

constexpr std::int64_t depthwise_threads = 128;  // Threads of a block

struct DepthwiseBlocks {
  std::int64_t lanes, tiles, blocks;  // Threads with adjacent channels, tiles of all planes, and blocks of threads
};
DepthwiseBlocks divide_channels(const ConvLoops& conv, const DepthwiseTiles& tiles) {
  constexpr std::int64_t max_block_channels = 32;
  const std::int64_t vectors = conv.out_channels / tiles.vector,
                     lanes = ceil_div(vectors, ceil_div(vectors * tiles.vector, max_block_channels)),
                     count = conv.batch * PaddedWindows(conv).windows[0].out * tiles.row_tiles * tiles.column_tiles;
  return {lanes, count, ceil_div(count, depthwise_threads / lanes) * ceil_div(vectors, lanes)};
}

device::GeneratedKernel generate_depthwise_kernel(const ConvLoops& conv, std::span<void* const> data,
                                                  int multiprocessors) {
  constexpr std::int64_t max_narrow_index = std::int64_t{1} << 31;
  device::GeneratedKernel out;
  out.threads = depthwise_threads;
  out.min_blocks_per_sm = 4;  // 128 registers per thread
  const DepthwiseTiles tiles = choose_tiles(conv, find_max_vector(conv, data), multiprocessors);
  if (tiles.threads == 0) return out;
  const PaddedWindows g(conv);
  const auto [lanes, count, blocks] = divide_channels(conv, tiles);
  const bool is_wide = count >= max_narrow_index;
  out.blocks = blocks;
  std::string body = "  constexpr ops::cuda::DepthwiseShape shape{" + write_formats(conv) + write_kernel(g);
  for (const std::int64_t n : {conv.stride, conv.dilation, conv.channels, conv.out_channels / conv.channels,
                               tiles.vector, lanes, tiles.rows, tiles.columns, depthwise_threads})
    body += ", " + std::to_string(n);
  ArgumentWords arguments(out.arguments);
  body += "};\n  const ops::cuda::DepthwiseSizes<Index> sizes{" + write_pointers(data, arguments);
  body += write_extents(g, "int", arguments);
  for (const std::int64_t n : {count, tiles.row_tiles, tiles.column_tiles})
    body += ", (Index)" + arguments.add_argument(static_cast<std::uint64_t>(n));
  body += ", {";
  for (const std::int64_t n : {g.windows[0].out, tiles.column_tiles, tiles.row_tiles})
    body += arguments.add_argument(encode_divisor(n, is_wide)) + ", ";
  body += "}};\n  ops::cuda::convolve_channels_last<shape>(sizes, (Index)blockIdx.x);\n";
  out.source = device::make_kernel_source(out, "ridge/ops/loops/device/depthwise_kernels.h", is_wide, body);
  return out;
}

}  // namespace

bool can_convolve_channels_last(const ConvLoops& conv) {
  constexpr std::int64_t max_taps = 361;  // Weights of 32 channels in 48 KiB of shared memory, with a gap
  constexpr std::int64_t max_extent = std::int64_t{1} << 30;
  if (conv.channels != conv.groups || conv.channels == 0 || conv.out_channels >= max_extent) return false;
  std::int64_t taps = 1;
  for (const ConvWindow& window : conv.windows) {
    if (window.in + 2 * conv.padding >= max_extent || window.kernel > max_taps) return false;
    taps *= window.kernel;
  }
  if (taps > max_taps || conv.stride >= max_extent || conv.dilation >= max_extent) return false;
  return make_tiles(conv, 2, 1, 1).rows > 0;
}

double count_depthwise_instructions(const ConvLoops& conv, int multiprocessors) {
  const DepthwiseTiles tiles = choose_tiles(conv, conv.channels % 2 == 0 ? 2 : 1, multiprocessors);
  if (tiles.threads == 0) return 0;
  const std::int64_t busiest = ceil_div(divide_channels(conv, tiles).blocks, std::int64_t{multiprocessors});
  return static_cast<double>(busiest * multiprocessors * depthwise_threads) * tiles.thread_instructions;
}

// Tiles of a column load the height - 1 rows between them twice, and each loads the weights.
std::optional<ColumnWork> count_column_work(const ConvLoops& conv, int multiprocessors) {
  const PaddedWindows g(conv);
  const auto [kind, rows] = choose_method(conv, g, multiprocessors);
  if (kind != ConvolutionMethod::Kind::down) return std::nullopt;
  const std::int64_t height = g.windows[1].kernel, width = g.windows[2].kernel, out = g.windows[1].out;
  const std::int64_t tiles = ceil_div(out, rows), loaded_rows = out + tiles * (height - 1);
  const auto columns = static_cast<double>(conv.batch * conv.out_channels * g.windows[0].out * g.windows[2].out);
  return ColumnWork{.products = columns * static_cast<double>(loaded_rows * height * width),
                    .loads = columns * static_cast<double>((loaded_rows + tiles * height) * width),
                    .rows = columns * static_cast<double>(loaded_rows)};
}

device::GeneratedKernel generate_convolution_kernel(const ConvLoops& conv, std::span<void* const> data,
                                                    int multiprocessors) {
  if (conv.channels_last) return generate_depthwise_kernel(conv, data, multiprocessors);
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

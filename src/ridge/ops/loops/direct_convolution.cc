#include "ridge/ops/loops/direct_convolution.h"

#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/element.h"
#include "ridge/pool/arena.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

static void* address_of(void* base, DType dtype, std::int64_t element) {
  return static_cast<char*>(base) + element * (dtype_bits(dtype) / 8);
}

constexpr std::int64_t vector_floats = 16;  // floats in the widest vectors

PaddedChannel::PaddedChannel(const ConvLoops& conv) {
  std::copy(conv.windows.begin(), conv.windows.end(), windows.end() - static_cast<std::ptrdiff_t>(conv.windows.size()));
  for (std::size_t d = 3 - conv.windows.size(); d < 3; ++d) padding[d] = conv.padding;
  for (std::size_t d = 0; d < 3; ++d) rows[d] = windows[d].in + 2 * padding[d];
  sums = ceil_div(windows[2].out, vector_floats) * vector_floats;
  const std::int64_t reach = (windows[2].kernel - 1) * conv.dilation / conv.stride + 1;
  phase = std::max(ceil_div(rows[2], conv.stride), sums + reach);
  for (std::int64_t i = 0; i < windows[2].kernel; ++i)
    elements.push_back(i * conv.dilation % conv.stride * phase + i * conv.dilation / conv.stride);
}

ChannelBlocks::ChannelBlocks(const ConvLoops& conv) {
  const ConvWindow columns = conv.windows.back(), rows = conv.windows.size() == 2 ? conv.windows[0] : ConvWindow{};
  in_width = columns.in;
  out_width = columns.out;
  kernel = rows.kernel * columns.kernel;
  const auto rounded = [&](std::int64_t size) { return ceil_div(out_width, size) * size; };
  tile = rounded(7) < rounded(8) ? 7 : 8;
  const std::int64_t reach = (columns.kernel - 1) * conv.dilation;
  row_pixels = std::max(in_width + 2 * conv.padding, (rounded(tile) - 1) * conv.stride + reach + 1);
  rows_in = std::clamp<std::int64_t>(piece_pixels / in_width, 1, rows.in);
  rows_out = std::clamp<std::int64_t>(piece_pixels / out_width, 1, rows.out);
  ring_rows = std::min((rows.kernel - 1) * conv.dilation + rows_in, rows.in);
}

double direct_convolution_scratch(const ConvLoops& conv) {
  const PaddedChannel g(conv);
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  double kernel = 1;
  for (const ConvWindow& window : g.windows) kernel *= real(window.kernel);
  const double inputs = real(conv.channels / conv.groups), outputs = real(conv.out_channels / conv.groups);
  return real(g.rows[0]) * real(g.rows[1]) * real(g.phase) * real(conv.stride) +
         outputs * real(g.windows[0].out) * real(g.windows[1].out) * real(g.sums) + outputs * inputs * kernel;
}

// Vectors of channels have idle lanes unless the number of channels is a multiple of the block, and vectors of outputs
// have some at the end of each row. Vectors of channels are used if at most a fifth of their lanes are idle:
// transposing rows of x and y takes less time than loading shifted rows, unless the rows exceed half of the L2.
bool uses_channel_blocks(const ConvLoops& conv) {
  constexpr std::int64_t block = ChannelBlocks::channels;
  const bool is_depthwise =
      conv.channels == conv.groups && conv.out_channels == conv.groups && conv.windows.size() <= 2;
  const bool is_empty = std::any_of(conv.windows.begin(), conv.windows.end(),
                                    [](const ConvWindow& w) { return w.in == 0 || w.out == 0; });
  if (!is_depthwise || is_empty || ceil_div(conv.channels, block) * block * 4 > conv.channels * 5) return false;
  const auto scratch_bytes = static_cast<std::size_t>(ChannelBlocks(conv).scratch_floats()) * sizeof(float);
  return scratch_bytes <= static_cast<std::size_t>(pool::cache_sizes().l2) / 2;
}

// Returns into how many parts the rows of an image are divided, so that threads without a block have rows. Each part
// loads the rows of x again that it shares with the part before.
static std::int64_t count_row_parts(const ConvLoops& conv, std::int64_t blocks, int threads) {
  constexpr std::int64_t parts_per_thread = 4, min_rows = 4;
  const std::int64_t rows = conv.windows.size() == 2 ? conv.windows[0].out : 1, parts = parts_per_thread * threads;
  if (threads == 1 || blocks == 0 || blocks >= parts) return 1;
  return std::clamp<std::int64_t>(ceil_div(parts, blocks), 1, ceil_div(rows, min_rows));
}

static std::int64_t count_blocks(const ConvLoops& conv) {
  return conv.batch * ceil_div(conv.channels, ChannelBlocks::channels);
}

std::int64_t count_convolution_parts(const ConvLoops& conv, int threads) {
  if (!uses_channel_blocks(conv)) return conv.batch * conv.groups;
  return count_blocks(conv) * count_row_parts(conv, count_blocks(conv), threads);
}

static void run_depthwise(const ConvLoops& conv, std::span<void* const> data, int threads) {
  const ChannelBlocks geometry(conv);
  std::int64_t in_size = 1, out_size = 1;
  for (const ConvWindow& window : conv.windows) {
    in_size *= window.in;
    out_size *= window.out;
  }
  const std::int64_t blocks = ceil_div(conv.channels, ChannelBlocks::channels),
                     rows = conv.windows.size() == 2 ? conv.windows[0].out : 1,
                     parts = count_row_parts(conv, conv.batch * blocks, threads);
  const auto scratch_bytes = static_cast<std::size_t>(geometry.scratch_floats()) * sizeof(float);
  parallel_for(conv.batch * blocks * parts, threads, [&](std::int64_t unit) {
    const std::int64_t part = unit % parts, image = unit / parts / blocks,
                       first = unit / parts % blocks * ChannelBlocks::channels;
    const auto first_element = [&](std::int64_t size) {
      return image * conv.channels * size + first * (conv.channels_last ? 1 : size);
    };
    pool::select_for_isa(plain::run_depthwise, avx2::run_depthwise, avx512::run_depthwise)(
        {.conv = conv,
         .geometry = geometry,
         .channels = std::min(ChannelBlocks::channels, conv.channels - first),
         .first_row = rows * part / parts,
         .last_row = rows * (part + 1) / parts,
         .x = address_of(data[0], conv.x, first_element(in_size)),
         .w = address_of(data[1], conv.w, first * geometry.kernel),
         .y = address_of(data[2], conv.y, first_element(out_size)),
         .scratch = static_cast<float*>(pool::thread_arenas().computed.ensure_size(scratch_bytes))});
  });
}

void run_loops(const ConvLoops& conv, std::span<void* const> data, int threads) {
  if (uses_channel_blocks(conv)) return run_depthwise(conv, data, threads);
  const PaddedChannel geometry(conv);
  const std::int64_t inputs = conv.channels / conv.groups, outputs = conv.out_channels / conv.groups;
  std::int64_t in_size = 1, out_size = 1, kernel = 1;
  for (const ConvWindow& window : geometry.windows) {
    in_size *= window.in;
    out_size *= window.out;
    kernel *= window.kernel;
  }
  if (out_size == 0) return;
  const auto scratch_bytes = static_cast<std::size_t>(direct_convolution_scratch(conv)) * sizeof(float);
  parallel_for(conv.batch * conv.groups, threads, [&](std::int64_t unit) {
    const std::int64_t group = unit % conv.groups;
    pool::select_for_isa(plain::run_direct_convolution, avx2::run_direct_convolution, avx512::run_direct_convolution)(
        {.conv = conv,
         .geometry = geometry,
         .x = address_of(data[0], conv.x, unit * inputs * in_size),
         .w = address_of(data[1], conv.w, group * outputs * inputs * kernel),
         .y = address_of(data[2], conv.y, unit * outputs * out_size),
         .scratch = static_cast<float*>(pool::thread_arenas().computed.ensure_size(scratch_bytes))});
  });
}

}  // namespace ridge::ops

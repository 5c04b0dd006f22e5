#include "ridge/ops/loops/direct_convolution.h"

#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/element.h"
#include "ridge/pool/arena.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

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

double direct_convolution_scratch(const ConvLoops& conv) {
  const PaddedChannel g(conv);
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  double kernel = 1;
  for (const ConvWindow& window : g.windows) kernel *= real(window.kernel);
  const double inputs = real(conv.channels / conv.groups), outputs = real(conv.out_channels / conv.groups);
  return real(g.rows[0]) * real(g.rows[1]) * real(g.phase) * real(conv.stride) +
         outputs * real(g.windows[0].out) * real(g.windows[1].out) * real(g.sums) + outputs * inputs * kernel;
}

void run_loops(const ConvLoops& conv, std::span<void* const> data, int threads) {
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
  const auto at = [](void* base, DType dtype, std::int64_t elements) {
    return static_cast<char*>(base) + elements * (dtype_bits(dtype) / 8);
  };
  parallel_for(conv.batch * conv.groups, threads, [&](std::int64_t unit) {
    const std::int64_t group = unit % conv.groups;
    pool::select_for_isa(plain::run_direct_convolution, avx2::run_direct_convolution, avx512::run_direct_convolution)(
        {.conv = conv,
         .geometry = geometry,
         .x = at(data[0], conv.x, unit * inputs * in_size),
         .w = at(data[1], conv.w, group * outputs * inputs * kernel),
         .y = at(data[2], conv.y, unit * outputs * out_size),
         .scratch = static_cast<float*>(pool::thread_arenas().computed.ensure_size(scratch_bytes))});
  });
}

}  // namespace ridge::ops

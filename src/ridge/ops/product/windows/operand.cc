#include "ridge/ops/product/windows/operand.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/product/layout.h"
#include "ridge/pool/arena.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

namespace {

std::vector<KernelOffset> list_offsets(const WindowAxis& axis) {
  std::vector<KernelOffset> out;
  for (std::int64_t i = 0; i < axis.kernel; ++i) {
    const std::int64_t first = i * axis.dilation - axis.padding;
    const std::int64_t begin = first < 0 ? ceil_div(-first, axis.stride) : 0;
    const std::int64_t end = first < axis.in ? ceil_div(axis.in - first, axis.stride) : 0;
    out.push_back({first, std::min(begin, axis.out), std::clamp(end, std::min(begin, axis.out), axis.out)});
  }
  return out;
}

std::int64_t count_kernel_elements(const ConvolutionWindows& windows) {
  std::int64_t elements = 1;
  for (const WindowAxis& axis : windows.axes) elements *= axis.kernel;
  return elements;
}

// True if bf16 weights are copied to another order, so that windows are read without packing. With fewer columns
// copying takes longer than packing.
bool copies_weights(const MatmulProblem& p, const tile::cpu::Engine& engine) {
  constexpr std::int64_t min_columns = 384;
  const std::int64_t kernel = count_kernel_elements(*p.windows);
  const MatrixLayout a = canonical_layout(p.a, p.size.m, p.size.k);
  return engine.indexes_right && engine.per_unit == 2 && p.a.dtype == p.b.dtype && kernel > 1 &&
         p.size.k % (2 * kernel) == 0 && p.size.n >= min_columns && p.windows->groups == 1 &&
         a.row_stride == p.size.k && a.col_stride == 1 && (p.batch == 1 || a.batch_stride == 0);
}

const void* copy_weights(const MatmulProblem& p, const void* weights) {
  const std::int64_t kernel = count_kernel_elements(*p.windows), elements = p.size.m * p.size.k;
  void* const out = pool::thread_arenas().computed.ensure_size(static_cast<std::size_t>(2 * elements));
  pool::select_for_isa(plain::pair_channels, avx2::pair_channels,
                       avx512::pair_channels)({weights, elements / (2 * kernel), kernel, out});
  return out;
}

}  // namespace

WindowOperand::WindowOperand(const MatmulProblem& problem, const tile::cpu::Engine& engine, const void* weight_data,
                             const void* input_data)
    : windows(&*problem.windows),
      input(input_data),
      batch_stride(problem.b.batch_stride),
      element_bytes(dtype_bits(problem.b.dtype) / 8),
      pairs_channels(copies_weights(problem, engine)),
      weights(pairs_channels ? copy_weights(problem, weight_data) : weight_data) {
  for (std::size_t d = 0; d < 3; ++d) offsets[d] = list_offsets(windows->axes[d]);
  writes_pairs = element_bytes == 2 && pool::active_isa() >= pool::Isa::avx512;
  copy = [](const ComputedOperand& operand, tile::Index batch, tile::Range k, tile::Range columns,
            const tile::CopyTarget& to) {
    const auto& self = static_cast<const WindowOperand&>(operand);
    const void* const from = static_cast<const char*>(self.input) + batch * self.batch_stride * self.element_bytes;
    pool::select_for_isa(plain::copy_windows, avx2::copy_windows, avx512::copy_windows)({self, from, k, columns, to});
  };
  if ((element_bytes != 4 && !pairs_channels) || pool::active_isa() < pool::Isa::avx512) return;
  place = [](const ComputedOperand& operand, tile::Index batch, tile::Range k, tile::Range columns) {
    const auto& self = static_cast<const WindowOperand&>(operand);
    const void* const from = static_cast<const char*>(self.input) + batch * self.batch_stride * self.element_bytes;
    return pool::select_for_isa(plain::place_windows, avx2::place_windows,
                                avx512::place_windows)({self, from, k, columns, {}});
  };
}

Reason validate_windows(const MatmulProblem& p) {
  if (!p.windows) return {};
  std::int64_t outputs = 1;
  const std::int64_t kernel = count_kernel_elements(*p.windows);
  for (const WindowAxis& axis : p.windows->axes) {
    if (axis.in < 0 || axis.stride < 1 || axis.dilation < 1 || axis.padding < 0)
      return fmt::format(
          "windows: expected a stride and a dilation of at least 1 and a padding of at least 0, found "
          "{}, {} and {}",
          axis.stride, axis.dilation, axis.padding);
    outputs *= axis.out;
  }
  if (p.size.n != outputs || kernel == 0 || p.size.k % kernel != 0)
    return fmt::format("windows: expected n of {} outputs and k in multiples of {} kernel elements, found {} and {}",
                       outputs, kernel, p.size.n, p.size.k);
  if (p.windows->groups < 1 || p.batch % p.windows->groups != 0)
    return fmt::format("windows: expected a batch in multiples of {} groups, found {}", p.windows->groups, p.batch);
  return p.grouped ? Reason("windows: expected no groups of rows") : Reason();
}

}  // namespace ridge::ops

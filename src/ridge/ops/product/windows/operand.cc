#include "ridge/ops/product/windows/operand.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/ceil_div.h"
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

}  // namespace

WindowOperand::WindowOperand(const MatmulProblem& problem, const void* input_data)
    : windows(&*problem.windows),
      input(input_data),
      batch_stride(problem.b.batch_stride),
      element_bytes(dtype_bits(problem.b.dtype) / 8) {
  for (std::size_t d = 0; d < 3; ++d) offsets[d] = list_offsets(windows->axes[d]);
  writes_pairs = element_bytes == 2 && pool::active_isa() >= pool::Isa::avx512;
  copy = [](const ComputedOperand& operand, tile::Index batch, tile::Range k, tile::Range columns,
            const tile::CopyTarget& to) {
    const auto& self = static_cast<const WindowOperand&>(operand);
    const void* const from = static_cast<const char*>(self.input) + batch * self.batch_stride * self.element_bytes;
    pool::select_for_isa(plain::copy_windows, avx2::copy_windows, avx512::copy_windows)({self, from, k, columns, to});
  };
}

Reason validate_windows(const MatmulProblem& p) {
  if (!p.windows) return {};
  std::int64_t outputs = 1, kernel = 1;
  for (const WindowAxis& axis : p.windows->axes) {
    if (axis.in < 0 || axis.stride < 1 || axis.dilation < 1 || axis.padding < 0)
      return fmt::format(
          "windows: expected a stride and a dilation of at least 1 and a padding of at least 0, found "
          "{}, {} and {}",
          axis.stride, axis.dilation, axis.padding);
    outputs *= axis.out;
    kernel *= axis.kernel;
  }
  if (p.size.n != outputs || kernel == 0 || p.size.k % kernel != 0)
    return fmt::format("windows: expected n of {} outputs and k in multiples of {} kernel elements, found {} and {}",
                       outputs, kernel, p.size.n, p.size.k);
  if (p.windows->groups < 1 || p.batch % p.windows->groups != 0)
    return fmt::format("windows: expected a batch in multiples of {} groups, found {}", p.windows->groups, p.batch);
  return p.grouped ? Reason("windows: expected no groups of rows") : Reason();
}

}  // namespace ridge::ops

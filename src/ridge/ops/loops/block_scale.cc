// Quantization to blocks that share a scale, and its inverse.
#include "ridge/ops/function/block_scale.h"
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/strided.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

void quantize(const BlockQuantization& run) {
  pool::select_for_isa(plain::quantize_blocks, avx2::quantize_blocks, avx512::quantize_blocks)(run);
}

// Quantizes lines whose elements are contiguous or not; blocks of the result are contiguous.
struct QuantizeRun {
  const QuantizeLoops& l;
  std::span<void* const> data;

  void run_line(const LoopAxis& at) const {
    constexpr std::int64_t piece = 1024;  // A multiple of every block.
    const std::int64_t block = dtype_info(l.result).block;
    char* const to = static_cast<char*>(data[1]) + stored_bytes(l.result, at.result);
    const StridedElements x{l.values, data[0], at.values, l.axis.values};
    if (x.stride == 1) {
      void* const from = static_cast<char*>(x.data) + x.first * dtype_bits(x.dtype) / 8;
      return quantize({l.result, x.dtype, to, from, l.axis.extent / block});
    }
    alignas(64) float wide[piece];
    for (std::int64_t first = 0; first < l.axis.extent; first += piece) {
      const std::int64_t n = std::min(piece, l.axis.extent - first);
      load_floats(x.from(first), n, wide);
      quantize({l.result, DType::f32, to + stored_bytes(l.result, first), wide, n / block});
    }
  }
};

}  // namespace

void run_loops(const QuantizeLoops& l, std::span<void* const> data, int threads) {
  const std::vector<LoopAxis> axes = merge_loop_axes(l.axes);
  run_in_parts(count_points(axes), min_elements_per_part / l.axis.extent, threads,
               [&](std::int64_t begin, std::int64_t end) {
                 LoopCursor cursor(axes, begin);
                 for (std::int64_t line = begin; line < end; ++line, cursor.advance())
                   QuantizeRun{l, data}.run_line(cursor.offsets());
               });
}

void run_loops(const DequantizeLoops& l, std::span<void* const> data, int threads) {
  const std::int64_t block = dtype_info(l.values).block;
  run_in_parts(l.elements / block, min_elements_per_part / block, threads, [&](std::int64_t begin, std::int64_t end) {
    const BlockDequantization run{l.values, l.result,
                                  static_cast<char*>(data[0]) + stored_bytes(l.values, begin * block),
                                  static_cast<char*>(data[1]) + begin * block * dtype_bits(l.result) / 8, end - begin};
    pool::select_for_isa(plain::dequantize_blocks, avx2::dequantize_blocks, avx512::dequantize_blocks)(run);
  });
}

}  // namespace ridge::ops

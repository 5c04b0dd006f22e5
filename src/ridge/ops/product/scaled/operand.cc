#include "ridge/ops/product/scaled/operand.h"

#include <fmt/format.h>

#include "ridge/base/block_scale.h"
#include "ridge/ops/function/block_scale.h"
#include "ridge/ops/product/layout.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

BlockScaledOperand::BlockScaledOperand(const MatmulProblem& problem, const void* b)
    : dtype(decoded_dtype(problem.b.dtype, problem.a.dtype)),
      column_stride(problem.b.col_stride),
      batch_stride(problem.b.batch_stride) {
  along_k = true;
  blocks = b;
  blocks_dtype = problem.b.dtype;
  k_multiple = dtype_info(blocks_dtype).block;
  copy = [](const ComputedOperand& operand, tile::Index batch, tile::Range k, tile::Range columns,
            const tile::CopyTarget& to) {
    const auto& self = static_cast<const BlockScaledOperand&>(operand);
    const std::int64_t first = batch * self.batch_stride + columns.begin * self.column_stride + k.begin;
    pool::select_for_isa(plain::dequantize_blocks, avx2::dequantize_blocks, avx512::dequantize_blocks)(
        {.scaled_dtype = self.blocks_dtype,
         .dtype = self.dtype,
         .scaled = static_cast<const char*>(self.blocks) + stored_bytes(self.blocks_dtype, first),
         .elements = to.data,
         .blocks = k.size / self.k_multiple,
         .lines = columns.size,
         .scaled_stride_bytes = stored_bytes(self.blocks_dtype, self.column_stride),
         .element_stride = to.panel_stride});
  };
}

Reason validate_scaled_operand(const MatmulProblem& p) {
  if (!is_block_scaled(p.a.dtype) && !is_block_scaled(p.b.dtype)) return {};
  if (is_block_scaled(p.a.dtype) && is_block_scaled(p.b.dtype))
    return fmt::format("expected one block-scaled operand, found {} * {}", dtype_name(p.a.dtype),
                       dtype_name(p.b.dtype));
  if (p.windows || p.pixel_windows) return "windows: expected no block-scaled operand";
  if (is_block_scaled(p.a.dtype)) {
    if (p.grouped) return fmt::format("a: expected f32 or bf16 for grouped rows, found {}", dtype_name(p.a.dtype));
    return validate_scaled_operand(transpose_problem(p));
  }
  const bool is_exact = p.a.dtype == DType::f32 || (p.a.dtype == DType::bf16 && p.b.dtype != DType::e4m3_128);
  if (!is_exact)
    return fmt::format("expected {} with {}, found {}", p.b.dtype == DType::e4m3_128 ? "f32" : "f32 or bf16",
                       dtype_name(p.b.dtype), dtype_name(p.a.dtype));
  const std::int64_t block = dtype_info(p.b.dtype).block;
  if (p.b.row_stride != 1 && p.size.k > 0)
    return fmt::format("{}: expected blocks along k, found a stride of {}", dtype_name(p.b.dtype), p.b.row_stride);
  for (const std::int64_t x : {p.size.k, p.size.n > 1 ? p.b.col_stride : 0, p.batch > 1 ? p.b.batch_stride : 0})
    if (x % block != 0)
      return fmt::format("{}: expected k and strides in multiples of {} elements, found {}", dtype_name(p.b.dtype),
                         block, x);
  return {};
}

Reason validate_packed_lines(std::string_view name, const MatrixLayout& x, std::int64_t lines, std::int64_t k,
                             std::int64_t batch) {
  if (k == 0) return {};
  if (x.col_stride != 1) return fmt::format("{}: expected blocks along k, found a stride of {}", name, x.col_stride);
  const std::int64_t line = lines > 1 ? x.row_stride : k, matrix = batch > 1 ? x.batch_stride : 0;
  const bool is_packed = line == k && (matrix == 0 || matrix == lines * k),
             alternates = batch > 1 && matrix == k && (lines <= 1 || line == batch * k);
  if (is_packed || alternates) return {};
  return fmt::format("{}: expected lines of {} elements without gaps, found strides of {} and {} elements", name, k,
                     x.row_stride, x.batch_stride);
}

Reason validate_scaled_pair(const MatmulProblem& p) {
  if (p.a.dtype != DType::e4m3_128 || p.b.dtype != DType::e4m3_128)
    return fmt::format("expected two operands of e4m3_128, found {} * {}", dtype_name(p.a.dtype),
                       dtype_name(p.b.dtype));
  if (p.windows || p.pixel_windows) return "expected no windows with block-scaled operands";
  if (p.size.k % dtype_info(DType::e4m3_128).block != 0)
    return fmt::format("k: expected a multiple of {}, found {}", dtype_info(DType::e4m3_128).block, p.size.k);
  if (auto reason = validate_packed_lines("a", p.a, p.size.m, p.size.k, p.batch)) return reason;
  return validate_packed_lines("b", transpose_layout(p.b), p.size.n, p.size.k, p.batch);
}

}  // namespace ridge::ops

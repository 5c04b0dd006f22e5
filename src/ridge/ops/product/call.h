// The arguments of a product on every target: problem, data and epilogue.
//
// CPU: f32, bf16 or f16, both operands of one type or one of them int8 -> f32, bf16 or f16, sums in f32; f32 or bf16
// and a block-scaled operand, which is converted to the other's type -> f32, bf16 or f16; int8*int8 -> int32, exact for
// k up to 131071, or from these sums int8 (rounded to even, clamped to -128 … 127), f32, bf16 or f16. Hopper: two
// operands of one dtype, bf16, f16, f32, tf32, e4m3 or e4m3_128, or narrow weights -> bf16, f16 or f32, sums in f32;
// int8*int8 -> int32, or f32, bf16 or f16 from these sums. An int32 result has no epilogue.
#pragma once

#include "ridge/ops/product/problem.h"
#include "ridge/tile/epilogue.h"
#include "ridge/tile/shared_rows.h"

namespace ridge::ops {

// y = activation(alpha * scale * sum + bias) * gate + beta * addend, in f32. An operand without data is omitted.
// Element (r, c) of product i is at data + i*batch_stride + r*row_stride + c*col_stride, in elements; a stride of 0
// broadcasts: a bias per column, or the scale of int8 weights that were quantized per column, has strides 0, 1.
// Operands are bf16, f16 or f32. The addend may be D itself.
using tile::EpilogueActivation, tile::RowWalk, tile::GatheredRows, tile::ScatteredRows;
struct EpilogueOperand {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, col_stride = 0, batch_stride = 0;
};
struct MatmulEpilogue {
  float alpha = 1, beta = 1;
  EpilogueActivation activation = EpilogueActivation::none;
  EpilogueOperand scale{}, bias{}, gate{}, addend{};
  bool may_round_sum = false;  // Allows rounding the sum to D's format before adding the addend, which may be faster
};

// D = A * B, then the epilogue. Inputs other than the addend must not overlap D. `constant_b` promises that no running
// kernel writes B (weights), so that a device may prefetch B. `gathered` or `scattered` describes rows of A or D that
// ranks share (tile/shared_rows.h); they require batch 1 and a plan of choose_exchanged_rows_plan(). `starts` of a
// grouped problem has `batch` + 1 nondecreasing numbers in 0 … m, in memory of the target: group i has rows starts[i] …
// starts[i + 1] - 1. Rows of D in no group are unchanged. An epilogue operand has a row for each row of D and a matrix
// for each group (batch_stride; a bias per expert). A device does not validate `starts`: it clamps them to 0 … m; if
// they decrease, D is unspecified, but no kernel accesses memory outside the operands.
struct MatmulCall {
  MatmulProblem problem;
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  MatmulEpilogue epilogue{};
  bool constant_b = false;
  const std::int32_t* starts = nullptr;
  GatheredRows gathered{};
  ScatteredRows scattered{};
  const RowWalk& row_walk() const { return gathered.rows > 0 ? static_cast<const RowWalk&>(gathered) : scattered; }
};

}  // namespace ridge::ops

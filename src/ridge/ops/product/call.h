// A product with its data and what becomes of its sums: what every target's matmul is called with.
//
// On a CPU: f32, bf16 or f16, both operands alike or one of them int8 -> f32, bf16 or f16, sums in f32; int8*int8 ->
// int32, exact, for k up to 131071, from which int8 (rounded to even, held within -128 … 127), f32, bf16 or f16. On
// Hopper: bf16*bf16 or f16*f16 -> bf16, f16 or f32, sums in f32.
#pragma once

#include "ridge/ops/product/problem.h"
#include "ridge/tile/epilogue.h"
#include "ridge/tile/shared_rows.h"

namespace ridge::ops {

// y = activation(alpha * scale * sum + bias) * gate + beta * addend, in f32. An operand without data is left out. Its
// element (r, c) of product i lies at data + i*batch_stride + r*row_stride + c*col_stride, in elements; a stride of 0
// broadcasts, so a bias along the columns has strides 0, 1, and so has the scale of weights that were divided column by
// column to fit int8. bf16, f16 or f32. The addend may be D itself, element for element.
using tile::Activation, tile::RowWalk, tile::GatheredRows, tile::ScatteredRows;
struct EpilogueOperand {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, col_stride = 0, batch_stride = 0;
};
struct MatmulEpilogue {
  float alpha = 1, beta = 1;
  Activation activation = Activation::none;
  EpilogueOperand scale{}, bias{}, gate{}, addend{};
  bool may_round_sum = false;  // to D's format, before the addend comes to it: where that is faster
};

// A product with its data: D = A * B, then the epilogue. Inputs must not overlap D (but for the addend). constant_b:
// no kernel that still runs writes B (weights), so a device may read it early. gathered, scattered: rows of A or of D
// that other ranks share (tile/shared_rows.h), one of both, where a device's plan was chosen for them, in no batch.
// starts: where the problem is grouped, `batch` + 1 numbers that never fall, each in 0 … m, in memory that the
// product's target reads: group i has rows starts[i] … starts[i + 1] - 1. Rows of D that are in no group are left as
// they are. An operand of the epilogue has a row for each of D's, and a matrix for each group (batch_stride; a bias of
// each expert). On a device nobody has looked at these numbers before: what does not lie in 0 … m counts as the nearest
// that does. Numbers that fall make no kernel read or write elsewhere, and what D then holds is not said.
struct MatmulCall {
  MatmulProblem problem;
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  MatmulEpilogue epilogue{};
  bool constant_b = false;
  const std::int32_t* starts = nullptr;
  GatheredRows gathered{};
  ScatteredRows scattered{};
  const RowWalk& walk() const { return gathered.rows > 0 ? static_cast<const RowWalk&>(gathered) : scattered; }
};

}  // namespace ridge::ops

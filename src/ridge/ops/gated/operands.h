// Converts a gated layer's matrices to operands of tile kernels. Internal to ops/gated.
#pragma once

#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/product/operands.h"

namespace ridge::ops::cuda {

struct GatedOperands {
  TileOperand x, up, gate;
  static TileOperand make_operand(const void* data, DType dtype, std::int64_t lines, std::int64_t k, std::int64_t line,
                                  tile::Major major = tile::Major::k);
};
GatedOperands make_gated_operands(const GatedCall& call);

}  // namespace ridge::ops::cuda

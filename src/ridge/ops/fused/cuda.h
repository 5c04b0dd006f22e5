// Products with what becomes of their sums (menu.h's FusedMatmul) on a CUDA device. Two kernels there end a product in
// more than rounding: the product with its epilogue (matmul_call.h) and the gated layer (gated_cuda.h). A chain is read
// step by step, its registers holding expressions in place of numbers, and what is one of the two forms runs as that:
//
//   gelu(x*w * 0.5 + b) * s - r            a product, alpha 0.5, bias b, gelu, gate s, addend r, beta -1
//   silu(x*gate + bg) * (x*up + bu)        a gated layer, whichever of its products came first
//
// Any other is refused: nothing is reordered that would round differently. Activations are within 2^-20 |x| of
// themselves here, the gated layer's as gated_cuda.h says; gelu, gelu_tanh and silu of -inf are NaN. Looks at no device
// and needs no CUDA header.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>

#include "ridge/ops/fused/model.h"  // refuse
#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops::cuda {

using FusedCall = std::variant<MatmulCall, GatedCall>;

// `data`: A, B and C (null without one), then the chain's tensors behind the sums. The problem must not be refused.
FusedCall fused_call(const FusedMatmul& problem, std::span<void* const> data);
// To be asked about and not to be launched: all of its operands are there, aligned, and nowhere.
FusedCall fused_call(const FusedMatmul& problem);

}  // namespace ridge::ops::cuda

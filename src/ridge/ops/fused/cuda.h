// Fused products (ops/fused/problem.h) on a CUDA device. Two kernels do more with the sums than rounding: the product
// with its epilogue (ops/product/cuda.h) and the gated layer (ops/gated/cuda.h). A chain is interpreted step by step on
// expressions instead of numbers and runs as one of the two forms if it matches:
//
//   gelu(x*w * 0.5 + b) * s - r            a product, alpha 0.5, bias b, gelu, gate s, residual r, beta -1
//   silu(x*gate + bg) * (x*up + bu)        a gated layer, with its products in any order
//
// Any other chain is unsupported: nothing is reordered that would round differently. The error of activations is at
// most 2^-20 |x|, in the gated layer as in ops/gated/cuda.h; gelu, gelu_tanh and silu of -inf are NaN. Needs no device
// and no CUDA header.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>

#include "ridge/ops/fused/model.h"  // For `unsupported_reason`
#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops::cuda {

using FusedCall = std::variant<MatmulCall, GatedCall>;

// `data` has A, B and C (or null), then the chain's tensors after the sums. The problem must be supported.
FusedCall make_fused_call(const FusedMatmul& problem, std::span<void* const> data);
// Returns a call that can be checked but not launched: its operands are aligned placeholder addresses.
FusedCall make_fused_call(const FusedMatmul& problem);

}  // namespace ridge::ops::cuda

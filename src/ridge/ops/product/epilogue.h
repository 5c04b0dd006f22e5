// Conversion of a call's epilogue to the epilogue of tile kernels. Internal to the products.
#pragma once

#include "ridge/base/reason.h"
#include "ridge/ops/product/call.h"
#include "ridge/tile/epilogue.h"

namespace ridge {
namespace tile {
struct EpilogueTile;  // tile.h, on a CPU
}
}  // namespace ridge

namespace ridge::ops {

// True if the epilogue only rounds sums to D's format.
bool is_store_only(const MatmulEpilogue& epilogue);
// True if the epilogue only adds the sum to D, and the sum may be rounded before it is added.
bool adds_rounded_sum(const MatmulCall& call);

// Returns why an operand has an unsupported type.
Reason validate_epilogue(const MatmulEpilogue& epilogue);

// Return the epilogue or the call that computes D transposed, which is B transposed times A transposed.
MatmulEpilogue transpose_epilogue(MatmulEpilogue epilogue);
MatmulCall transpose_call(const MatmulCall& call);

tile::Epilogue to_tile_epilogue(const MatmulEpilogue& epilogue, DType d);

// Applies the epilogue to a tile of sums on this CPU, in the instruction set of the kernels.
void apply_epilogue(const tile::EpilogueTile& tile);

// Variants of epilogue_body.cc, which is compiled once per instruction set.
namespace plain {
void apply_epilogue(const tile::EpilogueTile& tile);
}
namespace avx2 {
void apply_epilogue(const tile::EpilogueTile& tile);
}
namespace avx512 {
void apply_epilogue(const tile::EpilogueTile& tile);
}

}  // namespace ridge::ops

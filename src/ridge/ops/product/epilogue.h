// Conversion of a call's epilogue to that of the targets. Internal to the products.
#pragma once

#include <optional>
#include <string>

#include "ridge/ops/product/call.h"
#include "ridge/ops/stored.h"

namespace ridge::tile {
struct Finishing;  // tile.h, on a CPU
}

namespace ridge::ops {

// True if sums are only rounded to D's format.
bool is_plain(const MatmulEpilogue& epilogue);
// True if the epilogue only adds the sum to D, and the sum may be rounded before.
bool adds_rounded(const MatmulCall& call);

// Returns why an operand has an unsupported type, or nullopt.
std::optional<std::string> refuse_epilogue(const MatmulEpilogue& epilogue);

// Return the epilogue or the call that computes D transposed, which is B transposed times A transposed.
MatmulEpilogue exchanged(MatmulEpilogue epilogue);
MatmulCall exchanged(const MatmulCall& call);

tile::Finish finish_of(const MatmulEpilogue& epilogue, DType d);

// Applies the epilogue to a tile of sums on this CPU, in the instruction set of the kernels.
void finish(const tile::Finishing& tile);

// Variants of epilogue_body.cc, which is compiled once per instruction set.
namespace plain {
void finish(const tile::Finishing& tile);
}
namespace avx2 {
void finish(const tile::Finishing& tile);
}
namespace avx512 {
void finish(const tile::Finishing& tile);
}

}  // namespace ridge::ops

// A call's epilogue as the targets know it. Internal to the products.
#pragma once

#include <optional>
#include <string>

#include "ridge/ops/product/call.h"
#include "ridge/ops/stored.h"

namespace ridge::tile {
struct Finishing;  // tile.h, on a CPU
}

namespace ridge::ops {

// Sums are only rounded to D's format.
bool is_plain(const MatmulEpilogue& epilogue);
// The sum is but added to what D holds, and may be rounded before.
bool adds_rounded(const MatmulCall& call);

std::optional<std::string> refuse_epilogue(const MatmulEpilogue& epilogue);

// Of D transposed, which is B transposed times A transposed.
MatmulEpilogue exchanged(MatmulEpilogue epilogue);
MatmulCall exchanged(const MatmulCall& call);

tile::Finish finish_of(const MatmulEpilogue& epilogue, DType d);

// From sums to elements on this CPU, in the instruction set that the kernels use.
void finish(const tile::Finishing& tile);

// epilogue_body.cc, compiled once for each instruction set.
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

// A call's epilogue as the targets know it. Internal to the products.
#pragma once

#include <optional>
#include <string>

#include "ridge/kernels/matmul_call.h"

namespace ridge::tile {
struct Finishing;  // tile.h, on a CPU
}

namespace ridge::kernels {

tile::Stored stored(DType dtype);  // bf16, f16, f32, int8

// Sums are only rounded to D's format.
bool is_plain(const MatmulEpilogue& epilogue);

std::optional<std::string> refuse_epilogue(const MatmulEpilogue& epilogue);

// Of D transposed.
MatmulEpilogue exchanged(MatmulEpilogue epilogue);

tile::Finish finish_of(const MatmulEpilogue& epilogue, DType d);

// From sums to elements on this CPU, in the instruction set that the kernels use.
void finish(const tile::Finishing& tile);

void finish_plain(const tile::Finishing& tile);
void finish_avx2(const tile::Finishing& tile);
void finish_avx512(const tile::Finishing& tile);

}  // namespace ridge::kernels

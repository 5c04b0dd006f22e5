// Memory layout of the caller's arrays, and row-major copies.
#pragma once

#include "ridge/compute.h"
#include "ridge/run/memory.h"

namespace ridge::api {

// True if the array is row-major without gaps and aligned to its element size.
bool is_row_major(const ArrayView& view);
// True if the address ranges of two arrays, including gaps, overlap.
bool has_overlap(const ArrayView& a, const ArrayView& b);

// Returns a row-major copy. Error: out of memory.
Result<ArrayStorage> copy_row_major(const ArrayView& view);
Error out_of_memory_error(std::int64_t bytes);

}  // namespace ridge::api

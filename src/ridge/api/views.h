// The caller's arrays: how they lie in memory, and copies in the order that kernels take. Internal to api/.
#pragma once

#include "ridge/compute.h"
#include "ridge/measure/memory.h"

namespace ridge::api {

// Row-major without gaps, at a multiple of its element's size.
bool is_plain(const ArrayView& view);
// Whether the bytes that two arrays span, gaps included, have some in common.
bool overlap(const ArrayView& a, const ArrayView& b);

// The elements in row-major order. Error: no memory.
Result<ArrayStorage> plain_copy(const ArrayView& view);
Error no_memory(std::int64_t bytes);

}  // namespace ridge::api

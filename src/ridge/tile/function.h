// TILE_FN declares functions that are always inlined, so that the linker cannot merge copies that are compiled for
// different instruction sets.
#pragma once

#ifdef __CUDACC__
#define TILE_FN __device__ __forceinline__
#else
#define TILE_FN [[gnu::always_inline]] inline
#endif

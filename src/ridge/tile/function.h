// Declares functions that every target inlines: a function compiled for several instruction sets must not be
// merged into one by the linker.
#pragma once

#ifdef __CUDACC__
#define TILE_FN __device__ __forceinline__
#else
#define TILE_FN [[gnu::always_inline]] inline
#endif

// How a function of the language is declared, so that every target inlines it: what is compiled
// for several instruction sets must not be linked once.
#pragma once

#ifdef __CUDACC__
#define TILE_FN __device__ __forceinline__
#else
#define TILE_FN [[gnu::always_inline]] inline
#endif

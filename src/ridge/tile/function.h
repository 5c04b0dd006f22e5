// How a function of the language is declared, so that every target can inline it.
#pragma once

#ifdef __CUDACC__
#define TILE_FN __device__ __forceinline__
#else
#define TILE_FN inline
#endif

// Compiled chains that come with Ridge, for each instruction set: what `ridge bench stream` holds against the memory,
// and the pattern for one's own. A text is a line in map_body.h.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::ops {

enum class MapText {
  affine,  // y = relu(1.3*x + 0.2) * r
  gelu,    // y = gelu(1.3*x + 0.2) * r
};

// All three arrays hold n elements of `dtype`: f32, bf16 or f16. Threads: as in run.h.
struct MapRun {
  MapText text = MapText::affine;
  DType dtype = DType::f32;
  std::int64_t n = 0;
  const void *x = nullptr, *r = nullptr;
  void* y = nullptr;
  int threads = 0;
};
void map_text(const MapRun& run);

// map_body.cc, compiled once for each instruction set.
namespace plain {
void map_text(const MapRun& run);
}
namespace avx2 {
void map_text(const MapRun& run);
}
namespace avx512 {
void map_text(const MapRun& run);
}

}  // namespace ridge::ops

// The texts of map_menu.h. Included by one file for each instruction set.
#pragma once

#include "ridge/ops/chain/map.h"
#include "ridge/ops/chain/map_menu.h"

namespace ridge::ops {
namespace {

inline void run_text(const MapRun& run) {
  with_type(run.dtype, run.y, [&](auto* y) {
    using T = std::decay_t<decltype(*y)>;
    const T *const x = static_cast<const T*>(run.x), *const r = static_cast<const T*>(run.r);
    switch (run.text) {
      case MapText::affine:
        return map(
            run.n, [](auto a, auto b) { return relu(1.3f * a + 0.2f) * b; }, run.threads, y, x, r);
      case MapText::gelu:
        return map(
            run.n, [](auto a, auto b) { return gelu(1.3f * a + 0.2f) * b; }, run.threads, y, x, r);
    }
  });
}

}  // namespace
}  // namespace ridge::ops

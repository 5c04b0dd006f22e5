// Walks over the columns of a convolution's windows, and the addresses to which they are copied. Included by the files
// of copy_body.cc.
#pragma once

#include "ridge/ops/product/windows/operand.h"

namespace ridge::ops {
namespace {

// Goes through the columns: outputs (o0, o1, o2), of which o2 … o2 + run_length() - 1 are one run.
struct OutputWalk {
  const std::array<WindowAxis, 3>& axes;
  std::array<std::int64_t, 3> o;
  OutputWalk(const std::array<WindowAxis, 3>& of, std::int64_t column)
      : axes(of), o{column / (of[1].out * of[2].out), column / of[2].out % of[1].out, column % of[2].out} {}
  std::int64_t run_length() const { return axes[2].out - o[2]; }
  // Returns the position in x that kernel element (0, 0, 0) without padding reads.
  std::int64_t input() const {
    return (o[0] * axes[0].stride * axes[1].in + o[1] * axes[1].stride) * axes[2].in + o[2] * axes[2].stride;
  }
  void advance(std::int64_t count) {
    o[2] += count;
    if (o[2] < axes[2].out) return;
    o[2] = 0;
    if (++o[1] < axes[1].out) return;
    o[1] = 0;
    ++o[0];
  }
};

template <class T> T* panel_address(const WindowCopy& copy, std::int64_t column) {
  return static_cast<T*>(copy.to.data) + column / copy.to.panel * copy.to.panel_stride +
         column % copy.to.panel * copy.to.per_unit;
}

}  // namespace
}  // namespace ridge::ops

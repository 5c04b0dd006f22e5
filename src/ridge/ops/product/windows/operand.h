// The windows of a convolution as an operand that is made while it is packed. Internal to the CPU products.
#pragma once

#include <array>
#include <vector>

#include "ridge/base/reason.h"
#include "ridge/ops/product/problem.h"
#include "ridge/tile/cpu/engine.h"
#include "ridge/tile/tile.h"

namespace ridge::ops {

// One element of the kernel in one dimension: output o reads input o*stride + first, inside of x for o in [begin, end).
struct KernelOffset {
  std::int64_t first = 0, begin = 0, end = 0;
};

// The right operand of a product with windows; `input` is the data of B.
struct WindowOperand : tile::ComputedOperand {
  // `weights` is the data of A.
  WindowOperand(const MatmulProblem& problem, const tile::cpu::Engine& engine, const void* weights, const void* input);
  const ConvolutionWindows* windows;
  const void* input;
  std::int64_t batch_stride;
  int element_bytes;
  // True if rows 2*i and 2*i + 1 of k are two channels of one element of the kernel, so that `place` can place both as
  // a unit. The weights have the same order.
  bool pairs_channels;
  const void* weights;  // the data of A, or a copy in that order in memory of the thread that calls the product
  std::array<std::vector<KernelOffset>, 3> offsets;  // offsets of the kernel elements along each axis
};

// Rows `k` and columns of an operand, to copy.
struct WindowCopy {
  const WindowOperand& operand;
  const void* input;  // data of one product
  tile::Range k, columns;
  tile::CopyTarget to;
};

// Returns why the sizes of a problem do not agree with its windows.
Reason validate_windows(const MatmulProblem& problem);

// Weights of 16 bits, [groups][2][kernel], to copy to [groups][kernel][2].
struct WeightPairs {
  const void* from = nullptr;
  std::int64_t groups = 0, kernel = 0;
  void* to = nullptr;
};

// Variants of windows/copy_body.cc, which is compiled once per instruction set.
namespace plain {
void copy_windows(const WindowCopy& copy);
tile::PlacedRows place_windows(const WindowCopy& copy);
void pair_channels(const WeightPairs& pairs);
}  // namespace plain
namespace avx2 {
void copy_windows(const WindowCopy& copy);
tile::PlacedRows place_windows(const WindowCopy& copy);
void pair_channels(const WeightPairs& pairs);
}  // namespace avx2
namespace avx512 {
void copy_windows(const WindowCopy& copy);
tile::PlacedRows place_windows(const WindowCopy& copy);
void pair_channels(const WeightPairs& pairs);
}  // namespace avx512

}  // namespace ridge::ops

// One test case of a product: problem with strides, epilogue, data, threads and positions of buffers. `check_case`
// places inputs in read-only memory between NaNs and inaccessible pages, and checks that bytes between D's rows do not
// change.
#pragma once

#include <string>
#include <vector>

#include "ridge/ops/product/cpu.h"
#include "ridge/ops/product/testing/guarded.h"

namespace ridge::ops::product_testing {

using Index = std::int64_t;

enum class TestValues {
  integers,  // Small, so that sums and epilogues are exact in f32
  normals,
  nan_row,  // Normals, with a NaN in one row of A
  extremes  // -128 … 127 for int8; otherwise normals
};

struct MatmulCase {
  MatmulCall call;  // `check_case` sets all pointers; an epilogue operand is used if its pointer is not null
  TestValues values = TestValues::integers;
  unsigned seed = 1;
  int threads = 1;
  int runs = 1;           // Number of runs, with other numbers of threads, that must give the same bits
  bool packed = false;    // Pass B as PackedWeights
  bool in_place = false;  // The addend is D
  GuardedBuffer::GuardSide side = GuardedBuffer::after;
  std::vector<std::int32_t> starts{};  // Starts of groups
  unsigned shifts[3] = {0, 0, 0};      // Bytes between a, b, d and the adjacent page
};

// Returns a layout with `padding` elements between rows (between columns if `transposed`).
MatrixLayout make_layout(DType dtype, Index rows, Index cols, bool transposed, Index padding = 0);
// Bits 0, 1 and 2 of `layouts` transpose the layouts of A, B and D.
MatmulCase make_simple_case(Index m, Index n, Index k, DType in = DType::f32, DType out = DType::f32, int layouts = 0);
MatmulCase make_random_case(unsigned seed);

std::string describe_case(const MatmulCase& c);
std::string check_case(const MatmulCase& c);  // Returns "", or the error and the case

void fill_matrix(const MatrixLayout& x, void* data, Index batch, Index rows, Index cols, TestValues values,
                 unsigned seed);

}  // namespace ridge::ops::product_testing

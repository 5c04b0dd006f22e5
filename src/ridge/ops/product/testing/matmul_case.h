// One product as the fourth oracle tries it: a problem with strides, an epilogue, data, threads, and where its buffers
// lie. Inputs lie in NaN up to pages without rights and cannot be written; between D's rows nothing may change.
#pragma once

#include <string>
#include <vector>

#include "ridge/ops/product/cpu.h"
#include "ridge/ops/product/testing/guarded.h"

namespace ridge::ops::oracle {

using Index = std::int64_t;

enum class Values {
  integers,  // small: every sum and every sum's epilogue is exact in f32
  normals,
  nan_row,  // normals, and one row of A is NaN
  extremes  // int8: -128 … 127; else as normals
};

struct MatmulCase {
  MatmulCall call;  // pointers are set by check(); in the epilogue anything but null asks for the operand
  Values values = Values::integers;
  unsigned seed = 1;
  int threads = 1;
  int runs = 1;           // that must give the same bits, with 1, 2, 3, … threads
  bool packed = false;    // B as PackedWeights
  bool in_place = false;  // the addend is D
  Guarded::Side side = Guarded::after;
  std::vector<std::int32_t> starts{};  // of a grouped problem
  unsigned shifts[3] = {0, 0, 0};      // bytes between a, b, d and the near page
};

MatrixLayout layout(DType dtype, Index rows, Index cols, bool transposed, Index extra = 0);
MatmulCase simple(Index m, Index n, Index k, DType in = DType::f32, DType out = DType::f32, int layouts = 0);
MatmulCase random_case(unsigned seed);

std::string text(const MatmulCase& c);
std::string check(const MatmulCase& c);  // "" or what is wrong, with the case

void fill_matrix(const MatrixLayout& x, void* data, Index batch, Index rows, Index cols, Values values, unsigned seed);

}  // namespace ridge::ops::oracle

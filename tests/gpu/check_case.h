// A product of the device check, drawn at random, and its description in messages.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "ridge/ops/product/cuda.h"

namespace ridge::gpu {

using ops::MatmulProblem, ops::cuda::MatmulEpilogue, ops::cuda::OperandCopies, ops::cuda::SplitK;

struct Case {
  MatmulProblem p;
  MatmulEpilogue e;  // a non-null data pointer requests that operand; the checker allocates it
  bool addend_is_d = false;
  int a_offset = 0, b_offset = 0, d_offset = 0;  // offsets of the operands in their buffers, in elements
  bool integers = false, nan_row = false, constant_b = false, prepared = true;
  int config = -1;  // index of a kernel configuration, or -1 for the planner's choice
  bool gemv = false;
  int candidate = -1;       // number of one of the plans with register loads, or -1 for the planner's choice
  std::vector<int> starts;  // of a grouped problem
  SplitK split;
  OperandCopies copies;
  std::size_t workspace = 0;
  int runs = 2;
};

inline std::string describe_case(const Case& c) {
  char s[600];
  const MatmulProblem& p = c.p;
  std::snprintf(s, sizeof s,
                "batch %ld m %ld n %ld k %ld %s -> %s; a %ld,%ld,%ld+%d b %ld,%ld,%ld+%d d %ld,%ld,%ld+%d; alpha %g "
                "beta %g act %d "
                "bias %d gate %d addend %d%s; %s%s config %d splits %d split_mode %d workspace %zu prefetch %d",
                p.batch, p.size.m, p.size.n, p.size.k, std::string(dtype_name(p.a.dtype)).c_str(),
                std::string(dtype_name(p.d.dtype)).c_str(), p.a.batch_stride, p.a.row_stride, p.a.col_stride,
                c.a_offset, p.b.batch_stride, p.b.row_stride, p.b.col_stride, c.b_offset, p.d.batch_stride,
                p.d.row_stride, p.d.col_stride, c.d_offset, c.e.alpha, c.e.beta, static_cast<int>(c.e.activation),
                c.e.bias.data != nullptr, c.e.gate.data != nullptr, c.e.addend.data != nullptr,
                c.addend_is_d ? " (d)" : "", c.integers ? "integers" : "normal", c.nan_row ? " nan row" : "", c.config,
                c.split.splits, static_cast<int>(c.split.split_mode), c.workspace, c.constant_b);
  std::string out = s;
  if (p.grouped) out += "; groups begin at";
  for (const int start : c.starts) out += " " + std::to_string(start);
  return out;
}

}  // namespace ridge::gpu

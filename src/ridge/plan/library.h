// The vendor's library on a machine: the numbers that `ridge calibrate` fitted for it, or another machine's.
#pragma once

#include <optional>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/ops/library/form.h"
#include "ridge/ops/model.h"
#include "ridge/ops/product/library.h"
#include "ridge/ops/product/problem.h"
#include "ridge/plan/plan.h"

namespace ridge {

struct LibraryOn {
  ops::LibraryMachine machine;
  ops::LibraryNumbers numbers;
  ops::Spread spread;        // measured over predicted: eight of ten lay between low and high
  bool is_measured = false;  // of this machine; else an H200's, as shares of its peaks
};
// The machine by its datasheet. Errors: its file lacks a peak of this dtype, its memory's rate or its cores.
Result<ops::LibraryMachine> library_machine(const Machine& machine, DType dtype);
// Errors: library_machine()'s.
Result<LibraryOn> library_on(const Machine& machine, DType dtype);

ops::LibraryProduct library_product(const ops::MatmulProblem& problem);

// A step that moves so many bytes as a kernel of ops/library's forms, but for products: attention of 16 bits, causal
// with as many queries as keys, or of one query a head that sees every key; chains and functions of rows, which stream.
struct LibraryKernel {
  const ops::LibraryForm* form = nullptr;
  std::vector<double> sizes = {};
  DType dtype = DType::bf16;
};
std::optional<LibraryKernel> library_kernel(const Step& step, std::int64_t bytes);

}  // namespace ridge

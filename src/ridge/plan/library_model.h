// The performance model of the vendor's library on a machine, with parameters that `ridge calibrate` fitted for that
// machine or scaled from another one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/ops/library/formula.h"
#include "ridge/ops/model.h"
#include "ridge/ops/product/library.h"
#include "ridge/ops/product/problem.h"
#include "ridge/plan/plan.h"

namespace ridge {

struct LibraryModel {
  ops::DatasheetRates machine;
  ops::LibraryNumbers numbers;
  ops::PredictionSpread spread;  // measured over predicted time; 80 % between low and high
  bool is_calibrated = false;    // false if the parameters are scaled from those of an H200
};
// Returns the datasheet rates. Errors: the machine file lacks a peak of this dtype, the memory bandwidth or the cores.
Result<ops::DatasheetRates> find_datasheet_rates(const Machine& machine, DType dtype);
// Returns a sentence for a machine whose library is not calibrated.
std::string uncalibrated_remark(const Machine& machine);
// True if the vendor's library for which the model was made runs on the machine.
bool has_library(const Machine& machine);
// Errors: those of `find_datasheet_rates`.
Result<LibraryModel> find_library_model(const Machine& machine, DType dtype);

ops::LibraryProduct to_library_product(const ops::MatmulProblem& problem);

struct LibraryKernel {
  const ops::LibraryFormula* formula = nullptr;
  std::vector<double> sizes = {};
  DType dtype = DType::bf16;
};
// Returns the formula for a step that moves `bytes`: causal 16-bit attention with equal numbers of queries and keys, or
// with one query per head that sees every key; chains and row functions. Returns nullopt for any other step.
std::optional<LibraryKernel> find_library_kernel(const PlanStep& step, std::int64_t bytes);

}  // namespace ridge

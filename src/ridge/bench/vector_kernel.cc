#include "ridge/bench/vector_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/contains.h"

namespace ridge {
namespace {

using ops::ChainOp;

double chain_value(const VectorKernel& kernel, double x, double gate) {
  // Rounds to f32 before the function as the chain does, so that cancellation is not the function's error.
  if (kernel.is_affine) x = static_cast<double>(static_cast<float>(x) * 1.3f + 0.2f);
  if (kernel.function == ChainOp::relu) x = std::max(x, 0.0);
  if (kernel.function == ChainOp::gelu) x = 0.5 * x * std::erfc(-x * std::sqrt(0.5));
  if (kernel.function == ChainOp::silu) x = x / (1 + std::exp(-x));
  if (kernel.function == ChainOp::cos)
    for (int i = 0; i < kernel.repeats; ++i) x = std::cos(x);
  return kernel.has_gate ? x * gate : x;
}

// Replaces a row by its softmax or rmsnorm.
void apply_row_function(const VectorKernel& kernel, double* row, const std::vector<double>& weight) {
  const bool softmax = kernel.name == "softmax";
  double sum = 0;
  for (std::int64_t i = 0; i < kernel.columns; ++i) {
    if (softmax) row[i] = std::exp(row[i]);
    sum += softmax ? row[i] : row[i] * row[i];
  }
  const double scale = softmax ? 1 / sum : 1 / std::sqrt(sum / static_cast<double>(kernel.columns) + 1e-5f);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kernel.columns); ++i)
    row[i] *= scale * (kernel.has_weight ? weight[i] : 1);
}

Result<std::vector<double>> reference_values(const VectorKernel& kernel, const KernelCheck& check, std::int64_t first,
                                             std::int64_t count) {
  RIDGE_TRY(values, check.read_values(0, first, count));
  std::vector<double> second(values.size());
  if (kernel.has_gate || kernel.has_weight) {
    RIDGE_TRY(read, kernel.has_gate ? check.read_values(1, first, count) : check.read_values(1, 0, kernel.columns));
    second = std::move(read);
  }
  if (kernel.columns == 0)
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = chain_value(kernel, values[i], second[i]);
  else
    for (std::int64_t row = 0; row < count; row += kernel.columns)
      apply_row_function(kernel, values.data() + row, second);
  return values;
}

}  // namespace

double VectorKernel::traffic_bytes(std::int64_t elements) const {
  return static_cast<double>(elements * dtype_bits(dtype) / 8 * (arrays_read() + 1));
}

double VectorKernel::allowed_error() const {
  if (dtype == DType::f32) return 4e-6;
  return dtype == DType::f16 ? 5.3e-4 : 4.2e-3;
}

ops::ChainProgram VectorKernel::chain_program(std::int64_t elements) const {
  std::vector<ops::ChainStep> steps{{.op = ChainOp::load, .result = 0, .slot = 0}};
  if (is_affine) {
    steps.push_back({.op = ChainOp::constant, .result = 1, .constant = 1.3f});
    steps.push_back({.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1});
    steps.push_back({.op = ChainOp::constant, .result = 1, .constant = 0.2f});
    steps.push_back({.op = ChainOp::add, .result = 0, .a = 0, .b = 1});
  }
  if (function != ChainOp::load) steps.push_back({.op = function, .result = 0, .a = 0, .repeat = repeats});
  if (has_gate) {
    steps.push_back({.op = ChainOp::load, .result = 1, .slot = 1});
    steps.push_back({.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1});
  }
  steps.push_back({.op = ChainOp::store, .a = 0, .slot = has_gate ? 2 : 1});
  const ops::ChainTensor flat{dtype, {1}};
  return {
      {elements}, std::vector<ops::ChainTensor>(array_count(), flat), std::move(steps), is_affine || has_gate ? 2 : 1};
}

ops::RowProblem VectorKernel::row_problem(std::int64_t elements) const {
  ops::RowProblem p;
  p.function = name == "softmax" ? ops::RowFunction::softmax : ops::RowFunction::rmsnorm;
  p.rows = elements / columns;
  p.columns = columns;
  p.x = p.y = {dtype, columns};
  if (has_weight) p.weight_dtype = dtype;
  return p;
}

VectorKernel cosine_kernel(int repeats) {
  return {.name = fmt::format("cos_{}", repeats), .function = ChainOp::cos, .repeats = repeats};
}

Result<std::vector<VectorKernel>> select_kernels(std::vector<VectorKernel> kernels, const std::string& name) {
  std::vector<std::string> names;
  for (const VectorKernel& kernel : kernels)
    if (!contains(names, kernel.name)) names.push_back(kernel.name);
  if (!name.empty()) std::erase_if(kernels, [&](const VectorKernel& kernel) { return kernel.name != name; });
  if (!kernels.empty()) return kernels;
  const std::string last = std::move(names.back());
  names.pop_back();
  return input_error(fmt::format("no kernel is called '{}'", name),
                     fmt::format("{} or {}", fmt::join(names, ", "), last));
}

Result<double> check_kernel(const VectorKernel& kernel, const KernelCheck& check) {
  const std::int64_t row = std::max<std::int64_t>(kernel.columns, 1);
  const std::int64_t count = std::max(check.interval / row, std::int64_t{1}) * row;
  // Smaller f16 values have fewer bits; a sum with cancellation is compared relative to its terms.
  double min_scale = std::max(check.min_scale, kernel.dtype == DType::f16 ? 0x1p-14 : 1e-30);
  if (kernel.is_affine && kernel.function == ChainOp::load) min_scale = std::max(min_scale, 0.2);
  double max_error = 0;
  for (int interval = 0; interval < check.intervals; ++interval) {
    const std::int64_t first = (check.elements - count) / row * interval / (check.intervals - 1) * row;
    RIDGE_TRY(expected, reference_values(kernel, check, first, count));
    RIDGE_TRY(found, check.read_values(kernel.array_count() - 1, first, count));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double error = std::abs(found[i] - expected[i]) / std::max(std::abs(expected[i]), min_scale);
      if (!(error <= kernel.allowed_error()))
        return Error{.kind = ErrorKind::mismatch,
                     .message = fmt::format("{} {} is wrong at element {}: found {:.9g}, expected {:.9g}", kernel.name,
                                            dtype_name(kernel.dtype), first + static_cast<std::int64_t>(i), found[i],
                                            expected[i])};
      max_error = std::max(max_error, error);
    }
  }
  return max_error;
}

}  // namespace ridge

// Compares random row functions, their gradients, and sums along and across rows with f64: on a CPU in rows_random, on
// a device in `matmul_gpu rows`. Cases have 1 to 262,144 columns, f32, bf16 and f16, odd strides and offsets, means of
// 30,000, elements of 1e-30 to 3e36, a row with a NaN, and masked rows. Bytes between rows must not change.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ridge/base/float16.h"
#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/ops/rows/cpu.h"

namespace ridge::random_rows {

using ops::ReduceFunction, ops::RowFunction, ops::RowProblem;

constexpr const char* row_function_names[] = {"softmax",
                                              "rmsnorm",
                                              "layernorm",
                                              "log_sum_exp",
                                              "softmax_gradient",
                                              "rmsnorm_gradient",
                                              "layernorm_gradient",
                                              "product_across",
                                              "rmsnorm_weight_gradient",
                                              "layernorm_weight_gradient"};
constexpr const char* reduce_names[] = {"sum", "mean", "max", "min"};
constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};

// Array of stored elements whose first element is `off` elements after a 16-byte boundary.
class Elements {
 public:
  Elements(DType dtype, std::int64_t count, std::int64_t off)
      : dtype_(dtype), off_(off), bytes_(static_cast<std::size_t>((count + off) * 4), untouched_byte) {}
  void set(std::int64_t i, float x) {
    if (dtype_ == DType::f32)
      as<float>()[i + off_] = x;
    else if (dtype_ == DType::bf16)
      as<Bf16>()[i + off_] = to_bf16(x);
    else
      as<F16>()[i + off_] = to_f16(x);
  }
  double get(std::int64_t i) const {
    if (dtype_ == DType::f32) return as<float>()[i + off_];
    return dtype_ == DType::bf16 ? to_float(as<Bf16>()[i + off_]) : to_float(as<F16>()[i + off_]);
  }
  bool is_untouched(std::int64_t i) const {
    return std::all_of(bytes_.begin() + (i + off_) * size(), bytes_.begin() + (i + off_ + 1) * size(),
                       [](char byte) { return byte == untouched_byte; });
  }
  std::vector<char>& bytes() { return bytes_; }
  std::int64_t off_bytes() const { return off_ * size(); }

 private:
  static constexpr char untouched_byte = '\x7b';
  template <class T> T* as() { return reinterpret_cast<T*>(bytes_.data()); }
  template <class T> const T* as() const { return reinterpret_cast<const T*>(bytes_.data()); }
  std::int64_t size() const { return dtype_bits(dtype_) / 8; }
  DType dtype_;
  std::int64_t off_;
  std::vector<char> bytes_;
};

// A row function, or, if `sum` is set, a reduction of the same rows along or across.
struct Case {
  RowProblem p;
  std::optional<ops::ReduceProblem> sum = {};
  bool sums_across = false, weighted = false;
  std::int64_t x_off = 0, y_off = 0, nan_row = -1;
  float mean = 0, size = 1;

  bool is_across() const { return sum ? sums_across : ops::reduces_across_rows(p.function); }
  bool is_scalar_per_row() const { return sum ? !is_across() : ops::is_row_scalar(p.function); }
};
struct Data {
  Elements x, y, weight, dy;
};

inline std::string text(const Case& c) {
  const auto of = [](DType dtype) { return std::string(dtype_name(dtype)) + " "; };
  const char* const what =
      c.sum ? reduce_names[static_cast<int>(c.sum->function)] : row_function_names[static_cast<int>(c.p.function)];
  return what + std::string(c.sum && c.is_across() ? " across" : "") + " of " + std::to_string(c.p.rows) + " x " +
         std::to_string(c.p.columns) + ", " + of(c.p.x.dtype) + of(c.p.y.dtype) +
         (c.weighted ? "weight " + of(c.p.weight_dtype) : "") + "strides " + std::to_string(c.p.x.row_stride) + " " +
         std::to_string(c.p.y.row_stride) + " off " + std::to_string(c.x_off) + " " + std::to_string(c.y_off) +
         " mean " + std::to_string(c.mean) + " size " + std::to_string(c.size) + " NaN in " + std::to_string(c.nan_row);
}

// `any_size` includes rows of a norm's gradient whose squares overflow f32.
inline Case random_case(std::mt19937& random, bool any_size) {
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  Case c;
  RowProblem& p = c.p;
  constexpr std::int64_t of_rows = std::size(ops::row_functions);
  const std::int64_t family = below(of_rows + 2);  // row functions, and sums along and across rows
  if (family < of_rows) p.function = ops::row_functions[family];
  const bool is_sum = family >= of_rows;
  const bool gradient = !is_sum && is_gradient(p.function);
  const std::int64_t most = std::int64_t{1} << below(19);  // some exceed a cluster's registers
  p.columns = below(2) == 0 ? 1 + below(most) : std::max<std::int64_t>(most / 16 * (1 + below(16)), 1);
  if (gradient) p.columns = std::max<std::int64_t>(p.columns, 8);  // fewer columns cancel almost completely
  p.rows = 1 + below(std::min<std::int64_t>((std::int64_t{1} << 18) / p.columns + 3, 700));
  const bool plain = below(2) == 0;
  const auto gap = [&] { return plain ? 0 : below(9); };
  p.x = {dtypes[below(3)], p.columns + gap()};
  p.y = {dtypes[below(3)], p.columns + gap()};
  p.weight_dtype = dtypes[below(3)];
  if (gradient) {
    if (!ops::reduces_across_rows(p.function)) p.y.dtype = p.x.dtype;
    p.dy = {p.x.dtype, p.columns + gap()};
  }
  if (is_sum) {
    const ops::ReduceAxis down{p.rows, p.x.row_stride, 1}, along{p.columns, 1, 1};
    c.sum = ops::ReduceProblem{static_cast<ReduceFunction>(below(4)), p.x.dtype, p.y.dtype, {down}, {along}};
    c.sums_across = family == of_rows + 1;
    if (c.sums_across) std::swap(c.sum->kept, c.sum->reduced);
  }
  c.weighted = !is_sum && has_weight(p.function) && below(3) != 0;
  c.x_off = plain ? 0 : below(4);
  c.y_off = plain ? 0 : below(4);
  if (below(4) == 0) c.nan_row = below(p.rows);
  const bool f32 = p.x.dtype == DType::f32;
  const float means[] = {1, 30, 100, 30000}, sizes[] = {1e-18F, 1e-30F, 1e18F, 3e36F};
  const bool takes_means = !is_sum && p.function != RowFunction::rmsnorm && p.function != RowFunction::softmax_gradient;
  if (f32 && takes_means && below(2) == 0) c.mean = means[below(p.function == RowFunction::rmsnorm_gradient ? 3 : 4)];
  if (f32 && !is_sum && is_norm(p.function) && (any_size || !gradient) && below(4) == 0) {
    c.mean = 0;
    c.size = sizes[below(4)];
    p.epsilon = 0;
  }
  if (c.is_scalar_per_row()) p.y.row_stride = 1;
  if (c.is_across()) p.y.row_stride = 0;
  return c;
}

inline Data random_data(const Case& c, std::mt19937& random) {
  const RowProblem& p = c.p;
  Data d{{p.x.dtype, p.rows * p.x.row_stride, c.x_off},
         {p.y.dtype, c.is_across() ? p.columns + 1 : p.rows * p.y.row_stride + 1, c.y_off},
         {p.weight_dtype, p.columns, 0},
         {p.dy.dtype, p.rows * p.dy.row_stride, c.x_off}};
  std::normal_distribution<float> normal(0, 1);
  const bool shares = !c.sum && p.function == RowFunction::softmax_gradient;  // x is the result of a softmax
  for (std::int64_t i = 0; i < p.rows * p.x.row_stride; ++i)
    d.x.set(i, shares ? std::exp(normal(random)) / static_cast<float>(p.columns) : normal(random) * c.size + c.mean);
  for (std::int64_t i = 0; i < p.columns; ++i) d.weight.set(i, normal(random));
  for (std::int64_t i = 0; i < p.rows * p.dy.row_stride; ++i) d.dy.set(i, normal(random));
  if (c.nan_row >= 0) d.x.set(c.nan_row * p.x.row_stride + p.columns / 2, NAN);
  return d;
}

// Returns the expected results of a row; for a sum across rows, the row's elements.
inline std::vector<double> expected_row(const Case& c, const Data& d, std::int64_t row) {
  const RowProblem& p = c.p;
  ops::RowInputs v;
  for (std::int64_t i = 0; i < p.columns; ++i) {
    v.x.push_back(d.x.get(row * p.x.row_stride + i));
    v.weight.push_back(c.weighted ? d.weight.get(i) : 1);
    if (is_gradient(p.function)) v.dy.push_back(d.dy.get(row * p.dy.row_stride + i));
  }
  if (!c.sum) return ops::evaluate_in_f64(p, v);
  if (c.is_across()) return v.x;
  double all = v.x[0];
  for (std::size_t i = 1; i < v.x.size(); ++i) all = ops::combine_values(c.sum->function, all, v.x[i]);
  if (c.sum->function == ReduceFunction::mean) all /= static_cast<double>(p.columns);
  return {all};
}

// Returns the error of an element divided by the allowed error.
inline double error_ratio(const Case& c, double got, double expected, double term_magnitude) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got) ? 0 : INFINITY;
  if (std::abs(expected) > 65504 && c.p.y.dtype == DType::f16) return 0;
  double unit = c.p.y.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  // Adding 131,072 numbers of few bits in f32 rounds in the same direction many times.
  if (c.p.y.dtype == DType::f32) unit = 4e-6 * std::max(1.0, static_cast<double>(c.p.columns) / 65536);
  const double least = c.p.y.dtype == DType::f16 ? 0x1p-24 : 1e-30;
  return std::abs(got - expected) / (1.05 * unit * std::abs(expected) + 2e-6 * term_magnitude + least);
}

// Checks a sum across rows for all columns.
inline double max_error_ratio_across(const Case& c, const Data& d) {
  const auto columns = static_cast<std::size_t>(c.p.columns);
  std::vector<double> all, term_magnitude(columns);
  for (std::int64_t r = 0; r < c.p.rows; ++r) {
    const std::vector<double> row = expected_row(c, d, r);
    double length = 0;
    for (const double each : row) length += each * each / static_cast<double>(columns);
    for (std::size_t i = 0; i < columns; ++i) {
      if (r == 0) all.push_back(row[i]);
      if (r > 0) all[i] = ops::combine_values(c.sum ? c.sum->function : ReduceFunction::sum, all[i], row[i]);
      term_magnitude[i] += std::abs(row[i]) + (c.sum ? 0 : std::sqrt(length));
    }
  }
  double worst = d.y.is_untouched(c.p.columns) ? 0 : INFINITY;
  const bool is_mean = c.sum && c.sum->function == ReduceFunction::mean;
  for (std::size_t i = 0; i < columns; ++i) {
    const double divisor = is_mean ? static_cast<double>(c.p.rows) : 1;
    worst = std::max(
        worst, error_ratio(c, d.y.get(static_cast<std::int64_t>(i)), all[i] / divisor, term_magnitude[i] / divisor));
  }
  return worst;
}

// Returns the largest error divided by the allowed error, or infinity if a NaN affected another row or bytes between
// rows were written.
inline double max_error_ratio(const Case& c, const Data& d, std::string& where) {
  if (c.is_across()) return max_error_ratio_across(c, d);
  const RowProblem& p = c.p;
  const std::int64_t columns = c.is_scalar_per_row() ? 1 : p.columns;
  double worst = 0, max_weight = 1;
  for (std::int64_t i = 0; c.weighted && i < p.columns; ++i)
    max_weight = std::max(max_weight, std::abs(d.weight.get(i)));
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const std::vector<double> want = expected_row(c, d, r);
    // The error of a difference or sum with cancellation is relative to its terms.
    double largest = 0, sum = 0, most = 0;
    for (std::int64_t i = 0; i < p.columns; ++i) {
      const double x = d.x.get(r * p.x.row_stride + i);
      sum += std::abs(x * (is_gradient(p.function) ? d.dy.get(r * p.dy.row_stride + i) : 1));
      most = std::max(most, std::abs(x));
    }
    if (c.sum) largest = c.sum->function == ReduceFunction::mean ? sum / static_cast<double>(p.columns) : sum;
    // Up to a mean of 64 deviations layernorm adds x itself in f32; a logarithm near 0 is a difference.
    if (p.function == RowFunction::layernorm) largest = std::min(std::abs(c.mean), 64.0F) / 4 * max_weight;
    if (p.function == RowFunction::log_sum_exp) largest = most;
    if (p.function == RowFunction::softmax_gradient) largest = most * sum / 32;
    if (!c.sum && p.function >= RowFunction::layernorm)
      for (const double each : want) largest = std::max(largest, std::abs(each));
    for (std::int64_t i = 0; i < columns; ++i) {
      const double expected = r == c.nan_row ? NAN : want[static_cast<std::size_t>(i)];
      const double got = d.y.get(r * p.y.row_stride + i), times = error_ratio(c, got, expected, largest);
      if (times > worst || (worst == 0 && times > 0))
        where = " at row " + std::to_string(r) + ", column " + std::to_string(i) + ": expected " +
                std::to_string(expected) + ", found " + std::to_string(got);
      worst = std::max(worst, times);
    }
    for (std::int64_t i = columns; i < (r + 1 < p.rows ? p.y.row_stride : columns + 1); ++i)
      if (!d.y.is_untouched(r * p.y.row_stride + i)) return INFINITY;
  }
  return worst;
}

// `argv` has the number of cases and a seed. `run` writes y into a case's data or returns an error; `refuse`
// returns why a case is unsupported. Returns the exit code.
struct Runner {
  bool any_size = false;
  std::function<Reason(const Case&)> refuse;
  std::function<Status(const Case&, Data&)> run;
};
inline int check(int argc, char** argv, const Runner& runner) {
  const int cases = argc > 0 ? std::atoi(argv[0]) : 200, seed = argc > 1 ? std::atoi(argv[1]) : 1;
  std::mt19937 random(static_cast<unsigned>(seed));
  double worst = 0;
  int wrong = 0, refused = 0;
  for (int i = 0; i < cases; ++i) {
    const Case c = random_case(random, runner.any_size);
    if (runner.refuse(c)) {
      ++refused;
      continue;
    }
    Data data = random_data(c, random);
    if (const Status ran = runner.run(c, data); !ran) {
      std::fprintf(stderr, "%s: %s\n", text(c).c_str(), ran.error().message.c_str());
      return 2;
    }
    std::string where;
    const double times = max_error_ratio(c, data, where);
    worst = std::max(worst, times);
    if (!(times <= 1) && ++wrong <= 5)
      std::fprintf(stderr, "%s: %g of the allowed error%s\n", text(c).c_str(), times, where.c_str());
  }
  std::printf("rows: %d cases from seed %d, %d refused, %d wrong, at most %.2f of the allowed error\n", cases, seed,
              refused, wrong, worst);
  return wrong == 0 ? 0 : 1;
}

}  // namespace ridge::random_rows

// Reference implementation of kernels on rows (tile/rows.h): in double precision, one row and one pass at a time. Tests
// compare the other targets with the reference.
#pragma once

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ridge/base/float16.h"
#include "ridge/tile/rows.h"

namespace ridge::tile {

namespace {

// Returns e^x. Other targets may multiply all values by a common factor.
template <class Y> double scaled_exp(double x) { return std::exp(x); }
inline double log_of_scaled_exps(double sum) { return std::log(sum); }

}  // namespace

namespace value {

template <class T> double as_double(T x) {
  if constexpr (std::is_arithmetic_v<T>)
    return x;
  else
    return to_float(x);
}

struct ReferenceRow {
  using DoubleRow = std::vector<double>;
  Index row, columns;
  DoubleRow saved;  // row saved by `save_row`

  template <class T, int which> DoubleRow load(const RowsView<T, which>& view) const {
    return read_row(view.data + row * view.row_stride);
  }
  template <class T> DoubleRow load(const ColumnsView<T>& view) const { return read_row(view.data); }
  void map(DoubleRow& x, const auto& f, const auto&... others) const {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = f(x[i], value_at(others, i)...);
  }
  void save_row(const DoubleRow& x) { saved = x; }
  DoubleRow saved_row() const { return saved; }
  template <class Kind, class Finalize = Identity>
  PassResult<Kind, DoubleRow, Finalize> reduce(const DoubleRow& x, Kind, Finalize = {}) const {
    return {x};
  }
  template <class Kind> PassResult<Kind, DoubleRow, Identity> reduce_columns(const DoubleRow& x, Kind) const {
    return {x};
  }
  void store(const NumbersOut<double>& view, double x) const { view.data[row * view.row_stride] = x; }
  void store(const RowsOut<double>& view, const DoubleRow& x) const {
    for (Index i = 0; i < columns; ++i) view.data[row * view.row_stride + i] = x[i];
  }

 private:
  template <class T> DoubleRow read_row(const T* from) const {
    DoubleRow out;
    for (Index i = 0; i < columns; ++i) out.push_back(as_double(from[i]));
    return out;
  }
  static double value_at(double x, std::size_t) { return x; }
  static double value_at(const DoubleRow& x, std::size_t i) { return x[i]; }
};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double initial_value(Add) { return 0; }
constexpr double initial_value(Max) { return -infinity; }
constexpr double initial_value(MaxOrNan) { return -infinity; }
constexpr double initial_value(MinOrNan) { return infinity; }
template <class Kind> double reduce_row(Kind kind, const std::vector<double>& row) {
  double all = initial_value(kind);
  for (const double x : row) all = combine_values(kind, all, x);
  return all;
}
inline double reduce_row(SumOfSquares, const std::vector<double>& row) {
  double sum = 0;
  for (const double x : row) sum += x * x;
  return sum;
}

// Runs a pass. The pass receives NaN for numbers that it does not need, so that a wrong `needs` makes results NaN.
template <class Kernel> auto run_pass(ReferenceRow& at, const typename Kernel::Globals& g, auto... numbers) {
  constexpr std::size_t needed = needed_numbers<Kernel>(sizeof...(numbers));
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return Kernel::pass(at, g, (i < needed ? numbers : std::numeric_limits<double>::quiet_NaN())...);
  }
  (std::make_index_sequence<sizeof...(numbers)>{});
}
// Runs the remaining passes of a row; `numbers` are the results of the earlier passes.
template <class Kernel> auto run_passes(ReferenceRow& at, const typename Kernel::Globals& g, auto... numbers) {
  if constexpr (sizeof...(numbers) + 1 == Kernel::passes) {
    return run_pass<Kernel>(at, g, numbers...);
  } else {
    const auto next = run_pass<Kernel>(at, g, numbers...);
    using PassOutput = std::decay_t<decltype(next)>;
    return run_passes<Kernel>(at, g, numbers...,
                              typename PassOutput::Finalize{}(reduce_row(typename PassOutput::Kind{}, next.of), g));
  }
}
template <class Kernel> void run_rows(const typename Kernel::Globals& g, Index rows, Index columns) {
  for (Index row = 0; row < rows; ++row) {
    ReferenceRow at{row, columns, {}};
    if constexpr (is_column_reduction<Kernel>) {
      const auto last = run_passes<Kernel>(at, g);
      using LastResult = std::decay_t<decltype(last)>;
      for (std::size_t i = 0; i < last.of.size(); ++i) {
        const typename LastResult::Kind kind{};
        double& all = g.y.data[i];
        all = combine_values(kind, row == 0 ? initial_value(kind) : all, last.of[i]);
      }
    } else {
      run_passes<Kernel>(at, g);
    }
  }
}

}  // namespace value
}  // namespace ridge::tile

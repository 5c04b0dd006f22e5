// Reference implementation of kernels on rows (tile/rows.h): in double precision, one row and one pass at a time. It
// has no schedule that could be wrong, so tests compare the other targets with it.
#pragma once

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ridge/base/float16.h"
#include "ridge/tile/rows.h"

namespace ridge::tile {

namespace {

// Returns e^x. Another target may return e^x times a common factor.
template <class Y> double power_of(double x) { return std::exp(x); }
inline double log_of_powers(double sum) { return std::log(sum); }

}  // namespace

namespace value {

template <class T> double as_double(T x) {
  if constexpr (std::is_arithmetic_v<T>)
    return x;
  else
    return to_float(x);
}

struct RowAt {
  using Row = std::vector<double>;
  Index row, columns;
  Row held;  // the row that `save_row` has saved

  template <class T, int which> Row load(const RowsView<T, which>& view) const {
    return read(view.data + row * view.row_stride);
  }
  template <class T> Row load(const ColumnsView<T>& view) const { return read(view.data); }
  void map(Row& x, const auto& f, const auto&... others) const {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = f(x[i], beside(others, i)...);
  }
  void keep(const Row& x) { held = x; }
  Row kept() const { return held; }
  template <class Kind, class Leaves = AsJoined>
  Reduction<Kind, Row, Leaves> reduce(const Row& x, Kind, Leaves = {}) const {
    return {x};
  }
  template <class Kind> Reduction<Kind, Row, AsJoined> across(const Row& x, Kind) const { return {x}; }
  void store(const NumbersOut<double>& view, double x) const { view.data[row * view.row_stride] = x; }
  void store(const RowsOut<double>& view, const Row& x) const {
    for (Index i = 0; i < columns; ++i) view.data[row * view.row_stride + i] = x[static_cast<std::size_t>(i)];
  }

 private:
  template <class T> Row read(const T* from) const {
    Row out;
    for (Index i = 0; i < columns; ++i) out.push_back(as_double(from[i]));
    return out;
  }
  static double beside(double x, std::size_t) { return x; }
  static double beside(const Row& x, std::size_t i) { return x[i]; }
};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double begin(Add) { return 0; }
constexpr double begin(Max) { return -infinity; }
constexpr double begin(Largest) { return -infinity; }
constexpr double begin(Least) { return infinity; }
template <class Kind> double join(Kind kind, const std::vector<double>& row) {
  double all = begin(kind);
  for (const double x : row) all = joined(kind, all, x);
  return all;
}
inline double join(Squares, const std::vector<double>& row) {
  double sum = 0;
  for (const double x : row) sum += x * x;
  return sum;
}

// Runs a pass. It receives NaN for the numbers that it does not need, so that a wrong `needs` shows in the results.
template <class Kernel> auto pass_of(RowAt& at, const typename Kernel::Globals& g, auto... left) {
  constexpr std::size_t needed = needs_of<Kernel>(sizeof...(left));
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return Kernel::pass(at, g, (i < needed ? left : std::numeric_limits<double>::quiet_NaN())...);
  }
  (std::make_index_sequence<sizeof...(left)>{});
}
// Runs the remaining passes of a row; `numbers` are the results of the earlier ones.
template <class Kernel> auto go_through(RowAt& at, const typename Kernel::Globals& g, auto... left) {
  if constexpr (sizeof...(left) + 1 == Kernel::passes) {
    return pass_of<Kernel>(at, g, left...);
  } else {
    const auto next = pass_of<Kernel>(at, g, left...);
    using Next = std::decay_t<decltype(next)>;
    return go_through<Kernel>(at, g, left..., typename Next::Leaves{}(join(typename Next::Kind{}, next.of), g));
  }
}
template <class Kernel> void run_rows(const typename Kernel::Globals& g, Index rows, Index columns) {
  for (Index row = 0; row < rows; ++row) {
    RowAt at{row, columns, {}};
    if constexpr (goes_across<Kernel>) {
      const auto last = go_through<Kernel>(at, g);
      using Last = std::decay_t<decltype(last)>;
      for (std::size_t i = 0; i < last.of.size(); ++i) {
        const typename Last::Kind kind{};
        double& all = g.y.data[i];
        all = joined(kind, row == 0 ? begin(kind) : all, last.of[i]);
      }
    } else {
      go_through<Kernel>(at, g);
    }
  }
}

}  // namespace value
}  // namespace ridge::tile

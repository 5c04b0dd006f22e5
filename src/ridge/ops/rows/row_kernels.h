// Kernels of row functions (tile/rows.h). X, W and Y are the formats of x, the weight of each column, and y.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#include "ridge/tile/cuda/rows.h"
#else
#include "ridge/tile/cpu/row_reductions.h"
#include "ridge/tile/cpu/rows.h"
#include "ridge/tile/reference/rows.h"
#endif

namespace ridge::ops {

// y = e^(x - maximum) / sum. A NaN, +inf, or a row of only -inf (0/0) makes the row NaN.
template <class X, class Y> struct Softmax {
  static constexpr int passes = 3;
  static constexpr bool is_compute_heavy = true;
  using Stored = tile::RowFormats<X, Y>;
  struct Globals {
    tile::RowsView<X> x;
    tile::RowsOut<Y> y;
  };

  TILE_FN static auto pass(auto& at, const Globals& g) { return at.reduce(at.load(g.x), tile::Max{}); }
  TILE_FN static auto pass(auto& at, const Globals& g, auto maximum) {
    auto e = at.load(g.x);
    at.map(
        e, [](auto x, auto row_maximum) { return tile::scaled_exp<Y>(x - row_maximum); }, maximum);
    at.save_row(e);
    return at.reduce(e, tile::Add{}, [](auto sum, const Globals&) { return 1 / sum; });
  }
  TILE_FN static void pass(auto& at, const Globals& g, auto, auto scale) {
    auto e = at.saved_row();
    at.map(
        e, [](auto power, auto factor) { return power * factor; }, scale);
    at.store(g.y, e);
  }
};

// log(sum of e^x), one number per row. Rows of only -inf, or with +inf, give NaN.
template <class X, class Y> struct LogSumExp {
  static constexpr int passes = 3;
  static constexpr bool is_compute_heavy = true;
  using Stored = tile::RowFormats<X>;
  struct Globals {
    tile::RowsView<X> x;
    tile::NumbersOut<Y> y;
  };

  TILE_FN static auto pass(auto& at, const Globals& g) { return at.reduce(at.load(g.x), tile::Max{}); }
  TILE_FN static auto pass(auto& at, const Globals& g, auto maximum) {
    auto e = at.load(g.x);
    at.map(
        e, [](auto x, auto row_maximum) { return tile::scaled_exp<float>(x - row_maximum); }, maximum);
    return at.reduce(e, tile::Add{});
  }
  TILE_FN static void pass(auto& at, const Globals& g, auto maximum, auto sum) {
    at.store(g.y, maximum + tile::log_of_scaled_exps(sum));
  }
};

// Reduces each row to one number, times `sum_scale`, which turns a sum into a mean.
template <class X, class Y, class Reduction> struct RowReductionKernel {
  static constexpr int passes = 2;
  static constexpr bool is_compute_heavy = false;
  using Stored = tile::RowFormats<X>;
  struct Globals {
    tile::RowsView<X> x;
    tile::NumbersOut<Y> y;
    double sum_scale = 1;
  };

  TILE_FN static auto pass(auto& at, const Globals& g) {
    return at.reduce(at.load(g.x), Reduction{}, [](auto all, const Globals& in) { return all * in.sum_scale; });
  }
  TILE_FN static void pass(auto& at, const Globals& g, auto all) { at.store(g.y, all); }
};

// Reduces each column over all rows.
template <class X, class Y, class Reduction> struct ColumnReductionKernel {
  static constexpr int passes = 1;
  static constexpr bool is_compute_heavy = false;
  using Stored = tile::RowFormats<X>;
  struct Globals {
    tile::RowsView<X> x;
    tile::ColumnsOut<Y> y;
  };

  TILE_FN static auto pass(auto& at, const Globals& g) { return at.reduce_columns(at.load(g.x), Reduction{}); }
};

// Norms derive the mean and the scale from sums of a row. `g` has `sum_scale` = 1 / columns, and epsilon.
struct ScaleToMean {
  TILE_FN auto operator()(auto sum, const auto& g) const { return sum * g.sum_scale; }
};
struct InverseRms {
  TILE_FN auto operator()(auto squares, const auto& g) const {
    return 1 / std::sqrt(squares * g.sum_scale + g.epsilon);
  }
};

// Base of the norms. Squares of 1e20 overflow f32, squares of 1e-25 underflow. `is_inaccurate` is true for such rows,
// and for rows whose mean is so much larger than the deviations that rounding matters. They are computed again after
// division by their largest element.
template <class X, class W, class Y> struct NormBase {
  static constexpr bool is_compute_heavy = false;
  using Stored = tile::RowFormats<X, W, Y>;
  struct Globals {
    tile::RowsView<X> x;
    tile::ColumnsView<W> weight;
    tile::RowsOut<Y> y;
    typename tile::NumberType<X>::type sum_scale = 1;  // 1 / columns
    float epsilon = 0;
  };
  TILE_FN static bool is_inaccurate(float scale) { return !(scale > 0 && scale < 1e15F); }
  TILE_FN static bool is_inaccurate(float mean, float scale) {
    return is_inaccurate(scale) || !(std::abs(mean) * scale < 64);
  }
  TILE_FN static auto rescaled_globals(const Globals& g, tile::RowsView<float> x, float unit) {
    return typename NormBase<float, W, Y>::Globals{x, g.weight, g.y, g.sum_scale, g.epsilon / unit / unit};
  }
};

// y = x / sqrt(mean of squares + epsilon) * weight
template <class X, class W, class Y> struct Rmsnorm : NormBase<X, W, Y> {
  static constexpr int passes = 2;
  static constexpr bool is_centered = false;
  using Globals = typename NormBase<X, W, Y>::Globals;
  using Rescaled = Rmsnorm<float, W, Y>;

  TILE_FN static auto pass(auto& at, const Globals& g) {
    return at.reduce(at.load(g.x), tile::SumOfSquares{}, InverseRms{});
  }
  TILE_FN static void pass(auto& at, const Globals& g, auto scale) {
    auto x = at.load(g.x);
    at.map(
        x, [](auto each, auto factor, auto weight) { return each * factor * weight; }, scale, at.load(g.weight));
    at.store(g.y, x);
  }
};

// y = (x - mean) / sqrt(variance + epsilon) * weight
template <class X, class W, class Y> struct Layernorm : NormBase<X, W, Y> {
  static constexpr int passes = 3;
  static constexpr bool is_centered = true;
  using Globals = typename NormBase<X, W, Y>::Globals;
  using Rescaled = Layernorm<float, W, Y>;

  TILE_FN static auto pass(auto& at, const Globals& g) { return at.reduce(at.load(g.x), tile::Add{}, ScaleToMean{}); }
  TILE_FN static auto pass(auto& at, const Globals& g, auto mean) {
    auto x = at.load(g.x);
    at.map(
        x, [](auto each, auto center) { return each - center; }, mean);
    return at.reduce(x, tile::SumOfSquares{}, InverseRms{});
  }
  TILE_FN static void pass(auto& at, const Globals& g, auto mean, auto scale) {
    auto x = at.load(g.x);
    at.map(
        x, [](auto each, auto center, auto factor, auto weight) { return (each - center) * factor * weight; }, mean,
        scale, at.load(g.weight));
    at.store(g.y, x);
  }
};

}  // namespace ridge::ops

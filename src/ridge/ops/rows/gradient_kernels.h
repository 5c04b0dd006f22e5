// Row kernels of gradients of the row functions (row_kernels.h), given dy, the gradient of the result. Gradients are
// with respect to x, or to the weight, which sums across rows.
#pragma once

#include "ridge/ops/rows/row_kernels.h"

namespace ridge::ops {

// x is the softmax's result: dx = x * (dy - sum of x * dy)
template <class X, class Y> struct SoftmaxGradient {
  static constexpr int passes = 2;
  static constexpr bool is_compute_heavy = false;
  using Stored = tile::RowFormats<X, Y>;
  struct Globals {
    tile::RowsView<X> x;
    tile::RowsView<X, 1> dy;
    tile::RowsOut<Y> y;
  };

  TILE_FN static auto pass(auto& at, const Globals& g) {
    auto e = at.load(g.x);
    at.map(
        e, [](auto probability, auto each) { return probability * each; }, at.load(g.dy));
    return at.reduce(e, tile::Add{});
  }
  TILE_FN static void pass(auto& at, const Globals& g, auto mean) {
    auto e = at.load(g.x);
    at.map(
        e, [](auto probability, auto each, auto center) { return probability * (each - center); }, at.load(g.dy), mean);
    at.store(g.y, e);
  }
};

// Base of the norms' gradients. If `is_inaccurate` is true for a row, targets that can do so compute it again in f64.
template <class X, class W, class Y> struct NormGradient {
  static constexpr bool is_compute_heavy = false;
  using Stored = tile::RowFormats<X, W, Y>;
  struct Globals {
    tile::RowsView<X> x;
    tile::RowsView<X, 1> dy;
    tile::ColumnsView<W> weight;
    tile::RowsOut<Y> y;
    typename tile::NumberType<X>::type sum_scale = 1;  // 1 / columns
    float epsilon = 0;
  };
  TILE_FN static auto weighted_dy(auto& at, const Globals& g) {
    auto e = at.load(g.dy);
    at.map(
        e, [](auto each, auto weight) { return each * weight; }, at.load(g.weight));
    return e;
  }
};

// With s = 1 / sqrt(mean of squares + epsilon): dx = s * (dy * weight - x * s^2 * mean of dy * weight * x)
template <class X, class W, class Y> struct RmsnormGradient : NormGradient<X, W, Y> {
  static constexpr int passes = 3;
  TILE_FN static constexpr int needed_results(int pass) { return pass == 2 ? 2 : 0; }
  using Base = NormGradient<X, W, Y>;
  using Globals = typename Base::Globals;

  TILE_FN static auto pass(auto& at, const Globals& g) {
    return at.reduce(at.load(g.x), tile::SumOfSquares{}, InverseRms{});
  }
  TILE_FN static auto pass(auto& at, const Globals& g, auto) {
    auto e = Base::weighted_dy(at, g);
    at.map(
        e, [](auto each, auto x) { return each * x; }, at.load(g.x));
    return at.reduce(e, tile::Add{}, ScaleToMean{});
  }
  TILE_FN static void pass(auto& at, const Globals& g, auto scale, auto mean) {
    auto e = Base::weighted_dy(at, g);
    at.map(
        e, [](auto each, auto x, auto s, auto center) { return s * (each - x * (center * s * s)); }, at.load(g.x),
        scale, mean);
    at.store(g.y, e);
  }
  TILE_FN static bool is_inaccurate(float scale, float mean) {
    return !(scale > 0 && scale < 1e15F && std::abs(mean) < 1e15F);
  }
};

// Common passes of layernorm's gradients: the mean, the mean of the rounding error in x - mean, and the scale. The
// second mean keeps precision if the mean is much larger than the deviations from it.
struct CenteredPasses {
  TILE_FN static auto pass(auto& at, const auto& g) { return at.reduce(at.load(g.x), tile::Add{}, ScaleToMean{}); }
  TILE_FN static auto pass(auto& at, const auto& g, auto mean) {
    auto e = at.load(g.x);
    at.map(
        e, [](auto x, auto center) { return x - center; }, mean);
    return at.reduce(e, tile::Add{}, ScaleToMean{});
  }
  TILE_FN static auto pass(auto& at, const auto& g, auto mean, auto residual_mean) {
    auto e = at.load(g.x);
    at.map(
        e, [](auto x, auto center, auto residual) { return x - center - residual; }, mean, residual_mean);
    return at.reduce(e, tile::SumOfSquares{}, InverseRms{});
  }
};

// Like `RmsnormGradient`, for x - mean; it also subtracts the mean of dy * weight.
template <class X, class W, class Y> struct LayernormGradient : NormGradient<X, W, Y>, CenteredPasses {
  static constexpr int passes = 6;
  // Number of earlier results that a pass needs. The mean of dy * weight needs none; the one of dy * weight * (x -
  // mean) needs only the first mean, since the last pass corrects the rest.
  TILE_FN static constexpr int needed_results(int pass) {
    if (pass == 3) return 0;
    return pass == 4 ? 1 : pass;
  }
  using Base = NormGradient<X, W, Y>;
  using Globals = typename Base::Globals;
  using CenteredPasses::pass;

  TILE_FN static auto pass(auto& at, const Globals& g, auto, auto, auto) {
    return at.reduce(Base::weighted_dy(at, g), tile::Add{}, ScaleToMean{});
  }
  TILE_FN static auto pass(auto& at, const Globals& g, auto mean, auto, auto, auto) {
    auto e = Base::weighted_dy(at, g);
    at.map(
        e, [](auto each, auto x, auto center) { return each * (x - center); }, at.load(g.x), mean);
    return at.reduce(e, tile::Add{}, ScaleToMean{});
  }
  TILE_FN static void pass(auto& at, const Globals& g, auto mean, auto residual_mean, auto scale, auto mean_dy,
                           auto mean_along) {
    auto e = Base::weighted_dy(at, g);
    at.map(
        e,
        [](auto each, auto x, auto center, auto residual, auto s, auto mean_value, auto slope_value) {
          const auto factor = (slope_value - residual * mean_value) * s * s *
                              s;  // This and the last term are the same for all elements.
          return s * each - (x - center) * factor + (residual * factor - s * mean_value);
        },
        at.load(g.x), mean, residual_mean, scale, mean_dy, mean_along);
    at.store(g.y, e);
  }
  TILE_FN static bool is_inaccurate(float, float, float scale, float mean_dy, float mean_along) {
    return !(scale > 0 && scale < 1e15F && std::abs(mean_dy) + std::abs(mean_along) < 1e15F);
  }
};

// Gradients with respect to a weight: the sum across rows of dy times the factor of the weight.
template <class X, class Y> struct WeightGradient {
  static constexpr bool is_compute_heavy = false;
  using Stored = tile::RowFormats<X>;
  struct Globals {
    tile::RowsView<X> x;
    tile::RowsView<X, 1> dy;
    tile::ColumnsOut<Y> y;
    typename tile::NumberType<X>::type sum_scale = 1;  // 1 / columns
    float epsilon = 0;
  };
  TILE_FN static bool is_inaccurate(float scale) { return !(scale > 0 && scale < 1e15F); }
};

// The factor of the weight is x.
template <class X, class Y> struct ProductSumAcrossRows : WeightGradient<X, Y> {
  static constexpr int passes = 1;
  using Globals = typename WeightGradient<X, Y>::Globals;

  TILE_FN static auto pass(auto& at, const Globals& g) {
    auto e = at.load(g.dy);
    at.map(
        e, [](auto each, auto x) { return each * x; }, at.load(g.x));
    return at.reduce_columns(e, tile::Add{});
  }
};

// The factor of the weight is x / sqrt(mean of squares + epsilon).
template <class X, class Y> struct RmsnormWeightGradient : WeightGradient<X, Y> {
  static constexpr int passes = 2;
  using Globals = typename WeightGradient<X, Y>::Globals;

  TILE_FN static auto pass(auto& at, const Globals& g) {
    return at.reduce(at.load(g.x), tile::SumOfSquares{}, InverseRms{});
  }
  TILE_FN static auto pass(auto& at, const Globals& g, auto scale) {
    auto e = at.load(g.dy);
    at.map(
        e, [](auto each, auto x, auto factor) { return each * (x * factor); }, at.load(g.x), scale);
    return at.reduce_columns(e, tile::Add{});
  }
};

// Like `RmsnormWeightGradient`, for x - mean.
template <class X, class Y> struct LayernormWeightGradient : WeightGradient<X, Y>, CenteredPasses {
  static constexpr int passes = 4;
  using Base = WeightGradient<X, Y>;
  using Globals = typename Base::Globals;
  using CenteredPasses::pass;

  TILE_FN static auto pass(auto& at, const Globals& g, auto mean, auto residual_mean, auto scale) {
    auto e = at.load(g.dy);
    at.map(
        e,
        [](auto each, auto x, auto center, auto residual, auto factor) {
          return each * ((x - center - residual) * factor);
        },
        at.load(g.x), mean, residual_mean, scale);
    return at.reduce_columns(e, tile::Add{});
  }
  TILE_FN static bool is_inaccurate(float, float, float scale) { return Base::is_inaccurate(scale); }
};

}  // namespace ridge::ops

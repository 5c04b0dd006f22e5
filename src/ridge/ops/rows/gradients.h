// Row kernels of gradients of the row functions (row_kernels.h), given dy, the gradient of the result. Gradients are
// with respect to x, or to the weight, which sums across rows.
#pragma once

#include "ridge/ops/rows/texts.h"

namespace ridge::ops {

// x is the softmax's result: dx = x * (dy - sum of x * dy)
template <class X, class Y> struct SoftmaxGradient {
  static constexpr int passes = 2;
  static constexpr bool computes = false;
  using Stored = tile::Formats<X, Y>;
  struct Globals {
    tile::RowsView<X> x;
    tile::RowsView<X, 1> dy;
    tile::RowsOut<Y> y;
  };

  TILE_FN static auto pass(auto& at, const Globals& g) {
    auto e = at.load(g.x);
    at.map(
        e, [](auto share, auto each) { return share * each; }, at.load(g.dy));
    return at.reduce(e, tile::Add{});
  }
  TILE_FN static void pass(auto& at, const Globals& g, auto mean) {
    auto e = at.load(g.x);
    at.map(
        e, [](auto share, auto each, auto middle) { return share * (each - middle); }, at.load(g.dy), mean);
    at.store(g.y, e);
  }
};

// Common part of the norms' gradients. Targets that can recompute a row `in_doubt` do so in f64.
template <class X, class W, class Y> struct NormGradient {
  static constexpr bool computes = false;
  using Stored = tile::Formats<X, W, Y>;
  struct Globals {
    tile::RowsView<X> x;
    tile::RowsView<X, 1> dy;
    tile::ColumnsView<W> weight;
    tile::RowsOut<Y> y;
    typename tile::NumberOf<X>::type share = 1;  // 1 / columns
    float epsilon = 0;
  };
  TILE_FN static auto weighted(auto& at, const Globals& g) {
    auto e = at.load(g.dy);
    at.map(
        e, [](auto each, auto weight) { return each * weight; }, at.load(g.weight));
    return e;
  }
};

// With s = 1 / sqrt(mean of squares + epsilon): dx = s * (dy * weight - x * s^2 * mean of dy * weight * x)
template <class X, class W, class Y> struct RmsnormGradient : NormGradient<X, W, Y> {
  static constexpr int passes = 3;
  TILE_FN static constexpr int needs(int pass) { return pass == 2 ? 2 : 0; }
  using Base = NormGradient<X, W, Y>;
  using Globals = typename Base::Globals;

  TILE_FN static auto pass(auto& at, const Globals& g) { return at.reduce(at.load(g.x), tile::Squares{}, Scale{}); }
  TILE_FN static auto pass(auto& at, const Globals& g, auto) {
    auto e = Base::weighted(at, g);
    at.map(
        e, [](auto each, auto x) { return each * x; }, at.load(g.x));
    return at.reduce(e, tile::Add{}, Mean{});
  }
  TILE_FN static void pass(auto& at, const Globals& g, auto scale, auto mean) {
    auto e = Base::weighted(at, g);
    at.map(
        e, [](auto each, auto x, auto s, auto middle) { return s * (each - x * (middle * s * s)); }, at.load(g.x),
        scale, mean);
    at.store(g.y, e);
  }
  TILE_FN static bool in_doubt(float scale, float mean) {
    return !(scale > 0 && scale < 1e15F && std::abs(mean) < 1e15F);
  }
};

// Common passes of layernorm's gradients: the mean, the mean of the rounding error in x - mean, and the scale. The
// second mean keeps precision if the mean is much larger than the deviations from it.
struct Centred {
  TILE_FN static auto pass(auto& at, const auto& g) { return at.reduce(at.load(g.x), tile::Add{}, Mean{}); }
  TILE_FN static auto pass(auto& at, const auto& g, auto mean) {
    auto e = at.load(g.x);
    at.map(
        e, [](auto x, auto middle) { return x - middle; }, mean);
    return at.reduce(e, tile::Add{}, Mean{});
  }
  TILE_FN static auto pass(auto& at, const auto& g, auto mean, auto rest) {
    auto e = at.load(g.x);
    at.map(
        e, [](auto x, auto middle, auto less) { return x - middle - less; }, mean, rest);
    return at.reduce(e, tile::Squares{}, Scale{});
  }
};

// Like `RmsnormGradient`, for x - mean; it also subtracts the mean of dy * weight.
template <class X, class W, class Y> struct LayernormGradient : NormGradient<X, W, Y>, Centred {
  static constexpr int passes = 6;
  // Number of earlier results that a pass needs. The mean of dy * weight needs none; the one of dy * weight * (x -
  // mean) needs only the first mean, since the last pass corrects the rest.
  TILE_FN static constexpr int needs(int pass) {
    if (pass == 3) return 0;
    return pass == 4 ? 1 : pass;
  }
  using Base = NormGradient<X, W, Y>;
  using Globals = typename Base::Globals;
  using Centred::pass;

  TILE_FN static auto pass(auto& at, const Globals& g, auto, auto, auto) {
    return at.reduce(Base::weighted(at, g), tile::Add{}, Mean{});
  }
  TILE_FN static auto pass(auto& at, const Globals& g, auto mean, auto, auto, auto) {
    auto e = Base::weighted(at, g);
    at.map(
        e, [](auto each, auto x, auto middle) { return each * (x - middle); }, at.load(g.x), mean);
    return at.reduce(e, tile::Add{}, Mean{});
  }
  TILE_FN static void pass(auto& at, const Globals& g, auto mean, auto rest, auto scale, auto all, auto along) {
    auto e = Base::weighted(at, g);
    at.map(
        e,
        [](auto each, auto x, auto middle, auto less, auto s, auto level, auto slope) {
          const auto by = (slope - less * level) * s * s * s;  // The same for all elements, as the last term below.
          return s * each - (x - middle) * by + (less * by - s * level);
        },
        at.load(g.x), mean, rest, scale, all, along);
    at.store(g.y, e);
  }
  TILE_FN static bool in_doubt(float, float, float scale, float all, float along) {
    return !(scale > 0 && scale < 1e15F && std::abs(all) + std::abs(along) < 1e15F);
  }
};

// Gradients with respect to a weight: the sum across rows of dy times the factor of the weight.
template <class X, class Y> struct WeightGradient {
  static constexpr bool computes = false;
  using Stored = tile::Formats<X>;
  struct Globals {
    tile::RowsView<X> x;
    tile::RowsView<X, 1> dy;
    tile::ColumnsOut<Y> y;
    typename tile::NumberOf<X>::type share = 1;  // 1 / columns
    float epsilon = 0;
  };
  TILE_FN static bool in_doubt(float scale) { return !(scale > 0 && scale < 1e15F); }
};

// The factor of the weight is x.
template <class X, class Y> struct ProductAcross : WeightGradient<X, Y> {
  static constexpr int passes = 1;
  using Globals = typename WeightGradient<X, Y>::Globals;

  TILE_FN static auto pass(auto& at, const Globals& g) {
    auto e = at.load(g.dy);
    at.map(
        e, [](auto each, auto x) { return each * x; }, at.load(g.x));
    return at.across(e, tile::Add{});
  }
};

// The factor of the weight is x / sqrt(mean of squares + epsilon).
template <class X, class Y> struct RmsnormWeightGradient : WeightGradient<X, Y> {
  static constexpr int passes = 2;
  using Globals = typename WeightGradient<X, Y>::Globals;

  TILE_FN static auto pass(auto& at, const Globals& g) { return at.reduce(at.load(g.x), tile::Squares{}, Scale{}); }
  TILE_FN static auto pass(auto& at, const Globals& g, auto scale) {
    auto e = at.load(g.dy);
    at.map(
        e, [](auto each, auto x, auto by) { return each * (x * by); }, at.load(g.x), scale);
    return at.across(e, tile::Add{});
  }
};

// Like `RmsnormWeightGradient`, for x - mean.
template <class X, class Y> struct LayernormWeightGradient : WeightGradient<X, Y>, Centred {
  static constexpr int passes = 4;
  using Base = WeightGradient<X, Y>;
  using Globals = typename Base::Globals;
  using Centred::pass;

  TILE_FN static auto pass(auto& at, const Globals& g, auto mean, auto rest, auto scale) {
    auto e = at.load(g.dy);
    at.map(
        e, [](auto each, auto x, auto middle, auto less, auto by) { return each * ((x - middle - less) * by); },
        at.load(g.x), mean, rest, scale);
    return at.across(e, tile::Add{});
  }
  TILE_FN static bool in_doubt(float, float, float scale) { return Base::in_doubt(scale); }
};

}  // namespace ridge::ops

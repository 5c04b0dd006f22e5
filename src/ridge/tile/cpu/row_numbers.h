// Runs a kernel that reduces each row to one number (tile/rows.h: NumbersOut) on a CPU. Rows are read sequentially.
// Blocks of 2048 elements are reduced in f32 and their results in f64, so a sum of any length has the error of a short
// one.
#pragma once

#include <cmath>

#include "ridge/tile/cpu/row_part.h"
#include "ridge/tile/cpu/row_steps.h"

namespace ridge::tile {

namespace {

// Returns the logarithm of a sum of `power_of` values, which have the factor 2^64.
[[gnu::always_inline]] inline float log_of_powers(float sum) {
  return static_cast<float>(std::log(static_cast<double>(sum)) - 64 * 0.69314718055994531);
}

}  // namespace

namespace cpu {
namespace {

constexpr Index joined_at_once = 2048;

template <class V> struct NumberAt {
  template <class Y> void store(const NumbersOut<Y>& view, float x) const {
    if constexpr (std::is_same_v<Y, float>)
      *view.data = x;
    else
      store_some(lit<V>(x), view.data, 1);
  }
};

// Returns the result of a pass over the row at which `g` begins, given the results of earlier passes.
template <class V, class Kernel, int pass>
float number_of(const typename Kernel::Globals& g, Index columns, const RowNumbers<Kernel::passes>& left) {
  using X = typename decltype(g.x)::type;
  using Step = RowStep<V, Kernel, pass, 1, 4, PrefetchFor<X>>;
  using Kind = typename LeftBy<Step>::Kind;
  double all = neutral<Kind>;
  typename Kernel::Globals part = g;
  for (Index from = 0; from < columns; from += joined_at_once, part.x.data += joined_at_once) {
    Step step({part, 0, {}, &left, false});
    over_row<V>(std::min(joined_at_once, columns - from), 0, Nothing<>{}, step, Nothing<>{});
    all = joined(Kind{}, all, static_cast<double>(step.template joined_row<0>()));
  }
  return static_cast<float>(typename LeftBy<Step>::Leaves{}(all, g));
}

// Runs all passes over the row at which `g` begins. `earlier`: results of the passes so far.
template <class V, class Kernel, class... Left>
void leave_number(const typename Kernel::Globals& g, Index columns, Left... left) {
  constexpr int pass = sizeof...(left);
  if constexpr (pass + 1 == Kernel::passes) {
    const NumberAt<V> at;
    Kernel::pass(at, g, left...);
  } else {
    leave_number<V, Kernel>(g, columns, left..., number_of<V, Kernel, pass>(g, columns, {left...}));
  }
}

}  // namespace
}  // namespace cpu
}  // namespace ridge::tile

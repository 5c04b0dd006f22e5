// Runs a kernel that reduces each row to one number (tile/rows.h: NumbersOut) on a CPU. Rows are read sequentially.
// Blocks of 2048 elements are reduced in f32 and their results in f64, so the error does not grow with the length.
#pragma once

#include <cmath>

#include "ridge/tile/cpu/row_part.h"
#include "ridge/tile/cpu/row_steps.h"

namespace ridge::tile {

namespace {

// Returns the logarithm of a sum of `scaled_exp` values, which have the factor 2^64.
[[gnu::always_inline]] inline float log_of_scaled_exps(float sum) {
  return static_cast<float>(std::log(static_cast<double>(sum)) - 64 * 0.69314718055994531);
}

}  // namespace

namespace cpu {
namespace {

constexpr Index f32_block_elements = 2048;

template <class V> struct NumberStore {
  template <class Y> void store(const NumbersOut<Y>& view, float x) const {
    if constexpr (std::is_same_v<Y, float>)
      *view.data = x;
    else
      store_partial(broadcast<V>(x), view.data, 1);
  }
};

// Returns the result of a pass over the row whose data begins at g.x, given the results of earlier passes.
template <class V, class Kernel, int pass>
float reduce_row(const typename Kernel::Globals& g, Index columns, const PassResults<Kernel::passes>& earlier) {
  using X = typename decltype(g.x)::type;
  using Step = RowStep<V, Kernel, pass, 1, 4, PrefetchFor<X>>;
  using Kind = typename PassReduction<Step>::Kind;
  double all = identity_value<Kind>;
  typename Kernel::Globals part = g;
  for (Index from = 0; from < columns; from += f32_block_elements, part.x.data += f32_block_elements) {
    Step step({part, 0, {}, &earlier, false});
    loop_over_row<V>(std::min(f32_block_elements, columns - from), 0, NoStep<>{}, step, NoStep<>{});
    all = combine_values(Kind{}, all, static_cast<double>(step.template reduced_row<0>()));
  }
  return static_cast<float>(typename PassReduction<Step>::Finalize{}(all, g));
}

// Runs the remaining passes over the row whose data begins at g.x. `earlier` are the results of the passes so far.
template <class V, class Kernel, class... Left>
void run_row_reduction(const typename Kernel::Globals& g, Index columns, Left... earlier) {
  constexpr int pass = sizeof...(earlier);
  if constexpr (pass + 1 == Kernel::passes) {
    const NumberStore<V> at;
    Kernel::pass(at, g, earlier...);
  } else {
    run_row_reduction<V, Kernel>(g, columns, earlier..., reduce_row<V, Kernel, pass>(g, columns, {earlier...}));
  }
}

}  // namespace
}  // namespace cpu
}  // namespace ridge::tile

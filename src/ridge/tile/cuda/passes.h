// Runs the passes of a row kernel (tile/rows.h). A `Row` passes elements to a pass: all elements of a lane together
// (rows.h), or one by one in a loop, which needs few registers. The loop serves rows that do not fit in registers, and
// rows that are rescaled to avoid overflow, which are rare.
#pragma once

#include "ridge/tile/cuda/lanes.h"
#include "ridge/tile/rows.h"

namespace ridge::tile {

template <class Y> TILE_FN float power_of(float x) { return ops::device_math::exp(x); }  // e^x
TILE_FN float log_of_powers(float sum) { return ops::device_math::log(sum); }

}  // namespace ridge::tile

namespace ridge::tile::cuda {

// Operator by which elements are reduced, and the function that is applied to each element before.
template <class Kind> struct ReductionOf {
  using Op = SumOp;
  RIDGE_FN static float map_element(float x) { return x; }
};
template <> struct ReductionOf<tile::Max> : ReductionOf<tile::Add> { using Op = MaxOp; };
template <> struct ReductionOf<tile::Squares> : ReductionOf<tile::Add> {
  RIDGE_FN static float map_element(float x) { return x * x; }
};

// The elements of a row that are processed together.
template <int n> struct RowElements {
  float of[n];
  RIDGE_FN float& operator[](int i) { return of[i]; }
  RIDGE_FN float operator[](int i) const { return of[i]; }
};

template <int n> RIDGE_FN float element_of(const RowElements<n>& x, int i) { return x[i]; }
RIDGE_FN float element_of(float x, int) { return x; }

// The argument `at` of a row kernel's pass: its loads, maps and reductions act on `n` elements of each of `rows` rows.
template <int n, int rows = 1> struct RowOperations {
  RowElements<n> x[rows];
  float weight = 1, number = 0;
  RowElements<n> y{}, kept_{};

  template <int which> RIDGE_FN RowElements<n> load(const tile::RowsView<float, which>&) const { return x[which]; }
  RIDGE_FN float load(const tile::ColumnsView<float>&) const { return weight; }
  template <class F, class... Others> RIDGE_FN void map(RowElements<n>& e, const F& f, const Others&... others) const {
#pragma unroll
    for (int i = 0; i < n; ++i) e[i] = f(e[i], element_of(others, i)...);
  }
  RIDGE_FN void save_row(const RowElements<n>& e) { kept_ = e; }
  RIDGE_FN RowElements<n> saved_row() const { return kept_; }
  template <class Kind, class Finalize = tile::Identity>
  RIDGE_FN tile::PassResult<Kind, RowElements<n>, Finalize> reduce(RowElements<n> e, Kind, Finalize = {}) const {
#pragma unroll
    for (int i = 0; i < n; ++i) e[i] = ReductionOf<Kind>::map_element(e[i]);
    return {e};
  }
  template <class Kind>
  RIDGE_FN tile::PassResult<Kind, RowElements<n>, tile::Identity> reduce_columns(const RowElements<n>& e, Kind) {
    y = e;  // a generated kernel adds it to the column sums
    return {e};
  }
  RIDGE_FN void store(const tile::RowsOut<float>&, const RowElements<n>& e) { y = e; }
  RIDGE_FN void store(const tile::NumbersOut<float>&, float x) { number = x; }
};
// Runs the second of three passes again for an element, so that the last pass can read what it saved.
template <class Text, class At, class... Rest>
RIDGE_FN void rerun_first_pass(At& at, const typename Text::Globals& g, float first, Rest...) {
  if constexpr (sizeof...(Rest) == 1) Text::pass(at, g, first);
}

template <class Text> constexpr bool has_rescaling = requires { &Text::in_units; };

// Runs a pass with the numbers of the earlier passes.
template <class Text, int pass, class At, class... PassNumbers>
RIDGE_FN auto run_pass(At& at, const typename Text::Globals& g, const float* numbers, PassNumbers... numbers_before) {
  if constexpr (sizeof...(numbers_before) == pass)
    return Text::pass(at, g, numbers_before...);
  else
    return run_pass<Text, pass>(at, g, numbers, numbers_before..., numbers[sizeof...(numbers_before)]);
}
template <class Text, int pass, class At> using OutputOf = decltype(run_pass<Text, pass>(
    *static_cast<At*>(nullptr), *static_cast<const typename Text::Globals*>(nullptr), nullptr));
template <class Text, int pass, class At> using OpOf =
    typename ReductionOf<typename OutputOf<Text, pass, At>::Kind>::Op;
template <class Text, int pass, class At> using FinalizeOf = typename OutputOf<Text, pass, At>::Finalize;

// List of the passes that are reduced in the same round.
template <int...> struct PassList {};
template <class Text, int round, int from, int... found> RIDGE_FN constexpr auto passes_in_round(PassList<found...>) {
  if constexpr (from + 1 == Text::passes)
    return PassList<found...>{};
  else if constexpr (tile::reduction_round<Text>(from) == round)
    return passes_in_round<Text, round, from + 1>(PassList<found..., from>{});
  else
    return passes_in_round<Text, round, from + 1>(PassList<found...>{});
}

template <class Text, int slot, bool may_rescale, class Row, class... PassNumbers>
RIDGE_FN void run_last_pass(Row& row, const typename Text::Globals& g, const float* numbers,
                            PassNumbers... numbers_before) {
  if constexpr (sizeof...(numbers_before) + 1 < Text::passes) {
    run_last_pass<Text, slot, may_rescale>(row, g, numbers, numbers_before..., numbers[sizeof...(numbers_before)]);
  } else {
    if constexpr (may_rescale && has_rescaling<Text>)
      if (row.any_lane(Text::in_doubt(numbers_before...)))
        return row.template in_units<Text, slot + Text::passes - 1>(g);
    row.each_element([&](auto& at) { return Text::pass(at, g, numbers_before...); },
                     [&](auto& at) { rerun_first_pass<Text>(at, g, numbers_before...); });
  }
}
template <class Text, int slot, int round, class Row>
RIDGE_FN void run_rounds(Row& row, const typename Text::Globals& g, float* numbers) {
  if constexpr (round < tile::reduction_round<Text>(Text::passes - 1)) {
    row.template run_round<Text, slot>(passes_in_round<Text, round, 0>(PassList<>{}), g, numbers);
    run_rounds<Text, slot, round + 1>(row, g, numbers);
  }
}
// Runs all passes of a row. Numbers are exchanged through the buffers from `slot` on. `may_rescale` is false if the row
// is already rescaled.
template <class Text, int slot, bool may_rescale, class Row>
RIDGE_FN void run_passes(Row& row, const typename Text::Globals& g) {
  float numbers[Text::passes] = {};
  run_rounds<Text, slot, 0>(row, g, numbers);
  run_last_pass<Text, slot, may_rescale>(row, g, numbers);
}

// Returns the number of exchange buffers that a kernel needs; those of a rescaled row follow the others.
template <class Text> RIDGE_FN constexpr int exchange_slots() {
  if constexpr (has_rescaling<Text>) return 2 * (Text::passes - 1) + (Text::is_centered ? 2 : 1);
  return Text::passes - 1;
}

// Returns the largest power of two up to `largest`; multiplying by it and by its reciprocal does not round.
RIDGE_FN float power_of_two_below(float largest) {
  const u32 exponent = __float_as_uint(largest) & 0x7f800000u;
  return __uint_as_float(exponent == 0 ? 0x00800000u : exponent);
}

// A row whose elements are processed one by one. `Lane` gives access to the elements of a thread: `count()`; for each
// `is_inside` (of the row), `read`, `weight` and `write`; `at_once`, the number of elements to unroll by;
// `over_lanes<F, slot>(x)`, the reduction of all lanes' x; and `first<slot>()`, the first element of the row.
template <class Lane> struct LoopedRow {
  Lane& lane;
  RowOperations<1> at{};
  float part = 1, first = 0, inverse = 1;  // elements are rescaled to (x * part - first) * inverse

  template <class F> RIDGE_FN void for_each_element(const F& f) {
#pragma unroll Lane::at_once
    for (i64 i = 0; i < lane.count(); ++i) {
      if (!lane.is_inside(i)) continue;
      at.x[0][0] = (lane.read(i) * part - first) * inverse;
      at.weight = lane.weight(i);
      f(i);
    }
  }
  template <class Text, int slot, int... pass>
  RIDGE_FN void run_round(PassList<pass...>, const typename Text::Globals& g, float* numbers) {
    using At = RowOperations<1>;
    ((numbers[pass] = __uint_as_float(OpOf<Text, pass, At>::identity)), ...);
    for_each_element([&](i64) {
      ((numbers[pass] = OpOf<Text, pass, At>::of(numbers[pass], run_pass<Text, pass>(at, g, numbers).of[0])), ...);
    });
    ((numbers[pass] =
          FinalizeOf<Text, pass, At>{}(lane.template over_lanes<OpOf<Text, pass, At>, slot + pass>(numbers[pass]), g)),
     ...);
  }
  template <class Pass, class Before> RIDGE_FN void each_element(const Pass& pass, const Before& before) {
    for_each_element([&](i64 i) {
      before(at);
      pass(at);
      lane.write(i, at.y[0]);
    });
  }
  RIDGE_FN static bool any_lane(bool x) { return x; }
  // Runs the row divided by a power of two near its largest element; centred kernels first subtract the row's first
  // element. If that does not help (infinities, a row of zeros), the row is left unchanged.
  template <class Text, int slot> RIDGE_FN void in_units(const typename Text::Globals& g) {
    constexpr int extra_slots = Text::is_centered;
    if constexpr (Text::is_centered) {
      part = 0.5f;  // the difference of two floats may overflow
      first = lane.template first<slot>() * part;
    }
    float largest = 0;
    for_each_element([&](i64) { largest = max(largest, fabsf(at.x[0][0])); });
    largest = lane.template over_lanes<MaxOp, slot + extra_slots>(largest);
    const bool is_scaled = largest < __uint_as_float(0x7f800000u) && (largest != 0 || Text::is_centered);
    const float unit = largest == 0 || !is_scaled ? 1 : power_of_two_below(largest);
    if (!is_scaled) {
      part = 1;
      first = 0;
    }
    inverse = 1 / unit;
    run_passes<typename Text::Rescaled, slot + extra_slots + 1, false>(*this, Text::in_units(g, {}, unit / part));
  }
};

}  // namespace ridge::tile::cuda

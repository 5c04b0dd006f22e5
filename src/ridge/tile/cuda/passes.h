// Runs the passes of a row kernel (tile/rows.h). A `Row` calls a pass either once with all elements of a lane
// (RegisterRow, rows.h) or in a loop over single elements (LoopedRow), which needs few registers. The loop serves rows
// that do not fit in registers, and rows that must be rescaled to avoid overflow, which are rare.
#pragma once

#include "ridge/tile/cuda/lanes.h"
#include "ridge/tile/rows.h"

namespace ridge::tile {

template <class Y> TILE_FN float scaled_exp(float x) { return ops::device_math::exp(x); }  // e^x
TILE_FN float log_of_scaled_exps(float sum) { return ops::device_math::log(sum); }

}  // namespace ridge::tile

namespace ridge::tile::cuda {

// Operator that reduces elements, and the function that is applied to each element before the reduction.
template <class Kind> struct ReductionOf {
  using Op = SumOp;
  RIDGE_FN static float map_element(float x) { return x; }
};
template <> struct ReductionOf<tile::Max> : ReductionOf<tile::Add> { using Op = MaxOp; };
template <> struct ReductionOf<tile::SumOfSquares> : ReductionOf<tile::Add> {
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
  RowElements<n> y{}, saved_{};

  template <int which> RIDGE_FN RowElements<n> load(const tile::RowsView<float, which>&) const { return x[which]; }
  RIDGE_FN float load(const tile::ColumnsView<float>&) const { return weight; }
  template <class F, class... Others> RIDGE_FN void map(RowElements<n>& e, const F& f, const Others&... others) const {
#pragma unroll
    for (int i = 0; i < n; ++i) e[i] = f(e[i], element_of(others, i)...);
  }
  RIDGE_FN void save_row(const RowElements<n>& e) { saved_ = e; }
  RIDGE_FN RowElements<n> saved_row() const { return saved_; }
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
// If there are three passes, runs the second one again for an element, so that the last pass can read the saved value.
template <class Kernel, class At, class... Rest>
RIDGE_FN void rerun_second_pass(At& at, const typename Kernel::Globals& g, float first, Rest...) {
  if constexpr (sizeof...(Rest) == 1) Kernel::pass(at, g, first);
}

template <class Kernel> constexpr bool has_rescaling = requires { &Kernel::rescaled_globals; };

// Calls a pass with the numbers of the earlier passes as arguments.
template <class Kernel, int pass, class At, class... PassNumbers>
RIDGE_FN auto run_pass(At& at, const typename Kernel::Globals& g, const float* numbers, PassNumbers... numbers_before) {
  if constexpr (sizeof...(numbers_before) == pass)
    return Kernel::pass(at, g, numbers_before...);
  else
    return run_pass<Kernel, pass>(at, g, numbers, numbers_before..., numbers[sizeof...(numbers_before)]);
}
template <class Kernel, int pass, class At> using OutputOf = decltype(run_pass<Kernel, pass>(
    *static_cast<At*>(nullptr), *static_cast<const typename Kernel::Globals*>(nullptr), nullptr));
template <class Kernel, int pass, class At> using OpOf =
    typename ReductionOf<typename OutputOf<Kernel, pass, At>::Kind>::Op;
template <class Kernel, int pass, class At> using FinalizeOf = typename OutputOf<Kernel, pass, At>::Finalize;

// List of the passes that are reduced in the same round.
template <int...> struct PassList {};
template <class Kernel, int round, int from, int... found> RIDGE_FN constexpr auto passes_in_round(PassList<found...>) {
  if constexpr (from + 1 == Kernel::passes)
    return PassList<found...>{};
  else if constexpr (tile::reduction_round<Kernel>(from) == round)
    return passes_in_round<Kernel, round, from + 1>(PassList<found..., from>{});
  else
    return passes_in_round<Kernel, round, from + 1>(PassList<found...>{});
}

template <class Kernel, int slot, bool may_rescale, class Row, class... PassNumbers>
RIDGE_FN void run_last_pass(Row& row, const typename Kernel::Globals& g, const float* numbers,
                            PassNumbers... numbers_before) {
  if constexpr (sizeof...(numbers_before) + 1 < Kernel::passes) {
    run_last_pass<Kernel, slot, may_rescale>(row, g, numbers, numbers_before..., numbers[sizeof...(numbers_before)]);
  } else {
    if constexpr (may_rescale && has_rescaling<Kernel>)
      if (row.any_lane(Kernel::is_inaccurate(numbers_before...)))
        return row.template run_rescaled<Kernel, slot + Kernel::passes - 1>(g);
    row.each_element([&](auto& at) { return Kernel::pass(at, g, numbers_before...); },
                     [&](auto& at) { rerun_second_pass<Kernel>(at, g, numbers_before...); });
  }
}
template <class Kernel, int slot, int round, class Row>
RIDGE_FN void run_rounds(Row& row, const typename Kernel::Globals& g, float* numbers) {
  if constexpr (round < tile::reduction_round<Kernel>(Kernel::passes - 1)) {
    row.template run_round<Kernel, slot>(passes_in_round<Kernel, round, 0>(PassList<>{}), g, numbers);
    run_rounds<Kernel, slot, round + 1>(row, g, numbers);
  }
}
// Runs all passes of a row. Lanes exchange partial results through the exchange buffers from `slot` on. `may_rescale`
// is false if the row is already rescaled.
template <class Kernel, int slot, bool may_rescale, class Row>
RIDGE_FN void run_passes(Row& row, const typename Kernel::Globals& g) {
  float numbers[Kernel::passes] = {};
  run_rounds<Kernel, slot, 0>(row, g, numbers);
  run_last_pass<Kernel, slot, may_rescale>(row, g, numbers);
}

// Returns the number of exchange buffers that a kernel needs, including those of the rescaled kernel.
template <class Kernel> RIDGE_FN constexpr int exchange_slot_count() {
  if constexpr (has_rescaling<Kernel>) return 2 * (Kernel::passes - 1) + (Kernel::is_centered ? 2 : 1);
  return Kernel::passes - 1;
}

// Returns the largest power of two up to `largest`; multiplying by it and by its reciprocal does not round.
RIDGE_FN float power_of_two_below(float largest) {
  const u32 exponent = __float_as_uint(largest) & 0x7f800000u;
  return __uint_as_float(exponent == 0 ? 0x00800000u : exponent);
}

// A row whose elements are processed one by one. `Lane` gives access to the elements of a thread: their number
// `count()`; per element `is_inside` (the row), `read`, `weight` and `write`; `unroll_count`, the unroll factor of the
// loop; `reduce_all_lanes<F, slot>(x)`, the reduction of all lanes' x; and `first_element<slot>()`, the first element
// of the row.
template <class Lane> struct LoopedRow {
  Lane& lane;
  RowOperations<1> at{};
  float prescale = 1, offset = 0, scale = 1;  // elements are rescaled to (x * prescale - offset) * scale

  template <class F> RIDGE_FN void for_each_element(const F& f) {
#pragma unroll Lane::unroll_count
    for (i64 i = 0; i < lane.count(); ++i) {
      if (!lane.is_inside(i)) continue;
      at.x[0][0] = (lane.read(i) * prescale - offset) * scale;
      at.weight = lane.weight(i);
      f(i);
    }
  }
  template <class Kernel, int slot, int... pass>
  RIDGE_FN void run_round(PassList<pass...>, const typename Kernel::Globals& g, float* numbers) {
    using At = RowOperations<1>;
    ((numbers[pass] = __uint_as_float(OpOf<Kernel, pass, At>::identity)), ...);
    for_each_element([&](i64) {
      ((numbers[pass] = OpOf<Kernel, pass, At>::combine(numbers[pass], run_pass<Kernel, pass>(at, g, numbers).of[0])),
       ...);
    });
    ((numbers[pass] = FinalizeOf<Kernel, pass, At>{}(
          lane.template reduce_all_lanes<OpOf<Kernel, pass, At>, slot + pass>(numbers[pass]), g)),
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
  // Runs all passes on the row divided by a power of two near its largest element; centred kernels first subtract the
  // row's first element. Rows with infinities and rows of zeros are not changed.
  template <class Kernel, int slot> RIDGE_FN void run_rescaled(const typename Kernel::Globals& g) {
    constexpr int extra_slots = Kernel::is_centered;
    if constexpr (Kernel::is_centered) {
      prescale = 0.5f;  // the difference of two floats may overflow
      offset = lane.template first_element<slot>() * prescale;
    }
    float largest = 0;
    for_each_element([&](i64) { largest = max(largest, fabsf(at.x[0][0])); });
    largest = lane.template reduce_all_lanes<MaxOp, slot + extra_slots>(largest);
    const bool is_scaled = largest < __uint_as_float(0x7f800000u) && (largest != 0 || Kernel::is_centered);
    const float unit = largest == 0 || !is_scaled ? 1 : power_of_two_below(largest);
    if (!is_scaled) {
      prescale = 1;
      offset = 0;
    }
    scale = 1 / unit;
    run_passes<typename Kernel::Rescaled, slot + extra_slots + 1, false>(
        *this, Kernel::rescaled_globals(g, {}, unit / prescale));
  }
};

}  // namespace ridge::tile::cuda

// Runs the passes of a row kernel (tile/rows.h). A `Row` passes elements to a pass: all elements of a lane together
// (rows.h), or one by one in a loop, which needs few registers. The loop serves rows that do not fit in registers, and
// rows that are rescaled to avoid overflow, which are rare.
#pragma once

#include "ridge/tile/cuda/lanes.h"
#include "ridge/tile/rows.h"

namespace ridge::tile {

template <class Y> TILE_FN float power_of(float x) { return device::exp(x); }  // e^x
TILE_FN float log_of_powers(float sum) { return device::log(sum); }

}  // namespace ridge::tile

namespace ridge::device {

// Operator by which elements are reduced, and the function that is applied to each element before.
template <class Kind> struct Joins {
  using By = Sum;
  RIDGE_FN static float of_one(float x) { return x; }
};
template <> struct Joins<tile::Max> : Joins<tile::Add> { using By = Most; };
template <> struct Joins<tile::Squares> : Joins<tile::Add> {
  RIDGE_FN static float of_one(float x) { return x * x; }
};

// The elements of a row that are processed together.
template <int n> struct Part {
  float of[n];
  RIDGE_FN float& operator[](int i) { return of[i]; }
  RIDGE_FN float operator[](int i) const { return of[i]; }
};

template <int n> RIDGE_FN float beside(const Part<n>& x, int i) { return x[i]; }
RIDGE_FN float beside(float x, int) { return x; }

// Operations `at` of a pass on `n` elements of each of the kernel's `rows` input rows.
template <int n, int rows = 1> struct TextAt {
  Part<n> x[rows];
  float weight = 1, number = 0;
  Part<n> y{}, kept_{};

  template <int which> RIDGE_FN Part<n> load(const tile::RowsView<float, which>&) const { return x[which]; }
  RIDGE_FN float load(const tile::ColumnsView<float>&) const { return weight; }
  template <class F, class... Others> RIDGE_FN void map(Part<n>& e, const F& f, const Others&... others) const {
#pragma unroll
    for (int i = 0; i < n; ++i) e[i] = f(e[i], beside(others, i)...);
  }
  RIDGE_FN void keep(const Part<n>& e) { kept_ = e; }
  RIDGE_FN Part<n> kept() const { return kept_; }
  template <class Kind, class Leaves = tile::AsJoined>
  RIDGE_FN tile::Reduction<Kind, Part<n>, Leaves> reduce(Part<n> e, Kind, Leaves = {}) const {
#pragma unroll
    for (int i = 0; i < n; ++i) e[i] = Joins<Kind>::of_one(e[i]);
    return {e};
  }
  template <class Kind> RIDGE_FN tile::Reduction<Kind, Part<n>, tile::AsJoined> across(const Part<n>& e, Kind) {
    y = e;  // a generated kernel adds it to the column sums
    return {e};
  }
  RIDGE_FN void store(const tile::RowsOut<float>&, const Part<n>& e) { y = e; }
  RIDGE_FN void store(const tile::NumbersOut<float>&, float x) { number = x; }
};
// Runs the second of three passes again for an element, so that the last pass can read what it saved.
template <class Text, class At, class... Rest>
RIDGE_FN void remember(At& at, const typename Text::Globals& g, float first, Rest...) {
  if constexpr (sizeof...(Rest) == 1) Text::pass(at, g, first);
}

template <class Text> constexpr bool has_doubts = requires { &Text::in_units; };

// Runs a pass with the numbers of the earlier passes.
template <class Text, int pass, class At, class... Left>
RIDGE_FN auto at_pass(At& at, const typename Text::Globals& g, const float* numbers, Left... left) {
  if constexpr (sizeof...(left) == pass)
    return Text::pass(at, g, left...);
  else
    return at_pass<Text, pass>(at, g, numbers, left..., numbers[sizeof...(left)]);
}
template <class Text, int pass, class At> using Leaving = decltype(at_pass<Text, pass>(
    *static_cast<At*>(nullptr), *static_cast<const typename Text::Globals*>(nullptr), nullptr));
template <class Text, int pass, class At> using JoinedBy = typename Joins<typename Leaving<Text, pass, At>::Kind>::By;
template <class Text, int pass, class At> using LeftBy = typename Leaving<Text, pass, At>::Leaves;

// List of the passes that are reduced in the same round.
template <int...> struct Passes {};
template <class Text, int round, int from, int... found> RIDGE_FN constexpr auto passes_of(Passes<found...>) {
  if constexpr (from + 1 == Text::passes)
    return Passes<found...>{};
  else if constexpr (tile::round_of<Text>(from) == round)
    return passes_of<Text, round, from + 1>(Passes<found..., from>{});
  else
    return passes_of<Text, round, from + 1>(Passes<found...>{});
}

template <class Text, int slot, bool may_doubt, class Row, class... Left>
RIDGE_FN void go_last(Row& row, const typename Text::Globals& g, const float* numbers, Left... left) {
  if constexpr (sizeof...(left) + 1 < Text::passes) {
    go_last<Text, slot, may_doubt>(row, g, numbers, left..., numbers[sizeof...(left)]);
  } else {
    if constexpr (may_doubt && has_doubts<Text>)
      if (row.any(Text::in_doubt(left...))) return row.template in_units<Text, slot + Text::passes - 1>(g);
    row.each([&](auto& at) { return Text::pass(at, g, left...); }, [&](auto& at) { remember<Text>(at, g, left...); });
  }
}
template <class Text, int slot, int round, class Row>
RIDGE_FN void go_rounds(Row& row, const typename Text::Globals& g, float* numbers) {
  if constexpr (round < tile::round_of<Text>(Text::passes - 1)) {
    row.template leave<Text, slot>(passes_of<Text, round, 0>(Passes<>{}), g, numbers);
    go_rounds<Text, slot, round + 1>(row, g, numbers);
  }
}
// Runs all passes of a row. Numbers are exchanged through the buffers from `slot` on. `may_rescale` is false if the row
// is already rescaled.
template <class Text, int slot, bool may_doubt, class Row>
RIDGE_FN void go_through(Row& row, const typename Text::Globals& g) {
  float numbers[Text::passes] = {};
  go_rounds<Text, slot, 0>(row, g, numbers);
  go_last<Text, slot, may_doubt>(row, g, numbers);
}

// Returns the number of exchange buffers that a kernel needs; those of a rescaled row follow the others.
template <class Text> RIDGE_FN constexpr int slots_of() {
  if constexpr (has_doubts<Text>) return 2 * (Text::passes - 1) + (Text::is_centred ? 2 : 1);
  return Text::passes - 1;
}

// Returns the largest power of two up to `largest`; multiplying by it and by its reciprocal does not round.
RIDGE_FN float unit_of(float most) {
  const u32 exponent = __float_as_uint(most) & 0x7f800000u;
  return __uint_as_float(exponent == 0 ? 0x00800000u : exponent);
}

// A row whose elements are processed one by one. `Lane` gives access to the elements of a thread: `count()`; for each
// `is_inside` (of the row), `read`, `weight` and `write`; `at_once`, the number of elements to unroll by;
// `over_lanes<F, slot>(x)`, the reduction of all lanes' x; and `first<slot>()`, the first element of the row.
template <class Lane> struct LoopedRow {
  Lane& lane;
  TextAt<1> at{};
  float part = 1, first = 0, inverse = 1;  // elements are rescaled to (x * part - first) * inverse

  template <class F> RIDGE_FN void over_elements(const F& f) {
#pragma unroll Lane::at_once
    for (i64 i = 0; i < lane.count(); ++i) {
      if (!lane.inside(i)) continue;
      at.x[0][0] = (lane.read(i) * part - first) * inverse;
      at.weight = lane.weight(i);
      f(i);
    }
  }
  template <class Text, int slot, int... pass>
  RIDGE_FN void leave(Passes<pass...>, const typename Text::Globals& g, float* numbers) {
    using At = TextAt<1>;
    ((numbers[pass] = __uint_as_float(JoinedBy<Text, pass, At>::nothing)), ...);
    over_elements([&](i64) {
      ((numbers[pass] = JoinedBy<Text, pass, At>::of(numbers[pass], at_pass<Text, pass>(at, g, numbers).of[0])), ...);
    });
    ((numbers[pass] =
          LeftBy<Text, pass, At>{}(lane.template over<JoinedBy<Text, pass, At>, slot + pass>(numbers[pass]), g)),
     ...);
  }
  template <class Pass, class Before> RIDGE_FN void each(const Pass& pass, const Before& before) {
    over_elements([&](i64 i) {
      before(at);
      pass(at);
      lane.write(i, at.y[0]);
    });
  }
  RIDGE_FN static bool any(bool x) { return x; }
  // Runs the row divided by a power of two near its largest element; centred kernels first subtract the row's first
  // element. If that does not help (infinities, a row of zeros), the row is left unchanged.
  template <class Text, int slot> RIDGE_FN void in_units(const typename Text::Globals& g) {
    constexpr int more = Text::is_centred;
    if constexpr (Text::is_centred) {
      part = 0.5f;  // the difference of two floats may overflow
      first = lane.template first<slot>() * part;
    }
    float most = 0;
    over_elements([&](i64) { most = max(most, fabsf(at.x[0][0])); });
    most = lane.template over<Most, slot + more>(most);
    const bool helps = most < __uint_as_float(0x7f800000u) && (most != 0 || Text::is_centred);
    const float unit = most == 0 || !helps ? 1 : unit_of(most);
    if (!helps) {
      part = 1;
      first = 0;
    }
    inverse = 1 / unit;
    go_through<typename Text::InUnits, slot + more + 1, false>(*this, Text::in_units(g, {}, unit / part));
  }
};

}  // namespace ridge::device

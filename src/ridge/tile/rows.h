// Words of texts that work on rows, which do not see each other. A row is gone through in passes, each of which but the
// last leaves a number, and is given the numbers of those before it:
//
//   auto pass(auto& at, const Globals& g) { return at.reduce(at.load(g.x), Max{}); }
//   auto pass(auto& at, const Globals& g, auto most) {
//     auto e = at.load(g.x);
//     at.map(e, [](auto x, auto top) { return power_of<Y>(x - top); }, most);
//     at.keep(e);                                        // for the passes behind this one: at.kept()
//     return at.reduce(e, Add{}, [](auto sum, const Globals&) { return 1 / sum; });
//   }
//   void pass(auto& at, const Globals& g, auto most, auto scale) { … at.store(g.y, e); }
//
// `load` gives the part of a row that a target works on at once: two vectors on a CPU (tile/cpu/rows.h), what a lane
// holds of it on a CUDA device (tile/cuda/rows.h), all of it where there is no schedule (tile/value/rows.h). What
// `reduce` joins, from the row's first element to its last, becomes the number that the pass leaves. A text may say how
// many of the numbers before it a pass looks at, `static constexpr int needs(int pass)`; else it is all. A target may
// join what several passes leave at once, and gives those that do not look whatever it has.
#pragma once

#include "ridge/tile/joins.h"

namespace ridge::tile {

// Rows whose elements lie side by side, Globals' x and y; strides in elements. `which`: of several that a text loads.
template <class T, int which = 0> struct RowsView {
  using type = T;
  const T* data = nullptr;
  Index row_stride = 0;
};
template <class T> struct RowsOut {
  using type = T;
  T* data = nullptr;
  Index row_stride = 0;
};
// A number of each row, stored by a last pass that loads nothing; such texts are the reductions.
template <class T> struct NumbersOut {
  using type = T;
  T* data = nullptr;
  Index row_stride = 0;
};
// A number of each column: what a last pass says with `across` is joined from the first row to the last, each of which
// has gone through the passes before it.
template <class T> struct ColumnsOut {
  using type = T;
  T* data = nullptr;
};
template <class Y> constexpr bool is_number = false;
template <class T> constexpr bool is_number<NumbersOut<T>> = true;
template <class Text> constexpr bool leaves_number = is_number<decltype(Text::Globals::y)>;
template <class Y> constexpr bool is_column = false;
template <class T> constexpr bool is_column<ColumnsOut<T>> = true;
template <class Text> constexpr bool goes_across = is_column<decltype(Text::Globals::y)>;
// A number for each column, the same for all rows.
template <class T> struct ColumnsView {
  using type = T;
  const T* data = nullptr;
};

// What a pass leaves of a row, and the last one of each column: `of`, joined, as `Leaves` has it.
template <class Kind_, class Part, class Leaves_> struct Reduction {
  using Kind = Kind_;
  using Leaves = Leaves_;
  Part of;
};
struct AsJoined {
  TILE_FN auto operator()(auto joined, const auto&) const { return joined; }
};

struct Largest {};  // of Max a target may drop a NaN; of these it is the answer
struct Least {};

// What two parts of a row or a column join to; of squares, what has been squared.
template <class Real> TILE_FN Real joined(Add, Real a, Real b) { return a + b; }
template <class Real> TILE_FN Real joined(Squares, Real a, Real b) { return a + b; }
template <class Real> TILE_FN Real joined(Largest, Real a, Real b) { return b > a || b != b ? b : a; }
template <class Real> TILE_FN Real joined(Max, Real a, Real b) { return joined(Largest{}, a, b); }
template <class Real> TILE_FN Real joined(Least, Real a, Real b) { return b < a || b != b ? b : a; }

// In which numbers of a row come that are stored as T.
template <class T> struct NumberOf { using type = float; };
template <> struct NumberOf<double> { using type = double; };

// In which round a pass can leave its number, where those that do not need each other leave theirs at once.
template <class Text> TILE_FN constexpr int needs_of(int pass) {
  if constexpr (requires { Text::needs(pass); })
    return Text::needs(pass);
  else
    return pass;
}
template <class Text> TILE_FN constexpr int round_of(int pass) {
  int round = 0;
  for (int before = 0; before < needs_of<Text>(pass); ++before)
    if (round_of<Text>(before) >= round) round = round_of<Text>(before) + 1;
  return round;
}

// Formats in which a text's rows lie.
template <class... T> struct Formats {};

}  // namespace ridge::tile

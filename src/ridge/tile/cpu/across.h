// Runs a kernel that reduces over rows to one number per column (tile/rows.h: ColumnsOut) on a CPU. A batch of rows
// goes through all passes but the last, then through the last pass a few columns at a time: that reduces the batch in
// registers and combines the result in f64 with earlier rows. 4096 x 4096 elements are split into 64 parts with
// separate sums, whatever the number of threads. Included by one file for each instruction set.
#pragma once

#include "ridge/tile/cpu/row_numbers.h"

namespace ridge::tile::cpu {

namespace {

template <class V, class Kernel> class AcrossRunner {
 public:
  AcrossRunner(const typename Kernel::Globals& g, const AcrossPart& part) : g_(g), part_(part) {}

  void go() const {
    std::fill(part_.sums + part_.first, part_.sums + part_.last, double{neutral<Kind>});
    const Index together = last == 0 ? most_rows : std::clamp<Index>(held_floats / part_.columns, few_rows, most_rows);
    for (Index row = part_.begin; row < part_.end; row += together)
      batch(row, static_cast<int>(std::min(together, part_.end - row)));
  }

 private:
  static constexpr int last = Kernel::passes - 1;
  // Floats of the rows in a batch. More rows share each load and store of the f64 sums, which are twice as wide as a
  // row.
  static constexpr Index held_floats = 1 << 14, few_rows = 4;
  using Globals = typename Kernel::Globals;
  using Numbers = RowNumbers<Kernel::passes>;
  struct Step {  // the members that RowAt needs
    using Vector = V;
    using Ahead = NoPrefetch;
    static constexpr int rows = 1;
    static constexpr bool halves = false;
    const RowPlace<Kernel> place;
  };
  struct Rows {
    Index row[most_rows];
    Numbers numbers[most_rows];
    int count = 0;
  };

  template <int vectors>
  [[gnu::always_inline]] static auto call(const RowAt<Step, vectors>& at, const Numbers& numbers) {
    return [&]<int... p>(std::integer_sequence<int, p...>) __attribute__((always_inline)) {
      return Kernel::pass(at, at.step.place.g, RowPart<V, 1, 1>{{lit<V>(numbers.of[p])}}...);
    }
    (std::make_integer_sequence<int, last>{});
  }
  using Kind = typename decltype(call(std::declval<const RowAt<Step, 2>&>(), std::declval<const Numbers&>()))::Kind;

  void batch(Index from, int count) const {
    Rows rows;
    for (Index row = from; row < from + count; ++row) {
      Numbers& numbers = rows.numbers[rows.count];
      Globals of_row = g_;
      of_row.x.data += row * g_.x.row_stride;
      for_each<last>([&](auto pass) { numbers.of[pass] = number_of<V, Kernel, pass>(of_row, part_.columns, numbers); });
      if (in_doubt<Kernel>(numbers))
        part_.in_doubles(part_.of, row, part_.sums);
      else
        rows.row[rows.count++] = row;
    }
    Index i = part_.first;
    for (; i + 8 * V::lanes <= part_.last; i += 8 * V::lanes) columns<4>(rows, i);
    for (; i + 2 * V::lanes <= part_.last; i += 2 * V::lanes) columns<1>(rows, i);
    for (; i < part_.last; i += V::lanes) some(rows, i, static_cast<int>(std::min<Index>(V::lanes, part_.last - i)));
  }
  template <int pairs> void columns(const Rows& rows, Index from) const {
    V all[2 * pairs];
    for_each<2 * pairs>([&](auto j) { all[j] = lit<V>(neutral<Kind>); });
    for (int k = 0; k < rows.count; ++k) {
      const Step step{{g_, rows.row[k], {}, nullptr, false}};
      for_each<pairs>([&](auto j) {
        const auto x = call(RowAt<Step, 2>{step, from + 2 * j * V::lanes, 2 * V::lanes, 0}, rows.numbers[k]);
        all[2 * j] = join(Kind{}, all[2 * j], x.of.v[0]);
        all[2 * j + 1] = join(Kind{}, all[2 * j + 1], x.of.v[1]);
      });
    }
    for_each<2 * pairs>([&](auto j) { add(all[j], from + j * V::lanes, V::lanes); });
  }
  void some(const Rows& rows, Index from, int count) const {
    V all = lit<V>(neutral<Kind>);
    for (int k = 0; k < rows.count; ++k) {
      const Step step{{g_, rows.row[k], {}, nullptr, false}};
      all = join(Kind{}, all, call(RowAt<Step, 1>{step, from, count, 0}, rows.numbers[k]).of.v[0]);
    }
    add(all, from, count);
  }
  [[gnu::always_inline]] void add(V all, Index from, int count) const {
    alignas(64) float of[V::lanes];
    all.store(of);
    for (int i = 0; i < count; ++i)
      part_.sums[from + i] = joined(Kind{}, part_.sums[from + i], static_cast<double>(of[i]));
  }

  const Globals g_;
  const AcrossPart& part_;
};

// Reduces the rows of a part to `part.sums`, one per column.
template <class V, class Kernel> void run_across(const typename Kernel::Globals& g, const AcrossPart& part) {
  AcrossRunner<V, Kernel>(g, part).go();
}

}  // namespace
}  // namespace ridge::tile::cpu

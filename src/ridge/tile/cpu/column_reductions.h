// Runs a kernel that reduces over rows to one number per column (tile/rows.h: ColumnsOut) on a CPU. A batch of rows
// is processed by all passes but the last, and then by the last pass a few columns at a time, which reduces the batch
// in registers and combines the result in f64 with earlier rows. 4096 x 4096 elements are split into 64 parts with
// separate sums, whatever the number of threads. Included by one file for each instruction set.
#pragma once

#include "ridge/tile/cpu/row_reductions.h"

namespace ridge::tile::cpu {

namespace {

template <class V, class Kernel> class ColumnReducer {
 public:
  ColumnReducer(const typename Kernel::Globals& g, const ColumnReductionPart& part) : g_(g), part_(part) {}

  void run_thread_rows() const {
    std::fill(part_.sums + part_.first, part_.sums + part_.last, double{identity_value<Kind>});
    const Index rows_per_step =
        last_pass == 0 ? max_batch_rows : std::clamp<Index>(resident_floats / part_.columns, min_rows, max_batch_rows);
    for (Index row = part_.begin; row < part_.end; row += rows_per_step)
      reduce_batch(row, static_cast<int>(std::min(rows_per_step, part_.end - row)));
  }

 private:
  static constexpr int last_pass = Kernel::passes - 1;
  // Floats of the rows in a batch. More rows share each load and store of the f64 sums, which are twice as wide as a
  // row.
  static constexpr Index resident_floats = 1 << 14, min_rows = 4;
  using Globals = typename Kernel::Globals;
  using Numbers = PassResults<Kernel::passes>;
  struct Step {  // the members that PassOperations needs
    using Vector = V;
    using PrefetchPolicy = NoPrefetch;
    static constexpr int rows = 1;
    static constexpr bool even_odd = false;
    const RowPosition<Kernel> position;
  };
  struct RowBatch {
    Index row[max_batch_rows];
    Numbers numbers[max_batch_rows];
    int count = 0;
  };

  template <int vectors>
  [[gnu::always_inline]] static auto run_last_pass(const PassOperations<Step, vectors>& at, const Numbers& numbers) {
    return [&]<int... p>(std::integer_sequence<int, p...>) __attribute__((always_inline)) {
      return Kernel::pass(at, at.step.position.g, RowVectors<V, 1, 1>{{broadcast<V>(numbers.of[p])}}...);
    }
    (std::make_integer_sequence<int, last_pass>{});
  }
  using Kind = typename decltype(run_last_pass(std::declval<const PassOperations<Step, 2>&>(),
                                               std::declval<const Numbers&>()))::Kind;

  void reduce_batch(Index from, int count) const {
    RowBatch rows;
    for (Index row = from; row < from + count; ++row) {
      Numbers& numbers = rows.numbers[rows.count];
      Globals row_globals = g_;
      row_globals.x.data += row * g_.x.row_stride;
      for_each<last_pass>(
          [&](auto pass) { numbers.of[pass] = reduce_row<V, Kernel, pass>(row_globals, part_.columns, numbers); });
      if (is_inaccurate<Kernel>(numbers))
        part_.recompute_in_f64(part_.context, row, part_.sums);
      else
        rows.row[rows.count++] = row;
    }
    Index i = part_.first;
    for (; i + 8 * V::lanes <= part_.last; i += 8 * V::lanes) reduce_columns<4>(rows, i);
    for (; i + 2 * V::lanes <= part_.last; i += 2 * V::lanes) reduce_columns<1>(rows, i);
    for (; i < part_.last; i += V::lanes)
      reduce_tail(rows, i, static_cast<int>(std::min<Index>(V::lanes, part_.last - i)));
  }
  template <int pairs> void reduce_columns(const RowBatch& rows, Index from) const {
    V all[2 * pairs];
    for_each<2 * pairs>([&](auto j) { all[j] = broadcast<V>(identity_value<Kind>); });
    for (int k = 0; k < rows.count; ++k) {
      const Step step{{g_, rows.row[k], {}, nullptr, false}};
      for_each<pairs>([&](auto j) {
        const auto x =
            run_last_pass(PassOperations<Step, 2>{step, from + 2 * j * V::lanes, 2 * V::lanes, 0}, rows.numbers[k]);
        all[2 * j] = accumulate_lanes(Kind{}, all[2 * j], x.of.v[0]);
        all[2 * j + 1] = accumulate_lanes(Kind{}, all[2 * j + 1], x.of.v[1]);
      });
    }
    for_each<2 * pairs>([&](auto j) { merge_into_sums(all[j], from + j * V::lanes, V::lanes); });
  }
  void reduce_tail(const RowBatch& rows, Index from, int count) const {
    V all = broadcast<V>(identity_value<Kind>);
    for (int k = 0; k < rows.count; ++k) {
      const Step step{{g_, rows.row[k], {}, nullptr, false}};
      all = accumulate_lanes(Kind{}, all,
                             run_last_pass(PassOperations<Step, 1>{step, from, count, 0}, rows.numbers[k]).of.v[0]);
    }
    merge_into_sums(all, from, count);
  }
  [[gnu::always_inline]] void merge_into_sums(V all, Index from, int count) const {
    alignas(64) float of[V::lanes];
    all.store(of);
    for (int i = 0; i < count; ++i)
      part_.sums[from + i] = combine_values(Kind{}, part_.sums[from + i], static_cast<double>(of[i]));
  }

  const Globals g_;
  const ColumnReductionPart& part_;
};

// Reduces the rows of a part to `part.sums`, one per column.
template <class V, class Kernel>
void run_column_reduction(const typename Kernel::Globals& g, const ColumnReductionPart& part) {
  ColumnReducer<V, Kernel>(g, part).run_thread_rows();
}

}  // namespace
}  // namespace ridge::tile::cpu

// Runs a row kernel (tile/rows.h) on a CPU. A row is read from memory once; later passes find the row in the L1 or L2.
// To keep memory busy, one loop processes two or three rows concurrently: it writes the finished row, works on the next
// row and reads the row after that. The access pattern is that of a copy, which the hardware prefetcher serves well.
// (Skylake, one thread, rows of floats from memory, relative to a copy: rmsnorm 0.79 with one loop per pass and
// prefetch instructions, 1.00 with a single loop; softmax 0.72 and 0.91.) Kernels that compute much still prefetch
// (Emerald Rapids: softmax of f32 0.62 -> 0.86, rmsnorm of bf16 0.6 -> 0.9).
//
// If all rows fit in the L2, the latency of a row's result matters: the sum across lanes, root and division take some
// 70 cycles, during which a loop that needs the result stalls. So one pass processes a batch of rows before the next
// pass starts. In both cases the summation order depends only on the length of the row. Included by one file per
// instruction set.
#pragma once

#include <algorithm>

#include "ridge/pool/isa.h"
#include "ridge/tile/cpu/row_part.h"
#include "ridge/tile/cpu/row_steps.h"

namespace ridge::tile::cpu {

namespace {

// Runs the rows of `Kernel` with vectors V.
template <class V, class Kernel> class RowsRunner {
 public:
  RowsRunner(const typename Kernel::Globals& g, const ThreadRows& part) : g_(g), part_(part), n_(part.columns) {}

  // Chooses the pairs of vectors per row. An fma has a latency of four cycles and two start per cycle, so eight
  // vectors, of one row or two, saturate the units.
  void run_thread_rows() const {
    if (part_.begin == part_.end) return;
    if constexpr (last_pass == 0)
      run_one_pass();
    else if constexpr (Kernel::passes >= 3)
      run_thread_rows<2>();
    else
      rows_per_batch(n_) > 1 ? run_thread_rows<2>() : run_thread_rows<4>();
  }
  // Runs all passes on one row and skips the accuracy check.
  void run_single_row(Index row) const {
    Numbers numbers{};
    for_each<last_pass>([&](auto pass) { run_pass<pass, 1, 2>(row, 0, &numbers); });
    loop_over_row<V>(n_, unaligned_prefix(row), make_step<last_pass, 1, 2>(row, 0, &numbers, can_stream_row(row)),
                     NoStep<4>{}, NoStep<>{});
  }

 private:
  static constexpr int last_pass = Kernel::passes - 1;
  using Numbers = PassResults<Kernel::passes>;
  using Y = typename decltype(Kernel::Globals::y)::type;
  using X = typename decltype(Kernel::Globals::x)::type;
  template <int pass, int rows, int pairs, class Prefetch = NoPrefetch> using Step =
      RowStep<V, Kernel, pass, rows, pairs, Prefetch>;
  static constexpr bool even_odd = RowStep<V, Kernel, 0, 1, 2, NoPrefetch>::even_odd;
  // Without vector instructions arithmetic takes longer than memory access, and the loop over several rows gains
  // nothing.
  static constexpr bool can_pipeline_rows = V::has_even_odd;

  template <int pairs> void run_thread_rows() const {
    if constexpr (can_pipeline_rows)
      if (!part_.in_l2) return run_from_memory<pairs>();
    run_batches<pairs>();
  }
  template <int pairs> void run_batches() const {
    const Index rows_in_batch = std::max<Index>(rows_per_batch(n_), 1);
    for (Index r = part_.begin; r < part_.end; r += rows_in_batch)
      run_batch<pairs>(r, static_cast<int>(std::min(rows_in_batch, part_.end - r)));
  }
  template <int pairs> void run_from_memory() const {
    if constexpr (last_pass > 2)
      run_batches<pairs>();
    else if constexpr (Kernel::is_compute_heavy)
      run_pipelined<pairs, PrefetchL1>();
    else
      run_simple_rows<pairs>();
  }
  template <int pairs> void run_simple_rows() const {
    if constexpr (can_pair_long_rows<pairs>)
      if (n_ > l1_floats && part_.end - part_.begin > 1 &&
          offset_in_line(part_.begin) == offset_in_line(part_.begin + 1))
        return run_row_pairs<PrefetchFor<X>>();
    if (sizeof(X) == 2 || pool::needs_far_prefetch())
      run_pipelined<pairs, PrefetchFor<X>>();
    else
      run_pipelined<pairs, NoPrefetch>();
  }

  // Runs kernels with a single pass. Groups of reads and writes use memory better than single ones. With widening and
  // rounding a core has too few lines in flight, so the loop prefetches (Zen 3, relative to a copy: bf16 0.77 -> 0.85,
  // f16 0.83 -> 0.88).
  void run_one_pass() const {
    if (!part_.non_temporal)
      run_one_pass<NoPrefetch>();
    else if (pool::needs_far_prefetch())
      run_one_pass<PrefetchFor<X>>();
    else
      run_one_pass<std::conditional_t<sizeof(X) == 2, PrefetchNearL1, NoPrefetch>>();
  }
  template <class Prefetch> void run_one_pass() const {
    for (Index row = part_.begin; row < part_.end; ++row) {
      auto pass_step = this->template make_step<0, 1, 2, Prefetch>(row, 0, nullptr, can_stream_row(row));
      Index i = unaligned_prefix(row);
      pass_step.run_tail(0, i);
      for (; i + 4 * V::lanes <= n_; i += 4 * V::lanes) pass_step.run_two_pairs(i);
      pass_step.run_tail(i, n_);
    }
  }

  template <int pairs> void run_batch(Index from, int rows) const {
    Numbers numbers[max_batch_rows] = {};
    constexpr int rows_per_step = pairs == 2 ? 2 : 1;
    for_each<last_pass>([&](auto pass) {
      int k = 0;
      if constexpr (pass == 0)
        for (; k + rows_per_step <= rows; k += rows_per_step)
          run_pass<pass, rows_per_step, pairs>(from + k, k, numbers + k);
      for (; k < rows; ++k) run_pass<pass, 1, pairs>(from + k, k, numbers + k);
    });
    int k = 0;
    for (; k + rows_per_step <= rows; k += rows_per_step) {
      bool any_inaccurate = false;
      for (int i = 0; i < rows_per_step; ++i) any_inaccurate |= is_inaccurate<Kernel>(numbers[k + i]);
      if (any_inaccurate) break;
      loop_over_row<V>(n_, 0, make_step<last_pass, rows_per_step, pairs>(from + k, k, numbers + k, false), NoStep<>{},
                       NoStep<>{});
    }
    for (; k < rows; ++k) write_row<pairs>(from + k, k, numbers[k]);
  }
  template <int pass, int rows, int pairs> void run_pass(Index row, int k, Numbers* numbers) const {
    auto one = make_step<pass, rows, pairs>(row, k, numbers, false);
    loop_over_row<V>(n_, 0, NoStep<>{}, NoStep<>{}, one);
    one.store_result(numbers);
  }
  template <int pairs> void write_row(Index row, int k, const Numbers& numbers) const {
    if (!recompute_if_in_doubt(row, numbers))
      loop_over_row<V>(n_, unaligned_prefix(row), make_step<last_pass, 1, pairs>(row, k, &numbers, can_stream_row(row)),
                       NoStep<4>{}, NoStep<>{});
  }

  // Pipelines rows from memory: writes one row (and works on another if there are three passes) while reading the next.
  template <int pairs, class Prefetch> void run_pipelined() const {
    Numbers fetched{}, worked{};
    const Index end = part_.end;
    run_pass<0, 1, pairs>(part_.begin, 0, &fetched);
    for (Index r = part_.begin; r < end; ++r) {
      auto next = make_step<0, 1, pairs, Prefetch>(std::min(r + 1, end - 1), 0, &fetched, false);
      if constexpr (last_pass == 2) {
        auto work = make_step<1, 1, pairs>(r, 0, &fetched, false);
        run_iteration<pairs>(r - 1, r > part_.begin, worked, next, work);
        worked.of[0] = fetched.of[0];
        work.store_result(&worked);
      } else {
        run_iteration<pairs>(r, true, fetched, next, NoStep<>{});
      }
      next.store_result(&fetched);
    }
    if constexpr (last_pass == 2) write_row<pairs>(end - 1, 0, worked);
  }
  // Writes row `row` if `has_row`, while reading other rows.
  template <int pairs, class Next, class Work>
  [[gnu::always_inline]] void run_iteration(Index row, bool has_row, const Numbers& numbers, Next& next,
                                            Work&& work) const {
    if (has_row && !recompute_if_in_doubt(row, numbers))
      loop_over_row<V>(n_, unaligned_prefix(row), make_step<last_pass, 1, pairs>(row, 0, &numbers, can_stream_row(row)),
                       next, work);
    else
      loop_over_row<V>(n_, 0, NoStep<>{}, next, work);
  }
  // Rows of 16-bit elements that exceed the L1 read their weights from the L2, and widening and rounding cost time. Two
  // rows together read and widen the weights once (Emerald Rapids, 16384 and 65536 columns of bf16: 0.87 -> 1.0 of the
  // speed of a copy; with a busy sibling thread 0.77 -> 0.87).
  template <int pairs> static constexpr bool can_pair_long_rows = pairs == 4 && sizeof(X) == 2 && V::lanes == 16;
  template <class Prefetch> void run_row_pairs() const {
    Numbers numbers[2] = {};
    run_pass<0, 2, 4>(part_.begin, 0, numbers);
    Index r = part_.begin;
    for (; r + 1 < part_.end; r += 2) {
      auto next = make_step<0, 2, 4, Prefetch>(std::min(r + 2, part_.end - 2), 0, numbers, false);
      if (is_inaccurate<Kernel>(numbers[0]) || is_inaccurate<Kernel>(numbers[1])) {
        write_row<4>(r, 0, numbers[0]);
        write_row<4>(r + 1, 0, numbers[1]);
        loop_over_row<V>(n_, 0, NoStep<>{}, next, NoStep<>{});
      } else {
        loop_over_row<V>(n_, unaligned_prefix(r), make_step<last_pass, 2, 4>(r, 0, numbers, can_stream_row(r)), next,
                         NoStep<>{});
      }
      next.store_result(numbers);
    }
    if (r < part_.end) run_batch<4>(r, 1);
  }

  template <int pass, int rows, int pairs, class Prefetch = NoPrefetch>
  [[gnu::always_inline]] Step<pass, rows, pairs, Prefetch> make_step(Index row, int k, const Numbers* numbers,
                                                                     bool stream) const {
    return Step<pass, rows, pairs, Prefetch>({g_, row, scratch_row(row, k), numbers, stream});
  }
  // Returns the memory for values saved for later passes: y if its type is f32, else scratch memory.
  RowScratch scratch_row(Index row, int k) const {
    if constexpr (std::is_same_v<Y, float>)
      if (part_.in_l2 || !can_pipeline_rows) return {y_address(row), g_.y.row_stride};
    return {part_.scratch + k * n_, n_};
  }

  static constexpr bool can_rescale = requires { &Kernel::rescaled_globals; };
  // If the row's results are inaccurate, recomputes the row and returns true: scaled by its largest element (a centred
  // kernel first subtracts the first element) or in f64.
  bool recompute_if_in_doubt(Index row, const Numbers& numbers) const {
    if (!is_inaccurate<Kernel>(numbers)) return false;
    if constexpr (!can_rescale) {
      if (part_.recompute_in_f64 != nullptr) part_.recompute_in_f64(part_.context, row);
      return part_.recompute_in_f64 != nullptr;
    } else {
      constexpr float part = Kernel::is_centered ? 0.5F : 1;  // halved, because a difference of two floats may overflow
      const float first = Kernel::is_centered ? sum_lanes(load_partial<V>(g_.x.data + row * g_.x.row_stride, 1)) : 0;
      float max_abs = 0;
      for_each_vector(g_.x.data + row * g_.x.row_stride, [&](Index i, V x, int count) {
        (x * broadcast<V>(part) - broadcast<V>(first * part)).store_partial(part_.scratch + i, count);
        const float vector_max = max_lane(max(abs(load_partial<V>(part_.scratch + i, count)), broadcast<V>(0)));
        max_abs = vector_max > max_abs || vector_max != vector_max ? vector_max : max_abs;
      });
      if (!(max_abs < __builtin_inff()) || (max_abs == 0 && !Kernel::is_centered)) return false;
      const float unit = max_abs == 0 ? 1 : max_abs;
      for_each_vector(part_.scratch, [&](Index i, V x, int count) {
        (x / broadcast<V>(unit)).store_partial(part_.scratch + i, count);
      });
      RowsRunner<V, typename Kernel::Rescaled>(Kernel::rescaled_globals(g_, {part_.scratch, 0}, unit / part), part_)
          .run_single_row(row);
    }
    return true;
  }
  template <class T, class F> void for_each_vector(const T* from, F f) const {
    for (Index i = 0; i < n_; i += V::lanes) {
      const int count = static_cast<int>(std::min<Index>(V::lanes, n_ - i));
      f(i, load_partial<V>(from + i, count), count);
    }
  }

  Y* y_address(Index row) const { return g_.y.data + row * g_.y.row_stride; }
  std::uintptr_t offset_in_line(Index row) const { return reinterpret_cast<std::uintptr_t>(y_address(row)) % 64; }
  // Returns the number of elements before the first full line of y; 0 with even_odd, where pairs of y and x must align.
  Index unaligned_prefix(Index row) const {
    if (even_odd || !can_stream_row(row) || offset_in_line(row) == 0) return 0;
    return std::min<Index>(n_, static_cast<Index>((64 - offset_in_line(row)) / sizeof(Y)));
  }
  bool can_stream_row(Index row) const {
    return part_.non_temporal && offset_in_line(row) % (even_odd ? 64 : sizeof(Y)) == 0;
  }

  const typename Kernel::Globals g_;
  const ThreadRows& part_;
  const Index n_;
};

template <class V, class Kernel> void run_rows(const typename Kernel::Globals& g, const ThreadRows& part) {
  RowsRunner<V, Kernel>(g, part).run_thread_rows();
  if (part.non_temporal) V::store_fence();
}

}  // namespace
}  // namespace ridge::tile::cpu

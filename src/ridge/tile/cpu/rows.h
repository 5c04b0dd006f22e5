// Runs a row kernel (tile/rows.h) on a CPU. A row is read from memory once and later passes find it in the L1 or L2. To
// keep memory busy, one loop goes over the columns of two or three rows concurrently: it writes the finished row, works
// on the next and reads the one after that for the first time. Its access pattern is that of a copy, which the hardware
// prefetcher serves well. (Skylake, one thread, rows of floats from memory, relative to a copy: rmsnorm 0.79 with one
// loop per pass and prefetch instructions, 1.00 with a single loop; softmax 0.72 and 0.91.) Kernels that compute much
// still prefetch (Emerald Rapids: softmax of f32 0.62 -> 0.86, rmsnorm of bf16 0.6 -> 0.9).
//
// If all rows fit in the L2, the only latency is that of a row's result: the sum across lanes, root and division take
// some 70 cycles during which a loop that needs the result stalls. So a batch of rows goes through one pass before the
// next pass starts. Either way the order of a row's sum depends only on its length. Included by one file per
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
  RowsRunner(const typename Kernel::Globals& g, const RowsPart& part) : g_(g), part_(part), n_(part.columns) {}

  // Chooses the pairs of vectors per row: an fma has a latency of four cycles and two start per cycle, so eight vectors
  // of one row or of two saturate the units.
  void go() const {
    if (part_.begin == part_.end) return;
    if constexpr (last == 0)
      one_pass();
    else if constexpr (Kernel::passes >= 3)
      go<2>();
    else
      rows_together(n_) > 1 ? go<2>() : go<4>();
  }
  // Runs all passes on one row and skips the accuracy check.
  void go_apart(Index row) const {
    Numbers numbers{};
    for_each<last>([&](auto pass) { read<pass, 1, 2>(row, 0, &numbers); });
    over_row<V>(n_, lead(row), step<last, 1, 2>(row, 0, &numbers, streams(row)), Nothing<4>{}, Nothing<>{});
  }

 private:
  static constexpr int last = Kernel::passes - 1;
  using Numbers = RowNumbers<Kernel::passes>;
  using Y = typename decltype(Kernel::Globals::y)::type;
  using X = typename decltype(Kernel::Globals::x)::type;
  template <int pass, int rows, int pairs, class Prefetch = NoPrefetch> using Step =
      RowStep<V, Kernel, pass, rows, pairs, Prefetch>;
  static constexpr bool halves = RowStep<V, Kernel, 0, 1, 2, NoPrefetch>::halves;
  // Without vector instructions arithmetic takes longer than memory access, and the loop over several rows gains
  // nothing.
  static constexpr bool fetches_ahead = V::has_halves;

  template <int pairs> void go() const {
    if constexpr (fetches_ahead)
      if (!part_.in_l2) return ahead<pairs>();
    batches<pairs>();
  }
  template <int pairs> void batches() const {
    const Index together = std::max<Index>(rows_together(n_), 1);
    for (Index r = part_.begin; r < part_.end; r += together)
      batch<pairs>(r, static_cast<int>(std::min(together, part_.end - r)));
  }
  template <int pairs> void ahead() const {
    if constexpr (last > 2)
      batches<pairs>();
    else if constexpr (Kernel::computes)
      through<pairs, SoonL1>();
    else
      fetching<pairs>();
  }
  template <int pairs> void fetching() const {
    if constexpr (two_long_rows<pairs>)
      if (n_ > l1_floats && part_.end - part_.begin > 1 && past_line(part_.begin) == past_line(part_.begin + 1))
        return two_at_once<PrefetchFor<X>>();
    if (sizeof(X) == 2 || prefetches_far())
      through<pairs, PrefetchFor<X>>();
    else
      through<pairs, NoPrefetch>();
  }

  // Runs kernels with a single pass. Groups of reads and writes use memory better than single ones. A core that also
  // widens and rounds has too few lines in flight, so it prefetches (Zen 3, relative to a copy: bf16 0.77 -> 0.85, f16
  // 0.83 -> 0.88).
  void one_pass() const {
    if (!part_.stream)
      one_pass<NoPrefetch>();
    else if (prefetches_far())
      one_pass<PrefetchFor<X>>();
    else
      one_pass<std::conditional_t<sizeof(X) == 2, NextL1, NoPrefetch>>();
  }
  template <class Prefetch> void one_pass() const {
    for (Index row = part_.begin; row < part_.end; ++row) {
      auto step = this->template step<0, 1, 2, Prefetch>(row, 0, nullptr, streams(row));
      Index i = lead(row);
      step.rest(0, i);
      for (; i + 4 * V::lanes <= n_; i += 4 * V::lanes) step.four(i);
      step.rest(i, n_);
    }
  }

  template <int pairs> void batch(Index from, int rows) const {
    Numbers numbers[most_rows] = {};
    constexpr int at_once = pairs == 2 ? 2 : 1;
    for_each<last>([&](auto pass) {
      int k = 0;
      if constexpr (pass == 0)
        for (; k + at_once <= rows; k += at_once) read<pass, at_once, pairs>(from + k, k, numbers + k);
      for (; k < rows; ++k) read<pass, 1, pairs>(from + k, k, numbers + k);
    });
    int k = 0;
    for (; k + at_once <= rows; k += at_once) {
      bool apart = false;
      for (int i = 0; i < at_once; ++i) apart |= in_doubt<Kernel>(numbers[k + i]);
      if (apart) break;
      over_row<V>(n_, 0, step<last, at_once, pairs>(from + k, k, numbers + k, false), Nothing<>{}, Nothing<>{});
    }
    for (; k < rows; ++k) write<pairs>(from + k, k, numbers[k]);
  }
  template <int pass, int rows, int pairs> void read(Index row, int k, Numbers* numbers) const {
    auto one = step<pass, rows, pairs>(row, k, numbers, false);
    over_row<V>(n_, 0, Nothing<>{}, Nothing<>{}, one);
    one.leave(numbers);
  }
  template <int pairs> void write(Index row, int k, const Numbers& numbers) const {
    if (!went_apart(row, numbers))
      over_row<V>(n_, lead(row), step<last, 1, pairs>(row, k, &numbers, streams(row)), Nothing<4>{}, Nothing<>{});
  }

  // Pipelines rows from memory: writes one row (and works on another if there are three passes) while it reads the
  // next.
  template <int pairs, class Prefetch> void through() const {
    Numbers fetched{}, worked{};
    const Index end = part_.end;
    read<0, 1, pairs>(part_.begin, 0, &fetched);
    for (Index r = part_.begin; r < end; ++r) {
      auto next = step<0, 1, pairs, Prefetch>(std::min(r + 1, end - 1), 0, &fetched, false);
      if constexpr (last == 2) {
        auto work = step<1, 1, pairs>(r, 0, &fetched, false);
        turn<pairs>(r - 1, r > part_.begin, worked, next, work);
        worked.of[0] = fetched.of[0];
        work.leave(&worked);
      } else {
        turn<pairs>(r, true, fetched, next, Nothing<>{});
      }
      next.leave(&fetched);
    }
    if constexpr (last == 2) write<pairs>(end - 1, 0, worked);
  }
  // Writes row `row` if `is_row`, while it reads others.
  template <int pairs, class Next, class Work>
  [[gnu::always_inline]] void turn(Index row, bool is_row, const Numbers& numbers, Next& next, Work&& work) const {
    if (is_row && !went_apart(row, numbers))
      over_row<V>(n_, lead(row), step<last, 1, pairs>(row, 0, &numbers, streams(row)), next, work);
    else
      over_row<V>(n_, 0, Nothing<>{}, next, work);
  }
  // Rows of 16-bit elements that exceed the L1 read their weights from the L2, and widening and rounding cost time. Two
  // rows together read and widen the weights once (Emerald Rapids, 16384 and 65536 columns of bf16: 0.87 -> 1.0 of the
  // speed of a copy; with a busy sibling thread 0.77 -> 0.87).
  template <int pairs> static constexpr bool two_long_rows = pairs == 4 && sizeof(X) == 2 && V::lanes == 16;
  template <class Prefetch> void two_at_once() const {
    Numbers numbers[2] = {};
    read<0, 2, 4>(part_.begin, 0, numbers);
    Index r = part_.begin;
    for (; r + 1 < part_.end; r += 2) {
      auto next = step<0, 2, 4, Prefetch>(std::min(r + 2, part_.end - 2), 0, numbers, false);
      if (in_doubt<Kernel>(numbers[0]) || in_doubt<Kernel>(numbers[1])) {
        write<4>(r, 0, numbers[0]);
        write<4>(r + 1, 0, numbers[1]);
        over_row<V>(n_, 0, Nothing<>{}, next, Nothing<>{});
      } else {
        over_row<V>(n_, lead(r), step<last, 2, 4>(r, 0, numbers, streams(r)), next, Nothing<>{});
      }
      next.leave(numbers);
    }
    if (r < part_.end) batch<4>(r, 1);
  }

  template <int pass, int rows, int pairs, class Prefetch = NoPrefetch>
  [[gnu::always_inline]] Step<pass, rows, pairs, Prefetch> step(Index row, int k, const Numbers* numbers,
                                                                bool stream) const {
    return Step<pass, rows, pairs, Prefetch>({g_, row, room(row, k), numbers, stream});
  }
  // Returns the memory for values kept for the last pass: y itself if its type is f32, else scratch.
  RowRoom room(Index row, int k) const {
    if constexpr (std::is_same_v<Y, float>)
      if (part_.in_l2 || !fetches_ahead) return {y_row(row), g_.y.row_stride};
    return {part_.scratch + k * n_, n_};
  }

  static constexpr bool has_units = requires { &Kernel::in_units; };
  // If a row is inaccurate, recomputes it scaled by its largest element (a centred kernel first subtracts the first
  // element) or in f64, and returns true.
  bool went_apart(Index row, const Numbers& numbers) const {
    if (!in_doubt<Kernel>(numbers)) return false;
    if constexpr (!has_units) {
      if (part_.in_doubles != nullptr) part_.in_doubles(part_.of, row);
      return part_.in_doubles != nullptr;
    } else {
      constexpr float part = Kernel::is_centred ? 0.5F : 1;  // halved, because a difference of two floats may overflow
      const float first = Kernel::is_centred ? sum(load_some<V>(g_.x.data + row * g_.x.row_stride, 1)) : 0;
      float most = 0;
      for_each_vector(g_.x.data + row * g_.x.row_stride, [&](Index i, V x, int count) {
        (x * lit<V>(part) - lit<V>(first * part)).store_some(part_.scratch + i, count);
        const float here = largest(max(abs(load_some<V>(part_.scratch + i, count)), lit<V>(0)));
        most = here > most || here != here ? here : most;
      });
      if (!(most < __builtin_inff()) || (most == 0 && !Kernel::is_centred)) return false;
      const float unit = most == 0 ? 1 : most;
      for_each_vector(part_.scratch,
                      [&](Index i, V x, int count) { (x / lit<V>(unit)).store_some(part_.scratch + i, count); });
      RowsRunner<V, typename Kernel::InUnits>(Kernel::in_units(g_, {part_.scratch, 0}, unit / part), part_)
          .go_apart(row);
    }
    return true;
  }
  template <class T, class F> void for_each_vector(const T* from, F f) const {
    for (Index i = 0; i < n_; i += V::lanes) {
      const int count = static_cast<int>(std::min<Index>(V::lanes, n_ - i));
      f(i, load_some<V>(from + i, count), count);
    }
  }

  Y* y_row(Index row) const { return g_.y.data + row * g_.y.row_stride; }
  std::uintptr_t past_line(Index row) const { return reinterpret_cast<std::uintptr_t>(y_row(row)) % 64; }
  // Returns the elements before the first full line of y; 0 with even_odd, where pairs of y must align with those of x.
  Index lead(Index row) const {
    if (halves || !streams(row) || past_line(row) == 0) return 0;
    return std::min<Index>(n_, static_cast<Index>((64 - past_line(row)) / sizeof(Y)));
  }
  bool streams(Index row) const { return part_.stream && past_line(row) % (halves ? 64 : sizeof(Y)) == 0; }

  const typename Kernel::Globals g_;
  const RowsPart& part_;
  const Index n_;
};

template <class V, class Kernel> void run_rows(const typename Kernel::Globals& g, const RowsPart& part) {
  RowsRunner<V, Kernel>(g, part).go();
  if (part.stream) V::fence();
}

}  // namespace
}  // namespace ridge::tile::cpu

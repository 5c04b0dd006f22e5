// Column reductions: threads share blocks of rows and, unless a row's own reduction needs all its columns, ranges of
// columns. The partition depends only on the sizes, so results do not depend on the number of threads.
#include <algorithm>
#include <memory>

#include "ridge/base/cores.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/part.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

namespace cpu = tile::cpu;

constexpr std::int64_t most_parts = 64, least_part = 1 << 15;  // elements
constexpr std::int64_t strip_columns = 2048;

std::int64_t parts(std::int64_t all, std::int64_t most) { return (all + most - 1) / most; }

}  // namespace

void across(const AcrossRun& run, std::int64_t rows, std::int64_t columns, int threads, const LeaveColumns& leave) {
  const bool whole_rows = run.problem != nullptr && run.problem->function != RowFunction::product_across;
  const std::int64_t strips = whole_rows ? 1 : parts(columns, strip_columns);
  const std::int64_t pieces = std::clamp<std::int64_t>(
      rows * columns / least_part / strips, 1, std::max<std::int64_t>(std::min(most_parts, rows / 16) / strips, 1));
  if (threads <= 0) threads = usable_cores();
  const auto sums = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(pieces * columns));
  const int workers = static_cast<int>(std::min<std::int64_t>(threads, pieces * strips));
  cpu::run(workers, [&](int worker) {
    const cpu::Slice mine = cpu::slice(pieces * strips, workers, worker);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) {
      const std::int64_t piece = i / strips, strip = i % strips;
      AcrossRun part = run;
      part.part.begin = rows * piece / pieces;
      part.part.end = rows * (piece + 1) / pieces;
      part.part.columns = columns;
      part.part.first = strips == 1 ? 0 : strip * strip_columns;
      part.part.last = strips == 1 ? columns : std::min(columns, part.part.first + strip_columns);
      part.part.sums = sums.get() + piece * columns;
      cpu::body_for_isa(plain::run_across, avx2::run_across, avx512::run_across)(part);
    }
  });
  const int leavers = static_cast<int>(std::min<std::int64_t>(threads, parts(pieces * columns, least_part)));
  cpu::run(leavers, [&](int worker) {
    const cpu::Slice mine = cpu::slice(columns, leavers, worker);
    const bool adds = run.function == ReduceFunction::sum || run.function == ReduceFunction::mean;
    for (std::int64_t piece = 1; piece < pieces; ++piece) {
      const double* const more = sums.get() + piece * columns;
      for (std::int64_t c = mine.begin; c < mine.end; ++c)
        sums[c] = adds ? sums[c] + more[c] : joined(run.function, sums[c], more[c]);
    }
    leave(mine.begin, mine.end, sums.get());
  });
}

}  // namespace ridge::ops

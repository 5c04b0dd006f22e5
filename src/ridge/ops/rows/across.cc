// Column reductions. Each task is a block of rows and, unless the kernel needs full rows, a range of their columns. The
// partition depends only on the sizes, so results do not depend on the number of threads.
#include <algorithm>
#include <memory>

#include "ridge/base/ceil_div.h"
#include "ridge/base/cores.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/isa_kernels.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

constexpr std::int64_t max_tasks = 64, min_task_elements = 1 << 15;
constexpr std::int64_t range_columns = 2048;

}  // namespace

void reduce_across_rows(const ColumnReductionRun& run, std::int64_t rows, std::int64_t columns, int threads,
                        const StoreColumns& store_columns) {
  const bool needs_full_rows = run.problem != nullptr && run.problem->function != RowFunction::product_sum_across_rows;
  const std::int64_t ranges = needs_full_rows ? 1 : ceil_div(columns, range_columns);
  const std::int64_t row_blocks =
      std::clamp<std::int64_t>(rows * columns / min_task_elements / ranges, 1,
                               std::max<std::int64_t>(std::min(max_tasks, rows / 16) / ranges, 1));
  if (threads <= 0) threads = usable_cores();
  const auto sums = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(row_blocks * columns));
  const int workers = static_cast<int>(std::min<std::int64_t>(threads, row_blocks * ranges));
  pool::run_parallel(workers, [&](int worker) {
    const pool::WorkSlice mine = pool::split_evenly(row_blocks * ranges, workers, worker);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) {
      const std::int64_t row_block = i / ranges, range = i % ranges;
      ColumnReductionRun task = run;
      task.part.begin = rows * row_block / row_blocks;
      task.part.end = rows * (row_block + 1) / row_blocks;
      task.part.columns = columns;
      task.part.first = ranges == 1 ? 0 : range * range_columns;
      task.part.last = ranges == 1 ? columns : std::min(columns, task.part.first + range_columns);
      task.part.sums = sums.get() + row_block * columns;
      pool::select_for_isa(plain::reduce_columns_part, avx2::reduce_columns_part, avx512::reduce_columns_part)(task);
    }
  });
  const int store_workers =
      static_cast<int>(std::min<std::int64_t>(threads, ceil_div(row_blocks * columns, min_task_elements)));
  pool::run_parallel(store_workers, [&](int worker) {
    const pool::WorkSlice mine = pool::split_evenly(columns, store_workers, worker);
    const bool adds = run.function == ReduceFunction::sum || run.function == ReduceFunction::mean;
    for (std::int64_t row_block = 1; row_block < row_blocks; ++row_block) {
      const double* const other_sums = sums.get() + row_block * columns;
      for (std::int64_t c = mine.begin; c < mine.end; ++c)
        sums[c] = adds ? sums[c] + other_sums[c] : combine_values(run.function, sums[c], other_sums[c]);
    }
    store_columns(mine.begin, mine.end, sums.get());
  });
}

}  // namespace ridge::ops

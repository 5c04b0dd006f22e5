#include "ridge/bench/cpu_arrays.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/timer.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/pool/peak.h"

namespace ridge {

double time_slowest_thread(int threads, int calls, const std::function<void(int worker)>& part) {
  std::vector<double> seconds(threads);
  pool::run_concurrently(threads, [&](int worker) {
    const double start = thread_cpu_seconds();
    for (int i = 0; i < calls; ++i) part(worker);
    seconds[worker] = thread_cpu_seconds() - start;
  });
  return *std::max_element(seconds.begin(), seconds.end());
}

Result<CpuArrays> CpuArrays::make(DType dtype, const std::vector<std::int64_t>& counts, std::size_t inputs, int threads,
                                  std::int64_t granularity) {
  CpuArrays out;
  out.threads_ = threads;
  out.elements_per_thread_ = counts[0] / threads / granularity * granularity;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    auto made = ArrayStorage::make(dtype, counts[i]);
    if (!made)
      return absent_error(fmt::format("no memory for {} arrays of {} elements", counts.size(), counts[i]),
                          "`bench repeats` takes fewer --elements");
    out.arrays_.push_back(*std::move(made));
    if (i < inputs)
      fill_normal(out.arrays_[i].array(), 1, static_cast<int>(i), threads);
    else
      poison_array(out.arrays_[i].array(), threads);
  }
  return out;
}

Result<std::vector<double>> CpuArrays::read_values(std::size_t array, std::int64_t first, std::int64_t count) const {
  std::vector<double> out;
  for (std::int64_t i = first; i < first + count; ++i) out.push_back(read_element(arrays_[array].array(), i));
  return out;
}

double CpuArrays::time_kernel(const KernelStep& step, std::int64_t each, int calls) const {
  const VectorKernel& kernel = step.kernel;
  const ops::ChainProgram chain = kernel.columns == 0 ? kernel.chain_program(each) : ops::ChainProgram{};
  return time_slowest_thread(threads_, calls, [&](int worker) {
    const std::int64_t first = each * worker;
    std::byte *const x = address(step.from, first), *const y = address(step.to, first);
    if (kernel.columns != 0) {
      const std::byte* const weight = kernel.has_weight ? address(1, 0) : nullptr;
      return ops::run_row_function(kernel.row_problem(each), {x, weight, y}, 1);
    }
    if (!kernel.has_gate) return ops::run_chain_program(chain, std::vector<void*>{x, y}, 1);
    ops::run_chain_program(chain, std::vector<void*>{x, address(1, first), y}, 1);
  });
}

Result<double> CpuArrays::time_steps(const std::vector<KernelStep>& steps) const {
  double sum = 0;
  for (const KernelStep& step : steps) sum += time_kernel(step, elements_per_thread_, 1);
  return sum;
}

}  // namespace ridge

#include "ridge/simulate/systolic_run.h"

#include <fmt/format.h>

namespace ridge {
namespace {

std::vector<float> counting_values(std::int64_t size) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < size; ++i) out.push_back(static_cast<float>(1 + i % 9));
  return out;
}

}  // namespace

std::string SystolicRun::mapping_formula() const {
  const std::string_view output_dim = mapping.is_transposed ? "N" : "M";
  const std::string_view streamed = mapping.is_output_stationary ? "K" : output_dim;
  return fmt::format("T + {}R + C − 2 = {}, T = {} = {}", mapping.load_cycles > 0 ? "2" : "", mapping.fold_cycles(),
                     streamed, mapping.t);
}

bool SystolicRun::is_drawable() const {
  return task.array.rows <= max_drawn_elements && task.array.cols <= max_drawn_elements &&
         task.array.rows * task.array.cols <= max_drawn_elements && report.cycles < max_drawn_cycles;
}

Result<SystolicRun> run_systolic(const SystolicTask& task) {
  RIDGE_TRY(report, simulate_systolic(task.array, task.product));
  if (task.copies < 1) return input_error(fmt::format("expected at least 1 copy of a layer, found {}", task.copies));
  SystolicRun run{task, std::move(report), make_mapping(task.array, task.product), {}, std::nullopt};
  run.phases = fold_phase_cycles(task.array, run.mapping);
  if (!task.scratchpads) return run;
  RIDGE_TRY(stalls, simulate_stalls(task.array, task.product, *task.scratchpads, task.convolution));
  run.stalls = stalls;
  return run;
}

Result<ElementRun> compute_frames(const SystolicRun& run) {
  const ProductSize& p = run.task.product;
  return simulate_elements(run.task.array, p, counting_values(p.m * p.k), counting_values(p.k * p.n), {.frames = true});
}

SystolicTotal sum_runs(std::span<const SystolicRun> runs) {
  SystolicTotal total;
  for (const SystolicRun& run : runs) {
    const double copies = static_cast<double>(run.task.copies),
                 cycles = copies * static_cast<double>(run.report.cycles);
    const ProductSize& p = run.task.product;
    const SystolicArray& array = run.task.array;
    total.cycles += cycles;
    if (run.stalls) total.stall_cycles += copies * static_cast<double>(run.stalls->stall_cycles);
    total.multiply_adds += copies * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    total.element_cycles += cycles * static_cast<double>(array.rows) * static_cast<double>(array.cols);
  }
  return total;
}

}  // namespace ridge

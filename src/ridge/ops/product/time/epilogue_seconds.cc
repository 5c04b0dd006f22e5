#include "ridge/ops/product/time/epilogue_seconds.h"

#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/fitted.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/epilogue.h"

namespace ridge::ops::cuda {
namespace {

// A thread processes eight elements in a step, and a part of the multiprocessor issues one instruction of a warp in a
// cycle. An exponential and a reciprocal occupy its four special function lanes for eight cycles each.
double activation_cycles(EpilogueActivation activation) {
  constexpr double elements = 8, special_functions = 2, special_function_cycles = 8;
  const auto cycles = [&](std::string_view name) {
    return elements * (function_cost(name).approximate_call + special_functions * (special_function_cycles - 1));
  };
  switch (activation) {
    case EpilogueActivation::gelu: return cycles("gelu");
    case EpilogueActivation::gelu_tanh: return cycles("gelu_tanh");
    case EpilogueActivation::silu: return cycles("silu");
    default: return 0;
  }
}

double step_cycles(const MatmulEpilogue& epilogue) {
  const KernelConstants& n = kernel_constants();
  double cycles = n.epilogue_step_cycles + activation_cycles(epilogue.activation);
  for (const EpilogueOperand* x : {&epilogue.scale, &epilogue.bias, &epilogue.gate, &epilogue.addend})
    if (x->data != nullptr)
      cycles += x->row_stride == 0 || x->col_stride == 0 ? n.epilogue_vector_cycles : n.epilogue_matrix_cycles;
  return cycles;
}

// Returns the cycles to multiply one work item, a tile or a split of it.
double multiply_cycles(const MatmulConfig& c, const MatmulProblem& problem, int splits) {
  const std::int64_t stages = ceil_div(ceil_div(problem.size.k, c.k), splits);
  return static_cast<double>(stages) * c.m * c.n * c.k / kernel_constants().multiply_adds_per_cycle;
}

}  // namespace

double epilogue_bytes(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  const auto along = [](std::int64_t stride, std::int64_t extent) {
    return stride == 0 ? 1.0 : static_cast<double>(extent);
  };
  double bytes = 0;
  for (const EpilogueOperand* x :
       {&call.epilogue.scale, &call.epilogue.bias, &call.epilogue.gate, &call.epilogue.addend})
    if (x->data != nullptr)
      bytes += along(x->batch_stride, p.batch) * along(x->row_stride, p.size.m) * along(x->col_stride, p.size.n) *
               dtype_bits(x->dtype) / 8;
  return bytes;
}

double predict_epilogue_seconds(const MatmulCall& call, const MatmulPlan& plan, const DeviceNumbers& device) {
  if (is_store_only(call.epilogue)) return 0;
  if (plan.path != MatmulPlan::Path::tiles || !has_vector_epilogue(call) || adds_rounded_sum(call))
    return epilogue_bytes(call) / device.memory_bytes_per_s;
  const MatmulConfig& c = sm90_kernel_configs[static_cast<std::size_t>(plan.config)];
  const bool is_pingpong = c.roles == tile::Roles::pingpong;
  const bool divides_sums =
      plan.split_mode == tile::SplitMode::cooperative_split_k || plan.split_mode == tile::SplitMode::cluster_split_k;
  const int steps = divides_sums ? static_cast<int>(ceil_div(c.epilogue_steps(), plan.splits)) : c.epilogue_steps();
  const std::int64_t tiles_per_block = ceil_div(plan.tiles, std::min(plan.blocks, device.multiprocessors));
  const std::int64_t tiles_per_warpgroup = is_pingpong ? ceil_div(tiles_per_block, c.consumers) : tiles_per_block;
  double tile_cycles = steps * step_cycles(call.epilogue);
  if (is_pingpong)
    tile_cycles -=
        kernel_constants().epilogue_hidden_share * std::min(tile_cycles, multiply_cycles(c, call.problem, plan.splits));
  return static_cast<double>(tiles_per_warpgroup) * tile_cycles / device.clock_hz;
}

}  // namespace ridge::ops::cuda

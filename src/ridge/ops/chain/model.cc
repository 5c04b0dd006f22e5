#include "ridge/ops/chain/model.h"

#include <algorithm>
#include <array>

#include "ridge/ops/fitted.h"

namespace ridge::ops {

bool can_approximate(const std::vector<ChainTensor>& tensors, const ChainStep& step) {
  return step.op != ChainOp::store || dtype_bits(tensors[step.slot].dtype) <= 16;
}

double instructions_per_step(const ChainStep& step, bool approximate) {
  static const auto costs = [] {
    std::array<FunctionCost, function_table.size()> all;
    for (const FunctionInfo& f : function_table) all[static_cast<std::size_t>(f.function)] = function_cost(f.name);
    return all;
  }();
  const FunctionCost& cost = costs[static_cast<std::size_t>(step.op)];
  if (approximate && step.op != ChainOp::cos) return cost.approximate_call * step.repeat;
  return cost.first_call + cost.repeated_call * (step.repeat - 1);
}

double element_count(const std::vector<std::int64_t>& extents) {
  double n = 1;
  for (const std::int64_t extent : extents) n *= static_cast<double>(extent);
  return n;
}

double total_tensor_bytes(const std::vector<ChainTensor>& tensors, const std::vector<std::int64_t>& extents) {
  double bytes = 0;
  for (const ChainTensor& tensor : tensors) {
    double tensor_bytes = dtype_bits(tensor.dtype) / 8;
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      if (tensor.strides[axis] != 0) tensor_bytes *= static_cast<double>(extents[axis]);
    bytes += tensor_bytes;
  }
  return bytes;
}

double instruction_count(const ChainProgram& chain) {
  const bool approximate = std::all_of(chain.steps.begin(), chain.steps.end(),
                                       [&](const ChainStep& step) { return can_approximate(chain.tensors, step); });
  double instructions_each = 0;
  for (const ChainStep& step : chain.steps) instructions_each += instructions_per_step(step, approximate);
  return element_count(chain.extents) * instructions_each;
}

double traffic_bytes(const ChainProgram& chain) {
  return element_count(chain.extents) == 0 ? 0 : total_tensor_bytes(chain.tensors, chain.extents);
}

Result<Forecast> forecast(const ChainProgram& chain, const DeviceNumbers& device) {
  return forecast_streamed("chain", traffic_bytes(chain), instruction_count(chain), device);
}

CpuForecast cpu_forecast(const ChainProgram& chain, const FunctionFlops& flops_of) {
  double flops_each = 0;
  for (const ChainStep& step : chain.steps) flops_each += flops_of(step.op) * step.repeat;
  return {.kernel = "chain", .vector_flops = element_count(chain.extents) * flops_each};
}

}  // namespace ridge::ops

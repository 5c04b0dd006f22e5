#include "ridge/ops/chain/model.h"

#include <algorithm>
#include <array>

#include "ridge/ops/fitted.h"

namespace ridge::ops {
namespace {

// Returns the cost of an operation in FLOPs at a CPU's vector peak, measured in cache with ops/function/vector_math.h
// on AVX2: a cosine costs 54. An instruction counts as two FLOPs (one FMA).
int cpu_flops(const ChainStep& step) { return row(step.op).cpu_flops * step.repeat; }

}  // namespace

bool is_rough(const std::vector<ChainTensor>& tensors, const ChainStep& step) {
  return step.op != ChainOp::store || bits(tensors[static_cast<std::size_t>(step.slot)].dtype) <= 16;
}

double instructions(const ChainStep& step, bool rough) {
  static const auto costs = [] {
    std::array<FunctionCost, function_rows.size()> all;
    for (const FunctionRow& f : function_rows) all[static_cast<std::size_t>(f.function)] = cost_of(f.name);
    return all;
  }();
  const FunctionCost& cost = costs[static_cast<std::size_t>(step.op)];
  if (rough && step.op != ChainOp::cos) return cost.rough * step.repeat;
  return cost.first + cost.again * (step.repeat - 1);
}

double elements_of(const std::vector<std::int64_t>& extents) {
  double n = 1;
  for (const std::int64_t extent : extents) n *= static_cast<double>(extent);
  return n;
}

double bytes_of(const std::vector<ChainTensor>& tensors, const std::vector<std::int64_t>& extents) {
  double bytes = 0;
  for (const ChainTensor& tensor : tensors) {
    double here = bits(tensor.dtype) / 8;
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      if (tensor.strides[axis] != 0) here *= static_cast<double>(extents[axis]);
    bytes += here;
  }
  return bytes;
}

double instructions(const ChainProgram& chain) {
  const bool rough = std::all_of(chain.steps.begin(), chain.steps.end(),
                                 [&](const ChainStep& step) { return is_rough(chain.tensors, step); });
  double each = 0;
  for (const ChainStep& step : chain.steps) each += instructions(step, rough);
  return elements_of(chain.extents) * each;
}

double traffic(const ChainProgram& chain) {
  return elements_of(chain.extents) == 0 ? 0 : bytes_of(chain.tensors, chain.extents);
}

Result<Forecast> forecast(const ChainProgram& chain, const DeviceNumbers& device) {
  return streamed("chain", traffic(chain), instructions(chain), device);
}

CpuForecast cpu_forecast(const ChainProgram& chain, int) {
  double each = 0;
  for (const ChainStep& step : chain.steps) each += cpu_flops(step);
  return {.kernel = "chain", .vector_flops = elements_of(chain.extents) * each};
}

}  // namespace ridge::ops

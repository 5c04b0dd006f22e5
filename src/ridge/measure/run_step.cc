#include "ridge/measure/run_step.h"

#include "ridge/ops/attention/cpu.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/fused/cpu.h"
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/ops/routing/cpu.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/program.h"
#include "ridge/ops/rows/row_blocks.h"

namespace ridge {

void run_step(const PlanStep& step, std::span<void* const> data, int threads) {
  if (const auto* product = std::get_if<ops::MatmulProblem>(&step.kernel))
    ops::matmul({.problem = *product,
                 .a = data[0],
                 .b = data[1],
                 .d = data[2],
                 .starts = product->grouped ? static_cast<const std::int32_t*>(data[3]) : nullptr},
                threads);
  else if (const auto* fused = std::get_if<ops::FusedMatmul>(&step.kernel))
    ops::matmul(*fused, data[0], data[1], data[2], data.subspan(3), threads);
  else if (const auto* rows = std::get_if<ops::RowProblem>(&step.kernel))
    ops::run_row_function(*rows, {data[0], data[1], data[2], data.size() > 3 ? data[3] : nullptr}, threads);
  else if (const auto* row_blocks = std::get_if<ops::RowBlockProgram>(&step.kernel))
    ops::run_row_blocks(*row_blocks, data, threads);
  else if (const auto* reduction = std::get_if<ops::ReduceProblem>(&step.kernel))
    ops::reduce(*reduction, data[0], data[1], threads);
  else if (const auto* attention = std::get_if<ops::AttentionProblem>(&step.kernel)) {
    const auto as_ints = [&](std::size_t i) { return data.size() > i ? static_cast<const int*>(data[i]) : nullptr; };
    ops::attention(*attention,
                   {data[0], data[1], data[2], data[3], data.size() > 4 ? static_cast<float*>(data[4]) : nullptr,
                    as_ints(5), as_ints(6), as_ints(7), as_ints(8)},
                   threads);
  } else if (const auto* backward = std::get_if<ops::AttentionBackwardProblem>(&step.kernel))
    ops::attention_backward(
        *backward,
        {data[0], data[1], data[2], data[3], data[4], static_cast<const float*>(data[5]), data[6], data[7], data[8]},
        threads);
  else if (const auto* conv = std::get_if<ops::ConvLoops>(&step.kernel))
    ops::run_loops(*conv, data, threads);
  else if (const auto* indexed = std::get_if<ops::GatherScatterLoops>(&step.kernel))
    ops::run_loops(*indexed, data, threads);
  else if (const auto* running = std::get_if<ops::RunningSumLoops>(&step.kernel))
    ops::run_loops(*running, data, threads);
  else if (const auto* top = std::get_if<ops::TopKLoops>(&step.kernel))
    ops::run_loops(*top, data, threads);
  else if (const auto* routed = std::get_if<ops::RoutedProductLoops>(&step.kernel))
    ops::run_loops(*routed, data, threads);
  else if (const auto* in_groups = std::get_if<ops::RoutingProblem>(&step.kernel))
    ops::route_rows(*in_groups, data, threads);
  else if (const auto* scan = std::get_if<ops::RecurrenceLoops>(&step.kernel))
    ops::run_loops(*scan, data, threads);
  else if (const auto* quantize = std::get_if<ops::QuantizeLoops>(&step.kernel))
    ops::run_loops(*quantize, data, threads);
  else if (const auto* scaled = std::get_if<ops::ScaledProductLoops>(&step.kernel))
    ops::run_loops(*scaled, data, threads);
  else
    ops::run_chain_program(std::get<ops::ChainProgram>(step.kernel), data, threads);
}

Reason cpu_unsupported_reason(const PlanStep& step) {
  return std::visit([](const auto& kernel) { return ops::unsupported_reason(kernel); }, step.kernel);
}

}  // namespace ridge

#include "ridge/roofline/operators/explain_operators.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/roofline/roofs.h"
#include "ridge/roofline/totals.h"

namespace ridge {
namespace {

// A call takes at most as long as this many FLOPs, so that times in FLOPs stay below 2^63.
constexpr Count max_function_cost = 512;

Polynomial to_polynomial(Count count) { return Polynomial(static_cast<std::int64_t>(count)); }

Status check_sums(const std::vector<OperatorWork>& operators) {
  Count flops = 0, bytes = 0, calls = 0;
  for (const OperatorWork& each : operators) {
    const bool is_in_range =
        each.flops <= max_operator_work && each.bytes_in <= max_operator_work && each.bytes_out <= max_operator_work;
    if (is_in_range) {
      flops += each.flops * each.calls;
      bytes += (each.bytes_in + each.bytes_out) * each.calls;
      for (const CountedCalls& costly : each.costly) calls += costly.count * each.calls;
    }
    if (is_in_range && flops <= max_operator_work && bytes <= max_operator_work &&
        calls <= max_operator_work / max_function_cost)
      continue;
    return input_error(
        fmt::format("expected fewer than 2^62 FLOPs and bytes in all operators, found more at '{}'", each.name),
        "use smaller sizes");
  }
  return Done{};
}

Work to_work(const OperatorWork& one) {
  Work work{.name = one.name,
            .text = one.text.empty() ? one.name : one.text,
            .contraction = one.contraction,
            .math = one.math,
            .flops = to_polynomial(one.flops * one.calls),
            .bytes_in = to_polynomial(one.bytes_in * one.calls),
            .bytes_out = to_polynomial(one.bytes_out * one.calls)};
  for (const CountedCalls& costly : one.costly)
    if (costly.count > 0) add_calls(work.calls, {{costly.function, to_polynomial(costly.count * one.calls)}});
  return work;
}

}  // namespace

Result<Explanation> explain_operators(const std::vector<OperatorWork>& operators, const Machine& machine) {
  RIDGE_TRY_STATUS(check_sums(operators));
  RIDGE_TRY(bandwidth, machine.memory_bandwidth());
  RooflineContext context{machine, bandwidth.value, {}, {}};
  context.thresholds = false;
  Explanation out;
  out.machine = machine;
  out.ops.reserve(operators.size());
  for (const OperatorWork& each : operators) {
    context.launch_s = launch_seconds(machine) * static_cast<double>(each.calls);
    RIDGE_TRY(prediction, predict_operation(to_work(each), context));
    prediction.calls = each.calls;
    out.ops.push_back(std::move(prediction));
  }
  RIDGE_TRY(total, sum_operations(out.ops, context));
  out.total = std::move(total);
  out.total.calls = 0;
  for (const Prediction& each : out.ops) out.total.calls += each.calls;
  return out;
}

}  // namespace ridge

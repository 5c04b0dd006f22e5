// Each operation against the two roofs of a machine: T_math = FLOPs/peak, T_memory = bytes/bandwidth. If computing and
// moving overlap perfectly the larger is the time, if not at all their sum. 1e12 FLOP and 1e9 B at 9.89e14 FLOP/s and
// 1e10 B/s: 1.01 ms and 0.1 s, so between 0.1 s and 0.10101 s, and memory is the limit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/program/token.h"
#include "ridge/roofline/balance.h"
#include "ridge/roofline/prediction.h"
#include "ridge/roofline/threshold.h"

namespace ridge {
namespace {

struct Setting {
  const Machine& machine;
  double bandwidth;
  Bindings dims;
  std::vector<std::string> order;
};

struct PeakFound {
  std::optional<Peak> peak;
  std::string missing = {};
};

// An f32 contraction and everything that is not one run on the vector unit, which a machine may leave unsaid.
Result<PeakFound> peak_for(const Work& work, const Machine& machine) {
  if (work.contraction && work.math != DType::f32) {
    const auto peak = machine.contraction_peak(work.math);
    if (!peak) return peak.error();
    return PeakFound{**peak};
  }
  if (const Peak* peak = machine.pointwise_peak()) return PeakFound{*peak};
  return PeakFound{std::nullopt, "vector f32 peak of " + machine.name};
}

// None where a dimension has no value.
Result<std::optional<std::int64_t>> number(const Polynomial& count, const Bindings& dims) {
  const auto symbols = count.symbols();
  if (count.exact() && !std::all_of(symbols.begin(), symbols.end(), [&](const auto& s) { return dims.contains(s); }))
    return std::optional<std::int64_t>();
  if (!count.exact())
    return input_error(fmt::format("expected a count below 2^63, found {}", count.text()), "use smaller sizes");
  const auto value = count.evaluate(dims);
  if (!value) return value.error();
  return std::optional<std::int64_t>(*value);
}

std::string in_brackets(const std::string& text, bool single) { return single ? text : fmt::format("({})", text); }

std::string intensity_formula(const Ratio& ratio, std::span<const std::string> order) {
  const std::string above = ratio.flops.text(order), below = ratio.bytes.text(order);
  if (ratio.flops.zero() || below == "1") return above;
  const bool one_symbol = below.find_first_of("*+/ ") == std::string::npos;
  return in_brackets(above, ratio.flops.terms().size() == 1) + "/" + in_brackets(below, one_symbol);
}

// The roofs of one operation whose numbers are known.
Status judge(Prediction& p, const Ratio& ratio, const Setting& setting) {
  const std::map<std::string, double> sizes(setting.dims.begin(), setting.dims.end());
  const double bytes = p.work.bytes().real(sizes);  // int4: the halves that *p.bytes rounds up
  p.intensity = static_cast<double>(*p.flops) / bytes;
  p.time_memory_s = bytes / setting.bandwidth;
  if (!p.peak) return Done{};
  p.time_math_s = static_cast<double>(*p.flops) / p.peak->rate.value;
  p.time_lower_s = std::max(*p.time_math_s, *p.time_memory_s);
  p.time_upper_s = *p.time_math_s + *p.time_memory_s;
  const auto compute = compute_bound(ratio, setting.dims, {p.peak->rate.value, setting.bandwidth});
  if (!compute) return compute.error();
  p.limiter = *compute ? Limiter::compute : Limiter::memory;
  p.runner_up = *compute ? Limiter::memory : Limiter::compute;
  return Done{};
}

Result<Prediction> predict(const Work& work, const Setting& setting) {
  Prediction p{.work = work};
  const auto flops = number(work.flops, setting.dims), bytes = number(work.bytes(), setting.dims);
  if (!flops) return flops.error();
  if (!bytes) return bytes.error();
  const auto peak = peak_for(work, setting.machine);
  if (!peak) return peak.error();
  p.flops = *flops;
  p.bytes = *bytes;
  p.peak = peak->peak;
  p.missing = peak->missing;
  p.bandwidth = setting.bandwidth;
  const Ratio ratio = reduced(work.flops, work.bytes());
  p.intensity_formula = intensity_formula(ratio, setting.order);
  if (p.peak) {
    p.ridge = p.peak->rate.value / setting.bandwidth;
    p.thresholds = thresholds(work, {p.peak->rate.value, setting.bandwidth}, setting.dims, setting.order);
  }
  if (p.flops && p.bytes) {
    const Status judged = judge(p, ratio, setting);
    if (!judged) return judged.error();
  }
  return p;
}

std::optional<double> sum(const std::vector<Prediction>& ops, std::optional<double> Prediction::*field) {
  double total = 0;
  for (const Prediction& op : ops) {
    if (!(op.*field)) return std::nullopt;
    total += *(op.*field);
  }
  return total;
}

template <class T> std::optional<T> shared(const std::vector<Prediction>& ops, std::optional<T> Prediction::*field) {
  for (const Prediction& op : ops)
    if (op.*field != ops.front().*field) return std::nullopt;
  return ops.empty() ? std::nullopt : ops.front().*field;
}

// The operations run one after the other, so times add up; the limiter is what limits the larger share of the lower
// bound.
void add_times(Prediction& total, const std::vector<Prediction>& ops) {
  total.peak = shared(ops, &Prediction::peak);
  total.ridge = shared(ops, &Prediction::ridge);
  total.time_math_s = sum(ops, &Prediction::time_math_s);
  total.time_memory_s = sum(ops, &Prediction::time_memory_s);
  total.time_lower_s = sum(ops, &Prediction::time_lower_s);
  total.time_upper_s = sum(ops, &Prediction::time_upper_s);
  for (const Prediction& op : ops)
    if (total.missing.find(op.missing) == std::string::npos)
      total.missing += (total.missing.empty() ? "" : ", ") + op.missing;
  if (!total.time_lower_s || ops.empty()) return;
  double compute = 0;
  for (const Prediction& op : ops)
    if (op.limiter == Limiter::compute) compute += *op.time_lower_s;
  total.limiter = compute >= *total.time_lower_s - compute ? Limiter::compute : Limiter::memory;
  total.runner_up = *total.limiter == Limiter::compute ? Limiter::memory : Limiter::compute;
}

Result<Prediction> total_of(const std::vector<Prediction>& ops, const Setting& setting) {
  Prediction total{.work = {.name = "total"}};
  total.bandwidth = setting.bandwidth;
  for (const Prediction& op : ops) {
    total.work.flops = total.work.flops + op.work.flops;
    total.work.bytes_in = total.work.bytes_in + op.work.bytes_in;
    total.work.bytes_out = total.work.bytes_out + op.work.bytes_out;
  }
  const auto flops = number(total.work.flops, setting.dims), bytes = number(total.work.bytes(), setting.dims);
  if (!flops) return flops.error();
  if (!bytes) return bytes.error();
  total.flops = *flops;
  total.bytes = *bytes;
  total.intensity_formula = intensity_formula(reduced(total.work.flops, total.work.bytes()), setting.order);
  if (total.flops && total.bytes && *total.bytes > 0)
    total.intensity =
        static_cast<double>(*total.flops) / total.work.bytes().real({setting.dims.begin(), setting.dims.end()});
  add_times(total, ops);
  return total;
}

// An error of a statement points at it.
Error placed(Error error, const Program& program, const Statement& statement) {
  if (!error.source.empty() || statement.span.line <= 0) return error;
  const Error at = notation::Source{program.text, program.source}.error(statement.span, error.message, error.hint);
  error.source = at.source;
  error.span = at.span;
  error.line_text = at.line_text;
  return error;
}

Result<Polynomial> whole(double count, std::string_view unit, double least) {
  if (!std::isfinite(count) || count < least || count != std::floor(count))
    return usage_error(fmt::format("expected a whole number of {} from {} on, found {}", unit, least, count));
  if (count >= 0x1p63)
    return input_error(fmt::format("expected a count below 2^63, found {} {}", count, unit), "use smaller sizes");
  return Polynomial(static_cast<std::int64_t>(count));
}

}  // namespace

Result<Explanation> explain(const Program& program, const Machine& machine, const Bindings& given) {
  const auto dims = program.bind(given);
  if (!dims) return dims.error();
  const auto bandwidth = machine.bandwidth();
  if (!bandwidth) return bandwidth.error();
  const Setting setting{machine, bandwidth->value, *dims, program.dim_names()};
  Explanation out{.program_text = program.text, .machine = machine, .dim_names = setting.order, .dims = *dims};
  const std::vector<Work> work = count(program);
  for (std::size_t i = 0; i < work.size(); ++i) {
    auto prediction = predict(work[i], setting);
    if (!prediction) return placed(prediction.error(), program, program.statements[i]);
    out.ops.push_back(std::move(*prediction));
  }
  auto total = total_of(out.ops, setting);
  if (!total) return total.error();
  out.total = std::move(*total);
  return out;
}

Result<Explanation> explain(Flops flops, Bytes bytes, const Machine& machine, DType dtype) {
  const auto counted_flops = whole(flops.value, "FLOPs", 0), counted_bytes = whole(bytes.value, "bytes", 1);
  if (!counted_flops) return counted_flops.error();
  if (!counted_bytes) return counted_bytes.error();
  const auto bandwidth = machine.bandwidth();
  if (!bandwidth) return bandwidth.error();
  const std::string text = fmt::format("{} FLOP, {} B", flops.value, bytes.value);
  const Work work{.name = "numbers",
                  .text = text,
                  .contraction = true,
                  .math = dtype,
                  .flops = *counted_flops,
                  .bytes_in = *counted_bytes};
  const Setting setting{machine, bandwidth->value, {}, {}};
  Explanation out{.program_text = text, .machine = machine};
  auto prediction = predict(work, setting);
  if (!prediction) return prediction.error();
  out.ops.push_back(std::move(*prediction));
  auto total = total_of(out.ops, setting);
  if (!total) return total.error();
  out.total = std::move(*total);
  return out;
}

}  // namespace ridge

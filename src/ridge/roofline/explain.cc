// Each operation against the two roofs of a machine: T_math = FLOPs/peak, T_memory = bytes/bandwidth. If computing and
// moving overlap perfectly the larger is the time, if not at all their sum. 1e12 FLOP and 1e9 B at 9.89e14 FLOP/s and
// 1e10 B/s: 1.01 ms and 0.1 s, so between 0.1 s and 0.10101 s, and memory is the limit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/program/token.h"
#include "ridge/roofline/sums.h"

namespace ridge {
namespace {

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

Status judge(Prediction& p, const Polynomial& bytes_formula, const Setting& setting) {
  const double bytes = bytes_formula.real(setting.sizes);  // int4: the halves that *p.bytes rounds up
  p.intensity = static_cast<double>(*p.flops) / bytes;
  p.time_memory_s = bytes / setting.bandwidth;
  if (p.link) p.time_network_s = p.work.bytes_sent.real(setting.sizes) / *p.link;
  if (!p.peak) return Done{};
  p.time_math_s = static_cast<double>(*p.flops) / p.peak->rate.value;
  p.time_lower_s = std::max({*p.time_math_s, *p.time_memory_s, p.time_network_s.value_or(0)});
  p.time_upper_s = *p.time_math_s + *p.time_memory_s + p.time_network_s.value_or(0);
  std::vector<Roof> roofs{{Limiter::compute, p.work.flops, p.peak->rate.value, *p.time_math_s},
                          {Limiter::memory, bytes_formula, setting.bandwidth, *p.time_memory_s}};
  if (p.time_network_s) roofs.push_back({Limiter::network, p.work.bytes_sent, *p.link, *p.time_network_s});
  const auto order = ranked(std::move(roofs), setting);
  if (!order) return order.error();
  p.limiter = order->at(0);
  p.runner_up = order->at(1);
  return Done{};
}

Result<Prediction> predict(const Work& work, const Setting& setting) {
  Prediction p{.work = work};
  const Polynomial bytes_formula = work.bytes();
  const auto flops = number(work.flops, setting.dims), bytes = number(bytes_formula, setting.dims);
  if (!flops) return flops.error();
  if (!bytes) return bytes.error();
  const auto peak = peak_for(work, setting.machine);
  if (!peak) return peak.error();
  p.flops = *flops;
  p.bytes = *bytes;
  p.peak = peak->peak;
  p.missing = peak->missing;
  p.bandwidth = setting.bandwidth;
  if (!work.bytes_sent.zero()) p.link = setting.link;
  p.intensity_formula = intensity_formula(reduced(work.flops, bytes_formula), setting.order);
  if (p.peak) p.ridge = p.peak->rate.value / setting.bandwidth;
  add_thresholds(p, work.flops, p.peak ? p.peak->rate.value : 0, setting);
  if (p.flops && p.bytes) {
    const Status judged = judge(p, bytes_formula, setting);
    if (!judged) return judged.error();
  }
  return p;
}

std::optional<Error> mesh_without_size(const Program& program, const Bindings& dims) {
  for (const MeshAxis& axis : program.mesh)
    if (!dims.contains(axis.name))
      return input_error(
          fmt::format("mesh axis {} has no size; expected one to count what each device does", axis.name),
          fmt::format("-d {0}=4, or a line mesh {0} = 4", axis.name));
  return std::nullopt;
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

Result<double> link_of(const Machine& machine) {
  if (!machine.links.empty()) return machine.links.front().bandwidth.value;
  return input_error(fmt::format("machine '{}' has no link on record", machine.name),
                     "give its rate one way: --link 4.5e10");
}

Status check_cut(const Split& cut, const Setting& setting) {
  if (std::find(setting.order.begin(), setting.order.end(), cut.dim) == setting.order.end())
    return usage_error(
        fmt::format("the program has no dimension '{}' to split; it has {}", cut.dim, fmt::join(setting.order, ", ")));
  const auto size = setting.dims.find(cut.dim);
  if (size != setting.dims.end() && size->second % cut.chips != 0)
    return input_error(
        fmt::format("expected {} to be a multiple of the {} chips, found {}", cut.dim, cut.chips, size->second),
        fmt::format("-d {}={}", cut.dim, (size->second / cut.chips + 1) * cut.chips));
  return Done{};
}

std::size_t threshold_work(const std::vector<Work>& work) {
  std::size_t sum = 0;
  for (const Work& one : work) {
    const std::size_t dims = std::max(one.flops.symbols().size(), one.bytes().symbols().size());
    sum += dims * dims;
  }
  return sum;
}

void name_followers(Explanation& out, const Program& program, const Followers& followers) {
  const auto named = [&](const std::string& name) {
    for (const auto& [dim, following] : followers)
      for (const auto& size : following.sizes)
        if (size.first == name) return true;
    return false;
  };
  for (const Dimension& dim : program.dims) {
    if (named(dim.name)) out.derived.push_back(fmt::format("{} = {}", dim.name, dim.value->text(out.dim_names)));
    const auto following = followers.find(dim.name);
    if (following != followers.end() && !following->second.solvable) out.unsolved.push_back(dim.name);
  }
}

}  // namespace

Result<Explanation> explain(const Program& program, const Machine& machine, const Bindings& given,
                            const std::optional<Split>& cut, Thresholds thresholds) {
  const auto dims = program.bind(given);
  if (!dims) return dims.error();
  const auto bandwidth = machine.bandwidth();
  if (!bandwidth) return bandwidth.error();
  if (auto missing = mesh_without_size(program, *dims)) return *std::move(missing);
  if (cut && !program.mesh.empty())
    return usage_error("expected --split of a program that is not sharded", "its text says how it is split already");
  Setting setting{machine, bandwidth->value, *dims, program.dim_names(), followers(program, given)};
  setting.sizes = {dims->begin(), dims->end()};
  if (cut)
    if (const Status possible = check_cut(*cut, setting); !possible) return possible.error();
  std::vector<Work> work = cut ? count(program, *cut) : count(program, *dims);
  if (cut || std::any_of(work.begin(), work.end(), [](const Work& one) { return !one.bytes_sent.zero(); })) {
    const auto link = link_of(machine);
    if (!link) return link.error();
    setting.link = *link;
  }
  const bool small = threshold_work(work) <= max_threshold_work;
  setting.thresholds = small && thresholds == Thresholds::solved;
  Explanation out{
      .program_text = program.text, .machine = machine, .dim_names = setting.order, .dims = *dims, .split = cut};
  out.thresholds_left_out = !small;
  name_followers(out, program, setting.followers);
  for (const MeshAxis& axis : program.mesh) out.mesh_names.push_back(axis.name);
  out.ops.reserve(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    auto prediction = predict(work[i], setting);
    if (!prediction) return placed(prediction.error(), program, program.statements[i]);
    out.ops.push_back(*std::move(prediction));
  }
  auto total = total_of(out.ops, setting);
  if (!total) return total.error();
  out.total = *std::move(total);
  if (cut) setting.dims[split_axis] = cut->chips;
  auto fused = fused_of(cut ? sharded(program, *cut) : program, work, out, setting);
  if (!fused) return fused.error();
  out.fused = *std::move(fused);
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
  const Setting setting{machine, bandwidth->value, {}, {}, {}};
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

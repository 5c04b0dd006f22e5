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
  std::optional<double> link = {};  // B/s, where the program is split
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

// The roofs of an operation whose numbers are known, from the one that takes longest on; of equals the first listed.
Result<std::vector<Limiter>> ranked(const Prediction& p, const Setting& setting) {
  struct Roof {
    Limiter name;
    Polynomial count;
    double rate;
  };
  std::vector<Roof> roofs{{Limiter::compute, p.work.flops, p.peak->rate.value},
                          {Limiter::memory, p.work.bytes(), setting.bandwidth}};
  if (p.time_network_s) roofs.push_back({Limiter::network, p.work.bytes_sent, *setting.link});
  std::vector<Limiter> order;
  while (!roofs.empty()) {
    std::size_t top = 0;
    for (std::size_t i = 1; i < roofs.size(); ++i) {
      const auto above =
          compute_bound(reduced(roofs[top].count, roofs[i].count), setting.dims, {roofs[top].rate, roofs[i].rate});
      if (!above) return above.error();
      if (!*above) top = i;
    }
    order.push_back(roofs[top].name);
    roofs.erase(roofs.begin() + static_cast<std::ptrdiff_t>(top));
  }
  return order;
}

Status judge(Prediction& p, const Setting& setting) {
  const std::map<std::string, double> sizes(setting.dims.begin(), setting.dims.end());
  const double bytes = p.work.bytes().real(sizes);  // int4: the halves that *p.bytes rounds up
  p.intensity = static_cast<double>(*p.flops) / bytes;
  p.time_memory_s = bytes / setting.bandwidth;
  if (setting.link && !p.work.bytes_sent.zero()) p.time_network_s = p.work.bytes_sent.real(sizes) / *setting.link;
  if (!p.peak) return Done{};
  p.time_math_s = static_cast<double>(*p.flops) / p.peak->rate.value;
  p.time_lower_s = std::max({*p.time_math_s, *p.time_memory_s, p.time_network_s.value_or(0)});
  p.time_upper_s = *p.time_math_s + *p.time_memory_s + p.time_network_s.value_or(0);
  const auto order = ranked(p, setting);
  if (!order) return order.error();
  p.limiter = order->at(0);
  p.runner_up = order->at(1);
  return Done{};
}

// Every pair of roofs that the operation has.
void add_thresholds(Prediction& p, const Setting& setting) {
  const Polynomial flops = p.work.flops, bytes = p.work.bytes(), sent = p.work.bytes_sent;
  const auto add = [&](const Meeting& meeting) {
    for (Threshold& t : thresholds(meeting, setting.dims, setting.order)) p.thresholds.push_back(std::move(t));
  };
  if (p.peak) add({flops, bytes, {p.peak->rate.value, setting.bandwidth}});
  if (!p.link) return;
  if (p.peak) add({flops, sent, {p.peak->rate.value, *p.link}, {Limiter::compute, Limiter::network}});
  add({bytes, sent, {setting.bandwidth, *p.link}, {Limiter::memory, Limiter::network}});
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
  if (!work.bytes_sent.zero()) p.link = setting.link;
  p.intensity_formula = intensity_formula(reduced(work.flops, work.bytes()), setting.order);
  if (p.peak) p.ridge = p.peak->rate.value / setting.bandwidth;
  add_thresholds(p, setting);
  if (p.flops && p.bytes) {
    const Status judged = judge(p, setting);
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
  for (const Prediction& op : ops)
    if (op.time_network_s) total.time_network_s = total.time_network_s.value_or(0) + *op.time_network_s;
  total.time_lower_s = sum(ops, &Prediction::time_lower_s);
  total.time_upper_s = sum(ops, &Prediction::time_upper_s);
  for (const Prediction& op : ops)
    if (total.missing.find(op.missing) == std::string::npos)
      total.missing += (total.missing.empty() ? "" : ", ") + op.missing;
  if (!total.time_lower_s || ops.empty()) return;
  std::map<Limiter, double> shares{{Limiter::compute, 0}, {Limiter::memory, 0}};
  for (const Prediction& op : ops) shares[*op.limiter] += *op.time_lower_s;
  const auto largest = [&] {
    return std::max_element(shares.begin(), shares.end(), [](auto& a, auto& b) { return a.second < b.second; });
  };
  total.limiter = largest()->first;
  shares.erase(largest());
  total.runner_up = largest()->first;
}

Result<Prediction> total_of(const std::vector<Prediction>& ops, const Setting& setting) {
  Prediction total{.work = {.name = "total"}};
  total.bandwidth = setting.bandwidth;
  const auto integer = [](const Prediction& op) { return info(op.work.math).integer; };
  if (!ops.empty() && std::all_of(ops.begin(), ops.end(), integer)) total.work.math = ops.front().work.math;
  for (const Prediction& op : ops) {
    total.work.flops = total.work.flops + op.work.flops;
    total.work.bytes_in = total.work.bytes_in + op.work.bytes_in;
    total.work.bytes_out = total.work.bytes_out + op.work.bytes_out;
    total.work.bytes_sent = total.work.bytes_sent + op.work.bytes_sent;
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

// The whole program as one group: its operations' math one after the other, and only its inputs and outputs moved.
Result<std::optional<Prediction>> fused_of(const Program& program, const Prediction& total, const Setting& setting) {
  const auto inside = [](const Tensor& t) { return t.role == Role::intermediate; };
  if (std::none_of(program.tensors.begin(), program.tensors.end(), inside)) return std::optional<Prediction>();
  Prediction fused{.work = count_fused(program, setting.dims)};
  fused.work.math = total.work.math;
  fused.flops = total.flops;
  const auto bytes = number(fused.work.bytes(), setting.dims);
  if (!bytes) return bytes.error();
  fused.bytes = *bytes;
  fused.bandwidth = setting.bandwidth;
  fused.peak = total.peak;
  fused.ridge = total.ridge;
  fused.missing = total.missing;
  fused.intensity_formula = intensity_formula(reduced(fused.work.flops, fused.work.bytes()), setting.order);
  if (!fused.flops || !fused.bytes) return std::optional(fused);
  const double moved = fused.work.bytes().real({setting.dims.begin(), setting.dims.end()});
  fused.intensity = static_cast<double>(*fused.flops) / moved;
  fused.time_memory_s = moved / setting.bandwidth;
  fused.time_math_s = total.time_math_s;
  if (!fused.time_math_s) return std::optional(fused);
  fused.time_lower_s = std::max(*fused.time_math_s, *fused.time_memory_s);
  fused.time_upper_s = *fused.time_math_s + *fused.time_memory_s;
  const bool compute = *fused.time_math_s >= *fused.time_memory_s;
  fused.limiter = compute ? Limiter::compute : Limiter::memory;
  fused.runner_up = compute ? Limiter::memory : Limiter::compute;
  return std::optional(fused);
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

// Replaces every operation by one chip's part of it.
Status cut_up(std::vector<Work>& work, const Split& cut, const Setting& setting) {
  if (std::find(setting.order.begin(), setting.order.end(), cut.dim) == setting.order.end())
    return usage_error(
        fmt::format("the program has no dimension '{}' to split; it has {}", cut.dim, fmt::join(setting.order, ", ")));
  const auto size = setting.dims.find(cut.dim);
  if (size != setting.dims.end() && size->second % cut.chips != 0)
    return input_error(
        fmt::format("expected {} to be a multiple of the {} chips, found {}", cut.dim, cut.chips, size->second),
        fmt::format("-d {}={}", cut.dim, (size->second / cut.chips + 1) * cut.chips));
  for (Work& one : work) one = split(one, cut);
  return Done{};
}

}  // namespace

Result<Explanation> explain(const Program& program, const Machine& machine, const Bindings& given,
                            const std::optional<Split>& cut) {
  const auto dims = program.bind(given);
  if (!dims) return dims.error();
  const auto bandwidth = machine.bandwidth();
  if (!bandwidth) return bandwidth.error();
  if (auto missing = mesh_without_size(program, *dims)) return *std::move(missing);
  if (cut && !program.mesh.empty())
    return usage_error("expected --split of a program that is not sharded", "its text says how it is split already");
  Setting setting{machine, bandwidth->value, *dims, program.dim_names()};
  std::vector<Work> work = count(program, *dims);
  if (cut) {
    const auto link = link_of(machine);
    if (!link) return link.error();
    setting.link = *link;
    if (const Status done = cut_up(work, *cut, setting); !done) return done.error();
  }
  Explanation out{
      .program_text = program.text, .machine = machine, .dim_names = setting.order, .dims = *dims, .split = cut};
  for (const Dimension& dim : program.dims)
    if (dim.value && !dim.value->constant() && !given.contains(dim.name) && dims->contains(dim.name))
      out.derived.push_back(
          fmt::format("{} = {} held at {}", dim.name, dim.value->text(setting.order), dims->at(dim.name)));
  for (const MeshAxis& axis : program.mesh) out.mesh_names.push_back(axis.name);
  for (std::size_t i = 0; i < work.size(); ++i) {
    auto prediction = predict(work[i], setting);
    if (!prediction) return placed(prediction.error(), program, program.statements[i]);
    out.ops.push_back(std::move(*prediction));
  }
  auto total = total_of(out.ops, setting);
  if (!total) return total.error();
  out.total = std::move(*total);
  if (cut) return out;
  auto fused = fused_of(program, out.total, setting);
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

// Each operation against the two roofs of a machine: T_math = FLOPs/peak, T_memory = bytes/bandwidth. If computing and
// moving overlap perfectly the larger is the time, if not at all their sum. 1e12 FLOP and 1e9 B at 9.89e14 FLOP/s and
// 1e10 B/s: 1.01 ms and 0.1 s, so between 0.1 s and 0.10101 s, and memory is the limit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "ridge/program/token.h"
#include "ridge/roofline/routines/routings.h"
#include "ridge/roofline/routines/windows.h"
#include "ridge/roofline/sizes/products.h"
#include "ridge/roofline/sizes/rebinding.h"
#include "ridge/roofline/sums.h"

namespace ridge {
namespace {

struct PeakFound {
  std::optional<Peak> peak;
  std::string missing = {};
};

// An f32 contraction and everything that is not one run on the vector unit, which a machine may leave unsaid. What
// computes nothing needs none.
Result<PeakFound> peak_for(const Work& work, const Machine& machine) {
  if (work.contraction && work.math != DType::f32) {
    const auto peak = machine.contraction_peak(work.math);
    if (!peak) return peak.error();
    return PeakFound{**peak};
  }
  if (const Peak* peak = machine.pointwise_peak()) return PeakFound{*peak};
  return PeakFound{std::nullopt, work.flops.zero() ? "" : "vector f32 peak of " + machine.name};
}

// The roofs that are known, the longest first among equals: compute, memory, network, the launch.
std::vector<Roof> roofs_of(const Prediction& p, const Polynomial& bytes, const Setting& setting) {
  std::vector<Roof> roofs;
  if (p.peak && p.time_math_s) roofs.push_back({Limiter::compute, p.work.flops, p.peak->rate.value, *p.time_math_s});
  roofs.push_back({Limiter::memory, bytes, setting.bandwidth, *p.time_memory_s});
  if (p.time_network_s) roofs.push_back({Limiter::network, p.work.load, *p.link, *p.time_network_s});
  if (p.launch_s > 0) roofs.push_back({Limiter::overhead, 1, 1 / p.launch_s, p.launch_s});
  return roofs;
}

Status judge(Prediction& p, const Polynomial& bytes_formula, const Setting& setting) {
  const double bytes = bytes_formula.real(setting.sizes);  // int4: the halves that *p.bytes rounds up
  p.intensity = static_cast<double>(*p.flops) / bytes;
  p.time_memory_s = bytes / setting.bandwidth;
  if (p.link) {
    p.bytes_sent = p.work.bytes_sent.real(setting.sizes);
    p.time_network_s = p.work.load.real(setting.sizes) / *p.link;
  }
  if (p.peak) p.time_math_s = static_cast<double>(*p.flops) / p.peak->rate.value;
  if (p.missing.empty() && !p.peak) p.time_math_s = 0;
  const double math = p.time_math_s.value_or(0), network = p.time_network_s.value_or(0);
  p.time_lower_s = std::max({math, *p.time_memory_s, network, p.launch_s});
  p.time_upper_s = std::max(math + *p.time_memory_s + network, p.launch_s);
  return limited(p, roofs_of(p, bytes_formula, setting), setting);
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
  p.launch_s = setting.launch_s;
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

constexpr const char* large_factor = "2^20";  // by which counts beyond 2^63 are written, as a size of its own

Result<Polynomial> whole(double count, std::string_view unit, double least) {
  if (!std::isfinite(count) || count < least || count != std::floor(count))
    return usage_error(fmt::format("expected a whole number of {} from {} on, found {}", unit, least, count));
  if (count > 1e38)
    return input_error(fmt::format("expected a count below 10^38, found {} {}", count, unit), "use smaller sizes");
  std::vector<std::string> factors;
  for (; count >= 0x1p63; count /= 0x1p20) factors.emplace_back(large_factor);
  return Polynomial::product(static_cast<std::int64_t>(count), factors);
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
  }
}

// Dimensions of which an operation with a peak says no threshold, though it has them or what follows them.
std::vector<std::string> without_threshold(const Explanation& e, const Followers& followers) {
  std::set<std::string> found;
  for (const Prediction& p : e.ops) {
    if (!p.peak) continue;
    std::set<std::string> told, here;
    for (const Threshold& t : p.thresholds) told.insert(t.dim);
    for (std::string& dim : p.work.bytes().symbols()) here.insert(std::move(dim));
    for (const auto& [dim, following] : followers)
      for (const auto& size : following.sizes)
        if (here.contains(size.first)) here.insert(dim);
    std::set_difference(here.begin(), here.end(), told.begin(), told.end(), std::inserter(found, found.end()));
  }
  std::vector<std::string> out;
  for (const std::string& dim : e.dim_names)
    if (found.contains(dim)) out.push_back(dim);
  return out;
}

// The pairs that masks let through, in closed form where there is one, else as a symbol with a value among the sizes.
std::vector<MaskCount> count_masks(const Program& program, const Bindings& given, std::vector<Work>& work,
                                   Setting& setting) {
  std::vector<MaskCount> out;
  for (const Mask& mask : masks_of(program).all) {
    const auto counts = [&](const Work& one) {
      return one.flops.degree(mask.symbol) > 0 || one.bytes_in.degree(mask.symbol) > 0;
    };
    const bool needed = std::any_of(work.begin(), work.end(), counts);
    if (mask.window || mask.routing) {
      if (mask.window && !always_fits(program, *mask.window, given))
        for (std::string& dim : hangs_on(*mask.window)) setting.tied.push_back(std::move(dim));
      const Polynomial all = mask.window ? every(*mask.window, mask.of_window) : every(*mask.routing, mask.of_routing);
      out.push_back({mask, needed ? Polynomial::symbol(mask.symbol) : all, all, pairs(mask, setting.dims), {}});
      if (needed && out.back().through_count) setting.dims[mask.symbol] = *out.back().through_count;
      if (const auto value = all.evaluate(setting.dims); value) out.back().all_count = *value;
      continue;
    }
    if (!needed) continue;
    const Polynomial all = Polynomial::product(1, {mask.rows, mask.columns});
    MaskCount count{mask, Polynomial::symbol(mask.symbol), all, pairs(mask, setting.dims), {}};
    if (const auto form = closed_form(mask, program, given)) {
      count.through = *form;
      for (Work& one : work) one.flops = one.flops.substitute(mask.symbol, *form);
      setting.tied.push_back(form->degree(mask.rows) > 0 ? mask.columns : mask.rows);
    } else if (count.through_count) {
      setting.dims[mask.symbol] = *count.through_count;
    }
    if (all.all_in(setting.dims)) {
      const auto value = all.evaluate(setting.dims);
      if (value) count.all_count = *value;
    }
    out.push_back(std::move(count));
  }
  return out;
}

// H of G = H/8 does not take every size, nor does a dimension of sequences take another.
void tie_quotients(const Program& program, const Bindings& given, Setting& setting) {
  const auto fraction = [](const auto& term) { return term.second.den() != 1; };
  for (const Dimension& d : program.dims) {
    if (!lengths_along(program, d.name).empty()) setting.tied.push_back(d.name);
    if (!d.value || given.contains(d.name)) continue;
    if (std::none_of(d.value->terms().begin(), d.value->terms().end(), fraction)) continue;
    setting.tied.push_back(d.name);
    for (std::string& symbol : d.value->symbols()) setting.tied.push_back(std::move(symbol));
  }
}

// Over the machine's network, which it must have where anything is sent or a program is cut.
Status send(std::vector<Work>& work, const Program& program, bool cut, Setting& setting) {
  const auto sends = [](const Work& one) { return !one.bytes_sent.zero(); };
  if (!cut && std::none_of(work.begin(), work.end(), sends)) return Done{};
  auto network = network_of(setting.machine);
  if (!network) return network.error();
  for (const MeshAxis& axis : program.mesh)
    if (const auto size = setting.dims.find(axis.name); size != setting.dims.end())
      network->mesh.emplace_back(axis.name[0], size->second);
  route(work, *network);
  setting.link = network->used_rate();
  setting.network = *std::move(network);
  return Done{};
}

// What a network of messages and chunks makes of it.
void say_how_it_is_sent(Explanation& out, const Program& program) {
  for (const Prediction& p : out.ops)
    for (const Transfer& t : p.work.transfers) add_small_messages(out.small, t, *out.network);
  out.overlaps =
      overlaps(program, out, [&](const Transfer& transfer) { return sending_by_links(transfer, *out.network); });
}

// Each operation, all of them together, and what they hold.
Status judge_all(Explanation& out, const Program& program, const std::vector<Work>& work, const Setting& setting) {
  out.ops.reserve(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    auto prediction = predict(work[i], setting);
    if (!prediction) return placed(prediction.error(), program, program.statements[i]);
    out.ops.push_back(*std::move(prediction));
  }
  if (setting.thresholds) out.unsolved = without_threshold(out, setting.ways.followers);
  out.products = every_product(out.ops, setting);
  auto total = total_of(out.ops, setting);
  if (!total) return total.error();
  out.total = *std::move(total);
  return Done{};
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
  Setting setting{machine, bandwidth->value, *dims, program.dim_names()};
  setting.launch_s = launch_s(machine);
  if (cut)
    if (auto refused = refuse_split(program, *cut)) return *std::move(refused);
  const Program lies = cut ? sharded(program, *cut) : Program();
  const Program& placed_program = cut ? lies : program;
  if (cut) setting.dims[split_axis] = cut->chips;
  if (cut)
    if (auto uneven = block_fault(placed_program, setting.dims)) return *std::move(uneven);
  std::vector<Work> work = cut ? count(program, *cut, *dims) : count(program, *dims);
  for (const auto& [name, part] : largest_parts(placed_program, setting.dims)) setting.dims[name] = part;
  if (const Status sent = send(work, placed_program, cut.has_value(), setting); !sent) return sent.error();
  const bool small = threshold_work(work) <= max_threshold_work;
  setting.thresholds = small && thresholds == Thresholds::solved;
  Explanation out{.program_text = program.text, .machine = machine, .dim_names = setting.order, .split = cut};
  out.remarks = program.remarks;
  tie_quotients(program, given, setting);
  out.masks = count_masks(program, given, work, setting);
  out.dims = setting.dims;
  out.dims.erase(split_axis);
  setting.sizes = {setting.dims.begin(), setting.dims.end()};
  setting.ways = ways_of(program, placed_program, given, out);
  name_followers(out, program, setting.ways.followers);
  out.thresholds_left_out = !small;
  out.network = setting.network;
  for (const MeshAxis& axis : program.mesh) out.mesh_names.push_back(axis.name);
  if (const Status judged = judge_all(out, program, work, setting); !judged) return judged.error();
  const bool solved = thresholds == Thresholds::solved;  // up to which sizes it fits is a threshold as well
  if (out.network && !cut && solved) say_how_it_is_sent(out, program);
  out.memory = memory_of(placed_program, machine, setting.dims, solved ? setting.ways : Ways(), setting.order);
  auto fused = fused_of(placed_program, work, out, setting);
  if (!fused) return fused.error();
  out.fused = *std::move(fused);
  return out;
}

Memory memory_of(const Program& program, const Explanation& explanation, const Bindings& given, const Groups& groups) {
  Bindings sizes = explanation.dims;
  if (explanation.split) sizes[split_axis] = explanation.split->chips;
  const Program cut = explanation.split ? sharded(program, *explanation.split) : Program();
  const Program& lies = explanation.split ? cut : program;
  return memory_of(lies, explanation.machine, sizes, ways_of(program, lies, given, explanation), explanation.dim_names,
                   groups);
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
  const Bindings sizes{{large_factor, 1 << 20}};
  Setting setting{machine, bandwidth->value, sizes, {}};
  setting.sizes = {sizes.begin(), sizes.end()};
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

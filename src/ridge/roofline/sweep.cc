#include "ridge/roofline/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "ridge/base/cores.h"
#include "ridge/roofline/routines/routings.h"
#include "ridge/roofline/routines/windows.h"
#include "ridge/roofline/sizes/flat_program.h"
#include "ridge/roofline/split.h"
#include "ridge/roofline/sums.h"

namespace ridge {
namespace {

// Sizes in the order in which they can be computed: those of the ranges, then what hangs on them. The others keep the
// values that `first` gives them.
class Sizes {
 public:
  Sizes(const Program& program, const std::vector<Range>& ranges, const Bindings& first,
        const std::vector<MaskCount>& masks, const std::vector<PartOf>& parts)
      : first_(first) {
    for (const Range& range : ranges) names_.push_back(range.dim);
    const std::set<std::string> moving = moving_sizes(program);
    for (bool again = true; again;) {
      again = false;
      for (const Dimension& dim : program.dims) {
        if (!moving.contains(dim.name) || named(dim.name)) continue;
        const auto symbols = dim.value->symbols();
        const auto there = [&](const std::string& s) { return named(s) || !moving.contains(s); };
        const bool known = std::all_of(symbols.begin(), symbols.end(),
                                       [&](const std::string& s) { return named(s) || first_.contains(s); });
        if (!known || !std::all_of(symbols.begin(), symbols.end(), there)) continue;
        derived_.push_back(flat(*dim.value));
        names_.push_back(dim.name);
        again = true;
      }
    }
    for (const MaskCount& each : masks) masks_.push_back(flat(each.mask));
    for (const MaskCount& each : masks) names_.push_back(each.mask.symbol);
    for (const PartOf& each : parts) {
      if (named(each.dim))
        parts_.push_back({place(each.dim), each.parts});
      else
        fixed_parts_[each.name] = (first_.at(each.dim) - 1) / each.parts + 1;
    }
    for (const PartOf& each : parts)
      if (named(each.dim)) names_.push_back(each.name);
  }
  const std::vector<FlatPart>& parts() const { return parts_; }

  const std::vector<FlatMask>& masks() const { return masks_; }
  const Names& names() const { return names_; }
  const std::vector<FlatCount>& derived() const { return derived_; }

  FlatCount flat(Polynomial count) const {
    for (const std::string& symbol : count.symbols())
      if (!named(symbol)) count = count.substitute(symbol, Polynomial(fixed(symbol)));
    return FlatCount(count, names_);
  }
  // Of a program's counts. Errors: a dimension without a value, 2^63.
  Result<FlatCount> compiled(const Polynomial& count) const {
    for (const std::string& symbol : count.symbols())
      if (!named(symbol) && !first_.contains(symbol) && !fixed_parts_.contains(symbol))
        return usage_error(fmt::format("dimension '{}' has no value", symbol),
                           fmt::format("give it one or several: -d {0}=256, -d {0}=1..4096:*2", symbol));
    if (count.exact()) return flat(count);
    return input_error(fmt::format("expected a count below 2^63, found {}", count.text()), "use smaller sizes");
  }
  int place(const std::string& name) const {
    return static_cast<int>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }
  bool named(const std::string& name) const { return place(name) < static_cast<int>(names_.size()); }

 private:
  std::int64_t fixed(const std::string& symbol) const {
    const auto part = fixed_parts_.find(symbol);
    return part == fixed_parts_.end() ? first_.at(symbol) : part->second;
  }

  FlatMask flat(const Mask& mask) const {
    FlatMask out{mask, first_, {}};
    for (const std::string& dim : hangs_on(mask))
      if (named(dim)) out.moving.emplace_back(dim, place(dim));
    return out;
  }

  // What hangs on a range, directly or through others.
  std::set<std::string> moving_sizes(const Program& program) const {
    std::set<std::string> moving;
    for (bool again = true; again;) {
      again = false;
      for (const Dimension& dim : program.dims) {
        if (!dim.value || named(dim.name) || moving.contains(dim.name)) continue;
        const auto symbols = dim.value->symbols();
        const bool moves = std::any_of(symbols.begin(), symbols.end(),
                                       [&](const std::string& s) { return named(s) || moving.contains(s); });
        if (!moves) continue;
        moving.insert(dim.name);
        again = true;
      }
    }
    return moving;
  }

  const Bindings& first_;
  Names names_;
  std::vector<FlatCount> derived_;
  std::vector<FlatMask> masks_;
  std::vector<FlatPart> parts_;
  Bindings fixed_parts_;  // of sizes that no range moves
};

bool has_quotient(const Polynomial& size) {
  return std::any_of(size.terms().begin(), size.terms().end(), [](const auto& term) { return term.second.den() != 1; });
}

// Why a point may be unknown.
std::vector<std::string> reasons(const Program& program, const Sizes& sizes, const Explanation& e) {
  std::vector<std::string> out{"", "a count leaves 10^38", "a size leaves 2^63"};
  const std::size_t end = sizes.names().size() - sizes.parts().size() - sizes.masks().size();
  for (std::size_t i = end - sizes.derived().size(); i < end; ++i)
    for (const Dimension& dim : program.dims)
      if (dim.name == sizes.names()[i])
        out.push_back(fmt::format("{} = {} is {}", dim.name, dim.value->text(e.dim_names),
                                  has_quotient(*dim.value) ? "no whole number from 1 on" : "below 1"));
  for (const FlatMask& each : sizes.masks()) {
    const Mask& mask = each.mask;
    out.emplace_back();
    if (mask.window) out.back() = misfit(*mask.window);
    if (mask.routing) out.back() = misfit(*mask.routing);
  }
  return out;
}

Result<FlatProgram> compile(const Sizes& sizes, const Explanation& e) {
  FlatProgram out{.names = sizes.names(),
                  .derived = sizes.derived(),
                  .masks = sizes.masks(),
                  .parts = sizes.parts(),
                  .ops = {},
                  .sum = {.flops = FlatCount({}, {}), .bytes = FlatCount({}, {}), .load = FlatCount({}, {})},
                  .bandwidth = *e.total.bandwidth,
                  .link = e.total.link.value_or(1),
                  .launch_s = launch_s(e.machine),
                  .reasons = {}};
  for (const Prediction& p : e.ops) {
    auto flops = sizes.compiled(p.work.flops), bytes = sizes.compiled(p.work.bytes()),
         load = sizes.compiled(p.work.load), sent = sizes.compiled(p.work.bytes_sent);
    for (const auto* each : {&flops, &bytes, &load, &sent})
      if (!*each) return each->error();
    out.ops.push_back(
        {*std::move(flops), *std::move(bytes), *std::move(load), *std::move(sent), p.peak ? p.peak->rate.value : 0});
  }
  const WeighedFlops weighed = weighed_flops(e.ops);
  auto flops = sizes.compiled(weighed.flops), bytes = sizes.compiled(e.total.work.bytes()),
       load = sizes.compiled(e.total.work.load);
  for (const auto* each : {&flops, &bytes, &load})
    if (!*each) return each->error();
  out.sum = {*std::move(flops), weighed.peak, *std::move(bytes), *std::move(load)};
  return out;
}

// A part of the points; every part begins where the last range begins.
void fill(const FlatProgram& program, const std::vector<Range>& ranges, std::size_t first,
          std::span<SweepPoint> points) {
  const std::size_t n = ranges.size(), fastest = ranges.empty() ? 1 : ranges.back().values.size();
  std::vector<std::int64_t> sizes(program.names.size());
  std::vector<std::size_t> at(n);
  std::size_t rest = first;
  for (std::size_t i = n; i-- > 0; rest /= ranges[i].values.size()) {
    at[i] = rest % ranges[i].values.size();
    sizes[i] = ranges[i].values[at[i]];
  }
  for (std::size_t k = 0; k < points.size(); ++k) {
    points[k] = evaluate(program, sizes.data());
    if (k > 0 && (first + k) % fastest != 0)
      points[k].crossed =
          points[k].time_lower_s >= 0 && points[k - 1].time_lower_s >= 0 && points[k].limiter != points[k - 1].limiter;
    for (std::size_t i = n; i-- > 0;) {
      at[i] = at[i] + 1 == ranges[i].values.size() ? 0 : at[i] + 1;
      sizes[i] = ranges[i].values[at[i]];
      if (at[i] != 0) break;
    }
  }
}

}  // namespace

std::int64_t Sweep::value(std::size_t point, std::size_t range) const {
  for (std::size_t i = ranges.size() - 1; i > range; --i) point /= ranges[i].values.size();
  return ranges[range].values[point % ranges[range].values.size()];
}

Result<std::size_t> combinations(const std::vector<Range>& ranges) {
  std::size_t count = 1;
  std::set<std::string> seen;
  for (const Range& range : ranges) {
    if (!seen.insert(range.dim).second)
      return usage_error(fmt::format("dimension '{}' is given twice", range.dim), "give each dimension once");
    count *= range.values.size();
    if (count > max_sweep_points)
      return usage_error(fmt::format("expected at most {} points, found more", max_sweep_points),
                         "take larger steps, or fewer dimensions at a time");
  }
  return count;
}

namespace {

// The sizes of mesh axes among the ranges; everything else is swept.
Result<Bindings> mesh_sizes(const Program& program, const std::vector<Range>& ranges) {
  Bindings out;
  for (const Range& range : ranges)
    for (const MeshAxis& axis : program.mesh) {
      if (axis.name != range.dim) continue;
      if (range.values.size() > 1)
        return usage_error(
            fmt::format("expected one size of the mesh axis {}, found {}", axis.name, range.values.size()),
            "--split N=1,2,4 sweeps over chips, of a program that is not sharded");
      out[axis.name] = range.values.front();
    }
  return out;
}

// Its counts with what the mesh splits in the largest parts.
void in_parts(Explanation& e, const Program& lies, const Bindings& mesh) {
  Bindings axes;
  for (const MeshAxis& axis : lies.mesh)
    if (const auto size = mesh.find(axis.name); size != mesh.end()) axes.insert(*size);
  std::vector<Work> work = count_in_parts(lies, axes);
  if (e.network) {
    Network network = *e.network;
    route(work, network);
  }
  e.total.work = {.name = "total"};
  for (std::size_t i = 0; i < work.size(); ++i) {
    e.total.work.flops += work[i].flops;
    e.total.work.bytes_in += work[i].bytes_in;
    e.total.work.bytes_out += work[i].bytes_out;
    e.total.work.load += work[i].load;
    e.ops[i].work = std::move(work[i]);
  }
}

// With a size of its own for the blocks in a row of each block-scaled tensor, which must come out whole.
Program with_blocks(const Program& program, const std::optional<Split>& cut, Bindings devices) {
  const Program lies = cut ? sharded(program, *cut) : program;
  if (cut) devices[split_axis] = cut->chips;
  Program out = program;
  for (const Tensor& tensor : lies.tensors) {
    if (!is_scaled(tensor.dtype) || tensor.axes.empty() || !tensor.axes.back().named()) continue;
    std::int64_t each = info(tensor.dtype).block;
    for (const char letter : tensor.axes.back().mesh)
      if (const auto size = devices.find(std::string(1, letter)); size != devices.end()) each *= size->second;
    out.dims.push_back(
        {.name = "blocks of " + tensor.name, .value = Polynomial::symbol(tensor.axes.back().dim) * Rational(1, each)});
  }
  return out;
}

Result<FlatProgram> compiled(const Program& text, const Machine& machine, const std::vector<Range>& ranges,
                             const std::optional<Split>& cut) {
  const auto mesh = mesh_sizes(text, ranges);
  if (!mesh) return mesh.error();
  const Program program = with_blocks(text, cut, *mesh);
  for (const Range& range : ranges)
    if (!lengths_along(program, range.dim).empty())
      return usage_error(fmt::format("expected no sizes of '{}', whose sequences have lengths of their own", range.dim),
                         "other lengths are another program");
  Program open = program, names;
  names.dims = program.dims;
  names.mesh = program.mesh;
  Bindings first;
  for (const Range& range : ranges) first[range.dim] = range.values.front();
  for (Dimension& dim : names.dims) dim.value.reset();
  if (const auto known = names.bind(first); !known) return known.error();
  for (Dimension& dim : open.dims)
    if (first.contains(dim.name)) dim.value.reset();
  const auto fixed = open.bind(*mesh);  // what hangs on no range
  if (!fixed) return fixed.error();
  for (Dimension& dim : open.dims) dim.value.reset();
  auto explanation = explain(open, machine, *mesh, cut);  // in formulas
  if (!explanation) return explanation.error();
  const Program lies = cut ? sharded(open, *cut) : open;
  Bindings devices = *fixed;
  if (cut) devices[split_axis] = cut->chips;
  in_parts(*explanation, lies, devices);
  const Sizes sizes(program, ranges, *fixed, explanation->masks, all_parts(lies, devices));
  auto flat = compile(sizes, *explanation);
  if (!flat) return flat.error();
  flat->reasons = reasons(program, sizes, *explanation);
  flat->sends = !explanation->total.work.load.zero();
  flat->left_out = explanation->total.missing;
  return flat;
}

}  // namespace

Result<SweepLine> sweep_line(const Program& program, const Machine& machine, const std::vector<Range>& ranges,
                             const std::optional<Split>& cut, const std::function<void(double)>& done) {
  const auto count = combinations(ranges);
  if (!count) return count.error();
  const auto flat = compiled(program, machine, ranges, cut);
  if (!flat) return flat.error();
  SweepLine line{.machine = machine.name,
                 .dtype = {},
                 .split = cut,
                 .points = std::vector<SweepPoint>(*count),
                 .reasons = flat->reasons,
                 .sends = flat->sends,
                 .left_out = flat->left_out};
  // Blocks are whole runs of the last range, about 2^15 points, taken by whichever thread is free.
  const std::size_t fastest = ranges.empty() ? 1 : ranges.back().values.size();
  const std::size_t block = std::max<std::size_t>(1, 32768 / fastest) * fastest;
  std::atomic<std::size_t> next = 0;
  const auto work = [&](bool tells) {
    for (std::size_t from = next.fetch_add(block); from < *count; from = next.fetch_add(block)) {
      fill(*flat, ranges, from, std::span(line.points).subspan(from, std::min(block, *count - from)));
      if (tells && done) done(static_cast<double>(std::min(*count, from + block)) / static_cast<double>(*count));
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < usable_cores() && *count > block; ++i) others.emplace_back(work, false);
    work(true);
  }
  return line;
}

}  // namespace ridge

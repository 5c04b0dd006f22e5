#include "ridge/roofline/sizes/between.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/roofline/roofs.h"
#include "ridge/roofline/sizes/crossings.h"
#include "ridge/roofline/sizes/rebinding.h"

namespace ridge {
namespace {

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == ',') out.emplace_back();
    if (c != ',' && c != ' ' && c != '\t') out.back() += c;
  }
  return out;
}

using Side = std::vector<const Prediction*>;

Result<Side> side(const Explanation& e, const std::vector<std::string>& names) {
  Side out;
  std::vector<std::string> known;
  for (const Prediction& p : e.ops) known.push_back(p.work.name);
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end())
      return usage_error(fmt::format("expected statements of the program on both sides of '=', found '{}'", name),
                         fmt::format("they are {}", fmt::join(known, ", ")));
    out.push_back(&e.ops[static_cast<std::size_t>(found - known.begin())]);
  }
  return out;
}

Polynomial flops_of(const Side& side) {
  Polynomial out;
  for (const Prediction* p : side) out += p->work.flops;
  return out;
}

// The sum of the lower bounds at other sizes.
double time_of(const Side& side, const Bindings& dims) {
  const std::map<std::string, double> sizes(dims.begin(), dims.end());
  double out = 0;
  for (const Prediction* p : side) {
    const double math = p->peak ? p->work.flops.real(sizes) / p->peak->rate.value : 0;
    const double network = p->link ? p->work.load.real(sizes) / *p->link : 0;
    out += std::max({math, p->work.bytes().real(sizes) / *p->bandwidth, network, p->launch_s});
  }
  return out;
}

std::vector<Threshold> in_time(const Side& first, const Side& second, const Ways& ways,
                               const std::vector<std::string>& dims) {
  std::vector<Threshold> out;
  for (const std::string& dim : dims) {
    const auto ratio = [&](std::int64_t value) {
      const auto sizes = ways.rebind(dim, value);
      return sizes ? time_of(first, *sizes) / time_of(second, *sizes) : std::nan("");
    };
    const auto found = crossings({ratio, [&](std::int64_t value) { return ratio(value) >= 1; }});
    if (!found) continue;
    for (const Crossing& crossing : found->all)
      out.push_back({.dim = dim,
                     .relation = crossing.upwards ? Relation::at_least : Relation::at_most,
                     .value = crossing.value,
                     .numerical = true});
    if (!found->all.empty()) continue;
    out.push_back(
        {.dim = dim, .relation = found->above_at_first ? Relation::always : Relation::never, .numerical = true});
  }
  return out;
}

}  // namespace

Result<Between> between(const Program& program, const Machine& machine, const Bindings& given,
                        const std::string& sides) {
  const std::size_t equals = sides.find('=');
  if (equals == std::string::npos)
    return usage_error(fmt::format("expected STATEMENTS=STATEMENTS after --between, found '{}'", sides),
                       "--between 's, o = q, k, v'");
  const auto e = explain(program, machine, given);
  if (!e) return e.error();
  Between out{.first = names_in(sides.substr(0, equals)), .second = names_in(sides.substr(equals + 1))};
  const auto first = side(*e, out.first), second = side(*e, out.second);
  if (!first) return first.error();
  if (!second) return second.error();
  out.first_flops = flops_of(*first);
  out.second_flops = flops_of(*second);
  out.order = e->dim_names;
  const Ways ways = ways_of(program, program, given, *e);
  out.flops = thresholds({out.first_flops, out.second_flops, {1, 1}}, e->dims, out.order, ways);
  const auto known = [&](const Prediction& p) { return p.time_lower_s.has_value(); };
  if (!std::all_of(e->ops.begin(), e->ops.end(), known)) return out;
  out.time = in_time(*first, *second, ways, out.order);
  return out;
}

}  // namespace ridge

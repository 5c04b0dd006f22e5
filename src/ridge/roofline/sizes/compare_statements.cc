#include "ridge/roofline/sizes/compare_statements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/roofline/roofs.h"
#include "ridge/roofline/sizes/crossings.h"
#include "ridge/roofline/sizes/rebinding.h"

namespace ridge {
namespace {

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == ',') out.emplace_back();
    if (c != ',' && c != ' ' && c != '\t') out.back() += c;
  }
  return out;
}

using StatementSet = std::vector<const Prediction*>;

Result<StatementSet> find_statements(const Explanation& e, const std::vector<std::string>& names) {
  StatementSet out;
  std::vector<std::string> known;
  for (const Prediction& p : e.ops) known.push_back(p.work.name);
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end())
      return usage_error(fmt::format("expected statements of the program on both sides of '=', found '{}'", name),
                         fmt::format("they are {}", fmt::join(known, ", ")));
    out.push_back(&e.ops[found - known.begin()]);
  }
  return out;
}

Polynomial flops_of(const StatementSet& statements) {
  Polynomial out;
  for (const Prediction* p : statements) out += p->work.flops;
  return out;
}

// Returns the sum of the lower time bounds at other sizes.
double sum_lower_bounds(const StatementSet& statements, const std::map<std::string, double>& sizes) {
  double out = 0;
  for (const Prediction* p : statements) {
    const double math = p->peak ? p->math_load.evaluate_double(sizes) / p->peak->rate.value : 0;
    const double network = network_seconds(p->work, sizes);
    out += std::max({math, p->work.bytes().evaluate_double(sizes) / *p->bandwidth, network, p->launch_s});
  }
  return out;
}

std::vector<Threshold> find_time_thresholds(const StatementSet& first, const StatementSet& second,
                                            const ThresholdOptions& options, const std::vector<std::string>& dims) {
  std::vector<Threshold> out;
  for (const std::string& dim : dims) {
    const auto ratio = [&](std::int64_t value) {
      const BoundSizes* sizes = options.rebind(dim, value);
      return sizes ? sum_lower_bounds(first, sizes->values) / sum_lower_bounds(second, sizes->values) : std::nan("");
    };
    const auto found = find_crossings({ratio, [&](std::int64_t value) { return ratio(value) >= 1; }});
    if (!found) continue;
    for (const Crossing& crossing : found->all)
      out.push_back({.dim = dim,
                     .relation = crossing.upwards ? Relation::at_least : Relation::at_most,
                     .value = crossing.value,
                     .numerical = true});
    if (!found->all.empty()) continue;
    out.push_back(
        {.dim = dim, .relation = found->starts_above ? Relation::always : Relation::never, .numerical = true});
  }
  return out;
}

}  // namespace

Result<StatementComparison> compare_statements(const Program& program, const Machine& machine, const Bindings& given,
                                               const std::string& sides) {
  const std::size_t equals = sides.find('=');
  if (equals == std::string::npos)
    return usage_error(fmt::format("expected STATEMENTS=STATEMENTS after --between, found '{}'", sides),
                       "--between 's, o = q, k, v'");
  RIDGE_TRY(e, explain(program, machine, given));
  StatementComparison out{.first = split_names(sides.substr(0, equals)),
                          .second = split_names(sides.substr(equals + 1))};
  RIDGE_TRY(first, find_statements(e, out.first));
  RIDGE_TRY(second, find_statements(e, out.second));
  out.first_flops = flops_of(first);
  out.second_flops = flops_of(second);
  out.order = e.dim_names;
  const ThresholdOptions options = make_threshold_options(program, program, given, e);
  out.flops_thresholds = find_thresholds({out.first_flops, out.second_flops, {1, 1}}, e.dims, out.order, options);
  const auto known = [&](const Prediction& p) { return p.time_lower_s.has_value(); };
  if (!std::all_of(e.ops.begin(), e.ops.end(), known)) return out;
  out.time_thresholds = find_time_thresholds(first, second, options, out.order);
  return out;
}

}  // namespace ridge

#include "ridge/roofline/next.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/program/weights.h"
#include "ridge/roofline/groups.h"
#include "ridge/roofline/split.h"

namespace ridge {
namespace {

constexpr double least_share = 0.01;    // of the program's time; what gains less is not worth a kernel
constexpr std::size_t most_paired = 8;  // dimensions tried two at a time, 28 pairs
constexpr DType narrow = DType::int8;   // fp8 takes as many bytes

struct Variant {
  double seconds, moving;  // of the program; of what it moves, at the memory's rate
};

// A program as it was explained, and how variants of it are timed.
struct Asked {
  const Program& program;
  const Explanation& explanation;
  const TimeOf& time_of;
  double seconds;  // of the program as it is

  // What is gained by another program or split; none: it cannot be counted or timed.
  std::optional<double> explained(const Program& other, const std::optional<Split>& cut) const {
    const auto variant = explain(other, explanation.machine, sizes(), cut, Thresholds::left_out);
    return variant ? time_of(other, *variant) : std::nullopt;
  }
  // Of the program's dimensions and mesh alone: a mask's pairs and the largest parts have values of their own.
  Bindings sizes() const {
    Bindings out;
    for (const std::string& dim : program.dim_names())
      if (const auto size = explanation.dims.find(dim); size != explanation.dims.end()) out.insert(*size);
    for (const MeshAxis& axis : program.mesh)
      if (const auto size = explanation.dims.find(axis.name); size != explanation.dims.end()) out.insert(*size);
    return out;
  }
  std::optional<Variant> fused(const Groups& groups) const {
    const auto variant = grouped(program, explanation, groups);
    const auto taken = variant ? time_of(program, *variant) : std::nullopt;
    if (!taken || !variant->total.bytes || !variant->total.bandwidth) return std::nullopt;
    return Variant{*taken, static_cast<double>(*variant->total.bytes) / *variant->total.bandwidth};
  }
  const Prediction& op(int statement) const { return explanation.ops[static_cast<std::size_t>(statement)]; }
};

NextStep worth(const Asked& asked, std::string what, double seconds, std::string options) {
  return {std::move(what), std::max(0.0, asked.seconds - seconds), seconds, std::move(options)};
}

// --- fuse

// An intermediate's maker and its readers: what has to share a kernel so that it is never stored.
std::vector<int> around(const Program& program, int tensor) {
  std::vector<int> out;
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    const std::vector<int> read = operands(statement);
    if (statement.result() == tensor || std::find(read.begin(), read.end(), tensor) != read.end())
      out.push_back(static_cast<int>(s));
  }
  return out;
}

// No more is gained than all but the longest of them take.
bool may_gain(const Asked& asked, const std::vector<int>& statements) {
  double sum = 0, longest = 0;
  for (const int s : statements) {
    const double seconds = asked.op(s).time_lower_s.value_or(0);
    sum += seconds;
    longest = std::max(longest, seconds);
  }
  return sum - longest >= least_share * asked.seconds;
}

// Whether `tried` are `groups` with those that hold `near` as one, and nothing else taken along.
bool is_near(const Groups& groups, const Groups& tried, const std::vector<int>& near) {
  const auto touched = std::count_if(groups.begin(), groups.end(), [&](const std::vector<int>& group) {
    return std::any_of(group.begin(), group.end(),
                       [&](int s) { return std::find(near.begin(), near.end(), s) != near.end(); });
  });
  return tried.size() + static_cast<std::size_t>(touched) == groups.size() + 1;
}

// Statements are joined around one intermediate after the other, as long as each gains by itself, and gains because
// less is moved: two statements that merely overlap, one at the memory and one at the units, need no kernel for that.
Groups worth_fusing(const Asked& asked) {
  const Dependences dependences(asked.program);
  Groups groups = apart(asked.program);
  auto best = asked.fused(groups);
  if (!best) return groups;
  const double least = least_share * asked.seconds;
  for (std::size_t t = 0; t < asked.program.tensors.size(); ++t) {
    if (asked.program.tensors[t].role != Role::intermediate) continue;
    const std::vector<int> near = around(asked.program, static_cast<int>(t));
    if (near.size() < 2 || !may_gain(asked, near)) continue;
    Groups tried = dependences.joined(groups, near);
    if (!is_near(groups, tried, near)) continue;
    const auto variant = asked.fused(tried);
    if (!variant || best->seconds - variant->seconds < least || best->moving - variant->moving < least) continue;
    best = variant;
    groups = std::move(tried);
  }
  return groups;
}

void add_fusions(const Asked& asked, std::vector<NextStep>& steps) {
  for (const std::vector<int>& group : worth_fusing(asked)) {
    if (group.size() < 2) continue;
    const auto variant = asked.fused(Dependences(asked.program).joined(apart(asked.program), group));
    if (!variant) continue;
    std::vector<std::string> names;
    for (const int s : group) names.push_back(asked.op(s).work.name);
    steps.push_back(worth(asked, fmt::format("fuse {}", fmt::join(names, ", ")), variant->seconds,
                          fmt::format("--fuse {}", fmt::join(names, ","))));
  }
}

// --- narrow, shard

void add_weights(const Asked& asked, std::vector<NextStep>& steps) {
  const std::vector<int> kept = weights(asked.program);
  const bool wide = std::any_of(kept.begin(), kept.end(), [&](int tensor) {
    return bits(asked.program.tensors[static_cast<std::size_t>(tensor)].dtype) > bits(narrow);
  });
  if (!wide) return;
  const auto other = with_weights(asked.program, narrow);
  if (!other) return;
  if (const auto seconds = asked.explained(*other, asked.explanation.split))
    steps.push_back(worth(asked, "int8 or fp8 weights", *seconds, fmt::format("--weights {}", name(narrow))));
}

struct Cut {
  Split split;
  double seconds;
};

bool is_shorter(const Cut& a, const Cut& b) { return a.seconds < b.seconds; }

// Over each dimension that the chips divide, the shortest first.
std::vector<Cut> single_cuts(const Asked& asked) {
  std::vector<Cut> out;
  for (const Dimension& dim : asked.program.dims) {
    const auto size = asked.explanation.dims.find(dim.name);
    if (size == asked.explanation.dims.end() || size->second % chips_asked != 0) continue;
    const Split split{dim.name, chips_asked};
    if (const auto seconds = asked.explained(asked.program, split)) out.push_back({split, *seconds});
  }
  std::stable_sort(out.begin(), out.end(), is_shorter);
  return out;
}

// A layer's heads and its hidden width at once: two dimensions that meet in no tensor. Of the first `most_paired`.
std::vector<Cut> pairs_of_cuts(const Asked& asked, const std::vector<Cut>& single) {
  std::vector<Cut> out;
  const std::size_t count = std::min(single.size(), most_paired);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = i + 1; j < count; ++j) {
      Split both = single[i].split;
      both.also.push_back(single[j].split);
      if (refuse_split(asked.program, both)) continue;
      if (const auto seconds = asked.explained(asked.program, both)) out.push_back({both, *seconds});
    }
  return out;
}

// A second dimension only where it is worth naming.
void add_chips(const Asked& asked, std::vector<NextStep>& steps) {
  if (asked.explanation.split || !asked.program.mesh.empty()) return;
  const std::vector<Cut> single = single_cuts(asked), paired = pairs_of_cuts(asked, single);
  if (single.empty()) return;
  Cut best = single.front();
  const auto pair = std::min_element(paired.begin(), paired.end(), is_shorter);
  if (pair != paired.end() && pair->seconds < (1 - least_share) * best.seconds) best = *pair;
  std::string options = fmt::format("--split {}={}", best.split.dim, chips_asked);
  for (const Split& each : best.split.also) options += fmt::format(" --split {}={}", each.dim, chips_asked);
  steps.push_back(worth(asked, fmt::format("{} chips, {} split", chips_asked, dims_text(best.split)), best.seconds,
                        std::move(options)));
}

// --- sizes

// Statements whose limiter changes at one size of a dimension, and the time that they take now.
struct Change {
  std::string dim;
  std::int64_t first;  // from there on they are compute-bound
  std::vector<std::string> names;
  double seconds;
};

void add(std::vector<Change>& all, const Prediction& op, const Threshold& t) {
  const auto same =
      std::find_if(all.begin(), all.end(), [&](const Change& c) { return c.dim == t.dim && c.first == *t.value; });
  if (same == all.end()) {
    all.push_back({t.dim, *t.value, {op.work.name}, *op.time_lower_s});
    return;
  }
  same->names.push_back(op.work.name);
  same->seconds += *op.time_lower_s;
}

// Largest time first; of equals in the order of `dims`.
std::vector<Change> changes(const Asked& asked, const std::vector<std::string>& dims) {
  std::vector<Change> out;
  for (const std::string& dim : dims)
    for (const Prediction& op : asked.explanation.ops)
      for (const Threshold& t : op.thresholds) {
        const bool usual = t.roofs[0] == Limiter::compute && t.roofs[1] == Limiter::memory;
        if (usual && t.dim == dim && t.relation == Relation::at_least && t.value && op.time_lower_s) add(out, op, t);
      }
  std::stable_sort(out.begin(), out.end(), [](const Change& a, const Change& b) { return a.seconds > b.seconds; });
  return out;
}

std::optional<NextStep> step_of(const Asked& asked, const Change& change) {
  const auto now = asked.explanation.dims.find(change.dim);
  if (now == asked.explanation.dims.end() || change.first <= 1) return std::nullopt;
  const bool below = now->second < change.first;
  NextStep step;
  step.what = fmt::format("{} {} {}: {} {}-bound", change.dim, below ? ">=" : "<", change.first,
                          fmt::join(change.names, ", "), below ? "compute" : "memory");
  step.dims = {{change.dim, below ? change.first : change.first - 1}};
  return step;
}

// Of the dimensions asked about those along which a program grows while its model stays, where there are some: no
// weight has them.
std::vector<std::string> growing(const Program& program, const std::vector<std::string>& dims) {
  std::vector<std::string> out;
  const std::vector<int> kept = weights(program);
  for (const std::string& dim : dims) {
    const bool in_weights = std::any_of(kept.begin(), kept.end(), [&](int tensor) {
      const auto& axes = program.tensors[static_cast<std::size_t>(tensor)].axes;
      return std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.dim == dim; });
    });
    if (!in_weights) out.push_back(dim);
  }
  return out.empty() ? dims : out;
}

bool has(const Polynomial& count, const std::string& dim) {
  const auto symbols = count.symbols();
  return std::find(symbols.begin(), symbols.end(), dim) != symbols.end();
}

}  // namespace

std::optional<double> lower_bound(const Program&, const Explanation& explanation) {
  return explanation.total.time_lower_s;
}

std::vector<std::string> dimensions_asked(const Program& program, const Explanation& explanation,
                                          const Bindings& given) {
  constexpr std::size_t most = 3;
  std::vector<std::string> out;
  std::vector<std::pair<std::ptrdiff_t, std::string>> by_use;
  for (const Dimension& dim : program.dims) {
    if (given.contains(dim.name) || !explanation.dims.contains(dim.name)) out.push_back(dim.name);
    by_use.emplace_back(std::count_if(explanation.ops.begin(), explanation.ops.end(),
                                      [&](const Prediction& op) { return has(op.work.bytes(), dim.name); }),
                        dim.name);
  }
  if (!out.empty()) return out;
  std::stable_sort(by_use.begin(), by_use.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; i < std::min(most, by_use.size()); ++i) out.push_back(by_use[i].second);
  return out;
}

std::vector<NextStep> next_steps(const Program& program, const Explanation& explanation,
                                 const std::vector<std::string>& dims, const TimeOf& time_of) {
  const auto seconds = time_of(program, explanation);
  if (!seconds || *seconds <= 0 || program.statements.size() > max_next_statements) return {};
  const Asked asked{program, explanation, time_of, *seconds};
  std::vector<NextStep> steps;
  add_fusions(asked, steps);
  add_weights(asked, steps);
  add_chips(asked, steps);
  std::stable_sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return *a.gain_s > *b.gain_s; });
  for (const Change& change : changes(asked, growing(program, dims)))
    if (auto step = step_of(asked, change)) steps.push_back(*std::move(step));
  return steps;
}

}  // namespace ridge

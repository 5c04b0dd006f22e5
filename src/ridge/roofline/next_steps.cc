#include "ridge/roofline/next_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/program/weights.h"
#include "ridge/roofline/groups.h"
#include "ridge/roofline/split.h"

namespace ridge {
namespace {

constexpr double min_gain_fraction = 0.01;   // Fraction of the program's time; smaller gains are not worth a kernel
constexpr std::size_t max_paired_dims = 8;   // Limit of the dimensions that are split in pairs: 28 pairs
constexpr DType narrow_dtype = DType::int8;  // fp8 takes the same number of bytes

struct VariantTime {
  double seconds, memory_seconds;  // Seconds of the program; seconds of its bytes at the memory's rate
};

// True if nothing is sent or if the time that small messages wait is on record.
bool knows_latency(const Explanation& explanation) {
  const bool sends = explanation.total.bytes_sent.value_or(0) > 0;
  return !sends || explanation.network->latency_s > 0 || explanation.network->library;
}

// The explained program and the estimator that times its variants.
struct StepContext {
  const Program& program;
  const Explanation& explanation;
  const TimeEstimator& time_of;
  double seconds;  // Seconds of the unchanged program

  // Returns the seconds of another program or split, or nullopt if it cannot be counted or timed.
  std::optional<double> time_variant(const Program& other, const std::optional<DimensionSplit>& split) const {
    const auto variant = explain(other, explanation.machine, program_sizes(), split, Thresholds::skipped);
    return variant && (!split || knows_latency(*variant)) ? time_of(other, *variant) : std::nullopt;
  }
  // Returns the sizes of dimensions and mesh axes only, without symbols of masks and shards.
  Bindings program_sizes() const {
    Bindings out;
    for (const std::string& dim : program.dim_names())
      if (const auto size = explanation.dims.find(dim); size != explanation.dims.end()) out.insert(*size);
    for (const MeshAxis& axis : program.mesh)
      if (const auto size = explanation.dims.find(axis.name); size != explanation.dims.end()) out.insert(*size);
    return out;
  }
  std::optional<VariantTime> time_fused(const KernelGroups& groups) const {
    const auto variant = predict_groups(program, explanation, groups);
    const auto taken = variant ? time_of(program, *variant) : std::nullopt;
    if (!taken || !variant->total.bytes || !variant->total.bandwidth) return std::nullopt;
    return VariantTime{*taken, static_cast<double>(*variant->total.bytes) / *variant->total.bandwidth};
  }
  const Prediction& op(int statement) const { return explanation.ops[statement]; }
};

NextStep make_step(const StepContext& context, std::string description, double seconds, std::string options) {
  return {std::move(description), std::max(0.0, context.seconds - seconds), seconds, std::move(options)};
}

// --- fuse

// Returns the statement that computes a tensor and its readers, which must share a kernel to keep it inside, or, if it
// is an output, not to read it again.
std::vector<int> adjacent_statements(const Program& program, int tensor) {
  std::vector<int> out;
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    const std::vector<int> read = statement_operands(statement);
    if (statement.result() == tensor || contains(read, tensor)) out.push_back(static_cast<int>(s));
  }
  return out;
}

// True if fusing may save enough: it saves at most the times of all statements but the longest.
bool can_fusing_gain(const StepContext& context, const std::vector<int>& statements) {
  double sum = 0, longest = 0;
  for (const int s : statements) {
    const double seconds = context.op(s).time_lower_s.value_or(0);
    sum += seconds;
    longest = std::max(longest, seconds);
  }
  return sum - longest >= min_gain_fraction * context.seconds;
}

// True if `candidate` merges the groups that contain `adjacent`, and no other group.
bool merges_only_adjacent(const KernelGroups& groups, const KernelGroups& candidate, const std::vector<int>& adjacent) {
  const auto touched = std::count_if(groups.begin(), groups.end(), [&](const std::vector<int>& group) {
    return std::any_of(group.begin(), group.end(), [&](int s) { return contains(adjacent, s); });
  });
  return candidate.size() + static_cast<std::size_t>(touched) == groups.size() + 1;
}

// Fuses statements around one computed tensor after another, as long as each fusion gains and moves fewer bytes:
// overlapping a memory-bound and a compute-bound statement needs no common kernel.
KernelGroups choose_fused_groups(const StepContext& context) {
  const Dependencies dependences(context.program);
  KernelGroups groups = unfused_groups(context.program);
  auto best = context.time_fused(groups);
  if (!best) return groups;
  const double min_gain = min_gain_fraction * context.seconds;
  for (std::size_t t = 0; t < context.program.tensors.size(); ++t) {
    if (context.program.tensors[t].role == TensorRole::input) continue;
    const std::vector<int> adjacent = adjacent_statements(context.program, static_cast<int>(t));
    if (adjacent.size() < 2 || !can_fusing_gain(context, adjacent)) continue;
    KernelGroups candidate = dependences.join_groups(groups, adjacent);
    if (!merges_only_adjacent(groups, candidate, adjacent)) continue;
    const auto variant = context.time_fused(candidate);
    if (!variant || best->seconds - variant->seconds < min_gain ||
        best->memory_seconds - variant->memory_seconds < min_gain)
      continue;
    best = variant;
    groups = std::move(candidate);
  }
  return groups;
}

void add_fusions(const StepContext& context, std::vector<NextStep>& steps) {
  for (const std::vector<int>& group : choose_fused_groups(context)) {
    if (group.size() < 2) continue;
    const auto variant =
        context.time_fused(Dependencies(context.program).join_groups(unfused_groups(context.program), group));
    if (!variant) continue;
    std::vector<std::string> names;
    for (const int s : group) names.push_back(context.op(s).work.name);
    steps.push_back(make_step(context, fmt::format("fuse {}", fmt::join(names, ", ")), variant->seconds,
                              fmt::format("--fuse {}", fmt::join(names, ","))));
  }
}

// --- narrow, shard

void add_narrow_weights(const StepContext& context, std::vector<NextStep>& steps) {
  const std::vector<int> weight_tensors = find_weights(context.program);
  const bool has_wide_weights = std::any_of(weight_tensors.begin(), weight_tensors.end(), [&](int tensor) {
    return dtype_bits(context.program.tensors[tensor].dtype) > dtype_bits(narrow_dtype);
  });
  if (!has_wide_weights) return;
  const auto other = with_weight_dtype(context.program, narrow_dtype);
  if (!other) return;
  if (const auto seconds = context.time_variant(*other, context.explanation.split))
    steps.push_back(
        make_step(context, "int8 or fp8 weights", *seconds, fmt::format("--weights {}", dtype_name(narrow_dtype))));
}

struct SplitTime {
  DimensionSplit split;
  double seconds;
};

bool is_faster(const SplitTime& a, const SplitTime& b) { return a.seconds < b.seconds; }

// Times a split over each dimension that the chips divide, the fastest first.
std::vector<SplitTime> time_single_splits(const StepContext& context) {
  std::vector<SplitTime> out;
  for (const Dimension& dim : context.program.dims) {
    const auto size = context.explanation.dims.find(dim.name);
    if (size == context.explanation.dims.end() || size->second % suggested_split_chips != 0) continue;
    const DimensionSplit split{dim.name, suggested_split_chips};
    if (const auto seconds = context.time_variant(context.program, split)) out.push_back({split, *seconds});
  }
  std::stable_sort(out.begin(), out.end(), is_faster);
  return out;
}

// Times splits of two dimensions that share no tensor (heads and hidden width) among the first `max_paired_dims`.
std::vector<SplitTime> time_paired_splits(const StepContext& context, const std::vector<SplitTime>& single) {
  std::vector<SplitTime> out;
  const std::size_t count = std::min(single.size(), max_paired_dims);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = i + 1; j < count; ++j) {
      DimensionSplit both = single[i].split;
      both.other_splits.push_back(single[j].split);
      if (!validate_split(context.program, both)) continue;
      if (const auto seconds = context.time_variant(context.program, both)) out.push_back({both, *seconds});
    }
  return out;
}

// Adds a second dimension only if it gains enough, and nothing if no split is faster than one chip.
void add_split(const StepContext& context, std::vector<NextStep>& steps) {
  if (context.explanation.split || !context.program.mesh.empty()) return;
  const std::vector<SplitTime> single = time_single_splits(context), paired = time_paired_splits(context, single);
  if (single.empty()) return;
  SplitTime best = single.front();
  const auto pair = std::min_element(paired.begin(), paired.end(), is_faster);
  if (pair != paired.end() && pair->seconds < (1 - min_gain_fraction) * best.seconds) best = *pair;
  if (best.seconds > (1 - min_gain_fraction) * context.seconds) return;
  std::string options = fmt::format("--split {}={}", best.split.dim, suggested_split_chips);
  for (const DimensionSplit& each : best.split.other_splits)
    options += fmt::format(" --split {}={}", each.dim, suggested_split_chips);
  steps.push_back(make_step(context, fmt::format("{} chips, {} split", suggested_split_chips, format_dims(best.split)),
                            best.seconds, std::move(options)));
}

// --- sizes

// Statements whose limiter changes at one size of a dimension, and their present time.
struct LimiterChange {
  std::string dim;
  std::int64_t first;  // Size from which they are compute-bound
  std::vector<std::string> names;
  double seconds;
};

void add_limiter_change(std::vector<LimiterChange>& all, const Prediction& op, const Threshold& t) {
  const auto same = std::find_if(all.begin(), all.end(),
                                 [&](const LimiterChange& c) { return c.dim == t.dim && c.first == *t.value; });
  if (same == all.end()) {
    all.push_back({t.dim, *t.value, {op.work.name}, *op.time_lower_s});
    return;
  }
  same->names.push_back(op.work.name);
  same->seconds += *op.time_lower_s;
}

// Returns the changes by decreasing time; equal ones in the order of `dims`.
std::vector<LimiterChange> find_limiter_changes(const StepContext& context, const std::vector<std::string>& dims) {
  std::vector<LimiterChange> out;
  for (const std::string& dim : dims)
    for (const Prediction& op : context.explanation.ops)
      for (const Threshold& t : op.thresholds) {
        const bool usual = t.roofs[0] == Limiter::compute && t.roofs[1] == Limiter::memory;
        if (usual && t.dim == dim && t.relation == Relation::at_least && t.value && op.time_lower_s)
          add_limiter_change(out, op, t);
      }
  std::stable_sort(out.begin(), out.end(),
                   [](const LimiterChange& a, const LimiterChange& b) { return a.seconds > b.seconds; });
  return out;
}

// True if the network or a launch may limit one of the statements after the change of a size. A launch that is no
// limiter now is none at larger sizes.
bool may_third_roof_limit(const Explanation& now, const std::vector<std::string>& names, bool grows) {
  if (now.network) return true;
  return std::any_of(now.ops.begin(), now.ops.end(), [&](const Prediction& op) {
    return op.launch_s > 0 && (!grows || op.limiter == Limiter::overhead) && contains(names, op.work.name);
  });
}

// Returns those of the statements whose limiter at these sizes is `limiter`.
std::vector<std::string> select_limited_by(const StepContext& context, const std::vector<std::string>& names,
                                           const Bindings& sizes, Limiter limiter) {
  const Explanation& now = context.explanation;
  std::vector<std::string> out;
  const auto then = explain(context.program, now.machine, sizes, now.split, Thresholds::skipped);
  if (!then) return out;
  for (const Prediction& op : then->ops)
    if (op.limiter == limiter && contains(names, op.work.name)) out.push_back(op.work.name);
  return out;
}

std::optional<NextStep> make_size_step(const StepContext& context, const LimiterChange& change) {
  const auto now = context.explanation.dims.find(change.dim);
  if (now == context.explanation.dims.end() || change.first <= 1) return std::nullopt;
  const bool below = now->second < change.first;
  NextStep step;
  step.dims = {{change.dim, below ? change.first : change.first - 1}};
  Bindings sizes = context.program_sizes();
  sizes[change.dim] = step.dims.at(change.dim);
  const Limiter limiter = below ? Limiter::compute : Limiter::memory;
  if (!context.program.bind_sizes(sizes)) return std::nullopt;  // Other sizes do not allow this one
  const std::vector<std::string> names = may_third_roof_limit(context.explanation, change.names, below)
                                             ? select_limited_by(context, change.names, sizes, limiter)
                                             : change.names;
  if (names.empty()) return std::nullopt;
  step.description = fmt::format("{} {} {}: {} {}-bound", change.dim, below ? ">=" : "<", change.first,
                                 fmt::join(names, ", "), name(limiter));
  return step;
}

// Returns the dimensions of `dims` that no weight has, so that other sizes do not change the model. Returns all of
// `dims` if there are none.
std::vector<std::string> dims_without_weights(const Program& program, const std::vector<std::string>& dims) {
  std::vector<std::string> out;
  const std::vector<int> weight_tensors = find_weights(program);
  for (const std::string& dim : dims) {
    const bool in_weights = std::any_of(weight_tensors.begin(), weight_tensors.end(), [&](int tensor) {
      const auto& axes = program.tensors[tensor].axes;
      return std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.dim == dim; });
    });
    if (!in_weights) out.push_back(dim);
  }
  return out.empty() ? dims : out;
}

bool contains_dim(const Polynomial& count, const std::string& dim) {
  const auto symbols = count.symbols();
  return contains(symbols, dim);
}

}  // namespace

std::optional<double> lower_bound_seconds(const Program&, const Explanation& explanation) {
  return explanation.total.time_lower_s;
}

std::vector<std::string> relevant_dimensions(const Program& program, const Explanation& explanation,
                                             const Bindings& given) {
  constexpr std::size_t max_dims = 3;
  std::vector<std::string> out;
  std::vector<std::pair<std::ptrdiff_t, std::string>> by_use;
  for (const Dimension& dim : program.dims) {
    if (given.contains(dim.name) || !explanation.dims.contains(dim.name)) out.push_back(dim.name);
    by_use.emplace_back(std::count_if(explanation.ops.begin(), explanation.ops.end(),
                                      [&](const Prediction& op) { return contains_dim(op.work.bytes(), dim.name); }),
                        dim.name);
  }
  if (!out.empty()) return out;
  std::stable_sort(by_use.begin(), by_use.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; i < std::min(max_dims, by_use.size()); ++i) out.push_back(by_use[i].second);
  return out;
}

std::vector<NextStep> suggest_next_steps(const Program& program, const Explanation& explanation,
                                         const std::vector<std::string>& dims, const TimeEstimator& time_of) {
  const auto seconds = time_of(program, explanation);
  if (!seconds || *seconds <= 0 || program.statements.size() > max_suggest_statements) return {};
  const StepContext context{program, explanation, time_of, *seconds};
  std::vector<NextStep> steps;
  add_fusions(context, steps);
  add_narrow_weights(context, steps);
  add_split(context, steps);
  std::stable_sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return *a.gain_s > *b.gain_s; });
  for (const LimiterChange& change : find_limiter_changes(context, dims_without_weights(program, dims)))
    if (auto step = make_size_step(context, change)) steps.push_back(*std::move(step));
  return steps;
}

}  // namespace ridge

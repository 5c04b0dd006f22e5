#include "ridge/distributed/sharding_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ridge/program/tensor_uses.h"

namespace ridge {
namespace {

constexpr std::size_t max_prefixes = 20'000'000;  // takes some seconds

const Tensor& tensor_at(const ShardingCosts& costs, int t) { return costs.program().tensors[t]; }

Layout replicated_layout(const Tensor& tensor) { return {.mesh_axes = std::vector<std::string>(tensor.axes.size())}; }

double copy_bytes(const ShardingCosts& costs, int t, const Layout& source, const Layout& target, const Layout& copy) {
  return costs.redistribution_cost(t, source, target).needs_copy ? costs.bytes_per_device(t, copy) : 0;
}

// Cost and choices of the statements so far. Peak memory is the inputs, always live, plus `peak_intermediates`.
struct ShardingPrefix {
  double time_s = 0, input_bytes = 0, output_bytes = 0, peak_intermediates = 0;
  int previous_state = -1, previous_prefix = -1;  // predecessor
  int partition_index = 0;
  std::vector<std::pair<int, int>> input_layouts = {};  // inputs first read by this statement; their layout indices
  int result_index = 0;                                 // layout index of the result
  bool is_no_worse(const ShardingPrefix& o) const {
    return time_s <= o.time_s && input_bytes <= o.input_bytes && output_bytes <= o.output_bytes &&
           peak_intermediates <= o.peak_intermediates;
  }
};

bool is_equal_time(double a, double b) { return std::abs(a - b) <= 1e-9 * std::min(a, b); }

using LayoutKey = std::vector<int>;  // layout index of each tensor that a later statement reads
using PrefixesByState = std::map<LayoutKey, std::vector<ShardingPrefix>>;

class ShardingSearch {
 public:
  // Keeps at most `max_states` states after each statement (0: all, so the search is exact), up to `max_seconds`.
  ShardingSearch(const ShardingCosts& costs, double capacity, std::size_t count, std::size_t max_states,
                 double max_seconds)
      : costs_(costs),
        capacity_(capacity),
        count_(count),
        max_states_(max_states),
        max_seconds_(max_seconds > 0 ? max_seconds * (1 + 1e-9) : std::numeric_limits<double>::infinity()),
        uses_(costs.program()),
        min_remaining_s_(costs.program().statements.size() + 1) {
    for (int t = 0; t < tensor_count(); ++t) {
      layout_bytes_.emplace_back();
      for (const Layout& layout : costs.layouts_of(t))
        layout_bytes_.back().push_back(costs.bytes_per_device(t, layout));
    }
    for (std::size_t s = min_remaining_s_.size() - 1; s-- > 0;) {
      double min_s = std::numeric_limits<double>::infinity();
      for (const StatementCost& cost : costs.statement_costs(s))
        min_s = std::min(min_s, cost.compute_s + cost.network_s);
      min_remaining_s_[s] = min_remaining_s_[s + 1] + min_s;
    }
  }

  Result<std::vector<Sharding>> run() {
    ShardingPrefix start;
    for (int t = 0; t < tensor_count(); ++t)
      if (uses_.readers(t).empty() && costs_.program().tensors[t].role == TensorRole::input)
        start.input_bytes += costs_.bytes_per_device(t, replicated_layout(costs_.program().tensors[t]));
    states_after_.push_back({{LayoutKey{}, {start}}});
    for (std::size_t s = 0; s < costs_.program().statements.size(); ++s) {
      add_states_after(s);
      if (prefixes_tried_ > max_prefixes)
        return input_error(fmt::format("more than {} sharding combinations to try", max_prefixes),
                           "give fewer mesh axes, or a part of the program");
    }
    return collect_best();
  }

 private:
  int tensor_count() const { return static_cast<int>(costs_.program().tensors.size()); }
  bool is_read_again(int t, int after) const {
    const auto& readers = uses_.readers(t);
    return !readers.empty() && readers.back() > after;
  }

  // Returns the tensors that exist before statement `next` and are read by it or later: those of a LayoutKey.
  std::vector<int> live_tensors(int next) const {
    std::vector<int> out;
    for (int t = 0; t < tensor_count(); ++t) {
      const auto& readers = uses_.readers(t);
      if (readers.empty() || readers.back() < next) continue;
      const bool input = costs_.program().tensors[t].role == TensorRole::input;
      if ((input ? readers.front() : uses_.writer(t)) < next) out.push_back(t);
    }
    return out;
  }

  struct OperandCost {
    double time_s, copy_bytes;
  };
  struct ResultOption {  // storing the result in one of its layouts
    int index;
    double time_s, result_bytes, copy_bytes;
  };
  // Data of one statement that does not depend on the state.
  struct StatementContext {
    std::size_t s;
    const Statement& statement;
    std::vector<int> live_before, live_after;  // live tensors before and after the statement
    std::vector<int> operands;
    // For the current partition: result options, required layouts, and redistribution costs of each operand layout.
    std::vector<ResultOption> result_options = {};
    std::vector<Layout> required = {};
    std::vector<std::vector<OperandCost>> operand_costs = {};
  };
  using LayoutIndices = std::vector<int>;  // layout index of each tensor; -1 if it is not live

  void add_states_after(std::size_t s) {
    const Statement& statement = costs_.program().statements[s];
    StatementContext context{s, statement, live_tensors(static_cast<int>(s)), live_tensors(static_cast<int>(s) + 1),
                             distinct_operands(statement)};
    PrefixesByState next;
    LayoutIndices indices(tensor_count(), -1);
    for (std::size_t c = 0; c < costs_.statement_costs(s).size(); ++c) {
      set_operand_costs(context, costs_.statement_costs(s)[c].partition);
      context.result_options = result_options(statement, costs_.statement_costs(s)[c].partition,
                                              is_read_again(statement.result(), static_cast<int>(s)));
      int index = 0;
      for (const auto& [key, prefixes] : states_after_.back()) {
        ShardingPrefix step{.previous_state = index++, .partition_index = static_cast<int>(c)};
        step.time_s = costs_.statement_costs(s)[c].compute_s + costs_.statement_costs(s)[c].network_s;
        if (prefixes.front().time_s + step.time_s + min_remaining_s_[s + 1] > max_seconds_) continue;
        for (std::size_t i = 0; i < key.size(); ++i) indices[context.live_before[i]] = key[i];
        choose_operand_layouts(context, prefixes, indices, step, 0, next);
      }
    }
    keep_fastest_states(next);
    states_after_.push_back(std::move(next));
  }

  // Drops all but the fastest states if the number of states is limited.
  void keep_fastest_states(PrefixesByState& states) const {
    if (max_states_ == 0 || states.size() <= max_states_) return;
    std::vector<double> times;
    for (const auto& [key, prefixes] : states) times.push_back(prefixes.front().time_s);
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(max_states_) - 1, times.end());
    const double max_time = times[max_states_ - 1];
    std::erase_if(states, [&](const auto& each) { return each.second.front().time_s > max_time; });
  }

  int layout_index(int t, const Layout& layout) const {
    const std::vector<Layout>& all = costs_.layouts_of(t);
    return static_cast<int>(std::find(all.begin(), all.end(), layout) - all.begin());
  }

  void set_operand_costs(StatementContext& context, const Partition& partition) const {
    context.required.clear();
    context.operand_costs.clear();
    for (const int t : context.operands) {
      const Layout required = operand_layout(costs_.program(), context.statement, t, partition);
      std::vector<OperandCost> all;
      for (const Layout& layout : costs_.layouts_of(t))
        all.push_back({costs_.redistribution_cost(t, layout, required).seconds,
                       copy_bytes(costs_, t, layout, required, required)});
      context.required.push_back(required);
      context.operand_costs.push_back(std::move(all));
    }
  }

  std::vector<ResultOption> result_options(const Statement& statement, const Partition& partition,
                                           bool has_later_readers) const {
    const int t = statement.result();
    const Layout produced = result_layout(costs_.program(), statement, partition);
    std::vector<ResultOption> out;
    for (const Layout& stored : candidate_result_layouts(costs_, t, produced, has_later_readers))
      out.push_back({layout_index(t, stored), costs_.redistribution_cost(t, produced, stored).seconds,
                     costs_.bytes_per_device(t, stored), copy_bytes(costs_, t, produced, stored, produced)});
    return out;
  }

  // Tries all layouts of the operands from the i-th on. `step` has the costs of the operands before it.
  void choose_operand_layouts(const StatementContext& context, const std::vector<ShardingPrefix>& prefixes,
                              LayoutIndices& indices, const ShardingPrefix& step, std::size_t i,
                              PrefixesByState& next) {
    if (i == context.operands.size()) return choose_result_layout(context, prefixes, indices, step, next);
    const int t = context.operands[i];
    if (prefixes.front().time_s + step.time_s + min_remaining_s_[context.s + 1] > max_seconds_) return;
    int& chosen = indices[t];
    if (chosen >= 0) {
      const OperandCost& operand_cost = context.operand_costs[i][chosen];
      ShardingPrefix extended = step;
      extended.time_s += operand_cost.time_s;
      extended.peak_intermediates += operand_cost.copy_bytes;
      return choose_operand_layouts(context, prefixes, indices, extended, i + 1, next);
    }
    const bool has_several_readers = uses_.readers(t).size() > 1;
    const std::vector<Layout> layouts = has_several_readers
                                            ? costs_.layouts_of(t)
                                            : candidate_input_layouts(costs_, t, context.required[i], capacity_ > 0);
    for (const Layout& option : layouts) {
      const int index = layout_index(t, option);
      const OperandCost& operand_cost = context.operand_costs[i][index];
      ShardingPrefix extended = step;
      extended.time_s += operand_cost.time_s;
      extended.peak_intermediates += operand_cost.copy_bytes;
      extended.input_bytes += layout_bytes_[t][index];
      extended.input_layouts.emplace_back(t, index);
      chosen = index;
      choose_operand_layouts(context, prefixes, indices, extended, i + 1, next);
      chosen = -1;
    }
  }

  void choose_result_layout(const StatementContext& context, const std::vector<ShardingPrefix>& prefixes,
                            const LayoutIndices& indices, ShardingPrefix step, PrefixesByState& next) {
    const int t = context.statement.result();
    const bool output = tensor_at(costs_, t).role == TensorRole::output;
    for (std::size_t other = 0; other < indices.size(); ++other)
      if (indices[other] >= 0 && costs_.program().tensors[other].role == TensorRole::intermediate)
        step.peak_intermediates += layout_bytes_[other][indices[other]];
    for (const ResultOption& option : context.result_options) {
      if (prefixes.front().time_s + step.time_s + option.time_s + min_remaining_s_[context.s + 1] > max_seconds_)
        continue;
      ShardingPrefix extended = step;
      extended.result_index = option.index;
      extended.time_s += option.time_s;
      extended.peak_intermediates += option.result_bytes + option.copy_bytes;
      if (output) extended.output_bytes = option.result_bytes;
      LayoutKey key;
      for (const int other : context.live_after) key.push_back(other == t ? option.index : indices[other]);
      std::vector<ShardingPrefix>& next_prefixes = next[key];
      prefixes_tried_ += prefixes.size();
      for (std::size_t l = 0; l < prefixes.size(); ++l) {
        if (prefixes[l].time_s + extended.time_s + min_remaining_s_[context.s + 1] > max_seconds_) break;
        add_prefix(next_prefixes, prefixes[l], extended, static_cast<int>(l));
      }
      if (next_prefixes.empty()) next.erase(key);
    }
  }

  void add_prefix(std::vector<ShardingPrefix>& prefixes, const ShardingPrefix& before, const ShardingPrefix& step,
                  int prefix) {
    const bool memory = capacity_ > 0;
    if (!memory && prefixes.size() == count_ && prefixes.back().time_s <= before.time_s + step.time_s) return;
    ShardingPrefix sum = step;
    sum.previous_prefix = prefix;
    sum.time_s += before.time_s;
    sum.input_bytes += before.input_bytes;
    sum.output_bytes += before.output_bytes;
    sum.peak_intermediates = std::max(before.peak_intermediates, before.output_bytes + step.peak_intermediates);
    if (memory && sum.input_bytes + sum.peak_intermediates > capacity_) return;
    if (memory ? is_dominated(prefixes, sum) : merge_with_equal_time(prefixes, sum)) return;
    const auto position =
        std::upper_bound(prefixes.begin(), prefixes.end(), sum,
                         [](const ShardingPrefix& a, const ShardingPrefix& b) { return a.time_s < b.time_s; });
    prefixes.insert(position, std::move(sum));
    if (!memory && prefixes.size() > count_) prefixes.pop_back();
  }

  // True if a prefix with the same time exists; keeps the one with less memory.
  static bool merge_with_equal_time(std::vector<ShardingPrefix>& prefixes, const ShardingPrefix& sum) {
    const auto equal_prefix = std::find_if(
        prefixes.begin(), prefixes.end(), [&](const ShardingPrefix& o) { return is_equal_time(o.time_s, sum.time_s); });
    if (equal_prefix == prefixes.end()) return false;
    if (sum.input_bytes + sum.peak_intermediates < equal_prefix->input_bytes + equal_prefix->peak_intermediates)
      *equal_prefix = sum;
    return true;
  }
  // True if an equally fast prefix needs no more memory, or if prefixes with `count` distinct shorter times do not.
  bool is_dominated(const std::vector<ShardingPrefix>& prefixes, const ShardingPrefix& sum) const {
    std::size_t faster = 0;
    double last = -1;
    for (const ShardingPrefix& o : prefixes) {  // ascending times
      if (!o.is_no_worse(sum)) continue;
      if (is_equal_time(o.time_s, sum.time_s)) return true;
      if (last < 0 || !is_equal_time(o.time_s, last)) ++faster;
      last = o.time_s;
    }
    return faster >= count_;
  }

  Result<std::vector<Sharding>> collect_best() const {
    std::vector<std::pair<double, std::pair<int, int>>> last;  // time, state, prefix
    int index = 0;
    for (const auto& [key, prefixes] : states_after_.back()) {
      for (std::size_t l = 0; l < prefixes.size(); ++l)
        last.push_back({prefixes[l].time_s, {index, static_cast<int>(l)}});
      ++index;
    }
    std::stable_sort(last.begin(), last.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Sharding> out;
    double last_time = -1;
    for (const auto& [time, position] : last) {
      Sharding next = trace_sharding(position.first, position.second);
      if (last_time >= 0 && is_equal_time(time, last_time)) {
        if (next.peak_bytes < out.back().peak_bytes) out.back() = std::move(next);
      } else if (out.size() < count_) {
        out.push_back(std::move(next));
        last_time = time;
      } else {
        break;
      }
    }
    return out;
  }

  Sharding trace_sharding(int state, int prefix) const {
    const Program& program = costs_.program();
    std::vector<Partition> partitions(program.statements.size());
    std::vector<Layout> layouts;
    for (const Tensor& t : program.tensors) layouts.push_back(replicated_layout(t));
    for (std::size_t s = program.statements.size(); s-- > 0;) {
      const ShardingPrefix& l = std::next(states_after_[s + 1].begin(), state)->second[prefix];
      partitions[s] = costs_.statement_costs(s)[l.partition_index].partition;
      const int result = program.statements[s].result();
      const auto layout = [&](int t, int index) { return costs_.layouts_of(t)[index]; };
      layouts[result] = layout(result, l.result_index);
      for (const auto& [t, index] : l.input_layouts) layouts[t] = layout(t, index);
      state = l.previous_state;
      prefix = l.previous_prefix;
    }
    return evaluate_sharding(costs_, std::move(partitions), std::move(layouts));
  }

  const ShardingCosts& costs_;
  double capacity_;
  std::size_t count_, max_states_;
  double max_seconds_;
  TensorUses uses_;
  std::vector<std::vector<double>> layout_bytes_;  // B on a device for each tensor and layout
  std::vector<double> min_remaining_s_;            // lower bound in s for the statements from each index on
  std::vector<PrefixesByState> states_after_;
  std::size_t prefixes_tried_ = 0;
};

bool all_fit(const std::vector<Sharding>& all, double capacity) {
  return std::all_of(all.begin(), all.end(), [&](const Sharding& s) { return s.peak_bytes <= capacity; });
}

}  // namespace

std::vector<Layout> candidate_input_layouts(const ShardingCosts& costs, int input, const Layout& required,
                                            bool is_memory_limited) {
  if (!is_memory_limited) return {required};
  std::vector<Layout> out{required};
  for (const Layout& layout : costs.layouts_of(input)) {
    const std::vector<RedistributionStep> all = plan_redistribution(layout, required);
    const bool gathers = std::all_of(
        all.begin(), all.end(), [](const RedistributionStep& m) { return m.collective == Collective::all_gather; });
    const bool is_dominated = std::any_of(out.begin(), out.end(), [&](const Layout& o) {
      return costs.bytes_per_device(input, o) <= costs.bytes_per_device(input, layout) &&
             costs.redistribution_cost(input, o, required).seconds <=
                 costs.redistribution_cost(input, layout, required).seconds;
    });
    if (gathers && !is_dominated) out.push_back(layout);
  }
  return out;
}

std::vector<Layout> candidate_result_layouts(const ShardingCosts& costs, int result, const Layout& produced,
                                             bool read_again) {
  if (read_again) return costs.layouts_of(result);
  if (produced.partial_over.empty()) return {produced};
  std::vector<Layout> out;
  for (const Layout& layout : costs.layouts_of(result)) {
    const std::vector<RedistributionStep> all = plan_redistribution(produced, layout);
    if (std::all_of(all.begin(), all.end(), [](const RedistributionStep& m) {
          return m.collective == Collective::all_reduce || m.collective == Collective::reduce_scatter;
        }))
      out.push_back(layout);
  }
  return out;
}

std::vector<StatementRedistribution> list_redistributions(const ShardingCosts& costs, const Sharding& sharding) {
  const Program& program = costs.program();
  std::vector<StatementRedistribution> out;
  const auto add = [&](std::size_t s, int t, const Layout& source, const Layout& target) {
    for (const RedistributionStep& step : plan_redistribution(source, target))
      if (step.collective) {
        RedistributionCost cost = costs.redistribution_cost(t, step.before, step.after);
        cost.words = words_moved(step, tensor_extents(tensor_at(costs, t), costs.sizes()), costs.mesh());
        out.push_back({s, t, step, cost});
      }
  };
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    for (const int t : distinct_operands(statement))
      add(s, t, sharding.layouts[t], operand_layout(program, statement, t, sharding.partitions[s]));
    const int result = statement.result();
    add(s, result, result_layout(program, statement, sharding.partitions[s]), sharding.layouts[result]);
  }
  return out;
}

// Returns the bytes per device of the results and copies that are in memory during statement s.
static double intermediate_bytes(const ShardingCosts& costs, const TensorUses& uses, const Sharding& sharding, int s) {
  const Program& program = costs.program();
  const Statement& statement = program.statements[s];
  double out = 0;
  for (int t = 0; t < std::ssize(program.tensors); ++t) {
    const TensorRole role = program.tensors[t].role;
    if (role == TensorRole::input || uses.writer(t) > s) continue;
    const std::vector<int>& readers = uses.readers(t);
    const bool is_read_later = !readers.empty() && readers.back() >= s;
    if (role == TensorRole::output || uses.writer(t) == s || is_read_later)
      out += costs.bytes_per_device(t, sharding.layouts[t]);
  }
  for (const int t : distinct_operands(statement)) {
    const Layout required = operand_layout(program, statement, t, sharding.partitions[s]);
    out += copy_bytes(costs, t, sharding.layouts[t], required, required);
  }
  const int result = statement.result();
  const Layout produced = result_layout(program, statement, sharding.partitions[s]);
  return out + copy_bytes(costs, result, produced, sharding.layouts[result], produced);
}

Sharding evaluate_sharding(const ShardingCosts& costs, std::vector<Partition> partitions, std::vector<Layout> layouts) {
  const Program& program = costs.program();
  Sharding out{.partitions = std::move(partitions), .layouts = std::move(layouts)};
  const TensorUses uses(program);
  double inputs = 0, peak_intermediates = 0;
  for (std::size_t t = 0; t < program.tensors.size(); ++t)
    if (program.tensors[t].role == TensorRole::input)
      inputs += costs.bytes_per_device(static_cast<int>(t), out.layouts[t]);
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    for (const StatementCost& cost : costs.statement_costs(s))
      if (cost.partition == out.partitions[s]) {
        out.compute_s += cost.compute_s;
        out.network_s += cost.network_s;
      }
    peak_intermediates = std::max(peak_intermediates, intermediate_bytes(costs, uses, out, static_cast<int>(s)));
  }
  for (const StatementRedistribution& step : list_redistributions(costs, out)) {
    out.network_s += step.cost.seconds;
    out.words += step.cost.words;
  }
  out.peak_bytes = inputs + peak_intermediates;
  return out;
}

// Runs a beam search first; its slowest result bounds the exact search.
static Result<std::vector<Sharding>> search_in_two_passes(const ShardingCosts& costs, double capacity,
                                                          std::size_t count, double max_seconds) {
  constexpr std::size_t max_states = 32;
  RIDGE_TRY(first_found, ShardingSearch(costs, capacity, count, max_states, max_seconds).run());
  double bound = first_found.size() == count ? first_found.back().total_seconds() : max_seconds;
  if (max_seconds > 0) bound = std::min(bound, max_seconds);
  return ShardingSearch(costs, capacity, count, 0, bound).run();
}

Result<std::vector<Sharding>> best_shardings(const ShardingCosts& costs, double capacity, std::size_t count,
                                             double max_seconds) {
  auto out = search_in_two_passes(costs, 0, count, max_seconds);
  if (!out || capacity <= 0 || all_fit(*out, capacity)) return out;
  return search_in_two_passes(costs, capacity, count, max_seconds);
}

}  // namespace ridge

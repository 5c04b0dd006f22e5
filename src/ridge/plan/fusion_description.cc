// Describes groups of statements: their tensors, bytes and live bytes, and why statements are in different groups.
#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/plan/fusion_state.h"

namespace ridge {
namespace {

class FusionDescription {
 public:
  explicit FusionDescription(const FusionState& state) : state_(state) {}

  FusionGroup make_group(const std::vector<int>& own, const std::vector<int>& recomputed) const {
    FusionGroup out{.kind = kind_of(own), .statements = own, .recomputed = recomputed};
    const std::vector<int> set = statements_with_recomputed(out);
    std::set<int> read;
    const auto add = [&](std::int64_t& to, int tensor) { to = saturating_add(to, state_.tensor_bytes(tensor)); };
    for (const int s : set) {
      const bool is_own = contains(own, s), kept = state_.is_internal(s, own);
      if (kept || is_own) (kept ? out.internal_tensors : out.results).push_back(state_.result_of(s));
      if (is_own) add(out.bytes_before, state_.result_of(s));
      if (is_own && !kept) add(out.bytes_after, state_.result_of(s));
      for (const int t : state_.distinct_operands(s)) {
        if (is_own) add(out.bytes_before, t);
        const bool outer = state_.uses.writer(t) < 0 || !contains(set, state_.uses.writer(t));
        if (outer && read.insert(t).second) add(out.bytes_after, t);
      }
      // Gradients read the result of the forward pass.
      const int forward = is_own ? -1 : state_.kernel_with(s).back();
      if (state_.attention_statements.contains(forward) && read.insert(state_.result_of(forward)).second)
        add(out.bytes_after, state_.result_of(forward));
    }
    return out;
  }

  FusionGroup::GroupKind kind_of(const std::vector<int>& set) const {
    FusionGroup::GroupKind out = FusionGroup::GroupKind::pointwise;
    for (const int s : set) {
      if (state_.form_of(s) == StatementForm::product || state_.form_of(s) == StatementForm::convolution)
        out = FusionGroup::GroupKind::product;
      if (state_.form_of(s) == StatementForm::along_dims || state_.is_row_sum(s, set))
        out = FusionGroup::GroupKind::rows;
      if (state_.sums_across_rows.contains(s)) return FusionGroup::GroupKind::rows;
      if (state_.attention_statements.contains(s)) out = FusionGroup::GroupKind::attention;
      if (state_.attention_backward_groups.contains(state_.group_of[s]))
        return FusionGroup::GroupKind::attention_backward;
      if (state_.form_of(s) == StatementForm::standalone)
        out = state_.is_grouped(s) ? FusionGroup::GroupKind::product : FusionGroup::GroupKind::loops;
    }
    return out;
  }

  // Returns the bytes of live tensors during each step; a step runs one list of statements.
  std::vector<std::int64_t> live_bytes_per_step(const std::vector<std::vector<int>>& lists,
                                                const std::set<int>& internal_tensors) const {
    std::vector<std::size_t> when(state_.statement_count());
    for (std::size_t i = lists.size(); i-- > 0;)
      for (const int s : lists[i]) when[s] = i;
    std::vector<std::int64_t> out(lists.size());
    for (int t = 0; t < static_cast<int>(state_.program.tensors.size()); ++t) {
      if (internal_tensors.contains(t)) continue;
      std::size_t first = state_.uses.writer(t) < 0 ? 0 : when[state_.uses.writer(t)], last = first;
      for (const int reader : state_.uses.readers(t)) last = std::max(last, when[reader]);
      if (state_.must_be_stored(t)) last = lists.size() - 1;
      for (std::size_t i = first; i <= last && i < out.size(); ++i)
        out[i] = saturating_add(out[i], state_.tensor_bytes(t));
    }
    return out;
  }

  void set_live_bytes(FusionPlan& out, const std::vector<int>& standalone) const {
    if (out.groups.empty()) return;
    std::vector<std::vector<int>> before, after;
    std::set<int> inside;
    for (const int s : standalone) before.push_back({s});
    for (const FusionGroup& g : out.groups) {
      after.push_back(g.statements);
      inside.insert(g.internal_tensors.begin(), g.internal_tensors.end());
    }
    const std::vector<std::int64_t> before_bytes = live_bytes_per_step(before, {}),
                                    after_bytes = live_bytes_per_step(after, inside);
    for (std::size_t i = 0; i < after_bytes.size(); ++i) out.groups[i].live_bytes = after_bytes[i];
    out.live_bytes_before = *std::max_element(before_bytes.begin(), before_bytes.end());
    out.live_bytes_after = *std::max_element(after_bytes.begin(), after_bytes.end());
  }

  // Records why two statements do not share a kernel; the reasons are found again from the final groups.
  void add_boundaries(FusionPlan& out) const {
    if (!state_.options.fuse) return;
    for (int s = 0; s < state_.statement_count(); ++s)
      for (const int t : state_.distinct_operands(s)) {
        const int from = state_.uses.writer(t);
        if (from < 0 || state_.kernel_computes(s, from)) continue;
        const std::vector<int> set = unite_statements(state_.kernel_with(s), state_.kernel_with(from));
        Reason why = find_fusion_blocker(state_, {from, s});
        if (const auto pair = state_.gate_blockers.find(s);
            why && state_.form_of(from) == StatementForm::product && pair != state_.gate_blockers.end())
          why = pair->second;
        if (!why) why = find_fusion_blocker(state_, set);
        if (const auto attention = state_.attention_blockers.find(s);
            attention != state_.attention_blockers.end() && state_.form_of(from) != StatementForm::product)
          why = attention->second;
        out.boundaries.push_back({from, s, why ? why.text() : "another kernel would have to run between the two"});
      }
  }

 private:
  const FusionState& state_;
};

}  // namespace

FusionGroup make_fusion_group(const FusionState& state, const std::vector<int>& own,
                              const std::vector<int>& recomputed) {
  return FusionDescription(state).make_group(own, recomputed);
}

FusionPlan describe_fusion(const FusionState& state, const std::vector<int>& standalone) {
  const FusionDescription description(state);
  FusionPlan out;
  for (const int g : state.topological_order())
    out.groups.push_back(description.make_group(state.members[g], state.recomputed_by(g)));
  out.target = state.options.target;
  out.full_row_kernels = out.target == Target::cuda ? state.options.generate_kernels : state.options.fuse;
  description.set_live_bytes(out, standalone);
  description.add_boundaries(out);
  return out;
}

}  // namespace ridge

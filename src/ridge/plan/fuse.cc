#include "ridge/plan/fuse.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/plan/attention/recognize.h"
#include "ridge/plan/fusion_state.h"
#include "ridge/plan/lower.h"

namespace ridge {
namespace {

constexpr int max_sibling_trials = 4;  // limit on the tried merges with another reader of a tensor

class StatementFuser {
 public:
  StatementFuser(const Program& program, const std::vector<Shape>& shapes, const FuseOptions& options)
      : state_(program, shapes, options) {}

  FusionPlan fuse_all() {
    const std::vector<int> standalone = state_.topological_order();
    if (state_.options.fuse) {
      for (int s = 0; s < state_.statement_count(); ++s) merge_attention_backward(s);
      for (int s = 0; s < state_.statement_count(); ++s) merge_attention(s);
      for (int s = 0; s < state_.statement_count(); ++s) merge_sum_across_rows(s);
      for (int s = 0; s < state_.statement_count(); ++s) merge_producers_or_sibling(s);
    }
    return describe_fusion(state_, standalone);
  }

 private:
  // Merges a statement with its producers, the latest first, since later results are less likely to have other readers.
  // If there is none to merge, a pointwise statement joins another reader of the same tensor (a sibling).
  void merge_producers_or_sibling(int s) {
    std::vector<int> producers;
    for (const int t : state_.distinct_operands(s))
      if (state_.uses.writer(t) >= 0 && state_.uses.writer(t) < s) producers.push_back(state_.uses.writer(t));
    std::sort(producers.rbegin(), producers.rend());
    try_merge_all_producers(s, producers);
    for (const int p : producers) (void)try_merge(s, p);
    if (state_.kernel_with(s).size() > 1 || state_.form_of(s) != StatementForm::pointwise) return;
    for (const int t : state_.distinct_operands(s)) {
      if (count_elements(state_.shapes[t]) != count_elements(state_.shapes[state_.result_of(s)])) continue;
      int trials = 0;
      const std::vector<int>& others = state_.uses.readers(t);
      for (auto other = std::lower_bound(others.begin(), others.end(), s); other != others.begin();)
        if (state_.form_of(*--other) == StatementForm::pointwise &&
            (try_merge(s, *other) || ++trials == max_sibling_trials))
          return;
    }
  }

  // Merges a statement with all its producers in one step: if only one of two products joined, the other would be
  // stored.
  void try_merge_all_producers(int s, const std::vector<int>& producers) {
    if (state_.options.target == Target::cuda && merge_gate_with_products(s)) return;
    std::vector<int> set = state_.kernel_with(s);
    for (const int p : producers) set = unite_statements(std::move(set), state_.kernel_with(p));
    if (set.size() > 1 && !find_fusion_blocker(state_, set) && !state_.would_create_cycle(set))
      state_.merge_statements(set);
  }

  // Merges a gate with both its products. On a device, a merge with only one product may be slower than no merge.
  bool merge_gate_with_products(int s) {
    if (state_.form_of(s) != StatementForm::pointwise) return false;
    std::vector<int> set{s};
    for (std::size_t i = 0; i < set.size() && set.size() <= max_kernel_statements; ++i) {
      if (state_.form_of(set[i]) != StatementForm::pointwise) continue;
      for (const int t : state_.distinct_operands(set[i])) {
        const int from = state_.uses.writer(t);
        if (from < 0 || state_.index_space(t) != state_.index_space(state_.result_of(s)) || contains(set, from))
          continue;
        const std::vector<int>& more = state_.kernel_with(from);
        set.insert(set.end(), more.begin(), more.end());
      }
    }
    sort_unique(set);
    const auto products =
        std::count_if(set.begin(), set.end(), [&](int each) { return state_.form_of(each) == StatementForm::product; });
    if (products != 2) return false;
    const Reason why = find_fusion_blocker(state_, set);
    if (why) state_.gate_blockers[s] = why;
    if (why || state_.would_create_cycle(set)) return false;
    state_.merge_statements(set);
    return true;
  }

  // Merges the gradients of attention. Their kernel recomputes the softmax statements if anything else reads them.
  void merge_attention_backward(int s) {
    if (!state_.options.fuse_epilogues || state_.form_of(s) != StatementForm::product ||
        state_.kernel_with(s).size() > 1)
      return;
    auto found = find_attention_backward(state_.program, state_.uses, state_.shapes, s, state_.options.target);
    if (!found) return;
    for (const int each : found->statements)
      if (const int made = state_.result_of(each); !found->fusion_blocker && made != found->dq && made != found->dk &&
                                                   made != found->dv && state_.must_be_stored(made))
        found->fusion_blocker = needed_elsewhere_reason(made, "the fused attention backward kernel");
    const std::vector<int> all = unite_statements(found->statements, found->softmax);
    if (std::any_of(all.begin(), all.end(),
                    [&](int each) { return state_.attention_backward_groups.contains(state_.group_of[each]); }))
      return;
    const bool own = std::all_of(found->softmax.begin(), found->softmax.end(),
                                 [&](int each) { return state_.is_internal(each, all); });
    if (found->fusion_blocker || state_.would_create_cycle(own ? all : found->statements)) {
      if (found->fusion_blocker) state_.attention_blockers[s] = found->fusion_blocker;
      return;
    }
    state_.merge_statements(own ? all : found->statements);
    state_.attention_backward_groups.insert(state_.group_of[s]);
    if (!own) state_.recomputed_statements[state_.group_of[s]] = found->softmax;
  }

  std::string needed_elsewhere_reason(int tensor, std::string_view who) const {
    return fmt::format("'{}' is also needed elsewhere, and {} does not store it", state_.name_of(tensor), who);
  }

  // Merges a sum across rows with the producers that only the sum reads; its kernel recomputes the other producers.
  void merge_sum_across_rows(int s) {
    if (state_.kernel_with(s).size() > 1 || (state_.options.target == Target::cuda && !state_.options.generate_kernels))
      return;
    const auto found = find_sum_across_rows(state_.program, state_.shapes, s, state_.options.target);
    if (!found) return;
    std::vector<int> own{s}, recomputed;
    for (auto each = found->statements.rbegin() + 1; each != found->statements.rend(); ++each) {
      std::vector<int> with{*each};
      with.insert(with.end(), own.begin(), own.end());
      if (state_.kernel_with(*each).size() == 1 && !state_.sums_across_rows.contains(*each) &&
          state_.is_internal(*each, with))
        own = with;
      else
        recomputed.insert(recomputed.begin(), *each);
    }
    if (state_.would_create_cycle(own)) return;
    state_.merge_statements(own);
    state_.sums_across_rows.insert(s);
    if (!recomputed.empty()) state_.recomputed_statements[state_.group_of[s]] = recomputed;
  }

  // Merges an attention: a product whose weights are computed from another product, with the statements in between.
  void merge_attention(int s) {
    if (!(state_.options.fuse_epilogues || state_.options.library_attention) ||
        state_.form_of(s) != StatementForm::product || state_.attention_backward_groups.contains(state_.group_of[s]))
      return;
    for (const int weights : state_.distinct_operands(s)) {
      std::vector<int> set{s};
      int products = 0;
      add_producers(weights, set, products);
      sort_unique(set);
      const bool is_made = std::any_of(set.begin(), set.end(),
                                       [&](int each) { return state_.form_of(each) == StatementForm::along_dims; });
      if (products != 1 || !is_made) continue;
      if (const std::vector<int> with_pages = add_page_gathers(state_.program, set); !attention_blocker(with_pages))
        set = with_pages;
      if (auto why = attention_blocker(set)) {
        state_.attention_blockers[s] = std::move(why);
      } else if (!state_.would_create_cycle(set)) {
        state_.merge_statements(set);
        state_.attention_statements.insert(s);
      }
      return;
    }
  }

  Reason attention_blocker(const std::vector<int>& set) const {
    if (auto why = external_use_blocker(set)) return why;
    return find_attention(state_.program, state_.shapes, set, state_.options.target).fusion_blocker;
  }

  void add_producers(int tensor, std::vector<int>& set, int& products) const {
    const int from = state_.uses.writer(tensor);
    if (from < 0 || contains(set, from) || set.size() > max_kernel_statements) return;
    set.push_back(from);
    if (state_.form_of(from) == StatementForm::product)
      ++products;
    else
      for (const int t : state_.distinct_operands(from)) add_producers(t, set, products);
  }

  Reason external_use_blocker(const std::vector<int>& set) const {
    for (const int s : set)
      if (s != set.back() && !state_.is_internal(s, set))
        return needed_elsewhere_reason(state_.result_of(s), "the fused attention kernel");
    return {};
  }

  bool try_merge(int s, int other) {
    if (state_.group_of[s] == state_.group_of[other]) return true;
    const std::vector<int> set = unite_statements(state_.kernel_with(s), state_.kernel_with(other));
    if (find_fusion_blocker(state_, set) || state_.would_create_cycle(set)) return false;
    state_.merge_statements(set);
    return true;
  }

  FusionState state_;
};

}  // namespace

FusionPlan fuse_statements(const Program& program, const std::vector<Shape>& shapes, const FuseOptions& options) {
  return StatementFuser(program, shapes, options).fuse_all();
}

}  // namespace ridge

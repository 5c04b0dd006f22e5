#include "ridge/plan/fuse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/ops/fused/model.h"
#include "ridge/plan/attention/recognize_backward.h"
#include "ridge/plan/attention/recognize_forward.h"
#include "ridge/plan/choose_fusion.h"
#include "ridge/plan/lower.h"
#include "ridge/program/contraction.h"
#include "ridge/program/routine.h"
#include "ridge/program/tensor_uses.h"

namespace ridge {
namespace {

constexpr std::size_t max_statements_per_kernel = 64;  // limit on the statements of a fused kernel
constexpr std::int64_t max_row_bytes = 1 << 20;  // limit on the bytes that a row of a CPU kernel touches; about one L2
constexpr int max_sibling_trials = 4;            // limit on the tried merges with another reader of a tensor

class StatementFuser {
 public:
  StatementFuser(const Program& program, const std::vector<Shape>& shapes, const FuseOptions& options)
      : program_(program), shapes_(shapes), options_(options), uses_(program) {
    for (const Shape& shape : shapes) {
      std::set<std::string>& keys = index_spaces_.emplace_back();
      for (const SizedAxis& axis : shape)
        if (axis.extent > 1) keys.insert(axis.dim);
    }
    for (int s = 0; s < statement_count(); ++s) {
      group_of_.push_back(s);
      members_.push_back({s});
    }
  }

  FusionPlan fuse_all() {
    const std::vector<int> standalone = topological_order();
    for (int s = 0; options_.fuse && s < statement_count(); ++s) merge_attention_backward(s);
    for (int s = 0; options_.fuse && s < statement_count(); ++s) merge_attention(s);
    for (int s = 0; options_.fuse && s < statement_count(); ++s) merge_sum_across_rows(s);
    for (int s = 0; options_.fuse && s < statement_count(); ++s) merge_producers_or_sibling(s);
    FusionPlan out;
    for (const int g : topological_order()) out.groups.push_back(make_group(members_[g], recomputed_by(g)));
    out.target = options_.target;
    out.full_row_kernels = out.target == Target::cuda ? options_.generate_kernels : options_.fuse;
    set_live_bytes(out, standalone);
    add_boundaries(out);
    return out;
  }

 private:
  int statement_count() const { return static_cast<int>(program_.statements.size()); }
  const Statement& statement_at(int s) const { return program_.statements[s]; }
  int result_of(int s) const { return statement_at(s).result(); }
  const std::string& name_of(int tensor) const { return program_.tensors[tensor].name; }
  std::int64_t tensor_bytes(int t) const { return stored_bytes(program_.tensors[t].dtype, count_elements(shapes_[t])); }
  std::vector<int> distinct_operands(int s) const { return ridge::distinct_operands(statement_at(s)); }
  bool must_be_stored(int tensor) const {
    return program_.tensors[tensor].role != TensorRole::intermediate || contains(options_.stored_tensors, tensor);
  }

  // Returns why the statements cannot be one kernel.
  Reason find_blocker(const std::vector<int>& set) const {
    std::vector<int> products, along;
    for (const int s : set) {
      if (sums_across_rows_.contains(s) && set.size() > 1 && set != members_[group_of_[s]])
        return fmt::format("{} is a sum across rows, which is a separate kernel", name_of(result_of(s)));
      if (form_of(s) == StatementForm::standalone && set.size() > 1) return standalone_blocker(s);
      if (form_of(s) == StatementForm::product) (is_row_sum(s, set) ? along : products).push_back(s);
      if (form_of(s) == StatementForm::along_dims) along.push_back(s);
    }
    if (set.size() > max_statements_per_kernel)
      return fmt::format("a kernel has at most {} statements", max_statements_per_kernel);
    if (!along.empty()) return rows_blocker(set, products, along);
    if (auto why = product_input_blocker(set, products)) return why;
    if (auto why = index_space_blocker(set)) return why;
    if (products.empty()) return chain_limit_blocker(set);
    return products_blocker(set, products);
  }

  bool is_grouped(int s) const {
    const auto* c = std::get_if<Contraction>(&statement_at(s).op);
    return c && c->grouped;
  }
  bool is_scaled_product(int s) const {
    const auto* c = std::get_if<Contraction>(&statement_at(s).op);
    return c && has_block_scaled_factor(program_, *c);
  }
  // True if s sums a product of two equal shapes, as sum(p * dp over T), and the set has statements over that shape.
  bool is_row_sum(int s, const std::vector<int>& set) const {
    if (form_of(s) != StatementForm::product) return false;
    const auto& c = std::get<Contraction>(statement_at(s).op);
    return c.literal_contracted == 1 && index_space(c.left) == index_space(c.right) &&
           std::any_of(set.begin(), set.end(), [&](int other) {
             return form_of(other) != StatementForm::product && index_space(result_of(other)) == index_space(c.left);
           });
  }
  Reason standalone_blocker(int s) const {
    const std::string made = name_of(result_of(s));
    if (is_grouped(s)) return fmt::format("{} is a grouped product, which needs a copy of one operand", made);
    if (is_scaled_product(s)) return fmt::format("{} is a block-scaled product, which has a separate kernel", made);
    return fmt::format("{} is computed by {}, which has separate kernels", made,
                       routine_name(routine_of(statement_at(s))->kind));
  }
  enum class StatementForm { product, pointwise, along_dims, standalone };
  StatementForm form_of(int s) const {
    if (routine_of(statement_at(s)) || is_grouped(s) || is_scaled_product(s)) return StatementForm::standalone;
    if (const auto* c = std::get_if<Contraction>(&statement_at(s).op))
      return has_sum(*c) ? StatementForm::product : StatementForm::pointwise;
    for (const Node& node : std::get<Expression>(statement_at(s).op).nodes)
      if (node.kind == Node::Kind::along_dims) return StatementForm::along_dims;
    return StatementForm::pointwise;
  }
  const std::set<std::string>& index_space(int tensor) const { return index_spaces_[tensor]; }

  // Returns a reason if the statements have different index spaces.
  Reason index_space_blocker(const std::vector<int>& set) const {
    const int last = result_of(set.back());
    for (const int s : set) {
      if (index_space(result_of(s)) == index_space(last)) continue;
      return fmt::format("{}{} and {}{} have different dimensions: one would be recomputed many times",
                         name_of(result_of(s)), format_shape(shapes_[result_of(s)]), name_of(last),
                         format_shape(shapes_[last]));
    }
    return {};
  }

  Reason chain_limit_blocker(const std::vector<int>& set) const {
    if (options_.target == Target::cpu || set.size() == 1) return {};
    std::vector<int> results;
    for (const int s : set) results.push_back(result_of(s));
    if (fits_device_chain(join_statements(program_, set, results))) return {};
    return "together they need more steps, tensors or registers than a device kernel has";
  }

  // Returns a reason if the same kernel computes an operand of a product.
  Reason product_input_blocker(const std::vector<int>& set, const std::vector<int>& products) const {
    for (const int p : products)
      for (const int t : distinct_operands(p))
        if (uses_.writer(t) >= 0 && contains(set, uses_.writer(t)))
          return fmt::format("the product reads {} for every tile of {}: it would be recomputed for each tile",
                             name_of(t), name_of(result_of(p)));
    return {};
  }

  Reason products_blocker(const std::vector<int>& set, const std::vector<int>& products) const {
    if (set.size() == 1) return {};
    if (!options_.fuse_epilogues) return "the library's products have no fused epilogue";
    if (products.size() > 2) return "a kernel has at most two products";
    for (const int p : products) {
      if (products.size() > 1 && contains(options_.unfused_products, p))
        return "the two products are predicted to be faster in separate kernels";
      const auto& c = std::get<Contraction>(statement_at(p).op);
      if (dtype_of(c.left) == DType::int8 && dtype_of(c.right) == DType::int8)
        return fmt::format("{} sums int8 * int8, which is exact in int32 but not in f32", name_of(c.result));
    }
    const auto groups = find_product_dims(program_, shapes_, products);
    if (!groups)
      return fmt::format("{} and {} are products without a shared operand", name_of(result_of(products[0])),
                         name_of(result_of(products[1])));
    for (const int s : set)
      if (form_of(s) == StatementForm::pointwise)
        for (int t : tensors_of(s))
          if (!product_strides(shapes_[t], *groups))
            return fmt::format("{}{} has no single stride along the product's rows and columns", name_of(t),
                               format_shape(shapes_[t]));
    for (const int s : set)
      if (const auto* e = std::get_if<Expression>(&statement_at(s).op))
        for (const Node& node : e->nodes)
          if (is_position(node) &&
              !product_strides({{node.over[0].dim, longest_extent(shapes_, node.over[0].dim), 1}}, *groups))
            return fmt::format("index({}) has no single stride along the product's rows and columns", node.over[0].dim);
    return options_.target == Target::cuda ? epilogue_blocker(set) : Reason();
  }

  // Returns why the device has no such product with a fused epilogue, or why that would be slower.
  Reason epilogue_blocker(const std::vector<int>& set) const {
    for (const int s : set)
      if (const auto* e = std::get_if<Expression>(&statement_at(s).op))
        for (const Node& node : e->nodes)
          if (is_position(node)) return "no fused epilogue of the device takes index(…)";
    const ops::FusedMatmul fused = make_fused_matmul(program_, shapes_, make_group(set));
    if (auto why = ops::cuda::unsupported_reason(fused)) return why;
    return ops::slow_fusion_reason(fused);
  }

  Reason rows_blocker(const std::vector<int>& set, const std::vector<int>& products,
                      const std::vector<int>& along) const {
    if (set.size() == 1) return {};
    const std::string& first = name_of(result_of(along.front()));
    if (!products.empty()) return fmt::format("{} needs full rows, and a product computes one tile at a time", first);
    if (options_.target == Target::cuda) return full_rows_blocker(set, first);
    const std::vector<std::string> row_dims = row_block_dimensions(program_, set);
    std::int64_t rows = 1, row_bytes = 0;
    for (const std::string& dim : row_dims) rows *= ridge::axis_along(shapes_[result_of(set.back())], dim).extent;
    if (rows == 1)
      return fmt::format("{} reduces along a dimension, and the statements share no other dimension", first);
    for (const int s : set)
      for (const int t : tensors_of(s)) row_bytes = saturating_add(row_bytes, count_elements(shapes_[t]) / rows * 4);
    if (row_bytes <= max_row_bytes) return {};
    return fmt::format("a row of {} and the adjacent statements takes {}, which exceeds a core's L2", first,
                       format_with_prefix(static_cast<double>(row_bytes), "B"));
  }

  Reason full_rows_blocker(const std::vector<int>& set, const std::string& first) const {
    if (!options_.generate_kernels)
      return fmt::format("{} reduces along a dimension, and there is no compiler (NVRTC) to generate a kernel", first);
    std::vector<int> stored;
    for (const int s : set)
      if (!is_internal(s, set)) stored.push_back(result_of(s));
    const JoinedNodes all = join_statements(program_, set, stored, true);
    const TrialRowKernelInputs inputs = make_trial_row_kernel_inputs(program_, shapes_, all.nodes);
    std::vector<ChainResult> results;
    for (const JoinedNodes::StoredNode& one : all.results) results.push_back({one.node, view_of(one.tensor)});
    const LoweredRows rows = lower_full_rows(all.nodes, results, {inputs.views, inputs.sizes});
    if (!rows.fusion_blocker) return {};
    return fmt::format("{} reduces along a dimension: {}", first, rows.fusion_blocker.text());
  }
  View view_of(int tensor) const { return {tensor, dtype_of(tensor), shapes_[tensor]}; }

  // True if the result is read only inside the kernel `set`, or by kernels that recompute it.
  bool is_internal(int s, const std::vector<int>& set) const {
    const std::vector<int>& readers = uses_.readers(result_of(s));
    const bool is_recomputed = std::any_of(recomputed_by_.begin(), recomputed_by_.end(),
                                           [&](const auto& by) { return contains(by.second, s); });
    return !must_be_stored(result_of(s)) && set.size() > 1 &&
           std::all_of(readers.begin(), readers.end(), [&](int reader) {
             return contains(set, reader) || (is_recomputed && kernel_computes(reader, s));
           });
  }
  // True if the kernel of statement s also computes the other statement.
  bool kernel_computes(int s, int other) const {
    return contains(members_[group_of_[s]], other) || contains(recomputed_by(group_of_[s]), other);
  }
  std::vector<int> recomputed_by(int g) const {
    const auto found = recomputed_by_.find(g);
    return found == recomputed_by_.end() ? std::vector<int>{} : found->second;
  }

  DType dtype_of(int tensor) const { return program_.tensors[tensor].dtype; }
  std::vector<int> tensors_of(int s) const {
    std::vector<int> all = statement_operands(statement_at(s));
    all.push_back(result_of(s));
    return all;
  }

  // True if a statement outside the set reads a result of the set, and the set reads a result that depends on it.
  bool would_create_cycle(const std::vector<int>& set) const {
    std::set<int> seen;
    std::vector<int> next;
    const auto leave = [&](int s) {
      for (const int reader : uses_.readers(result_of(s)))
        if (!contains(set, reader) && seen.insert(group_of_[reader]).second) next.push_back(group_of_[reader]);
    };
    for (const int s : set) leave(s);
    while (!next.empty()) {
      const int g = next.back();
      next.pop_back();
      for (const int s : members_[g])
        for (const int reader : uses_.readers(result_of(s))) {
          if (contains(set, reader)) return true;
          if (seen.insert(group_of_[reader]).second) next.push_back(group_of_[reader]);
        }
    }
    return false;
  }

  // Merges a statement with its producers, the latest first, since later results are less likely to have other readers.
  // If there is none to merge, a pointwise statement joins another reader of the same tensor (a sibling).
  void merge_producers_or_sibling(int s) {
    std::vector<int> producers;
    for (const int t : distinct_operands(s))
      if (uses_.writer(t) >= 0 && uses_.writer(t) < s) producers.push_back(uses_.writer(t));
    std::sort(producers.rbegin(), producers.rend());
    try_merge_all_producers(s, producers);
    for (const int p : producers) (void)try_merge(s, p);
    if (members_[group_of_[s]].size() > 1 || form_of(s) != StatementForm::pointwise) return;
    for (const int t : distinct_operands(s)) {
      if (count_elements(shapes_[t]) != count_elements(shapes_[result_of(s)])) continue;
      int trials = 0;
      const std::vector<int>& others = uses_.readers(t);
      for (auto other = std::lower_bound(others.begin(), others.end(), s); other != others.begin();)
        if (form_of(*--other) == StatementForm::pointwise && (try_merge(s, *other) || ++trials == max_sibling_trials))
          return;
    }
  }

  // Merges a statement with all its producers in one step: if only one of two products joined, the other would be
  // stored.
  void try_merge_all_producers(int s, const std::vector<int>& producers) {
    if (options_.target == Target::cuda && merge_gate_with_products(s)) return;
    std::vector<int> set = members_[group_of_[s]];
    for (const int p : producers) {
      const std::vector<int>& more = members_[group_of_[p]];
      set.insert(set.end(), more.begin(), more.end());
    }
    sort_unique(set);
    if (set.size() > 1 && !find_blocker(set) && !would_create_cycle(set)) merge_statements(set);
  }

  // Merges a gate with both its products. On a device, a merge with only one product may be slower than no merge.
  bool merge_gate_with_products(int s) {
    if (form_of(s) != StatementForm::pointwise) return false;
    std::vector<int> set{s};
    for (std::size_t i = 0; i < set.size() && set.size() <= max_statements_per_kernel; ++i) {
      if (form_of(set[i]) != StatementForm::pointwise) continue;
      for (const int t : distinct_operands(set[i])) {
        const int from = uses_.writer(t);
        if (from < 0 || index_space(t) != index_space(result_of(s)) || contains(set, from)) continue;
        const std::vector<int>& more = members_[group_of_[from]];
        set.insert(set.end(), more.begin(), more.end());
      }
    }
    sort_unique(set);
    const auto products =
        std::count_if(set.begin(), set.end(), [&](int each) { return form_of(each) == StatementForm::product; });
    if (products != 2) return false;
    const Reason why = find_blocker(set);
    if (why) gate_blockers_[s] = why;
    if (why || would_create_cycle(set)) return false;
    merge_statements(set);
    return true;
  }

  // Merges the gradients of attention. Their kernel recomputes the softmax statements if anything else reads them.
  void merge_attention_backward(int s) {
    if (!options_.fuse_epilogues || form_of(s) != StatementForm::product || members_[group_of_[s]].size() > 1) return;
    auto found = find_attention_backward(program_, uses_, shapes_, s, options_.target);
    if (!found) return;
    for (const int each : found->statements)
      if (const int made = result_of(each);
          !found->fusion_blocker && made != found->dq && made != found->dk && made != found->dv && must_be_stored(made))
        found->fusion_blocker = needed_elsewhere_reason(made, "the fused attention backward kernel");
    std::vector<int> all = found->statements;
    all.insert(all.end(), found->softmax.begin(), found->softmax.end());
    sort_unique(all);
    if (std::any_of(all.begin(), all.end(),
                    [&](int each) { return attention_backward_groups_.contains(group_of_[each]); }))
      return;
    const bool own =
        std::all_of(found->softmax.begin(), found->softmax.end(), [&](int each) { return is_internal(each, all); });
    if (found->fusion_blocker || would_create_cycle(own ? all : found->statements)) {
      if (found->fusion_blocker) attention_blockers_[s] = found->fusion_blocker;
      return;
    }
    merge_statements(own ? all : found->statements);
    attention_backward_groups_.insert(group_of_[s]);
    if (!own) recomputed_by_[group_of_[s]] = found->softmax;
  }
  std::string needed_elsewhere_reason(int tensor, std::string_view who) const {
    return fmt::format("'{}' is also needed elsewhere, and {} does not store it", name_of(tensor), who);
  }

  // Merges a sum across rows with the producers that only the sum reads; its kernel recomputes the other producers.
  void merge_sum_across_rows(int s) {
    if (members_[group_of_[s]].size() > 1 || (options_.target == Target::cuda && !options_.generate_kernels)) return;
    const auto found = find_sum_across_rows(program_, shapes_, s, options_.target);
    if (!found) return;
    std::vector<int> own{s}, recomputed;
    for (auto each = found->statements.rbegin() + 1; each != found->statements.rend(); ++each) {
      std::vector<int> with{*each};
      with.insert(with.end(), own.begin(), own.end());
      if (members_[group_of_[*each]].size() == 1 && !sums_across_rows_.contains(*each) && is_internal(*each, with))
        own = with;
      else
        recomputed.insert(recomputed.begin(), *each);
    }
    if (would_create_cycle(own)) return;
    merge_statements(own);
    sums_across_rows_.insert(s);
    if (!recomputed.empty()) recomputed_by_[group_of_[s]] = recomputed;
  }

  // Merges an attention: a product whose weights are computed from another product, with the statements in between.
  void merge_attention(int s) {
    if (!(options_.fuse_epilogues || options_.library_attention) || form_of(s) != StatementForm::product ||
        attention_backward_groups_.contains(group_of_[s]))
      return;
    for (const int weights : distinct_operands(s)) {
      std::vector<int> set{s};
      int products = 0;
      add_producers(weights, set, products);
      sort_unique(set);
      const bool is_made =
          std::any_of(set.begin(), set.end(), [&](int each) { return form_of(each) == StatementForm::along_dims; });
      if (products != 1 || !is_made) continue;
      if (const std::vector<int> with_pages = add_page_gathers(program_, set); !attention_blocker(with_pages))
        set = with_pages;
      if (auto why = attention_blocker(set)) {
        attention_blockers_[s] = std::move(why);
      } else if (!would_create_cycle(set)) {
        merge_statements(set);
        attention_statements_.insert(s);
      }
      return;
    }
  }
  Reason attention_blocker(const std::vector<int>& set) const {
    if (auto why = external_use_blocker(set)) return why;
    return find_attention(program_, shapes_, set, options_.target).fusion_blocker;
  }
  void add_producers(int tensor, std::vector<int>& set, int& products) const {
    const int from = uses_.writer(tensor);
    if (from < 0 || contains(set, from) || set.size() > max_statements_per_kernel) return;
    set.push_back(from);
    if (form_of(from) == StatementForm::product)
      ++products;
    else
      for (const int t : distinct_operands(from)) add_producers(t, set, products);
  }
  Reason external_use_blocker(const std::vector<int>& set) const {
    for (const int s : set)
      if (s != set.back() && !is_internal(s, set))
        return needed_elsewhere_reason(result_of(s), "the fused attention kernel");
    return {};
  }

  static void sort_unique(std::vector<int>& set) {
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
  }

  bool try_merge(int s, int other) {
    if (group_of_[s] == group_of_[other]) return true;
    std::vector<int> set = members_[group_of_[s]];
    const std::vector<int>& more = members_[group_of_[other]];
    set.insert(set.end(), more.begin(), more.end());
    sort_unique(set);
    if (find_blocker(set) || would_create_cycle(set)) return false;
    merge_statements(set);
    return true;
  }

  void merge_statements(const std::vector<int>& set) {
    const int g = set.back();
    for (const int s : set) members_[group_of_[s]].clear();
    for (const int s : set) group_of_[s] = g;
    members_[g] = set;
  }

  // Returns the groups in execution order; groups that are ready together are ordered by their last statement.
  std::vector<int> topological_order() const {
    std::vector<std::set<int>> successors(members_.size());
    for (int s = 0; s < statement_count(); ++s)
      for (const int reader : uses_.readers(result_of(s)))
        if (group_of_[reader] != group_of_[s]) successors[group_of_[s]].insert(group_of_[reader]);
    return order_groups(members_, successors);
  }

  FusionGroup make_group(const std::vector<int>& own, const std::vector<int>& recomputed = {}) const {
    FusionGroup out{.kind = kind_of(own), .statements = own, .recomputed = recomputed};
    const std::vector<int> set = statements_with_recomputed(out);
    std::set<int> read;
    const auto add = [&](std::int64_t& to, int tensor) { to = saturating_add(to, tensor_bytes(tensor)); };
    for (const int s : set) {
      const bool is_own = contains(own, s), kept = is_internal(s, own);
      if (kept || is_own) (kept ? out.internal_tensors : out.results).push_back(result_of(s));
      if (is_own) add(out.bytes_before, result_of(s));
      if (is_own && !kept) add(out.bytes_after, result_of(s));
      for (const int t : distinct_operands(s)) {
        if (is_own) add(out.bytes_before, t);
        const bool outer = uses_.writer(t) < 0 || !contains(set, uses_.writer(t));
        if (outer && read.insert(t).second) add(out.bytes_after, t);
      }
      // Gradients read the result of the forward pass.
      const int forward = is_own ? -1 : members_[group_of_[s]].back();
      if (attention_statements_.contains(forward) && read.insert(result_of(forward)).second)
        add(out.bytes_after, result_of(forward));
    }
    return out;
  }
  FusionGroup::GroupKind kind_of(const std::vector<int>& set) const {
    FusionGroup::GroupKind out = FusionGroup::GroupKind::pointwise;
    for (const int s : set) {
      if (form_of(s) == StatementForm::product) out = FusionGroup::GroupKind::product;
      if (form_of(s) == StatementForm::along_dims || is_row_sum(s, set)) out = FusionGroup::GroupKind::rows;
      if (sums_across_rows_.contains(s)) return FusionGroup::GroupKind::rows;
      if (attention_statements_.contains(s)) out = FusionGroup::GroupKind::attention;
      if (attention_backward_groups_.contains(group_of_[s])) return FusionGroup::GroupKind::attention_backward;
      if (form_of(s) == StatementForm::standalone)
        out = is_grouped(s) ? FusionGroup::GroupKind::product : FusionGroup::GroupKind::loops;
    }
    return out;
  }

  // Returns the bytes of live tensors during each step; a step runs one list of statements.
  std::vector<std::int64_t> live_bytes_per_step(const std::vector<std::vector<int>>& lists,
                                                const std::set<int>& internal_tensors) const {
    std::vector<std::size_t> when(statement_count());
    for (std::size_t i = lists.size(); i-- > 0;)
      for (const int s : lists[i]) when[s] = i;
    std::vector<std::int64_t> out(lists.size());
    for (int t = 0; t < static_cast<int>(program_.tensors.size()); ++t) {
      if (internal_tensors.contains(t)) continue;
      std::size_t first = uses_.writer(t) < 0 ? 0 : when[uses_.writer(t)], last = first;
      for (const int reader : uses_.readers(t)) last = std::max(last, when[reader]);
      if (must_be_stored(t)) last = lists.size() - 1;
      for (std::size_t i = first; i <= last && i < out.size(); ++i) out[i] = saturating_add(out[i], tensor_bytes(t));
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
    if (!options_.fuse) return;
    for (int s = 0; s < statement_count(); ++s)
      for (const int t : distinct_operands(s)) {
        const int from = uses_.writer(t);
        if (from < 0 || kernel_computes(s, from)) continue;
        std::vector<int> two{from, s}, set = members_[group_of_[s]];
        const std::vector<int>& more = members_[group_of_[from]];
        set.insert(set.end(), more.begin(), more.end());
        sort_unique(set);
        Reason why = find_blocker(two);
        if (const auto pair = gate_blockers_.find(s);
            why && form_of(from) == StatementForm::product && pair != gate_blockers_.end())
          why = pair->second;
        if (!why) why = find_blocker(set);
        if (const auto attention = attention_blockers_.find(s);
            attention != attention_blockers_.end() && form_of(from) != StatementForm::product)
          why = attention->second;
        out.boundaries.push_back({from, s, why ? why.text() : "another kernel would have to run between the two"});
      }
  }

  const Program& program_;
  const std::vector<Shape>& shapes_;
  const FuseOptions& options_;
  std::vector<std::set<std::string>> index_spaces_;  // dimensions longer than 1, by tensor
  TensorUses uses_;
  std::vector<int> group_of_;                 // group of a statement, named by the group's last statement
  std::vector<std::vector<int>> members_;     // sorted statements of a group; cleared when it is merged into another
  std::map<int, Reason> gate_blockers_;       // reason why a statement and its two products are not one kernel
  std::set<int> attention_statements_;        // statements that are the last product of a fused attention
  std::map<int, Reason> attention_blockers_;  // reason why a product like attention is not fused
  std::set<int> attention_backward_groups_;   // groups that are gradients of attention
  std::set<int> sums_across_rows_;            // statements that are sums across rows, each last in its kernel
  std::map<int, std::vector<int>> recomputed_by_;  // sorted statements of other groups that a group recomputes
};

}  // namespace

FusionPlan fuse_statements(const Program& program, const std::vector<Shape>& shapes, const FuseOptions& options) {
  return StatementFuser(program, shapes, options).fuse_all();
}

}  // namespace ridge

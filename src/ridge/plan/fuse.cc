#include "ridge/plan/fuse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "ridge/base/text.h"
#include "ridge/ops/fused/model.h"
#include "ridge/plan/attention/backward.h"
#include "ridge/plan/attention/forward.h"
#include "ridge/plan/lower.h"
#include "ridge/program/elementwise.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

constexpr std::size_t most_statements = 64;       // limit on the statements of a fused kernel
constexpr std::int64_t most_row_bytes = 1 << 20;  // limit on the bytes that a row of a CPU kernel touches; about one L2
constexpr int most_siblings = 4;                  // limit on the readers of the same tensor that are tried

std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

class Fuser {
 public:
  Fuser(const Program& program, const std::vector<Shape>& shapes, const FuseOptions& options)
      : program_(program), shapes_(shapes), options_(options), readers_(program.tensors.size()) {
    writer_.assign(program.tensors.size(), -1);
    for (const Shape& shape : shapes) {
      std::set<std::string>& keys = spaces_.emplace_back();
      for (const SizedAxis& axis : shape)
        if (axis.extent > 1) keys.insert(axis.dim);
    }
    for (int s = 0; s < count(); ++s) {
      for (const int t : distinct_operands(s)) readers_[at(t)].push_back(s);
      writer_[at(result(s))] = s;
      group_of_.push_back(s);
      members_.push_back({s});
    }
  }

  Fusion perform() {
    const std::vector<int> alone = order();
    for (int s = 0; options_.fuse && s < count(); ++s) join_attention_backward(s);
    for (int s = 0; options_.fuse && s < count(); ++s) join_attention(s);
    for (int s = 0; options_.fuse && s < count(); ++s) join_across(s);
    for (int s = 0; options_.fuse && s < count(); ++s) join_producers(s);
    Fusion out;
    for (const int g : order()) out.groups.push_back(group(members_[at(g)], made_again(g)));
    out.target = options_.target;
    out.whole = out.target == Target::cuda ? options_.generate : options_.fuse;
    weigh(out, alone);
    add_seams(out);
    return out;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int count() const { return static_cast<int>(program_.statements.size()); }
  const Statement& statement(int s) const { return program_.statements[at(s)]; }
  int result(int s) const { return statement(s).result(); }
  const std::string& name_of(int tensor) const { return program_.tensors[at(tensor)].name; }
  std::int64_t bytes(int t) const { return stored_bytes(program_.tensors[at(t)].dtype, elements(shapes_[at(t)])); }
  std::vector<int> distinct_operands(int s) const {
    std::vector<int> all = operands(statement(s));
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }
  bool stored_anyway(int tensor) const {
    return program_.tensors[at(tensor)].role != Role::intermediate ||
           std::find(options_.stored.begin(), options_.stored.end(), tensor) != options_.stored.end();
  }

  // Returns why the statements cannot be one kernel, or nullopt if they can.
  std::optional<std::string> fault(const std::vector<int>& set) const {
    std::vector<int> products, along;
    for (const int s : set) {
      if (across_.contains(s) && set.size() > 1 && set != members_[at(group_of_[at(s)])])
        return fmt::format("{} is a sum across rows, which is a separate kernel", name_of(result(s)));
      if (form(s) == Form::alone && set.size() > 1) return alone_fault(s);
      if (form(s) == Form::product) (is_row_sum(s, set) ? along : products).push_back(s);
      if (form(s) == Form::along) along.push_back(s);
    }
    if (set.size() > most_statements) return fmt::format("a kernel has at most {} statements", most_statements);
    if (!along.empty()) return rows_fault(set, products, along);
    if (auto why = chained_fault(set, products)) return why;
    if (auto why = space_fault(set)) return why;
    if (products.empty()) return chain_fault(set);
    return products_fault(set, products);
  }

  bool is_grouped(int s) const {
    const auto* c = std::get_if<Contraction>(&statement(s).op);
    return c && c->grouped;
  }
  bool is_scaled_product(int s) const {
    const auto* c = std::get_if<Contraction>(&statement(s).op);
    return c && takes_scaled(program_, *c);
  }
  // True if s sums a product of two equal shapes, as sum(p * dp over T), and the set has statements over that shape.
  bool is_row_sum(int s, const std::vector<int>& set) const {
    if (form(s) != Form::product) return false;
    const auto& c = std::get<Contraction>(statement(s).op);
    return c.literal_contracted == 1 && space(c.left) == space(c.right) &&
           std::any_of(set.begin(), set.end(), [&](int other) {
             return form(other) != Form::product && space(result(other)) == space(c.left);
           });
  }
  std::string alone_fault(int s) const {
    const std::string made = name_of(result(s));
    if (is_grouped(s)) return fmt::format("{} is a grouped product, which needs a copy of one operand", made);
    if (is_scaled_product(s)) return fmt::format("{} is a block-scaled product, which has a separate kernel", made);
    return fmt::format("{} is computed by {}, which has separate kernels", made, name(routine_of(statement(s))->word));
  }
  enum class Form { product, pointwise, along, alone };
  Form form(int s) const {
    if (routine_of(statement(s)) || is_grouped(s) || is_scaled_product(s)) return Form::alone;
    if (const auto* c = std::get_if<Contraction>(&statement(s).op)) return sums(*c) ? Form::product : Form::pointwise;
    for (const Node& node : std::get<Expression>(statement(s).op).nodes)
      if (node.kind == Node::Kind::along) return Form::along;
    return Form::pointwise;
  }
  const std::set<std::string>& space(int tensor) const { return spaces_[at(tensor)]; }

  // Returns a reason if the statements have different index spaces.
  std::optional<std::string> space_fault(const std::vector<int>& set) const {
    const int last = result(set.back());
    for (const int s : set) {
      if (space(result(s)) == space(last)) continue;
      return fmt::format("{}{} and {}{} have different dimensions: one would be recomputed many times",
                         name_of(result(s)), text(shapes_[at(result(s))]), name_of(last), text(shapes_[at(last)]));
    }
    return std::nullopt;
  }

  std::optional<std::string> chain_fault(const std::vector<int>& set) const {
    if (options_.target == Target::cpu || set.size() == 1) return std::nullopt;
    std::vector<int> results;
    for (const int s : set) results.push_back(result(s));
    if (fits_device(joined(program_, set, results))) return std::nullopt;
    return "together they need more steps, tensors or registers than a device kernel has";
  }

  // Returns a reason if the same kernel computes an operand of a product.
  std::optional<std::string> chained_fault(const std::vector<int>& set, const std::vector<int>& products) const {
    for (const int p : products)
      for (const int t : distinct_operands(p))
        if (writer_[at(t)] >= 0 && contains(set, writer_[at(t)]))
          return fmt::format("the product reads {} for every tile of {}: it would be recomputed for each tile",
                             name_of(t), name_of(result(p)));
    return std::nullopt;
  }

  std::optional<std::string> products_fault(const std::vector<int>& set, const std::vector<int>& products) const {
    if (set.size() == 1) return std::nullopt;
    if (!options_.epilogues) return "the library's products have no fused epilogue";
    if (products.size() > 2) return "a kernel has at most two products";
    for (const int p : products) {
      if (products.size() > 1 && std::find(options_.apart.begin(), options_.apart.end(), p) != options_.apart.end())
        return "the two products are predicted to be faster in separate kernels";
      const auto& c = std::get<Contraction>(statement(p).op);
      if (dtype(c.left) == DType::int8 && dtype(c.right) == DType::int8)
        return fmt::format("{} sums int8 * int8, which is exact in int32 but not in f32", name_of(c.result));
    }
    const auto groups = product_groups(program_, shapes_, products);
    if (!groups)
      return fmt::format("{} and {} are products without a shared operand", name_of(result(products[0])),
                         name_of(result(products[1])));
    for (const int s : set)
      if (form(s) == Form::pointwise)
        for (int t : tensors_of(s))
          if (!regrouped(shapes_[at(t)], *groups))
            return fmt::format("{}{} has no single stride along the product's rows and columns", name_of(t),
                               text(shapes_[at(t)]));
    for (const int s : set)
      if (const auto* e = std::get_if<Expression>(&statement(s).op))
        for (const Node& node : e->nodes)
          if (is_place(node) && !regrouped({{node.over[0].dim, longest(shapes_, node.over[0].dim), 1}}, *groups))
            return fmt::format("index({}) has no single stride along the product's rows and columns", node.over[0].dim);
    return options_.target == Target::cuda ? epilogue_fault(set) : std::nullopt;
  }

  // Returns why the device has no such product with a fused epilogue, or why that would be slower.
  std::optional<std::string> epilogue_fault(const std::vector<int>& set) const {
    for (const int s : set)
      if (const auto* e = std::get_if<Expression>(&statement(s).op))
        for (const Node& node : e->nodes)
          if (is_place(node)) return "no fused epilogue of the device takes index(…)";
    const ops::FusedMatmul fused = fused_product(program_, shapes_, group(set));
    const std::optional<std::string> refusal = ops::cuda::refuse(fused);
    return refusal ? refusal : ops::slow_epilogue(fused);
  }

  std::optional<std::string> rows_fault(const std::vector<int>& set, const std::vector<int>& products,
                                        const std::vector<int>& along) const {
    if (set.size() == 1) return std::nullopt;
    const std::string& first = name_of(result(along.front()));
    if (!products.empty()) return fmt::format("{} needs full rows, and a product computes one tile at a time", first);
    if (options_.target == Target::cuda) return whole_rows_fault(set, first);
    const std::vector<std::string> cut = cut_dimensions(program_, set);
    std::int64_t rows = 1, row_bytes = 0;
    for (const std::string& dim : cut) rows *= ridge::along(shapes_[at(result(set.back()))], dim).extent;
    if (rows == 1)
      return fmt::format("{} reduces along a dimension, and the statements share no other dimension",
                         first);
    for (const int s : set)
      for (const int t : tensors_of(s)) row_bytes = plus(row_bytes, elements(shapes_[at(t)]) / rows * 4);
    if (row_bytes <= most_row_bytes) return std::nullopt;
    return fmt::format("a row of {} and the adjacent statements takes {}, which exceeds a core's L2", first,
                       engineering(static_cast<double>(row_bytes), "B"));
  }

  std::optional<std::string> whole_rows_fault(const std::vector<int>& set, const std::string& first) const {
    if (!options_.generate)
      return fmt::format("{} reduces along a dimension, and there is no compiler (NVRTC) to generate a kernel", first);
    std::vector<int> stored;
    for (const int s : set)
      if (!inner(s, set)) stored.push_back(result(s));
    const Pointwise all = joined(program_, set, stored, true);
    const TriedLeaves leaves = tried_leaves(program_, shapes_, all.nodes);
    std::vector<ChainResult> results;
    for (const Pointwise::Stored& one : all.results) results.push_back({one.node, view(one.tensor)});
    const LoweredRows rows = lower_whole_rows(all.nodes, results, {leaves.views, leaves.sizes});
    if (rows.fault.empty()) return std::nullopt;
    return fmt::format("{} reduces along a dimension: {}", first, rows.fault);
  }
  View view(int tensor) const { return {tensor, dtype(tensor), shapes_[at(tensor)]}; }

  // True if the result is read only inside the kernel `set`, or by kernels that recompute it.
  bool inner(int s, const std::vector<int>& set) const {
    const std::vector<int>& readers = readers_[at(result(s))];
    const bool again =
        std::any_of(made_again_.begin(), made_again_.end(), [&](const auto& by) { return contains(by.second, s); });
    return !stored_anyway(result(s)) && set.size() > 1 && std::all_of(readers.begin(), readers.end(), [&](int reader) {
      return contains(set, reader) || (again && makes(reader, s));
    });
  }
  // True if the kernel of statement s also computes the other statement.
  bool makes(int s, int other) const {
    return contains(members_[at(group_of_[at(s)])], other) || contains(made_again(group_of_[at(s)]), other);
  }
  std::vector<int> made_again(int g) const {
    const auto found = made_again_.find(g);
    return found == made_again_.end() ? std::vector<int>{} : found->second;
  }

  DType dtype(int tensor) const { return program_.tensors[at(tensor)].dtype; }
  std::vector<int> tensors_of(int s) const {
    std::vector<int> all = operands(statement(s));
    all.push_back(result(s));
    return all;
  }
  static bool contains(const std::vector<int>& set, int s) { return std::binary_search(set.begin(), set.end(), s); }

  // True if a statement outside the set depends on the set and the set depends on it.
  bool circular(const std::vector<int>& set) const {
    std::set<int> seen;
    std::vector<int> next;
    const auto leave = [&](int s) {
      for (const int reader : readers_[at(result(s))])
        if (!contains(set, reader) && seen.insert(group_of_[at(reader)]).second) next.push_back(group_of_[at(reader)]);
    };
    for (const int s : set) leave(s);
    while (!next.empty()) {
      const int g = next.back();
      next.pop_back();
      for (const int s : members_[at(g)])
        for (const int reader : readers_[at(result(s))]) {
          if (contains(set, reader)) return true;
          if (seen.insert(group_of_[at(reader)]).second) next.push_back(group_of_[at(reader)]);
        }
    }
    return false;
  }

  // Tries the latest producers first, since their results are the most likely to have no other reader. If none can be
  // merged, a pointwise statement joins another that reads the same tensor.
  void join_producers(int s) {
    std::vector<int> producers;
    for (const int t : distinct_operands(s))
      if (writer_[at(t)] >= 0 && writer_[at(t)] < s) producers.push_back(writer_[at(t)]);
    std::sort(producers.rbegin(), producers.rend());
    join_pair(s, producers);
    for (const int p : producers) (void)join(s, p);
    if (members_[at(group_of_[at(s)])].size() > 1 || form(s) != Form::pointwise) return;
    for (const int t : distinct_operands(s)) {
      if (elements(shapes_[at(t)]) != elements(shapes_[at(result(s))])) continue;
      int tried = 0;
      const std::vector<int>& others = readers_[at(t)];
      for (auto other = std::lower_bound(others.begin(), others.end(), s); other != others.begin();)
        if (form(*--other) == Form::pointwise && (join(s, *other) || ++tried == most_siblings)) return;
    }
  }

  // Merges a statement with all its producers together: with one of two products, the other would still be stored.
  void join_pair(int s, const std::vector<int>& producers) {
    if (options_.target == Target::cuda && join_gate(s)) return;
    std::vector<int> set = members_[at(group_of_[at(s)])];
    for (const int p : producers) {
      const std::vector<int>& more = members_[at(group_of_[at(p)])];
      set.insert(set.end(), more.begin(), more.end());
    }
    settle(set);
    if (set.size() > 1 && !fault(set) && !circular(set)) merge(set);
  }

  // Merges a gate with both products. On a device one merge alone may be slower than none, and both together fastest.
  bool join_gate(int s) {
    if (form(s) != Form::pointwise) return false;
    std::vector<int> set{s};
    for (std::size_t i = 0; i < set.size() && set.size() <= most_statements; ++i) {
      if (form(set[i]) != Form::pointwise) continue;
      for (const int t : distinct_operands(set[i])) {
        const int from = writer_[at(t)];
        if (from < 0 || space(t) != space(result(s)) || std::find(set.begin(), set.end(), from) != set.end()) continue;
        const std::vector<int>& more = members_[at(group_of_[at(from)])];
        set.insert(set.end(), more.begin(), more.end());
      }
    }
    settle(set);
    const auto products = std::count_if(set.begin(), set.end(), [&](int each) { return form(each) == Form::product; });
    if (products != 2) return false;
    const std::optional<std::string> why = fault(set);
    if (why) pair_faults_[s] = *why;
    if (why || circular(set)) return false;
    merge(set);
    return true;
  }

  // Merges the gradients of attention. Their kernel recomputes the softmax statements if anything else reads them.
  void join_attention_backward(int s) {
    if (!options_.epilogues || form(s) != Form::product || members_[at(group_of_[at(s)])].size() > 1) return;
    auto found = find_attention_backward(program_, shapes_, s, options_.target);
    if (!found) return;
    for (const int each : found->statements)
      if (const int made = result(each);
          found->fault.empty() && made != found->dq && made != found->dk && made != found->dv && stored_anyway(made))
        found->fault = wanted_by_others(made, "the fused attention backward kernel");
    std::vector<int> all = found->statements;
    all.insert(all.end(), found->softmax.begin(), found->softmax.end());
    settle(all);
    if (std::any_of(all.begin(), all.end(), [&](int each) { return gradients_.contains(group_of_[at(each)]); })) return;
    const bool own =
        std::all_of(found->softmax.begin(), found->softmax.end(), [&](int each) { return inner(each, all); });
    if (!found->fault.empty() || circular(own ? all : found->statements)) {
      if (!found->fault.empty()) attention_faults_[s] = found->fault;
      return;
    }
    merge(own ? all : found->statements);
    gradients_.insert(group_of_[at(s)]);
    if (!own) made_again_[group_of_[at(s)]] = found->softmax;
  }
  std::string wanted_by_others(int tensor, std::string_view who) const {
    return fmt::format("'{}' is also needed elsewhere, and {} does not store it", name_of(tensor), who);
  }

  // Merges a sum across rows with the statements that only it reads; its kernel recomputes the others.
  void join_across(int s) {
    if (members_[at(group_of_[at(s)])].size() > 1 || (options_.target == Target::cuda && !options_.generate)) return;
    const auto found = find_across(program_, shapes_, s, options_.target);
    if (!found) return;
    std::vector<int> own{s}, again;
    for (auto each = found->statements.rbegin() + 1; each != found->statements.rend(); ++each) {
      std::vector<int> with{*each};
      with.insert(with.end(), own.begin(), own.end());
      if (members_[at(group_of_[at(*each)])].size() == 1 && !across_.contains(*each) && inner(*each, with))
        own = with;
      else
        again.insert(again.begin(), *each);
    }
    if (circular(own)) return;
    merge(own);
    across_.insert(s);
    if (!again.empty()) made_again_[group_of_[at(s)]] = again;
  }

  // Merges an attention: a product whose weights are computed from another product, with the statements in between.
  void join_attention(int s) {
    if (!(options_.epilogues || options_.attention) || form(s) != Form::product ||
        gradients_.contains(group_of_[at(s)]))
      return;
    for (const int weights : distinct_operands(s)) {
      std::vector<int> set{s};
      int products = 0;
      add_makers(weights, set, products);
      settle(set);
      const bool is_made = std::any_of(set.begin(), set.end(), [&](int each) { return form(each) == Form::along; });
      if (products != 1 || !is_made) continue;
      if (const std::vector<int> paged = with_gathers(program_, set); attention_fault(paged).empty()) set = paged;
      const std::string fault = attention_fault(set);
      if (!fault.empty()) {
        attention_faults_[s] = fault;
      } else if (!circular(set)) {
        merge(set);
        attentions_.insert(s);
      }
      return;
    }
  }
  std::string attention_fault(const std::vector<int>& set) const {
    std::string fault = stored_fault(set);
    return fault.empty() ? find_attention(program_, shapes_, set, options_.target).fault : fault;
  }
  void add_makers(int tensor, std::vector<int>& set, int& products) const {
    const int from = writer_[at(tensor)];
    if (from < 0 || std::find(set.begin(), set.end(), from) != set.end() || set.size() > most_statements) return;
    set.push_back(from);
    if (form(from) == Form::product)
      ++products;
    else
      for (const int t : distinct_operands(from)) add_makers(t, set, products);
  }
  std::string stored_fault(const std::vector<int>& set) const {
    for (const int s : set)
      if (s != set.back() && !inner(s, set)) return wanted_by_others(result(s), "the fused attention kernel");
    return {};
  }

  static void settle(std::vector<int>& set) {
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
  }

  bool join(int s, int other) {
    if (group_of_[at(s)] == group_of_[at(other)]) return true;
    std::vector<int> set = members_[at(group_of_[at(s)])];
    const std::vector<int>& more = members_[at(group_of_[at(other)])];
    set.insert(set.end(), more.begin(), more.end());
    settle(set);
    if (fault(set) || circular(set)) return false;
    merge(set);
    return true;
  }

  void merge(const std::vector<int>& set) {
    const int g = set.back();
    for (const int s : set) members_[at(group_of_[at(s)])].clear();
    for (const int s : set) group_of_[at(s)] = g;
    members_[at(g)] = set;
  }

  // Returns the groups so that each follows those whose results it reads; ties by the position of the last statement.
  std::vector<int> order() const {
    std::vector<std::set<int>> after(members_.size());
    std::vector<int> waits(members_.size());
    for (int s = 0; s < count(); ++s)
      for (const int reader : readers_[at(result(s))])
        if (group_of_[at(reader)] != group_of_[at(s)] &&
            after[at(group_of_[at(s)])].insert(group_of_[at(reader)]).second)
          ++waits[at(group_of_[at(reader)])];
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int g = 0; g < static_cast<int>(members_.size()); ++g)
      if (!members_[at(g)].empty() && waits[at(g)] == 0) ready.push(g);
    std::vector<int> out;
    for (; !ready.empty();) {
      out.push_back(ready.top());
      ready.pop();
      for (const int g : after[at(out.back())])
        if (--waits[at(g)] == 0) ready.push(g);
    }
    return out;
  }

  Group group(const std::vector<int>& own, const std::vector<int>& again = {}) const {
    Group out{.kind = kind(own), .statements = own, .again = again};
    const std::vector<int> set = all_statements(out);
    std::set<int> read;
    const auto add = [&](std::int64_t& to, int tensor) { to = plus(to, bytes(tensor)); };
    for (const int s : set) {
      const bool is_own = contains(own, s), kept = inner(s, own);
      if (kept || is_own) (kept ? out.inside : out.results).push_back(result(s));
      if (is_own) add(out.bytes_before, result(s));
      if (is_own && !kept) add(out.bytes_after, result(s));
      for (const int t : distinct_operands(s)) {
        if (is_own) add(out.bytes_before, t);
        const bool outer = writer_[at(t)] < 0 || !contains(set, writer_[at(t)]);
        if (outer && read.insert(t).second) add(out.bytes_after, t);
      }
      // Gradients read the result of the forward pass.
      const int forward = is_own ? -1 : members_[at(group_of_[at(s)])].back();
      if (attentions_.contains(forward) && read.insert(result(forward)).second) add(out.bytes_after, result(forward));
    }
    return out;
  }
  Group::Kind kind(const std::vector<int>& set) const {
    Group::Kind out = Group::Kind::pointwise;
    for (const int s : set) {
      if (form(s) == Form::product) out = Group::Kind::product;
      if (form(s) == Form::along || is_row_sum(s, set)) out = Group::Kind::rows;
      if (across_.contains(s)) return Group::Kind::rows;
      if (attentions_.contains(s)) out = Group::Kind::attention;
      if (gradients_.contains(group_of_[at(s)])) return Group::Kind::attention_backward;
      if (form(s) == Form::alone) out = is_grouped(s) ? Group::Kind::product : Group::Kind::loops;
    }
    return out;
  }

  // Returns the bytes of live tensors while each of `lists` runs.
  std::vector<std::int64_t> alive(const std::vector<std::vector<int>>& lists, const std::set<int>& inside) const {
    std::vector<std::size_t> when(at(count()));
    for (std::size_t i = lists.size(); i-- > 0;)
      for (const int s : lists[i]) when[at(s)] = i;
    std::vector<std::int64_t> out(lists.size());
    for (int t = 0; t < static_cast<int>(program_.tensors.size()); ++t) {
      if (inside.contains(t)) continue;
      std::size_t first = writer_[at(t)] < 0 ? 0 : when[at(writer_[at(t)])], last = first;
      for (const int reader : readers_[at(t)]) last = std::max(last, when[at(reader)]);
      if (stored_anyway(t)) last = lists.size() - 1;
      for (std::size_t i = first; i <= last && i < out.size(); ++i) out[i] = plus(out[i], bytes(t));
    }
    return out;
  }

  void weigh(Fusion& out, const std::vector<int>& alone) const {
    if (out.groups.empty()) return;
    std::vector<std::vector<int>> before, after;
    std::set<int> inside;
    for (const int s : alone) before.push_back({s});
    for (const Group& g : out.groups) {
      after.push_back(g.statements);
      inside.insert(g.inside.begin(), g.inside.end());
    }
    const std::vector<std::int64_t> then = alive(before, {}), now = alive(after, inside);
    for (std::size_t i = 0; i < now.size(); ++i) out.groups[i].alive_bytes = now[i];
    out.alive_before = *std::max_element(then.begin(), then.end());
    out.alive_after = *std::max_element(now.begin(), now.end());
  }

  // Records why two statements do not share a kernel; the reasons are found again from the final groups.
  void add_seams(Fusion& out) const {
    if (!options_.fuse) return;
    for (int s = 0; s < count(); ++s)
      for (const int t : distinct_operands(s)) {
        const int from = writer_[at(t)];
        if (from < 0 || makes(s, from)) continue;
        std::vector<int> two{from, s}, set = members_[at(group_of_[at(s)])];
        const std::vector<int>& more = members_[at(group_of_[at(from)])];
        set.insert(set.end(), more.begin(), more.end());
        settle(set);
        std::optional<std::string> why = fault(two);
        if (const auto pair = pair_faults_.find(s); why && form(from) == Form::product && pair != pair_faults_.end())
          why = pair->second;
        if (!why) why = fault(set);
        if (const auto attention = attention_faults_.find(s);
            attention != attention_faults_.end() && form(from) != Form::product)
          why = attention->second;
        out.seams.push_back({from, s, why ? *why : "another kernel would have to run between the two"});
      }
  }

  const Program& program_;
  const std::vector<Shape>& shapes_;
  const FuseOptions& options_;
  std::vector<std::set<std::string>> spaces_;    // dimensions longer than 1, by tensor
  std::vector<std::vector<int>> readers_;        // statements that read a tensor
  std::vector<int> writer_;                      // statement that writes a tensor; -1 for an input
  std::vector<int> group_of_;                    // group of a statement, named by the group's last statement
  std::vector<std::vector<int>> members_;        // sorted statements of a group; cleared when it is merged into another
  std::map<int, std::string> pair_faults_;       // reason why a statement and its two products are not one kernel
  std::set<int> attentions_;                     // statements that are the last product of a fused attention
  std::map<int, std::string> attention_faults_;  // reason why a product like attention is not fused
  std::set<int> gradients_;                      // groups that are gradients of attention
  std::set<int> across_;                         // statements that are sums across rows, each last in its kernel
  std::map<int, std::vector<int>> made_again_;   // sorted statements of others that a group recomputes
};

}  // namespace

std::string_view name(Group::Kind kind) {
  switch (kind) {
    case Group::Kind::product: return "product";
    case Group::Kind::pointwise: return "pointwise";
    case Group::Kind::rows: return "rows";
    case Group::Kind::attention: return "attention";
    case Group::Kind::attention_backward: return "attention_backward";
    case Group::Kind::loops: return "loops";
  }
  return "";
}

std::vector<int> all_statements(const Group& group) {
  std::vector<int> out;
  std::merge(group.statements.begin(), group.statements.end(), group.again.begin(), group.again.end(),
             std::back_inserter(out));
  return out;
}

Fusion fuse(const Program& program, const std::vector<Shape>& shapes, const FuseOptions& options) {
  return Fuser(program, shapes, options).perform();
}

}  // namespace ridge

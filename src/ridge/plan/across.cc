// Recognises sums across rows of normalised values. The gradient of a norm's weight is one:
//
//   r[N] = rsqrt(mean(x * x over D) + 1e-5)     h[N, D] = x * r     dw[D] = dy * h
//
// becomes one kernel that reads x and dy, even if other statements read r and h. A sum of x * dy is recognised, too.
#include <algorithm>
#include <set>

#include "ridge/ops/rows/program.h"
#include "ridge/plan/lower.h"
#include "ridge/program/elementwise.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

constexpr std::size_t most_makers = 8;  // limit on the statements between x and the sum

class Finding {
 public:
  Finding(const Program& program, const std::vector<Shape>& shapes, int statement, Target target)
      : program_(program), shapes_(shapes), sum_(statement), target_(target) {}

  std::optional<FoundAcross> find() {
    if (!is_sum()) return std::nullopt;
    // Adds the statements that compute one operand, latest first, and keeps the largest set whose inputs match x and
    // dy: u = x - mean(x over D) is the x of an rmsnorm; with that statement in the set, x is that of a layernorm.
    std::optional<FoundAcross> best = as_one({sum_});
    for (const int operand : operands(statement(sum_))) {
      std::vector<int> set{sum_};
      std::set<int> next{maker(operand)};
      while (set.size() <= most_makers && *next.rbegin() >= 0) {
        const int last = *next.rbegin();
        next.erase(last);
        set.insert(set.begin(), last);
        for (const int t : operands(statement(last))) next.insert(maker(t));
        next.insert(-1);
        std::sort(set.begin(), set.end());
        if (auto found = as_one(set); found && (!best || found->statements.size() > best->statements.size()))
          best = std::move(found);
      }
    }
    return best;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  const Statement& statement(int s) const { return program_.statements[at(s)]; }
  const Shape& shape_of(int tensor) const { return shapes_[at(tensor)]; }

  // Returns the statement before the sum that writes the tensor, or -1 if there is none or it cannot join.
  int maker(int tensor) const {
    for (int s = 0; s < sum_; ++s)
      if (statement(s).result() == tensor && !routine_of(statement(s)))
        return is_plain(std::get_if<Contraction>(&statement(s).op)) ? s : -1;
    return -1;
  }
  // True if the statement is elementwise, or a product whose two operands have the same dimensions.
  static bool is_plain(const Contraction* c) {
    return c == nullptr || (!c->grouped && c->literal_contracted == 1 &&
                            (!sums(*c) || (c->left_free.empty() && c->right_free.empty())));
  }

  // True if the statement sums over every dimension that the result lacks; sets `rows_` and `columns_`.
  bool is_sum() {
    if (routine_of(statement(sum_))) return false;
    const auto* c = std::get_if<Contraction>(&statement(sum_).op);
    if (!is_plain(c) || (c != nullptr && (!sums(*c) || takes_scaled(program_, *c)))) return false;
    const Expression e = c != nullptr ? elementwise(*c) : std::get<Expression>(statement(sum_).op);
    const Node& last = e.nodes.back();
    if (last.kind != Node::Kind::along || last.function != Function::sum) return false;
    for (const int t : operands(statement(sum_)))
      for (const SizedAxis& axis : shape_of(t))
        if (axis.extent > 1 && !has(shape_of(e.result), axis.dim) && !contains(rows_, axis.dim))
          rows_.push_back(axis.dim);
    for (const SizedAxis& axis : shape_of(e.result))
      if (axis.extent > 1) columns_.push_back(axis.dim);
    return !rows_.empty() && !columns_.empty();
  }
  static bool contains(const std::vector<std::string>& dims, const std::string& dim) {
    return std::find(dims.begin(), dims.end(), dim) != dims.end();
  }

  // Returns the packed shape of the operand of the sum, which is never stored.
  Shape whole() const {
    Shape out;
    for (const auto* dims : {&rows_, &columns_})
      for (const std::string& dim : *dims) out.push_back({dim, longest(shapes_, dim), 0});
    std::vector<std::string> order = rows_;
    order.insert(order.end(), columns_.begin(), columns_.end());
    return packed(out, order);
  }

  std::optional<FoundAcross> as_one(const std::vector<int>& set) const {
    const int result = statement(sum_).result();
    if (merged_stride(shape_of(result), columns_) != 1) return std::nullopt;
    Pointwise all = joined(program_, set, {result}, true);
    const int summed = all.nodes.back().arguments[0];
    all.nodes.pop_back();
    const TriedLeaves leaves = tried_leaves(program_, shapes_, all.nodes);
    const View out{result, program_.tensors[at(result)].dtype, whole()};
    const LoweredRows rows = lower_whole_rows(all.nodes, {{static_cast<std::size_t>(summed), out}},
                                              {leaves.views, leaves.sizes, Target::cpu, columns_});
    if (!rows.fault.empty()) return std::nullopt;
    const auto known = ops::known_rows(rows.program, true);
    if (!known || ops::refuse(known->problem)) return std::nullopt;
    if (target_ == Target::cuda && ops::find_fault(ops::row_program(known->problem, false))) return std::nullopt;
    const int x = rows.buffers[at(known->x)], dy = rows.buffers[at(known->dy)];
    if (x < 0 || dy < 0) return std::nullopt;  // an index buffer, not a tensor
    return FoundAcross{set, known->problem, x, dy, result};
  }

  const Program& program_;
  const std::vector<Shape>& shapes_;
  const int sum_;
  const Target target_;
  std::vector<std::string> rows_, columns_;
};

}  // namespace

std::optional<FoundAcross> find_across(const Program& program, const std::vector<Shape>& shapes, int statement,
                                       Target target) {
  return Finding(program, shapes, statement, target).find();
}

}  // namespace ridge

// Recognises sums across rows of normalised values. The gradient of a norm's weight is one:
//
//   r[N] = rsqrt(mean(x * x over D) + 1e-5)     h[N, D] = x * r     dw[D] = dy * h
//
// becomes one kernel that reads x and dy, even if other statements read r and h. A sum of x * dy is recognised, too.
#include <algorithm>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/ops/rows/program.h"
#include "ridge/plan/lower.h"
#include "ridge/program/contraction.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

constexpr std::size_t max_producers = 8;  // limit on the statements between x and the sum

class SumAcrossRowsFinder {
 public:
  SumAcrossRowsFinder(const Program& program, const std::vector<Shape>& shapes, int statement, Target target)
      : program_(program), shapes_(shapes), sum_(statement), target_(target) {}

  std::optional<SumAcrossRows> find_sum() {
    if (!match_sum_dims()) return std::nullopt;
    // Adds the statements that compute one operand, latest first, and keeps the largest set whose inputs match x and
    // dy: u = x - mean(x over D) is the x of an rmsnorm; with that statement in the set, x is that of a layernorm.
    std::optional<SumAcrossRows> best = match_statements({sum_});
    for (const int operand : statement_operands(statement_at(sum_))) {
      std::vector<int> set{sum_};
      std::set<int> next{producer_of(operand)};
      while (set.size() <= max_producers && *next.rbegin() >= 0) {
        const int last = *next.rbegin();
        next.erase(last);
        set.insert(set.begin(), last);
        for (const int t : statement_operands(statement_at(last))) next.insert(producer_of(t));
        next.insert(-1);
        std::sort(set.begin(), set.end());
        if (auto found = match_statements(set); found && (!best || found->statements.size() > best->statements.size()))
          best = std::move(found);
      }
    }
    return best;
  }

 private:
  const Statement& statement_at(int s) const { return program_.statements[s]; }
  const Shape& shape_of(int tensor) const { return shapes_[tensor]; }

  // Returns the statement before the sum that writes the tensor, or -1 if there is none or it cannot join.
  int producer_of(int tensor) const {
    for (int s = 0; s < sum_; ++s)
      if (statement_at(s).result() == tensor && !routine_of(statement_at(s)))
        return can_join_row_kernel(std::get_if<Contraction>(&statement_at(s).op)) ? s : -1;
    return -1;
  }
  // True if the statement is elementwise, or a product whose two operands have the same dimensions.
  static bool can_join_row_kernel(const Contraction* c) {
    return c == nullptr || (!c->grouped && c->literal_contracted == 1 &&
                            (!has_sum(*c) || (c->left_free.empty() && c->right_free.empty())));
  }

  // True if the statement sums over every dimension that the result lacks; sets `rows_` and `columns_`.
  bool match_sum_dims() {
    if (routine_of(statement_at(sum_))) return false;
    const auto* c = std::get_if<Contraction>(&statement_at(sum_).op);
    if (!can_join_row_kernel(c) || (c != nullptr && (!has_sum(*c) || has_block_scaled_factor(program_, *c))))
      return false;
    const Expression e = c != nullptr ? expression_of_contraction(*c) : std::get<Expression>(statement_at(sum_).op);
    const Node& last = e.nodes.back();
    if (last.kind != Node::Kind::along_dims || last.function != Function::sum) return false;
    for (const int t : statement_operands(statement_at(sum_)))
      for (const SizedAxis& axis : shape_of(t))
        if (axis.extent > 1 && !has_axis(shape_of(e.result), axis.dim) && !contains(rows_, axis.dim))
          rows_.push_back(axis.dim);
    for (const SizedAxis& axis : shape_of(e.result))
      if (axis.extent > 1) columns_.push_back(axis.dim);
    return !rows_.empty() && !columns_.empty();
  }

  // Returns the packed shape of the operand of the sum, which is never stored.
  Shape unsummed_shape() const {
    Shape out;
    for (const auto* dims : {&rows_, &columns_})
      for (const std::string& dim : *dims) out.push_back({dim, longest_extent(shapes_, dim), 0});
    std::vector<std::string> order = rows_;
    order.insert(order.end(), columns_.begin(), columns_.end());
    return contiguous_shape(out, order);
  }

  std::optional<SumAcrossRows> match_statements(const std::vector<int>& set) const {
    const int result = statement_at(sum_).result();
    if (merged_stride(shape_of(result), columns_) != 1) return std::nullopt;
    JoinedNodes all = join_statements(program_, set, {result}, true);
    const int summed = all.nodes.back().arguments[0];
    all.nodes.pop_back();
    const TrialRowKernelInputs inputs = make_trial_row_kernel_inputs(program_, shapes_, all.nodes);
    const View out{result, program_.tensors[result].dtype, unsummed_shape()};
    const LoweredRows rows = lower_full_rows(all.nodes, {{static_cast<std::size_t>(summed), out}},
                                             {inputs.views, inputs.sizes, Target::cpu, columns_});
    if (rows.fusion_blocker) return std::nullopt;
    const auto known = ops::recognize_row_function(rows.program, true);
    if (!known || ops::unsupported_reason(known->problem)) return std::nullopt;
    if (target_ == Target::cuda && ops::invalid_reason(ops::make_row_program(known->problem, false)))
      return std::nullopt;
    const int x = rows.buffers[known->x], dy = rows.buffers[known->dy];
    if (x < 0 || dy < 0) return std::nullopt;  // an index buffer, not a tensor
    return SumAcrossRows{set, known->problem, x, dy, result};
  }

  const Program& program_;
  const std::vector<Shape>& shapes_;
  const int sum_;
  const Target target_;
  std::vector<std::string> rows_, columns_;
};

}  // namespace

std::optional<SumAcrossRows> find_sum_across_rows(const Program& program, const std::vector<Shape>& shapes,
                                                  int statement, Target target) {
  return SumAcrossRowsFinder(program, shapes, statement, target).find_sum();
}

}  // namespace ridge

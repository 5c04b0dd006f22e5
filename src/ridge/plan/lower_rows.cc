// Lowers statements that run along dimensions, with adjacent ones, block by block: all statements over one row block,
// then over the next. Intermediates are f32 scratch of the size of a block. A block is lowered like a program with
// shorter dimensions and the strides of the full tensors.
#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/ops/rows/program.h"
#include "ridge/plan/lower.h"
#include "ridge/program/contraction.h"

namespace ridge {
namespace {

constexpr std::int64_t row_block_bytes = 384 << 10;  // limit on the bytes that a row block touches; half of an L2
constexpr std::int64_t min_row_blocks = 16;          // smallest number of row blocks, so that all threads have work

bool can_split(const Program& program, const Statement& statement, const std::string& dim) {
  if (!has_dim(program.tensors[statement.result()].axes, dim)) return false;
  const auto* e = std::get_if<Expression>(&statement.op);
  if (e == nullptr) return true;
  for (const std::vector<Axis>& axes : find_index_spaces(program.tensors, e->nodes).axes)
    if (!axes.empty() && !has_dim(axes, dim)) return false;
  return std::none_of(e->nodes.begin(), e->nodes.end(),
                      [&](const Node& n) { return n.kind == Node::Kind::along_dims && has_dim(n.over, dim); });
}

class RowBlockLowering {
 public:
  RowBlockLowering(Lowering& to, int group, std::vector<std::string> split_dims)
      : to_(to), group_(to.plan.fusion.groups[group]), split_dims_(std::move(split_dims)) {
    for (const std::string& dim : split_dims_) {
      out_.extents.push_back(to.dims.at(dim));
      out_.block_sizes.push_back(1);
    }
  }

  // Returns nullopt if a single step computes all statements.
  std::optional<PlanStep> lower_blocks(int group) {
    const Lowering one_row = lower_block(out_.block_sizes);
    if (one_row.plan.steps.size() == 1) return std::nullopt;
    choose_block_extents(one_row);
    const Lowering full_block = lower_block(out_.block_sizes);
    add_operands(full_block);
    out_.full_steps = block_steps(full_block);
    std::vector<std::int64_t> last_extents = out_.block_sizes;
    for (std::size_t i = 0; i < last_extents.size(); ++i)
      if (const std::int64_t left = out_.extents[i] % last_extents[i]) last_extents[i] = left;
    if (last_extents != out_.block_sizes) out_.remainder_steps = block_steps(lower_block(last_extents));
    PlanStep step;
    step.group = group;
    step.kernel = std::move(out_);
    step.buffers = std::move(buffers_);
    return step;
  }

 private:
  Lowering lower_block(const std::vector<std::int64_t>& extents) {
    dims_ = to_.dims;
    for (std::size_t i = 0; i < split_dims_.size(); ++i) dims_[split_dims_[i]] = extents[i];
    Lowering part{to_.program, dims_, to_.sizes, {}, {}};
    for (std::size_t t = 0; t < to_.tensors.size(); ++t) {
      View view = to_.tensors[t];
      for (SizedAxis& axis : view.shape)
        if (const auto dim = std::find(split_dims_.begin(), split_dims_.end(), axis.dim); dim != split_dims_.end())
          axis.extent = extents[dim - split_dims_.begin()];
      const bool is_internal = contains(group_.internal_tensors, static_cast<int>(t));
      if (is_internal) {  // an intermediate in scratch memory
        std::vector<std::string> order;
        for (const SizedAxis& axis : view.shape)
          if (!axis.dim.empty()) order.push_back(axis.dim);
        view.shape = contiguous_shape(view.shape, order);
        view.dtype = DType::f32;
      }
      view.buffer = part.add_buffer(view.dtype, count_elements(view.shape));
      part.tensors.push_back(std::move(view));
    }
    for (const int s : group_.statements) {
      const auto* c = std::get_if<Contraction>(&to_.statement_at(s).op);
      ridge::lower_expression(part, 0,
                              c ? expression_of_contraction(*c) : std::get<Expression>(to_.statement_at(s).op));
    }
    return part;
  }

  // Chooses the extents of a block, from the innermost dimension outwards.
  void choose_block_extents(const Lowering& one_row) {
    std::vector<bool> used(one_row.plan.buffers.size());
    for (const PlanStep& step : one_row.plan.steps)
      for (const int b : step.buffers)
        if (b >= 0) used[b] = true;
    std::int64_t row = 0, all = 1;
    for (std::size_t b = 0; b < used.size(); ++b) row += used[b] ? one_row.plan.buffers[b].size_bytes() : 0;
    for (const std::int64_t extent : out_.extents) all *= extent;
    std::int64_t fits = std::clamp<std::int64_t>(row_block_bytes / std::max<std::int64_t>(row, 1), 1,
                                                 std::max<std::int64_t>(all / min_row_blocks, 1));
    for (std::size_t i = split_dims_.size(); i-- > 0 && fits > 1; fits /= std::max<std::int64_t>(out_.extents[i], 1)) {
      out_.block_sizes[i] = std::min(out_.extents[i], fits);
      if (out_.block_sizes[i] < out_.extents[i]) return;
    }
  }

  // Adds an operand for each buffer of the block's lowering: a tensor, scratch, or an index buffer of the full axis.
  void add_operands(const Lowering& part) {
    for (std::size_t b = 0; b < part.plan.buffers.size(); ++b) {
      const PlanBuffer& buffer = part.plan.buffers[b];
      ops::RowBlockOperand operand{buffer.dtype, {}, 0};
      const auto counted = part.index_buffers.find(static_cast<int>(b));
      if (b < to_.tensors.size() && !contains(group_.internal_tensors, static_cast<int>(b))) {
        for (const std::string& dim : split_dims_)
          operand.strides.push_back(has_axis(to_.tensors[b].shape, dim) ? axis_along(to_.tensors[b].shape, dim).stride
                                                                        : 0);
        buffers_.push_back(to_.tensors[b].buffer);
      } else if (counted != part.index_buffers.end()) {
        for (const std::string& dim : split_dims_) operand.strides.push_back(dim == counted->second.dim ? 1 : 0);
        const bool is_index = part.plan.buffers[b].sequence_lengths.empty();
        buffers_.push_back(make_index_view(to_, {.kind = is_index ? Node::Kind::index : Node::Kind::sequence,
                                                 .over = {counted->second}})
                               .buffer);
      } else {
        operand.scratch_elements = std::max<std::int64_t>(buffer.elements, 1);
        buffers_.push_back(-1);
      }
      out_.operands.push_back(std::move(operand));
    }
    drop_unused_operands(part);
  }

  // Removes the tensors that no step of the block uses.
  void drop_unused_operands(const Lowering& part) {
    std::vector<bool> used(out_.operands.size());
    for (const PlanStep& step : part.plan.steps)
      for (const int b : step.buffers)
        if (b >= 0) used[b] = true;
    operand_index_.assign(used.size(), -1);
    std::size_t kept = 0;
    for (std::size_t b = 0; b < used.size(); ++b) {
      if (!used[b]) continue;
      operand_index_[b] = static_cast<int>(kept);
      out_.operands[kept] = out_.operands[b];
      buffers_[kept] = buffers_[b];
      ++kept;
    }
    out_.operands.resize(kept);
    buffers_.resize(kept);
  }

  std::vector<ops::RowBlockStep> block_steps(const Lowering& part) const {
    std::vector<ops::RowBlockStep> out;
    for (const PlanStep& step : part.plan.steps) {
      ops::RowBlockStep& next = out.emplace_back();
      if (const auto* chain = std::get_if<ops::ChainProgram>(&step.kernel)) next.kernel = *chain;
      if (const auto* rows = std::get_if<ops::RowProblem>(&step.kernel)) next.kernel = *rows;
      if (const auto* reduction = std::get_if<ops::ReduceProblem>(&step.kernel)) next.kernel = *reduction;
      for (const int b : step.buffers) next.operands.push_back(b < 0 ? -1 : operand_index_[b]);
    }
    return out;
  }

  Lowering& to_;
  const FusionGroup group_;
  std::vector<std::string> split_dims_;
  Bindings dims_;
  ops::RowBlockProgram out_;
  std::vector<int> buffers_, operand_index_;
};

}  // namespace

std::vector<std::string> row_block_dimensions(const Program& program, const std::vector<int>& statements) {
  std::vector<std::string> out;
  const int last = program.statements[statements.back()].result();
  for (const Axis& axis : program.tensors[last].axes)
    if (axis.is_named() && std::all_of(statements.begin(), statements.end(),
                                       [&](int s) { return can_split(program, program.statements[s], axis.dim); }))
      out.push_back(axis.dim);
  return out;
}

namespace {

// Returns the row program as a step with one predefined row function or its gradient; nullopt if it is neither.
std::optional<PlanStep> recognized_row_step(const LoweredRows& rows, int group, const FusionPlan& fusion) {
  const auto known = ops::recognize_row_function(rows.program);
  if (!known || ops::unsupported_reason(known->problem)) return std::nullopt;
  const bool compiled = known->problem.function <= ops::RowFunction::layernorm;
  if (fusion.target == Target::cuda && !compiled &&
      (!fusion.full_row_kernels || ops::invalid_reason(ops::make_row_program(known->problem, known->weight >= 0))))
    return std::nullopt;
  const auto buffer = [&](int tensor) { return tensor < 0 ? -1 : rows.buffers[tensor]; };
  PlanStep step{group, known->problem, {buffer(known->x), buffer(known->weight), buffer(known->y)}, ""};
  if (known->dy >= 0) step.buffers.push_back(buffer(known->dy));
  return step;
}

// Returns a step for statements that end in a sum across rows, or nullopt.
std::optional<PlanStep> sum_across_rows_step(const Lowering& to, int group, int statement) {
  std::vector<Shape> shapes;
  for (const View& view : to.tensors) shapes.push_back(view.shape);
  const auto found = find_sum_across_rows(to.program, shapes, statement, to.plan.fusion.target);
  if (!found || !to.plan.fusion.full_row_kernels) return std::nullopt;
  const auto buffer = [&](int tensor) { return to.view_of(tensor).buffer; };
  for (const int t : {found->x, found->dy})  // both must be stored
    if (to.plan.buffers[buffer(t)].elements == 0) return std::nullopt;
  return PlanStep{group, found->problem, {buffer(found->x), -1, buffer(found->y), buffer(found->dy)}, ""};
}

// Returns one step that computes all statements, or nullopt.
std::optional<PlanStep> try_single_step(Lowering& to, int group, const std::vector<int>& statements) {
  if (auto step = sum_across_rows_step(to, group, statements.back())) return step;
  LoweredRows rows = lower_group_as_full_rows(to, group);
  if (!rows.fusion_blocker)
    if (auto step = recognized_row_step(rows, group, to.plan.fusion)) return step;
  if (!to.plan.fusion.full_row_kernels) return std::nullopt;
  if (to.plan.fusion.target == Target::cuda)
    return !rows.fusion_blocker ? std::optional(PlanStep{group, std::move(rows.program), std::move(rows.buffers), ""})
                                : std::nullopt;
  const std::vector<std::string> split_dims = row_block_dimensions(to.program, statements);
  return split_dims.empty() ? std::nullopt : RowBlockLowering(to, group, split_dims).lower_blocks(group);
}

}  // namespace

void lower_rows(Lowering& to, int group) {
  const std::vector<int> statements = to.plan.fusion.groups[group].statements;
  if (auto step = try_single_step(to, group, statements)) {
    to.plan.steps.push_back(*std::move(step));
    return;
  }
  lower_expression(to, group, std::get<Expression>(to.statement_at(statements[0]).op));
}

}  // namespace ridge

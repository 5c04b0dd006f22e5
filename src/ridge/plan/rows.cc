// Lowers statements that run along dimensions, with adjacent ones, block by block: all statements over one row block,
// then over the next. Intermediates are f32 scratch of the size of a block. A block is lowered like a program with
// shorter dimensions and the strides of the full tensors.
#include <algorithm>

#include "ridge/ops/rows/program.h"
#include "ridge/plan/lower.h"
#include "ridge/program/elementwise.h"

namespace ridge {
namespace {

constexpr std::int64_t strip_bytes = 384 << 10;  // limit on the bytes that a row block touches; half of an L2
constexpr std::int64_t least_strips = 16;        // smallest number of row blocks, so that all threads have work

bool names(const std::vector<Axis>& axes, const std::string& dim) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.dim == dim; });
}

bool cuts(const Program& program, const Statement& statement, const std::string& dim) {
  if (!names(program.tensors[static_cast<std::size_t>(statement.result())].axes, dim)) return false;
  const auto* e = std::get_if<Expression>(&statement.op);
  if (e == nullptr) return true;
  for (const std::vector<Axis>& axes : spaces(program.tensors, e->nodes).axes)
    if (!axes.empty() && !names(axes, dim)) return false;
  return std::none_of(e->nodes.begin(), e->nodes.end(),
                      [&](const Node& n) { return n.kind == Node::Kind::along && names(n.over, dim); });
}

class Strip {
 public:
  Strip(Lowering& to, int group, std::vector<std::string> cut)
      : to_(to), group_(to.plan.fusion.groups[static_cast<std::size_t>(group)]), cut_(std::move(cut)) {
    for (const std::string& dim : cut_) {
      out_.extents.push_back(to.dims.at(dim));
      out_.parts.push_back(1);
    }
  }

  // Returns nullopt if a single step computes all statements.
  std::optional<Step> lower(int group) {
    const Lowering one = lowered(out_.parts);
    if (one.plan.steps.size() == 1) return std::nullopt;
    choose_parts(one);
    const Lowering whole = lowered(out_.parts);
    add_operands(whole);
    out_.whole = steps(whole);
    std::vector<std::int64_t> rest = out_.parts;
    for (std::size_t i = 0; i < rest.size(); ++i)
      if (const std::int64_t left = out_.extents[i] % rest[i]) rest[i] = left;
    if (rest != out_.parts) out_.rest = steps(lowered(rest));
    Step step;
    step.group = group;
    step.kernel = std::move(out_);
    step.buffers = std::move(buffers_);
    return step;
  }

 private:
  Lowering lowered(const std::vector<std::int64_t>& parts) {
    dims_ = to_.dims;
    for (std::size_t i = 0; i < cut_.size(); ++i) dims_[cut_[i]] = parts[i];
    Lowering part{to_.program, dims_, to_.sizes, {}, {}};
    for (std::size_t t = 0; t < to_.tensors.size(); ++t) {
      View view = to_.tensors[t];
      for (SizedAxis& axis : view.shape)
        if (const auto dim = std::find(cut_.begin(), cut_.end(), axis.dim); dim != cut_.end())
          axis.extent = parts[static_cast<std::size_t>(dim - cut_.begin())];
      const bool inside =
          std::find(group_.inside.begin(), group_.inside.end(), static_cast<int>(t)) != group_.inside.end();
      if (inside) {  // an intermediate in scratch memory
        std::vector<std::string> order;
        for (const SizedAxis& axis : view.shape)
          if (!axis.dim.empty()) order.push_back(axis.dim);
        view.shape = packed(view.shape, order);
        view.dtype = DType::f32;
      }
      view.buffer = part.add_buffer(view.dtype, elements(view.shape));
      part.tensors.push_back(std::move(view));
    }
    for (const int s : group_.statements) {
      const auto* c = std::get_if<Contraction>(&to_.statement(s).op);
      ridge::lower(part, 0, c ? elementwise(*c) : std::get<Expression>(to_.statement(s).op));
    }
    return part;
  }

  // Chooses the extents of a block, from the innermost dimension outwards.
  void choose_parts(const Lowering& one) {
    std::vector<bool> used(one.plan.buffers.size());
    for (const Step& step : one.plan.steps)
      for (const int b : step.buffers)
        if (b >= 0) used[static_cast<std::size_t>(b)] = true;
    std::int64_t row = 0, all = 1;
    for (std::size_t b = 0; b < used.size(); ++b) row += used[b] ? one.plan.buffers[b].bytes() : 0;
    for (const std::int64_t extent : out_.extents) all *= extent;
    std::int64_t fits = std::clamp<std::int64_t>(strip_bytes / std::max<std::int64_t>(row, 1), 1,
                                                 std::max<std::int64_t>(all / least_strips, 1));
    for (std::size_t i = cut_.size(); i-- > 0 && fits > 1; fits /= std::max<std::int64_t>(out_.extents[i], 1)) {
      out_.parts[i] = std::min(out_.extents[i], fits);
      if (out_.parts[i] < out_.extents[i]) return;
    }
  }

  // Adds an operand for each buffer of the block's lowering: a tensor, scratch, or an index buffer of the full axis.
  void add_operands(const Lowering& part) {
    for (std::size_t b = 0; b < part.plan.buffers.size(); ++b) {
      const Buffer& buffer = part.plan.buffers[b];
      ops::StripOperand operand{buffer.dtype, {}, 0};
      const auto counted = part.counted.find(static_cast<int>(b));
      if (b < to_.tensors.size() &&
          std::find(group_.inside.begin(), group_.inside.end(), static_cast<int>(b)) == group_.inside.end()) {
        for (const std::string& dim : cut_)
          operand.strides.push_back(has(to_.tensors[b].shape, dim) ? along(to_.tensors[b].shape, dim).stride : 0);
        buffers_.push_back(to_.tensors[b].buffer);
      } else if (counted != part.counted.end()) {
        for (const std::string& dim : cut_) operand.strides.push_back(dim == counted->second.dim ? 1 : 0);
        const bool is_index = part.plan.buffers[b].lengths.empty();
        buffers_.push_back(
            counting(to_, {.kind = is_index ? Node::Kind::index : Node::Kind::sequence, .over = {counted->second}})
                .buffer);
      } else {
        operand.scratch = std::max<std::int64_t>(buffer.elements, 1);
        buffers_.push_back(-1);
      }
      out_.operands.push_back(std::move(operand));
    }
    drop_unused(part);
  }

  // Removes the tensors that no step of the block uses.
  void drop_unused(const Lowering& part) {
    std::vector<bool> used(out_.operands.size());
    for (const Step& step : part.plan.steps)
      for (const int b : step.buffers)
        if (b >= 0) used[static_cast<std::size_t>(b)] = true;
    place_.assign(used.size(), -1);
    std::size_t kept = 0;
    for (std::size_t b = 0; b < used.size(); ++b) {
      if (!used[b]) continue;
      place_[b] = static_cast<int>(kept);
      out_.operands[kept] = out_.operands[b];
      buffers_[kept] = buffers_[b];
      ++kept;
    }
    out_.operands.resize(kept);
    buffers_.resize(kept);
  }

  std::vector<ops::StripStep> steps(const Lowering& part) const {
    std::vector<ops::StripStep> out;
    for (const Step& step : part.plan.steps) {
      ops::StripStep& next = out.emplace_back();
      if (const auto* chain = std::get_if<ops::ChainProgram>(&step.kernel)) next.kernel = *chain;
      if (const auto* rows = std::get_if<ops::RowProblem>(&step.kernel)) next.kernel = *rows;
      if (const auto* reduction = std::get_if<ops::ReduceProblem>(&step.kernel)) next.kernel = *reduction;
      for (const int b : step.buffers) next.operands.push_back(b < 0 ? -1 : place_[static_cast<std::size_t>(b)]);
    }
    return out;
  }

  Lowering& to_;
  const Group group_;
  std::vector<std::string> cut_;
  Bindings dims_;
  ops::Strips out_;
  std::vector<int> buffers_, place_;
};

}  // namespace

std::vector<std::string> cut_dimensions(const Program& program, const std::vector<int>& statements) {
  std::vector<std::string> out;
  const int last = program.statements[static_cast<std::size_t>(statements.back())].result();
  for (const Axis& axis : program.tensors[static_cast<std::size_t>(last)].axes)
    if (axis.named() && std::all_of(statements.begin(), statements.end(), [&](int s) {
          return cuts(program, program.statements[static_cast<std::size_t>(s)], axis.dim);
        }))
      out.push_back(axis.dim);
  return out;
}

namespace {

// Returns the row program as one known row function or its gradient, or nullopt if it is none.
std::optional<Step> known_step(const LoweredRows& rows, int group, const Fusion& fusion) {
  const auto known = ops::known_rows(rows.program);
  if (!known || ops::refuse(known->problem)) return std::nullopt;
  const bool compiled = known->problem.function <= ops::RowFunction::layernorm;
  if (fusion.target == Target::cuda && !compiled &&
      (!fusion.whole || ops::find_fault(ops::row_program(known->problem, known->weight >= 0))))
    return std::nullopt;
  const auto buffer = [&](int tensor) { return tensor < 0 ? -1 : rows.buffers[static_cast<std::size_t>(tensor)]; };
  Step step{group, known->problem, {buffer(known->x), buffer(known->weight), buffer(known->y)}, ""};
  if (known->dy >= 0) step.buffers.push_back(buffer(known->dy));
  return step;
}

// Returns a step for statements that end in a sum across rows, or nullopt.
std::optional<Step> across_step(const Lowering& to, int group, int statement) {
  std::vector<Shape> shapes;
  for (const View& view : to.tensors) shapes.push_back(view.shape);
  const auto found = find_across(to.program, shapes, statement, to.plan.fusion.target);
  if (!found || !to.plan.fusion.whole) return std::nullopt;
  const auto buffer = [&](int tensor) { return to.view(tensor).buffer; };
  for (const int t : {found->x, found->dy})  // both must be stored
    if (to.plan.buffers[static_cast<std::size_t>(buffer(t))].elements == 0) return std::nullopt;
  return Step{group, found->problem, {buffer(found->x), -1, buffer(found->y), buffer(found->dy)}, ""};
}

// Returns one step that computes all statements, or nullopt.
std::optional<Step> whole_step(Lowering& to, int group, const std::vector<int>& statements) {
  if (auto step = across_step(to, group, statements.back())) return step;
  LoweredRows rows = whole_rows(to, group);
  if (rows.fault.empty())
    if (auto step = known_step(rows, group, to.plan.fusion)) return step;
  if (!to.plan.fusion.whole) return std::nullopt;
  if (to.plan.fusion.target == Target::cuda)
    return rows.fault.empty() ? std::optional(Step{group, std::move(rows.program), std::move(rows.buffers), ""})
                              : std::nullopt;
  const std::vector<std::string> cut = cut_dimensions(to.program, statements);
  return cut.empty() ? std::nullopt : Strip(to, group, cut).lower(group);
}

}  // namespace

void lower_rows(Lowering& to, int group) {
  const std::vector<int> statements = to.plan.fusion.groups[static_cast<std::size_t>(group)].statements;
  if (auto step = whole_step(to, group, statements)) {
    to.plan.steps.push_back(*std::move(step));
    return;
  }
  lower(to, group, std::get<Expression>(to.statement(statements[0]).op));
}

}  // namespace ridge

#include "ridge/plan/ranks/rank_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/distributed/partition.h"
#include "ridge/plan/plan.h"
#include "ridge/plan/ranks/split_reductions.h"

namespace ridge::ranks {
namespace {

class ScheduleBuilder {
 public:
  ScheduleBuilder(const Program& program, const Bindings& sizes, const MeshDevice& device)
      : program_(program), sizes_(sizes), device_(device) {
    for (const Tensor& tensor : program.tensors)
      out_.slots.push_back({tensor.name, tensor.dtype, tensor_extents(tensor, sizes), layout_of(tensor)});
    out_.partial_slots.assign(program.statements.size(), -1);
  }

  Result<RankSchedule> build_schedule() {
    for (std::size_t s = 0; s < program_.statements.size(); ++s) {
      statement_ = static_cast<int>(s);
      const Statement& statement = program_.statements[s];
      if (const auto* product = std::get_if<Contraction>(&statement.op))
        lower_product(statement, *product);
      else if (const auto& e = std::get<Expression>(statement.op); e.nodes.size() == 1)
        lower_copy(statement, e);
      else
        lower_expression(statement, e);
      RIDGE_TRY_STATUS(status_);
    }
    return std::move(out_);
  }

 private:
  const Tensor& tensor(int i) const { return program_.tensors[i]; }
  TensorSlot& slot(int i) { return out_.slots[i]; }

  int add_slot(TensorSlot slot) {
    slot.name += fmt::format("#{}", out_.slots.size());  // '#' cannot occur in a name of the notation
    out_.slots.push_back(std::move(slot));
    return static_cast<int>(out_.slots.size()) - 1;
  }

  // --- tensors of a step's program

  // Adds the slot to the step as a tensor without mesh axes and with the shard's sizes; returns the tensor's index.
  int add_shard_tensor(ComputeStep& to, int slot_index, const std::vector<Axis>& axes) {
    for (std::size_t i = 0; i < to.slots.size(); ++i)
      if (to.slots[i] == slot_index) return static_cast<int>(i);
    const TensorSlot& of = slot(slot_index);
    Tensor tensor{.name = of.name, .dtype = of.dtype, .declared = true, .axes = axes};
    const ShardBox block = shard_box(of.extents, of.layout, device_.mesh, device_.index);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      tensor.axes[i].mesh.clear();
      if (!axes[i].is_named()) continue;
      set_dimension(to, axes[i].dim, block[i].size());
    }
    to.program.tensors.push_back(std::move(tensor));
    to.slots.push_back(slot_index);
    return static_cast<int>(to.slots.size()) - 1;
  }

  void set_dimension(ComputeStep& to, const std::string& dim, std::int64_t size) {
    to.is_empty = to.is_empty || size == 0;
    for (const Dimension& known : to.program.dims)
      if (known.name == dim) return;
    Dimension out{.name = dim, .value = Polynomial(size)};
    for (const Dimension& original : program_.dims)
      if (original.name == dim && !original.lengths.empty()) out.lengths = original.lengths;
    to.program.dims.push_back(std::move(out));
  }

  ComputeStep begin_step() const {
    ComputeStep out;
    out.program.source = program_.source;
    out.statements = {statement_};
    return out;
  }

  void add_step(ComputeStep compute, std::variant<Contraction, Expression> op) {
    const Statement& original = program_.statements[statement_];
    compute.program.statements.push_back({.op = std::move(op), .text = original.text, .span = original.span});
    const int result = compute.program.statements.back().result();
    for (std::size_t i = 0; i < compute.slots.size(); ++i)
      compute.program.tensors[i].role = static_cast<int>(i) == result ? TensorRole::output : TensorRole::input;
    out_.steps.emplace_back(std::move(compute));
  }

  // --- products

  void lower_product(const Statement& statement, const Contraction& c) {
    Partition cuts;
    for (const int t : {c.left, c.right})
      for (const Axis& axis : tensor(t).axes)
        if (axis.is_named() && !axis.mesh.empty())
          cuts[is_grouped_axis(c, t, axis) ? c.grouped->dim : axis.dim] = axis.mesh;
    if (!(status_ = validate_grouped_axes(program_, c, sizes_, device_.mesh))) return;
    const Layout product_layout = result_layout(program_, statement, cuts);
    const int result = statement.result();
    const int to = choose_result_slot(product_layout, result);
    ComputeStep compute = begin_step();
    Contraction op = c;
    op.partial.clear();
    op.left = add_shard_tensor(compute, c.left, tensor(c.left).axes);
    op.right = add_shard_tensor(compute, c.right, tensor(c.right).axes);
    op.result = add_shard_tensor(compute, to, tensor(result).axes);
    if (c.grouped) op.grouped->tensor = c.grouped->tensor == c.left ? op.left : op.right;
    add_step(std::move(compute), std::move(op));
    add_redistributions(to, result, transport::ReduceOp::sum);
  }

  // Returns the slot that a result computed with this layout is stored to: its own, or a new one if it must move first.
  int choose_result_slot(const Layout& layout, int result) {
    int out = result;
    if (layout != slot(result).layout) {
      TensorSlot before = slot(result);
      before.layout = layout;
      out = add_slot(std::move(before));
    }
    if (!layout.partial_over.empty()) out_.partial_slots[statement_] = out;
    return out;
  }

  // Adds the redistributions from one slot to another of the same tensor.
  void add_redistributions(int from, int to, transport::ReduceOp reduce_op) {
    if (!status_ || from == to) return;
    const std::vector<RedistributionStep> steps = plan_redistribution(slot(from).layout, slot(to).layout);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!(status_ = validate_redistribution(program_.statements[statement_], steps[i], slot(from).dtype))) return;
      int next = to;
      if (i + 1 < steps.size()) {
        TensorSlot between = slot(to);
        between.layout = steps[i].after;
        next = add_slot(std::move(between));
      }
      out_.steps.emplace_back(Redistribution{statement_, steps[i], from, next, reduce_op});
      from = next;
    }
  }

  // --- copies, y[B, F] = x, which may change the layout, the dtype and the order of the axes

  void lower_copy(const Statement& statement, const Expression& e) {
    const int from = e.nodes[0].tensor, result = statement.result();
    const std::vector<Axis>&source_axes = tensor(from).axes, &result_axes = tensor(result).axes;
    TensorSlot target = slot(from);  // the result's layout, with the axes in the operand's order
    target.layout.partial_over = slot(result).layout.partial_over;
    for (std::size_t i = 0; i < source_axes.size(); ++i) {
      const auto found = std::find(result_axes.begin(), result_axes.end(), source_axes[i]);
      target.layout.mesh_axes[i] = found == result_axes.end() ? "" : found->mesh;
    }
    if (!slot(from).layout.partial_over.empty()) out_.partial_slots[statement_] = from;
    const bool stays = slot(from).layout == target.layout;
    const bool same = slot(result).dtype == target.dtype && source_axes == result_axes;
    if (!stays && same) return add_redistributions(from, result, transport::ReduceOp::sum);
    const int moved = stays ? from : add_slot(std::move(target));
    add_redistributions(from, moved, transport::ReduceOp::sum);
    if (!status_) return;
    ComputeStep compute = begin_step();
    Expression copy = e;
    copy.nodes[0].tensor = add_shard_tensor(compute, moved, source_axes);
    copy.result = add_shard_tensor(compute, result, result_axes);
    add_step(std::move(compute), std::move(copy));
  }

  // --- expressions

  void lower_expression(const Statement& statement, const Expression& e) {
    Bindings begins;
    for (const int t : operands_and_result(statement)) {
      const ShardBox block = shard_box(slot(t).extents, slot(t).layout, device_.mesh, device_.index);
      for (std::size_t i = 0; i < block.size(); ++i)
        if (tensor(t).axes[i].is_named()) begins[tensor(t).axes[i].dim] = block[i].begin;
    }
    ReductionSplitter splitter(program_, sizes_,
                               [&](const PartialReduction& partial) { return reduce_partial_result(partial); });
    add_expression(begin_step(), e, splitter.split_reductions(e, begins));
  }

  static std::vector<int> operands_and_result(const Statement& statement) {
    std::vector<int> out = statement_operands(statement);
    out.push_back(statement.result());
    return out;
  }

  // Nodes refer to slots. Slots after the program's tensors are partial sums, with their axes in `partial_axes_`.
  const std::vector<Axis>& axes_of(int slot_index) const {
    const auto found = partial_axes_.find(slot_index);
    return found == partial_axes_.end() ? tensor(slot_index).axes : found->second;
  }

  void add_expression(ComputeStep compute, const Expression& original, std::vector<Node> nodes) {
    Expression out{.result = 0, .nodes = std::move(nodes), .routine = original.routine};
    for (Node& node : out.nodes)
      if (node.kind == Node::Kind::tensor) node.tensor = add_shard_tensor(compute, node.tensor, axes_of(node.tensor));
    out.result = add_shard_tensor(compute, original.result, axes_of(original.result));
    for (const Node& node : out.nodes)
      for (const Axis& axis : node.over)
        if (axis.is_named()) set_dimension(compute, axis.dim, sizes_.at(axis.dim));  // if it occurs only as an index
    add_step(std::move(compute), std::move(out));
  }

  int reduce_partial_result(const PartialReduction& partial) {
    TensorSlot partial_slot;
    partial_slot.name = tensor(program_.statements[statement_].result()).name;
    for (const Axis& axis : partial.kept_axes) {
      partial_slot.extents.push_back(axis_extent(axis, sizes_));
      partial_slot.layout.mesh_axes.push_back(axis.mesh);
    }
    TensorSlot all = partial_slot;
    partial_slot.layout.partial_over = partial.mesh_axes;
    const int before = add_slot(std::move(partial_slot)), after = add_slot(std::move(all));
    partial_axes_[before] = partial_axes_[after] = partial.kept_axes;
    Expression reduction{.result = before, .nodes = partial.value};
    const int argument = static_cast<int>(partial.value.size()) - 1;
    reduction.nodes.push_back({.kind = Node::Kind::along_dims, .function = partial.function, .arguments = {argument}});
    reduction.nodes.back().over = partial.over;
    ComputeStep compute = begin_step();
    compute.reduce_op = partial.reduce_op;
    std::vector<Node> nodes = reduction.nodes;
    add_expression(std::move(compute), reduction, std::move(nodes));
    add_redistributions(before, after, partial.reduce_op);
    return after;
  }

  const Program& program_;
  const Bindings& sizes_;
  const MeshDevice& device_;
  int statement_ = 0;
  std::map<int, std::vector<Axis>> partial_axes_;
  Status status_ = Done{};
  RankSchedule out_;
};

// --- merging of consecutive compute steps

class StepMerger {
 public:
  StepMerger(const Program& program, RankSchedule schedule, const Mesh& mesh, const std::vector<int>& stored_tensors)
      : program_(program), schedule_(std::move(schedule)), mesh_(mesh), stored_(stored_tensors) {
    for (const auto& step : schedule_.steps)
      if (const auto* compute = std::get_if<ComputeStep>(&step)) ++step_counts_[compute->statements.front()];
  }

  RankSchedule merge_steps() {
    for (auto& step : schedule_.steps) {
      auto* const compute = std::get_if<ComputeStep>(&step);
      auto* const last = out_.empty() ? nullptr : std::get_if<ComputeStep>(&out_.back());
      if (compute != nullptr && last != nullptr && can_merge(*last, *compute))
        merge_into(*last, *compute);
      else
        out_.push_back(std::move(step));
    }
    for (std::size_t i = 0; i < out_.size(); ++i)
      if (auto* const compute = std::get_if<ComputeStep>(&out_[i])) mark_intermediates(*compute, i);
    schedule_.steps = std::move(out_);
    return std::move(schedule_);
  }

 private:
  // True if the steps can share a program. A statement of several steps is not merged. All ranks must agree, so
  // shard sizes are not used: common dimensions must be split over the same mesh axes, and a dimension that is empty on
  // some rank must occur in both steps or in neither.
  bool can_merge(const ComputeStep& a, const ComputeStep& b) const {
    if (step_counts_.at(a.statements.back()) != 1 || step_counts_.at(b.statements.front()) != 1) return false;
    const SplitDims x = split_dims(a), y = split_dims(b);
    const auto fits = [](const SplitDims& one, const SplitDims& other) {
      return std::all_of(one.begin(), one.end(), [&](const auto& dim) {
        const auto found = other.find(dim.first);
        return found == other.end() ? !dim.second.may_be_empty : found->second.letters == dim.second.letters;
      });
    };
    return fits(x, y) && fits(y, x);
  }
  struct SplitDim {
    std::string letters;
    bool may_be_empty = false;
  };
  using SplitDims = std::map<std::string, SplitDim>;
  SplitDims split_dims(const ComputeStep& compute) const {
    SplitDims out;
    for (std::size_t i = 0; i < compute.slots.size(); ++i) {
      const TensorSlot& slot = schedule_.slots[compute.slots[i]];
      const std::vector<Axis>& axes = compute.program.tensors[i].axes;
      for (std::size_t axis = 0; axis < axes.size(); ++axis)
        if (axes[axis].is_named())
          out[axes[axis].dim] = {slot.layout.mesh_axes[axis],
                                 slot.extents[axis] < mesh_.size(slot.layout.mesh_axes[axis])};
    }
    return out;
  }

  static void merge_into(ComputeStep& to, const ComputeStep& from) {
    std::vector<int> new_index;
    for (std::size_t i = 0; i < from.slots.size(); ++i) {
      const auto found = std::find(to.slots.begin(), to.slots.end(), from.slots[i]);
      new_index.push_back(static_cast<int>(found - to.slots.begin()));
      if (found != to.slots.end()) continue;
      to.slots.push_back(from.slots[i]);
      to.program.tensors.push_back(from.program.tensors[i]);
    }
    for (const Dimension& dim : from.program.dims)
      if (std::none_of(to.program.dims.begin(), to.program.dims.end(),
                       [&](const Dimension& known) { return known.name == dim.name; }))
        to.program.dims.push_back(dim);
    Statement statement = from.program.statements.front();
    renumber_tensors(statement, new_index);
    to.program.tensors[statement.result()].role = TensorRole::output;
    to.program.statements.push_back(std::move(statement));
    to.statements.push_back(from.statements.front());
  }

  static void renumber_tensors(Statement& statement, const std::vector<int>& new_index) {
    const auto map_index = [&](int& t) { t = new_index[t]; };
    std::visit([&](auto& op) { map_index(op.result); }, statement.op);
    if (auto* product = std::get_if<Contraction>(&statement.op)) {
      map_index(product->left);
      map_index(product->right);
      if (product->grouped) map_index(product->grouped->tensor);
      return;
    }
    for (Node& node : std::get<Expression>(statement.op).nodes)
      if (node.kind == Node::Kind::tensor) map_index(node.tensor);
  }

  // Marks results as intermediates that no other step reads and that are neither outputs nor stored.
  void mark_intermediates(ComputeStep& compute, std::size_t step_index) const {
    for (const Statement& statement : compute.program.statements) {
      const std::size_t result = statement.result();
      const int slot = compute.slots[result];
      const std::size_t at = slot;
      const bool is_stored = contains(stored_, slot);
      if (at >= program_.tensors.size() || program_.tensors[at].role == TensorRole::output || is_stored) continue;
      if (!is_read_elsewhere(slot, step_index)) compute.program.tensors[result].role = TensorRole::intermediate;
    }
  }

  bool is_read_elsewhere(int slot, std::size_t step_index) const {
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (i == step_index) continue;
      if (const auto* redistribution = std::get_if<Redistribution>(&out_[i]);
          redistribution != nullptr && redistribution->from == slot)
        return true;
      const auto* compute = std::get_if<ComputeStep>(&out_[i]);
      if (compute != nullptr && contains(compute->slots, slot)) return true;
    }
    return false;
  }

  const Program& program_;
  RankSchedule schedule_;
  const Mesh& mesh_;
  const std::vector<int>& stored_;
  std::map<int, int> step_counts_;
  std::vector<std::variant<ComputeStep, Redistribution>> out_;
};

// Removes mesh axes of one device, which split nothing.
Program remove_unit_mesh_axes(Program program, const Mesh& mesh) {
  const auto drop = [&](std::string& letters) {
    std::erase_if(letters, [&](char letter) { return mesh.size(letter) == 1; });
  };
  for (Tensor& tensor : program.tensors) {
    drop(tensor.partial);
    for (Axis& axis : tensor.axes) drop(axis.mesh);
  }
  for (Statement& statement : program.statements) {
    if (auto* const product = std::get_if<Contraction>(&statement.op)) drop(product->partial);
    if (auto* const e = std::get_if<Expression>(&statement.op))
      for (Node& node : e->nodes)
        for (Axis& axis : node.over) drop(axis.mesh);
  }
  return program;
}

}  // namespace

ShardBox slot_block(const RankSchedule& schedule, int slot, const MeshDevice& device) {
  const TensorSlot& of = schedule.slots[slot];
  return shard_box(of.extents, of.layout, device.mesh, device.index);
}

Result<Mesh> mesh_of(const Program& program, const Bindings& sizes) {
  Mesh out;
  for (const MeshAxis& axis : program.mesh) {
    const auto size = sizes.find(axis.name);
    if (size == sizes.end())
      return usage_error(fmt::format("mesh axis {} has no size, which determines the number of ranks", axis.name),
                         fmt::format("--mesh {}=2", axis.name));
    out.axes.emplace_back(axis.name[0], size->second);
  }
  return out;
}

Result<RankSchedule> build_rank_schedule(const Program& given, const Bindings& sizes, const MeshDevice& device,
                                         const std::vector<int>& stored_tensors) {
  const Program program = remove_unit_mesh_axes(given, device.mesh);
  RIDGE_TRY_STATUS(validate_tensors(program));
  RIDGE_TRY_STATUS(check_no_added_rows(program));
  auto schedule = ScheduleBuilder(program, sizes, device).build_schedule();
  return schedule ? Result<RankSchedule>(
                        StepMerger(program, *std::move(schedule), device.mesh, stored_tensors).merge_steps())
                  : schedule;
}

}  // namespace ridge::ranks

#include "ridge/measure/ranks/lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/distributed/cuts.h"
#include "ridge/measure/ranks/refuse.h"
#include "ridge/measure/ranks/split_along.h"

namespace ridge::ranks {
namespace {

class Lowering {
 public:
  Lowering(const Program& program, const Bindings& sizes, const Device& device)
      : program_(program), sizes_(sizes), device_(device) {
    for (const Tensor& tensor : program.tensors)
      out_.slots.push_back({tensor.name, tensor.dtype, extents(tensor, sizes), layout_of(tensor)});
    out_.addends.assign(program.statements.size(), -1);
  }

  Result<Acts> acts() {
    for (std::size_t s = 0; s < program_.statements.size(); ++s) {
      statement_ = static_cast<int>(s);
      const Statement& statement = program_.statements[s];
      if (const auto* product = std::get_if<Contraction>(&statement.op))
        lower(statement, *product);
      else if (const auto& e = std::get<Expression>(statement.op); e.nodes.size() == 1)
        relay(statement, e);
      else
        lower(statement, e);
      if (error_) return *error_;
    }
    return std::move(out_);
  }

 private:
  const Tensor& tensor(int i) const { return program_.tensors[static_cast<std::size_t>(i)]; }
  Slot& slot(int i) { return out_.slots[static_cast<std::size_t>(i)]; }

  int fresh(Slot slot) {
    slot.name += fmt::format("#{}", out_.slots.size());  // '#' cannot occur in a name of the notation
    out_.slots.push_back(std::move(slot));
    return static_cast<int>(out_.slots.size()) - 1;
  }

  // --- tensors of a step's program

  // Adds the slot to the step as a tensor without mesh axes and with the shard's sizes; returns the tensor's index.
  int part(Compute& to, int slot_index, const std::vector<Axis>& axes) {
    for (std::size_t i = 0; i < to.slots.size(); ++i)
      if (to.slots[i] == slot_index) return static_cast<int>(i);
    const Slot& of = slot(slot_index);
    Tensor tensor{.name = of.name, .dtype = of.dtype, .declared = true, .axes = axes};
    const Block block = block_of(of.extents, of.layout, device_.mesh, device_.number);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      tensor.axes[i].mesh.clear();
      if (!axes[i].named()) continue;
      size_dim(to, axes[i].dim, block[i].size());
    }
    to.program.tensors.push_back(std::move(tensor));
    to.slots.push_back(slot_index);
    return static_cast<int>(to.slots.size()) - 1;
  }

  void size_dim(Compute& to, const std::string& dim, std::int64_t size) {
    to.empty = to.empty || size == 0;
    for (const Dimension& known : to.program.dims)
      if (known.name == dim) return;
    Dimension out{.name = dim, .value = Polynomial(size)};
    for (const Dimension& whole : program_.dims)
      if (whole.name == dim && !whole.lengths.empty()) out.lengths = whole.lengths;
    to.program.dims.push_back(std::move(out));
  }

  Compute begin() const {
    Compute out;
    out.program.source = program_.source;
    out.statements = {statement_};
    return out;
  }

  void add(Compute compute, std::variant<Contraction, Expression> op) {
    const Statement& whole = program_.statements[static_cast<std::size_t>(statement_)];
    compute.program.statements.push_back({.op = std::move(op), .text = whole.text, .span = whole.span});
    const int result = compute.program.statements.back().result();
    for (std::size_t i = 0; i < compute.slots.size(); ++i)
      compute.program.tensors[i].role = static_cast<int>(i) == result ? Role::output : Role::input;
    out_.acts.emplace_back(std::move(compute));
  }

  // --- products

  void lower(const Statement& statement, const Contraction& c) {
    Cuts cuts;
    for (const int t : {c.left, c.right})
      for (const Axis& axis : tensor(t).axes)
        if (axis.named() && !axis.mesh.empty()) cuts[is_group(c, t, axis) ? c.grouped->dim : axis.dim] = axis.mesh;
    if ((error_ = refuse_groups(program_, c, sizes_, device_.mesh))) return;
    const Layout made = result_under(program_, statement, cuts);
    const int result = statement.result();
    const int to = move_after(made, result);
    Compute compute = begin();
    Contraction op = c;
    op.partial.clear();
    op.left = part(compute, c.left, tensor(c.left).axes);
    op.right = part(compute, c.right, tensor(c.right).axes);
    op.result = part(compute, to, tensor(result).axes);
    if (c.grouped) op.grouped->tensor = c.grouped->tensor == c.left ? op.left : op.right;
    add(std::move(compute), std::move(op));
    shift(to, result, transport::Reduction::sum);
  }

  // Returns the slot that a result computed with this layout is stored to: its own, or a new one if it must move first.
  int move_after(const Layout& made, int result) {
    int out = result;
    if (made != slot(result).layout) {
      Slot before = slot(result);
      before.layout = made;
      out = fresh(std::move(before));
    }
    if (!made.addends.empty()) out_.addends[static_cast<std::size_t>(statement_)] = out;
    return out;
  }

  // Adds the redistributions from one slot to another of the same tensor.
  void shift(int from, int to, transport::Reduction how) {
    if (from == to) return;
    const std::vector<Move> steps = moves(slot(from).layout, slot(to).layout);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if ((error_ = refuse_move(program_.statements[static_cast<std::size_t>(statement_)], steps[i], slot(from).dtype)))
        return;
      int next = to;
      if (i + 1 < steps.size()) {
        Slot between = slot(to);
        between.layout = steps[i].after;
        next = fresh(std::move(between));
      }
      out_.acts.emplace_back(Shift{statement_, steps[i], from, next, how});
      from = next;
    }
  }

  // --- copies, y[B, F] = x, which may change the layout, the dtype and the order of the axes

  void relay(const Statement& statement, const Expression& e) {
    const int from = e.nodes[0].tensor, result = statement.result();
    const std::vector<Axis>&has = tensor(from).axes, &wanted = tensor(result).axes;
    Slot then = slot(from);  // the result's layout, with the axes in the operand's order
    then.layout.addends = slot(result).layout.addends;
    for (std::size_t i = 0; i < has.size(); ++i) {
      const auto there = std::find(wanted.begin(), wanted.end(), has[i]);
      then.layout.cut[i] = there == wanted.end() ? "" : there->mesh;
    }
    if (!slot(from).layout.addends.empty()) out_.addends[static_cast<std::size_t>(statement_)] = from;
    const bool stays = slot(from).layout == then.layout;
    const bool same = slot(result).dtype == then.dtype && has == wanted;
    if (!stays && same) return shift(from, result, transport::Reduction::sum);
    const int moved = stays ? from : fresh(std::move(then));
    shift(from, moved, transport::Reduction::sum);
    if (error_) return;
    Compute compute = begin();
    Expression copy = e;
    copy.nodes[0].tensor = part(compute, moved, has);
    copy.result = part(compute, result, wanted);
    add(std::move(compute), std::move(copy));
  }

  // --- expressions

  void lower(const Statement& statement, const Expression& e) {
    Bindings begins;
    for (const int t : operands_and_result(statement)) {
      const Block block = block_of(slot(t).extents, slot(t).layout, device_.mesh, device_.number);
      for (std::size_t i = 0; i < block.size(); ++i)
        if (tensor(t).axes[i].named()) begins[tensor(t).axes[i].dim] = block[i].begin;
    }
    AlongParts parts(program_, sizes_, [&](const Partial& partial) { return bring_together(partial); });
    add_expression(begin(), e, parts.value(e, begins));
  }

  static std::vector<int> operands_and_result(const Statement& statement) {
    std::vector<int> out = operands(statement);
    out.push_back(statement.result());
    return out;
  }

  // Nodes refer to slots. Slots after the program's tensors are partial sums, with their axes in `partial_axes_`.
  const std::vector<Axis>& axes_of(int slot_index) const {
    const auto made = made_axes_.find(slot_index);
    return made == made_axes_.end() ? tensor(slot_index).axes : made->second;
  }

  void add_expression(Compute compute, const Expression& whole, std::vector<Node> nodes) {
    Expression out{.result = 0, .nodes = std::move(nodes), .routine = whole.routine};
    for (Node& node : out.nodes)
      if (node.kind == Node::Kind::tensor) node.tensor = part(compute, node.tensor, axes_of(node.tensor));
    out.result = part(compute, whole.result, axes_of(whole.result));
    for (const Node& node : out.nodes)
      for (const Axis& axis : node.over)
        if (axis.named()) size_dim(compute, axis.dim, sizes_.at(axis.dim));  // if it occurs only as an index
    add(std::move(compute), std::move(out));
  }

  int bring_together(const Partial& partial) {
    Slot addends;
    addends.name = tensor(program_.statements[static_cast<std::size_t>(statement_)].result()).name;
    for (const Axis& axis : partial.kept) {
      addends.extents.push_back(extent(axis, sizes_));
      addends.layout.cut.push_back(axis.mesh);
    }
    Slot all = addends;
    addends.layout.addends = partial.letters;
    const int before = fresh(std::move(addends)), after = fresh(std::move(all));
    made_axes_[before] = made_axes_[after] = partial.kept;
    Expression reduction{.result = before, .nodes = partial.value};
    const int argument = static_cast<int>(partial.value.size()) - 1;
    reduction.nodes.push_back({.kind = Node::Kind::along, .function = partial.function, .arguments = {argument}});
    reduction.nodes.back().over = partial.over;
    Compute compute = begin();
    compute.how = partial.how;
    std::vector<Node> nodes = reduction.nodes;
    add_expression(std::move(compute), reduction, std::move(nodes));
    shift(before, after, partial.how);
    return after;
  }

  const Program& program_;
  const Bindings& sizes_;
  const Device& device_;
  int statement_ = 0;
  std::map<int, std::vector<Axis>> made_axes_;
  std::optional<Error> error_;
  Acts out_;
};

// --- merging of consecutive compute steps

class Joining {
 public:
  Joining(const Program& program, Acts acts, const Mesh& mesh, const std::vector<int>& stored)
      : program_(program), acts_(std::move(acts)), mesh_(mesh), stored_(stored) {
    for (const auto& act : acts_.acts)
      if (const auto* compute = std::get_if<Compute>(&act)) ++acts_of_[compute->statements.front()];
  }

  Acts joined() {
    for (auto& act : acts_.acts) {
      auto* const compute = std::get_if<Compute>(&act);
      auto* const last = out_.empty() ? nullptr : std::get_if<Compute>(&out_.back());
      if (compute != nullptr && last != nullptr && fit(*last, *compute))
        join(*last, *compute);
      else
        out_.push_back(std::move(act));
    }
    for (std::size_t i = 0; i < out_.size(); ++i)
      if (auto* const compute = std::get_if<Compute>(&out_[i])) mark_what_stays_inside(*compute, i);
    acts_.acts = std::move(out_);
    return std::move(acts_);
  }

 private:
  // True if the steps can share a program. A statement of several steps is not merged. All ranks must agree, so
  // shard sizes are not used: common dimensions must be split over the same mesh axes, and a dimension that is empty on
  // some rank must occur in both steps or in neither.
  bool fit(const Compute& a, const Compute& b) const {
    if (acts_of_.at(a.statements.back()) != 1 || acts_of_.at(b.statements.front()) != 1) return false;
    const Cut x = cut(a), y = cut(b);
    const auto fits = [](const Cut& one, const Cut& other) {
      return std::all_of(one.begin(), one.end(), [&](const auto& dim) {
        const auto there = other.find(dim.first);
        return there == other.end() ? !dim.second.may_be_empty : there->second.letters == dim.second.letters;
      });
    };
    return fits(x, y) && fits(y, x);
  }
  struct CutDim {
    std::string letters;
    bool may_be_empty = false;
  };
  using Cut = std::map<std::string, CutDim>;
  Cut cut(const Compute& compute) const {
    Cut out;
    for (std::size_t i = 0; i < compute.slots.size(); ++i) {
      const Slot& slot = acts_.slots[static_cast<std::size_t>(compute.slots[i])];
      const std::vector<Axis>& axes = compute.program.tensors[i].axes;
      for (std::size_t axis = 0; axis < axes.size(); ++axis)
        if (axes[axis].named())
          out[axes[axis].dim] = {slot.layout.cut[axis], slot.extents[axis] < mesh_.size(slot.layout.cut[axis])};
    }
    return out;
  }

  static void join(Compute& to, const Compute& from) {
    std::vector<int> place;
    for (std::size_t i = 0; i < from.slots.size(); ++i) {
      const auto there = std::find(to.slots.begin(), to.slots.end(), from.slots[i]);
      place.push_back(static_cast<int>(there - to.slots.begin()));
      if (there != to.slots.end()) continue;
      to.slots.push_back(from.slots[i]);
      to.program.tensors.push_back(from.program.tensors[i]);
    }
    for (const Dimension& dim : from.program.dims)
      if (std::none_of(to.program.dims.begin(), to.program.dims.end(),
                       [&](const Dimension& known) { return known.name == dim.name; }))
        to.program.dims.push_back(dim);
    Statement statement = from.program.statements.front();
    renumber(statement, place);
    to.program.tensors[static_cast<std::size_t>(statement.result())].role = Role::output;
    to.program.statements.push_back(std::move(statement));
    to.statements.push_back(from.statements.front());
  }

  static void renumber(Statement& statement, const std::vector<int>& place) {
    const auto there = [&](int& t) { t = place[static_cast<std::size_t>(t)]; };
    std::visit([&](auto& op) { there(op.result); }, statement.op);
    if (auto* product = std::get_if<Contraction>(&statement.op)) {
      there(product->left);
      there(product->right);
      if (product->grouped) there(product->grouped->tensor);
      return;
    }
    for (Node& node : std::get<Expression>(statement.op).nodes)
      if (node.kind == Node::Kind::tensor) there(node.tensor);
  }

  // Marks results as intermediates that no other step reads and that are neither outputs nor stored.
  void mark_what_stays_inside(Compute& compute, std::size_t place) const {
    for (const Statement& statement : compute.program.statements) {
      const auto result = static_cast<std::size_t>(statement.result());
      const int slot = compute.slots[result];
      const auto at = static_cast<std::size_t>(slot);
      const bool wanted = std::find(stored_.begin(), stored_.end(), slot) != stored_.end();
      if (at >= program_.tensors.size() || program_.tensors[at].role == Role::output || wanted) continue;
      if (!read_elsewhere(slot, place)) compute.program.tensors[result].role = Role::intermediate;
    }
  }

  bool read_elsewhere(int slot, std::size_t place) const {
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (i == place) continue;
      if (const auto* shift = std::get_if<Shift>(&out_[i]); shift != nullptr && shift->from == slot) return true;
      const auto* compute = std::get_if<Compute>(&out_[i]);
      if (compute != nullptr && std::find(compute->slots.begin(), compute->slots.end(), slot) != compute->slots.end())
        return true;
    }
    return false;
  }

  const Program& program_;
  Acts acts_;
  const Mesh& mesh_;
  const std::vector<int>& stored_;
  std::map<int, int> acts_of_;
  std::vector<std::variant<Compute, Shift>> out_;
};

// Removes mesh axes of one device, which split nothing.
Program without_axes_of_one(Program program, const Mesh& mesh) {
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

Result<Acts> acts_of(const Program& given, const Bindings& sizes, const Device& device,
                     const std::vector<int>& stored) {
  const Program program = without_axes_of_one(given, device.mesh);
  if (auto refused = refuse_tensors(program)) return *std::move(refused);
  auto acts = Lowering(program, sizes, device).acts();
  return acts ? Result<Acts>(Joining(program, *std::move(acts), device.mesh, stored).joined()) : acts;
}

}  // namespace ridge::ranks

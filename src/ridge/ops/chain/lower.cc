#include "ridge/ops/chain/lower.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "ridge/base/ceil_div.h"
#include "ridge/base/dtype_set.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

bool is_commutative(ChainOp op) { return op == ChainOp::add || op == ChainOp::multiply; }

struct IndexSpace {
  std::vector<std::int64_t> extents;
  std::vector<std::vector<std::int64_t>> strides;  // strides[axis][tensor]
};

// Drops axes of extent 1, orders the others by the first output's strides, and merges axes that are contiguous in every
// tensor.
IndexSpace merge_axes(const ChainProgram& program) {
  IndexSpace all;
  for (std::size_t axis = 0; axis < program.extents.size(); ++axis) {
    if (program.extents[axis] == 1) continue;
    all.extents.push_back(program.extents[axis]);
    std::vector<std::int64_t>& row = all.strides.emplace_back();
    for (const ChainTensor& t : program.tensors) row.push_back(t.strides[axis]);
  }
  std::vector<std::size_t> order(all.extents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    for (const ChainStep& s : program.steps)
      if (s.op == ChainOp::store) {
        const std::size_t slot = s.slot;
        return std::abs(all.strides[a][slot]) > std::abs(all.strides[b][slot]);
      }
    return false;
  });
  IndexSpace result;
  for (const std::size_t axis : order) {
    const auto continues = [&](std::size_t t) {
      return result.strides.back()[t] == all.strides[axis][t] * all.extents[axis];
    };
    bool mergeable = !result.extents.empty();
    for (std::size_t t = 0; mergeable && t < program.tensors.size(); ++t) mergeable = continues(t);
    if (mergeable) {
      result.extents.back() *= all.extents[axis];
      result.strides.back() = all.strides[axis];
    } else {
      result.extents.push_back(all.extents[axis]);
      result.strides.push_back(all.strides[axis]);
    }
  }
  return result;
}

std::string step_prefix(std::size_t i) { return "step " + std::to_string(i) + " of the chain "; }

// Returns an error if the index space or an offset is too large, or if a layout is invalid.
Reason invalid_sizes_reason(const ChainProgram& p) {
  const auto max_elements = static_cast<double>(std::numeric_limits<std::int64_t>::max() / 16);
  double elements = 1;
  for (const std::int64_t e : p.extents) {
    if (e < 0) return "expected extents of at least 0, found " + std::to_string(e);
    elements *= static_cast<double>(std::max<std::int64_t>(e, 1));
  }
  if (elements > max_elements) return "the chain's index space has more than 2^59 elements";
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const std::string name = "tensor " + std::to_string(t) + " of the chain ";
    const DType dtype = p.tensors[t].dtype;
    if (!StoredFloats::contains(dtype))
      return name + "is " + std::string(ridge::dtype_name(dtype)) + "; chains store f32, bf16 and f16";
    const std::vector<std::int64_t>& strides = p.tensors[t].strides;
    if (strides.size() != p.extents.size())
      return name + "has " + std::to_string(strides.size()) + " strides, expected one for each of the " +
             std::to_string(p.extents.size()) + " axes";
    double span = 0;
    for (std::size_t i = 0; i < strides.size(); ++i)
      span += std::abs(static_cast<double>(strides[i])) * static_cast<double>(p.extents[i]);
    if (span > max_elements) return name + "reaches beyond 2^59 elements";
  }
  return {};
}

Reason invalid_steps_reason(const ChainProgram& p) {
  if (p.registers < 0 || p.registers > 1 << 20)
    return "expected 0 to 2^20 registers, found " + std::to_string(p.registers);
  std::vector<bool> written(p.registers, false);
  std::vector<int> loads(p.tensors.size(), 0), stores(p.tensors.size(), 0);
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const ChainStep& s = p.steps[i];
    const int sources[] = {s.a, s.b, s.c}, count = operand_count(s.op);
    for (int k = 0; k < count; ++k)
      if (sources[k] < 0 || sources[k] >= p.registers || !written[sources[k]])
        return step_prefix(i) + "reads register " + std::to_string(sources[k]) + ", which no step before it writes";
    if (s.op == ChainOp::load || s.op == ChainOp::store) {
      if (s.slot < 0 || static_cast<std::size_t>(s.slot) >= p.tensors.size())
        return step_prefix(i) + "names tensor " + std::to_string(s.slot) + "; there are " +
               std::to_string(p.tensors.size());
      ++(s.op == ChainOp::load ? loads : stores)[s.slot];
    }
    if (s.repeat < 1) return step_prefix(i) + "has repeat " + std::to_string(s.repeat) + ", expected at least 1";
    if (s.repeat > 1 && (count != 1 || s.op == ChainOp::store))
      return step_prefix(i) + "is repeated; only functions of one operand can be";
    if (s.op == ChainOp::store) continue;
    if (s.result < 0 || s.result >= p.registers)
      return step_prefix(i) + "writes register " + std::to_string(s.result) + "; there are " +
             std::to_string(p.registers);
    written[s.result] = true;
  }
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const std::string name = "tensor " + std::to_string(t) + " of the chain ";
    if (stores[t] > 1) return name + "is stored twice";
    if (stores[t] == 1 && loads[t] > 0) return name + "is loaded and stored; an output must not overlap an input";
  }
  return {};
}

// True if two elements of a tensor may share memory: sorted by size, each stride must exceed the span of the smaller
// ones.
bool overlaps_itself(const ChainProgram& p, std::size_t tensor) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // |stride|, extent
  for (std::size_t i = 0; i < p.extents.size(); ++i)
    if (p.extents[i] > 1) axes.emplace_back(std::abs(p.tensors[tensor].strides[i]), p.extents[i]);
  std::sort(axes.begin(), axes.end());
  std::int64_t span = 0;
  for (const auto& [stride, extent] : axes) {
    if (stride <= span) return true;
    span += stride * (extent - 1);
  }
  return false;
}

// Compiles steps over registers into operations on the current group. A value is a step's result. Its location says
// where it can be read again: in a tensor, a constant, or a saved group. A value is saved when it is needed as second
// operand or before its group is overwritten.
class ChainCompiler {
 public:
  ChainCompiler(const ChainProgram& program, LoweredChain& code) : program_(program), code_(code) {}

  void compile_steps() {
    number_values();
    for (std::size_t at = 0; at < program_.steps.size(); ++at) compile_step(program_.steps[at], operands_[at]);
  }

 private:
  struct ValueState {
    OperandLocation location;
    int uses_left = 0;
  };
  struct StepValues {
    int a = -1, b = -1, c = -1, result = -1;  // Value numbers.
  };

  void number_values() {
    std::vector<int> value_in(program_.registers, -1);
    for (const ChainStep& s : program_.steps) {
      StepValues o;
      const auto use = [&](int reg) {
        const int value = value_in[reg];
        ++values_[value].uses_left;
        return value;
      };
      const int count = operand_count(s.op);
      if (count > 0) o.a = use(s.a);
      if (count > 1) o.b = use(s.b);
      if (count > 2) o.c = use(s.c);
      if (s.op != ChainOp::store) {
        o.result = static_cast<int>(values_.size());
        values_.emplace_back();
        value_in[s.result] = o.result;
      }
      operands_.push_back(o);
    }
  }

  ValueState& value_state(int v) { return values_[v]; }

  void compile_step(const ChainStep& s, StepValues o) {
    if (s.op == ChainOp::load) {
      value_state(o.result).location = {OperandLocation::tensor, s.slot};
    } else if (s.op == ChainOp::constant) {
      value_state(o.result).location = {OperandLocation::constant, static_cast<int>(code_.constants.size())};
      code_.constants.push_back(s.constant);
    } else if (s.op == ChainOp::store) {
      load_into_group(o.a);
      code_.operations.push_back({.kind = GroupOperation::store_group, .a = {OperandLocation::tensor, s.slot}});
      end_use(o.a);
    } else {
      if (is_commutative(s.op) && group_value_ == o.b) std::swap(o.a, o.b);
      GroupOperation apply{.kind = GroupOperation::apply, .op = s.op, .repeat = s.repeat};
      if (o.b >= 0) apply.b = locate_or_save(o.b);
      if (o.c >= 0) apply.c = locate_or_save(o.c);
      load_into_group(o.a);
      for (const int v : {o.a, o.b, o.c})
        if (v >= 0) --value_state(v).uses_left;
      if (value_state(o.a).uses_left > 0) locate_or_save(o.a);  // The group is about to be overwritten.
      if (s.op != ChainOp::negate || s.repeat % 2 != 0) code_.operations.push_back(apply);
      for (const int v : {o.a, o.b, o.c})
        if (v >= 0) release_slot_if_unused(v);
      group_value_ = o.result;
    }
  }

  // Returns the location of a value. Saves the current group first if the value is only there.
  OperandLocation locate_or_save(int v) {
    OperandLocation& at = value_state(v).location;
    if (at.kind != OperandLocation::nowhere) return at;
    if (free_slots_.empty()) free_slots_.push_back(code_.saved_groups++);
    at = {OperandLocation::saved, free_slots_.back()};
    free_slots_.pop_back();
    code_.operations.push_back({.kind = GroupOperation::save_group, .a = at});
    return at;
  }
  void load_into_group(int v) {
    if (group_value_ == v) return;
    const OperandLocation from = locate_or_save(v);
    if (group_value_ >= 0 && value_state(group_value_).uses_left > 0) locate_or_save(group_value_);
    code_.operations.push_back({.kind = GroupOperation::load_group, .a = from});
    group_value_ = v;
  }
  void end_use(int v) {
    --value_state(v).uses_left;
    release_slot_if_unused(v);
  }
  void release_slot_if_unused(int v) {
    OperandLocation& at = value_state(v).location;
    if (value_state(v).uses_left > 0 || at.kind != OperandLocation::saved) return;
    free_slots_.push_back(at.index);
    at = {};
  }

  const ChainProgram& program_;
  LoweredChain& code_;
  std::vector<ValueState> values_;
  std::vector<StepValues> operands_;
  std::vector<int> free_slots_;
  int group_value_ = -1;  // Number of the value in the current group, or -1.
};

// Marks the tensors that must be gathered, because steps cannot access them in place, and chooses the block shape such
// that the gathered copies fit in the L1.
void choose_blocks(LoweredChain& code) {
  const std::size_t last = code.axes - 1;
  const std::int64_t width = code.extents[last];
  for (const GroupOperation& m : code.operations)
    if (m.kind == GroupOperation::store_group) code.tensors[m.a.index].is_stored = true;
  std::int64_t gathered = 0;
  const bool has_short_rows = width < max_group_elements;  // A block has several rows, so no tensor is contiguous.
  for (LoweredTensor& t : code.tensors) {
    const bool is_uniform = t.strides[last] == 0 && !t.is_stored;
    t.is_gathered = has_short_rows || (t.strides[last] != 1 && !is_uniform);
    gathered += t.is_gathered ? 1 : 0;
  }
  std::int64_t block = max_block_elements;
  if (gathered > 0) {
    const std::int64_t fits = pool::cache_sizes().l1d / 2 / static_cast<std::int64_t>(sizeof(float)) / gathered;
    block = std::clamp<std::int64_t>(fits / max_group_elements * max_group_elements, max_group_elements,
                                     max_gathered_elements);
  }
  code.columns = std::min(width, block);
  code.rows = has_short_rows ? block / std::max<std::int64_t>(width, 1) : 1;
}

}  // namespace

int operand_count(ChainOp op) { return function_info(op).arity; }

Reason invalid_reason(const ChainProgram& program) {
  if (const auto reason = invalid_sizes_reason(program)) return reason;
  if (const auto reason = invalid_steps_reason(program)) return reason;
  for (const ChainStep& s : program.steps)
    if (s.op == ChainOp::store && overlaps_itself(program, static_cast<std::size_t>(s.slot)))
      return "tensor " + std::to_string(s.slot) + " of the chain is an output whose elements share memory; expected " +
             "strides that step over each other";
  const std::size_t axes = merge_axes(program).extents.size();
  if (axes > max_chain_axes)
    return "the chain has " + std::to_string(axes) + " axes that cannot be merged, expected at most " +
           std::to_string(max_chain_axes);
  return {};
}

LoweredChain lower_chain(const ChainProgram& program) {
  IndexSpace space = merge_axes(program);
  while (space.extents.size() < 2) {  // Blocks need two axes, rows and columns.
    space.extents.insert(space.extents.begin(), 1);
    space.strides.insert(space.strides.begin(), std::vector<std::int64_t>(program.tensors.size(), 0));
  }
  LoweredChain code;
  code.axes = static_cast<int>(space.extents.size());
  code.elements = 1;
  for (const std::int64_t extent : program.extents) code.elements *= extent;
  std::copy(space.extents.begin(), space.extents.end(), code.extents.begin());
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    LoweredTensor& access = code.tensors.emplace_back();
    access.dtype = program.tensors[t].dtype;
    for (std::size_t axis = 0; axis < space.extents.size(); ++axis) access.strides[axis] = space.strides[axis][t];
  }
  ChainCompiler(program, code).compile_steps();
  choose_blocks(code);
  return code;
}

std::int64_t LoweredChain::block_count() const {
  if (elements == 0) return 0;
  const std::size_t last = axes - 1;
  std::int64_t count = ceil_div(extents[last], columns) * ceil_div(extents[last - 1], rows);
  for (std::size_t axis = 0; axis + 2 < static_cast<std::size_t>(axes); ++axis) count *= extents[axis];
  return count;
}

ChainBlock block_at(const LoweredChain& code, std::int64_t index) {
  ChainBlock block;
  const std::size_t last = code.axes - 1;
  const std::int64_t width = code.extents[last], height = code.extents[last - 1];
  const std::int64_t across = ceil_div(width, code.columns), down = ceil_div(height, code.rows);
  block.start[last] = index % across * code.columns;
  index /= across;
  block.start[last - 1] = index % down * code.rows;
  index /= down;
  block.rows = std::min<std::int64_t>(code.rows, height - block.start[last - 1]);
  block.columns = std::min(code.columns, width - block.start[last]);
  for (std::size_t axis = last - 1; axis-- > 0; index /= code.extents[axis])
    block.start[axis] = index % code.extents[axis];
  return block;
}

// Scratch holds the saved groups and, for each tensor, a group, and a block if it is gathered. The last group may
// exceed the block.
std::int64_t chain_scratch_floats(const LoweredChain& code) {
  std::int64_t floats = code.saved_groups * max_group_elements;
  for (const LoweredTensor& t : code.tensors)
    floats += max_group_elements + (t.is_gathered ? code.rows * code.columns : 0);
  return floats;
}

}  // namespace ridge::ops

#include "ridge/kernels/chain_code.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "ridge/tile/target/cpu/isa.h"

namespace ridge::kernels {
namespace {

int operands(ChainOp op) {
  switch (op) {
    case ChainOp::load:
    case ChainOp::constant: return 0;
    case ChainOp::add:
    case ChainOp::subtract:
    case ChainOp::multiply:
    case ChainOp::divide:
    case ChainOp::max:
    case ChainOp::min:
    case ChainOp::less: return 2;
    case ChainOp::where: return 3;
    default: return 1;
  }
}

bool costly(ChainOp op) {
  switch (op) {
    case ChainOp::exp:
    case ChainOp::log:
    case ChainOp::cos:
    case ChainOp::sin:
    case ChainOp::gelu:
    case ChainOp::gelu_tanh:
    case ChainOp::silu:
    case ChainOp::sigmoid:
    case ChainOp::tanh: return true;
    default: return false;
  }
}

struct Space {  // the index space while axes are merged and ordered: strides[axis][tensor]
  std::vector<std::int64_t> extents;
  std::vector<std::vector<std::int64_t>> strides;
};

Space merged(const ChainProgram& program) {
  Space all;
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
        const std::size_t slot = static_cast<std::size_t>(s.slot);
        return std::abs(all.strides[a][slot]) > std::abs(all.strides[b][slot]);
      }
    return false;
  });
  Space result;
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

std::string at_step(std::size_t i) { return "step " + std::to_string(i) + " of the chain "; }

// No product of extents, and no offset of an element, may leave 63 bits.
std::optional<std::string> sizes_fault(const ChainProgram& p) {
  const auto most = static_cast<double>(std::numeric_limits<std::int64_t>::max() / 16);
  double elements = 1;
  for (const std::int64_t e : p.extents) {
    if (e < 0) return "expected extents of at least 0, found " + std::to_string(e);
    elements *= static_cast<double>(std::max<std::int64_t>(e, 1));
  }
  if (elements > most) return "the chain's index space has more than 2^59 elements";
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const std::string name = "tensor " + std::to_string(t) + " of the chain ";
    const DType dtype = p.tensors[t].dtype;
    if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16)
      return name + "is " + std::string(ridge::name(dtype)) + "; chains store f32, bf16 and f16";
    const std::vector<std::int64_t>& strides = p.tensors[t].strides;
    if (strides.size() != p.extents.size())
      return name + "has " + std::to_string(strides.size()) + " strides, expected one for each of the " +
             std::to_string(p.extents.size()) + " axes";
    double reach = 0;
    for (std::size_t i = 0; i < strides.size(); ++i)
      reach += std::abs(static_cast<double>(strides[i])) * static_cast<double>(p.extents[i]);
    if (reach > most) return name + "reaches beyond 2^59 elements";
  }
  return std::nullopt;
}

std::optional<std::string> steps_fault(const ChainProgram& p) {
  if (p.registers < 0 || p.registers > 1 << 20)
    return "expected 0 to 2^20 registers, found " + std::to_string(p.registers);
  std::vector<bool> written(static_cast<std::size_t>(p.registers), false);
  std::vector<int> loads(p.tensors.size(), 0), stores(p.tensors.size(), 0);
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const ChainStep& s = p.steps[i];
    const int sources[] = {s.a, s.b, s.c}, count = operands(s.op);
    for (int k = 0; k < count; ++k)
      if (sources[k] < 0 || sources[k] >= p.registers || !written[static_cast<std::size_t>(sources[k])])
        return at_step(i) + "reads register " + std::to_string(sources[k]) + ", which no step before it writes";
    if (s.op == ChainOp::load || s.op == ChainOp::store) {
      if (s.slot < 0 || static_cast<std::size_t>(s.slot) >= p.tensors.size())
        return at_step(i) + "names tensor " + std::to_string(s.slot) + "; there are " +
               std::to_string(p.tensors.size());
      ++(s.op == ChainOp::load ? loads : stores)[static_cast<std::size_t>(s.slot)];
    }
    if (s.repeat < 1) return at_step(i) + "has repeat " + std::to_string(s.repeat) + ", expected at least 1";
    if (s.repeat > 1 && (count != 1 || s.op == ChainOp::store))
      return at_step(i) + "is repeated; only functions of one operand can be";
    if (s.op == ChainOp::store) continue;
    if (s.result < 0 || s.result >= p.registers)
      return at_step(i) + "writes register " + std::to_string(s.result) + "; there are " + std::to_string(p.registers);
    written[static_cast<std::size_t>(s.result)] = true;
  }
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const std::string name = "tensor " + std::to_string(t) + " of the chain ";
    if (stores[t] > 1) return name + "is stored twice";
    if (stores[t] == 1 && loads[t] > 0) return name + "is loaded and stored; an output must not overlap an input";
  }
  return std::nullopt;
}

// Sorted by size, each stride must step over all that the smaller ones reach.
bool overlaps_itself(const ChainProgram& p, std::size_t tensor) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // |stride|, extent
  for (std::size_t i = 0; i < p.extents.size(); ++i)
    if (p.extents[i] > 1) axes.emplace_back(std::abs(p.tensors[tensor].strides[i]), p.extents[i]);
  std::sort(axes.begin(), axes.end());
  std::int64_t reach = 0;
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) return true;
    reach += stride * (extent - 1);
  }
  return false;
}

// Each step's result as a value, and a slot for each value that needs memory, from its step to its last use.
void assign_values(const ChainProgram& p, ChainCode& code) {
  std::vector<int> value_in(static_cast<std::size_t>(p.registers), -1), last_use, uses;
  for (const ChainStep& s : p.steps) {
    const int at = static_cast<int>(code.instructions.size()), count = operands(s.op);
    ChainInstruction i;
    i.op = s.op;
    const auto use = [&](int reg) {
      const int value = value_in[static_cast<std::size_t>(reg)];
      last_use[static_cast<std::size_t>(value)] = at;
      ++uses[static_cast<std::size_t>(value)];
      return value;
    };
    if (count > 0) i.a = use(s.a);
    if (count > 1) i.b = use(s.b);
    if (count > 2) i.c = use(s.c);
    if (s.op == ChainOp::load || s.op == ChainOp::store) i.tensor = s.slot;
    i.constant = s.constant;
    i.repeat = s.repeat;
    if (s.op != ChainOp::store) {
      i.result = code.values++;
      value_in[static_cast<std::size_t>(s.result)] = i.result;
      last_use.push_back(at);
      uses.push_back(0);
    }
    code.instructions.push_back(i);
  }
  std::vector<int> free, slot_of(static_cast<std::size_t>(code.values), -1), ends;
  for (int at = 0; at < static_cast<int>(code.instructions.size()); ++at) {
    ChainInstruction& i = code.instructions[static_cast<std::size_t>(at)];
    if (i.result >= 0) {
      // A constant's slot holds for the whole run.
      if (i.op != ChainOp::constant && !free.empty()) {
        i.slot = free.back();
        free.pop_back();
      } else {
        i.slot = code.slots++;
      }
      if (i.op != ChainOp::constant) slot_of[static_cast<std::size_t>(i.result)] = i.slot;
    }
    // Only now, so that no pass writes where it reads: an operand may be 16 floats that stand for all elements.
    for (const int value : {i.a, i.b, i.c, i.result}) {
      if (value < 0 || last_use[static_cast<std::size_t>(value)] != at) continue;
      int& slot = slot_of[static_cast<std::size_t>(value)];
      if (slot >= 0) free.push_back(slot);
      slot = -1;
    }
  }
  for (std::size_t at = 0; at + 1 < code.instructions.size(); ++at) {
    const ChainInstruction& next = code.instructions[at + 1];
    ChainInstruction& i = code.instructions[at];
    if (i.op == ChainOp::load || i.op == ChainOp::constant || next.op != ChainOp::store || next.a != i.result) continue;
    if (uses[static_cast<std::size_t>(i.result)] == 1) i.store_tensor = next.tensor;
  }
}

void choose_prefetch(ChainCode& code) {
  const auto computes = [](const ChainInstruction& i) {
    return i.op != ChainOp::load && i.op != ChainOp::store && i.op != ChainOp::constant;
  };
  ChainInstruction* chosen = nullptr;
  for (ChainInstruction& i : code.instructions)
    if (computes(i) && (chosen == nullptr || (costly(i.op) && !costly(chosen->op)))) chosen = &i;
  if (chosen != nullptr) chosen->prefetches = true;
}

void choose_blocks(ChainCode& code) {
  const std::int64_t slots = std::max(code.slots, 1);
  const std::int64_t fits = tile::cpu::caches().l1d / 2 / static_cast<std::int64_t>(sizeof(float)) / slots;
  const std::int64_t block = std::clamp<std::int64_t>(fits / 64 * 64, 64, most_block);
  const std::int64_t columns = code.extents[static_cast<std::size_t>(code.axes - 1)];
  code.columns = static_cast<int>(std::min(columns, block));
  code.rows = columns >= block ? 1 : static_cast<int>(block / std::max<std::int64_t>(columns, 1));
}

}  // namespace

std::optional<std::string> find_fault(const ChainProgram& program) {
  if (const auto fault = sizes_fault(program)) return fault;
  if (const auto fault = steps_fault(program)) return fault;
  for (const ChainStep& s : program.steps)
    if (s.op == ChainOp::store && overlaps_itself(program, static_cast<std::size_t>(s.slot)))
      return "tensor " + std::to_string(s.slot) + " of the chain is an output whose elements share memory; expected " +
             "strides that step over each other";
  const std::size_t axes = merged(program).extents.size();
  if (axes > most_axes)
    return "the chain has " + std::to_string(axes) + " axes that cannot be merged, expected at most " +
           std::to_string(most_axes);
  return std::nullopt;
}

ChainCode lower(const ChainProgram& program) {
  Space space = merged(program);
  while (space.extents.size() < 2) {  // an axis of one element in front, so that every block has rows and columns
    space.extents.insert(space.extents.begin(), 1);
    space.strides.insert(space.strides.begin(), std::vector<std::int64_t>(program.tensors.size(), 0));
  }
  ChainCode code;
  code.axes = static_cast<int>(space.extents.size());
  code.elements = 1;
  for (const std::int64_t extent : program.extents) code.elements *= extent;
  std::copy(space.extents.begin(), space.extents.end(), code.extents.begin());
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    ChainAccess& access = code.tensors.emplace_back();
    access.dtype = program.tensors[t].dtype;
    for (std::size_t axis = 0; axis < space.extents.size(); ++axis) access.strides[axis] = space.strides[axis][t];
  }
  assign_values(program, code);
  choose_prefetch(code);
  choose_blocks(code);
  return code;
}

namespace {
std::int64_t pieces(std::int64_t count, std::int64_t each) { return count / each + (count % each != 0 ? 1 : 0); }
}  // namespace

std::int64_t ChainCode::blocks() const {
  if (elements == 0) return 0;
  const auto last = static_cast<std::size_t>(axes - 1);
  std::int64_t count = pieces(extents[last] + lead, columns) * pieces(extents[last - 1], rows);
  for (std::size_t axis = 0; axis + 2 < static_cast<std::size_t>(axes); ++axis) count *= extents[axis];
  return count;
}

ChainBlock block_at(const ChainCode& code, std::int64_t index) {
  ChainBlock block;
  const auto last = static_cast<std::size_t>(code.axes - 1);
  const std::int64_t width = code.extents[last], height = code.extents[last - 1];
  const std::int64_t across = pieces(width + code.lead, code.columns), down = pieces(height, code.rows);
  const std::int64_t column = index % across * code.columns - code.lead;
  index /= across;
  block.at[last - 1] = index % down * code.rows;
  index /= down;
  block.at[last] = std::max<std::int64_t>(column, 0);
  block.rows = std::min<std::int64_t>(code.rows, height - block.at[last - 1]);
  block.columns = std::min(column + code.columns, width) - block.at[last];
  for (std::size_t axis = last - 1; axis-- > 0; index /= code.extents[axis])
    block.at[axis] = index % code.extents[axis];
  return block;
}

std::int64_t chain_scratch_floats(const ChainCode& code) {
  return static_cast<std::int64_t>(std::max(code.slots, 1)) *
         (static_cast<std::int64_t>(code.rows) * code.columns + 16);
}

}  // namespace ridge::kernels

// Work from the notation alone. A contraction multiplies and adds once for every combination of its dimensions:
//   bf16[B, D] * bf16[D, F] -> bf16[B, F]: 2*B*D*F FLOPs; the 2*D-1 operations that an element really takes are 2*D
//   here,
// as everywhere in the field. An expression is applied to every element of its result, so an operand that is broadcast
// costs its operations for each element and its bytes once; what stands below a sum is applied to every element that is
// summed, once for each sum and not for each element of the result.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "ridge/program/sharding.h"
#include "ridge/roofline/masks.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/routines/routine_work.h"
#include "ridge/roofline/sizes/parts.h"

namespace ridge {
namespace {

std::int64_t devices_of(const std::string& mesh, const Bindings& sizes) {
  std::int64_t out = 1;
  for (const char letter : mesh)
    if (const auto size = sizes.find(std::string(1, letter)); size != sizes.end()) out *= size->second;
  return out;
}

std::string part_name(const std::string& dim, std::int64_t parts) { return fmt::format("ceil({}/{})", dim, parts); }

// The largest part of an axis that does not fall into equal parts, by its name in formulas. None: it does, or it has no
// value.
std::optional<std::pair<std::string, std::int64_t>> largest_part(const Axis& axis, const Bindings& sizes,
                                                                 std::int64_t parts) {
  const auto size = sizes.find(axis.dim);
  if (parts <= 1 || (axis.named() && size == sizes.end())) return std::nullopt;
  const std::int64_t whole = axis.named() ? size->second : axis.literal;
  if (whole % parts == 0) return std::nullopt;
  return std::pair(part_name(axis.dim, parts), whole / parts + 1);
}

// What a device holds.
class Counter {
 public:
  // `in_parts`: what a mesh splits is called by the name of its part, whatever its size.
  Counter(const Program& program, const Bindings& sizes, bool in_parts = false)
      : program_(program), sizes_(sizes), in_parts_(in_parts) {}

  Work of(const Statement& statement, const Masks& masks, const MaskedStatement& masked) const {
    const Tensor& result = tensor(statement.result());
    Work work{.name = result.name, .text = statement.text};
    std::visit([&](const auto& op) { count_op(op, masks, masked, work); }, statement.op);
    work.bytes_out = stored_bytes(result);
    if (program_.mesh.empty()) return work;
    const Collectives implied = collectives(program_, statement);
    work.collective = text(implied);
    const auto* expression = std::get_if<Expression>(&statement.op);
    const bool along = expression && expression->nodes.size() > 1 && !expression->routine;
    work.transfers = along ? sent_along(*expression) : transfers(implied, work.bytes_out);
    for (const Transfer& each : work.transfers) work.bytes_sent += sent_on_a_ring(each);
    work.load = work.bytes_sent;
    return work;
  }

  Polynomial stored_bytes(const Tensor& tensor) const { return elements(tensor.axes, element_bytes(tensor)); }
  static Rational element_bytes(const Tensor& tensor) {
    const StoredBits stored = stored_bits(tensor.dtype);
    return Rational(stored.bits, 8 * stored.elements);
  }

  // Of each operand what a statement reads, in bytes.
  std::vector<Read> bytes_read(const Statement& statement, const Masks& masks, const MaskedStatement& masked) const {
    std::vector<Read> out;
    if (!routine_of(statement)) {
      for (const int t : operands(statement)) out.push_back({t, stored_bytes(tensor(t))});
      return out;
    }
    out = routine_work(program_, std::get<Expression>(statement.op), masks, masked, elements_here()).elements_read;
    for (Read& read : out) read.amount = read.amount * element_bytes(tensor(read.tensor));
    return out;
  }

 private:
  DType multiplied(int left, int right) const { return info(wider(tensor(left).dtype, tensor(right).dtype)).element; }

  Elements elements_here() const {
    return {[this](const std::vector<Axis>& axes, Rational each) { return elements(axes, each); },
            [this](const std::vector<Axis>& axes) {
              Rational out = 1;
              for (const Axis& axis : axes) out = out * part(axis.mesh);
              return out;
            }};
  }

  const Tensor& tensor(int i) const { return program_.tensors[static_cast<std::size_t>(i)]; }

  Rational part(const std::string& mesh) const {
    Rational out = 1;
    for (const char letter : mesh)
      if (const auto size = sizes_.find(std::string(1, letter)); size != sizes_.end())
        out = out * Rational(1, size->second);
    return out;
  }

  std::int64_t devices(const std::string& mesh) const { return devices_of(mesh, sizes_); }

  // What is scattered is so before it is all-reduced, and gathered or exchanged after that.
  std::vector<Transfer> transfers(const Collectives& c, const Polynomial& result) const {
    const Polynomial before = result * part(c.all_gather);  // on each device, before it is gathered
    std::vector<Transfer> out;
    const auto add = [&](Collective kind, const std::string& over, const Polynomial& bytes) {
      if (devices(over) > 1) out.push_back({kind, over, devices(over), bytes});
    };
    add(Collective::reduce_scatter, c.reduce_scatter, before * (Rational(1) / part(c.reduce_scatter)));
    add(Collective::all_reduce, c.all_reduce, before);
    add(Collective::all_to_all, c.all_to_all, before);
    add(Collective::all_gather, c.all_gather, result);
    return out;
  }

  std::vector<Transfer> sent_along(const Expression& op) const;
  Spaces spaces_of(const Expression& op) const;

  // times `each`
  Polynomial elements(const std::vector<Axis>& axes, Rational each = 1) const {
    std::vector<std::string> named;
    for (const Axis& axis : axes) {
      const std::int64_t parts = devices(axis.mesh);
      auto largest = largest_part(axis, sizes_, parts);
      if (in_parts_ && axis.named() && parts > 1) largest = std::pair(part_name(axis.dim, parts), std::int64_t{0});
      if (axis.named()) named.push_back(largest ? largest->first : axis.dim);
      if (!axis.named()) each = each * Rational(largest ? largest->second : axis.literal);
      if (!largest) each = each * part(axis.mesh);
    }
    return Polynomial::product(each, std::move(named));
  }

  Polynomial bytes_of_distinct(std::vector<int> tensors) const {
    std::sort(tensors.begin(), tensors.end());
    tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
    Polynomial bytes;
    for (const int t : tensors) bytes += stored_bytes(tensor(t));
    return bytes;
  }

  // elements() of the pairs that the mask lets through; none: the axes are not both there, or one of them is split.
  std::optional<Polynomial> let_through(const std::vector<Axis>& axes, Rational each, const Mask& mask) const {
    std::vector<Axis> others;
    for (const Axis& axis : axes) {
      if (axis.dim != mask.rows && axis.dim != mask.columns)
        others.push_back(axis);
      else if (!axis.mesh.empty())
        return std::nullopt;
    }
    if (others.size() + 2 != axes.size()) return std::nullopt;
    return elements(others, each) * Polynomial::symbol(mask.symbol);
  }

  // Adds `each` for every element, of those inside the mask where there is one.
  void add_flops(Work& work, const std::vector<Axis>& axes, Rational each, const Masks& masks, int mask) const {
    const Polynomial all = elements(axes, each);
    const auto part = mask >= 0 ? let_through(axes, each, masks.all[static_cast<std::size_t>(mask)]) : std::nullopt;
    work.flops += part.value_or(all);
    work.unmasked += all;
  }

  void count_op(const Contraction& op, const Masks& masks, const MaskedStatement& masked, Work& work) const;
  void count_op(const Expression& op, const Masks& masks, const MaskedStatement& masked, Work& work) const;
  void count_routine(const Expression& op, const Masks& masks, const MaskedStatement& masked, Work& work) const;

  const Program& program_;
  const Bindings& sizes_;
  bool in_parts_;
};

// A product is computed before its addends are scattered, so each device's share is that of its operands.
void Counter::count_op(const Contraction& op, const Masks& masks, const MaskedStatement& masked, Work& work) const {
  std::vector<Axis> all;
  for (const Axis& axis : tensor(op.left).axes)
    if (!is_group(op, op.left, axis)) all.push_back(axis);
  for (const Axis& axis : tensor(op.right).axes)
    if (!is_group(op, op.right, axis) && std::find(all.begin(), all.end(), axis) == all.end()) all.push_back(axis);
  work.contraction = !op.contracted.empty() || op.literal_contracted != 1;
  if (work.contraction) work.math = multiplied(op.left, op.right);
  add_flops(work, all, work.contraction ? 2 : 1, masks, masked.product);
  work.bytes_in = bytes_of_distinct({op.left, op.right});
}

// What a node costs for each element of the space in which it works: that of its argument, where it runs along
// dimensions. softmax: maximum, difference, power, sum, quotient; rmsnorm: square, sum, product; layernorm: sum,
// difference, square, sum, product. What is done once a row only (a quotient, a root) is not counted.
std::int64_t operations(const Node& node) { return node.repeat * std::int64_t{row(node.function).flops}; }

// How often each row's parts are brought together: softmax's maximum and sum, layernorm's mean and mean square.
std::int64_t reductions(Function function) { return row(function).reductions; }

// With their parts on a device: index(T) counts along what it counts, as that lies.
Spaces Counter::spaces_of(const Expression& op) const {
  Spaces found = spaces(program_.tensors, op.nodes);
  if (program_.mesh.empty()) return found;
  for (std::vector<Axis>& axes : found.axes)
    for (Axis& axis : axes) axis.mesh = split_over(program_, op, axis);
  return found;
}

// Where a function runs along what is split, an all-reduce of a number in f32 for each row of a device.
std::vector<Transfer> Counter::sent_along(const Expression& op) const {
  const Spaces found = spaces_of(op);
  std::vector<Transfer> out;
  for (const Node& node : op.nodes) {
    if (node.kind != Node::Kind::along) continue;
    std::string letters;
    for (const Axis& axis : node.over) letters += split_over(program_, op, axis);
    std::vector<Axis> rows = found.axes[found.of[node.arguments[0]]];
    std::erase_if(rows,
                  [&](const Axis& a) { return std::find(node.over.begin(), node.over.end(), a) != node.over.end(); });
    if (devices(letters) > 1)
      out.push_back(
          {Collective::all_reduce, letters, devices(letters), elements(rows, Rational(4 * reductions(node.function)))});
  }
  return out;
}

void Counter::count_routine(const Expression& op, const Masks& masks, const MaskedStatement& masked, Work& work) const {
  const RoutineWork found = routine_work(program_, op, masks, masked, elements_here());
  work.flops = found.flops;
  work.unmasked = found.unmasked;
  work.contraction = found.contraction;
  const std::vector<int> in = operands_of(op);
  if (work.contraction) work.math = multiplied(in[0], in[1]);
  std::map<int, std::vector<Read>> reads;
  for (const Read& read : found.elements_read) reads[read.tensor].push_back(read);
  for (const auto& [t, all] : reads)
    work.bytes_in += together(all, elements(tensor(t).axes)) * element_bytes(tensor(t));
}

// A call whose arguments are all numbers is a constant, computed once, and costs nothing.
void Counter::count_op(const Expression& op, const Masks& masks, const MaskedStatement& masked, Work& work) const {
  if (op.routine && op.routine->word != Word::scan) return count_routine(op, masks, masked, work);
  const Spaces found = spaces_of(op);
  std::vector<int> operands;
  std::vector<bool> varies;
  std::map<std::pair<int, int>, std::int64_t> counts;  // operations for each element of a space inside a mask
  for (std::size_t i = 0; i < op.nodes.size(); ++i) {
    const Node& node = op.nodes[i];
    if (node.kind == Node::Kind::tensor) operands.push_back(node.tensor);
    if (node.kind == Node::Kind::along) work.along = true;
    varies.push_back(node.kind == Node::Kind::tensor || node.kind == Node::Kind::index ||
                     node.kind == Node::Kind::sequence || node.kind == Node::Kind::previous ||
                     std::any_of(node.arguments.begin(), node.arguments.end(), [&](int a) { return varies[a]; }));
    if (node.arguments.empty() || !varies.back() || node.kind == Node::Kind::routine) continue;
    const int space = node.kind == Node::Kind::along ? found.of[node.arguments[0]] : found.of[i];
    counts[{space, masked.nodes.empty() ? -1 : masked.nodes[i]}] += operations(node);
  }
  for (const auto& [where, count] : counts)
    add_flops(work, where.first == 0 ? tensor(op.result).axes : found.axes[static_cast<std::size_t>(where.first)],
              count, masks, where.second);
  work.bytes_in = bytes_of_distinct(operands);
}

}  // namespace

Polynomial stored_bytes(const Program& program, const Tensor& tensor, const Bindings& sizes) {
  return Counter(program, sizes).stored_bytes(tensor);
}

Bindings largest_parts(const Program& program, const Bindings& sizes) {
  Bindings out;
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes)
      if (axis.named() && !axis.mesh.empty())
        if (const auto part = largest_part(axis, sizes, devices_of(axis.mesh, sizes))) out.insert(*part);
  return out;
}

std::vector<PartOf> all_parts(const Program& program, const Bindings& mesh) {
  std::vector<PartOf> out;
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes) {
      const std::int64_t parts = devices_of(axis.mesh, mesh);
      const std::string name = part_name(axis.dim, parts);
      const auto known = [&](const PartOf& part) { return part.name == name; };
      if (axis.named() && parts > 1 && std::none_of(out.begin(), out.end(), known))
        out.push_back({name, axis.dim, parts});
    }
  return out;
}

namespace {

std::vector<Work> counted(const Program& program, const Counter& counter) {
  const Masks masks = masks_of(program);
  std::vector<Work> all;
  for (std::size_t i = 0; i < program.statements.size(); ++i) {
    all.push_back(counter.of(program.statements[i], masks, masks.statements[i]));
    if (all.back().unmasked == all.back().flops) all.back().unmasked = Polynomial();
  }
  return all;
}

}  // namespace

std::vector<Work> count(const Program& program, const Bindings& sizes) {
  return counted(program, Counter(program, sizes));
}

std::vector<Work> count_in_parts(const Program& program, const Bindings& mesh) {
  return counted(program, Counter(program, mesh, true));
}

Polynomial stored_bytes_in_parts(const Program& program, const Tensor& tensor, const Bindings& mesh) {
  return Counter(program, mesh, true).stored_bytes(tensor);
}

namespace {

// Tensors that statements beside these `members` want: of kernels, those that they do not make for themselves.
void add_wanted(const Program& program, const std::vector<bool>& member, const std::vector<std::vector<int>>& kernels,
                std::vector<bool>& wanted) {
  std::vector<bool> in_kernel(member.size());
  const auto want = [&](std::size_t s, const std::vector<bool>& made) {
    for (const int operand : operands(program.statements[s]))
      if (!made[static_cast<std::size_t>(operand)]) wanted[static_cast<std::size_t>(operand)] = true;
  };
  std::vector<bool> made(program.tensors.size());
  for (const std::vector<int>& kernel : kernels) {
    const auto result = [&](int s) {
      return static_cast<std::size_t>(program.statements[static_cast<std::size_t>(s)].result());
    };
    for (const int s : kernel) made[result(s)] = true;
    for (const int s : kernel) {
      in_kernel[static_cast<std::size_t>(s)] = true;
      if (!member[static_cast<std::size_t>(s)]) want(static_cast<std::size_t>(s), made);
    }
    for (const int s : kernel) made[result(s)] = false;
  }
  for (std::size_t s = 0; s < member.size(); ++s)
    if (!member[s] && !in_kernel[s]) want(s, made);
}

}  // namespace

Moved moved_by(const Program& program, const std::vector<int>& statements, const std::vector<int>& stored,
               const std::vector<std::vector<int>>& kernels) {
  std::vector<bool> member(program.statements.size()), read(program.tensors.size()), made(read), wanted(read);
  for (const int t : stored) wanted[static_cast<std::size_t>(t)] = true;
  for (const int s : statements) member[static_cast<std::size_t>(s)] = true;
  for (std::size_t s = 0; s < member.size(); ++s) {
    if (!member[s]) continue;
    for (const int operand : operands(program.statements[s])) read[static_cast<std::size_t>(operand)] = true;
    made[static_cast<std::size_t>(program.statements[s].result())] = true;
  }
  add_wanted(program, member, kernels, wanted);
  Moved out;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    if (read[i] && !made[i]) out.read.push_back(static_cast<int>(i));
    if (made[i] && (wanted[i] || program.tensors[i].role == Role::output)) out.written.push_back(static_cast<int>(i));
  }
  return out;
}

Work count_fused(const Program& program, const std::vector<Work>& ops, const Bindings& sizes,
                 const std::vector<int>& statements, const std::vector<int>& stored,
                 const std::vector<std::vector<int>>& kernels) {
  const Counter counter(program, sizes);
  Work work{.name = "fused"};
  std::vector<std::vector<Read>> read(program.tensors.size());
  const bool any = std::any_of(program.statements.begin(), program.statements.end(), routine_of);
  const Masks masks = any ? masks_of(program) : Masks{{}, std::vector<MaskedStatement>(program.statements.size())};
  for (const int s : statements) {
    const auto at = static_cast<std::size_t>(s);
    for (Read& each : counter.bytes_read(program.statements[at], masks, masks.statements[at]))
      read[static_cast<std::size_t>(each.tensor)].push_back(std::move(each));
    const Work& op = ops[at];
    work.flops += op.flops;
    work.unmasked += every_flop(op);
    work.transfers.insert(work.transfers.end(), op.transfers.begin(), op.transfers.end());
    work.bytes_sent += op.bytes_sent;
    work.load += op.load;
  }
  const Moved moved = moved_by(program, statements, stored, kernels);
  for (const int t : moved.read) {
    const auto at = static_cast<std::size_t>(t);
    work.bytes_in += together(read[at], counter.stored_bytes(program.tensors[at]));
  }
  for (const int t : moved.written)
    work.bytes_out += counter.stored_bytes(program.tensors[static_cast<std::size_t>(t)]);
  if (work.unmasked == work.flops) work.unmasked = Polynomial();
  return work;
}

Work count_fused(const Program& program, const std::vector<Work>& ops, const Bindings& sizes) {
  std::vector<int> all(program.statements.size());
  std::iota(all.begin(), all.end(), 0);
  return count_fused(program, ops, sizes, all);
}

}  // namespace ridge

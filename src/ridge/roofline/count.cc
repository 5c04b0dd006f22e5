// Counts work from the notation alone. A contraction multiplies and adds once for every combination of its dimensions:
// bf16[B, D] * bf16[D, F] -> bf16[B, F] takes 2*B*D*F FLOPs. An element takes 2*D - 1 operations, which count as 2*D by
// the usual convention. An expression is applied to every element of its result, so a broadcast operand costs its
// operations per element and its bytes once. The operand of a sum is computed for every element that is summed, once
// per sum and not per element of the result.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "ridge/base/contains.h"
#include "ridge/program/sharding.h"
#include "ridge/roofline/masks.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/routines/routine_work.h"
#include "ridge/roofline/sizes/moved_tensors.h"

namespace ridge {
namespace {

std::int64_t devices_of(const std::string& mesh, const Bindings& sizes) {
  std::int64_t out = 1;
  for (const char letter : mesh)
    if (const auto size = sizes.find(std::string(1, letter)); size != sizes.end()) out *= size->second;
  return out;
}

std::string shard_symbol(const std::string& dim, std::int64_t parts) { return fmt::format("ceil({}/{})", dim, parts); }

// Returns symbol and size of the largest shard of an axis, or nullopt if the shards are equal or the axis has no value.
std::optional<std::pair<std::string, std::int64_t>> largest_shard(const Axis& axis, const Bindings& sizes,
                                                                  std::int64_t parts) {
  const auto size = sizes.find(axis.dim);
  if (parts <= 1 || (axis.is_named() && size == sizes.end())) return std::nullopt;
  const std::int64_t size_value = axis.is_named() ? size->second : axis.literal;
  if (size_value % parts == 0) return std::nullopt;
  return std::pair(shard_symbol(axis.dim, parts), size_value / parts + 1);
}

// Counts the work and the bytes of one device.
class WorkCounter {
 public:
  // With `shard_symbols`, sizes that a mesh splits are named by the symbol of their largest shard, whatever their
  // value.
  WorkCounter(const Program& program, const Bindings& sizes, bool shard_symbols = false)
      : program_(program), sizes_(sizes), shard_symbols_(shard_symbols) {}

  Work count_statement(const Statement& statement, const ProgramMasks& masks, const StatementMasks& masked) const {
    const Tensor& result = tensor(statement.result());
    Work work{.name = result.name, .text = statement.text, .math = pointwise_dtype(statement)};
    std::visit([&](const auto& op) { count_op(op, masks, masked, work); }, statement.op);
    work.bytes_in += rows_added_in_place(statement);
    work.bytes_out = bytes_written(statement);
    if (program_.mesh.empty()) return work;
    const Collectives implied = implied_collectives(program_, statement);
    work.collective = format_collectives(implied);
    const auto* expression = std::get_if<Expression>(&statement.op);
    const bool along = expression && expression->nodes.size() > 1 && !expression->routine;
    work.transfers = along ? reduction_transfers(*expression) : list_transfers(implied, work.bytes_out);
    for (const Transfer& each : work.transfers) work.bytes_sent += bytes_sent_on_ring(each);
    work.link_load = work.bytes_sent;
    return work;
  }

  Polynomial stored_bytes(const Tensor& tensor) const { return count_elements(tensor.axes, element_bytes(tensor)); }
  static Rational element_bytes(const Tensor& tensor) {
    const ScaleBlockBits stored = scale_block_bits(tensor.dtype);
    return Rational(stored.bits, 8 * stored.elements);
  }

  // Returns the bytes of the rows that a scatter adds to an input that its result replaces; 0 for other statements.
  Polynomial rows_added_in_place(const Statement& statement) const {
    const Routine* const routine = routine_of(statement);
    const Tensor& result = tensor(statement.result());
    if (!routine || routine->kind != RoutineKind::scatter || result.replaced < 0) return {};
    const int rows = expression_operands(std::get<Expression>(statement.op)).front();
    return count_elements(tensor(rows).axes, element_bytes(result));
  }
  Polynomial bytes_written(const Statement& statement) const {
    const Polynomial rows = rows_added_in_place(statement);
    return rows.is_zero() ? stored_bytes(tensor(statement.result())) : rows;
  }

 private:
  DType pointwise_dtype(const Statement& statement) const {
    bool is_double = tensor(statement.result()).dtype == DType::f64;
    for (const int t : statement_operands(statement)) is_double = is_double || tensor(t).dtype == DType::f64;
    return is_double ? DType::f64 : DType::f32;
  }
  DType product_dtype(int left, int right) const {
    return dtype_info(wider_dtype(tensor(left).dtype, tensor(right).dtype)).element;
  }

  ElementCounter make_element_counter() const {
    return [this](const std::vector<Axis>& axes, Rational each) { return count_elements(axes, each); };
  }

  const Tensor& tensor(int i) const { return program_.tensors[i]; }

  Rational shard_fraction(const std::string& mesh) const {
    Rational out = 1;
    for (const char letter : mesh)
      if (const auto size = sizes_.find(std::string(1, letter)); size != sizes_.end())
        out = out * Rational(1, size->second);
    return out;
  }

  std::int64_t devices_along(const std::string& mesh) const { return devices_of(mesh, sizes_); }

  // Reduce-scatters run before all-reduces; all-to-alls and all-gathers run after them.
  std::vector<Transfer> list_transfers(const Collectives& c, const Polynomial& result) const {
    const Polynomial before = result * shard_fraction(c.all_gather);  // Bytes on each device, before the all-gather
    std::vector<Transfer> out;
    const auto add = [&](Collective kind, const std::string& over, const Polynomial& bytes) {
      if (devices_along(over) > 1) out.push_back({kind, over, devices_along(over), bytes});
    };
    add(Collective::reduce_scatter, c.reduce_scatter, before * (Rational(1) / shard_fraction(c.reduce_scatter)));
    add(Collective::all_reduce, c.all_reduce, before);
    add(Collective::all_to_all, c.all_to_all, before);
    add(Collective::all_gather, c.all_gather, result);
    return out;
  }

  std::vector<Transfer> reduction_transfers(const Expression& op) const;

  // Returns the number of elements on one device times `each`.
  Polynomial count_elements(const std::vector<Axis>& axes, Rational each = 1) const {
    std::vector<std::string> named;
    for (const Axis& axis : axes) {
      const std::int64_t parts = devices_along(axis.mesh);
      auto largest = largest_shard(axis, sizes_, parts);
      if (shard_symbols_ && axis.is_named() && parts > 1)
        largest = std::pair(shard_symbol(axis.dim, parts), std::int64_t{0});
      if (axis.is_named()) named.push_back(largest ? largest->first : axis.dim);
      if (!axis.is_named()) each = each * Rational(largest ? largest->second : axis.literal);
      if (!largest) each = each * shard_fraction(axis.mesh);
    }
    return Polynomial::make_term(each, std::move(named));
  }

  // Adds the bytes that a statement reads of its operands, each once; of an input only what a mask leaves.
  void add_reads(Work& work, std::vector<int> tensors, const ProgramMasks& masks, const StatementMasks& masked) const {
    std::sort(tensors.begin(), tensors.end());
    tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
    for (const int t : tensors) {
      const auto mask = masked.reads.find(t);
      work.reads.push_back(
          {t, mask == masked.reads.end() ? stored_bytes(tensor(t)) : count_unmasked_bytes(t, masks.all[mask->second])});
      add_read_by_all(work.reads.back(), masks);
      work.bytes_in += work.reads.back().amount;
    }
  }

  Polynomial count_unmasked_bytes(int t, const IndexMask& mask) const {
    return count_unmasked_elements(tensor(t).axes, element_bytes(tensor(t)), mask);
  }

  void add_read_by_all(TensorRead& read, const ProgramMasks& masks) const {
    if (const auto mask = masks.read_by_all.find(read.tensor); mask != masks.read_by_all.end())
      read.by_all_readers = count_unmasked_bytes(read.tensor, masks.all[mask->second]);
  }

  // Returns the elements inside a mask.
  Polynomial count_unmasked_elements(const std::vector<Axis>& axes, Rational each, const IndexMask& mask) const {
    const std::vector<std::string> dims = counted_dims(mask);
    std::vector<Axis> others;
    for (const Axis& axis : axes)
      if (!contains(dims, axis.dim)) others.push_back(axis);
    return count_elements(others, each) * Polynomial::make_symbol(mask.symbol);
  }

  // Adds `each` calls per element, or per element inside the mask if there is one.
  void add_function_calls(Work& work, const std::vector<Axis>& axes, Function function, std::int64_t each,
                          const ProgramMasks& masks, int mask) const {
    add_calls(work.calls, {{function, mask >= 0 ? count_unmasked_elements(axes, each, masks.all[mask])
                                                : count_elements(axes, each)}});
  }

  // Adds `each` FLOPs per element, or per element inside the mask if there is one.
  void add_flops(Work& work, const std::vector<Axis>& axes, Rational each, const ProgramMasks& masks, int mask) const {
    const Polynomial all = count_elements(axes, each);
    work.flops += mask >= 0 ? count_unmasked_elements(axes, each, masks.all[mask]) : all;
    work.flops_without_masks += all;
    if (mask >= 0) work.has_split_mask |= masks.all[mask].region && !masks.all[mask].region->mesh.empty();
  }

  void count_op(const Contraction& op, const ProgramMasks& masks, const StatementMasks& masked, Work& work) const;
  void count_op(const Expression& op, const ProgramMasks& masks, const StatementMasks& masked, Work& work) const;
  std::vector<std::vector<std::string>> find_varying_dims(const Expression& op) const;
  void count_calls(const Expression& op, const IndexSpaces& found, const StatementMasks& masked,
                   const ProgramMasks& masks, Work& work) const;
  void count_routine(const Expression& op, const ProgramMasks& masks, const StatementMasks& masked, Work& work) const;

  const Program& program_;
  const Bindings& sizes_;
  bool shard_symbols_;
};

// A product is computed before its partial sums are scattered, so the operands determine each device's part.
void WorkCounter::count_op(const Contraction& op, const ProgramMasks& masks, const StatementMasks& masked,
                           Work& work) const {
  work.contraction = !op.contracted.empty() || op.literal_contracted != 1;
  if (work.contraction) work.math = product_dtype(op.left, op.right);
  add_flops(work, list_product_axes(program_, op), work.contraction ? 2 : 1, masks, masked.product);
  add_reads(work, {op.left, op.right}, masks, masked);
}

// Returns the FLOPs of a node per element of its index space, which is its argument's if it runs along dimensions.
// softmax: maximum, difference, power, sum, quotient; rmsnorm: square, sum, product; layernorm: sum, difference,
// square, sum, product. Operations that run once per row (a quotient, a root) are not counted.
std::int64_t flops_per_element(const Node& node) {
  return node.repeat * std::int64_t{function_info(node.function).flops};
}

// Returns the function whose time a node takes: an exp for each element of a softmax.
Function called_function(const Node& node) {
  return node.function == Function::softmax ? Function::exp : node.function;
}

// Returns the number of values per row that shards combine: softmax's maximum and sum, layernorm's mean and mean
// square.
std::int64_t count_reductions(Function function) { return function_info(function).reductions; }

// A function along a split dimension needs an all-reduce of f32 values for each row of a device.
std::vector<Transfer> WorkCounter::reduction_transfers(const Expression& op) const {
  const IndexSpaces found = find_sharded_spaces(program_, op);
  std::vector<Transfer> out;
  for (const Node& node : op.nodes) {
    if (node.kind != Node::Kind::along_dims) continue;
    std::string letters;
    for (const Axis& axis : node.over) letters += find_mesh_axes(program_, op, axis);
    std::vector<Axis> rows = found.axes[found.space_of_node[node.arguments[0]]];
    std::erase_if(rows, [&](const Axis& a) { return contains(node.over, a); });
    if (devices_along(letters) > 1)
      out.push_back({Collective::all_reduce, letters, devices_along(letters),
                     count_elements(rows, Rational(4 * count_reductions(node.function)))});
  }
  return out;
}

void WorkCounter::count_routine(const Expression& op, const ProgramMasks& masks, const StatementMasks& masked,
                                Work& work) const {
  const RoutineWork found = count_routine_work(program_, op, masks, masked, make_element_counter());
  work.flops = found.flops;
  work.flops_without_masks = found.flops_without_masks;
  work.contraction = found.contraction;
  const std::vector<int> in = expression_operands(op);
  if (work.contraction) work.math = product_dtype(in[0], in[1]);
  std::map<int, std::vector<TensorRead>> reads;
  for (TensorRead read : found.elements_read) {
    read.amount = read.amount * element_bytes(tensor(read.tensor));
    add_read_by_all(read, masks);
    reads[read.tensor].push_back(read);
    work.reads.push_back(std::move(read));
  }
  for (const auto& [t, all] : reads) work.bytes_in += merge_reads(all, stored_bytes(tensor(t)));
}

// Returns the dimensions along which the value of each node varies; what a scan carries varies along all.
std::vector<std::vector<std::string>> WorkCounter::find_varying_dims(const Expression& op) const {
  std::vector<std::vector<std::string>> out(op.nodes.size());
  for (std::size_t i = 0; i < op.nodes.size(); ++i) {
    const Node& node = op.nodes[i];
    const bool reduces = node.kind == Node::Kind::along_dims && is_reducing_function(node.function);
    for (const int argument : node.arguments)
      for (const std::string& dim : out[argument])
        if (!contains(out[i], dim) && !(reduces && has_dim(node.over, dim))) out[i].push_back(dim);
    if (node.kind == Node::Kind::index || node.kind == Node::Kind::sequence) out[i].push_back(node.over.front().dim);
    if (node.kind != Node::Kind::tensor && node.kind != Node::Kind::previous) continue;
    for (const Axis& axis : tensor(node.kind == Node::Kind::tensor ? node.tensor : op.result).axes)
      if (!contains(out[i], axis.dim)) out[i].push_back(axis.dim);
  }
  return out;
}

// Adds the calls of functions with a cost. A kernel can make a call once for all elements with the same arguments, and
// multiply by the reciprocal of a divisor that several elements share: x / s with x[N, D] and s[N] takes N divisions.
void WorkCounter::count_calls(const Expression& op, const IndexSpaces& found, const StatementMasks& masked,
                              const ProgramMasks& masks, Work& work) const {
  const std::vector<std::vector<std::string>> dims = find_varying_dims(op);
  for (std::size_t i = 0; i < op.nodes.size(); ++i) {
    const Node& node = op.nodes[i];
    const Function function = called_function(node);
    const bool is_call = node.kind == Node::Kind::call || node.kind == Node::Kind::along_dims;
    if (!is_call || node.arguments.empty() || !function_info(function).has_cost) continue;
    std::vector<std::string> varying;
    for (const int argument : node.arguments)
      if (function != Function::divide || argument == node.arguments[1])
        varying.insert(varying.end(), dims[argument].begin(), dims[argument].end());
    if (varying.empty()) continue;  // All arguments, or the divisor, are the same for all elements
    const bool is_along = node.kind == Node::Kind::along_dims;
    const int space = found.space_of_node[is_along ? node.arguments[0] : static_cast<int>(i)];
    const std::vector<Axis>& all = space == 0 ? tensor(op.result).axes : found.axes[space];
    std::vector<Axis> axes;
    for (const Axis& axis : all)
      if (contains(varying, axis.dim)) axes.push_back(axis);
    const int found_mask = masked.nodes.empty() ? -1 : masked.nodes[i];
    const auto has_axis = [&](const std::string& dim) { return has_dim(axes, dim); };
    const bool is_masked = found_mask >= 0 && std::ranges::all_of(counted_dims(masks.all[found_mask]), has_axis);
    const int mask = is_masked ? found_mask : -1;
    add_function_calls(work, axes, function, node.repeat, masks, mask);
  }
}

// A call whose arguments are all numbers is a constant, computed once, and costs nothing.
void WorkCounter::count_op(const Expression& op, const ProgramMasks& masks, const StatementMasks& masked,
                           Work& work) const {
  if (op.routine && op.routine->kind != RoutineKind::scan) return count_routine(op, masks, masked, work);
  const IndexSpaces found = find_sharded_spaces(program_, op);
  std::vector<int> operands;
  std::vector<bool> varies;
  std::map<std::pair<int, int>, std::int64_t> counts;  // FLOPs per element, by space and mask
  const auto axes_of = [&](int space) -> const std::vector<Axis>& {
    return space == 0 ? tensor(op.result).axes : found.axes[space];
  };
  for (std::size_t i = 0; i < op.nodes.size(); ++i) {
    const Node& node = op.nodes[i];
    if (node.kind == Node::Kind::tensor) operands.push_back(node.tensor);
    if (node.kind == Node::Kind::along_dims) work.has_along_function = true;
    varies.push_back(node.kind == Node::Kind::tensor || node.kind == Node::Kind::index ||
                     node.kind == Node::Kind::sequence || node.kind == Node::Kind::previous ||
                     std::any_of(node.arguments.begin(), node.arguments.end(), [&](int a) { return varies[a]; }));
    if (node.arguments.empty() || !varies.back() || node.kind == Node::Kind::routine) continue;
    const int space =
        node.kind == Node::Kind::along_dims ? found.space_of_node[node.arguments[0]] : found.space_of_node[i];
    const int mask = masked.nodes.empty() ? -1 : masked.nodes[i];
    counts[{space, mask}] += flops_per_element(node);
  }
  count_calls(op, found, masked, masks, work);
  for (const auto& [space_and_mask, count] : counts)
    add_flops(work, axes_of(space_and_mask.first), count, masks, space_and_mask.second);
  add_reads(work, operands, masks, masked);
}

}  // namespace

void add_calls(std::vector<FunctionCalls>& calls, const std::vector<FunctionCalls>& more) {
  for (const FunctionCalls& each : more) {
    const auto same = std::ranges::find_if(calls, [&](const FunctionCalls& c) { return c.function == each.function; });
    if (same == calls.end())
      calls.push_back(each);
    else
      same->count += each.count;
  }
}

Polynomial stored_bytes(const Program& program, const Tensor& tensor, const Bindings& sizes) {
  return WorkCounter(program, sizes).stored_bytes(tensor);
}

Bindings largest_shards(const Program& program, const Bindings& sizes) {
  Bindings out;
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes)
      if (axis.is_named() && !axis.mesh.empty())
        if (const auto part = largest_shard(axis, sizes, devices_of(axis.mesh, sizes))) out.insert(*part);
  return out;
}

std::vector<DimShard> list_shards(const Program& program, const Bindings& mesh) {
  std::vector<DimShard> out;
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes) {
      const std::int64_t parts = devices_of(axis.mesh, mesh);
      const std::string name = shard_symbol(axis.dim, parts);
      const auto known = [&](const DimShard& part) { return part.name == name; };
      if (axis.is_named() && parts > 1 && std::none_of(out.begin(), out.end(), known))
        out.push_back({name, axis.dim, parts});
    }
  return out;
}

namespace {

std::vector<Work> count_statements(const Program& program, const WorkCounter& counter, const ProgramMasks& masks) {
  std::vector<Work> all;
  for (std::size_t i = 0; i < program.statements.size(); ++i) {
    all.push_back(counter.count_statement(program.statements[i], masks, masks.statements[i]));
    if (all.back().flops_without_masks == all.back().flops) all.back().flops_without_masks = Polynomial();
  }
  return all;
}

}  // namespace

std::vector<Work> count_work(const Program& program, const Bindings& sizes) {
  return count_work(program, sizes, find_masks(program));
}

std::vector<Work> count_work(const Program& program, const Bindings& sizes, const ProgramMasks& masks) {
  return count_statements(program, WorkCounter(program, sizes), masks);
}

std::vector<Work> count_work_with_shard_symbols(const Program& program, const Bindings& mesh) {
  return count_statements(program, WorkCounter(program, mesh, true), find_masks(program));
}

Polynomial stored_bytes_with_shard_symbols(const Program& program, const Tensor& tensor, const Bindings& mesh) {
  return WorkCounter(program, mesh, true).stored_bytes(tensor);
}

namespace {

// Marks tensors that statements outside `member` read, other than those that their own kernel computes.
void add_external_reads(const Program& program, const std::vector<bool>& member,
                        const std::vector<std::vector<int>>& kernels, std::vector<bool>& read_outside) {
  std::vector<bool> in_kernel(member.size());
  const auto mark_reads = [&](std::size_t s, const std::vector<bool>& produced) {
    for (const int operand : statement_operands(program.statements[s]))
      if (!produced[operand]) read_outside[operand] = true;
  };
  std::vector<bool> produced(program.tensors.size());
  for (const std::vector<int>& kernel : kernels) {
    const auto result = [&](int s) { return static_cast<std::size_t>(program.statements[s].result()); };
    for (const int s : kernel) produced[result(s)] = true;
    for (const int s : kernel) {
      in_kernel[s] = true;
      if (!member[s]) mark_reads(static_cast<std::size_t>(s), produced);
    }
    for (const int s : kernel) produced[result(s)] = false;
  }
  for (std::size_t s = 0; s < member.size(); ++s)
    if (!member[s] && !in_kernel[s]) mark_reads(s, produced);
}

}  // namespace

bool reads_results(const Program& program) {
  return std::any_of(program.statements.begin(), program.statements.end(), [&](const Statement& statement) {
    const std::vector<int> operands = statement_operands(statement);
    return std::any_of(operands.begin(), operands.end(),
                       [&](int t) { return program.tensors[t].role != TensorRole::input; });
  });
}

MovedTensors list_moved_tensors(const Program& program, const std::vector<int>& statements,
                                const std::vector<int>& stored, const std::vector<std::vector<int>>& kernels) {
  std::vector<bool> member(program.statements.size()), read(program.tensors.size()), produced(read), read_outside(read);
  for (const int t : stored) read_outside[t] = true;
  for (const int s : statements) member[s] = true;
  for (std::size_t s = 0; s < member.size(); ++s) {
    if (!member[s]) continue;
    for (const int operand : statement_operands(program.statements[s])) read[operand] = true;
    produced[program.statements[s].result()] = true;
  }
  add_external_reads(program, member, kernels, read_outside);
  MovedTensors out;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    if (read[i] && !produced[i]) out.read.push_back(static_cast<int>(i));
    if (produced[i] && (read_outside[i] || program.tensors[i].role == TensorRole::output))
      out.written.push_back(static_cast<int>(i));
  }
  return out;
}

bool uses_symbol(const Work& work, const std::string& symbol) {
  const auto in_union = [&](const TensorRead& read) {
    return read.by_all_readers && read.by_all_readers->degree_in(symbol) > 0;
  };
  return work.flops.degree_in(symbol) > 0 || work.bytes_in.degree_in(symbol) > 0 ||
         std::any_of(work.reads.begin(), work.reads.end(), in_union);
}

std::vector<TensorRead> list_reads(const std::vector<Work>& ops, const std::vector<int>& statements, int tensor) {
  std::vector<TensorRead> out;
  for (const int s : statements)
    for (const TensorRead& each : ops[s].reads)
      if (each.tensor == tensor) out.push_back(each);
  return out;
}

Work count_fused(const Program& program, const std::vector<Work>& ops, const Bindings& sizes,
                 const std::vector<int>& statements, const std::vector<int>& stored,
                 const std::vector<std::vector<int>>& kernels) {
  const WorkCounter counter(program, sizes);
  Work work{.name = "fused"};
  for (const int s : statements) {
    const Work& op = ops[s];
    work.flops += op.flops;
    work.flops_without_masks += get_flops_without_masks(op);
    add_calls(work.calls, op.calls);
    work.transfers.insert(work.transfers.end(), op.transfers.begin(), op.transfers.end());
    work.bytes_sent += op.bytes_sent;
    work.link_load += op.link_load;
  }
  const MovedTensors moved = list_moved_tensors(program, statements, stored, kernels);
  for (const int t : moved.read)
    work.bytes_in += merge_reads(list_reads(ops, statements, t), counter.stored_bytes(program.tensors[t]));
  for (const int s : statements) {
    const Statement& statement = program.statements[s];
    work.bytes_in += counter.rows_added_in_place(statement);
    if (contains(moved.written, statement.result())) work.bytes_out += counter.bytes_written(statement);
  }
  if (work.flops_without_masks == work.flops) work.flops_without_masks = Polynomial();
  return work;
}

Work count_fused(const Program& program, const std::vector<Work>& ops, const Bindings& sizes) {
  std::vector<int> all(program.statements.size());
  std::iota(all.begin(), all.end(), 0);
  return count_fused(program, ops, sizes, all);
}

}  // namespace ridge

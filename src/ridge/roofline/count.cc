// Work from the notation alone. A contraction multiplies and adds once for every combination of its dimensions:
//   bf16[B, D] * bf16[D, F] -> bf16[B, F]: 2*B*D*F FLOPs; the 2*D-1 operations that an element really takes are 2*D
//   here,
// as everywhere in the field. An expression is applied to every element of its result, so an operand that is broadcast
// costs its operations for each element and its bytes once; what stands below a sum is applied to every element that is
// summed, once for each sum and not for each element of the result.
#include <algorithm>
#include <numeric>

#include "ridge/program/sharding.h"
#include "ridge/roofline/work.h"

namespace ridge {
namespace {

// What a device holds.
class Counter {
 public:
  Counter(const Program& program, const Bindings& sizes) : program_(program), sizes_(sizes) {}

  Work of(const Statement& statement) const {
    const Tensor& result = tensor(statement.result());
    Work work{.name = result.name, .text = statement.text};
    std::visit([&](const auto& op) { count_op(op, work); }, statement.op);
    work.bytes_out = stored_bytes(result);
    if (program_.mesh.empty()) return work;
    const Collectives implied = collectives(program_, statement);
    work.collective = text(implied);
    const auto* expression = std::get_if<Expression>(&statement.op);
    work.bytes_sent =
        expression && expression->nodes.size() > 1 ? sent_along(*expression) : sent(implied, work.bytes_out);
    return work;
  }

  Polynomial stored_bytes(const Tensor& tensor) const { return elements(tensor.axes, Rational(bits(tensor.dtype), 8)); }

 private:
  const Tensor& tensor(int i) const { return program_.tensors[static_cast<std::size_t>(i)]; }

  Rational part(const std::string& mesh) const {
    Rational out = 1;
    for (const char letter : mesh)
      if (const auto size = sizes_.find(std::string(1, letter)); size != sizes_.end())
        out = out * Rational(1, size->second);
    return out;
  }

  // What is scattered is so before it is all-reduced, and gathered or exchanged after that.
  Polynomial sent(const Collectives& c, const Polynomial& result) const {
    const Rational reduced = part(c.all_reduce), scattered = part(c.reduce_scatter), gathered = part(c.all_gather),
                   exchanged = part(c.all_to_all);
    const Polynomial before = result * gathered;  // on each device, before it is gathered
    return before * ((Rational(1) / scattered - 1) + (Rational(1) - reduced) * 2 +
                     (Rational(1) / exchanged - 1) * Rational(1, 2) + (Rational(1) / gathered - 1));
  }

  Polynomial sent_along(const Expression& op) const;
  Spaces spaces_of(const Expression& op) const;

  // times `each`
  Polynomial elements(const std::vector<Axis>& axes, Rational each = 1) const {
    std::vector<std::string> named;
    for (const Axis& axis : axes) {
      if (axis.named()) named.push_back(axis.dim);
      each = each * (axis.named() ? Rational(1) : Rational(axis.literal)) * part(axis.mesh);
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

  void count_op(const Contraction& op, Work& work) const;
  void count_op(const Expression& op, Work& work) const;

  const Program& program_;
  const Bindings& sizes_;
};

// A product is computed before its addends are scattered, so each device's share is that of its operands.
void Counter::count_op(const Contraction& op, Work& work) const {
  std::vector<Axis> all = tensor(op.left).axes;
  for (const Axis& axis : tensor(op.right).axes)
    if (std::find(all.begin(), all.end(), axis) == all.end()) all.push_back(axis);
  work.contraction = !op.contracted.empty() || op.literal_contracted != 1;
  if (work.contraction) work.math = wider(tensor(op.left).dtype, tensor(op.right).dtype);
  work.flops = elements(all, work.contraction ? 2 : 1);
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
Polynomial Counter::sent_along(const Expression& op) const {
  const Spaces found = spaces_of(op);
  Polynomial bytes;
  for (const Node& node : op.nodes) {
    if (node.kind != Node::Kind::along) continue;
    std::string letters;
    for (const Axis& axis : node.over) letters += split_over(program_, op, axis);
    std::vector<Axis> rows = found.axes[found.of[node.arguments[0]]];
    std::erase_if(rows,
                  [&](const Axis& a) { return std::find(node.over.begin(), node.over.end(), a) != node.over.end(); });
    bytes += elements(rows, (Rational(1) - part(letters)) * Rational(2 * 4 * reductions(node.function)));
  }
  return bytes;
}

// A call whose arguments are all numbers is a constant, computed once, and costs nothing.
void Counter::count_op(const Expression& op, Work& work) const {
  const Spaces found = spaces_of(op);
  std::vector<int> operands;
  std::vector<bool> varies;
  std::vector<std::int64_t> counts(found.axes.size());  // operations for each element of a space
  for (std::size_t i = 0; i < op.nodes.size(); ++i) {
    const Node& node = op.nodes[i];
    if (node.kind == Node::Kind::tensor) operands.push_back(node.tensor);
    varies.push_back(node.kind == Node::Kind::tensor || node.kind == Node::Kind::index ||
                     std::any_of(node.arguments.begin(), node.arguments.end(), [&](int a) { return varies[a]; }));
    if (node.arguments.empty() || !varies.back()) continue;
    const int space = node.kind == Node::Kind::along ? found.of[node.arguments[0]] : found.of[i];
    counts[space] += operations(node);
  }
  work.flops = elements(tensor(op.result).axes, counts[0]);
  for (std::size_t space = 1; space < counts.size(); ++space) work.flops += elements(found.axes[space], counts[space]);
  work.bytes_in = bytes_of_distinct(operands);
}

}  // namespace

std::vector<Work> count(const Program& program, const Bindings& sizes) {
  const Counter counter(program, sizes);
  std::vector<Work> all;
  for (const Statement& statement : program.statements) all.push_back(counter.of(statement));
  return all;
}

Work count_fused(const Program& program, const std::vector<Work>& ops, const Bindings& sizes,
                 const std::vector<int>& statements, const std::vector<int>& stored) {
  const Counter counter(program, sizes);
  Work work{.name = "fused"};
  std::vector<bool> member(program.statements.size()), read(program.tensors.size()), made(read), wanted(read);
  for (const int t : stored) wanted[static_cast<std::size_t>(t)] = true;
  for (const int s : statements) member[static_cast<std::size_t>(s)] = true;
  for (std::size_t s = 0; s < member.size(); ++s) {
    const Statement& statement = program.statements[s];
    for (const int operand : operands(statement)) (member[s] ? read : wanted)[static_cast<std::size_t>(operand)] = true;
    if (!member[s]) continue;
    work.flops += ops[s].flops;
    work.bytes_sent += ops[s].bytes_sent;
    made[static_cast<std::size_t>(statement.result())] = true;
  }
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& tensor = program.tensors[i];
    if (read[i] && !made[i]) work.bytes_in += counter.stored_bytes(tensor);
    if (made[i] && (wanted[i] || tensor.role == Role::output)) work.bytes_out += counter.stored_bytes(tensor);
  }
  return work;
}

Work count_fused(const Program& program, const std::vector<Work>& ops, const Bindings& sizes) {
  std::vector<int> all(program.statements.size());
  std::iota(all.begin(), all.end(), 0);
  return count_fused(program, ops, sizes, all);
}

}  // namespace ridge

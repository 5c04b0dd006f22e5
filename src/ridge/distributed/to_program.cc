// Writes a sharding as a program: tensors get their layouts, each redistribution becomes a statement.
#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/distributed/shard.h"

namespace ridge {
namespace {

class ShardedProgramBuilder {
 public:
  ShardedProgramBuilder(const ShardingCosts& costs, const Sharding& sharding)
      : costs_(costs), sharding_(sharding), out_(costs.program()) {
    for (const auto& [letter, size] : costs.mesh().axes)
      out_.mesh.push_back({.name = std::string(1, letter), .size = size});
    out_.statements.clear();
    out_.stacks.clear();  // a stacked input concatenates tensors, whose layouts may differ
  }

  Program build_program() {
    for (std::size_t t = 0; t < sharding_.layouts.size(); ++t) set_layout(out_.tensors[t], sharding_.layouts[t]);
    for (std::size_t s = 0; s < costs_.program().statements.size(); ++s) add_statement(s);
    sort_tensors();
    for (Dimension& dim : out_.dims)  // dimensions defined by others, such as G = H/8, stay
      if (const auto size = costs_.sizes().find(dim.name);
          size != costs_.sizes().end() && (!dim.value || dim.value->symbols().empty()) && dim.lengths.empty())
        dim.value = Polynomial(size->second);
    out_.text = print_program(out_);
    return std::move(out_);
  }

 private:
  // Sorts the tensors: inputs first, then results in program order, because print() keeps the order of tensors.
  void sort_tensors() {
    std::vector<int> order, new_index(out_.tensors.size());
    for (std::size_t t = 0; t < out_.tensors.size(); ++t)
      if (out_.tensors[t].role == TensorRole::input) order.push_back(static_cast<int>(t));
    for (const Statement& statement : out_.statements) order.push_back(statement.result());
    std::vector<Tensor> tensors;
    for (const int t : order) {
      new_index[t] = static_cast<int>(tensors.size());
      tensors.push_back(out_.tensors[t]);
    }
    out_.tensors = std::move(tensors);
    const auto renumber = [&](int& t) { t = new_index[t]; };
    for (Tensor& tensor : out_.tensors)
      if (tensor.replaced >= 0) renumber(tensor.replaced);
    for (Statement& statement : out_.statements) {
      std::visit([&](auto& op) { renumber(op.result); }, statement.op);
      if (auto* product = std::get_if<Contraction>(&statement.op)) {
        renumber(product->left);
        renumber(product->right);
        if (product->grouped) renumber(product->grouped->tensor);
      } else {
        for (Node& node : std::get<Expression>(statement.op).nodes)
          if (node.kind == Node::Kind::tensor) renumber(node.tensor);
      }
    }
  }

  void add_statement(std::size_t s) {
    const Program& program = costs_.program();
    Statement statement = program.statements[s];
    const Partition& partition = sharding_.partitions[s];
    std::vector<int> visited;
    for (const int t : statement_operands(program.statements[s])) {
      if (contains(visited, t)) continue;
      visited.push_back(t);
      const Layout required = operand_layout(program, program.statements[s], t, partition);
      if (required == sharding_.layouts[t]) continue;
      const int copy = add_tensor_copy(t, required);
      add_copy_statement(t, copy);
      replace_operand(statement, t, copy);
    }
    const int result = statement.result();
    const Layout produced = result_layout(program, program.statements[s], partition);
    if (auto* product = std::get_if<Contraction>(&statement.op)) product->partial = produced.partial_over;
    const Layout& stored = sharding_.layouts[result];
    if (produced == stored || is_reduction_only(produced, stored)) {
      out_.statements.push_back(std::move(statement));
      return;
    }
    const int unreduced = add_tensor_copy(result, produced);
    std::visit([&](auto& op) { op.result = unreduced; }, statement.op);
    out_.statements.push_back(std::move(statement));
    add_copy_statement(unreduced, result);
  }

  // True if only partial sums are reduced; the product's result can declare that without a statement of its own.
  static bool is_reduction_only(const Layout& produced, const Layout& stored) {
    const std::vector<RedistributionStep> all = plan_redistribution(produced, stored);
    return std::all_of(all.begin(), all.end(), [](const RedistributionStep& m) {
      return m.collective == Collective::all_reduce || m.collective == Collective::reduce_scatter;
    });
  }

  int add_tensor_copy(int t, const Layout& layout) {
    Tensor copy = costs_.program().tensors[t];
    const std::string stem = copy.name;
    for (int i = 1;; ++i) {
      copy.name = stem + (i == 1 ? "_moved" : "_moved" + std::to_string(i));
      const auto same = [&](const Tensor& other) { return other.name == copy.name; };
      if (std::none_of(out_.tensors.begin(), out_.tensors.end(), same)) break;
    }
    copy.role = TensorRole::intermediate;
    copy.declared = false;
    copy.declared_use = std::nullopt;
    copy.replaced = -1;
    set_layout(copy, layout);
    out_.tensors.push_back(std::move(copy));
    return static_cast<int>(out_.tensors.size()) - 1;
  }

  void add_copy_statement(int from, int to) {
    Expression copy{.result = to, .nodes = {{.kind = Node::Kind::tensor, .tensor = from}}};
    out_.statements.push_back({.op = std::move(copy), .text = {}, .span = {}});
  }

  static void replace_operand(Statement& statement, int t, int copy) {
    if (auto* product = std::get_if<Contraction>(&statement.op)) {
      if (product->left == t) product->left = copy;
      if (product->right == t) product->right = copy;
      if (product->grouped && product->grouped->tensor == t) product->grouped->tensor = copy;
      return;
    }
    for (Node& node : std::get<Expression>(statement.op).nodes)
      if (node.kind == Node::Kind::tensor && node.tensor == t) node.tensor = copy;
  }

  const ShardingCosts& costs_;
  const Sharding& sharding_;
  Program out_;
};

}  // namespace

Program to_program(const ShardingCosts& costs, const Sharding& sharding) {
  return ShardedProgramBuilder(costs, sharding).build_program();
}

}  // namespace ridge

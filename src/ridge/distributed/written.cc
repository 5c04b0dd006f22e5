// A sharding in the notation: every tensor laid as it is kept, every move a statement of its own.
#include <algorithm>

#include "ridge/distributed/shard.h"

namespace ridge {
namespace {

class Writer {
 public:
  Writer(const Costs& costs, const Sharding& sharding) : costs_(costs), sharding_(sharding), out_(costs.program()) {
    for (const auto& [letter, size] : costs.mesh().axes)
      out_.mesh.push_back({.name = std::string(1, letter), .size = size});
    out_.statements.clear();
    out_.stacks.clear();  // parts may lie differently
  }

  Program program() {
    for (std::size_t t = 0; t < sharding_.kept.size(); ++t) lay(out_.tensors[t], sharding_.kept[t]);
    for (std::size_t s = 0; s < costs_.program().statements.size(); ++s) write(s);
    in_order();
    for (Dimension& dim : out_.dims)  // G = H/8 stays what it is
      if (const auto size = costs_.sizes().find(dim.name);
          size != costs_.sizes().end() && (!dim.value || dim.value->symbols().empty()) && dim.lengths.empty())
        dim.value = Polynomial(size->second);
    out_.text = print(out_);
    return std::move(out_);
  }

 private:
  // Inputs, then results as they are made: print() follows the tensors.
  void in_order() {
    std::vector<int> order, place(out_.tensors.size());
    for (std::size_t t = 0; t < out_.tensors.size(); ++t)
      if (out_.tensors[t].role == Role::input) order.push_back(static_cast<int>(t));
    for (const Statement& statement : out_.statements) order.push_back(statement.result());
    std::vector<Tensor> tensors;
    for (const int t : order) {
      place[static_cast<std::size_t>(t)] = static_cast<int>(tensors.size());
      tensors.push_back(out_.tensors[static_cast<std::size_t>(t)]);
    }
    out_.tensors = std::move(tensors);
    const auto there = [&](int& t) { t = place[static_cast<std::size_t>(t)]; };
    for (Statement& statement : out_.statements) {
      std::visit([&](auto& op) { there(op.result); }, statement.op);
      if (auto* product = std::get_if<Contraction>(&statement.op)) {
        there(product->left);
        there(product->right);
        if (product->grouped) there(product->grouped->tensor);
      } else {
        for (Node& node : std::get<Expression>(statement.op).nodes)
          if (node.kind == Node::Kind::tensor) there(node.tensor);
      }
    }
  }

  void write(std::size_t s) {
    const Program& program = costs_.program();
    Statement statement = program.statements[s];
    const Cuts& cuts = sharding_.cuts[s];
    std::vector<int> done;
    for (const int t : operands(program.statements[s])) {
      if (std::find(done.begin(), done.end(), t) != done.end()) continue;
      done.push_back(t);
      const Layout wanted = operand_under(program, program.statements[s], t, cuts);
      if (wanted == sharding_.kept[static_cast<std::size_t>(t)]) continue;
      const int copy = fresh(t, wanted);
      move(t, copy);
      read_instead(statement, t, copy);
    }
    const int result = statement.result();
    const Layout made = result_under(program, program.statements[s], cuts);
    if (auto* product = std::get_if<Contraction>(&statement.op)) product->partial = made.addends;
    const Layout& kept = sharding_.kept[static_cast<std::size_t>(result)];
    if (made == kept || added_at_once(made, kept)) {
      out_.statements.push_back(std::move(statement));
      return;
    }
    const int before = fresh(result, made);
    std::visit([&](auto& op) { op.result = before; }, statement.op);
    out_.statements.push_back(std::move(statement));
    move(before, result);
  }

  // What a product's result may say itself: its addends are added up or scattered, and nothing else happens.
  static bool added_at_once(const Layout& made, const Layout& kept) {
    const std::vector<Move> all = moves(made, kept);
    return std::all_of(all.begin(), all.end(), [](const Move& m) {
      return m.kind == Collective::all_reduce || m.kind == Collective::reduce_scatter;
    });
  }

  int fresh(int t, const Layout& layout) {
    Tensor copy = costs_.program().tensors[static_cast<std::size_t>(t)];
    const std::string stem = copy.name;
    for (int i = 1;; ++i) {
      copy.name = stem + (i == 1 ? "_moved" : "_moved" + std::to_string(i));
      const auto same = [&](const Tensor& other) { return other.name == copy.name; };
      if (std::none_of(out_.tensors.begin(), out_.tensors.end(), same)) break;
    }
    copy.role = Role::intermediate;
    copy.declared = false;
    lay(copy, layout);
    out_.tensors.push_back(std::move(copy));
    return static_cast<int>(out_.tensors.size()) - 1;
  }

  void move(int from, int to) {
    Expression copy{.result = to, .nodes = {{.kind = Node::Kind::tensor, .tensor = from}}};
    out_.statements.push_back({.op = std::move(copy), .text = {}, .span = {}});
  }

  static void read_instead(Statement& statement, int t, int copy) {
    if (auto* product = std::get_if<Contraction>(&statement.op)) {
      if (product->left == t) product->left = copy;
      if (product->right == t) product->right = copy;
      if (product->grouped && product->grouped->tensor == t) product->grouped->tensor = copy;
      return;
    }
    for (Node& node : std::get<Expression>(statement.op).nodes)
      if (node.kind == Node::Kind::tensor && node.tensor == t) node.tensor = copy;
  }

  const Costs& costs_;
  const Sharding& sharding_;
  Program out_;
};

}  // namespace

Program written(const Costs& costs, const Sharding& sharding) { return Writer(costs, sharding).program(); }

}  // namespace ridge

// The program as text: one form for each thing, so that two programs that mean the same print the same. Dimensions come
// first where one has a value, then a line for each tensor in order: its declaration, or the statement that writes it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/program/parser.h"

namespace ridge {
namespace notation {

std::string text(const Axis& axis) { return axis.named() ? axis.dim : std::to_string(axis.literal); }

std::string text(const std::vector<Axis>& axes) {
  std::string out;
  for (const Axis& a : axes) out += (out.empty() ? "[" : ", ") + text(a);
  return out + "]";
}

namespace {

// How tightly an expression holds together: in a*(b + c) the sum is looser than the product around it.
enum class Strength { sum, product, sign, whole };

struct Piece {
  std::string text;
  Strength strength;
  std::string within(Strength needed) && { return strength >= needed ? std::move(text) : fmt::format("({})", text); }
};

Piece binary(Piece left, const char* sign, Piece right, Strength strength) {
  std::string out = std::move(left).within(strength);  // moved and grown, so that a + b + c + … takes linear time
  out += sign;
  out += std::move(right).within(static_cast<Strength>(static_cast<int>(strength) + 1));
  return {std::move(out), strength};
}

Piece call(const Node& node, std::vector<Piece>& pieces) {
  const auto argument = [&](std::size_t i) { return std::move(pieces[static_cast<std::size_t>(node.arguments[i])]); };
  switch (node.function) {
    case Function::add: return binary(argument(0), " + ", argument(1), Strength::sum);
    case Function::subtract: return binary(argument(0), " - ", argument(1), Strength::sum);
    case Function::multiply: return binary(argument(0), " * ", argument(1), Strength::product);
    case Function::divide: return binary(argument(0), " / ", argument(1), Strength::product);
    case Function::negate: return {fmt::format("-{}", argument(0).within(Strength::sign)), Strength::sign};
    default: break;
  }
  std::string out(function_name(node.function));
  if (node.repeat > 1)
    out = fmt::format("repeat({}, {}, ", node.repeat, out);
  else
    out += "(";
  for (std::size_t i = 0; i < node.arguments.size(); ++i) out.append(i == 0 ? "" : ", ").append(argument(i).text);
  out += ")";
  return {std::move(out), Strength::whole};
}

std::string expression(const Program& program, const std::vector<Node>& nodes) {
  std::vector<Piece> pieces;
  for (const Node& n : nodes) {
    if (n.kind == Node::Kind::tensor)
      pieces.push_back({program.tensors[static_cast<std::size_t>(n.tensor)].name, Strength::whole});
    else if (n.kind == Node::Kind::number)
      pieces.push_back({fmt::format("{}", n.number), std::signbit(n.number) ? Strength::sign : Strength::whole});
    else
      pieces.push_back(call(n, pieces));
  }
  return pieces.empty() ? "" : std::move(pieces.back().text);
}

// Whether the tensors alone would bring the dimensions up in this order.
bool in_order_of_appearance(const Program& program) {
  std::vector<std::string> seen;
  for (const Tensor& t : program.tensors)
    for (const Axis& a : t.axes)
      if (a.named() && std::find(seen.begin(), seen.end(), a.dim) == seen.end()) seen.push_back(a.dim);
  return seen == program.dim_names();
}

std::string dims_line(const Program& program) {
  const bool any =
      std::any_of(program.dims.begin(), program.dims.end(), [](const Dimension& d) { return d.value.has_value(); });
  if (!any && in_order_of_appearance(program)) return {};
  std::string out;
  const std::vector<std::string> order = program.dim_names();
  for (const Dimension& d : program.dims) {
    out += (out.empty() ? "dims " : ", ") + d.name;
    if (d.value) out += " = " + d.value->text(order);
  }
  return out + "\n";
}

}  // namespace
}  // namespace notation

std::string print(const Program& program) {
  std::string out = notation::dims_line(program);
  std::vector<const Statement*> writer(program.tensors.size());
  for (const Statement& s : program.statements) writer[static_cast<std::size_t>(s.result())] = &s;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& t = program.tensors[i];
    out += t.name;
    if (t.declared) out += ": " + std::string(name(t.dtype));
    out += notation::text(t.axes);
    if (writer[i]) {
      if (const auto* c = std::get_if<Contraction>(&writer[i]->op))
        out += fmt::format(" = {} * {}", program.tensors[static_cast<std::size_t>(c->left)].name,
                           program.tensors[static_cast<std::size_t>(c->right)].name);
      else
        out += " = " + notation::expression(program, std::get<Pointwise>(writer[i]->op).nodes);
    }
    out += "\n";
  }
  return out;
}

}  // namespace ridge

// The program as text: one form for each thing, so that two programs that mean the same print the same. Dimensions come
// first where one has a value, then a line for each tensor in order: its declaration, or the statement that writes it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ridge/program/parser.h"

namespace ridge {
namespace notation {

std::string text(const Axis& axis) {
  if (!axis.named()) return std::to_string(axis.literal);
  return axis.mesh.empty() ? axis.dim : axis.dim + "_" + axis.mesh;
}

std::string partial_text(const std::string& partial) { return partial.empty() ? "" : "{U_" + partial + "}"; }

std::string text(const std::vector<Axis>& axes) {
  std::string out;
  for (const Axis& a : axes) out += (out.empty() ? "[" : ", ") + text(a);
  return out + "]";
}

namespace {

// How tightly an expression holds together: in a*(b + c) the sum is looser than the product around it.
enum class Strength { comparison, sum, product, sign, power, whole };

struct Piece {
  std::string text;
  Strength strength;
  std::string within(Strength needed) && { return strength >= needed ? std::move(text) : fmt::format("({})", text); }
};

Piece binary(Piece left, const std::string& sign, Piece right, Strength strength) {
  const auto tighter = static_cast<Strength>(static_cast<int>(strength) + 1);
  // Moved and grown, so that a + b + c + … takes linear time.
  std::string out = std::move(left).within(strength == Strength::comparison ? tighter : strength);
  out += sign;
  out += std::move(right).within(tighter);
  return {std::move(out), strength};
}

Piece call(const Node& node, std::vector<Piece>& pieces) {
  const auto argument = [&](std::size_t i) { return std::move(pieces[static_cast<std::size_t>(node.arguments[i])]); };
  const FunctionRow& f = row(node.function);
  const auto between = [&](Strength strength) {
    return binary(argument(0), fmt::format(" {} ", f.sign), argument(1), strength);
  };
  switch (f.written) {
    case Written::sum: return between(Strength::sum);
    case Written::product: return between(Strength::product);
    case Written::comparison: return between(Strength::comparison);
    case Written::power:
      return {fmt::format("{} {} {}", argument(0).within(Strength::whole), f.sign, argument(1).within(Strength::sign)),
              Strength::power};
    case Written::before: return {fmt::format("{}{}", f.sign, argument(0).within(Strength::sign)), Strength::sign};
    case Written::called:
    case Written::along:
    case Written::nowhere: break;
  }
  std::string out(f.name);
  if (node.repeat > 1)
    out = fmt::format("repeat({}, {}, ", node.repeat, out);
  else
    out += "(";
  for (std::size_t i = 0; i < node.arguments.size(); ++i) out.append(i == 0 ? "" : ", ").append(argument(i).text);
  out += ")";
  return {std::move(out), Strength::whole};
}

// sum(x over D, E)
Piece along(const Node& node, std::vector<Piece>& pieces) {
  std::string out(row(node.function).name);
  out += "(" + std::move(pieces[static_cast<std::size_t>(node.arguments[0])]).text;
  for (std::size_t i = 0; i < node.over.size(); ++i) out += (i == 0 ? " over " : ", ") + text(node.over[i]);
  return {out + ")", Strength::whole};
}

Piece piece(const Program& program, const std::string& result, const Node& n, std::vector<Piece>& pieces) {
  switch (n.kind) {
    case Node::Kind::tensor: return {program.tensors[static_cast<std::size_t>(n.tensor)].name, Strength::whole};
    case Node::Kind::number:
      return {fmt::format("{}", n.number), std::signbit(n.number) ? Strength::sign : Strength::whole};
    case Node::Kind::index: return {fmt::format("index({})", n.over[0].dim), Strength::whole};
    case Node::Kind::size: return {fmt::format("size({})", n.over[0].dim), Strength::whole};
    case Node::Kind::sequence: return {fmt::format("sequence({})", n.over[0].dim), Strength::whole};
    case Node::Kind::call: return call(n, pieces);
    case Node::Kind::along: return along(n, pieces);
    case Node::Kind::previous: return {result, Strength::whole};
    case Node::Kind::routine: break;  // written by itself
  }
  return {};
}

// conv(x, w, stride = 2), gather(table, ids over V)
std::string routine(const Program& program, const Routine& r, const Node& node, std::vector<Piece>& pieces) {
  std::string out = std::string(name(r.word)) + "(";
  for (std::size_t i = 0; i < node.arguments.size(); ++i)
    out += (i == 0 ? "" : ", ") + pieces[static_cast<std::size_t>(node.arguments[i])].text;
  if (!r.over.empty()) out += " over " + text(r.over.front());
  if (r.word == Word::quantize) {
    const bool in_128 = r.format == DType::e4m3_128;
    out += in_128 ? fmt::format(", {}, block = {}", name(DType::e4m3), info(r.format).block)
                  : fmt::format(", {}", name(r.format));
  }
  if (!r.loads.empty()) out += fmt::format(", loads = ({})", fmt::join(r.loads, ", "));
  if (r.capacity > 0) out += fmt::format(", capacity = {}", r.capacity);
  if (r.stride != 1) out += fmt::format(", stride = {}", r.stride);
  if (r.padding != 0) out += fmt::format(", padding = {}", r.padding);
  if (r.dilation != 1) out += fmt::format(", dilation = {}", r.dilation);
  if (!(r.groups == Polynomial(1))) out += ", groups = " + r.groups.text(program.dim_names());
  return out + ")";
}

std::string expression(const Program& program, const Expression& e) {
  const std::string& result = program.tensors[static_cast<std::size_t>(e.result)].name;
  std::vector<Piece> pieces;
  for (const Node& n : e.nodes) {
    if (n.kind == Node::Kind::routine) return routine(program, *e.routine, n, pieces);
    pieces.push_back(piece(program, result, n, pieces));
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
  if (!any && program.stacks.empty() && in_order_of_appearance(program)) return {};
  std::string out;
  const std::vector<std::string> order = program.dim_names();
  for (const Dimension& d : program.dims) {
    out += (out.empty() ? "dims " : ", ") + d.name;
    if (!d.lengths.empty())
      out += fmt::format(" = ({})", fmt::join(d.lengths, ", "));
    else if (d.value)
      out += " = " + d.value->text(order);
  }
  return out + "\n";
}

std::string mesh_line(const Program& program) {
  std::string seen, declared, line;
  const auto see = [&](const std::string& letters) {
    for (const char c : letters)
      if (seen.find(c) == std::string::npos) seen += c;
  };
  for (const Tensor& t : program.tensors) {
    for (const Axis& a : t.axes) see(a.mesh);
    see(t.partial);
  }
  bool any = false;
  for (const MeshAxis& axis : program.mesh) {
    any = any || axis.size;
    declared += axis.name;
    line += (line.empty() ? "mesh " : ", ") + axis.name;
    if (axis.size) line += fmt::format(" = {}", *axis.size);
  }
  return any || seen != declared ? line + "\n" : "";
}

// "w[F:2*F]" of a part.
std::string cut(const Program& program, const Stack& whole, int part) {
  const std::vector<std::string> order = program.dim_names();
  Polynomial from;
  for (const int before : whole.parts) {
    const Polynomial to = from + program.tensors[static_cast<std::size_t>(before)].axes.front().extent();
    if (before == part) return fmt::format("{}[{}:{}]", whole.name, from.text(order), to.text(order));
    from = to;
  }
  return {};
}

std::string stack_line(const Program& program, const Stack& stack) {
  const std::string behind = stack.behind.empty() ? "]" : ", " + text(stack.behind).substr(1);
  return fmt::format("{}: {}[{}{}\n", stack.name, name(stack.dtype), stack.rows.text(program.dim_names()), behind);
}

}  // namespace
}  // namespace notation

std::string print(const Program& program) {
  std::string out = notation::dims_line(program) + notation::mesh_line(program);
  std::vector<const Statement*> writer(program.tensors.size());
  for (const Statement& s : program.statements) writer[static_cast<std::size_t>(s.result())] = &s;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& t = program.tensors[i];
    const Stack* const whole = stack_of(program, static_cast<int>(i));
    if (whole && whole->parts.front() == static_cast<int>(i)) out += notation::stack_line(program, *whole);
    out += t.name;
    if (t.declared) out += ": " + std::string(name(t.dtype));
    out += notation::text(t.axes) + notation::partial_text(t.partial);
    if (writer[i]) {
      if (const auto* c = std::get_if<Contraction>(&writer[i]->op))
        out += fmt::format(" = {} * {}", program.tensors[static_cast<std::size_t>(c->left)].name,
                           program.tensors[static_cast<std::size_t>(c->right)].name);
      else
        out += " = " + notation::expression(program, std::get<Expression>(writer[i]->op));
    }
    if (whole) out += " = " + notation::cut(program, *whole, static_cast<int>(i));
    out += "\n";
  }
  return out;
}

}  // namespace ridge

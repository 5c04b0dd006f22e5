// Prints programs in canonical form: equal programs have equal text. Dimensions come first if one has a value, then one
// line per tensor in order: its declaration, or the statement that writes it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "ridge/base/contains.h"
#include "ridge/program/parser.h"
#include "ridge/program/tensor_uses.h"

namespace ridge {
namespace program {

std::string format_axis(const Axis& axis) {
  if (!axis.is_named()) return std::to_string(axis.literal);
  return axis.mesh.empty() ? axis.dim : axis.dim + "_" + axis.mesh;
}

std::string format_partial(const std::string& partial) { return partial.empty() ? "" : "{U_" + partial + "}"; }

std::string format_axes(const std::vector<Axis>& axes) {
  std::string out;
  for (const Axis& a : axes) out += (out.empty() ? "[" : ", ") + format_axis(a);
  return out + "]";
}

namespace {

// Operator precedence, ascending: in a*(b + c) the sum has a lower precedence than the product.
enum class Precedence { comparison, sum, product, unary, power, primary };

struct PrintedExpression {
  std::string text;
  Precedence precedence;
  std::string parenthesize_below(Precedence needed) && {
    return precedence >= needed ? std::move(text) : fmt::format("({})", text);
  }
};

PrintedExpression print_binary(PrintedExpression left, const std::string& sign, PrintedExpression right,
                               Precedence strength) {
  const auto tighter = static_cast<Precedence>(static_cast<int>(strength) + 1);
  // Appending to the moved string makes a + b + c + … linear.
  std::string out = std::move(left).parenthesize_below(strength == Precedence::comparison ? tighter : strength);
  out += sign;
  out += std::move(right).parenthesize_below(tighter);
  return {std::move(out), strength};
}

PrintedExpression print_call(const Node& node, std::vector<PrintedExpression>& printed) {
  const auto argument = [&](std::size_t i) { return std::move(printed[node.arguments[i]]); };
  const FunctionInfo& f = function_info(node.function);
  const auto between = [&](Precedence strength) {
    return print_binary(argument(0), fmt::format(" {} ", f.symbol), argument(1), strength);
  };
  switch (f.syntax) {
    case FunctionSyntax::sum: return between(Precedence::sum);
    case FunctionSyntax::product: return between(Precedence::product);
    case FunctionSyntax::comparison: return between(Precedence::comparison);
    case FunctionSyntax::power:
      return {fmt::format("{} {} {}", argument(0).parenthesize_below(Precedence::primary), f.symbol,
                          argument(1).parenthesize_below(Precedence::unary)),
              Precedence::power};
    case FunctionSyntax::prefix:
      return {fmt::format("{}{}", f.symbol, argument(0).parenthesize_below(Precedence::unary)), Precedence::unary};
    case FunctionSyntax::call:
    case FunctionSyntax::over_dims:
    case FunctionSyntax::none: break;
  }
  std::string out(f.name);
  if (node.repeat > 1)
    out = fmt::format("repeat({}, {}, ", node.repeat, out);
  else
    out += "(";
  for (std::size_t i = 0; i < node.arguments.size(); ++i) out.append(i == 0 ? "" : ", ").append(argument(i).text);
  out += ")";
  return {std::move(out), Precedence::primary};
}

// Prints sum(x over D, E).
PrintedExpression print_call_over_dims(const Node& node, std::vector<PrintedExpression>& printed) {
  std::string out(function_info(node.function).name);
  out += "(" + std::move(printed[node.arguments[0]]).text;
  for (std::size_t i = 0; i < node.over.size(); ++i) out += (i == 0 ? " over " : ", ") + format_axis(node.over[i]);
  return {out + ")", Precedence::primary};
}

PrintedExpression print_node(const Program& program, const std::string& result, const Node& n,
                             std::vector<PrintedExpression>& printed) {
  switch (n.kind) {
    case Node::Kind::tensor: return {program.tensors[n.tensor].name, Precedence::primary};
    case Node::Kind::number:
      return {fmt::format("{}", n.number), std::signbit(n.number) ? Precedence::unary : Precedence::primary};
    case Node::Kind::index: return {fmt::format("index({})", n.over[0].dim), Precedence::primary};
    case Node::Kind::size: return {fmt::format("size({})", n.over[0].dim), Precedence::primary};
    case Node::Kind::sequence: return {fmt::format("sequence({})", n.over[0].dim), Precedence::primary};
    case Node::Kind::call: return print_call(n, printed);
    case Node::Kind::along_dims: return print_call_over_dims(n, printed);
    case Node::Kind::previous: return {result, Precedence::primary};
    case Node::Kind::routine: break;  // printed by print_routine
  }
  return {};
}

// Prints conv(x, w, stride = 2) or gather(table, ids over V).
std::string print_routine(const Program& program, const Routine& r, const Node& node,
                          std::vector<PrintedExpression>& printed) {
  std::string out = std::string(routine_name(r.kind)) + "(";
  for (std::size_t i = 0; i < node.arguments.size(); ++i) out += (i == 0 ? "" : ", ") + printed[node.arguments[i]].text;
  for (const Axis& axis : r.over) out += (&axis == &r.over.front() ? " over " : ", ") + format_axis(axis);
  if (r.window > 0) out += fmt::format(", window = {}", r.window);
  if (r.descending) out += ", descending = 1";
  if (r.base != Routine{}.base) out += fmt::format(", base = {}", r.base);
  if (r.interleaved) out += ", interleaved = 1";
  if (r.kind == RoutineKind::quantize) {
    // Names such as int4_128 are printed as their element and their block.
    const std::string_view name = dtype_name(r.format);
    const std::size_t end = name.find('_');
    out += fmt::format(", {}", name.substr(0, end));
    if (end != std::string_view::npos) out += fmt::format(", block = {}", name.substr(end + 1));
  }
  if (!r.loads.empty()) out += fmt::format(", loads = ({})", fmt::join(r.loads, ", "));
  if (r.capacity > 0) out += fmt::format(", capacity = {}", r.capacity);
  if (r.stride != 1) out += fmt::format(", stride = {}", r.stride);
  if (r.padding != 0) out += fmt::format(", padding = {}", r.padding);
  if (r.dilation != 1) out += fmt::format(", dilation = {}", r.dilation);
  if (!(r.groups == Polynomial(1))) out += ", groups = " + r.groups.to_string(program.dim_names());
  return out + ")";
}

// Prints the first `count` nodes: the last of them with its arguments.
std::string print_nodes(const Program& program, const Expression& e, std::size_t count) {
  const std::string& result = program.tensors[e.result].name;
  std::vector<PrintedExpression> printed;
  for (const Node& n : std::span(e.nodes).first(count)) {
    if (n.kind == Node::Kind::routine) return print_routine(program, *e.routine, n, printed);
    printed.push_back(print_node(program, result, n, printed));
  }
  return printed.empty() ? "" : std::move(printed.back().text);
}

std::string print_expression(const Program& program, const Expression& e) {
  return print_nodes(program, e, e.nodes.size());
}

// True if the dimensions are in the order in which the tensors first use them.
bool is_in_order_of_appearance(const Program& program) {
  std::vector<std::string> seen;
  for (const Tensor& t : program.tensors)
    for (const Axis& a : t.axes)
      if (a.is_named() && !contains(seen, a.dim)) seen.push_back(a.dim);
  return seen == program.dim_names();
}

std::string print_dims(const Program& program) {
  const bool any =
      std::any_of(program.dims.begin(), program.dims.end(), [](const Dimension& d) { return d.value.has_value(); });
  if (!any && program.stacks.empty() && is_in_order_of_appearance(program)) return {};
  std::string out;
  const std::vector<std::string> order = program.dim_names();
  for (const Dimension& d : program.dims) {
    out += (out.empty() ? "dims " : ", ") + d.name;
    if (!d.lengths.empty())
      out += fmt::format(" = ({})", fmt::join(d.lengths, ", "));
    else if (d.value)
      out += " = " + d.value->to_string(order);
  }
  return out + "\n";
}

std::string print_mesh(const Program& program) {
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

// Returns the slice of a part: "w[F:2*F]".
std::string print_slice(const Program& program, const StackedInput& stack, int part) {
  const std::vector<std::string> order = program.dim_names();
  Polynomial from;
  for (const int before : stack.parts) {
    const Polynomial to = from + program.tensors[before].axes.front().extent();
    if (before == part) return fmt::format("{}[{}:{}]", stack.name, from.to_string(order), to.to_string(order));
    from = to;
  }
  return {};
}

std::string print_input_use(std::optional<InputUse> use) { return use ? std::string(input_use_word(*use)) + " " : ""; }

std::string print_stack(const Program& program, const StackedInput& stack) {
  const std::string other_axes = stack.other_axes.empty() ? "]" : ", " + format_axes(stack.other_axes).substr(1);
  return fmt::format("{}{}: {}[{}{}\n", print_input_use(stack.declared_use), stack.name, dtype_name(stack.dtype),
                     stack.rows.to_string(program.dim_names()), other_axes);
}

}  // namespace
}  // namespace program

std::string print_subexpression(const Program& program, const Expression& expression, std::size_t node) {
  return program::print_nodes(program, expression, node + 1);
}

std::string print_program(const Program& program) {
  std::string out = program::print_dims(program) + program::print_mesh(program);
  const TensorUses uses(program);
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& t = program.tensors[i];
    const StackedInput* const stack = stack_of(program, static_cast<int>(i));
    if (stack && stack->parts.front() == static_cast<int>(i)) out += program::print_stack(program, *stack);
    if (!stack) out += program::print_input_use(t.declared_use);
    out += t.name;
    if (t.declared) out += ": " + std::string(dtype_name(t.dtype));
    out += program::format_axes(t.axes) + program::format_partial(t.partial);
    if (t.replaced >= 0) out += " replaces " + program.tensors[t.replaced].name;
    if (const int s = uses.writer(static_cast<int>(i)); s >= 0) {
      if (const auto* c = std::get_if<Contraction>(&program.statements[s].op))
        out += fmt::format(" = {} * {}", program.tensors[c->left].name, program.tensors[c->right].name);
      else
        out += " = " + program::print_expression(program, std::get<Expression>(program.statements[s].op));
    }
    if (stack) out += " = " + program::print_slice(program, *stack, static_cast<int>(i));
    out += "\n";
  }
  return out;
}

}  // namespace ridge

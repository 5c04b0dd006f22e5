// Sharding: bf16[B, D_X] is split along D into X equal shards, one per device of a mesh row. {U_X} after a tensor means
// that these devices hold partial sums. A product whose contracted dimension is split over X in both operands produces
// partial sums; the sharding of its result determines the collective that reduces them:
//   bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]{U_X}     no collective: partial sums
//                               -> bf16[B, F]          all-reduce over X
//                               -> bf16[B, F_X]        reduce-scatter over X
// Otherwise a dimension must have the same sharding everywhere in a statement. Only a copy, y[B, D] = x, changes the
// sharding of x. A function over a split dimension, softmax(x over D), reduces each device's shard and all-reduces the
// results.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/program/parser.h"
#include "ridge/program/sharding.h"

namespace ridge {
namespace program {
namespace {

const Axis* find_named_axis(const std::vector<Axis>& axes, const Axis& axis) {
  const auto found = std::find(axes.begin(), axes.end(), axis);
  return found == axes.end() || !axis.is_named() ? nullptr : &*found;
}

bool uses_mesh_axis(const std::vector<Axis>& axes, char letter) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& a) { return a.mesh.find(letter) != std::string::npos; });
}

}  // namespace

std::string_view mesh_suffix(std::string_view name) {
  const std::size_t underscore = name.rfind('_');
  if (underscore == std::string_view::npos || underscore == 0 || underscore + 1 == name.size()) return {};
  const std::string_view tail = name.substr(underscore + 1);
  return std::all_of(tail.begin(), tail.end(), [](char c) { return c >= 'A' && c <= 'Z'; }) ? tail : std::string_view();
}

bool has_same_sharding(const std::vector<Axis>& a, const std::vector<Axis>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Axis& x, const Axis& y) { return x == y && x.mesh == y.mesh; });
}

// Parses `mesh X = 4, Y = 2`.
bool Parser::parse_mesh() {
  static constexpr const char* example = "such as mesh X = 4, Y = 2";
  consume_token();
  do {
    const Token name = peek();
    const bool letter =
        name.kind == TokenKind::name && name.text.size() == 1 && name.text[0] >= 'A' && name.text[0] <= 'Z';
    if (!letter) return report_expected("a mesh axis, a capital letter", example);
    consume_token();
    if (!use_mesh_axis(name.text[0], name.span)) return false;
    if (!declared_mesh_.insert(std::string(name.text)).second)
      return report_error(name.span, fmt::format("mesh axis {} is declared twice", quote_token(name)),
                          "leave one of them out");
    if (!accept_symbol("=")) continue;
    std::int64_t size = 0;
    if (!parse_positive_integer(size, "the size of a mesh axis")) return false;
    for (MeshAxis& axis : program_.mesh)
      if (axis.name == name.text) axis.size = size;
  } while (accept_symbol(","));
  return is_at_end_of_line() || report_expected("',' or the end of the line", example);
}

bool Parser::use_mesh_axis(char letter, TextSpan span) {
  const std::string name(1, letter);
  if (dim_index_.contains(name))
    return report_error(span, fmt::format("'{}' is a dimension already; -d {}=4 could mean either", name, name),
                        "give the mesh axis another letter");
  const auto is = [&](const MeshAxis& axis) { return axis.name == name; };
  if (std::none_of(program_.mesh.begin(), program_.mesh.end(), is))
    program_.mesh.push_back({.name = name, .size = std::nullopt, .span = span});
  return true;
}

// Parses D_XY as the axis that follows `previous_axes`.
bool Parser::parse_sharded_axis(const Token& token, Axis& out, const std::vector<Axis>& previous_axes) {
  out.mesh = mesh_suffix(token.text);
  out.dim = token.text.substr(0, token.text.size() - out.mesh.size() - 1);
  if (parse_dtype(out.dim))
    return report_error(token.span,
                        fmt::format("expected the name of a dimension, found '{}', which is a reserved word", out.dim),
                        "use another name, such as N");
  for (std::size_t i = 0; i < out.mesh.size(); ++i) {
    if (uses_mesh_axis(previous_axes, out.mesh[i]) || out.mesh.find(out.mesh[i]) != i)
      return report_error(token.span, fmt::format("mesh axis '{}' appears twice in one tensor", out.mesh[i]),
                          "each mesh axis splits one dimension of a tensor");
    if (!use_mesh_axis(out.mesh[i], token.span)) return false;
  }
  return true;
}

// Parses {U_X} after the brackets.
bool Parser::parse_partial_sums(TensorRef& out) {
  static constexpr const char* example = "partial sums over the mesh axis X are written {U_X}";
  const Token open = consume_token();
  const Token name = peek();
  const std::string_view letters = name.kind == TokenKind::name ? mesh_suffix(name.text) : std::string_view();
  if (letters.empty() || name.text.substr(0, 2) != "U_") return report_expected("U_ and mesh axes", example);
  consume_token();
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (uses_mesh_axis(out.axes, letters[i]) || letters.find(letters[i]) != i)
      return report_error(name.span, fmt::format("mesh axis '{}' appears twice in one tensor", letters[i]),
                          "a tensor cannot be both split and partial over a mesh axis");
    if (!use_mesh_axis(letters[i], name.span)) return false;
  }
  out.partial = letters;
  std::sort(out.partial.begin(), out.partial.end());
  return peek().is_symbol(",") ? report_expected("'}'", "write several mesh axes as {U_XY}")
                               : close_bracket(open, "}", "'}'");
}

// --- checks of statements

bool Parser::check_no_partial_sums(int tensor, TextSpan span) {
  const Tensor& t = program_.tensors[tensor];
  if (t.partial.empty()) return true;
  return report_error(
      span, fmt::format("'{}' holds partial sums {}; only their total can be used", t.name, format_partial(t.partial)),
      fmt::format("add them up first, in a statement of their own: {}2{} = {}", t.name, format_axes(t.axes), t.name));
}

// Checks that an axis has the same sharding in the result as in the operand, or is also split over the mesh axes of the
// partial sums (a reduce-scatter).
bool Parser::check_axis_sharding(const Axis& axis, const ParsedOperand& operand, const TensorRef& result,
                                 const std::string& partial) {
  const Axis* kept = find_named_axis(result.axes, axis);
  if (!kept || kept->mesh == axis.mesh) return true;
  const bool is_split_further =
      kept->mesh.starts_with(axis.mesh) && kept->mesh.find_first_not_of(partial, axis.mesh.size()) == std::string::npos;
  if (is_split_further) return true;
  return report_error(
      kept->span,
      fmt::format("the result has {}, {} has {}", format_axis(*kept), operand.description, format_axis(axis)),
      fmt::format("write {} in both; y[…] = x, a statement of its own, changes the sharding of x",
                  axis.mesh.empty() ? format_axis(*kept) : format_axis(axis)));
}

// Checks that the result's {U_…} are among `summed_over`, the mesh axes over which the operands leave partial sums.
bool Parser::check_result_partial_sums(const std::string& summed_over, const TensorRef& result) {
  for (const char letter : result.partial)
    if (summed_over.find(letter) == std::string::npos)
      return report_error(result.span,
                          fmt::format("the result has partial sums over '{}', but nothing is summed over it", letter),
                          "a sum over a dimension that is split over it produces them");
  return true;
}

bool Parser::check_product_sharding(const ParsedOperand& left, const ParsedOperand& right, const TensorRef& result,
                                    Contraction& out) {
  if (!check_no_partial_sums(left.tensor, left.span) || !check_no_partial_sums(right.tensor, right.span)) return false;
  for (const Axis& l : left.axes) {
    const Axis* r = find_named_axis(right.axes, l);
    if (!r) continue;
    if (r->mesh != l.mesh)
      return report_error(r->span,
                          fmt::format("{} has {}, {} has {}; both must have the same sharding", left.description,
                                      format_axis(l), right.description, format_axis(*r)),
                          l.mesh.empty() || r->mesh.empty()
                              ? fmt::format("write {} in both, or gather the other first: y[…, {}, …] = x",
                                            l.mesh.empty() ? format_axis(*r) : format_axis(l), l.dim)
                              : fmt::format("write {} in both", format_axis(l)));
    if (!find_named_axis(result.axes, l)) out.partial += l.mesh;
  }
  std::sort(out.partial.begin(), out.partial.end());
  for (const ParsedOperand* o : {&left, &right})
    for (const Axis& a : o->axes)
      if (!check_axis_sharding(a, *o, result, out.partial)) return false;
  return check_result_partial_sums(out.partial, result);
}

// Checks functions over split dimensions. Two dimensions split over the same mesh axis are rejected, because devices
// would hold only the diagonal blocks.
bool Parser::check_reduction_sharding(const std::vector<Axis>& known_axes, const TensorRef& result) {
  const IndexSpaces found = find_index_spaces(program_.tensors, nodes_);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.kind != Node::Kind::along_dims) continue;
    std::string letters;
    for (const Axis& axis : found.axes[found.space_of_node[node.arguments[0]]])
      if (const Axis* known = find_named_axis(known_axes, axis)) letters += known->mesh;
    std::sort(letters.begin(), letters.end());
    if (const auto twice = std::adjacent_find(letters.begin(), letters.end()); twice != letters.end())
      return report_error(node.over.front().span,
                          fmt::format("two dimensions of the argument of {} are split over the mesh axis '{}'",
                                      function_info(node.function).name, *twice),
                          "gather one of them first: y[…] = x, a statement of its own, changes the sharding of x");
    for (const Axis& axis : node.over)
      if (const Axis* known = find_named_axis(known_axes, axis);
          known && !known->mesh.empty() && !result.partial.empty())
        return report_error(result.span,
                            fmt::format("the result has partial sums {}, but {} gives every device the full result",
                                        format_partial(result.partial), function_info(node.function).name),
                            "leave them out, or write the sum as a contraction with a tensor of ones");
  }
  return true;
}

bool Parser::check_expression_sharding(const TensorRef& result) {
  if (program_.mesh.empty()) return true;
  if (nodes_.size() == 1)  // y[B, D] = x may change the sharding
    return check_result_partial_sums(program_.tensors[nodes_[0].tensor].partial, result);
  std::vector<Axis> known_axes = result.axes;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].kind != Node::Kind::tensor) continue;
    if (!check_no_partial_sums(nodes_[i].tensor, node_spans_[i])) return false;
    const Tensor& t = program_.tensors[nodes_[i].tensor];
    for (const Axis& a : t.axes) {
      const Axis* other = find_named_axis(known_axes, a);
      if (!other)
        known_axes.push_back(a);
      else if (other->mesh != a.mesh)
        return report_error(
            node_spans_[i],
            fmt::format("'{}' has {} where {} has {}; all must have the same sharding", t.name, format_axis(a),
                        find_named_axis(result.axes, a) ? "the result" : "another operand", format_axis(*other)),
            "y[…] = x, a statement of its own, changes the sharding of x");
    }
  }
  return check_reduction_sharding(known_axes, result) && check_result_partial_sums("", result);
}

}  // namespace program

// --- implied collectives

Status require_unsharded(const Program& program, std::string_view verb) {
  if (program.mesh.empty()) return Done{};
  return input_error(fmt::format("cannot {} a program that is sharded over the mesh axis {}: it runs on one device",
                                 verb, program.mesh.front().name),
                     "`ridge explain` counts what each device does");
}

namespace {

std::string all_mesh_axes(const std::vector<Axis>& axes) {
  std::string out;
  for (const Axis& a : axes) out += a.mesh;
  return out;
}

std::string remove_letters(std::string letters, const std::string& others) {
  std::erase_if(letters, [&](char c) { return others.find(c) != std::string::npos; });
  return letters;
}

// Returns the all-reduces of functions over split dimensions.
Collectives collectives_along_dims(const Program& program, const Expression& expression) {
  std::string reduced;
  for (const Node& node : expression.nodes)
    for (const Axis& axis : node.over)
      if (node.kind == Node::Kind::along_dims) {
        const std::string mesh = find_mesh_axes(program, expression, axis);
        reduced += remove_letters(mesh, reduced);
      }
  std::sort(reduced.begin(), reduced.end());
  return {reduced, "", "", ""};
}

}  // namespace

std::string find_mesh_axes(const Program& program, const Expression& expression, const Axis& axis) {
  const auto mesh = [&](int tensor) -> std::string {
    const std::vector<Axis>& axes = program.tensors[tensor].axes;
    const auto found = std::find(axes.begin(), axes.end(), axis);
    return found == axes.end() ? "" : found->mesh;
  };
  std::string out = mesh(expression.result);
  for (const Node& node : expression.nodes)
    if (out.empty() && node.kind == Node::Kind::tensor) out = mesh(node.tensor);
  return out;
}

// A routine reduces over the mesh axes that its operands have and its result lacks.
static Collectives collectives_of_routine(const Program& program, const Statement& statement) {
  const std::string kept = all_mesh_axes(program.tensors[statement.result()].axes);
  std::string summed;
  for (const int t : statement_operands(statement))
    summed += remove_letters(all_mesh_axes(program.tensors[t].axes), kept + summed);
  std::sort(summed.begin(), summed.end());
  return {summed, "", "", ""};
}

Collectives implied_collectives(const Program& program, const Statement& statement) {
  if (routine_of(statement)) return collectives_of_routine(program, statement);
  const Tensor& result = program.tensors[statement.result()];
  const auto* product = std::get_if<Contraction>(&statement.op);
  const auto* expression = std::get_if<Expression>(&statement.op);
  const bool is_redistribution = expression && expression->nodes.size() == 1;
  if (expression && !is_redistribution) return collectives_along_dims(program, *expression);
  const Tensor* from = is_redistribution ? &program.tensors[expression->nodes[0].tensor] : nullptr;
  const std::string result_letters = all_mesh_axes(result.axes);
  const std::string summed_letters = remove_letters(product ? product->partial : from->partial, result.partial);
  std::string gathered, exchanged;
  if (from)
    for (const Axis& axis : from->axes) {
      const auto found = std::find(result.axes.begin(), result.axes.end(), axis);
      const std::string removed_letters = remove_letters(axis.mesh, found == result.axes.end() ? "" : found->mesh);
      gathered += remove_letters(removed_letters, result_letters);
      exchanged += remove_letters(removed_letters, remove_letters(removed_letters, result_letters));
    }
  const std::string all = remove_letters(summed_letters, result_letters);
  return {all, remove_letters(summed_letters, all), gathered, exchanged};
}

std::string format_collectives(const Collectives& c) {
  std::string out;
  for (const auto& [name, letters] : {std::pair<const char*, const std::string&>("all-reduce", c.all_reduce),
                                      {"reduce-scatter", c.reduce_scatter},
                                      {"all-gather", c.all_gather},
                                      {"all-to-all", c.all_to_all}})
    if (!letters.empty()) out += fmt::format("{}{} over {}", out.empty() ? "" : ", ", name, letters);
  return out;
}

}  // namespace ridge

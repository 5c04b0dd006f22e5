// Sharding: bf16[B, D_X] lies in X equal parts along D, one on each device of a row of the mesh; {U_X} behind a tensor
// says that these devices hold addends of it. A product of operands that are split alike along what it sums leaves such
// addends; what its result says of X then names the collective that adds them up:
//   bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]{U_X}     none: addends
//                               -> bf16[B, F]          all-reduce over X
//                               -> bf16[B, F_X]        reduce-scatter over X
// Elsewhere a dimension is split alike wherever it stands. Only a statement that names one tensor and nothing else,
// y[B, D] = x, changes how that lies. A function along a split dimension, softmax(x over D), works on each device's
// part and all-reduces what the parts come to.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/program/parser.h"
#include "ridge/program/sharding.h"

namespace ridge {
namespace notation {
namespace {

const Axis* find(const std::vector<Axis>& axes, const Axis& axis) {
  const auto found = std::find(axes.begin(), axes.end(), axis);
  return found == axes.end() || !axis.named() ? nullptr : &*found;
}

bool holds(const std::vector<Axis>& axes, char letter) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& a) { return a.mesh.find(letter) != std::string::npos; });
}

}  // namespace

std::string_view mesh_of(std::string_view name) {
  const std::size_t underscore = name.rfind('_');
  if (underscore == std::string_view::npos || underscore == 0 || underscore + 1 == name.size()) return {};
  const std::string_view tail = name.substr(underscore + 1);
  return std::all_of(tail.begin(), tail.end(), [](char c) { return c >= 'A' && c <= 'Z'; }) ? tail : std::string_view();
}

bool same_sharding(const std::vector<Axis>& a, const std::vector<Axis>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Axis& x, const Axis& y) { return x == y && x.mesh == y.mesh; });
}

// `mesh X = 4, Y = 2`
bool Parser::mesh() {
  static constexpr const char* example = "such as mesh X = 4, Y = 2";
  take();
  do {
    const Token name = peek();
    const bool letter =
        name.kind == TokenKind::name && name.text.size() == 1 && name.text[0] >= 'A' && name.text[0] <= 'Z';
    if (!letter) return expected("a mesh axis, a capital letter", example);
    take();
    if (!use_mesh_axis(name.text[0], name.span)) return false;
    if (!declared_mesh_.insert(std::string(name.text)).second)
      return fail(name.span, fmt::format("mesh axis {} is declared twice", quoted(name)), "leave one of them out");
    if (!take("=")) continue;
    std::int64_t size = 0;
    if (!whole_number(size, "the size of a mesh axis")) return false;
    for (MeshAxis& axis : program_.mesh)
      if (axis.name == name.text) axis.size = size;
  } while (take(","));
  return at_end_of_line() || expected("',' or the end of the line", example);
}

bool Parser::use_mesh_axis(char letter, Span span) {
  const std::string name(1, letter);
  if (dim_index_.contains(name))
    return fail(span, fmt::format("'{}' is a dimension already; -d {}=4 could mean either", name, name),
                "give the mesh axis another letter");
  const auto is = [&](const MeshAxis& axis) { return axis.name == name; };
  if (std::none_of(program_.mesh.begin(), program_.mesh.end(), is))
    program_.mesh.push_back({.name = name, .size = std::nullopt, .span = span});
  return true;
}

// D_XY as an axis behind those of `before`.
bool Parser::sharded_name(const Token& token, Axis& out, const std::vector<Axis>& before) {
  out.mesh = mesh_of(token.text);
  out.dim = token.text.substr(0, token.text.size() - out.mesh.size() - 1);
  if (dtype_from(out.dim))
    return fail(token.span,
                fmt::format("expected the name of a dimension, found '{}', which the notation uses itself", out.dim),
                "use another name, such as N");
  for (std::size_t i = 0; i < out.mesh.size(); ++i) {
    if (holds(before, out.mesh[i]) || out.mesh.find(out.mesh[i]) != i)
      return fail(token.span, fmt::format("mesh axis '{}' stands twice in one tensor", out.mesh[i]),
                  "each mesh axis splits one dimension of a tensor");
    if (!use_mesh_axis(out.mesh[i], token.span)) return false;
  }
  return true;
}

// {U_X} behind the brackets.
bool Parser::partial(Mention& out) {
  static constexpr const char* example = "partial sums over the mesh axis X are written {U_X}";
  const Token open = take();
  const Token name = peek();
  const std::string_view letters = name.kind == TokenKind::name ? mesh_of(name.text) : std::string_view();
  if (letters.empty() || name.text.substr(0, 2) != "U_") return expected("U_ and mesh axes", example);
  take();
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (holds(out.axes, letters[i]) || letters.find(letters[i]) != i)
      return fail(name.span, fmt::format("mesh axis '{}' stands twice in one tensor", letters[i]),
                  "what is split over it is no partial sum over it");
    if (!use_mesh_axis(letters[i], name.span)) return false;
  }
  out.partial = letters;
  std::sort(out.partial.begin(), out.partial.end());
  return peek().is(",") ? expected("'}'", "several mesh axes stand side by side: {U_XY}") : close(open, "}", "'}'");
}

// --- what a statement may say

bool Parser::whole_operand(int tensor, Span span) {
  const Tensor& t = program_.tensors[static_cast<std::size_t>(tensor)];
  if (t.partial.empty()) return true;
  return fail(span,
              fmt::format("'{}' holds partial sums {}; only their total can be used", t.name, partial_text(t.partial)),
              fmt::format("add them up first, in a statement of their own: {}2{} = {}", t.name, text(t.axes), t.name));
}

// A dimension that the result keeps lies there as in the operand, or split further over what is summed over.
bool Parser::shard_agrees(const Axis& axis, const Operand& of, const Mention& result, const std::string& partial) {
  const Axis* kept = find(result.axes, axis);
  if (!kept || kept->mesh == axis.mesh) return true;
  const bool further =
      kept->mesh.starts_with(axis.mesh) && kept->mesh.find_first_not_of(partial, axis.mesh.size()) == std::string::npos;
  if (further) return true;
  return fail(kept->span, fmt::format("the result has {}, {} has {}", text(*kept), of.called, text(axis)),
              fmt::format("write {} in both; y[…] = x, a statement of its own, changes how x lies",
                          axis.mesh.empty() ? text(*kept) : text(axis)));
}

// `left`: mesh axes over which addends are left. The result keeps some of them as {U_…}.
bool Parser::partial_agrees(const std::string& left, const Mention& result) {
  for (const char letter : result.partial)
    if (left.find(letter) == std::string::npos)
      return fail(result.span,
                  fmt::format("the result has partial sums over '{}', but nothing is summed over it", letter),
                  "a sum along a dimension that is split over it leaves them");
  return true;
}

bool Parser::shards(const Operand& left, const Operand& right, const Mention& result, Contraction& out) {
  if (!whole_operand(left.tensor, left.span) || !whole_operand(right.tensor, right.span)) return false;
  for (const Axis& l : left.axes) {
    const Axis* r = find(right.axes, l);
    if (!r) continue;
    if (r->mesh != l.mesh)
      return fail(
          r->span,
          fmt::format("{} has {}, {} has {}; both must lie alike", left.called, text(l), right.called, text(*r)),
          l.mesh.empty() || r->mesh.empty()
              ? fmt::format("write {} in both, or gather the other first: y[…, {}, …] = x",
                            l.mesh.empty() ? text(*r) : text(l), l.dim)
              : fmt::format("write {} in both", text(l)));
    if (!find(result.axes, l)) out.partial += l.mesh;
  }
  std::sort(out.partial.begin(), out.partial.end());
  for (const Operand* o : {&left, &right})
    for (const Axis& a : o->axes)
      if (!shard_agrees(a, *o, result, out.partial)) return false;
  return partial_agrees(out.partial, result);
}

// What a function runs along may be split: each device's part is reduced, then all of them. Two dimensions split over
// the same devices would be the blocks of a diagonal, though.
bool Parser::along_shards(const std::vector<Axis>& lie, const Mention& result) {
  const Spaces found = spaces(program_.tensors, nodes_);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.kind != Node::Kind::along) continue;
    std::string letters;
    for (const Axis& axis : found.axes[found.of[node.arguments[0]]])
      if (const Axis* there = find(lie, axis)) letters += there->mesh;
    std::sort(letters.begin(), letters.end());
    if (const auto twice = std::adjacent_find(letters.begin(), letters.end()); twice != letters.end())
      return fail(node.over.front().span,
                  fmt::format("two dimensions of what {} runs over are split over the mesh axis '{}'",
                              row(node.function).name, *twice),
                  "gather one of them first: y[…] = x, a statement of its own, changes how x lies");
    for (const Axis& axis : node.over)
      if (const Axis* there = find(lie, axis); there && !there->mesh.empty() && !result.partial.empty())
        return fail(result.span,
                    fmt::format("the result has partial sums {}, but {} gives every device the whole",
                                partial_text(result.partial), row(node.function).name),
                    "leave them out, or write the sum as a contraction with a tensor of ones");
  }
  return true;
}

bool Parser::expression_shards(const Mention& result) {
  if (program_.mesh.empty()) return true;
  if (nodes_.size() == 1)  // y[B, D] = x: may change how x lies
    return partial_agrees(program_.tensors[static_cast<std::size_t>(nodes_[0].tensor)].partial, result);
  std::vector<Axis> lie = result.axes;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].kind != Node::Kind::tensor) continue;
    if (!whole_operand(nodes_[i].tensor, node_spans_[i])) return false;
    const Tensor& t = program_.tensors[static_cast<std::size_t>(nodes_[i].tensor)];
    for (const Axis& a : t.axes) {
      const Axis* other = find(lie, a);
      if (!other)
        lie.push_back(a);
      else if (other->mesh != a.mesh)
        return fail(node_spans_[i],
                    fmt::format("'{}' has {} where {} has {}; all must lie alike", t.name, text(a),
                                find(result.axes, a) ? "the result" : "another operand", text(*other)),
                    "y[…] = x, a statement of its own, changes how x lies");
    }
  }
  return along_shards(lie, result) && partial_agrees("", result);
}

}  // namespace notation

// --- what it means

std::optional<Error> refuse_sharded(const Program& program, std::string_view verb) {
  if (program.mesh.empty()) return std::nullopt;
  return input_error(fmt::format("cannot {} a program that is sharded over the mesh axis {}: this is one device", verb,
                                 program.mesh.front().name),
                     "`ridge explain` counts what each device does");
}

namespace {

std::string letters_of(const std::vector<Axis>& axes) {
  std::string out;
  for (const Axis& a : axes) out += a.mesh;
  return out;
}

std::string without(std::string letters, const std::string& others) {
  std::erase_if(letters, [&](char c) { return others.find(c) != std::string::npos; });
  return letters;
}

// Of what is split, along which functions run.
Collectives along(const Program& program, const Expression& expression) {
  std::string reduced;
  for (const Node& node : expression.nodes)
    for (const Axis& axis : node.over)
      if (node.kind == Node::Kind::along) {
        const std::string mesh = split_over(program, expression, axis);
        reduced += without(mesh, reduced);
      }
  std::sort(reduced.begin(), reduced.end());
  return {reduced, "", "", ""};
}

}  // namespace

std::string split_over(const Program& program, const Expression& expression, const Axis& axis) {
  const auto mesh = [&](int tensor) -> std::string {
    const std::vector<Axis>& axes = program.tensors[static_cast<std::size_t>(tensor)].axes;
    const auto there = std::find(axes.begin(), axes.end(), axis);
    return there == axes.end() ? "" : there->mesh;
  };
  std::string out = mesh(expression.result);
  for (const Node& node : expression.nodes)
    if (out.empty() && node.kind == Node::Kind::tensor) out = mesh(node.tensor);
  return out;
}

// A word sums what its operands have and its result has not.
static Collectives of_routine(const Program& program, const Statement& statement) {
  const std::string kept = letters_of(program.tensors[static_cast<std::size_t>(statement.result())].axes);
  std::string summed;
  for (const int t : operands(statement))
    summed += without(letters_of(program.tensors[static_cast<std::size_t>(t)].axes), kept + summed);
  std::sort(summed.begin(), summed.end());
  return {summed, "", "", ""};
}

Collectives collectives(const Program& program, const Statement& statement) {
  if (routine_of(statement)) return of_routine(program, statement);
  const Tensor& result = program.tensors[static_cast<std::size_t>(statement.result())];
  const auto* product = std::get_if<Contraction>(&statement.op);
  const auto* expression = std::get_if<Expression>(&statement.op);
  const bool moves = expression && expression->nodes.size() == 1;
  if (expression && !moves) return along(program, *expression);
  const Tensor* from = moves ? &program.tensors[static_cast<std::size_t>(expression->nodes[0].tensor)] : nullptr;
  const std::string after = letters_of(result.axes);
  const std::string added = without(product ? product->partial : from->partial, result.partial);
  std::string gathered, exchanged;
  if (from)
    for (const Axis& axis : from->axes) {
      const auto there = std::find(result.axes.begin(), result.axes.end(), axis);
      const std::string gone = without(axis.mesh, there == result.axes.end() ? "" : there->mesh);
      gathered += without(gone, after);
      exchanged += without(gone, without(gone, after));
    }
  const std::string all = without(added, after);
  return {all, without(added, all), gathered, exchanged};
}

std::string text(const Collectives& c) {
  std::string out;
  for (const auto& [name, letters] : {std::pair<const char*, const std::string&>("all-reduce", c.all_reduce),
                                      {"reduce-scatter", c.reduce_scatter},
                                      {"all-gather", c.all_gather},
                                      {"all-to-all", c.all_to_all}})
    if (!letters.empty()) out += fmt::format("{}{} over {}", out.empty() ? "" : ", ", name, letters);
  return out;
}

}  // namespace ridge

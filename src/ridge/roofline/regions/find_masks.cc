// Finds the elements that statements need to compute and read. The first pass finds where values are known (0, -inf)
// from their indices, the second, backward, which elements are needed: a value that is known elsewhere needs no
// operand, a factor of 0 makes the other factor unnecessary, and softmax needs nothing where its argument is -inf.
//   p[S, T] = softmax(where(index(T) <= index(S), s, -inf) over T)   p is 0 above the diagonal, s is not needed there
//   o[S, E] = p * v                                                  pairs below the diagonal; v[T] for some S >= T
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/contains.h"
#include "ridge/program/sharding.h"
#include "ridge/roofline/masks.h"
#include "ridge/roofline/regions/index_values.h"

namespace ridge {
namespace {

// Returns the bounds on i - j, or on i, if the formula is a conjunction of them.
std::optional<IndexMask> find_band(const Formula& formula) {
  IndexMask out;
  const auto add = [&](const Formula& part) {
    if (part.kind() != Formula::Kind::at_least_zero) return false;
    const IndexSum& sum = part.sum();
    if (!sum.quotients.empty() || !sum.sequences.empty() || sum.indices.empty() || sum.indices.size() > 2) return false;
    const auto& [row, factor] = *sum.indices.begin();
    const std::string column = sum.indices.size() == 2 ? std::next(sum.indices.begin())->first : "";
    if (factor != Rational(1) && factor != Rational(-1)) return false;
    if (!column.empty() && !(std::next(sum.indices.begin())->second + factor).is_zero()) return false;
    if (!out.rows.empty() && (out.rows != row || out.columns != column)) return false;
    out.rows = row;
    out.columns = column;
    auto& bound = factor == Rational(1) ? out.lower : out.upper;
    if (bound) return false;
    bound = factor == Rational(1) ? Polynomial() - sum.rest : sum.rest;
    return true;
  };
  if (formula.kind() != Formula::Kind::conjunction) return add(formula) ? std::optional(out) : std::nullopt;
  for (const Formula& part : formula.parts())
    if (!add(part)) return std::nullopt;
  return out;
}

// Separates sequence(S) == sequence(T) from the rest of a conjunction.
std::optional<IndexMask> find_band_of_sequences(const Program& program, const Formula& formula) {
  Formula rest(true);
  std::string rows, columns;
  int found = 0;
  const std::vector<Formula> parts =
      formula.kind() == Formula::Kind::conjunction ? formula.parts() : std::vector<Formula>{formula};
  for (const Formula& part : parts) {
    const bool is_sequence = part.kind() == Formula::Kind::at_least_zero && part.sum().sequences.size() == 2 &&
                             part.sum().indices.empty() && part.sum().quotients.empty() && part.sum().rest.is_zero();
    if (!is_sequence) {
      rest = rest && part;
      continue;
    }
    const auto& [first, factor] = *part.sum().sequences.begin();
    const auto& [second, other] = *std::next(part.sum().sequences.begin());
    if (!(factor + other).is_zero() || (found > 0 && (rows != first || columns != second))) return std::nullopt;
    rows = first;
    columns = second;
    ++found;
  }
  if (found != 2) return std::nullopt;
  std::optional<IndexMask> out = rest.is_all() ? IndexMask{.rows = rows, .columns = columns} : find_band(rest);
  if (!out || out->rows != rows || out->columns != columns) return std::nullopt;
  out->row_lengths = lengths_along(program, rows);
  out->column_lengths = lengths_along(program, columns);
  return out;
}

// For some index along the other dimension: i >= lower follows from i - j >= lower and j >= 0, i <= size - 1 + upper
// from j < size. Requires that the bounds do not exclude each other.
std::optional<IndexMask> project_band(const IndexMask& band, const std::map<std::string, std::string>& bound) {
  if (band.lower && band.upper) {
    const auto width = (*band.upper - *band.lower).as_constant();
    if (!width || *width < Rational(0)) return std::nullopt;
  }
  const bool keeps_rows = bound.contains(band.columns);
  const std::string other = bound.at(keeps_rows ? band.columns : band.rows);
  const Polynomial last = Polynomial::make_symbol(other) - 1;
  IndexMask out{.rows = keeps_rows ? band.rows : band.columns};
  if (keeps_rows) {
    out.lower = band.lower;
    if (band.upper) out.upper = last + *band.upper;
  } else {
    if (band.upper) out.lower = Polynomial() - *band.upper;
    if (band.lower) out.upper = last - *band.lower;
  }
  return out;
}

constexpr std::size_t max_region_sums = 1000;  // Longer formulas take milliseconds

// Elements that the second pass has found to be needed; nullopt if nothing is.
using Need = std::optional<Region>;

class IndexMaskFinder {
 public:
  IndexMaskFinder(const Program& program, ProgramMasks& masks)
      : program_(program), masks_(masks), values_(program.tensors.size()), needs_(program.tensors.size()) {}

  void find_all() {
    for (std::size_t s = 0; s < program_.statements.size(); ++s)
      if (const auto* e = std::get_if<Expression>(&program_.statements[s].op))
        find_values(*e);
      else
        find_values(std::get<Contraction>(program_.statements[s].op));
    for (std::size_t s = program_.statements.size(); s-- > 0;) {
      statement_ = &masks_.statements[s];
      if (const auto* e = std::get_if<Expression>(&program_.statements[s].op))
        find_needs(*e);
      else
        find_needs(std::get<Contraction>(program_.statements[s].op));
    }
    for (const auto& [tensor, read] : all_reads_)
      if (readers_[tensor].size() > 1)
        if (const int mask = mask_index(read.first, axes(tensor), read.second); mask >= 0)
          masks_.read_by_all[tensor] = mask;
    name_symbols();
  }

 private:
  const std::vector<Axis>& axes(int tensor) const { return program_.tensors[tensor].axes; }
  const ValueCases& values(int tensor) const { return values_[static_cast<std::size_t>(tensor)]; }

  void find_values(const Contraction& op);
  void find_values(const Expression& op);
  std::vector<ValueCases> find_node_values(const Expression& op);
  ValueCases find_node_value(const Expression& op, std::size_t n, const std::vector<ValueCases>& known);
  void find_needs(const Contraction& op);
  void find_needs(const Expression& op);
  void add_argument_needs(const Expression& op, std::size_t n, const Region& computed,
                          const std::vector<ValueCases>& known, const std::vector<bool>& of_indices,
                          std::vector<Need>& needs);

  // Returns the elements of a result that are read, or all of an output.
  Region needed_result(int tensor) const {
    const Need& need = needs_[static_cast<std::size_t>(tensor)];
    return program_.tensors[tensor].role == TensorRole::output || !need ? Region() : *need;
  }
  // Regions that are too long to follow become everything.
  void add_need(Need& to, const Region& region, int tensor) {
    to = to ? to->unite(region) : region;
    if (to->formula().size() <= max_region_sums) return;
    to = Region();
    add_note(fmt::format("the parts of {} that are needed are too many to follow: all of it counts",
                         program_.tensors[tensor].name));
  }
  void add_read(int tensor, const Region& region, const std::vector<Axis>& space) {
    const Region projected = region.project(axes(tensor));
    add_need(needs_[static_cast<std::size_t>(tensor)], projected, tensor);
    if (program_.tensors[tensor].role != TensorRole::input) return;
    const auto [known, is_new] = reads_.emplace(tensor, std::pair(projected, space));
    if (!is_new) known->second.first = known->second.first.unite(projected);
  }
  void add_read_masks() {
    for (const auto& [tensor, read] : reads_) {
      if (const int mask = mask_index(read.first, axes(tensor), read.second); mask >= 0)
        statement_->reads[tensor] = mask;
      const auto [known, is_new] = all_reads_.emplace(tensor, read);
      if (!is_new) known->second.first = known->second.first.unite(read.first);
      readers_[tensor].insert(read.first.to_string());
    }
    reads_.clear();
  }

  int mask_index(const Region& region, const std::vector<Axis>& counted, const std::vector<Axis>& space);
  IndexMask make_mask(const CountedRegion& counted) const;
  void add_note(std::string sentence) {
    if (!contains(masks_.not_counted, sentence)) masks_.not_counted.push_back(std::move(sentence));
  }
  void name_symbols();

  const Program& program_;
  ProgramMasks& masks_;
  std::vector<ValueCases> values_;
  std::vector<Need> needs_;
  StatementMasks* statement_ = nullptr;
  // Elements of inputs that the statement reads and the axes of its index space; the same for all statements
  std::map<int, std::pair<Region, std::vector<Axis>>> reads_, all_reads_;
  std::map<int, std::set<std::string>> readers_;  // Distinct regions that statements read of an input
};

IndexMask IndexMaskFinder::make_mask(const CountedRegion& counted) const {
  const bool split = !counted.mesh.empty();
  const auto& bound = counted.region.bound();
  auto band = split ? std::nullopt : find_band(counted.region.formula());
  if (!split && bound.empty() && !band) band = find_band_of_sequences(program_, counted.region.formula());
  if (band && bound.size() == 1 && !band->columns.empty()) band = project_band(*band, bound);
  if (band && (bound.empty() || band->columns.empty()) && counted_dims(*band) == counted.dims) return *std::move(band);
  IndexMask out{.rows = counted.dims.empty() ? "" : counted.dims.front()};
  out.region = counted;
  return out;
}

// Returns the mask that counts a region's part along the counted axes; -1 if it is everything.
int IndexMaskFinder::mask_index(const Region& region, const std::vector<Axis>& counted,
                                const std::vector<Axis>& space) {
  const Region projected = region.project(counted);
  if (projected.is_all()) return -1;
  CountedRegion out{.region = projected, .dims = projected.free_dims()};
  std::vector<std::string> dims = out.dims;
  for (const auto& each : projected.bound()) dims.push_back(each.second);
  for (const std::string& dim : dims) {
    for (const auto* all : {&counted, &space})
      for (const Axis& axis : *all)
        if (axis.dim == dim && !axis.mesh.empty()) out.mesh[dim] = axis.mesh;
    if (const auto& lengths = lengths_along(program_, dim); !lengths.empty()) out.sequences[dim] = lengths;
  }
  const IndexMask mask = make_mask(out);
  const auto known = std::find_if(masks_.all.begin(), masks_.all.end(),
                                  [&](const IndexMask& each) { return each.has_same_condition(mask); });
  if (known != masks_.all.end()) return static_cast<int>(known - masks_.all.begin());
  masks_.all.push_back(mask);
  return static_cast<int>(masks_.all.size()) - 1;
}

// A sum is 0 where all its terms are: where a factor's zeros do not depend on the summed dimensions.
void IndexMaskFinder::find_values(const Contraction& op) {
  std::vector<ValueCase> cases;
  Formula rest(true);
  for (const int operand : {op.left, op.right}) {
    for (const ValueCase& each : values(operand).cases()) {
      const std::set<std::string> variables = each.where.variables();
      const auto is_kept = [&](const std::string& v) { return has_dim(axes(op.result), v); };
      const bool grouped = op.grouped && op.grouped->tensor == operand && variables.contains(op.grouped->group);
      if (!each.value.is_constant(0) || grouped || !std::all_of(variables.begin(), variables.end(), is_kept)) continue;
      cases.push_back({rest && each.where, each.value});
      rest = rest && !each.where;
    }
  }
  cases.push_back({rest, {}});
  const ValueCases out(cases);
  if (out.is_simple()) values_[static_cast<std::size_t>(op.result)] = out;
}

ValueCases IndexMaskFinder::find_node_value(const Expression& op, std::size_t n, const std::vector<ValueCases>& known) {
  const Node& node = op.nodes[n];
  switch (node.kind) {
    case Node::Kind::tensor: return values(node.tensor);
    case Node::Kind::number: return ValueCases(make_number(node.number));
    case Node::Kind::size: return ValueCases(make_finite({.rest = node.over[0].extent()}));
    case Node::Kind::index:
      if (!node.over[0].is_named()) return ValueCases(IndexValue{.depends_on_indices = true});
      return ValueCases(make_finite({.indices = {{node.over[0].dim, 1}}}));
    case Node::Kind::sequence: return ValueCases(make_finite({.sequences = {{node.over[0].dim, 1}}}));
    case Node::Kind::along_dims: return apply_along(node, known[static_cast<std::size_t>(node.arguments[0])]);
    case Node::Kind::call: break;
    case Node::Kind::previous:
    case Node::Kind::routine: return {};
  }
  std::vector<ValueCases> arguments;
  for (const int a : node.arguments) arguments.push_back(known[static_cast<std::size_t>(a)]);
  return apply_function(node.function, node.repeat, arguments);
}

bool is_comparison(const Node& node) {
  return node.kind == Node::Kind::call && function_info(node.function).syntax == FunctionSyntax::comparison;
}

// True if a condition on indices chooses a large negative number, which softmax makes a weight of almost, but not
// certainly, 0.
bool has_finite_mask(const Expression& op, const Node& node, const std::vector<ValueCases>& known) {
  const auto is_softmax = [](const Node& n) {
    return n.kind == Node::Kind::along_dims && n.function == Function::softmax;
  };
  if (node.kind != Node::Kind::call || node.function != Function::where || std::ranges::none_of(op.nodes, is_softmax))
    return false;
  const auto is_large = [&](std::size_t i) {
    const Node& branch = op.nodes[node.arguments[i]];
    return branch.kind == Node::Kind::number && branch.number <= -1000 && std::isfinite(branch.number);
  };
  const Formula first = known[static_cast<std::size_t>(node.arguments[0])].where_nonzero();
  return !first.is_all() && !first.is_none() && (is_large(1) || is_large(2));
}

// Values that are too many to follow are unknown. Notes conditions on indices that are not understood or exclude
// nothing.
std::vector<ValueCases> IndexMaskFinder::find_node_values(const Expression& op) {
  std::vector<ValueCases> out;
  for (std::size_t n = 0; n < op.nodes.size(); ++n) {
    ValueCases found = find_node_value(op, n, out);
    const bool is_simple = found.is_simple();
    if (!is_simple) found = ValueCases(IndexValue{.depends_on_indices = true});
    const auto is_open = [](const IndexValue& v) { return !v.is_known() && v.depends_on_indices; };
    if (!is_simple || (is_comparison(op.nodes[n]) && !found.where(is_open).is_none()))
      add_note(fmt::format("the condition {} of {} is not understood as one on indices alone: it excludes no work",
                           print_subexpression(program_, op, n), program_.tensors[op.result].name));
    if (has_finite_mask(op, op.nodes[n], out))
      add_note(fmt::format("{} of {} is finite: no weight of its softmax is known to be 0; -inf makes them 0",
                           print_subexpression(program_, op, n), program_.tensors[op.result].name));
    out.push_back(std::move(found));
  }
  return out;
}

void IndexMaskFinder::find_values(const Expression& op) {
  if (op.routine) return;
  values_[static_cast<std::size_t>(op.result)] = find_node_values(op).back().store();
}

// A group of a grouped operand is used for several indices, which its own index does not tell.
Formula find_support(const Contraction& op, int operand, const ValueCases& values) {
  const Formula out = !values.where_zero();
  const bool grouped = op.grouped && op.grouped->tensor == operand && out.variables().contains(op.grouped->group);
  return grouped ? Formula(true) : out;
}

void IndexMaskFinder::find_needs(const Contraction& op) {
  const std::vector<Axis> all = list_product_axes(program_, op);
  const Region region = needed_result(op.result)
                            .intersect(find_support(op, op.left, values(op.left)))
                            .intersect(find_support(op, op.right, values(op.right)));
  statement_->product = mask_index(region, all, all);
  add_read(op.left, region, all);
  add_read(op.right, region, all);
  add_read_masks();
}

// Returns for each node whether only indices, sizes and numbers occur in it.
std::vector<bool> find_index_nodes(const Expression& op) {
  std::vector<bool> out;
  for (const Node& node : op.nodes)
    out.push_back(node.kind != Node::Kind::tensor && node.kind != Node::Kind::previous &&
                  std::all_of(node.arguments.begin(), node.arguments.end(),
                              [&](int a) { return out[static_cast<std::size_t>(a)]; }));
  return out;
}

// Returns where a function over dimensions does not use its argument.
Formula find_skipped(Function function, const ValueCases& argument) {
  using Kind = IndexValue::Kind;
  const auto has_kind = [&](Kind kind) { return argument.where([&](const IndexValue& v) { return v.kind == kind; }); };
  switch (function) {
    case Function::softmax:
    case Function::max: return has_kind(Kind::minus_infinity);
    case Function::min: return has_kind(Kind::plus_infinity);
    case Function::sum:
    case Function::mean: return argument.where_zero();
    default: return Formula(false);
  }
}

void IndexMaskFinder::add_argument_needs(const Expression& op, std::size_t n, const Region& computed,
                                         const std::vector<ValueCases>& known, const std::vector<bool>& of_indices,
                                         std::vector<Need>& needs) {
  const Node& node = op.nodes[n];
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const auto argument = static_cast<std::size_t>(node.arguments[i]);
    Region region = computed;
    if (node.kind == Node::Kind::call && !of_indices[argument]) region = region.intersect(!known[n].where_known());
    if (node.kind == Node::Kind::call && node.function == Function::where && i > 0) {
      const ValueCases& condition = known[static_cast<std::size_t>(node.arguments[0])];
      region = region.intersect(!(i == 1 ? condition.where_zero() : condition.where_nonzero()));
    }
    add_need(needs[argument], region, op.result);
  }
}

void IndexMaskFinder::find_needs(const Expression& op) {
  if (op.routine) {
    for (const int tensor : expression_operands(op)) add_read(tensor, Region(), axes(tensor));
    return add_read_masks();
  }
  const std::vector<ValueCases> known = find_node_values(op);
  const std::vector<bool> of_indices = find_index_nodes(op);
  const IndexSpaces spaces = find_sharded_spaces(program_, op);
  const auto space_axes = [&](std::size_t n) -> const std::vector<Axis>& {
    const auto space = static_cast<std::size_t>(spaces.space_of_node[n]);
    return space == 0 ? axes(op.result) : spaces.axes[space];
  };
  std::vector<Need> needs(op.nodes.size());
  needs.back() = needed_result(op.result);
  statement_->nodes.assign(op.nodes.size(), -1);
  for (std::size_t n = op.nodes.size(); n-- > 0;) {
    const Node& node = op.nodes[n];
    if (!needs[n]) continue;
    if (node.kind == Node::Kind::tensor) add_read(node.tensor, *needs[n], space_axes(n));
    if (node.arguments.empty()) continue;
    Region computed = *needs[n];
    auto inside = n;
    if (node.kind == Node::Kind::along_dims) {
      inside = static_cast<std::size_t>(node.arguments[0]);
      computed = computed.bind(node.over).project(space_axes(inside));
      computed = computed.intersect(!find_skipped(node.function, known[inside]));
    } else if (!of_indices[n]) {
      computed = computed.intersect(!known[n].where_zero());
    }
    statement_->nodes[n] = mask_index(computed, space_axes(inside), space_axes(inside));
    add_argument_needs(op, n, computed, known, of_indices, needs);
  }
  add_read_masks();
}

void IndexMaskFinder::name_symbols() {
  std::map<std::string, int> used;
  for (IndexMask& mask : masks_.all) {
    const std::size_t dims = counted_dims(mask).size();
    const char* const names[] = {"indices", "indices", "pairs", "tuples"};
    const std::string name = make_unused_symbol(program_, names[std::min<std::size_t>(dims, 3)]);
    const int number = ++used[name];
    mask.symbol = number == 1 ? name : fmt::format("{}{}", name, number);
  }
}

bool has_index(const Statement& statement) {
  const auto* op = std::get_if<Expression>(&statement.op);
  return op != nullptr && std::any_of(op->nodes.begin(), op->nodes.end(), is_position);
}

}  // namespace

std::vector<Axis> list_product_axes(const Program& program, const Contraction& product) {
  std::vector<Axis> out;
  for (const Axis& axis : program.tensors[product.left].axes)
    if (!is_grouped_axis(product, product.left, axis)) out.push_back(axis);
  for (const Axis& axis : program.tensors[product.right].axes)
    if (!is_grouped_axis(product, product.right, axis) && !contains(out, axis)) out.push_back(axis);
  return out;
}

IndexSpaces find_sharded_spaces(const Program& program, const Expression& op) {
  IndexSpaces found = find_index_spaces(program.tensors, op.nodes);
  if (program.mesh.empty()) return found;
  for (std::vector<Axis>& axes : found.axes)
    for (Axis& axis : axes) axis.mesh = find_mesh_axes(program, op, axis);
  return found;
}

bool has_index_masks(const Program& program) {
  return std::any_of(program.statements.begin(), program.statements.end(), has_index);
}

void add_index_masks(const Program& program, ProgramMasks& masks) {
  if (has_index_masks(program)) IndexMaskFinder(program, masks).find_all();
}

}  // namespace ridge

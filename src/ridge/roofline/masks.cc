#include "ridge/roofline/masks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ridge/roofline/routines/routings.h"
#include "ridge/roofline/routines/windows.h"

namespace ridge {
namespace {

// Sum of indices and of a polynomial in sizes.
struct LinearIndex {
  std::map<std::string, int> indices;
  Polynomial rest;
};

LinearIndex add_scaled(LinearIndex a, const LinearIndex& b, int sign) {
  for (const auto& [dim, factor] : b.indices)
    if ((a.indices[dim] += sign * factor) == 0) a.indices.erase(dim);
  a.rest += b.rest * sign;
  return a;
}

std::optional<LinearIndex> to_linear_index(const std::vector<Node>& nodes, int at) {
  const Node& node = nodes[at];
  if (node.kind == Node::Kind::number) {
    if (node.number != std::floor(node.number) || std::abs(node.number) >= 0x1p53) return std::nullopt;
    return LinearIndex{{}, static_cast<std::int64_t>(node.number)};
  }
  if (node.kind == Node::Kind::size) return LinearIndex{{}, node.over[0].extent()};
  if (node.kind == Node::Kind::index && node.over[0].is_named()) return LinearIndex{{{node.over[0].dim, 1}}, 0};
  if (node.kind != Node::Kind::call || node.repeat != 1) return std::nullopt;
  const auto first = to_linear_index(nodes, node.arguments[0]);
  if (!first) return std::nullopt;
  if (node.function == Function::negate) return add_scaled({}, *first, -1);
  if (node.function != Function::add && node.function != Function::subtract) return std::nullopt;
  const auto second = to_linear_index(nodes, node.arguments[1]);
  if (!second) return std::nullopt;
  return add_scaled(*first, *second, node.function == Function::add ? 1 : -1);
}

// Returns sum >= 0 as a bound on i - j, or nullopt if it is not one.
std::optional<IndexMask> nonnegative_mask(const LinearIndex& sum) {
  if (sum.indices.size() != 2) return std::nullopt;
  const auto& [rows, factor] = *sum.indices.begin();
  const auto& [columns, other] = *std::next(sum.indices.begin());
  if (factor * other != -1) return std::nullopt;
  IndexMask mask{.rows = rows, .columns = columns};
  if (factor == 1)
    mask.lower = Polynomial() - sum.rest;
  else
    mask.upper = sum.rest;
  return mask;
}

// Handles sequence(S) == sequence(T).
std::optional<IndexMask> same_sequence_mask(const Program& program, const std::vector<Node>& nodes, const Node& node) {
  const Node &a = nodes[node.arguments[0]], &b = nodes[node.arguments[1]];
  if (a.kind != Node::Kind::sequence || b.kind != Node::Kind::sequence || node.function != Function::equal)
    return std::nullopt;
  const std::string &first = std::min(a.over[0].dim, b.over[0].dim), &second = std::max(a.over[0].dim, b.over[0].dim);
  if (first == second) return std::nullopt;
  return IndexMask{.rows = first,
                   .columns = second,
                   .row_lengths = lengths_along(program, first),
                   .column_lengths = lengths_along(program, second)};
}

std::optional<IndexMask> comparison_mask(const Program& program, const std::vector<Node>& nodes, const Node& node) {
  if (auto same = same_sequence_mask(program, nodes, node)) return same;
  const auto left = to_linear_index(nodes, node.arguments[0]), right = to_linear_index(nodes, node.arguments[1]);
  if (!left || !right) return std::nullopt;
  const bool strict = node.function == Function::less || node.function == Function::greater;
  const bool right_is_larger = node.function == Function::less || node.function == Function::less_equal;
  LinearIndex sum = right_is_larger ? add_scaled(*right, *left, -1) : add_scaled(*left, *right, -1);
  if (strict) sum.rest += -1;
  auto mask = nonnegative_mask(sum);
  if (!mask || node.function != Function::equal) return mask;
  (mask->lower ? mask->upper : mask->lower) = mask->lower ? *mask->lower : *mask->upper;
  return mask;
}

// Returns the conjunction of two masks, or nullopt if they bound the same side or use different indices.
std::optional<IndexMask> intersect_masks(const std::optional<IndexMask>& a, const std::optional<IndexMask>& b) {
  if (!a || !b || a->rows != b->rows || a->columns != b->columns) return std::nullopt;
  if ((a->lower && b->lower) || (a->upper && b->upper)) return std::nullopt;
  if (!a->row_lengths.empty() && !b->row_lengths.empty()) return std::nullopt;
  IndexMask out = a->row_lengths.empty() ? *b : *a;
  if (a->lower) out.lower = a->lower;
  if (a->upper) out.upper = a->upper;
  if (b->lower) out.lower = b->lower;
  if (b->upper) out.upper = b->upper;
  return out;
}

std::optional<IndexMask> condition_mask(const Program& program, const std::vector<Node>& nodes, int at) {
  const Node& node = nodes[at];
  if (node.kind != Node::Kind::call) return std::nullopt;
  switch (node.function) {
    case Function::less:
    case Function::less_equal:
    case Function::greater:
    case Function::greater_equal:
    case Function::equal: return comparison_mask(program, nodes, node);
    case Function::multiply:
    case Function::min:
      return intersect_masks(condition_mask(program, nodes, node.arguments[0]),
                             condition_mask(program, nodes, node.arguments[1]));
    default: return std::nullopt;
  }
}

std::optional<double> constant_value(const std::vector<Node>& nodes, int at) {
  const Node& node = nodes[at];
  if (node.kind == Node::Kind::number) return node.number;
  if (node.kind != Node::Kind::call || node.function != Function::negate) return std::nullopt;
  const auto inner = constant_value(nodes, node.arguments[0]);
  return inner ? std::optional(-*inner) : std::nullopt;
}

// Finds tensors that are 0 or -inf outside a mask (forward), and tensors that are read only inside one (backward).
class MaskFinder {
 public:
  explicit MaskFinder(const Program& program)
      : program_(program),
        zero_outside_(program.tensors.size(), -1),
        infinite_outside_(program.tensors.size(), -1),
        read_inside_(program.tensors.size(), unread) {
    masks_.statements.resize(program.statements.size());
  }

  ProgramMasks find_all() {
    for (const Statement& statement : program_.statements)
      if (const auto* e = std::get_if<Expression>(&statement.op)) propagate_zeros(*e);
    if (!has_where_) return std::move(masks_);
    for (std::size_t s = program_.statements.size(); s-- > 0;) {
      const Statement& statement = program_.statements[s];
      if (const auto* e = std::get_if<Expression>(&statement.op))
        mark_expression(*e, masks_.statements[s]);
      else
        mark_product(std::get<Contraction>(statement.op), masks_.statements[s]);
    }
    name_symbols();
    return std::move(masks_);
  }

 private:
  static constexpr int unread = -2;

  int mask_index(const std::optional<IndexMask>& mask) {
    if (!mask) return -1;
    const auto same = [&](const IndexMask& known) { return known.has_same_condition(*mask); };
    const auto known = std::find_if(masks_.all.begin(), masks_.all.end(), same);
    if (known != masks_.all.end()) return static_cast<int>(known - masks_.all.begin());
    masks_.all.push_back(*mask);
    return static_cast<int>(masks_.all.size()) - 1;
  }

  // Returns the mask outside which a where() equals its last argument `otherwise`, or -1.
  int where_mask(const std::vector<Node>& nodes, const Node& node, double otherwise) {
    if (node.kind != Node::Kind::call || node.function != Function::where) return -1;
    return constant_value(nodes, node.arguments[2]) == otherwise
               ? mask_index(condition_mask(program_, nodes, node.arguments[0]))
               : -1;
  }

  // For each node, the mask outside which it is 0 and the mask outside which it is -inf.
  struct NodeMasks {
    std::vector<int> zero, infinite;
  };
  NodeMasks find_node_masks(const Expression& op) {
    NodeMasks out;
    for (const Node& node : op.nodes) {
      has_where_ = has_where_ || (node.kind == Node::Kind::call && node.function == Function::where);
      int zero = where_mask(op.nodes, node, 0), infinite = where_mask(op.nodes, node, -INFINITY);
      const auto argument = [&](std::size_t i) { return static_cast<std::size_t>(node.arguments[i]); };
      if (node.kind == Node::Kind::tensor) {
        zero = zero_outside_[node.tensor];
        infinite = infinite_outside_[node.tensor];
      } else if (node.kind == Node::Kind::along_dims && node.function == Function::softmax) {
        const int mask = out.infinite[argument(0)];
        if (mask >= 0 && (has_dim(node.over, masks_.all[mask].rows) || has_dim(node.over, masks_.all[mask].columns)))
          zero = mask;
      } else if (node.kind == Node::Kind::call && node.function == Function::multiply) {
        zero = std::max(out.zero[argument(0)], out.zero[argument(1)]);
      } else if (node.kind == Node::Kind::call && node.function == Function::divide) {
        zero = out.zero[argument(0)];
      }
      out.zero.push_back(zero);
      out.infinite.push_back(infinite);
    }
    return out;
  }

  void propagate_zeros(const Expression& op) {
    if (op.routine) return;
    const NodeMasks node_masks = find_node_masks(op);
    zero_outside_[op.result] = node_masks.zero.back();
    infinite_outside_[op.result] = node_masks.infinite.back();
  }

  // Returns the mask inside which all reads of a result are, or -1.
  int read_mask(int tensor) const {
    const std::size_t t = tensor;
    return program_.tensors[t].role == TensorRole::output || read_inside_[t] == unread ? -1 : read_inside_[t];
  }
  void add_read(int tensor, int mask) {
    int& known = read_inside_[tensor];
    known = known == unread || known == mask ? mask : -1;
  }

  void mark_product(const Contraction& op, StatementMasks& out) {
    out.product = std::max({read_mask(op.result), zero_outside_[op.left], zero_outside_[op.right]});
    add_read(op.left, -1);
    add_read(op.right, -1);
  }

  // Returns the mask inside which `user` needs the value of its i-th argument.
  int use_mask(const Node& user, std::size_t i, int user_inside, const std::vector<Node>& nodes,
               const NodeMasks& node_masks) {
    const std::size_t node = user.arguments[i];
    if (user.kind == Node::Kind::along_dims) {
      if (user.function == Function::softmax) return node_masks.infinite[node];
      return user.function == Function::sum ? node_masks.zero[node] : -1;
    }
    const bool chosen = user.function == Function::where && i == 1;
    const int mask = chosen ? mask_index(condition_mask(program_, nodes, user.arguments[0])) : -1;
    return mask >= 0 ? mask : user_inside;
  }

  void mark_expression(const Expression& op, StatementMasks& out) {
    if (op.routine) {
      for (const int tensor : expression_operands(op)) add_read(tensor, -1);
      return;
    }
    const NodeMasks node_masks = find_node_masks(op);
    out.nodes.assign(op.nodes.size(), unread);
    out.nodes.back() = node_masks.zero.back() >= 0 ? node_masks.zero.back() : read_mask(op.result);
    for (std::size_t n = op.nodes.size(); n-- > 0;) {
      const Node& node = op.nodes[n];
      if (out.nodes[n] == unread) out.nodes[n] = -1;
      if (node_masks.zero[n] >= 0) out.nodes[n] = node_masks.zero[n];
      for (std::size_t i = 0; i < node.arguments.size(); ++i) {
        int& argument = out.nodes[node.arguments[i]];
        const int mask = use_mask(node, i, out.nodes[n], op.nodes, node_masks);
        argument = argument == unread || argument == mask ? mask : -1;
      }
      if (node.kind == Node::Kind::tensor) add_read(node.tensor, out.nodes[n]);
      if (node.kind == Node::Kind::along_dims && node_masks.zero[n] < 0)  // A sum needs only nonzero terms
        out.nodes[n] = node.function == Function::sum ? node_masks.zero[node.arguments[0]] : -1;
    }
  }

  void name_symbols() {
    const std::vector<std::string> dims = program_.dim_names();
    std::string symbol = "pairs";
    while (std::any_of(dims.begin(), dims.end(), [&](const std::string& dim) { return dim.starts_with(symbol); }))
      symbol += "_";
    for (std::size_t i = 0; i < masks_.all.size(); ++i)
      masks_.all[i].symbol = i == 0 ? symbol : fmt::format("{}{}", symbol, i + 1);
  }

  const Program& program_;
  ProgramMasks masks_;
  std::vector<int> zero_outside_, infinite_outside_, read_inside_;
  bool has_where_ = false;  // True if a statement uses where()
};

// Counts pairs with i - j >= c, 0 <= i < rows, 0 <= j < columns. Row i has min(columns, i - c + 1) of them.
__int128 count_pairs_from(__int128 c, __int128 rows, __int128 columns) {
  const __int128 first = std::max<__int128>(0, c);
  if (first >= rows) return 0;
  const __int128 first_row_pairs = first - c + 1, last_row_pairs = rows - c;
  const auto triangle = [](__int128 n) { return n * (n + 1) / 2; };
  if (first_row_pairs >= columns) return (rows - first) * columns;
  if (last_row_pairs <= columns) return triangle(last_row_pairs) - triangle(first_row_pairs - 1);
  return triangle(columns) - triangle(first_row_pairs - 1) + (last_row_pairs - columns) * columns;
}

// Counts the pairs with both indices in the same sequence; the sequences are contiguous along both dimensions.
std::optional<std::int64_t> count_sequence_pairs(const IndexMask& mask, __int128 lower, __int128 upper) {
  __int128 count = 0, row = 0, column = 0;
  for (std::size_t i = 0; i < std::min(mask.row_lengths.size(), mask.column_lengths.size()); ++i) {
    const std::int64_t rows = mask.row_lengths[i], columns = mask.column_lengths[i];
    const __int128 shift = row - column;
    count += count_pairs_from(lower - shift, rows, columns) - count_pairs_from(upper + 1 - shift, rows, columns);
    row += rows;
    column += columns;
  }
  if (count > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(count);
}

}  // namespace

std::string make_unused_symbol(const Program& program, std::string symbol) {
  const std::vector<std::string> dims = program.dim_names();
  while (std::any_of(dims.begin(), dims.end(), [&](const std::string& dim) { return dim.starts_with(symbol); }))
    symbol += "_";
  return symbol;
}

ProgramMasks find_masks(const Program& program) {
  ProgramMasks out = MaskFinder(program).find_all();
  add_window_masks(program, out);
  add_routing_masks(program, out);
  return out;
}

std::vector<std::string> dependency_dims(const IndexMask& mask) {
  if (mask.window) return dependency_dims(*mask.window);
  if (mask.routing) return dependency_dims(*mask.routing);
  std::vector<std::string> out{mask.rows, mask.columns};
  for (const auto* bound : {&mask.lower, &mask.upper})
    if (*bound)
      for (std::string& symbol : (*bound)->symbols()) out.push_back(std::move(symbol));
  return out;
}

std::optional<std::int64_t> count_unmasked(const IndexMask& mask, const Bindings& dims) {
  if (mask.window) return count_window(*mask.window, mask.window_count, dims);
  if (mask.routing) return count_routing(*mask.routing, mask.routing_count, dims);
  const auto rows = dims.find(mask.rows), columns = dims.find(mask.columns);
  if (rows == dims.end() || columns == dims.end()) return std::nullopt;
  constexpr std::int64_t largest = std::int64_t{1} << 62;
  if (rows->second >= largest || columns->second >= largest) return std::nullopt;
  std::optional<std::int64_t> lower = -columns->second, upper = rows->second;
  for (const auto& [bound, value] : {std::pair{&mask.lower, &lower}, {&mask.upper, &upper}}) {
    if (!*bound) continue;
    const auto found = (*bound)->evaluate(dims);
    if (!found) return std::nullopt;
    *value = std::clamp(*found, -largest, largest);
  }
  if (*lower > *upper) return 0;
  if (!mask.row_lengths.empty()) return count_sequence_pairs(mask, *lower, *upper);
  const __int128 count = count_pairs_from(*lower, rows->second, columns->second) -
                         count_pairs_from(static_cast<__int128>(*upper) + 1, rows->second, columns->second);
  if (count > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(count);
}

std::optional<Polynomial> mask_closed_form(const IndexMask& mask, const Program& program, const Bindings& given) {
  if (mask.window || mask.routing || !mask.row_lengths.empty()) return std::nullopt;
  const auto follows = [&](const std::string& dim, const std::string& other) {
    if (given.contains(dim)) return false;
    return std::any_of(program.dims.begin(), program.dims.end(), [&](const Dimension& d) {
      return d.name == dim && d.value && *d.value == Polynomial::make_symbol(other);
    });
  };
  const bool tied = follows(mask.rows, mask.columns) || follows(mask.columns, mask.rows);
  if (!tied || mask.lower.has_value() == mask.upper.has_value()) return std::nullopt;
  const std::optional<Rational> offset = mask.lower ? mask.lower->as_constant() : mask.upper->as_constant();
  const bool is_lower_bound = mask.lower.has_value();
  const Rational strict = is_lower_bound ? 1 : -1;  // Bound on i - j that excludes i = j
  if (!offset || (!offset->is_zero() && *offset != strict)) return std::nullopt;
  const Polynomial n = Polynomial::make_symbol(follows(mask.rows, mask.columns) ? mask.columns : mask.rows);
  return (n * n + n * (offset->is_zero() ? 1 : -1)) * Rational(1, 2);
}

std::string format_mask(const IndexMask& mask) {
  if (mask.window) return format_window(*mask.window, mask.window_count);
  if (mask.routing) return fmt::format("over {}", mask.columns);
  const std::string same = fmt::format("sequence({}) == sequence({})", mask.rows, mask.columns);
  if (!mask.row_lengths.empty() && !mask.lower && !mask.upper) return same;
  std::string out = fmt::format("index({}) - index({})", mask.rows, mask.columns);
  if (!mask.row_lengths.empty()) out += ", " + same;
  if (mask.lower) out = fmt::format("{} <= {}", mask.lower->to_string(), out);
  if (mask.upper) out = fmt::format("{} <= {}", out, mask.upper->to_string());
  return out;
}

}  // namespace ridge

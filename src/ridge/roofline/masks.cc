#include "ridge/roofline/masks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ridge/roofline/routines/routings.h"
#include "ridge/roofline/routines/windows.h"

namespace ridge {
namespace {

// A sum of indices and of what is no index.
struct Linear {
  std::map<std::string, int> indices;
  Polynomial rest;
};

Linear added(Linear a, const Linear& b, int sign) {
  for (const auto& [dim, factor] : b.indices)
    if ((a.indices[dim] += sign * factor) == 0) a.indices.erase(dim);
  a.rest += b.rest * sign;
  return a;
}

std::optional<Linear> linear(const std::vector<Node>& nodes, int at) {
  const Node& node = nodes[static_cast<std::size_t>(at)];
  if (node.kind == Node::Kind::number) {
    if (node.number != std::floor(node.number) || std::abs(node.number) >= 0x1p53) return std::nullopt;
    return Linear{{}, static_cast<std::int64_t>(node.number)};
  }
  if (node.kind == Node::Kind::size) return Linear{{}, node.over[0].extent()};
  if (node.kind == Node::Kind::index && node.over[0].named()) return Linear{{{node.over[0].dim, 1}}, 0};
  if (node.kind != Node::Kind::call || node.repeat != 1) return std::nullopt;
  const auto first = linear(nodes, node.arguments[0]);
  if (!first) return std::nullopt;
  if (node.function == Function::negate) return added({}, *first, -1);
  if (node.function != Function::add && node.function != Function::subtract) return std::nullopt;
  const auto second = linear(nodes, node.arguments[1]);
  if (!second) return std::nullopt;
  return added(*first, *second, node.function == Function::add ? 1 : -1);
}

// sum >= 0 as a condition on i - j, where it is one.
std::optional<Mask> at_least_zero(const Linear& sum) {
  if (sum.indices.size() != 2) return std::nullopt;
  const auto& [rows, factor] = *sum.indices.begin();
  const auto& [columns, other] = *std::next(sum.indices.begin());
  if (factor * other != -1) return std::nullopt;
  Mask mask{.rows = rows, .columns = columns};
  if (factor == 1)
    mask.lower = Polynomial() - sum.rest;
  else
    mask.upper = sum.rest;
  return mask;
}

// sequence(S) == sequence(T)
std::optional<Mask> same_sequence(const Program& program, const std::vector<Node>& nodes, const Node& node) {
  const Node &a = nodes[static_cast<std::size_t>(node.arguments[0])],
             &b = nodes[static_cast<std::size_t>(node.arguments[1])];
  if (a.kind != Node::Kind::sequence || b.kind != Node::Kind::sequence || node.function != Function::equal)
    return std::nullopt;
  const std::string &first = std::min(a.over[0].dim, b.over[0].dim), &second = std::max(a.over[0].dim, b.over[0].dim);
  if (first == second) return std::nullopt;
  return Mask{.rows = first,
              .columns = second,
              .row_lengths = lengths_along(program, first),
              .column_lengths = lengths_along(program, second)};
}

std::optional<Mask> comparison(const Program& program, const std::vector<Node>& nodes, const Node& node) {
  if (auto same = same_sequence(program, nodes, node)) return same;
  const auto left = linear(nodes, node.arguments[0]), right = linear(nodes, node.arguments[1]);
  if (!left || !right) return std::nullopt;
  const bool strict = node.function == Function::less || node.function == Function::greater;
  const bool right_is_larger = node.function == Function::less || node.function == Function::less_equal;
  Linear sum = right_is_larger ? added(*right, *left, -1) : added(*left, *right, -1);
  if (strict) sum.rest += -1;
  auto mask = at_least_zero(sum);
  if (!mask || node.function != Function::equal) return mask;
  (mask->lower ? mask->upper : mask->lower) = mask->lower ? *mask->lower : *mask->upper;
  return mask;
}

// Both hold. None: they bound the same side, or other indices.
std::optional<Mask> both(const std::optional<Mask>& a, const std::optional<Mask>& b) {
  if (!a || !b || a->rows != b->rows || a->columns != b->columns) return std::nullopt;
  if ((a->lower && b->lower) || (a->upper && b->upper)) return std::nullopt;
  if (!a->row_lengths.empty() && !b->row_lengths.empty()) return std::nullopt;
  Mask out = a->row_lengths.empty() ? *b : *a;
  if (a->lower) out.lower = a->lower;
  if (a->upper) out.upper = a->upper;
  if (b->lower) out.lower = b->lower;
  if (b->upper) out.upper = b->upper;
  return out;
}

std::optional<Mask> condition(const Program& program, const std::vector<Node>& nodes, int at) {
  const Node& node = nodes[static_cast<std::size_t>(at)];
  if (node.kind != Node::Kind::call) return std::nullopt;
  switch (node.function) {
    case Function::less:
    case Function::less_equal:
    case Function::greater:
    case Function::greater_equal:
    case Function::equal: return comparison(program, nodes, node);
    case Function::multiply:
    case Function::min:
      return both(condition(program, nodes, node.arguments[0]), condition(program, nodes, node.arguments[1]));
    default: return std::nullopt;
  }
}

std::optional<double> number(const std::vector<Node>& nodes, int at) {
  const Node& node = nodes[static_cast<std::size_t>(at)];
  if (node.kind == Node::Kind::number) return node.number;
  if (node.kind != Node::Kind::call || node.function != Function::negate) return std::nullopt;
  const auto inner = number(nodes, node.arguments[0]);
  return inner ? std::optional(-*inner) : std::nullopt;
}

bool has(const std::vector<Axis>& axes, const std::string& dim) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.dim == dim; });
}

// Forward: which tensors are 0, or -inf, outside of a mask. Backward: which are only read inside of one.
class Finder {
 public:
  explicit Finder(const Program& program)
      : program_(program),
        zero_(program.tensors.size(), -1),
        infinite_(program.tensors.size(), -1),
        read_(program.tensors.size(), unread) {
    masks_.statements.resize(program.statements.size());
  }

  Masks found() {
    for (const Statement& statement : program_.statements)
      if (const auto* e = std::get_if<Expression>(&statement.op)) follow(*e);
    if (!chooses_) return std::move(masks_);
    for (std::size_t s = program_.statements.size(); s-- > 0;) {
      const Statement& statement = program_.statements[s];
      if (const auto* e = std::get_if<Expression>(&statement.op))
        inside(*e, masks_.statements[s]);
      else
        product(std::get<Contraction>(statement.op), masks_.statements[s]);
    }
    name_symbols();
    return std::move(masks_);
  }

 private:
  static constexpr int unread = -2;

  int index_of(const std::optional<Mask>& mask) {
    if (!mask) return -1;
    const auto same = [&](const Mask& known) { return known.same_condition(*mask); };
    const auto known = std::find_if(masks_.all.begin(), masks_.all.end(), same);
    if (known != masks_.all.end()) return static_cast<int>(known - masks_.all.begin());
    masks_.all.push_back(*mask);
    return static_cast<int>(masks_.all.size()) - 1;
  }

  // The mask outside of which a where() is its last argument, `otherwise`.
  int selected(const std::vector<Node>& nodes, const Node& node, double otherwise) {
    if (node.kind != Node::Kind::call || node.function != Function::where) return -1;
    return number(nodes, node.arguments[2]) == otherwise ? index_of(condition(program_, nodes, node.arguments[0])) : -1;
  }

  // Of each node the mask outside of which it is 0, and that outside of which it is -inf.
  struct Values {
    std::vector<int> zero, infinite;
  };
  Values values(const Expression& op) {
    Values out;
    for (const Node& node : op.nodes) {
      chooses_ = chooses_ || (node.kind == Node::Kind::call && node.function == Function::where);
      int zero = selected(op.nodes, node, 0), infinite = selected(op.nodes, node, -INFINITY);
      const auto argument = [&](std::size_t i) { return static_cast<std::size_t>(node.arguments[i]); };
      if (node.kind == Node::Kind::tensor) {
        zero = zero_[static_cast<std::size_t>(node.tensor)];
        infinite = infinite_[static_cast<std::size_t>(node.tensor)];
      } else if (node.kind == Node::Kind::along && node.function == Function::softmax) {
        const int mask = out.infinite[argument(0)];
        if (mask >= 0 && (has(node.over, masks_.all[static_cast<std::size_t>(mask)].rows) ||
                          has(node.over, masks_.all[static_cast<std::size_t>(mask)].columns)))
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

  void follow(const Expression& op) {
    if (op.routine) return;
    const Values values_of = values(op);
    zero_[static_cast<std::size_t>(op.result)] = values_of.zero.back();
    infinite_[static_cast<std::size_t>(op.result)] = values_of.infinite.back();
  }

  // What a result is only read inside of; -1: everywhere.
  int read(int tensor) const {
    const std::size_t t = static_cast<std::size_t>(tensor);
    return program_.tensors[t].role == Role::output || read_[t] == unread ? -1 : read_[t];
  }
  void reads(int tensor, int mask) {
    int& known = read_[static_cast<std::size_t>(tensor)];
    known = known == unread || known == mask ? mask : -1;
  }

  void product(const Contraction& op, MaskedStatement& out) {
    out.product = std::max(
        {read(op.result), zero_[static_cast<std::size_t>(op.left)], zero_[static_cast<std::size_t>(op.right)]});
    reads(op.left, -1);
    reads(op.right, -1);
  }

  // The mask inside of which a node's value is used by the node that takes it as its i-th argument.
  int used_by(const Node& user, std::size_t i, int user_inside, const std::vector<Node>& nodes, const Values& known) {
    const std::size_t node = static_cast<std::size_t>(user.arguments[i]);
    if (user.kind == Node::Kind::along) {
      if (user.function == Function::softmax) return known.infinite[node];
      return user.function == Function::sum ? known.zero[node] : -1;
    }
    const bool chosen = user.function == Function::where && i == 1;
    const int mask = chosen ? index_of(condition(program_, nodes, user.arguments[0])) : -1;
    return mask >= 0 ? mask : user_inside;
  }

  void inside(const Expression& op, MaskedStatement& out) {
    if (op.routine) {
      for (const int tensor : operands_of(op)) reads(tensor, -1);
      return;
    }
    const Values known = values(op);
    out.nodes.assign(op.nodes.size(), unread);
    out.nodes.back() = known.zero.back() >= 0 ? known.zero.back() : read(op.result);
    for (std::size_t n = op.nodes.size(); n-- > 0;) {
      const Node& node = op.nodes[n];
      if (out.nodes[n] == unread) out.nodes[n] = -1;
      if (known.zero[n] >= 0) out.nodes[n] = known.zero[n];
      for (std::size_t i = 0; i < node.arguments.size(); ++i) {
        int& argument = out.nodes[static_cast<std::size_t>(node.arguments[i])];
        const int mask = used_by(node, i, out.nodes[n], op.nodes, known);
        argument = argument == unread || argument == mask ? mask : -1;
      }
      if (node.kind == Node::Kind::tensor) reads(node.tensor, out.nodes[n]);
      if (node.kind == Node::Kind::along && known.zero[n] < 0)  // a sum of what is 0 outside
        out.nodes[n] = node.function == Function::sum ? known.zero[static_cast<std::size_t>(node.arguments[0])] : -1;
    }
  }

  void name_symbols() {
    const std::vector<std::string> dims = program_.dim_names();
    std::string word = "pairs";
    while (std::any_of(dims.begin(), dims.end(), [&](const std::string& dim) { return dim.starts_with(word); }))
      word += "_";
    for (std::size_t i = 0; i < masks_.all.size(); ++i)
      masks_.all[i].symbol = i == 0 ? word : fmt::format("{}{}", word, i + 1);
  }

  const Program& program_;
  Masks masks_;
  std::vector<int> zero_, infinite_, read_;
  bool chooses_ = false;  // somewhere by a condition
};

// Pairs with i - j >= c, 0 <= i < rows, 0 <= j < columns: in row i so many as min(columns, i - c + 1).
__int128 pairs_from(__int128 c, __int128 rows, __int128 columns) {
  const __int128 first = std::max<__int128>(0, c);
  if (first >= rows) return 0;
  const __int128 least = first - c + 1, most = rows - c;  // in the first and in the last of these rows
  const auto triangle = [](__int128 n) { return n * (n + 1) / 2; };
  if (least >= columns) return (rows - first) * columns;
  if (most <= columns) return triangle(most) - triangle(least - 1);
  return triangle(columns) - triangle(least - 1) + (most - columns) * columns;
}

// Of sequences that lie one behind the other along both dimensions, those in one sequence.
std::optional<std::int64_t> pairs_of_sequences(const Mask& mask, __int128 lower, __int128 upper) {
  __int128 count = 0, row = 0, column = 0;
  for (std::size_t i = 0; i < std::min(mask.row_lengths.size(), mask.column_lengths.size()); ++i) {
    const std::int64_t rows = mask.row_lengths[i], columns = mask.column_lengths[i];
    const __int128 shift = row - column;
    count += pairs_from(lower - shift, rows, columns) - pairs_from(upper + 1 - shift, rows, columns);
    row += rows;
    column += columns;
  }
  if (count > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(count);
}

}  // namespace

Masks masks_of(const Program& program) {
  Masks out = Finder(program).found();
  add_windows(program, out);
  add_routings(program, out);
  return out;
}

std::vector<std::string> hangs_on(const Mask& mask) {
  if (mask.window) return hangs_on(*mask.window);
  if (mask.routing) return hangs_on(*mask.routing);
  std::vector<std::string> out{mask.rows, mask.columns};
  for (const auto* bound : {&mask.lower, &mask.upper})
    if (*bound)
      for (std::string& symbol : (*bound)->symbols()) out.push_back(std::move(symbol));
  return out;
}

std::optional<std::int64_t> pairs(const Mask& mask, const Bindings& dims) {
  if (mask.window) return counted(*mask.window, mask.of_window, dims);
  if (mask.routing) return counted(*mask.routing, mask.of_routing, dims);
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
  if (!mask.row_lengths.empty()) return pairs_of_sequences(mask, *lower, *upper);
  const __int128 count = pairs_from(*lower, rows->second, columns->second) -
                         pairs_from(static_cast<__int128>(*upper) + 1, rows->second, columns->second);
  if (count > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(count);
}

std::optional<Polynomial> closed_form(const Mask& mask, const Program& program, const Bindings& given) {
  if (mask.window || mask.routing || !mask.row_lengths.empty()) return std::nullopt;
  const auto follows = [&](const std::string& dim, const std::string& other) {
    if (given.contains(dim)) return false;
    return std::any_of(program.dims.begin(), program.dims.end(), [&](const Dimension& d) {
      return d.name == dim && d.value && *d.value == Polynomial::symbol(other);
    });
  };
  const bool tied = follows(mask.rows, mask.columns) || follows(mask.columns, mask.rows);
  if (!tied || mask.lower.has_value() == mask.upper.has_value()) return std::nullopt;
  const std::optional<Rational> offset = mask.lower ? mask.lower->constant() : mask.upper->constant();
  const bool down = mask.lower.has_value();
  const Rational strict = down ? 1 : -1;  // of i - j, where equal ones are left out
  if (!offset || (!offset->zero() && *offset != strict)) return std::nullopt;
  const Polynomial n = Polynomial::symbol(follows(mask.rows, mask.columns) ? mask.columns : mask.rows);
  return (n * n + n * (offset->zero() ? 1 : -1)) * Rational(1, 2);
}

std::string text(const Mask& mask) {
  if (mask.window) return text(*mask.window, mask.of_window);
  if (mask.routing) return fmt::format("over {}", mask.columns);
  const std::string same = fmt::format("sequence({}) == sequence({})", mask.rows, mask.columns);
  if (!mask.row_lengths.empty() && !mask.lower && !mask.upper) return same;
  std::string out = fmt::format("index({}) - index({})", mask.rows, mask.columns);
  if (!mask.row_lengths.empty()) out += ", " + same;
  if (mask.lower) out = fmt::format("{} <= {}", mask.lower->text(), out);
  if (mask.upper) out = fmt::format("{} <= {}", out, mask.upper->text());
  return out;
}

}  // namespace ridge

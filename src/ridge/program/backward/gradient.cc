#include "ridge/program/backward/gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "ridge/base/ceil_div.h"
#include "ridge/base/contains.h"
#include "ridge/program/backward/expression_gradient.h"
#include "ridge/program/parser.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace program {
namespace {

// True if the text has the name as a whole word.
bool has_word(std::string_view text, std::string_view name) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '\''; };
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

// Writes the statements of a backward pass, the last forward statement first.
class BackwardWriter {
 public:
  BackwardWriter(const Program& program, const std::map<std::string, std::string>& known, Bindings sizes)
      : program_(program), known_(known), sizes_(std::move(sizes)), names_(program) {
    for (const Tensor& tensor : program.tensors)
      if (!dtype_info(tensor.dtype).is_integer) dtypes_[tensor.name] = tensor.dtype;
  }

  Result<BackwardPass> write() {
    count_contributions();
    for (auto s = static_cast<int>(program_.statements.size()) - 1; s >= 0; --s) RIDGE_TRY_STATUS(write_statement(s));
    return std::move(out_);
  }

 private:
  bool is_read(int tensor) const {
    return std::any_of(program_.statements.begin(), program_.statements.end(),
                       [&](const Statement& each) { return contains(statement_operands(each), tensor); });
  }
  bool can_have_gradient(int tensor) const { return !dtype_info(program_.tensors[tensor].dtype).is_integer; }
  // True if the gradient of a result is an input, or an expression that is known.
  bool is_given(int tensor) const {
    return known_.contains(program_.tensors[tensor].name) || (can_have_gradient(tensor) && !is_read(tensor));
  }

  // Returns the operands that get a gradient from the statement, each once.
  std::vector<int> list_differentiable(const Statement& statement) const {
    const Routine* routine = routine_of(statement);
    if (routine && gives_indices(routine->kind)) return {};
    std::vector<int> out;
    for (const int operand : statement_operands(statement))
      if (can_have_gradient(operand) && !contains(out, operand)) out.push_back(operand);
    return out;
  }

  void count_contributions() {
    expected_.assign(program_.tensors.size(), 0);
    for (auto s = program_.statements.rbegin(); s != program_.statements.rend(); ++s) {
      if (expected_[s->result()] == 0 && !is_given(s->result())) continue;
      for (const int operand : list_differentiable(*s)) ++expected_[operand];
    }
    so_far_.resize(program_.tensors.size());
  }

  std::string axes_of(int tensor) const { return format_axes(program_.tensors[tensor].axes); }

  // Returns the widest floating-point format of the tensors in an expression, which its result has; nothing if it has
  // no such tensor.
  std::optional<DType> find_dtype(const std::string& expression) const {
    std::optional<DType> widest;
    for (const auto& [name, dtype] : dtypes_)
      if (has_word(expression, name)) widest = widest ? wider_dtype(*widest, dtype) : dtype;
    return widest;
  }
  // True if an expression has more bits than a tensor. Formats of fewer than 16 bits hold weights, not gradients.
  bool is_wider(const std::string& expression, DType dtype) const {
    const int bits = dtype_info(dtype).bits;
    const auto found = find_dtype(expression);
    return found && bits >= 16 && dtype_info(*found).bits > bits;
  }

  void add(int forward, const std::string& name, const std::string& axes, const std::string& expression) {
    if (const auto dtype = find_dtype(expression)) dtypes_[name] = *dtype;
    out_.statements.push_back({forward, name, fmt::format("{}{} = {}", name, axes, expression)});
  }

  // Adds the whole gradient of a tensor. It has the tensor's format even if it is computed in a wider one.
  void add_gradient(int forward, const Tensor& tensor, const std::string& name, const std::string& expression) {
    const std::string axes = format_axes(tensor.axes);
    if (!is_wider(expression, tensor.dtype)) return add(forward, name, axes, expression);
    dtypes_[name] = tensor.dtype;
    out_.statements.push_back(
        {forward, name, fmt::format("{}: {}{} = {}", name, dtype_name(tensor.dtype), axes, expression)});
  }

  void declare(const std::string& name, DType dtype, const std::string& axes) {
    dtypes_[name] = dtype;
    out_.declarations.push_back(fmt::format("data {}: {}{}", name, dtype_name(dtype), axes));
  }

  // Adds a term of an operand's gradient. The last term completes the gradient.
  void add_term(int forward, int tensor, const std::string& expression) {
    const Tensor& of = program_.tensors[tensor];
    const std::string name = "d" + of.name;
    std::vector<std::string>& terms = so_far_[tensor];
    const bool is_only = expected_[tensor] == 1;
    // The gradient of a summand is that of the sum.
    if (names_.has(expression) && !(is_only && is_wider(expression, of.dtype))) {
      terms.push_back(expression);
    } else if (is_only) {
      terms.push_back(names_.make_unique(name));
      add_gradient(forward, of, terms.back(), expression);
    } else {
      terms.push_back(names_.make_unique(fmt::format("{}_{}", name, terms.size() + 1)));
      add(forward, terms.back(), axes_of(tensor), expression);
    }
    if (static_cast<int>(terms.size()) < expected_[tensor]) return;
    std::string sum = terms.front();
    for (std::size_t i = 1; i < terms.size(); ++i) sum += " + " + terms[i];
    if (!is_only) {
      const std::string whole = names_.make_unique(name);
      add_gradient(forward, of, whole, sum);
      sum = whole;
    }
    out_.gradients[of.name] = sum;
  }

  // Returns the name of the gradient of a statement's result, or nothing if nothing depends on the result.
  std::string find_gradient(int forward) {
    const Tensor& result = program_.tensors[program_.statements[forward].result()];
    if (const auto found = out_.gradients.find(result.name); found != out_.gradients.end()) return found->second;
    if (!is_given(program_.statements[forward].result())) return {};
    const std::string name = names_.make_unique("d" + result.name);
    const auto expression = known_.find(result.name);
    if (expression != known_.end()) {
      add_gradient(forward, result, name, expression->second);
    } else {
      declare(name, result.dtype, format_axes(result.axes));
      out_.gradients_given.push_back(name);
    }
    return out_.gradients[result.name] = name;
  }

  Status write_statement(int s) {
    const Statement& statement = program_.statements[s];
    const std::string gradient = find_gradient(s);
    if (gradient.empty()) return Done{};
    if (const auto* product = std::get_if<Contraction>(&statement.op)) return write_product(s, *product, gradient);
    if (const Routine* routine = routine_of(statement)) return write_routine(s, *routine, gradient);
    RIDGE_TRY(written, write_expression_gradient(program_, std::get<Expression>(statement.op), gradient, names_));
    for (const GradientTerm& each : written)
      if (each.tensor < 0)
        add(s, each.name, format_axes(each.axes), each.text);
      else
        add_term(s, each.tensor, each.text);
    return Done{};
  }

  Status write_product(int s, const Contraction& product, const std::string& gradient) {
    if (product.grouped) return fail(s, "a product with a grouped dimension");
    const std::string left = program_.tensors[product.left].name, right = program_.tensors[product.right].name;
    if (product.left == product.right) return fail(s, "the product of a tensor with itself");
    if (can_have_gradient(product.right)) add_term(s, product.right, fmt::format("{} * {}", left, gradient));
    if (can_have_gradient(product.left)) add_term(s, product.left, fmt::format("{} * {}", gradient, right));
    return Done{};
  }

  Status write_routine(int s, const Routine& routine, const std::string& gradient) {
    const std::vector<int> operands = expression_operands(std::get<Expression>(program_.statements[s].op));
    const std::string over = routine.over.empty() ? "" : format_axis(routine.over[0]);
    if (gives_indices(routine.kind)) return Done{};
    if (routine.kind == RoutineKind::gather) {
      const std::string& indices = program_.tensors[operands[1]].name;
      add_term(s, operands[0], fmt::format("scatter({}, {} over {})", gradient, indices, over));
      return Done{};
    }
    if (routine.kind == RoutineKind::rotary) {
      // The inverse rotation, by negative positions
      const Tensor& positions = program_.tensors[operands[1]];
      const std::string back = names_.make_unique(program_.tensors[operands[0]].name + "_back");
      add(s, back, format_axes(positions.axes), "-" + positions.name);
      add_term(s, operands[0],
               fmt::format("rotary({}, {} over {}, base = {}{})", gradient, back, over, routine.base,
                           routine.interleaved ? ", interleaved = 1" : ""));
      return Done{};
    }
    if (routine.kind == RoutineKind::routed) return write_routed(s, routine, operands, gradient);
    if (routine.kind == RoutineKind::scatter) {
      const std::string& indices = program_.tensors[operands[1]].name;
      add_term(s, operands[0], fmt::format("gather({}, {} over {})", gradient, indices, over));
      return Done{};
    }
    if (routine.kind == RoutineKind::cumsum) {
      // An element adds to the sums from its own on: to all but those before it.
      const std::string before = names_.make_unique("sums_" + gradient);
      add(s, before, axes_of(operands[0]), fmt::format("cumsum({} over {})", gradient, over));
      add_term(s, operands[0], fmt::format("sum({0} over {1}) - {2} + {0}", gradient, over, before));
      return Done{};
    }
    if (routine.kind == RoutineKind::scan) return write_scan(s, routine, gradient);
    return fail(s, std::string(routine_name(routine.kind)));
  }

  // Gradients of h = scan(a * h + x over T). That of h[t] is e[t] = dh[t] + a[t + 1] e[t + 1], a scan from the end
  // along a dimension R with the same elements in reverse order. Then dx = e and da[t] = e[t] h[t - 1].
  Status write_scan(int s, const Routine& routine, const std::string& gradient) {
    const auto& body = std::get<Expression>(program_.statements[s].op);
    const auto [a, x] = find_linear_step(body);
    if (a < 0) return fail(s, "scan other than a * h + x with tensors a and x");
    const Axis& along = routine.over[0];
    const std::string over = format_axis(along), h = program_.tensors[body.result].name;
    const std::string reverse = names_.make_unique("reverse_" + h);
    out_.declarations.push_back(fmt::format("dims {} = {}", reverse, along.size(sizes_).value_or(1)));
    const auto in_reverse = [&](int tensor) {
      std::string out;
      for (const Axis& axis : program_.tensors[tensor].axes)
        out += (out.empty() ? "" : ", ") + (axis == along ? reverse : format_axis(axis));
      return fmt::format("[{}]", out);
    };
    const auto name_new = [&](const std::string& name) { return names_.make_unique(fmt::format("{}_{}", name, h)); };
    // An expression must read a tensor; indices add 0 times an input of integers.
    const auto add_indices = [&](const std::string& name, const std::string& dim, const std::string& expression) {
      const std::string any = name_new("any"), unique = name_new(name);
      declare(any, DType::int32, fmt::format("[{}]", dim));
      out_.statements.push_back({s, unique, fmt::format("{}: int32[{}] = {} + 0 * {}", unique, dim, expression, any)});
      return unique;
    };
    const auto add_new = [&](const std::string& name, const std::string& axes, const std::string& expression) {
      const std::string unique = name_new(name);
      add(s, unique, axes, expression);
      return unique;
    };
    const std::string back = add_indices("back", reverse, fmt::format("size({0}) - 1 - index({0})", reverse));
    const std::string g =
        add_new("dback", in_reverse(body.result), fmt::format("gather({}, {} over {})", gradient, back, over));
    std::string factor = program_.tensors[a].name;
    const bool a_varies = contains(program_.tensors[a].axes, along);
    if (a_varies) {
      const std::string next =
          add_indices("next", reverse, fmt::format("min(size({0}) - index({0}), size({0}) - 1)", reverse));
      factor = add_new("factor", in_reverse(a), fmt::format("gather({}, {} over {})", factor, next, over));
    }
    const std::string sums = name_new("sums");
    add(s, sums, in_reverse(body.result), fmt::format("scan({} * {} + {} over {})", factor, sums, g, reverse));
    const std::string forth = add_indices("forth", over, fmt::format("size({0}) - 1 - index({0})", over));
    const auto return_to = [&](const std::string& tensor) {
      return fmt::format("gather({}, {} over {})", tensor, forth, reverse);
    };
    const std::string e = add_new("e", axes_of(body.result), return_to(sums));
    const std::string before =
        add_indices("before", reverse, fmt::format("max(size({0}) - 2 - index({0}), 0)", reverse));
    const std::string earlier =
        add_new("earlier", in_reverse(body.result), fmt::format("gather({}, {} over {})", h, before, over));
    const std::string product = fmt::format("where(index({0}) < size({0}) - 1, {1} * {2}, 0)", reverse, sums, earlier);
    std::string missing = list_missing(body.result, a, along);
    if (!a_varies) missing += (missing.empty() ? "" : ", ") + reverse;
    const std::string summed = missing.empty() ? product : fmt::format("sum({} over {})", product, missing);
    add_term(s, a, a_varies ? return_to(add_new("dfactor", in_reverse(a), summed)) : summed);
    missing = list_missing(body.result, x, along);
    if (!contains(program_.tensors[x].axes, along)) missing += (missing.empty() ? "" : ", ") + over;
    add_term(s, x, missing.empty() ? e : fmt::format("sum({} over {})", e, missing));
    return Done{};
  }

  // Returns the tensors a and x of the body a * h + x, or -1 if it is another one.
  std::pair<int, int> find_linear_step(const Expression& scan) const {
    const auto node = [&](int i) -> const Node& { return scan.nodes[static_cast<std::size_t>(i)]; };
    const Node& sum = node(scan.nodes.back().arguments[0]);
    const auto is_call = [](const Node& x, Function function) {
      return x.kind == Node::Kind::call && x.function == function;
    };
    if (!is_call(sum, Function::add)) return {-1, -1};
    const Node &product = node(sum.arguments[0]), &x = node(sum.arguments[1]);
    if (!is_call(product, Function::multiply) || x.kind != Node::Kind::tensor) return {-1, -1};
    const Node &a = node(product.arguments[0]), &h = node(product.arguments[1]);
    if (a.kind != Node::Kind::tensor || h.kind != Node::Kind::previous || a.tensor == x.tensor) return {-1, -1};
    return {a.tensor, x.tensor};
  }

  // Returns the axes of one tensor that the other lacks, except for one.
  std::string list_missing(int from, int to, const Axis& except) const {
    std::string missing;
    for (const Axis& axis : program_.tensors[from].axes)
      if (!contains(program_.tensors[to].axes, axis) && !(axis == except))
        missing += (missing.empty() ? "" : ", ") + format_axis(axis);
    return missing;
  }

  // Gradients of routed(x, w, i over X). The rows of x and of the gradient are sorted by expert, so that each expert
  // multiplies its own.
  Status write_routed(int s, const Routine& routine, const std::vector<int>& operands, const std::string& gradient) {
    const Tensor &x = program_.tensors[operands[0]], &w = program_.tensors[operands[1]];
    const Tensor& result = program_.tensors[program_.statements[s].result()];
    const std::string experts = format_axis(routine.over[0]), in = format_axis(w.axes.back()),
                      out = format_axis(result.axes.back());
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < result.axes.size(); ++i) rows *= result.axes[i].size(sizes_).value_or(0);
    const std::int64_t count = routine.over[0].size(sizes_).value_or(0);
    if (rows < count || count == 0)
      return input_error(fmt::format("expected at least {} rows for {} experts, found {}", count, count, rows),
                         "each expert must have a row: use more tokens");
    if (row_dim_.empty()) {
      row_dim_ = names_.make_unique("rows");
      out_.declarations.push_back(fmt::format("dims {} = {}", row_dim_, ceil_div(rows, count)));
    }
    const std::string sorted_x = x.name + "_rows", sorted_gradient = names_.make_unique(gradient + "_rows");
    const auto row_axes = [&](const std::string& last) { return fmt::format("[{}, {}, {}]", experts, row_dim_, last); };
    if (!names_.has(sorted_x)) {
      names_.make_unique(sorted_x);
      declare(sorted_x, x.dtype, row_axes(in));
    }
    declare(sorted_gradient, result.dtype, row_axes(out));
    add_term(s, operands[1], fmt::format("{} * {}", sorted_gradient, sorted_x));
    const std::string rows_back = names_.make_unique(fmt::format("d{}_rows", result.name + "_" + x.name));
    add(s, rows_back, row_axes(in), fmt::format("{} * {}", sorted_gradient, w.name));
    std::vector<Axis> axes(result.axes.begin(), result.axes.end() - 1);
    axes.push_back(w.axes.back());
    const std::string returned = names_.make_unique(fmt::format("d{}_{}", result.name, x.name));
    declare(returned, x.dtype, format_axes(axes));
    out_.gradients_given.insert(out_.gradients_given.end(), {sorted_gradient, returned});
    std::string missing;
    for (const Axis& axis : axes)
      if (!contains(x.axes, axis)) missing += (missing.empty() ? "" : ", ") + format_axis(axis);
    add_term(s, operands[0], missing.empty() ? returned : fmt::format("sum({} over {})", returned, missing));
    return Done{};
  }

  Error fail(int s, const std::string& what) const {
    return input_error(fmt::format("no gradient of {} is known: {}", what, program_.statements[s].text));
  }

  const Program& program_;
  const std::map<std::string, std::string>& known_;
  Bindings sizes_;
  GradientNames names_;
  std::vector<int> expected_;                     // Number of terms of each tensor's gradient
  std::vector<std::vector<std::string>> so_far_;  // Names of the terms
  std::map<std::string, DType> dtypes_;           // Format of each floating-point tensor
  std::string row_dim_;                           // Dimension of the rows of an expert
  BackwardPass out_;
};

}  // namespace
}  // namespace program

std::string BackwardPass::text() const {
  std::string out;
  for (const std::string& line : declarations) out += line + "\n";
  for (const GradientStatement& each : statements) out += each.text + "\n";
  return out;
}

Result<BackwardPass> write_backward_pass(const Program& program, const std::map<std::string, std::string>& known) {
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes)
      if (!axis.is_named() || !axis.mesh.empty())
        return input_error(fmt::format("expected named axes on one device for gradients, found {} in {}",
                                       program::format_axis(axis), tensor.name));
  RIDGE_TRY(sizes, program.bind_sizes({}));
  return program::BackwardWriter(program, known, std::move(sizes)).write();
}

}  // namespace ridge

// Error bounds. A function's bound is the larger change of f from its value at x to those at x - error and x + error,
// plus 8 roundoffs of the value (kernels' functions are accurate to 4 ulp). A sum of k terms adds
// `sum_error_growth(k)`. Functions along dimensions combine these bounds; softmax is a maximum, differences,
// exponentials, a sum, a quotient.
#include "ridge/measure/expression_evaluator.h"

#include <algorithm>
#include <cmath>

#include "ridge/base/check.h"
#include "ridge/base/dtype_set.h"
#include "ridge/measure/routines/routine_reference.h"
#include "ridge/program/contraction.h"

namespace ridge {
namespace {

constexpr double f32_roundoff = 0x1p-24;
constexpr double min_normal = 0x1p-126;    // below it, f32 and bf16 lose digits or a kernel may flush to 0
constexpr double cache_lookup_nodes = 16;  // cost of looking up and storing one value, in nodes

double evaluate_function(Function function, double x) { return function_info(function).reference(x, 0, 0); }

bool fits_f32(double value) {
  if (value == 0 || !std::isfinite(value)) return true;
  return std::fabs(value) >= min_normal && static_cast<double>(static_cast<float>(value)) == value;
}

ValueWithError with_rounding(double value, double error) {
  return {value, error + 8 * f32_roundoff * std::fabs(value) + min_normal};
}

// Sums and products are rounded correctly on every machine, so they are exact if f32 represents them.
ValueWithError correctly_rounded(double value, double error) {
  return error == 0 && fits_f32(value) ? ValueWithError{value, 0} : with_rounding(value, error);
}

ValueWithError evaluate_unary(Function function, ValueWithError x) {
  const double value = evaluate_function(function, x.value);
  const double above = std::fabs(evaluate_function(function, x.value + x.error) - value);
  const double below = std::fabs(evaluate_function(function, x.value - x.error) - value);
  // NaN on one side (sqrt below 0) means that the interval leaves the domain; the other side then counts twice.
  double moved = std::max(above, below);
  if (std::isnan(below)) moved = 2 * above;
  if (std::isnan(above)) moved = 2 * below;
  return with_rounding(value, std::isnan(moved) ? 0 : moved);
}

// Either branch is allowed if the condition may be 0 and may be nonzero. A comparison that is too close to decide is 0
// or 1 with an error of 1; x / 3 * 3 - x is 0 in f64 and may be 2^-24 in f32.
ValueWithError evaluate_select(ValueWithError condition, ValueWithError yes, ValueWithError no) {
  const bool either = condition.error > 0 && std::fabs(condition.value) <= condition.error;
  const ValueWithError &taken = condition.value != 0 ? yes : no, &other = condition.value != 0 ? no : yes;
  if (!either) return taken;
  const double difference = taken.value == other.value ? 0 : std::fabs(taken.value - other.value);
  return {taken.value, std::max(taken.error, other.error + difference)};
}

// Either answer is allowed if the intervals of the operands overlap.
ValueWithError evaluate_comparison(bool answer, const ValueWithError& a, const ValueWithError& b) {
  return {answer ? 1.0 : 0.0, std::fabs(a.value - b.value) < a.error + b.error ? 1.0 : 0.0};
}

// For several arguments, the changes that each argument's error causes are added.
ValueWithError evaluate_multivariate(Function function, const ValueWithError& a, const ValueWithError& b,
                                     const ValueWithError& c) {
  const auto of = function_info(function).reference;
  const double value = of(a.value, b.value, c.value);
  double moved = 0;
  const auto add_sensitivity = [&](const ValueWithError& x, auto with) {
    const double above = std::fabs(with(x.value + x.error) - value), below = std::fabs(with(x.value - x.error) - value);
    const double one_sided = 2 * (std::isnan(above) ? below : above);
    const double change = std::isnan(above) || std::isnan(below) ? one_sided : std::max(above, below);
    if (!std::isnan(change)) moved += change;
  };
  add_sensitivity(a, [&](double x) { return of(x, b.value, c.value); });
  add_sensitivity(b, [&](double x) { return of(a.value, x, c.value); });
  add_sensitivity(c, [&](double x) { return of(a.value, b.value, x); });
  return with_rounding(value, moved);
}

ValueWithError multiply_with_error(const ValueWithError& a, const ValueWithError& b) {
  return correctly_rounded(a.value * b.value,
                           std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error);
}

ValueWithError divide_with_error(const ValueWithError& a, const ValueWithError& b) {
  const double value = a.value / b.value, min_divisor = std::max(std::fabs(b.value) - b.error, 0.0);
  return with_rounding(value, b.error == 0 && a.error == 0 ? 0 : (a.error + std::fabs(value) * b.error) / min_divisor);
}

}  // namespace

// A constant that f32 represents has no error: index(T) < 5 is certain at 5.
ValueWithError constant_value(double value) { return {value, fits_f32(value) ? 0 : f32_roundoff * std::fabs(value)}; }

ValueWithError evaluate_call(Function function, const ValueWithError& a, const ValueWithError& b,
                             const ValueWithError& c) {
  const FunctionInfo& f = function_info(function);
  const auto value = [&] { return f.reference(a.value, b.value, 0); };
  if (f.syntax == FunctionSyntax::comparison) return evaluate_comparison(value() != 0, a, b);
  if (f.syntax == FunctionSyntax::sum) return correctly_rounded(value(), a.error + b.error);
  if (function == Function::multiply) return multiply_with_error(a, b);
  if (function == Function::divide) return divide_with_error(a, b);
  if (function == Function::max || function == Function::min) return {value(), std::max(a.error, b.error)};
  if (function == Function::where) return evaluate_select(a, b, c);
  return f.arity == 1 ? evaluate_unary(function, a) : evaluate_multivariate(function, a, b, c);
}

namespace {

ValueWithError evaluate_extreme(Function function, const std::vector<ValueWithError>& row) {
  ValueWithError out = row.front();
  for (const ValueWithError& x : row) out = evaluate_call(function, out, x, {});
  return out;
}

ValueWithError exp_shifted(const ValueWithError& x, const ValueWithError& largest) {  // a softmax's numerator
  return evaluate_unary(Function::exp, evaluate_call(Function::subtract, x, largest, {}));
}

double gelu_error(const GeluTolerance& kernel, Function function, const ValueWithError& x, double value) {
  if (function != Function::gelu && function != Function::gelu_tanh) return 0;
  const double size = std::fabs(x.value) + x.error;
  const double cheap =
      function == Function::gelu ? kernel.relative_to_gelu * (1 + size * size / 2) * std::fabs(value) : 0;
  return kernel.relative_to_argument * size + cheap;
}

}  // namespace

double sum_error_growth(double k, bool random_data) {
  const double worst = k + 2, random = 16 * std::sqrt(k) + 16;
  return (random_data ? std::min(worst, random) : worst) * f32_roundoff;
}

// Tensor cores drop 13 bits of operands of tf32. They align 32 products of e4m3 and the sum so far to the largest of
// these, of which they keep 13 bits, until 128 products are summed. Blocks of integers are rounded to the 16 bits of
// the other operand if that has many rows. Errors of random products cancel like a random walk; the factor of 6 allows
// for the largest of many elements.
double tensor_core_error(const Reference& reference, int left_tensor, int right_tensor, double k) {
  const DType left = reference.program.tensors[left_tensor].dtype,
              right = reference.program.tensors[right_tensor].dtype;
  if (!reference.on_tensor_cores) return 0;
  if (has_integer_blocks(left) || has_integer_blocks(right)) {
    const DType other = has_integer_blocks(left) ? right : left;
    const double rounding = other == DType::bf16 ? 0x1p-9 : 0x1p-12;
    if (!SixteenBitFloats::contains(other)) return 0;
    return reference.random_data ? std::min(rounding, 6 * rounding / std::sqrt(k)) : rounding;
  }
  const bool is_tf32 = left == DType::tf32;
  const bool is_e4m3 = left == DType::e4m3 || left == DType::e4m3_128;
  if (left != right || (!is_tf32 && !is_e4m3)) return 0;
  const double largest = is_tf32 ? 0x1p-9 : 0x1p-6, typical = 0x1p-9;
  return reference.random_data ? std::min(largest, 6 * typical / std::sqrt(k)) : largest;
}

// Tensors that statements of the kernel compute, each shared by all its readers.
struct ExpressionEvaluator::KernelIntermediates {
  std::map<int, std::unique_ptr<ExpressionEvaluator>> expressions;
  std::map<int, std::unique_ptr<SumEvaluator>> products;
  std::map<int, double> tolerance_factors;  // factor by which the errors of some tensors may be larger
};

ExpressionEvaluator::~ExpressionEvaluator() = default;

ExpressionEvaluator::ExpressionEvaluator(const Reference& reference, const std::vector<Shape>& shapes,
                                         const Expression& expression)
    : reference_(reference),
      nodes_(expression.nodes),
      spaces_(find_index_spaces(reference.program.tensors, nodes_)),
      owned_intermediates_(std::make_unique<KernelIntermediates>()),
      intermediates_(*owned_intermediates_) {
  prepare_nodes(shapes, expression.result);
}

ExpressionEvaluator::ExpressionEvaluator(const Reference& reference, const std::vector<Shape>& shapes,
                                         const Expression& expression, KernelIntermediates& intermediates)
    : reference_(reference),
      nodes_(expression.nodes),
      spaces_(find_index_spaces(reference.program.tensors, nodes_)),
      intermediates_(intermediates) {
  prepare_nodes(shapes, expression.result);
}

void ExpressionEvaluator::prepare_nodes(const std::vector<Shape>& shapes, int result) {
  space_nodes_.resize(spaces_.axes.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    std::vector<std::size_t>& nodes_of_space = space_nodes_[spaces_.space_of_node[i]];
    slot_in_space_.push_back(nodes_of_space.size());
    nodes_of_space.push_back(i);
  }
  result_axes_ = tensor_axes(shapes[result]);
  for (const Node& n : nodes_) {
    Shape named;
    for (const Axis& axis : n.over)
      if (!axis_key(axis).empty())
        named.push_back({axis_key(axis), axis.is_named() ? reference_.dims.at(axis.dim) : axis.literal, 0});
    node_axes_.push_back(tensor_axes(n.kind == Node::Kind::tensor ? shapes[n.tensor] : named));
    if (n.kind == Node::Kind::tensor) add_intermediate(shapes, n.tensor);
  }
  cost_ = evaluation_cost(0, 1);
}

namespace {

// True if an operand of the product is computed inside the kernel.
bool multiplies_intermediate(const Reference& reference, const Contraction& c) {
  return std::any_of(reference.kernel_statements.begin(), reference.kernel_statements.end(), [&](int s) {
    const int result = reference.program.statements[s].result();
    return result == c.left || result == c.right;
  });
}

}  // namespace

Expression to_expression(const Contraction& c) {
  Expression out = expression_of_contraction(c);
  if (!has_sum(c)) return out;
  out.nodes.push_back({.kind = Node::Kind::along_dims, .function = Function::sum, .arguments = {2}});
  for (const std::string& dim : c.contracted) out.nodes.back().over.push_back({.dim = dim});
  return out;
}

namespace {

// True if the last node sums products that are computed inside the kernel.
bool sums_intermediate_products(const Reference& reference, const Expression& e) {
  const auto multiplies = [](const Node& node) {
    return node.kind == Node::Kind::call && node.function == Function::multiply;
  };
  const Node& last = e.nodes.back();
  if (last.kind != Node::Kind::along_dims || last.function != Function::sum) return false;
  const Node& of = e.nodes[last.arguments[0]];
  const auto made = of.kind == Node::Kind::tensor ? reference.find_kernel_expression(of.tensor) : std::nullopt;
  return multiplies(of) || (made && multiplies(made->nodes.back()));
}

// A kernel may sum in another order: attention's gradients compute the sum of p * (do * v) along the keys as that of do
// * o, where o = p * v is rounded to its stored dtype. An error of do * v is proportional to the size of its terms.
double product_tolerance(const std::map<int, std::unique_ptr<SumEvaluator>>& products) {
  double out = 0;
  for (const auto& [tensor, product] : products) out = std::max(out, product->rounded_operand_error());
  return out;
}

}  // namespace

namespace {

// Evaluates elements of a convolution that is fused with the statements that follow it.
class RoutineEvaluator : public SumEvaluator {
 public:
  RoutineEvaluator(const Reference& reference, const Expression& routine) : reference_(reference), routine_(routine) {}
  ValueWithError evaluate_element(std::int64_t index) const override {
    const Expected made = evaluate_routine(reference_, routine_, {index}).front();
    return {made.value, made.bound};
  }
  double evaluation_cost() const override { return estimate_routine_cost(reference_, routine_); }

 private:
  const Reference& reference_;
  const Expression& routine_;
};

}  // namespace

void ExpressionEvaluator::add_intermediate(const std::vector<Shape>& shapes, int tensor) {
  if (intermediates_.expressions.contains(tensor) || intermediates_.products.contains(tensor)) return;
  for (const int s : reference_.kernel_statements) {
    const Statement& statement = reference_.program.statements[s];
    if (statement.result() != tensor) continue;
    const auto* c = std::get_if<Contraction>(&statement.op);
    if (c && has_sum(*c) && !multiplies_intermediate(reference_, *c)) {
      intermediates_.products[tensor] = std::make_unique<ContractionEvaluator>(reference_, shapes, *c);
      return;
    }
    if (const auto* routine = std::get_if<Expression>(&statement.op); routine && routine->routine) {
      intermediates_.products[tensor] = std::make_unique<RoutineEvaluator>(reference_, *routine);
      return;
    }
    const Expression e = c ? to_expression(*c) : std::get<Expression>(statement.op);
    intermediates_.expressions[tensor].reset(new ExpressionEvaluator(reference_, shapes, e, intermediates_));
    if (sums_intermediate_products(reference_, e))
      intermediates_.tolerance_factors[tensor] = product_tolerance(intermediates_.products);
  }
}

ContractionEvaluator::ContractionEvaluator(const Reference& reference, const std::vector<Shape>& shapes,
                                           const Contraction& c)
    : left_(reference.tensors[c.left]), right_(reference.tensors[c.right]), random_data_(reference.random_data) {
  const Shape &left = shapes[c.left], &right = shapes[c.right];
  const Shape& result = shapes[c.result];
  for (const SizedAxis& axis : result)
    if (!axis.dim.empty())
      kept_.push_back({axis.extent, ridge::axis_along(left, axis.dim).stride, ridge::axis_along(right, axis.dim).stride,
                       axis.stride});
  for (const SizedAxis& axis : left)
    if (!axis.dim.empty() && !has_axis(result, axis.dim))
      summed_.push_back({axis.extent, axis.stride, ridge::axis_along(right, axis.dim).stride, 0});
  tensor_core_error_ = tensor_core_error(reference, c.left, c.right, evaluation_cost());
}

double ContractionEvaluator::rounded_operand_error() const {
  return std::max(unit_roundoff(left_.dtype), unit_roundoff(right_.dtype)) /
         sum_error_growth(evaluation_cost(), random_data_);
}

double ContractionEvaluator::evaluation_cost() const {
  double all = 1;
  for (const OperandAxis& axis : summed_) all *= static_cast<double>(axis.extent);
  return all;
}

ValueWithError ContractionEvaluator::evaluate_element(std::int64_t index) const {
  std::int64_t left = 0, right = 0;
  for (const OperandAxis& axis : kept_) {
    const std::int64_t position = index / axis.stride % axis.extent;
    left += position * axis.left;
    right += position * axis.right;
  }
  ValueWithError out;
  double size = 0;
  const auto points = static_cast<std::int64_t>(evaluation_cost());
  for (std::int64_t point = 0; point < points; ++point) {
    std::int64_t rest = point, l = left, r = right;
    for (auto axis = summed_.rbegin(); axis != summed_.rend(); ++axis) {
      l += rest % axis->extent * axis->left;
      r += rest % axis->extent * axis->right;
      rest /= axis->extent;
    }
    const double product = read_element(left_, l) * read_element(right_, r);
    out.value += product;
    size += std::fabs(product);
  }
  const double sum_error = summed_.empty() ? f32_roundoff : sum_error_growth(static_cast<double>(points), random_data_);
  out.error = (sum_error + tensor_core_error_) * size;
  return out;
}

std::size_t ExpressionEvaluator::dim_index(const std::string& key) {
  const auto found = std::find(dims_.begin(), dims_.end(), key);
  if (found != dims_.end()) return static_cast<std::size_t>(found - dims_.begin());
  dims_.push_back(key);
  return dims_.size() - 1;
}

ExpressionEvaluator::TensorAxes ExpressionEvaluator::tensor_axes(const Shape& shape) {
  TensorAxes out;
  for (const SizedAxis& axis : shape)
    if (!axis.dim.empty()) out.push_back({dim_index(axis.dim), axis.extent, axis.stride});
  return out;
}

ValueWithError ExpressionEvaluator::evaluate_element(std::int64_t index) const {
  EvaluationCache memo;
  return evaluate_element(index, memo);
}

ValueWithError ExpressionEvaluator::evaluate_element(std::int64_t index, EvaluationCache& memo) const {
  Coordinates at(dims_.size());
  for (const TensorAxis& step : result_axes_) at[step.dim] = index / step.stride % step.extent;
  return evaluate_space(0, at, memo);
}

// `points`: length of the enclosing row. Tensors of the kernel are cached, so extents of nested rows do not multiply.
double ExpressionEvaluator::evaluation_cost(int space, double points) const {
  double all = 0;
  for (const std::size_t i : space_nodes_[space]) {
    const Node& n = nodes_[i];
    double row = 1;
    if (n.kind == Node::Kind::along_dims)
      for (const TensorAxis& step : node_axes_[i]) row *= static_cast<double>(step.extent);
    all += n.kind == Node::Kind::along_dims ? row * (evaluation_cost(argument_space(i), row) + 2) : n.repeat;
    if (n.kind != Node::Kind::tensor) continue;
    if (const auto inner = intermediates_.expressions.find(n.tensor); inner != intermediates_.expressions.end())
      all += cache_lookup_nodes + inner->second->evaluation_cost() / points;
    if (const auto inner = intermediates_.products.find(n.tensor); inner != intermediates_.products.end())
      all += inner->second->evaluation_cost();
  }
  return all;
}

// Recurses only from space to space, not along a chain of operators, whose length is unlimited.
ValueWithError ExpressionEvaluator::evaluate_space(int space, const Coordinates& at, EvaluationCache& memo) const {
  std::vector<ValueWithError> values;
  for (const std::size_t i : space_nodes_[space]) values.push_back(evaluate_node(i, values, at, memo));
  return values.back();
}

ValueWithError ExpressionEvaluator::evaluate_tensor(std::size_t i, const Coordinates& at, EvaluationCache& memo) const {
  const int tensor = nodes_[i].tensor;
  std::int64_t offset = 0;
  for (const TensorAxis& step : node_axes_[i]) offset += at[step.dim] * step.stride;
  const auto inner = intermediates_.expressions.find(tensor);
  const auto product = intermediates_.products.find(tensor);
  if (inner == intermediates_.expressions.end() && product == intermediates_.products.end())
    return {read_element(reference_.tensors[tensor], offset), 0};
  if (const auto known = memo.elements.find({tensor, offset}); known != memo.elements.end()) return known->second;
  ValueWithError value = inner == intermediates_.expressions.end() ? product->second->evaluate_element(offset)
                                                                   : inner->second->evaluate_element(offset, memo);
  // A kernel that also stores the tensor may read it back rounded.
  const Array& stored = reference_.tensors[tensor];
  if (const auto tolerance_factors = intermediates_.tolerance_factors.find(tensor);
      tolerance_factors != intermediates_.tolerance_factors.end())
    value.error *= 1 + tolerance_factors->second;
  if (stored.elements > 0) value.error += unit_roundoff(stored.dtype) * (std::fabs(value.value) + value.error);
  memo.elements[{tensor, offset}] = value;
  return value;
}

// Returns the number of sequences that end at or before a position.
double ExpressionEvaluator::sequence_index(const std::string& dim, std::int64_t position) const {
  double number = 0;
  for (const std::int64_t length : lengths_along(reference_.program, dim)) {
    if (position < length) break;
    position -= length;
    ++number;
  }
  return number;
}

ValueWithError ExpressionEvaluator::evaluate_node(std::size_t i, const std::vector<ValueWithError>& values,
                                                  const Coordinates& at, EvaluationCache& memo) const {
  const Node& n = nodes_[i];
  switch (n.kind) {
    case Node::Kind::tensor: return evaluate_tensor(i, at, memo);
    case Node::Kind::number: return constant_value(n.number);
    case Node::Kind::index: return {static_cast<double>(at[node_axes_[i][0].dim]), 0};
    case Node::Kind::size: return constant_value(static_cast<double>(node_axes_[i][0].extent));
    case Node::Kind::along_dims: return evaluate_row_function(i, at, memo);
    case Node::Kind::sequence: return constant_value(sequence_index(n.over[0].dim, at[node_axes_[i][0].dim]));
    case Node::Kind::previous:
    case Node::Kind::routine: RIDGE_CHECK(false, "measure/routines evaluates routines");
    case Node::Kind::call: break;
  }
  ValueWithError in[3];
  for (std::size_t a = 0; a < n.arguments.size() && a < 3; ++a) in[a] = values[slot_in_space_[n.arguments[a]]];
  ValueWithError out = evaluate_call(n.function, in[0], in[1], in[2]);
  out.error += gelu_error(reference_.gelu, n.function, in[0], out.value);
  const bool at_limit =
      ridge::function_info(n.function).can_be_epilogue && in[0].value == -INFINITY && std::signbit(out.value);
  // Product epilogues compute the formula, which gives NaN instead of -0.
  if (!reference_.gelu.exact_limits && at_limit) out.value = NAN;
  for (int r = 1; r < n.repeat; ++r) out = evaluate_call(n.function, out, {}, {});
  return out;
}

// Evaluates the argument at every point of the dimensions that node i runs along.
const ExpressionEvaluator::EvaluatedRow& ExpressionEvaluator::evaluate_row(std::size_t i, Coordinates at,
                                                                           EvaluationCache& memo) const {
  std::int64_t points = 1;
  for (const TensorAxis& step : node_axes_[i]) {
    points *= step.extent;
    at[step.dim] = 0;
  }
  const auto [position, is_new] = memo.rows.try_emplace({{this, i}, at});
  EvaluatedRow& out = position->second;
  if (!is_new) return out;
  for (std::int64_t p = 0; p < points; ++p) {
    std::int64_t rest = p;
    for (const TensorAxis& step : node_axes_[i]) {
      at[step.dim] = rest % step.extent;
      rest /= step.extent;
    }
    out.values.push_back(evaluate_space(argument_space(i), at, memo));
  }
  reduce_row(nodes_[i].function, out);
  return out;
}

void ExpressionEvaluator::reduce_row(Function function, EvaluatedRow& row) const {
  std::vector<ValueWithError> shifted = row.values;
  switch (function) {
    case Function::sum: row.total = sum_row(row.values); break;
    case Function::mean: row.mean = mean_of_row(row.values); break;
    case Function::softmax:
      row.extreme = evaluate_extreme(Function::max, row.values);
      for (ValueWithError& x : shifted) x = exp_shifted(x, row.extreme);
      row.total = sum_row(shifted);
      break;
    case Function::rmsnorm: row.inverse_rms = inverse_rms(row.values); break;
    case Function::layernorm:
      row.mean = mean_of_row(row.values);
      for (ValueWithError& x : shifted) x = evaluate_call(Function::subtract, x, row.mean, {});
      row.inverse_rms = inverse_rms(shifted);
      break;
    default: row.extreme = evaluate_extreme(function, row.values);
  }
}

ValueWithError ExpressionEvaluator::evaluate_row_function(std::size_t i, const Coordinates& at,
                                                          EvaluationCache& memo) const {
  const EvaluatedRow& row = evaluate_row(i, at, memo);
  const auto evaluate_here = [&] { return evaluate_space(argument_space(i), at, memo); };
  switch (nodes_[i].function) {
    case Function::sum: return row.total;
    case Function::mean: return row.mean;
    case Function::softmax:
      return evaluate_call(Function::divide, exp_shifted(evaluate_here(), row.extreme), row.total, {});
    case Function::rmsnorm: return evaluate_call(Function::multiply, evaluate_here(), row.inverse_rms, {});
    case Function::layernorm:
      return evaluate_call(Function::multiply, evaluate_call(Function::subtract, evaluate_here(), row.mean, {}),
                           row.inverse_rms, {});
    default: return row.extreme;
  }
}

ValueWithError ExpressionEvaluator::sum_row(const std::vector<ValueWithError>& row) const {
  ValueWithError out;
  double size = 0;
  for (const ValueWithError& x : row) {
    out.value += x.value;
    out.error += x.error;
    size += std::fabs(x.value) + x.error;
  }
  return with_rounding(out.value,
                       out.error + sum_error_growth(static_cast<double>(row.size()), reference_.random_data) * size);
}

ValueWithError ExpressionEvaluator::mean_of_row(const std::vector<ValueWithError>& row) const {
  const double count = static_cast<double>(row.size());
  const ValueWithError total = sum_row(row);
  return with_rounding(total.value / count, total.error / count);
}

// Returns the inverse root mean square, as rmsnorm multiplies by it.
ValueWithError ExpressionEvaluator::inverse_rms(const std::vector<ValueWithError>& row) const {
  std::vector<ValueWithError> squares;
  for (const ValueWithError& x : row) squares.push_back(evaluate_call(Function::multiply, x, x, {}));
  return evaluate_unary(Function::rsqrt, evaluate_call(Function::add, mean_of_row(squares),
                                                       {norm_epsilon, f32_roundoff * norm_epsilon}, {}));
}

}  // namespace ridge

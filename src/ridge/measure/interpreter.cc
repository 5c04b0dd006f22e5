// Error bounds: f changes by its values at the ends of its argument's interval, and each operation adds 8 u of its
// value (kernels' functions are accurate to 4 ulp). A sum of k terms adds `sum_error_growth(k)`. Functions along
// dimensions are composed of these: softmax of a maximum, differences, exponentials, a sum and a quotient.
#include "ridge/measure/interpreter.h"

#include <algorithm>
#include <cmath>

#include "ridge/base/check.h"
#include "ridge/program/elementwise.h"

namespace ridge {
namespace {

constexpr double u = 0x1p-24;
constexpr double smallest = 0x1p-126;  // below it, f32 and bf16 lose digits or a kernel may flush to 0
constexpr double remembering = 16;     // cost of looking up and storing one value, in nodes

double apply(Function function, double x) { return row(function).value(x, 0, 0); }

bool held_by_f32(double value) {
  if (value == 0 || !std::isfinite(value)) return true;
  return std::fabs(value) >= smallest && static_cast<double>(static_cast<float>(value)) == value;
}

// A constant that f32 represents has no error: index(T) < 5 is certain at 5.
Uncertain constant(double value) { return {value, held_by_f32(value) ? 0 : u * std::fabs(value)}; }

Uncertain rounded(double value, double error) { return {value, error + 8 * u * std::fabs(value) + smallest}; }

// Sums and products are rounded correctly on every machine, so they are exact if f32 represents them.
Uncertain correctly_rounded(double value, double error) {
  return error == 0 && held_by_f32(value) ? Uncertain{value, 0} : rounded(value, error);
}

Uncertain unary(Function function, Uncertain x) {
  const double value = apply(function, x.value);
  const double above = std::fabs(apply(function, x.value + x.error) - value);
  const double below = std::fabs(apply(function, x.value - x.error) - value);
  // NaN on one side (sqrt below 0) means that the interval leaves the domain; the other side then counts twice.
  double moved = std::max(above, below);
  if (std::isnan(below)) moved = 2 * above;
  if (std::isnan(above)) moved = 2 * below;
  return rounded(value, std::isnan(moved) ? 0 : moved);
}

// Either branch is allowed if the condition may be 0 and may be nonzero. A comparison that is too close to decide is 0
// or 1 with an error of 1; x / 3 * 3 - x is 0 in f64 and may be 2^-24 in f32.
Uncertain select(Uncertain condition, Uncertain yes, Uncertain no) {
  const bool either = condition.error > 0 && std::fabs(condition.value) <= condition.error;
  const Uncertain &taken = condition.value != 0 ? yes : no, &other = condition.value != 0 ? no : yes;
  if (!either) return taken;
  const double apart = taken.value == other.value ? 0 : std::fabs(taken.value - other.value);
  return {taken.value, std::max(taken.error, other.error + apart)};
}

// Either answer is allowed if the intervals of the operands overlap.
Uncertain compared(bool answer, const Uncertain& a, const Uncertain& b) {
  return {answer ? 1.0 : 0.0, std::fabs(a.value - b.value) < a.error + b.error ? 1.0 : 0.0};
}

// For several arguments, the changes that each argument's error causes are added.
Uncertain several(Function function, const Uncertain& a, const Uncertain& b, const Uncertain& c) {
  const auto of = row(function).value;
  const double value = of(a.value, b.value, c.value);
  double moved = 0;
  const auto from = [&](const Uncertain& x, auto with) {
    const double above = std::fabs(with(x.value + x.error) - value), below = std::fabs(with(x.value - x.error) - value);
    const double one_sided = 2 * (std::isnan(above) ? below : above);
    const double more = std::isnan(above) || std::isnan(below) ? one_sided : std::max(above, below);
    if (!std::isnan(more)) moved += more;
  };
  from(a, [&](double x) { return of(x, b.value, c.value); });
  from(b, [&](double x) { return of(a.value, x, c.value); });
  from(c, [&](double x) { return of(a.value, b.value, x); });
  return rounded(value, moved);
}

Uncertain multiplied(const Uncertain& a, const Uncertain& b) {
  return correctly_rounded(a.value * b.value,
                           std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error);
}

Uncertain divided(const Uncertain& a, const Uncertain& b) {
  const double value = a.value / b.value, least = std::max(std::fabs(b.value) - b.error, 0.0);
  return rounded(value, b.error == 0 && a.error == 0 ? 0 : (a.error + std::fabs(value) * b.error) / least);
}

Uncertain call(Function function, const Uncertain& a, const Uncertain& b, const Uncertain& c) {
  const FunctionRow& f = row(function);
  const auto value = [&] { return f.value(a.value, b.value, 0); };
  if (f.written == Written::comparison) return compared(value() != 0, a, b);
  if (f.written == Written::sum) return correctly_rounded(value(), a.error + b.error);
  if (function == Function::multiply) return multiplied(a, b);
  if (function == Function::divide) return divided(a, b);
  if (function == Function::max || function == Function::min) return {value(), std::max(a.error, b.error)};
  if (function == Function::where) return select(a, b, c);
  return f.arity == 1 ? unary(function, a) : several(function, a, b, c);
}

Uncertain extreme(Function function, const std::vector<Uncertain>& row) {
  Uncertain out = row.front();
  for (const Uncertain& x : row) out = call(function, out, x, {});
  return out;
}

Uncertain power(const Uncertain& x, const Uncertain& largest) {  // a softmax's numerator
  return unary(Function::exp, call(Function::subtract, x, largest, {}));
}

double slack(const GeluSlack& kernel, Function function, const Uncertain& x, double value) {
  if (function != Function::gelu && function != Function::gelu_tanh) return 0;
  const double size = std::fabs(x.value) + x.error;
  const double cheap = function == Function::gelu ? kernel.of_gelu * (1 + size * size / 2) * std::fabs(value) : 0;
  return kernel.of_argument * size + cheap;
}

std::string key(const Axis& axis) {
  if (axis.named()) return axis.dim;
  if (axis.literal > 1) return std::to_string(axis.literal);
  return "";
}

}  // namespace

double growth(double k, bool random_data) {
  const double worst = k + 2, random = 16 * std::sqrt(k) + 16;
  return (random_data ? std::min(worst, random) : worst) * u;
}

// Tensors that statements of the kernel compute, each shared by all its readers.
struct Interpreter::Inside {
  std::map<int, std::unique_ptr<Interpreter>> expressions;
  std::map<int, std::unique_ptr<SummedProduct>> products;
  std::map<int, double> loose;  // factor by which the errors of some tensors may be larger
};

Interpreter::~Interpreter() = default;

Interpreter::Interpreter(const Oracle& oracle, const std::vector<Shape>& shapes, const Expression& expression)
    : oracle_(oracle),
      nodes_(expression.nodes),
      spaces_(spaces(oracle.program.tensors, nodes_)),
      own_(std::make_unique<Inside>()),
      inside_(*own_) {
  prepare(shapes, expression.result);
}

Interpreter::Interpreter(const Oracle& oracle, const std::vector<Shape>& shapes, const Expression& expression,
                         Inside& inside)
    : oracle_(oracle), nodes_(expression.nodes), spaces_(spaces(oracle.program.tensors, nodes_)), inside_(inside) {
  prepare(shapes, expression.result);
}

void Interpreter::prepare(const std::vector<Shape>& shapes, int result) {
  members_.resize(spaces_.axes.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    std::vector<std::size_t>& members = members_[static_cast<std::size_t>(spaces_.of[i])];
    place_.push_back(members.size());
    members.push_back(i);
  }
  result_ = walk(shapes[static_cast<std::size_t>(result)]);
  for (const Node& n : nodes_) {
    Shape named;
    for (const Axis& axis : n.over)
      if (!key(axis).empty()) named.push_back({key(axis), axis.named() ? oracle_.dims.at(axis.dim) : axis.literal, 0});
    walks_.push_back(walk(n.kind == Node::Kind::tensor ? shapes[static_cast<std::size_t>(n.tensor)] : named));
    if (n.kind == Node::Kind::tensor) look_inside(shapes, n.tensor);
  }
  cost_ = cost(0, 1);
}

namespace {

// True if an operand of the product is computed inside the kernel.
bool of_inside(const Oracle& oracle, const Contraction& c) {
  return std::any_of(oracle.inside.begin(), oracle.inside.end(), [&](int s) {
    const int made = oracle.program.statements[static_cast<std::size_t>(s)].result();
    return made == c.left || made == c.right;
  });
}

}  // namespace

Expression as_expression(const Contraction& c) {
  Expression out = elementwise(c);
  if (!sums(c)) return out;
  out.nodes.push_back({.kind = Node::Kind::along, .function = Function::sum, .arguments = {2}});
  for (const std::string& dim : c.contracted) out.nodes.back().over.push_back({.dim = dim});
  return out;
}

namespace {

// True if the last node sums products that are computed inside the kernel.
bool sums_products(const Oracle& oracle, const Expression& e) {
  const auto multiplies = [](const Node& node) {
    return node.kind == Node::Kind::call && node.function == Function::multiply;
  };
  const Node& last = e.nodes.back();
  if (last.kind != Node::Kind::along || last.function != Function::sum) return false;
  const Node& of = e.nodes[static_cast<std::size_t>(last.arguments[0])];
  const auto made = of.kind == Node::Kind::tensor ? oracle.made_inside(of.tensor) : std::nullopt;
  return multiplies(of) || (made && multiplies(made->nodes.back()));
}

// A kernel may sum in another order: attention's gradients compute the sum of p * (do * v) along the keys as that of do
// * o, where o = p * v is rounded to its stored dtype. An error of do * v is proportional to the size of its terms.
double looseness(const std::map<int, std::unique_ptr<SummedProduct>>& products) {
  double out = 0;
  for (const auto& [tensor, product] : products) out = std::max(out, product->rounded_error());
  return out;
}

}  // namespace

void Interpreter::look_inside(const std::vector<Shape>& shapes, int tensor) {
  if (inside_.expressions.contains(tensor) || inside_.products.contains(tensor)) return;
  for (const int s : oracle_.inside) {
    const Statement& statement = oracle_.program.statements[static_cast<std::size_t>(s)];
    if (statement.result() != tensor) continue;
    const auto* c = std::get_if<Contraction>(&statement.op);
    if (c && sums(*c) && !of_inside(oracle_, *c)) {
      inside_.products[tensor] = std::make_unique<SummedProduct>(oracle_, shapes, *c);
      return;
    }
    const Expression e = c ? as_expression(*c) : std::get<Expression>(statement.op);
    inside_.expressions[tensor].reset(new Interpreter(oracle_, shapes, e, inside_));
    if (sums_products(oracle_, e)) inside_.loose[tensor] = looseness(inside_.products);
  }
}

SummedProduct::SummedProduct(const Oracle& oracle, const std::vector<Shape>& shapes, const Contraction& c)
    : left_(oracle.tensors[static_cast<std::size_t>(c.left)]),
      right_(oracle.tensors[static_cast<std::size_t>(c.right)]),
      random_data_(oracle.random_data) {
  const Shape &left = shapes[static_cast<std::size_t>(c.left)], &right = shapes[static_cast<std::size_t>(c.right)];
  const Shape& result = shapes[static_cast<std::size_t>(c.result)];
  for (const SizedAxis& axis : result)
    if (!axis.dim.empty())
      kept_.push_back(
          {axis.extent, ridge::along(left, axis.dim).stride, ridge::along(right, axis.dim).stride, axis.stride});
  for (const SizedAxis& axis : left)
    if (!axis.dim.empty() && !has(result, axis.dim))
      summed_.push_back({axis.extent, axis.stride, ridge::along(right, axis.dim).stride, 0});
}

double SummedProduct::rounded_error() const {
  return std::max(roundoff(left_.dtype), roundoff(right_.dtype)) / growth(cost(), random_data_);
}

double SummedProduct::cost() const {
  double all = 1;
  for (const Axis& axis : summed_) all *= static_cast<double>(axis.extent);
  return all;
}

Uncertain SummedProduct::value(std::int64_t index) const {
  std::int64_t left = 0, right = 0;
  for (const Axis& axis : kept_) {
    const std::int64_t place = index / axis.stride % axis.extent;
    left += place * axis.left;
    right += place * axis.right;
  }
  Uncertain out;
  double size = 0;
  const auto points = static_cast<std::int64_t>(cost());
  for (std::int64_t point = 0; point < points; ++point) {
    std::int64_t rest = point, l = left, r = right;
    for (auto axis = summed_.rbegin(); axis != summed_.rend(); ++axis) {
      l += rest % axis->extent * axis->left;
      r += rest % axis->extent * axis->right;
      rest /= axis->extent;
    }
    const double product = read(left_, l) * read(right_, r);
    out.value += product;
    size += std::fabs(product);
  }
  out.error = summed_.empty() ? u * size : growth(static_cast<double>(points), random_data_) * size;
  return out;
}

std::size_t Interpreter::dim(const std::string& key) {
  const auto found = std::find(dims_.begin(), dims_.end(), key);
  if (found != dims_.end()) return static_cast<std::size_t>(found - dims_.begin());
  dims_.push_back(key);
  return dims_.size() - 1;
}

Interpreter::Walk Interpreter::walk(const Shape& shape) {
  Walk out;
  for (const SizedAxis& axis : shape)
    if (!axis.dim.empty()) out.push_back({dim(axis.dim), axis.extent, axis.stride});
  return out;
}

Uncertain Interpreter::value(std::int64_t index) const {
  Memo memo;
  return value(index, memo);
}

Uncertain Interpreter::value(std::int64_t index, Memo& memo) const {
  Point at(dims_.size());
  for (const Step& step : result_) at[step.dim] = index / step.stride % step.extent;
  return evaluate(0, at, memo);
}

// `points`: length of the enclosing row. Tensors of the kernel are cached, so extents of nested rows do not multiply.
double Interpreter::cost(int space, double points) const {
  double all = 0;
  for (const std::size_t i : members_[static_cast<std::size_t>(space)]) {
    const Node& n = nodes_[i];
    double row = 1;
    if (n.kind == Node::Kind::along)
      for (const Step& step : walks_[i]) row *= static_cast<double>(step.extent);
    all += n.kind == Node::Kind::along ? row * (cost(below(i), row) + 2) : n.repeat;
    if (n.kind != Node::Kind::tensor) continue;
    if (const auto inner = inside_.expressions.find(n.tensor); inner != inside_.expressions.end())
      all += remembering + inner->second->cost() / points;
    if (const auto inner = inside_.products.find(n.tensor); inner != inside_.products.end())
      all += inner->second->cost();
  }
  return all;
}

// Recurses only from space to space, not along a chain of operators, whose length is unlimited.
Uncertain Interpreter::evaluate(int space, const Point& at, Memo& memo) const {
  std::vector<Uncertain> values;
  for (const std::size_t i : members_[static_cast<std::size_t>(space)]) values.push_back(node(i, values, at, memo));
  return values.back();
}

Uncertain Interpreter::tensor(std::size_t i, const Point& at, Memo& memo) const {
  const int tensor = nodes_[i].tensor;
  std::int64_t offset = 0;
  for (const Step& step : walks_[i]) offset += at[step.dim] * step.stride;
  const auto inner = inside_.expressions.find(tensor);
  const auto product = inside_.products.find(tensor);
  if (inner == inside_.expressions.end() && product == inside_.products.end())
    return {read(oracle_.tensors[static_cast<std::size_t>(tensor)], offset), 0};
  if (const auto known = memo.elements.find({tensor, offset}); known != memo.elements.end()) return known->second;
  Uncertain made =
      inner == inside_.expressions.end() ? product->second->value(offset) : inner->second->value(offset, memo);
  // A kernel that also stores the tensor may read it back rounded.
  const Array& stored = oracle_.tensors[static_cast<std::size_t>(tensor)];
  if (const auto loose = inside_.loose.find(tensor); loose != inside_.loose.end()) made.error *= 1 + loose->second;
  if (stored.elements > 0) made.error += roundoff(stored.dtype) * (std::fabs(made.value) + made.error);
  memo.elements[{tensor, offset}] = made;
  return made;
}

// Returns the number of sequences that end at or before a position.
double Interpreter::sequence_at(const std::string& dim, std::int64_t place) const {
  double number = 0;
  for (const std::int64_t length : lengths_along(oracle_.program, dim)) {
    if (place < length) break;
    place -= length;
    ++number;
  }
  return number;
}

Uncertain Interpreter::node(std::size_t i, const std::vector<Uncertain>& values, const Point& at, Memo& memo) const {
  const Node& n = nodes_[i];
  switch (n.kind) {
    case Node::Kind::tensor: return tensor(i, at, memo);
    case Node::Kind::number: return constant(n.number);
    case Node::Kind::index: return {static_cast<double>(at[walks_[i][0].dim]), 0};
    case Node::Kind::size: return constant(static_cast<double>(walks_[i][0].extent));
    case Node::Kind::along: return along(i, at, memo);
    case Node::Kind::sequence: return constant(sequence_at(n.over[0].dim, at[walks_[i][0].dim]));
    case Node::Kind::previous:
    case Node::Kind::routine: RIDGE_CHECK(false, "measure/routines evaluates routines");
    case Node::Kind::call: break;
  }
  Uncertain in[3];
  for (std::size_t a = 0; a < n.arguments.size() && a < 3; ++a)
    in[a] = values[place_[static_cast<std::size_t>(n.arguments[a])]];
  Uncertain out = call(n.function, in[0], in[1], in[2]);
  out.error += slack(oracle_.gelu, n.function, in[0], out.value);
  const bool at_limit = ridge::row(n.function).ends_product && in[0].value == -INFINITY && std::signbit(out.value);
  // Product epilogues compute the formula, which gives NaN instead of -0.
  if (!oracle_.gelu.limits && at_limit) out.value = NAN;
  for (int r = 1; r < n.repeat; ++r) out = call(n.function, out, {}, {});
  return out;
}

// Evaluates the argument at every point of the dimensions that node i runs along.
const Interpreter::Row& Interpreter::row(std::size_t i, Point at, Memo& memo) const {
  std::int64_t points = 1;
  for (const Step& step : walks_[i]) {
    points *= step.extent;
    at[step.dim] = 0;
  }
  const auto [place, is_new] = memo.rows.try_emplace({{this, i}, at});
  Row& out = place->second;
  if (!is_new) return out;
  for (std::int64_t p = 0; p < points; ++p) {
    std::int64_t rest = p;
    for (const Step& step : walks_[i]) {
      at[step.dim] = rest % step.extent;
      rest /= step.extent;
    }
    out.all.push_back(evaluate(below(i), at, memo));
  }
  if (nodes_[i].function != Function::softmax) return out;
  out.largest = extreme(Function::max, out.all);
  std::vector<Uncertain> powers;
  for (const Uncertain& x : out.all) powers.push_back(power(x, out.largest));
  out.total = sum(powers);
  return out;
}

Uncertain Interpreter::along(std::size_t i, const Point& at, Memo& memo) const {
  const Function function = nodes_[i].function;
  const Row& whole = row(i, at, memo);
  const auto here = [&] { return evaluate(below(i), at, memo); };
  switch (function) {
    case Function::sum: return sum(whole.all);
    case Function::mean: return mean(whole.all);
    case Function::softmax: return softmax(whole, here());
    case Function::rmsnorm: return normalized(whole.all, here());
    case Function::layernorm: {
      std::vector<Uncertain> all = whole.all;
      const Uncertain middle = mean(all);
      for (Uncertain& x : all) x = call(Function::subtract, x, middle, {});
      return normalized(all, call(Function::subtract, here(), middle, {}));
    }
    default: return extreme(function, whole.all);
  }
}

Uncertain Interpreter::sum(const std::vector<Uncertain>& row) const {
  Uncertain out;
  double size = 0;
  for (const Uncertain& x : row) {
    out.value += x.value;
    out.error += x.error;
    size += std::fabs(x.value) + x.error;
  }
  return rounded(out.value, out.error + growth(static_cast<double>(row.size()), oracle_.random_data) * size);
}

Uncertain Interpreter::mean(const std::vector<Uncertain>& row) const {
  const double count = static_cast<double>(row.size());
  const Uncertain total = sum(row);
  return rounded(total.value / count, total.error / count);
}

Uncertain Interpreter::softmax(const Row& row, const Uncertain& mine) const {
  return call(Function::divide, power(mine, row.largest), row.total, {});
}

// Divides by the root mean square, as rmsnorm does.
Uncertain Interpreter::normalized(const std::vector<Uncertain>& row, const Uncertain& mine) const {
  std::vector<Uncertain> squares;
  for (const Uncertain& x : row) squares.push_back(call(Function::multiply, x, x, {}));
  const Uncertain square = call(Function::add, mean(squares), {norm_epsilon, u * norm_epsilon}, {});
  return call(Function::multiply, mine, unary(Function::rsqrt, square), {});
}

}  // namespace ridge

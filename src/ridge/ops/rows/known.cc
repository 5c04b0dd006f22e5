// Recognizes the row function that a program computes, by evaluating it on random rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "ridge/base/function.h"
#include "ridge/ops/chain/code.h"
#include "ridge/ops/rows/program.h"

namespace ridge::ops {
namespace {

using Row = std::vector<double>;

constexpr std::size_t tried_columns[] = {4, 8};  // Powers of two, so 1 / columns is exact.
constexpr double same_to = 1e-11, least_seen = 1e-8;

// True if the operation is smooth. Roots of elements may not be (sqrt(x * x) is |x|); roots of row sums of squares are.
bool is_smooth(ChainOp op, bool of_elements) {
  switch (op) {
    case ChainOp::add:
    case ChainOp::subtract:
    case ChainOp::multiply:
    case ChainOp::divide:
    case ChainOp::negate:
    case ChainOp::exp:
    case ChainOp::log:
    case ChainOp::load:
    case ChainOp::constant:
    case ChainOp::store: return true;
    case ChainOp::pow:
    case ChainOp::sqrt:
    case ChainOp::rsqrt: return !of_elements;
    default: return false;
  }
}

RowProblem problem_of(RowFunction function, float epsilon) {
  RowProblem p;
  p.function = function;
  p.epsilon = epsilon;
  return p;
}

double joined(ReduceFunction function, const Row& x) {
  if (function == ReduceFunction::max) return *std::max_element(x.begin(), x.end());
  if (function == ReduceFunction::min) return *std::min_element(x.begin(), x.end());
  double sum = 0;
  for (const double each : x) sum += each;
  return function == ReduceFunction::mean ? sum / static_cast<double>(x.size()) : sum;
}

// Evaluates a program on one row of another length. Constants equal to its columns, or to 1 / columns, are rescaled.
class Trial {
 public:
  Trial(const RowProgram& program, const std::vector<Row>& tensors, std::size_t columns)
      : program_(program), tensors_(tensors), columns_(columns), values_(static_cast<std::size_t>(program.registers)) {}

  Row result() {
    Row out;
    for (const RowStep& step : program_.steps)
      if (step.step.op == ChainOp::store && step.kind == RowStep::Kind::element)
        out = value(step.step.a);
      else
        values_[static_cast<std::size_t>(step.step.result)] = made(step);
    return out;
  }

 private:
  const Row& value(int reg) const { return values_[static_cast<std::size_t>(reg)]; }
  Row made(const RowStep& given) const {
    const ChainStep& s = given.step;
    if (given.kind == RowStep::Kind::along) return Row(columns_, joined(given.function, value(s.a)));
    if (given.kind == RowStep::Kind::whole)
      return in_doubles(problem_of(given.whole, s.constant), {value(s.a), {}, Row(columns_, 1)});
    if (s.op == ChainOp::load) return tensors_[static_cast<std::size_t>(s.slot)];
    if (s.op == ChainOp::constant) return Row(columns_, constant(s.constant));
    Row out = value(s.a);
    for (int again = 0; again < s.repeat; ++again)
      for (std::size_t i = 0; i < columns_; ++i)
        out[i] = row(s.op).value(out[i], operands(s.op) > 1 ? value(s.b)[i] : 0, 0);
    return out;
  }
  double constant(float x) const {
    const auto all = static_cast<float>(program_.columns), here = static_cast<float>(columns_);
    if (x == all) return here;
    return x == 1 / all ? 1 / here : x;
  }

  const RowProgram& program_;
  const std::vector<Row>& tensors_;
  std::size_t columns_;
  std::vector<Row> values_;
};

// Returns the stride between rows if it is uniform, else nullopt.
std::optional<std::int64_t> row_stride(const RowProgram& program, const ChainTensor& tensor) {
  std::optional<std::int64_t> inner;
  std::int64_t extent = 1;
  for (std::size_t axis = program.rows.size(); axis-- > 0;) {
    if (program.rows[axis] == 1) continue;
    if (inner && tensor.strides[axis] != *inner * extent) return std::nullopt;
    if (!inner) inner = tensor.strides[axis];
    extent *= program.rows[axis];
  }
  return inner.value_or(program.columns);
}

class Finding {
 public:
  Finding(const RowProgram& program, bool across) : program_(program), across_(across) {}

  std::optional<KnownRows> find() {
    if (!sort_tensors()) return std::nullopt;
    for (const RowFunction function : row_functions)
      for (const float epsilon : epsilons_)
        if (auto known = as(function, epsilon)) return known;
    return std::nullopt;
  }

 private:
  ChainTensor tensor(int t) const { return program_.tensors[static_cast<std::size_t>(t)]; }
  bool leaves_number() const { return program_.columns > 1 && tensor(y_).strides.back() == 0; }

  // True if there are at most three operands and one result, stored by rows, and all operations are smooth.
  bool sort_tensors() {
    std::set<int> elements, twos;  // Registers: of values that vary by element; of the constant 2.
    for (const RowStep& step : program_.steps) {
      const ChainStep& s = step.step;
      if (step.kind == RowStep::Kind::whole) elements.insert(s.result);
      if (step.kind == RowStep::Kind::along && step.function == ReduceFunction::min) return false;
      if (step.kind == RowStep::Kind::whole || s.op == ChainOp::constant) {
        epsilons_.insert(s.constant);
        if (s.constant != 0 && std::abs(s.constant) < least_seen) tiny_.insert(s.constant);
      }
      if (step.kind != RowStep::Kind::element) continue;
      bool of_elements = s.op == ChainOp::load;
      for (int i = 0; i < operands(s.op); ++i) of_elements |= elements.contains(i == 0 ? s.a : s.b);
      if (s.op == ChainOp::constant && s.constant == 2) twos.insert(s.result);
      if (!is_smooth(s.op, of_elements) && !(s.op == ChainOp::pow && twos.contains(s.b))) return false;
      if (of_elements) elements.insert(s.result);
      if ((s.op == ChainOp::store && !is_result(s.slot)) || (s.op == ChainOp::load && !is_operand(s.slot)))
        return false;
    }
    return y_ >= 0 && !operands_.empty() && operands_.size() <= 3;
  }
  bool is_result(int slot) {
    if (y_ >= 0 || !row_stride(program_, tensor(slot))) return false;
    y_ = slot;
    return true;
  }
  bool is_operand(int slot) {
    operands_.insert(slot);
    return row_stride(program_, tensor(slot)) && program_.columns > 1 && tensor(slot).strides.back() == 1;
  }

  // Tries every assignment of the operands to x, dy and weight. If there is one row, layouts do not exclude any.
  std::optional<KnownRows> as(RowFunction function, float epsilon) const {
    if (is_across(function) != across_ || is_number(function) != leaves_number() || !(epsilon >= 0) ||
        (!is_norm(function) && epsilon != 0))
      return std::nullopt;
    if (tiny_ != std::set<float>{} && tiny_ != std::set<float>{epsilon}) return std::nullopt;
    std::vector<int> order(operands_.begin(), operands_.end());
    do {
      KnownRows known{problem_of(function, epsilon)};
      std::size_t used = 0;
      known.x = order[used++];
      if (is_gradient(function) && used < order.size()) known.dy = order[used++];
      if (is_weighted(function) && used < order.size()) known.weight = order[used++];
      known.y = y_;
      if (used != order.size() || (known.dy >= 0) != is_gradient(function) || !lies_so(known) || !agrees(known))
        continue;
      complete(known);
      return known;
    } while (std::next_permutation(order.begin(), order.end()));
    return std::nullopt;
  }
  bool lies_so(const KnownRows& known) const {
    const auto same_for_all = [&](int t) { return *row_stride(program_, tensor(t)) == 0; };
    const bool one_row =
        std::all_of(program_.rows.begin(), program_.rows.end(), [](std::int64_t extent) { return extent == 1; });
    return one_row || (!same_for_all(known.x) && (known.dy < 0 || !same_for_all(known.dy)) &&
                       (known.weight < 0 || same_for_all(known.weight)));
  }

  bool agrees(const KnownRows& known) const {
    std::mt19937 random(1);
    const auto drawn = [&] { return (static_cast<double>(random()) + 1) / 0x1p32 - 0.5; };
    for (const std::size_t columns : tried_columns)
      for (const double size : {1.0, 0.02, 300.0}) {
        std::vector<Row> tensors;
        for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
          Row& row = tensors.emplace_back();
          for (std::size_t i = 0; i < columns; ++i) row.push_back(size * drawn());
        }
        const auto of = [&](int t) { return t < 0 ? Row(columns, 1) : tensors[static_cast<std::size_t>(t)]; };
        const Row text = in_doubles(known.problem, {of(known.x), of(known.dy), of(known.weight)}),
                  made = Trial(program_, tensors, columns).result();
        double largest = 0;
        for (const double each : text) largest = std::max(largest, std::abs(each));
        for (std::size_t i = 0; i < text.size(); ++i)
          if (!(std::abs(text[i] - made[i]) <= same_to * largest)) return false;
      }
    return known.problem.function != RowFunction::log_sum_exp || agrees_at_infinity(known);
  }
  // log(sum(exp(x))) of a fully masked row is -inf; if the maximum is subtracted first, it is NaN.
  bool agrees_at_infinity(const KnownRows& known) const {
    constexpr double inf = std::numeric_limits<double>::infinity();
    for (const Row& row : {Row{-inf, -inf, -inf, -inf}, {1, -inf, 2, 0}, {1, inf, 2, 0}}) {
      const std::vector<Row> tensors(program_.tensors.size(), row);
      const double text = in_doubles(known.problem, {row, Row(4, 1), Row(4, 1)})[0],
                   made = Trial(program_, tensors, 4).result()[0];
      const bool both_nan = std::isnan(text) && std::isnan(made);
      if (!both_nan && text != made && !(std::abs(text - made) <= same_to * std::abs(text))) return false;
    }
    return true;
  }

  void complete(KnownRows& known) const {
    RowProblem& p = known.problem;
    const auto layout = [&](int t) { return RowLayout{tensor(t).dtype, *row_stride(program_, tensor(t))}; };
    p.rows = 1;
    for (const std::int64_t extent : program_.rows) p.rows *= extent;
    p.columns = program_.columns;
    p.x = layout(known.x);
    p.y = layout(known.y);
    if (across_) p.y.row_stride = 0;
    if (known.dy >= 0) p.dy = layout(known.dy);
    if (known.weight >= 0) p.weight = tensor(known.weight).dtype;
  }

  const RowProgram& program_;
  const bool across_;
  std::set<int> operands_;  // Tensors that are loaded.
  int y_ = -1;
  std::set<float> epsilons_{0};
  std::set<float> tiny_;  // Too small to affect random samples: each must equal epsilon.
};

}  // namespace

std::optional<KnownRows> known_rows(const RowProgram& program, bool across) { return Finding(program, across).find(); }

}  // namespace ridge::ops

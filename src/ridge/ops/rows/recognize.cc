// Recognizes the row function that a program computes, by evaluating it on random rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "ridge/base/function.h"
#include "ridge/ops/chain/lower.h"
#include "ridge/ops/rows/program.h"

namespace ridge::ops {
namespace {

using RowVector = std::vector<double>;

constexpr std::size_t trial_columns[] = {4, 8};  // Powers of two, so 1 / columns is exact.
constexpr double relative_tolerance = 1e-11, min_visible_constant = 1e-8;

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

RowProblem make_problem(RowFunction function, float epsilon) {
  RowProblem p;
  p.function = function;
  p.epsilon = epsilon;
  return p;
}

double reduce_values(ReduceFunction function, const RowVector& x) {
  if (function == ReduceFunction::max) return *std::max_element(x.begin(), x.end());
  if (function == ReduceFunction::min) return *std::min_element(x.begin(), x.end());
  double sum = 0;
  for (const double each : x) sum += each;
  return function == ReduceFunction::mean ? sum / static_cast<double>(x.size()) : sum;
}

// Evaluates a program on one row, which may be shorter than the program's. Constants that equal the program's number
// of columns, or its inverse, are replaced by those of the row.
class ProgramEvaluator {
 public:
  ProgramEvaluator(const RowProgram& program, const std::vector<RowVector>& tensors, std::size_t columns)
      : program_(program), tensors_(tensors), columns_(columns), values_(static_cast<std::size_t>(program.registers)) {}

  RowVector evaluate() {
    RowVector out;
    for (const RowProgramStep& step : program_.steps)
      if (step.step.op == ChainOp::store && step.kind == RowProgramStep::StepKind::element)
        out = register_value(step.step.a);
      else
        values_[step.step.result] = evaluate_step(step);
    return out;
  }

 private:
  const RowVector& register_value(int reg) const { return values_[reg]; }
  RowVector evaluate_step(const RowProgramStep& given) const {
    const ChainStep& s = given.step;
    if (given.kind == RowProgramStep::StepKind::row_reduction)
      return RowVector(columns_, reduce_values(given.function, register_value(s.a)));
    if (given.kind == RowProgramStep::StepKind::row_function)
      return evaluate_in_f64(make_problem(given.row_function, s.constant),
                             {register_value(s.a), {}, RowVector(columns_, 1)});
    if (s.op == ChainOp::load) return tensors_[s.slot];
    if (s.op == ChainOp::constant) return RowVector(columns_, rescaled_constant(s.constant));
    RowVector out = register_value(s.a);
    for (int repetition = 0; repetition < s.repeat; ++repetition)
      for (std::size_t i = 0; i < columns_; ++i)
        out[i] = function_info(s.op).reference(out[i], operand_count(s.op) > 1 ? register_value(s.b)[i] : 0, 0);
    return out;
  }
  double rescaled_constant(float x) const {
    const auto program_columns = static_cast<float>(program_.columns), evaluated_columns = static_cast<float>(columns_);
    if (x == program_columns) return evaluated_columns;
    return x == 1 / program_columns ? 1 / evaluated_columns : x;
  }

  const RowProgram& program_;
  const std::vector<RowVector>& tensors_;
  std::size_t columns_;
  std::vector<RowVector> values_;
};

// Returns the stride between rows if it is uniform, else nullopt.
std::optional<std::int64_t> uniform_row_stride(const RowProgram& program, const ChainTensor& tensor) {
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

class RowRecognizer {
 public:
  RowRecognizer(const RowProgram& program, bool across) : program_(program), across_(across) {}

  std::optional<RecognizedRowFunction> find_match() {
    if (!classify_tensors()) return std::nullopt;
    for (const RowFunction function : row_functions)
      for (const float epsilon : epsilons_)
        if (auto match = match_function(function, epsilon)) return match;
    return std::nullopt;
  }

 private:
  ChainTensor tensor_at(int t) const { return program_.tensors[t]; }
  bool stores_row_scalar() const { return program_.columns > 1 && tensor_at(y_).strides.back() == 0; }

  // True if there are at most three operands and one result, stored by rows, and all operations are smooth.
  bool classify_tensors() {
    std::set<int> elements, two_registers;  // Registers of values that vary by element, and of the constant 2.
    for (const RowProgramStep& step : program_.steps) {
      const ChainStep& s = step.step;
      if (step.kind == RowProgramStep::StepKind::row_function) elements.insert(s.result);
      if (step.kind == RowProgramStep::StepKind::row_reduction && step.function == ReduceFunction::min) return false;
      if (step.kind == RowProgramStep::StepKind::row_function || s.op == ChainOp::constant) {
        epsilons_.insert(s.constant);
        if (s.constant != 0 && std::abs(s.constant) < min_visible_constant) tiny_constants_.insert(s.constant);
      }
      if (step.kind != RowProgramStep::StepKind::element) continue;
      bool of_elements = s.op == ChainOp::load;
      for (int i = 0; i < operand_count(s.op); ++i) of_elements |= elements.contains(i == 0 ? s.a : s.b);
      if (s.op == ChainOp::constant && s.constant == 2) two_registers.insert(s.result);
      if (!is_smooth(s.op, of_elements) && !(s.op == ChainOp::pow && two_registers.contains(s.b))) return false;
      if (of_elements) elements.insert(s.result);
      if ((s.op == ChainOp::store && !accept_result(s.slot)) || (s.op == ChainOp::load && !accept_operand(s.slot)))
        return false;
    }
    return y_ >= 0 && !operands_.empty() && operands_.size() <= 3;
  }
  bool accept_result(int slot) {
    if (y_ >= 0 || !uniform_row_stride(program_, tensor_at(slot))) return false;
    y_ = slot;
    return true;
  }
  bool accept_operand(int slot) {
    operands_.insert(slot);
    return uniform_row_stride(program_, tensor_at(slot)) && program_.columns > 1 && tensor_at(slot).strides.back() == 1;
  }

  // Tries every assignment of the operands to x, dy and weight. If there is one row, layouts do not exclude any.
  std::optional<RecognizedRowFunction> match_function(RowFunction function, float epsilon) const {
    if (reduces_across_rows(function) != across_ || is_row_scalar(function) != stores_row_scalar() || !(epsilon >= 0) ||
        (!is_norm(function) && epsilon != 0))
      return std::nullopt;
    if (tiny_constants_ != std::set<float>{} && tiny_constants_ != std::set<float>{epsilon}) return std::nullopt;
    std::vector<int> order(operands_.begin(), operands_.end());
    do {
      RecognizedRowFunction match{make_problem(function, epsilon)};
      std::size_t used = 0;
      match.x = order[used++];
      if (is_gradient(function) && used < order.size()) match.dy = order[used++];
      if (has_weight(function) && used < order.size()) match.weight = order[used++];
      match.y = y_;
      if (used != order.size() || (match.dy >= 0) != is_gradient(function) || !has_matching_layout(match) ||
          !agrees_on_samples(match))
        continue;
      fill_problem(match);
      return match;
    } while (std::next_permutation(order.begin(), order.end()));
    return std::nullopt;
  }
  bool has_matching_layout(const RecognizedRowFunction& match) const {
    const auto is_shared = [&](int t) { return *uniform_row_stride(program_, tensor_at(t)) == 0; };
    const bool one_row =
        std::all_of(program_.rows.begin(), program_.rows.end(), [](std::int64_t extent) { return extent == 1; });
    return one_row || (!is_shared(match.x) && (match.dy < 0 || !is_shared(match.dy)) &&
                       (match.weight < 0 || is_shared(match.weight)));
  }

  bool agrees_on_samples(const RecognizedRowFunction& match) const {
    std::mt19937 random(1);
    const auto draw_number = [&] { return (static_cast<double>(random()) + 1) / 0x1p32 - 0.5; };
    for (const std::size_t columns : trial_columns)
      for (const double magnitude : {1.0, 0.02, 300.0}) {
        std::vector<RowVector> tensors;
        for (std::size_t t = 0; t < program_.tensors.size(); ++t) {
          RowVector& row = tensors.emplace_back();
          for (std::size_t i = 0; i < columns; ++i) row.push_back(magnitude * draw_number());
        }
        const auto operand_values = [&](int t) { return t < 0 ? RowVector(columns, 1) : tensors[t]; };
        const RowVector expected = evaluate_in_f64(match.problem, {operand_values(match.x), operand_values(match.dy),
                                                                   operand_values(match.weight)}),
                        actual = ProgramEvaluator(program_, tensors, columns).evaluate();
        double largest = 0;
        for (const double each : expected) largest = std::max(largest, std::abs(each));
        for (std::size_t i = 0; i < expected.size(); ++i)
          if (!(std::abs(expected[i] - actual[i]) <= relative_tolerance * largest)) return false;
      }
    return match.problem.function != RowFunction::log_sum_exp || agrees_at_infinity(match);
  }
  // log(sum(exp(x))) of a fully masked row is -inf; if the maximum is subtracted first, it is NaN.
  bool agrees_at_infinity(const RecognizedRowFunction& match) const {
    constexpr double inf = std::numeric_limits<double>::infinity();
    for (const RowVector& row : {RowVector{-inf, -inf, -inf, -inf}, {1, -inf, 2, 0}, {1, inf, 2, 0}}) {
      const std::vector<RowVector> tensors(program_.tensors.size(), row);
      const double expected = evaluate_in_f64(match.problem, {row, RowVector(4, 1), RowVector(4, 1)})[0],
                   actual = ProgramEvaluator(program_, tensors, 4).evaluate()[0];
      const bool both_nan = std::isnan(expected) && std::isnan(actual);
      if (!both_nan && expected != actual && !(std::abs(expected - actual) <= relative_tolerance * std::abs(expected)))
        return false;
    }
    return true;
  }

  void fill_problem(RecognizedRowFunction& match) const {
    RowProblem& p = match.problem;
    const auto layout = [&](int t) {
      return RowLayout{tensor_at(t).dtype, *uniform_row_stride(program_, tensor_at(t))};
    };
    p.rows = 1;
    for (const std::int64_t extent : program_.rows) p.rows *= extent;
    p.columns = program_.columns;
    p.x = layout(match.x);
    p.y = layout(match.y);
    if (across_) p.y.row_stride = 0;
    if (match.dy >= 0) p.dy = layout(match.dy);
    if (match.weight >= 0) p.weight_dtype = tensor_at(match.weight).dtype;
  }

  const RowProgram& program_;
  const bool across_;
  std::set<int> operands_;  // Tensors that are loaded.
  int y_ = -1;
  std::set<float> epsilons_{0};
  std::set<float> tiny_constants_;  // Too small to affect random samples: each must equal epsilon.
};

}  // namespace

std::optional<RecognizedRowFunction> recognize_row_function(const RowProgram& program, bool across) {
  return RowRecognizer(program, across).find_match();
}

}  // namespace ridge::ops

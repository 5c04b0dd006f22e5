// Evaluates small programs in f64 with literal loops over all indices, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ridge/base/contains.h"
#include "ridge/program/program.h"
#include "ridge/program/routine.h"

namespace ridge::testing {

using TensorValues = std::map<std::string, std::vector<double>>;

class LiteralEvaluator {
 public:
  explicit LiteralEvaluator(const Program& program) : program_(program), sizes_(*program.bind_sizes({})) {}

  std::int64_t count_elements(const Tensor& tensor) const {
    std::int64_t count = 1;
    for (const Axis& axis : tensor.axes) count *= *axis.size(sizes_);
    return count;
  }

  // Returns the values of all tensors; `values` has those of the inputs.
  TensorValues run(TensorValues values) {
    values_ = std::move(values);
    for (const Statement& statement : program_.statements) {
      const Tensor& result = program_.tensors[statement.result()];
      std::vector<double> out;
      loop(result.axes, {}, [&](const Coordinates& at) { out.push_back(evaluate(statement, at)); });
      values_[result.name] = std::move(out);
    }
    return std::move(values_);
  }

 private:
  using Coordinates = std::map<std::string, std::int64_t>;

  // Calls work for all indices along the axes, the last of which is fastest.
  template <class Work> void loop(const std::vector<Axis>& axes, Coordinates at, Work&& work, std::size_t first = 0) {
    if (first == axes.size()) return work(at);
    for (std::int64_t i = 0; i < *axes[first].size(sizes_); ++i) {
      at[axes[first].dim] = i;
      loop(axes, at, work, first + 1);
    }
  }

  double read(int tensor, const Coordinates& at) const {
    std::int64_t index = 0;
    for (const Axis& axis : program_.tensors[tensor].axes) index = index * *axis.size(sizes_) + at.at(axis.dim);
    return values_.at(program_.tensors[tensor].name)[static_cast<std::size_t>(index)];
  }

  double evaluate(const Statement& statement, const Coordinates& at) {
    if (const auto* product = std::get_if<Contraction>(&statement.op)) {
      std::vector<Axis> summed;
      for (const Axis& axis : program_.tensors[product->left].axes)
        if (contains(product->contracted, axis.dim)) summed.push_back(axis);
      double sum = 0;
      loop(summed, at, [&](const Coordinates& x) { sum += read(product->left, x) * read(product->right, x); });
      return sum;
    }
    const auto& expression = std::get<Expression>(statement.op);
    if (const Routine* routine = routine_of(statement)) return evaluate_routine(expression, *routine, at);
    return evaluate_node(expression, expression.nodes.size() - 1, at);
  }

  double evaluate_node(const Expression& e, std::size_t i, const Coordinates& at) {
    const Node& node = e.nodes[i];
    const auto argument = [&](std::size_t k, const Coordinates& x) {
      return k < node.arguments.size() ? evaluate_node(e, static_cast<std::size_t>(node.arguments[k]), x) : 0;
    };
    switch (node.kind) {
      case Node::Kind::tensor: return read(node.tensor, at);
      case Node::Kind::number: return node.number;
      case Node::Kind::previous: return previous_;
      case Node::Kind::index: return static_cast<double>(at.at(node.over[0].dim));
      case Node::Kind::size: return static_cast<double>(*node.over[0].size(sizes_));
      case Node::Kind::call:
        return function_info(node.function).reference(argument(0, at), argument(1, at), argument(2, at));
      case Node::Kind::along_dims: break;
      default: ADD_FAILURE() << "a node that the evaluator does not know"; return 0;
    }
    std::vector<double> row;
    loop(node.over, at, [&](const Coordinates& x) { row.push_back(argument(0, x)); });
    return evaluate_row(node.function, row, is_reducing_function(node.function) ? 0 : argument(0, at));
  }

  // Returns the function of a row; x is the element at which a softmax or norm is evaluated.
  static double evaluate_row(Function function, const std::vector<double>& row, double x) {
    const double count = static_cast<double>(row.size());
    double sum = 0, squares = 0, exponentials = 0;
    for (const double each : row) sum += each;
    const double mean = function == Function::layernorm ? sum / count : 0;
    for (const double each : row) {
      squares += (each - mean) * (each - mean);
      exponentials += std::exp(each);
    }
    if (function == Function::sum) return sum;
    if (function == Function::mean) return sum / count;
    if (function == Function::softmax) return std::exp(x) / exponentials;
    return (x - mean) / std::sqrt(squares / count + norm_epsilon);
  }

  double evaluate_routine(const Expression& e, const Routine& routine, Coordinates at) {
    const std::vector<int> operands = expression_operands(e);
    const std::string& over = routine.over[0].dim;
    if (routine.kind == RoutineKind::gather) {
      at[over] = static_cast<std::int64_t>(read(operands[1], at));
      return read(operands[0], at);
    }
    if (routine.kind == RoutineKind::scatter) {
      const std::int64_t row = at.at(over);
      std::vector<Axis> rows;
      for (const Axis& axis : program_.tensors[operands[1]].axes)
        if (!at.contains(axis.dim)) rows.push_back(axis);
      double sum = 0;
      loop(rows, at, [&](const Coordinates& x) {
        if (static_cast<std::int64_t>(read(operands[1], x)) == row) sum += read(operands[0], x);
      });
      return sum;
    }
    if (routine.kind == RoutineKind::rotary) return evaluate_rotary(routine, operands, at);
    if (routine.kind == RoutineKind::cumsum || routine.kind == RoutineKind::scan) {
      const std::int64_t last = at.at(over);
      previous_ = 0;
      for (std::int64_t i = 0; i <= last; ++i) {
        at[over] = i;
        previous_ = routine.kind == RoutineKind::scan ? evaluate_node(e, e.nodes.size() - 2, at)
                                                      : previous_ + read(operands[0], at);
      }
      return previous_;
    }
    ADD_FAILURE() << "a routine that the evaluator does not know";
    return 0;
  }

  double evaluate_rotary(const Routine& routine, const std::vector<int>& operands, const Coordinates& at) {
    const std::int64_t size = *routine.over[0].size(sizes_), i = at.at(routine.over[0].dim);
    const bool is_second = routine.interleaved ? i % 2 == 1 : i >= size / 2;
    const std::int64_t pair = routine.interleaved ? i / 2 : i % (size / 2);
    Coordinates partner = at;
    partner[routine.over[0].dim] = routine.interleaved ? i ^ 1 : (i + size / 2) % size;
    const double angle = read(operands[1], at) * std::pow(static_cast<double>(routine.base),
                                                          -2 * static_cast<double>(pair) / static_cast<double>(size));
    const double x = read(operands[0], at), other = read(operands[0], partner);
    return is_second ? x * std::cos(angle) + other * std::sin(angle) : x * std::cos(angle) - other * std::sin(angle);
  }

  const Program& program_;
  Bindings sizes_;
  TensorValues values_;
  double previous_ = 0;  // Result of a scan's previous step
};

}  // namespace ridge::testing

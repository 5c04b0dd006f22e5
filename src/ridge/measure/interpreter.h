// Evaluates an expression at one point, node by node, with the largest error that a correct f32 computation may have. A
// function along dimensions evaluates its argument at each point of them, which is slow but simple.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ridge/measure/reference.h"
#include "ridge/plan/shape.h"

namespace ridge {

struct Uncertain {
  double value = 0, error = 0;
};

// Returns the relative error of a sum of k terms.
double growth(double k, bool random_data);
// Returns a product as an expression: a multiplication and, if it contracts, a sum along the contracted dimensions.
Expression as_expression(const Contraction& c);

// Evaluates elements of a contraction in fp64.
class SummedProduct {
 public:
  SummedProduct(const Oracle& oracle, const std::vector<Shape>& shapes, const Contraction& contraction);
  Uncertain value(std::int64_t index) const;
  double cost() const;           // number of products summed for one element
  double rounded_error() const;  // the error of operands rounded to their stored dtype, relative to an element's error

 private:
  struct Axis {
    // Strides in the operands and, for kept axes, in the result.
    std::int64_t extent, left, right, stride;
  };
  const Array &left_, &right_;
  std::vector<Axis> kept_, summed_;
  bool random_data_;
};

class Interpreter {
 public:
  // `shapes` has the shapes of Program::tensors.
  Interpreter(const Oracle& oracle, const std::vector<Shape>& shapes, const Expression& expression);
  ~Interpreter();

  using Point = std::vector<std::int64_t>;  // index along each dimension
  // Values evaluated so far: elements of tensors computed inside the kernel, each of which a row needs many times, and
  // the rows of functions along dimensions.
  struct Row {
    std::vector<Uncertain> all;
    Uncertain largest, total;  // softmax: maximum of the row, sum of its exponentials
  };
  struct Memo {
    std::map<std::pair<int, std::int64_t>, Uncertain> elements;
    std::map<std::pair<std::pair<const Interpreter*, std::size_t>, Point>, Row> rows;
  };
  Uncertain value(std::int64_t index) const;  // index of the result's element
  Uncertain value(std::int64_t index, Memo& memo) const;
  double cost() const { return cost_; }  // nodes evaluated for one element

 private:
  struct Inside;
  Interpreter(const Oracle& oracle, const std::vector<Shape>& shapes, const Expression& expression, Inside& inside);
  struct Step {
    std::size_t dim;
    std::int64_t extent, stride;
  };
  using Walk = std::vector<Step>;

  void prepare(const std::vector<Shape>& shapes, int result);
  void look_inside(const std::vector<Shape>& shapes, int tensor);
  std::size_t dim(const std::string& key);
  Walk walk(const Shape& shape);
  double cost(int space, double points) const;
  Uncertain evaluate(int space, const Point& at, Memo& memo) const;
  double sequence_at(const std::string& dim, std::int64_t place) const;
  Uncertain node(std::size_t i, const std::vector<Uncertain>& values, const Point& at, Memo& memo) const;
  Uncertain tensor(std::size_t i, const Point& at, Memo& memo) const;
  const Row& row(std::size_t i, Point at, Memo& memo) const;
  Uncertain along(std::size_t i, const Point& at, Memo& memo) const;
  Uncertain sum(const std::vector<Uncertain>& row) const;
  Uncertain mean(const std::vector<Uncertain>& row) const;
  Uncertain softmax(const Row& row, const Uncertain& mine) const;
  Uncertain normalized(const std::vector<Uncertain>& row, const Uncertain& mine) const;
  int below(std::size_t i) const { return spaces_.of[static_cast<std::size_t>(nodes_[i].arguments[0])]; }

  const Oracle& oracle_;
  std::vector<Node> nodes_;
  Spaces spaces_;
  std::vector<std::vector<std::size_t>> members_;  // nodes of each space in order; the last one is the space's value
  std::vector<std::size_t> place_;                 // index of each node in its space
  std::vector<std::string> dims_;
  std::vector<Walk> walks_;  // per node: axes of the tensor, or dimensions that it names
  Walk result_;
  std::unique_ptr<Inside> own_;  // set in the outermost evaluator only
  Inside& inside_;
  double cost_ = 0;
};

}  // namespace ridge

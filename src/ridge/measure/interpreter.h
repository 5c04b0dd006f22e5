// The value of an expression at one point, node by node, with the largest error that an honest f32 computation
// may make. Along dimensions it loops over them and evaluates the argument at each of their points: slow and obvious.
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

// The relative error of a sum of k terms.
double growth(double k, bool random_data);
// A product as what it multiplies and, where it sums, a sum of that.
Expression as_expression(const Contraction& c);

// Elements of a contraction's result, in fp64.
class SummedProduct {
 public:
  SummedProduct(const Oracle& oracle, const std::vector<Shape>& shapes, const Contraction& contraction);
  Uncertain value(std::int64_t index) const;
  double cost() const;           // products summed for one value
  double rounded_error() const;  // over a value's error: that of operands rounded to the dtype in which they are stored

 private:
  struct Axis {
    std::int64_t extent, left, right, stride;  // strides in the operands; in the result, of what is not summed
  };
  const Array &left_, &right_;
  std::vector<Axis> kept_, summed_;
  bool random_data_;
};

class Interpreter {
 public:
  // `shapes`: of Program::tensors.
  Interpreter(const Oracle& oracle, const std::vector<Shape>& shapes, const Expression& expression);
  ~Interpreter();

  using Point = std::vector<std::int64_t>;  // where along each dimension
  // What has been evaluated so far: of statements inside the kernel by tensor and element, for each is needed many
  // times along a row; and of functions along dimensions what their row comes to, for each of its elements.
  struct Row {
    std::vector<Uncertain> all;
    Uncertain largest, total;  // of a softmax: of the row, and of its powers
  };
  struct Memo {
    std::map<std::pair<int, std::int64_t>, Uncertain> elements;
    std::map<std::pair<std::pair<const Interpreter*, std::size_t>, Point>, Row> rows;
  };
  Uncertain value(std::int64_t index) const;  // of the result's element
  Uncertain value(std::int64_t index, Memo& memo) const;
  double cost() const { return cost_; }  // nodes evaluated for one value

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
  std::vector<std::vector<std::size_t>> members_;  // of each space: its nodes in order; the last one is its value
  std::vector<std::size_t> place_;                 // of each node among these
  std::vector<std::string> dims_;
  std::vector<Walk> walks_;  // of each node: a tensor's axes, or the dimensions that it names
  Walk result_;
  std::unique_ptr<Inside> own_;  // of the outermost one
  Inside& inside_;
  double cost_ = 0;
};

}  // namespace ridge

// The value of an expression at one point, node by node, with the largest error that an honest f32 computation
// may make. Along dimensions it loops over them and evaluates the argument at each of their points: slow and obvious.
#pragma once

#include <cstdint>
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

class Interpreter {
 public:
  // `shapes`: of Program::tensors.
  Interpreter(const Oracle& oracle, const std::vector<Shape>& shapes, const Expression& expression);

  Uncertain value(std::int64_t index) const;  // of the result's element
  double cost() const;                        // nodes evaluated for one value

 private:
  using Point = std::vector<std::int64_t>;  // where along each dimension, as in dims_
  struct Step {
    std::size_t dim;
    std::int64_t extent, stride;
  };
  using Walk = std::vector<Step>;

  std::size_t dim(const std::string& key);
  Walk walk(const Shape& shape);
  double cost(int space) const;
  Uncertain evaluate(int space, const Point& at) const;
  Uncertain node(std::size_t i, const std::vector<Uncertain>& values, const Point& at) const;
  std::vector<Uncertain> row(std::size_t i, Point at) const;
  Uncertain along(std::size_t i, const Point& at) const;
  Uncertain sum(const std::vector<Uncertain>& row) const;
  Uncertain mean(const std::vector<Uncertain>& row) const;
  Uncertain softmax(const std::vector<Uncertain>& row, const Uncertain& mine) const;
  Uncertain normalized(const std::vector<Uncertain>& row, const Uncertain& mine) const;
  int below(std::size_t i) const { return spaces_.of[static_cast<std::size_t>(nodes_[i].arguments[0])]; }

  const Oracle& oracle_;
  const std::vector<Node>& nodes_;
  Spaces spaces_;
  std::vector<std::vector<std::size_t>> members_;  // of each space: its nodes in order; the last one is its value
  std::vector<std::size_t> place_;                 // of each node among these
  std::vector<std::string> dims_;
  std::vector<Walk> walks_;  // of each node: a tensor's axes, or the dimensions that it names
  Walk result_;
};

}  // namespace ridge

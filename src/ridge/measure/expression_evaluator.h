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

struct ValueWithError {
  double value = 0, error = 0;
};

// Returns a constant as f32 represents it.
ValueWithError constant_value(double value);
// Returns an elementwise function's value with the error of its arguments and of its computation in f32.
ValueWithError evaluate_call(Function function, const ValueWithError& a, const ValueWithError& b,
                             const ValueWithError& c);
// Returns the relative error of a sum of k terms.
double sum_error_growth(double k, bool random_data);
// Returns the error of a sum of k products of two tensors' elements on tensor cores over the sum of the absolute
// products, beyond that of sums in f32: 0 unless both operands are tf32 or e4m3.
double tensor_core_error(const Reference& reference, int left, int right, double k);
// Returns a product as an expression: a multiplication and, if it contracts, a sum along the contracted dimensions.
Expression to_expression(const Contraction& c);

// Evaluates elements of sums of products in fp64.
class SumEvaluator {
 public:
  virtual ~SumEvaluator() = default;
  virtual ValueWithError evaluate_element(std::int64_t index) const = 0;
  virtual double evaluation_cost() const = 0;  // number of products summed for one element
  // Returns the error of operands rounded to their stored dtype, relative to an element's error.
  virtual double rounded_operand_error() const { return 0; }
};

class ContractionEvaluator : public SumEvaluator {
 public:
  ContractionEvaluator(const Reference& reference, const std::vector<Shape>& shapes, const Contraction& contraction);
  ValueWithError evaluate_element(std::int64_t index) const override;
  double evaluation_cost() const override;
  double rounded_operand_error() const override;

 private:
  struct OperandAxis {
    // Strides in the operands and, for kept axes, in the result.
    std::int64_t extent, left, right, stride;
  };
  const Array &left_, &right_;
  std::vector<OperandAxis> kept_, summed_;
  bool random_data_;
  double tensor_core_error_ = 0;  // relative to the sum of the absolute products
};

class ExpressionEvaluator {
 public:
  // `shapes` has the shapes of Program::tensors.
  ExpressionEvaluator(const Reference& reference, const std::vector<Shape>& shapes, const Expression& expression);
  ~ExpressionEvaluator();

  using Coordinates = std::vector<std::int64_t>;  // index along each dimension
  // Caches evaluated values: elements of tensors that are computed inside the kernel, each of which a row needs many
  // times, and the rows of functions along dimensions.
  struct EvaluatedRow {
    std::vector<ValueWithError> values;
    // All elements of the function share these, each set if the function uses it. `total` is the sum of the values, or
    // of softmax's exponentials.
    ValueWithError extreme = {}, total = {}, mean = {}, inverse_rms = {};
  };
  struct EvaluationCache {
    std::map<std::pair<int, std::int64_t>, ValueWithError> elements;
    std::map<std::pair<std::pair<const ExpressionEvaluator*, std::size_t>, Coordinates>, EvaluatedRow> rows;
  };
  ValueWithError evaluate_element(std::int64_t index) const;  // index of the result's element
  ValueWithError evaluate_element(std::int64_t index, EvaluationCache& memo) const;
  double evaluation_cost() const { return cost_; }  // nodes evaluated for one element

 private:
  struct KernelIntermediates;
  ExpressionEvaluator(const Reference& reference, const std::vector<Shape>& shapes, const Expression& expression,
                      KernelIntermediates& intermediates);
  struct TensorAxis {
    std::size_t dim;
    std::int64_t extent, stride;
  };
  using TensorAxes = std::vector<TensorAxis>;

  void prepare_nodes(const std::vector<Shape>& shapes, int result);
  void add_intermediate(const std::vector<Shape>& shapes, int tensor);
  std::size_t dim_index(const std::string& key);
  TensorAxes tensor_axes(const Shape& shape);
  double evaluation_cost(int space, double points) const;
  ValueWithError evaluate_space(int space, const Coordinates& at, EvaluationCache& memo) const;
  double sequence_index(const std::string& dim, std::int64_t position) const;
  ValueWithError evaluate_node(std::size_t i, const std::vector<ValueWithError>& values, const Coordinates& at,
                               EvaluationCache& memo) const;
  ValueWithError evaluate_tensor(std::size_t i, const Coordinates& at, EvaluationCache& memo) const;
  const EvaluatedRow& evaluate_row(std::size_t i, Coordinates at, EvaluationCache& memo) const;
  ValueWithError evaluate_row_function(std::size_t i, const Coordinates& at, EvaluationCache& memo) const;
  ValueWithError sum_row(const std::vector<ValueWithError>& row) const;
  ValueWithError mean_of_row(const std::vector<ValueWithError>& row) const;
  void reduce_row(Function function, EvaluatedRow& row) const;
  ValueWithError inverse_rms(const std::vector<ValueWithError>& row) const;
  int argument_space(std::size_t i) const { return spaces_.space_of_node[nodes_[i].arguments[0]]; }

  const Reference& reference_;
  std::vector<Node> nodes_;
  IndexSpaces spaces_;
  std::vector<std::vector<std::size_t>>
      space_nodes_;                         // nodes of each space in order; the last one is the space's value
  std::vector<std::size_t> slot_in_space_;  // position of each node in the entry of space_nodes_ for its space
  std::vector<std::string> dims_;
  std::vector<TensorAxes> node_axes_;  // per node: axes of the tensor, or dimensions that it names
  TensorAxes result_axes_;
  std::unique_ptr<KernelIntermediates> owned_intermediates_;  // set in the outermost evaluator only
  KernelIntermediates& intermediates_;
  double cost_ = 0;
};

}  // namespace ridge

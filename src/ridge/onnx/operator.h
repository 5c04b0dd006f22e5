// One call of an ONNX operator: its operands, and what its definition adds, the shapes of its results and its work.
// Definitions are functions in tables by operator name (elementwise.cc, products.cc, recurrent.cc, layout.cc,
// indexing.cc, reductions.cc). They follow github.com/onnx/onnx, Operators, operator set 25.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/function.h"
#include "ridge/onnx/element_type.h"
#include "ridge/onnx/model.h"
#include "ridge/roofline/operators/explain_operators.h"

namespace ridge::onnx {

using Shape = std::vector<std::int64_t>;

inline constexpr std::int64_t max_axis_size = std::int64_t{1} << 48;  // Products of two sizes stay below 2^96
inline constexpr std::size_t max_tensor_rank = 32;

struct ModelTensor {
  Shape shape;
  int type = float_type;
  std::optional<std::vector<double>> values = {};  // Known values of a constant, at most `max_known_values`
  bool is_parameter = false;                       // True if an initializer, or a view of one
  Count elements() const;
  // Bytes of `count` elements of this type, rounded up.
  Count bytes_of(Count count) const;
  Count bytes() const { return bytes_of(elements()); }
};

// Returns the product of two counts of at least 0, or a number above `max_operator_work` if it is that large.
Count multiply_counts(Count a, Count b);
// Returns the product of the sizes. Requires a checked shape.
Count count_elements(std::span<const std::int64_t> shape);
std::string format_shape(std::span<const std::int64_t> shape);  // "8x128x768", "1" for a scalar

class Operator {
 public:
  Operator(const ModelNode& of, std::int64_t version, std::vector<const ModelTensor*> operands)
      : node(of), opset(version), inputs(std::move(operands)), outputs(of.outputs.size()), read(of.inputs.size()) {}

  const ModelNode& node;
  std::int64_t opset;
  std::vector<const ModelTensor*> inputs;  // nullptr for an omitted one
  std::vector<ModelTensor> outputs;

  // Work of the call. A result that the node does not name is not written.
  Count flops = 0;
  bool contraction = false;
  DType math = DType::f32;
  std::vector<CountedCalls> costly = {};
  std::vector<std::optional<Count>> read;  // Bytes read of each input; nullopt: all of it
  bool is_view = false;                    // True if the operator moves nothing
  bool needs_values = false;               // True if it failed because values of an input are unknown

  Error error(const std::string& message, const std::string& hint = {}) const;  // Names the node
  std::string label() const;                                                    // "Conv 'stem/conv'"

  bool has_input(std::size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  Result<const ModelTensor*> input(std::size_t i) const;  // Error: the node has no such input
  std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const;
  double number(std::string_view attribute, double otherwise) const;
  std::string_view text(std::string_view attribute, std::string_view otherwise) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view attribute) const;
  // Returns the whole numbers of an input whose values are known. Error: they are unknown.
  Result<std::vector<std::int64_t>> known_integers(std::size_t i);
  // Returns the numbers of an attribute, or of an input in newer operator sets; nullopt without both.
  Result<std::optional<std::vector<std::int64_t>>> integers_of(std::string_view attribute, std::size_t i);
  // Returns an axis from 0 to rank - 1; negative ones count from the end. Error: out of range.
  Result<std::size_t> axis(std::int64_t value, std::size_t rank) const;

  // Sets the shape and type of a result. Error: a size is negative or above `max_axis_size`, or 2^62 bytes are
  // exceeded.
  Status set_output(std::size_t i, Shape shape, int type);
  // Adds the calls of a function with a cost.
  void add_calls_of(Function function, Count count);
  // Sets the dtype of a contraction from its operands. Error: no matrix unit has their type.
  Status set_contraction(const ModelTensor& left, const ModelTensor& right);
};

// Definition of an operator. Errors: operands that the operator does not allow.
using Definition = Status (*)(Operator&);
struct NamedDefinition {
  std::string_view name;
  Definition define;
};
std::span<const NamedDefinition> elementwise_definitions();
std::span<const NamedDefinition> product_definitions();
std::span<const NamedDefinition> recurrent_definitions();
std::span<const NamedDefinition> attention_definitions();
std::span<const NamedDefinition> window_definitions();
std::span<const NamedDefinition> layout_definitions();
std::span<const NamedDefinition> indexing_definitions();
std::span<const NamedDefinition> reduction_definitions();
// Returns nullptr if the operator is unknown.
Definition find_definition(std::string_view domain, std::string_view name);

// Defines an elementwise operator of all inputs, broadcast to one shape: `flops` per element.
Status define_elementwise(Operator& op, int flops, std::optional<Function> costly);
// Returns the shape to which both broadcast. Error: two sizes differ and none is 1.
Result<Shape> broadcast_shapes(const Operator& op, const Shape& a, const Shape& b);
// Marks the bytes of input `i` as those of `count` elements, or of all of it if these are fewer.
void set_elements_read(Operator& op, std::size_t i, Count count);

// Computes the values of the results of arithmetic on constants, if this operator is arithmetic of shapes.
void fold_constants(Operator& op);

}  // namespace ridge::onnx

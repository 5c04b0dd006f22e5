// The parts of an ONNX model that shapes and counts depend on. Field numbers are those of onnx.proto (github.com/onnx,
// ONNX 1.19). Sparse tensors and metadata are skipped. All names point into the file's content.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"

namespace ridge::onnx {

inline constexpr std::size_t max_file_bytes = std::size_t{1} << 31;  // Protobuf's own limit of a message
inline constexpr std::size_t max_nodes = 1 << 20;
inline constexpr int max_graph_depth = 16;  // Bodies inside bodies
// Values of larger constants are not kept: shapes are computed from small ones only.
inline constexpr std::size_t max_known_values = 1024;

struct TensorData {
  std::string_view name;
  std::vector<std::int64_t> shape;
  int type = 0;                // TensorProto.DataType
  std::vector<double> values;  // All values in order, or {} if there are too many or they are in another file
};

struct Graph;

struct Attribute {
  std::string_view name;
  std::int64_t integer = 0;
  double number = 0;
  std::string_view text;
  std::vector<std::int64_t> integers;
  std::vector<double> numbers;
  std::optional<TensorData> tensor;
  std::shared_ptr<const Graph> graph;  // Body of If, Loop or Scan
  std::string_view referenced;         // Name of the function's attribute whose value it takes; empty outside functions
};

struct ModelNode {
  std::string_view op, domain, name;
  std::vector<std::string_view> inputs, outputs;  // "" for an omitted optional one
  std::vector<Attribute> attributes;
  const Attribute* find_attribute(std::string_view attribute) const;
};

struct AxisSize {
  std::optional<std::int64_t> value;
  std::string_view symbol;  // Name of a size without a value; may be empty
};

struct ValueInfo {
  std::string_view name;
  int type = 0;
  std::optional<std::vector<AxisSize>> shape;  // nullopt if the rank is unknown
};

// A function of the model, whose nodes replace a node with its name and domain.
struct FunctionBody {
  std::string_view domain, name;
  std::vector<std::string_view> inputs, outputs;
  std::vector<ModelNode> nodes;
};

// Nodes of a model, or of the body of an operator, which also read the tensors around it.
struct Graph {
  std::vector<ModelNode> nodes;  // In an order in which each result is computed before it is read
  std::vector<TensorData> initializers;
  std::vector<ValueInfo> inputs, outputs, others;  // `others`: results with a shape in the file
};

struct Model : Graph {
  std::vector<FunctionBody> functions;
  std::int64_t opset = 1;  // Version of the standard operators
};

// Parses the content of a .onnx file, which must outlive the model. Errors: malformed or cut off (with the position),
// no graph, too many nodes.
Result<Model> parse_model(std::string_view content);

}  // namespace ridge::onnx

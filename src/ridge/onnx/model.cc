#include "ridge/onnx/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ridge/onnx/element_type.h"
#include "ridge/onnx/wire.h"

namespace ridge::onnx {
namespace {

constexpr std::size_t max_rank = 64;  // Longer shapes are cut and then refused by the operators
constexpr std::size_t max_attribute_values = 1 << 12;

Error malformed(std::string_view message, std::size_t position) {
  return input_error(fmt::format("expected a message of type {}, found malformed or missing bytes after its byte {}",
                                 message, position),
                     "the file is damaged, or no ONNX model");
}

// Calls `read(field)` for each field of a message; it returns a Status.
template <class Read> Status read_fields(std::string_view content, std::string_view message, Read read) {
  WireReader reader(content);
  for (WireField field; reader.read_next(field);) RIDGE_TRY_STATUS(read(field));
  if (reader.has_failed()) return malformed(message, reader.position());
  return Done{};
}

Status expect(bool is_valid, std::string_view message) {
  return is_valid ? Status(Done{}) : Status(malformed(message, 0));
}

// Decodes little-endian numbers of `bits` bits; only whole bytes.
void decode_raw(std::string_view raw, const ElementType& type, std::vector<double>& out) {
  const std::size_t bytes = static_cast<std::size_t>(type.bits) / 8;
  if (bytes == 0 || raw.size() % bytes != 0 || raw.size() / bytes > max_known_values) return;
  for (std::size_t at = 0; at < raw.size(); at += bytes) {
    std::uint64_t bits = 0;
    for (std::size_t i = bytes; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(raw[at + i]);
    if (type.kind == ElementKind::floating) {
      if (bytes < 4) return out.clear();  // Half precision: not needed for shapes
      out.push_back(bytes == 4 ? to_float(bits) : to_double(bits));
    } else if (type.kind == ElementKind::signed_integer) {
      const int unused = 64 - type.bits;
      out.push_back(static_cast<double>(static_cast<std::int64_t>(bits << unused) >> unused));
    } else {
      out.push_back(static_cast<double>(bits));
    }
  }
}

struct RawTensor {
  TensorData data;
  std::string_view raw;
  std::vector<std::int64_t> integers;
  bool is_external = false;
};

Status read_tensor_field(const WireField& field, RawTensor& tensor) {
  TensorData& data = tensor.data;
  constexpr std::size_t limit = max_known_values + 1;  // One more shows that there are too many
  switch (field.number) {
    case 1: return expect(append_integers(field, max_rank + 1, data.shape), "TensorProto.dims");
    case 2: data.type = static_cast<int>(field.value); break;
    case 4: return expect(append_floats(field, limit, data.values), "TensorProto.float_data");
    case 5:
    case 7:
    case 11: return expect(append_integers(field, limit, tensor.integers), "TensorProto.int64_data");
    case 8: data.name = field.bytes; break;
    case 9: tensor.raw = field.bytes; break;
    case 10: return expect(append_doubles(field, limit, data.values), "TensorProto.double_data");
    case 13: tensor.is_external = true; break;
    default: break;
  }
  return Done{};
}

Result<TensorData> parse_tensor(std::string_view content) {
  RawTensor tensor;
  RIDGE_TRY_STATUS(
      read_fields(content, "TensorProto", [&](const WireField& field) { return read_tensor_field(field, tensor); }));
  TensorData& data = tensor.data;
  if (data.values.empty())
    for (const std::int64_t value : tensor.integers) data.values.push_back(static_cast<double>(value));
  if (data.values.empty() && !tensor.is_external) decode_raw(tensor.raw, find_element_type(data.type), data.values);
  if (data.values.size() > max_known_values) data.values.clear();
  return std::move(data);
}

// Number of nodes so far, and of the bodies around the current one.
struct ParseState {
  std::size_t nodes = 0;
  int depth = 0;
};

Status parse_graph(std::string_view content, ParseState& state, Graph& graph);

Status parse_body(std::string_view content, ParseState& state, Attribute& out) {
  if (state.depth == max_graph_depth)
    return input_error(
        fmt::format("expected bodies of operators nested at most {} levels, found more", max_graph_depth));
  auto body = std::make_shared<Graph>();
  ++state.depth;
  RIDGE_TRY_STATUS(parse_graph(content, state, *body));
  --state.depth;
  out.graph = std::move(body);
  return Done{};
}

Result<Attribute> parse_attribute(std::string_view content, ParseState& state) {
  Attribute out;
  RIDGE_TRY_STATUS(read_fields(content, "AttributeProto", [&](const WireField& field) -> Status {
    switch (field.number) {
      case 1: out.name = field.bytes; break;
      case 2: out.number = to_float(field.value); break;
      case 3: out.integer = static_cast<std::int64_t>(field.value); break;
      case 4: out.text = field.bytes; break;
      case 5: {
        RIDGE_TRY(tensor, parse_tensor(field.bytes));
        out.tensor = std::move(tensor);
        break;
      }
      case 6: return parse_body(field.bytes, state, out);
      case 7: return expect(append_floats(field, max_attribute_values, out.numbers), "AttributeProto.floats");
      case 8: return expect(append_integers(field, max_attribute_values, out.integers), "AttributeProto.ints");
      case 21: out.referenced = field.bytes; break;
      default: break;
    }
    return Done{};
  }));
  return out;
}

Result<ModelNode> parse_node(std::string_view content, ParseState& state) {
  ModelNode out;
  RIDGE_TRY_STATUS(read_fields(content, "NodeProto", [&](const WireField& field) -> Status {
    switch (field.number) {
      case 1: out.inputs.push_back(field.bytes); break;
      case 2: out.outputs.push_back(field.bytes); break;
      case 3: out.name = field.bytes; break;
      case 4: out.op = field.bytes; break;
      case 5: {
        RIDGE_TRY(attribute, parse_attribute(field.bytes, state));
        out.attributes.push_back(std::move(attribute));
        break;
      }
      case 7: out.domain = field.bytes; break;
      default: break;
    }
    return Done{};
  }));
  if (out.domain == "ai.onnx") out.domain = {};
  return out;
}

Status parse_dimension(std::string_view content, std::vector<AxisSize>& shape) {
  AxisSize axis;
  RIDGE_TRY_STATUS(read_fields(content, "TensorShapeProto.Dimension", [&](const WireField& field) -> Status {
    if (field.number == 1) axis.value = static_cast<std::int64_t>(field.value);
    if (field.number == 2) axis.symbol = field.bytes;
    return Done{};
  }));
  shape.push_back(axis);
  return Done{};
}

Status parse_tensor_type(std::string_view content, ValueInfo& out) {
  return read_fields(content, "TypeProto.Tensor", [&](const WireField& field) -> Status {
    if (field.number == 1) out.type = static_cast<int>(field.value);
    if (field.number != 2) return Done{};
    out.shape.emplace();
    return read_fields(field.bytes, "TensorShapeProto", [&](const WireField& dim) -> Status {
      return dim.number == 1 ? parse_dimension(dim.bytes, *out.shape) : Status(Done{});
    });
  });
}

Result<ValueInfo> parse_value_info(std::string_view content) {
  ValueInfo out;
  RIDGE_TRY_STATUS(read_fields(content, "ValueInfoProto", [&](const WireField& field) -> Status {
    if (field.number == 1) out.name = field.bytes;
    if (field.number != 2) return Done{};
    return read_fields(field.bytes, "TypeProto", [&](const WireField& type) -> Status {
      return type.number == 1 ? parse_tensor_type(type.bytes, out) : Status(Done{});
    });
  }));
  return out;
}

template <class Item, class Parse> Status append_parsed(std::string_view content, Parse parse, std::vector<Item>& out) {
  RIDGE_TRY(item, parse(content));
  out.push_back(std::move(item));
  return Done{};
}

Status append_node(std::string_view content, ParseState& state, std::vector<ModelNode>& out) {
  if (++state.nodes > max_nodes)
    return input_error(fmt::format("expected at most {} nodes in an ONNX model, found more", max_nodes));
  return append_parsed(
      content, [&](std::string_view bytes) { return parse_node(bytes, state); }, out);
}

Status parse_graph(std::string_view content, ParseState& state, Graph& graph) {
  return read_fields(content, "GraphProto", [&](const WireField& field) -> Status {
    switch (field.number) {
      case 1: return append_node(field.bytes, state, graph.nodes);
      case 5: return append_parsed(field.bytes, parse_tensor, graph.initializers);
      case 11: return append_parsed(field.bytes, parse_value_info, graph.inputs);
      case 12: return append_parsed(field.bytes, parse_value_info, graph.outputs);
      case 13: return append_parsed(field.bytes, parse_value_info, graph.others);
      default: return Done{};
    }
  });
}

Result<FunctionBody> parse_function(std::string_view content, ParseState& state) {
  FunctionBody out;
  RIDGE_TRY_STATUS(read_fields(content, "FunctionProto", [&](const WireField& field) -> Status {
    switch (field.number) {
      case 1: out.name = field.bytes; break;
      case 4: out.inputs.push_back(field.bytes); break;
      case 5: out.outputs.push_back(field.bytes); break;
      case 7: return append_node(field.bytes, state, out.nodes);
      case 10: out.domain = field.bytes; break;
      default: break;
    }
    return Done{};
  }));
  return out;
}

// Sets the version of the standard operators if this import is theirs.
Status parse_opset(std::string_view content, Model& model) {
  std::string_view domain;
  std::int64_t version = 1;
  RIDGE_TRY_STATUS(read_fields(content, "OperatorSetIdProto", [&](const WireField& field) -> Status {
    if (field.number == 1) domain = field.bytes;
    if (field.number == 2) version = static_cast<std::int64_t>(field.value);
    return Done{};
  }));
  if (domain.empty() || domain == "ai.onnx") model.opset = version;
  return Done{};
}

}  // namespace

const Attribute* ModelNode::find_attribute(std::string_view attribute) const {
  for (const Attribute& each : attributes)
    if (each.name == attribute) return &each;
  return nullptr;
}

Result<Model> parse_model(std::string_view content) {
  Model model;
  bool has_graph = false;
  ParseState state;
  RIDGE_TRY_STATUS(read_fields(content, "ModelProto", [&](const WireField& field) -> Status {
    switch (field.number) {
      case 7: has_graph = true; return parse_graph(field.bytes, state, model);
      case 8: return parse_opset(field.bytes, model);
      case 25:
        return append_parsed(
            field.bytes, [&](std::string_view bytes) { return parse_function(bytes, state); }, model.functions);
      default: return Done{};
    }
  }));
  if (!has_graph)
    return input_error("expected an ONNX model with a graph, found none", "the file holds something else");
  return model;
}

}  // namespace ridge::onnx

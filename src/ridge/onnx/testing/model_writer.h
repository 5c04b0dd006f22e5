// Writes ONNX models for tests, in protobuf's wire format: only the fields that tests need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::onnx::testing {

inline std::string write_varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
inline std::string write_number(std::uint32_t field, std::int64_t value) {
  return write_varint(std::uint64_t{field} << 3) + write_varint(static_cast<std::uint64_t>(value));
}
inline std::string write_bytes(std::uint32_t field, std::string_view bytes) {
  return write_varint(std::uint64_t{field} << 3 | 2) + write_varint(bytes.size()) + std::string(bytes);
}

using Numbers = std::vector<std::int64_t>;

inline std::string write_integer_attribute(std::string_view name, std::int64_t value) {
  return write_bytes(5, write_bytes(1, name) + write_number(3, value));
}
inline std::string write_text_attribute(std::string_view name, std::string_view value) {
  return write_bytes(5, write_bytes(1, name) + write_bytes(4, value));
}
inline std::string write_integers_attribute(std::string_view name, const Numbers& values) {
  std::string out = write_bytes(1, name);
  for (const std::int64_t value : values) out += write_number(8, value);
  return write_bytes(5, out);
}

// Returns a NodeProto; `attributes` are joined results of the functions above.
inline std::string write_node(std::string_view op, const std::vector<std::string>& inputs,
                              const std::vector<std::string>& outputs, const std::string& attributes = {},
                              std::string_view domain = {}) {
  std::string out;
  for (const std::string& input : inputs) out += write_bytes(1, input);
  for (const std::string& output : outputs) out += write_bytes(2, output);
  return out + write_bytes(4, op) + attributes + (domain.empty() ? std::string() : write_bytes(7, domain));
}

// Returns a TensorProto of a type and shape, with int64 values if there are any.
inline std::string write_tensor(std::string_view name, int type, const Numbers& shape, const Numbers& values = {}) {
  std::string out, packed;
  for (const std::int64_t size : shape) out += write_number(1, size);
  for (const std::int64_t value : values) packed += write_varint(static_cast<std::uint64_t>(value));
  out += write_number(2, type) + write_bytes(8, name);
  return values.empty() ? out : out + write_bytes(7, packed);
}

// Returns a ValueInfoProto; sizes are numbers or names.
inline std::string write_value(std::string_view name, int type, const std::vector<std::string>& shape) {
  std::string dims;
  for (const std::string& size : shape) {
    const bool is_number = size.find_first_not_of("0123456789") == std::string::npos;
    dims += write_bytes(1, is_number ? write_number(1, std::stoll(size)) : write_bytes(2, size));
  }
  return write_bytes(1, name) + write_bytes(2, write_bytes(1, write_number(1, type) + write_bytes(2, dims)));
}

// Parts of a model; each string is a message of the functions above.
struct ModelParts {
  std::vector<std::string> nodes, initializers, inputs, outputs, values;
  std::vector<std::string> functions = {};
  std::int64_t opset = 20;
};
inline std::string write_graph(const ModelParts& parts) {
  std::string graph;
  const auto add = [&](std::uint32_t field, const std::vector<std::string>& messages) {
    for (const std::string& each : messages) graph += write_bytes(field, each);
  };
  add(1, parts.nodes);
  add(5, parts.initializers);
  add(11, parts.inputs);
  add(12, parts.outputs);
  add(13, parts.values);
  return graph;
}
inline std::string write_model(const ModelParts& parts) {
  std::string out =
      write_number(1, 9) + write_bytes(7, write_graph(parts)) + write_bytes(8, write_number(2, parts.opset));
  for (const std::string& function : parts.functions) out += write_bytes(25, function);
  return out;
}

}  // namespace ridge::onnx::testing

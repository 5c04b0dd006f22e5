#include "ridge/onnx/operator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ridge/base/string_util.h"

namespace ridge::onnx {

Count multiply_counts(Count a, Count b) {
  constexpr Count limit = max_operator_work + 1;
  return std::min(std::min(a, limit) * std::min(b, limit), limit);
}

Count count_elements(std::span<const std::int64_t> shape) {
  Count out = 1;
  for (const std::int64_t size : shape) out *= size;
  return out;
}

std::string format_shape(std::span<const std::int64_t> shape) {
  return shape.empty() ? "1" : fmt::format("{}", fmt::join(shape, "x"));
}

Count ModelTensor::elements() const { return count_elements(shape); }
Count ModelTensor::bytes_of(Count count) const { return (count * find_element_type(type).bits + 7) / 8; }

namespace {

// Returns the whole number, at most 2^62 in magnitude; 0 for NaN.
std::int64_t to_integer(double value) {
  constexpr double limit = 0x1p62;
  return std::isnan(value) ? 0 : static_cast<std::int64_t>(std::clamp(value, -limit, limit));
}

}  // namespace

std::string Operator::label() const {
  const std::string name = make_printable(node.name.substr(0, 80));
  const std::string op = make_printable(node.op.substr(0, 80));
  return name.empty() ? op : fmt::format("{} '{}'", op, name);
}

Error Operator::error(const std::string& message, const std::string& hint) const {
  return input_error(fmt::format("{}: {}", label(), message), hint);
}

Result<const ModelTensor*> Operator::input(std::size_t i) const {
  if (has_input(i)) return inputs[i];
  return error(fmt::format("expected an input {}, found none", i));
}

std::int64_t Operator::integer(std::string_view attribute, std::int64_t otherwise) const {
  const Attribute* const found = node.find_attribute(attribute);
  return found ? found->integer : otherwise;
}

double Operator::number(std::string_view attribute, double otherwise) const {
  const Attribute* const found = node.find_attribute(attribute);
  return found ? found->number : otherwise;
}

std::string_view Operator::text(std::string_view attribute, std::string_view otherwise) const {
  const Attribute* const found = node.find_attribute(attribute);
  return found ? found->text : otherwise;
}

std::optional<std::vector<std::int64_t>> Operator::integers(std::string_view attribute) const {
  const Attribute* const found = node.find_attribute(attribute);
  return found ? std::optional(found->integers) : std::nullopt;
}

Result<std::vector<std::int64_t>> Operator::known_integers(std::size_t i) {
  RIDGE_TRY(tensor, input(i));
  if (!tensor->values) {
    needs_values = true;
    return error(fmt::format("expected input {} '{}' to be a constant, because the result's shape depends on it", i,
                             make_printable(node.inputs[i].substr(0, 80))),
                 "run onnx.shape_inference, or export the model with fixed sizes");
  }
  std::vector<std::int64_t> out;
  for (const double value : *tensor->values) out.push_back(to_integer(value));
  return out;
}

Result<std::optional<std::vector<std::int64_t>>> Operator::integers_of(std::string_view attribute, std::size_t i) {
  if (auto found = integers(attribute)) return found;
  if (!has_input(i)) return std::optional<std::vector<std::int64_t>>();
  RIDGE_TRY(values, known_integers(i));
  return std::optional(std::move(values));
}

Result<std::size_t> Operator::axis(std::int64_t value, std::size_t rank) const {
  const auto count = static_cast<std::int64_t>(rank);
  if (value >= -count && value < count) return static_cast<std::size_t>(value < 0 ? value + count : value);
  return error(fmt::format("expected an axis from {} to {}, found {}", -count, count - 1, value));
}

Status Operator::set_output(std::size_t i, Shape shape, int type) {
  if (shape.size() > max_tensor_rank)
    return error(fmt::format("expected a result of at most {} axes, found {}", max_tensor_rank, shape.size()));
  Count bits = std::max(find_element_type(type).bits, 1);
  for (const std::int64_t size : shape) {
    if (size < 0 || size > max_axis_size)
      return error(fmt::format("expected sizes from 0 to 2^48 in the result, found {}", size));
    bits = std::min(bits * size, max_operator_work * 8 + 1);
    if (bits > max_operator_work * 8)
      return error(fmt::format("expected a result of at most 2^62 bytes, found {}", format_shape(shape)));
  }
  if (i < outputs.size()) outputs[i] = ModelTensor{std::move(shape), type};
  return Done{};
}

void Operator::add_calls_of(Function function, Count count) {
  if (function_info(function).has_cost) costly.push_back({function, count});
}

Status Operator::set_contraction(const ModelTensor& left, const ModelTensor& right) {
  const ElementType a = find_element_type(left.type), b = find_element_type(right.type);
  if (!a.dtype || !b.dtype)
    return error(
        fmt::format("expected operands of a type that matrix units multiply, found {} and {}", a.name, b.name));
  math = wider_dtype(*a.dtype, *b.dtype);
  contraction = true;
  return Done{};
}

Result<Shape> broadcast_shapes(const Operator& op, const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {  // From the last axis
    const std::int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1, right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1)
      return op.error(fmt::format("expected shapes that broadcast, found {} and {}", format_shape(a), format_shape(b)));
    out[out.size() - 1 - i] = left == 1 ? right : left;
  }
  return out;
}

void set_elements_read(Operator& op, std::size_t i, Count count) {
  if (op.has_input(i)) op.read[i] = op.inputs[i]->bytes_of(std::min(count, op.inputs[i]->elements()));
}

Definition find_definition(std::string_view domain, std::string_view name) {
  if (!domain.empty() && domain != "com.microsoft") return nullptr;
  if (!domain.empty() && name == "Attention") return nullptr;  // It has other operands than ONNX's
  static const std::map<std::string_view, Definition> definitions = [] {
    std::map<std::string_view, Definition> out;
    for (const auto table :
         {elementwise_definitions(), product_definitions(), recurrent_definitions(), attention_definitions(),
          window_definitions(), layout_definitions(), indexing_definitions(), reduction_definitions()})
      for (const NamedDefinition& each : table) out[each.name] = each.define;
    return out;
  }();
  const auto found = definitions.find(name);
  return found == definitions.end() ? nullptr : found->second;
}

}  // namespace ridge::onnx

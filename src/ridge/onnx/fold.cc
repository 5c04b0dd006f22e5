// Arithmetic of shapes: operators on constants of few elements, whose values later operators need as sizes.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "ridge/onnx/operator.h"

namespace ridge::onnx {
namespace {

using Values = std::vector<double>;

// Returns the index into an operand of shape `from` that broadcasts to element `at` of a result of shape `to`.
std::size_t broadcast_index(std::size_t at, const Shape& from, const Shape& to) {
  std::size_t out = 0, stride = 1;
  for (std::size_t i = 0; i < to.size(); ++i) {  // From the last axis
    const auto size = static_cast<std::size_t>(to[to.size() - 1 - i]);
    const std::size_t position = at % size;
    at /= size;
    if (i >= from.size()) continue;
    const auto own = static_cast<std::size_t>(from[from.size() - 1 - i]);
    if (own > 1) out += position * stride;
    stride *= own;
  }
  return out;
}

bool is_integer_type(int type) {
  const ElementKind kind = find_element_type(type).kind;
  return kind == ElementKind::signed_integer || kind == ElementKind::unsigned_integer;
}

double divide(double a, double b, bool is_integer) { return is_integer ? std::trunc(a / b) : a / b; }
double remainder_of(double a, double b) { return a - b * std::floor(a / b); }

using Binary = double (*)(double, double, bool is_integer);
Binary find_binary(std::string_view op) {
  static const std::map<std::string_view, Binary> known{
      {"Add", [](double a, double b, bool) { return a + b; }},
      {"And", [](double a, double b, bool) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
      {"Div", divide},
      {"Equal", [](double a, double b, bool) { return a == b ? 1.0 : 0.0; }},
      {"Greater", [](double a, double b, bool) { return a > b ? 1.0 : 0.0; }},
      {"GreaterOrEqual", [](double a, double b, bool) { return a >= b ? 1.0 : 0.0; }},
      {"Less", [](double a, double b, bool) { return a < b ? 1.0 : 0.0; }},
      {"LessOrEqual", [](double a, double b, bool) { return a <= b ? 1.0 : 0.0; }},
      {"Max", [](double a, double b, bool) { return std::max(a, b); }},
      {"Min", [](double a, double b, bool) { return std::min(a, b); }},
      {"Mod", [](double a, double b, bool) { return remainder_of(a, b); }},
      {"Mul", [](double a, double b, bool) { return a * b; }},
      {"Or", [](double a, double b, bool) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
      {"Pow", [](double a, double b, bool) { return std::pow(a, b); }},
      {"Sub", [](double a, double b, bool) { return a - b; }},
  };
  const auto found = known.find(op);
  return found == known.end() ? nullptr : found->second;
}

using Unary = double (*)(double);
Unary find_unary(std::string_view op) {
  static const std::map<std::string_view, Unary> known{
      {"Abs", [](double a) { return std::fabs(a); }},       {"Ceil", [](double a) { return std::ceil(a); }},
      {"Floor", [](double a) { return std::floor(a); }},    {"Neg", [](double a) { return -a; }},
      {"Not", [](double a) { return a == 0 ? 1.0 : 0.0; }}, {"Round", [](double a) { return std::nearbyint(a); }},
      {"Sqrt", [](double a) { return std::sqrt(a); }},
  };
  const auto found = known.find(op);
  return found == known.end() ? nullptr : found->second;
}

// Returns the value of a reduction to one number, or nullopt.
std::optional<double> reduce_values(std::string_view op, const Values& values) {
  if (values.empty()) return std::nullopt;
  double out = values.front();
  if (op == "ReduceProd") out = 1;
  if (op == "ReduceSum") out = 0;
  for (const double value : values) {
    if (op == "ReduceProd")
      out *= value;
    else if (op == "ReduceSum")
      out += value;
    else if (op == "ReduceMax")
      out = std::max(out, value);
    else if (op == "ReduceMin")
      out = std::min(out, value);
    else
      return std::nullopt;
  }
  return out;
}

// Returns the value of element `at` of operand `i`, broadcast to the result.
double operand_value(const Operator& op, std::size_t i, std::size_t at) {
  return (*op.inputs[i]->values)[broadcast_index(at, op.inputs[i]->shape, op.outputs[0].shape)];
}

std::optional<Values> fold_values(const Operator& op, std::size_t count) {
  const std::string_view name = op.node.op;
  const std::size_t operands = op.inputs.size();
  Values out(count);
  if (const Binary binary = find_binary(name); binary && operands == 2) {
    const bool is_integer = is_integer_type(op.inputs[0]->type);
    for (std::size_t i = 0; i < count; ++i)
      out[i] = binary(operand_value(op, 0, i), operand_value(op, 1, i), is_integer);
    return out;
  }
  if (name == "Where" && operands == 3) {
    for (std::size_t i = 0; i < count; ++i) out[i] = operand_value(op, operand_value(op, 0, i) != 0 ? 1 : 2, i);
    return out;
  }
  if (const auto reduced =
          name.starts_with("Reduce") && count == 1 ? reduce_values(name, *op.inputs[0]->values) : std::nullopt)
    return Values{*reduced};
  if (op.inputs[0]->values->size() != count) return std::nullopt;
  if (const Unary unary = find_unary(name)) {
    for (std::size_t i = 0; i < count; ++i) out[i] = unary((*op.inputs[0]->values)[i]);
    return out;
  }
  if (name == "Cast" || name == "CastLike") {
    const bool is_integer = is_integer_type(op.outputs[0].type);
    for (std::size_t i = 0; i < count; ++i) {
      const double value = (*op.inputs[0]->values)[i];
      out[i] = is_integer ? std::trunc(value) : value;
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace

void fold_constants(Operator& op) {
  if (op.outputs.empty() || op.outputs[0].values || op.inputs.empty()) return;
  for (const ModelTensor* const each : op.inputs)
    if (each == nullptr || !each->values) return;
  const Count count = op.outputs[0].elements();
  if (count > static_cast<Count>(max_known_values)) return;
  op.outputs[0].values = fold_values(op, static_cast<std::size_t>(count));
}

}  // namespace ridge::onnx

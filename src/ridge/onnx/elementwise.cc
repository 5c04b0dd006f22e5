// Elementwise operators, with broadcasting. A function counts 1 per element of the result, as in the notation.
#include <fmt/format.h>

#include "ridge/onnx/operator.h"

namespace ridge::onnx {

Status define_elementwise(Operator& op, int flops, std::optional<Function> costly) {
  RIDGE_TRY(first, op.input(0));
  Shape shape = first->shape;
  int type = first->type;
  for (std::size_t i = 1; i < op.inputs.size(); ++i) {
    if (!op.has_input(i)) continue;
    RIDGE_TRY(both, broadcast_shapes(op, shape, op.inputs[i]->shape));
    shape = std::move(both);
    if (find_element_type(op.inputs[i]->type).dtype == DType::f64) type = op.inputs[i]->type;
  }
  const Count elements = count_elements(shape);
  RIDGE_TRY_STATUS(op.set_output(0, std::move(shape), type));
  op.flops = elements * flops;
  if (find_element_type(type).dtype == DType::f64) op.math = DType::f64;
  if (costly) op.add_calls_of(*costly, elements);
  return Done{};
}

namespace {

template <int flops> Status define_plain(Operator& op) { return define_elementwise(op, flops, std::nullopt); }

template <Function function> Status define_function(Operator& op) { return define_elementwise(op, 1, function); }

// Defines an operator that clamps, casts or selects by further inputs that are single numbers.
Status define_clip(Operator& op) { return define_plain<1>(op); }

Status define_comparison(Operator& op) {
  RIDGE_TRY_STATUS(define_plain<1>(op));
  return op.set_output(0, op.outputs.empty() ? Shape() : op.outputs[0].shape, bool_type);
}

// A sum, maximum or mean of n tensors takes n - 1 operations per element.
Status define_variadic(Operator& op) {
  const auto count = static_cast<int>(std::min<std::size_t>(op.inputs.size(), max_nodes));
  return define_elementwise(op, std::max(count - 1, 0), std::nullopt);
}

Status define_where(Operator& op) {
  RIDGE_TRY(value, op.input(1));
  RIDGE_TRY_STATUS(define_plain<1>(op));
  return op.set_output(0, op.outputs.empty() ? Shape() : op.outputs[0].shape, value->type);
}

Status define_power(Operator& op) {
  RIDGE_TRY(exponent, op.input(1));
  const bool is_square = exponent->values && exponent->values->size() == 1 && exponent->values->front() == 2;
  return define_elementwise(op, 1, is_square ? std::nullopt : std::optional(Function::pow));
}

// The divisor that several elements share is inverted once.
Status define_division(Operator& op) {
  RIDGE_TRY(divisor, op.input(1));
  RIDGE_TRY_STATUS(define_plain<1>(op));
  if (divisor->elements() > 1) op.add_calls_of(Function::divide, divisor->elements());
  return Done{};
}

Status define_gelu(Operator& op) {
  const bool by_tanh = op.text("approximate", "none") == "tanh" || op.node.op == "FastGelu";
  const std::size_t operands = op.node.op == "Gelu" ? 1 : op.inputs.size();  // Others add a bias
  return define_elementwise(op, operands > 1 ? 2 : 1, by_tanh ? Function::gelu_tanh : Function::gelu);
}

Status define_cast(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  std::int64_t type = op.integer("to", float_type);
  if (op.node.op == "CastLike") {
    RIDGE_TRY(like, op.input(1));
    type = like->type;
    set_elements_read(op, 1, 0);
  }
  op.is_view = from->type == type;
  return op.set_output(0, from->shape, static_cast<int>(type));
}

// y = saturate(round(x / scale) + zero_point): a product with the inverse scale, a rounding and a sum.
Status define_quantize(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  int type = op.has_input(2) ? op.inputs[2]->type : uint8_type;
  if (const std::int64_t given = op.integer("output_dtype", 0); given != 0) type = static_cast<int>(given);
  op.flops = from->elements() * 3;
  return op.set_output(0, from->shape, type);
}

// y = (x - zero_point) * scale.
Status define_dequantize(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  RIDGE_TRY(scale, op.input(1));
  op.flops = from->elements() * (op.has_input(2) ? 2 : 1);
  return op.set_output(0, from->shape, scale->type);
}

// Finds the range of x (a maximum and a minimum) and quantizes by it.
Status define_dynamic_quantize(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  op.flops = from->elements() * 5;
  RIDGE_TRY_STATUS(op.set_output(0, from->shape, uint8_type));
  RIDGE_TRY_STATUS(op.set_output(1, {}, float_type));
  return op.set_output(2, {}, uint8_type);
}

// Returns its input unchanged: Identity, and Dropout without training.
Status define_identity(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  op.is_view = true;
  RIDGE_TRY_STATUS(op.set_output(0, from->shape, from->type));
  if (!op.outputs.empty()) op.outputs[0].values = from->values;
  return op.set_output(1, from->shape, bool_type);
}

// q[B, H, S, D] or [B, S, H * D], positions, cosines, sines: two products and a sum per element.
Status define_rotary(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  op.flops = from->elements() * 3;
  return op.set_output(0, from->shape, from->type);
}

constexpr NamedDefinition elementwise_table[] = {
    {"Abs", define_plain<1>},
    {"Acos", define_function<Function::atan>},
    {"Acosh", define_function<Function::log>},
    {"Add", define_plain<1>},
    {"And", define_comparison},
    {"Asin", define_function<Function::atan>},
    {"Asinh", define_function<Function::log>},
    {"Atan", define_function<Function::atan>},
    {"Atanh", define_function<Function::log>},
    {"BiasGelu", define_gelu},
    {"BitShift", define_plain<1>},
    {"BitwiseAnd", define_plain<1>},
    {"BitwiseNot", define_plain<1>},
    {"BitwiseOr", define_plain<1>},
    {"BitwiseXor", define_plain<1>},
    {"Cast", define_cast},
    {"CastLike", define_cast},
    {"Ceil", define_plain<1>},
    {"Celu", define_function<Function::exp>},
    {"Clip", define_clip},
    {"Cos", define_function<Function::cos>},
    {"Cosh", define_function<Function::exp>},
    {"DequantizeLinear", define_dequantize},
    {"Div", define_division},
    {"Dropout", define_identity},
    {"DynamicQuantizeLinear", define_dynamic_quantize},
    {"Elu", define_function<Function::exp>},
    {"Equal", define_comparison},
    {"Erf", define_function<Function::erf>},
    {"Exp", define_function<Function::exp>},
    {"FastGelu", define_gelu},
    {"Floor", define_plain<1>},
    {"Gelu", define_gelu},
    {"Greater", define_comparison},
    {"GreaterOrEqual", define_comparison},
    {"HardSigmoid", define_plain<1>},
    {"HardSwish", define_function<Function::hard_swish>},
    {"Identity", define_identity},
    {"IsInf", define_comparison},
    {"IsNaN", define_comparison},
    {"LeakyRelu", define_plain<1>},
    {"Less", define_comparison},
    {"LessOrEqual", define_comparison},
    {"Log", define_function<Function::log>},
    {"Max", define_variadic},
    {"Mean", define_variadic},
    {"Min", define_variadic},
    {"Mish", define_function<Function::mish>},
    {"Mod", define_plain<1>},
    {"Mul", define_plain<1>},
    {"Neg", define_plain<1>},
    {"Not", define_comparison},
    {"Or", define_comparison},
    {"PRelu", define_plain<1>},
    {"Pow", define_power},
    {"QuantizeLinear", define_quantize},
    {"QuickGelu", define_function<Function::sigmoid>},
    {"Reciprocal", define_function<Function::divide>},
    {"Relu", define_plain<1>},
    {"RotaryEmbedding", define_rotary},
    {"Round", define_plain<1>},
    {"Selu", define_function<Function::exp>},
    {"Sigmoid", define_function<Function::sigmoid>},
    {"Sign", define_plain<1>},
    {"Sin", define_function<Function::sin>},
    {"Sinh", define_function<Function::exp>},
    {"Softplus", define_function<Function::softplus>},
    {"Softsign", define_function<Function::divide>},
    {"Sqrt", define_function<Function::sqrt>},
    {"Sub", define_plain<1>},
    {"Sum", define_variadic},
    {"Swish", define_function<Function::silu>},
    {"Tan", define_function<Function::tan>},
    {"Tanh", define_function<Function::tanh>},
    {"ThresholdedRelu", define_plain<1>},
    {"Where", define_where},
    {"Xor", define_comparison},
};

}  // namespace

std::span<const NamedDefinition> elementwise_definitions() { return elementwise_table; }

}  // namespace ridge::onnx

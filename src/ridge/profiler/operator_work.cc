#include "ridge/profiler/operator_work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/roofline/operators/windows_of_sizes.h"

namespace ridge::profiler {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::int64_t max_size = std::int64_t{1} << 40;  // Larger sizes are no sizes of tensors
constexpr Count too_many = max_operator_work + 1;

// A tensor argument of a call.
struct Operand {
  Shape shape;
  std::string type;
};

// Call of an operator: its tensors and lists of tensors, one after another, and the values of the other arguments.
struct Call {
  std::string name;                    // Without "aten::" and a final underscore
  bool is_in_place = false;            // True if its name ends in an underscore: the result is the first operand
  std::vector<Operand> operands;       // One for each argument; those that are no tensors have no type
  std::vector<std::string> arguments;  // Values of arguments such as "[1, 1]" or "True"; "" if unknown
};

Count multiply(Count a, Count b) { return std::min(std::min(a, too_many) * std::min(b, too_many), too_many); }

Count count_elements(const Shape& shape) {
  Count out = 1;
  for (const std::int64_t size : shape) out = multiply(out, size);
  return out;
}

struct TorchType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;  // Dtype of products
};
// Names in "Input type", which are those of C++ or of c10.
constexpr std::array<TorchType, 16> torch_types{{
    {"float", 32, DType::f32},
    {"double", 64, DType::f64},
    {"c10::BFloat16", 16, DType::bf16},
    {"c10::Half", 16, DType::f16},
    {"c10::Float8_e4m3fn", 8, DType::e4m3},
    {"c10::Float8_e5m2", 8, DType::e5m2},
    {"signed char", 8, DType::int8},
    {"unsigned char", 8, DType::int8},
    {"short", 16, std::nullopt},
    {"short int", 16, std::nullopt},
    {"int", 32, DType::int32},
    {"long", 64, std::nullopt},
    {"long int", 64, std::nullopt},
    {"bool", 8, std::nullopt},
    {"c10::complex<float>", 64, std::nullopt},
    {"c10::complex<double>", 128, std::nullopt},
}};

const TorchType* find_type(const std::string& name) {
  for (const TorchType& type : torch_types)
    if (type.name == name) return &type;
  return nullptr;
}

bool is_tensor(const Operand& operand) { return find_type(operand.type) != nullptr; }

Count bytes_of(const Operand& operand, Count elements) {
  const TorchType* const type = find_type(operand.type);
  return type ? multiply(elements, type->bits) / 8 : 0;
}
Count bytes_of(const Operand& operand) { return bytes_of(operand, count_elements(operand.shape)); }

// Returns the shape in a JSON array, or nullopt if it holds something else.
std::optional<Shape> to_shape(const nlohmann::json& json) {
  Shape out;
  for (const auto& each : json) {
    if (!each.is_number_integer()) return std::nullopt;
    const auto size = each.get<std::int64_t>();
    if (size < 0 || size > max_size) return std::nullopt;
    out.push_back(size);
  }
  return out;
}

// Adds the tensors of an argument: one shape, or a list of shapes.
void add_operands(const nlohmann::json& shapes, const std::string& type, std::vector<Operand>& out) {
  if (!shapes.is_array()) return out.push_back({});
  if (const auto shape = to_shape(shapes)) return out.push_back({*shape, type});
  const std::string element = type.starts_with("TensorList") ? "" : type;
  for (const auto& each : shapes)
    if (each.is_array())
      if (const auto shape = to_shape(each)) out.push_back({*shape, element});
}

std::optional<Call> parse_call(const Signature& signature) {
  const auto shapes = nlohmann::json::parse(signature.shapes, nullptr, false);
  const auto types = nlohmann::json::parse(signature.types, nullptr, false);
  const auto concrete = nlohmann::json::parse(signature.concrete, nullptr, false);
  if (!shapes.is_array() || !types.is_array() || shapes.size() != types.size()) return std::nullopt;
  Call out;
  out.name = signature.name;
  if (out.name.starts_with("aten::")) out.name = out.name.substr(6);
  out.is_in_place = out.name.ends_with('_');
  while (out.name.size() > 1 && out.name.back() == '_') out.name.pop_back();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (!types[i].is_string()) return std::nullopt;
    add_operands(shapes[i], types[i].get<std::string>(), out.operands);
    const bool is_known = concrete.is_array() && i < concrete.size() && concrete[i].is_string();
    out.arguments.push_back(is_known ? concrete[i].get<std::string>() : std::string());
  }
  return out;
}

std::string format_shape(const Shape& shape) { return shape.empty() ? "1" : fmt::format("{}", fmt::join(shape, "x")); }

// Returns the numbers of an argument such as "[1, 2]", or {} if it is unknown.
Shape parse_list(const Call& call, std::size_t argument) {
  if (argument >= call.arguments.size()) return {};
  const auto json = nlohmann::json::parse(call.arguments[argument], nullptr, false);
  return json.is_array() ? to_shape(json).value_or(Shape()) : Shape();
}

// Sets the dtype of a product. Returns false if no matrix unit has it.
bool set_product_type(OperatorWork& work, const Operand& left, const Operand& right) {
  const TorchType *a = find_type(left.type), *b = find_type(right.type);
  if (!a || !b || !a->dtype || !b->dtype) return false;
  work.contraction = true;
  work.math = wider_dtype(*a->dtype, *b->dtype);
  return true;
}

using WorkOf = std::optional<OperatorWork> (*)(const Call&);

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1, right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1) return std::nullopt;
    out[out.size() - 1 - i] = left == 1 ? right : left;
  }
  return out;
}

// Returns the axes of an operand of a product before those of its matrix; a vector has none.
Shape stack_of(const Operand& operand) {
  Shape out = operand.shape;
  out.resize(out.size() < 2 ? 0 : out.size() - 2);
  return out;
}

// Returns the product of operands `first` and `first + 1`, stacks of matrices [..., M, K] and [..., K, N] whose leading
// axes are broadcast, and the bytes of `first` further operands, such as a bias. `transposed`: the second one is [N,
// K].
std::optional<OperatorWork> count_product(const Call& call, std::size_t first, bool transposed) {
  if (call.operands.size() < first + 2) return std::nullopt;
  const Operand &a = call.operands[first], &b = call.operands[first + 1];
  if (a.shape.empty() || b.shape.empty() || (transposed && b.shape.size() != 2)) return std::nullopt;
  const bool is_vector = b.shape.size() == 1;
  const std::int64_t summed = is_vector || transposed ? b.shape.back() : b.shape[b.shape.size() - 2];
  const auto stack = broadcast(stack_of(a), stack_of(b));
  if (summed != a.shape.back() || !stack) return std::nullopt;
  std::int64_t columns = transposed ? b.shape.front() : b.shape.back();
  if (is_vector) columns = 1;
  OperatorWork out;
  if (!set_product_type(out, a, b)) return std::nullopt;
  const Count of_matrix = multiply(a.shape.size() > 1 ? a.shape[a.shape.size() - 2] : 1, columns);
  const Count results = multiply(count_elements(*stack), of_matrix);
  out.flops = multiply(2, multiply(results, summed));
  out.bytes_in = bytes_of(a) + bytes_of(b);
  for (std::size_t i = 0; i < first; ++i) out.bytes_in += bytes_of(call.operands[i]);
  out.bytes_out = bytes_of(a, call.name == "addbmm" ? of_matrix : results);  // addbmm adds the products of the stack
  if (call.name == "_int_mm") out.bytes_out *= 4;
  out.name = fmt::format("{} {} * {}", call.name, format_shape(a.shape), format_shape(b.shape));
  return out;
}
std::optional<OperatorWork> count_matmul(const Call& call) { return count_product(call, 0, false); }
std::optional<OperatorWork> count_added_matmul(const Call& call) { return count_product(call, 1, false); }
std::optional<OperatorWork> count_linear(const Call& call) {
  auto out = count_product(call, 0, true);
  if (out && call.operands.size() > 2) out->bytes_in += bytes_of(call.operands[2]);
  return out;
}

// Positions of the arguments of a convolution.
struct ConvolutionArguments {
  std::size_t input, stride, padding, dilation;
  int transposed;  // Argument, or -1
  int products;    // Convolutions of the same size that the call computes: gradients are two
};

std::optional<OperatorWork> count_convolution(const Call& call, const ConvolutionArguments& at) {
  if (call.operands.size() < at.input + 2 || call.operands.size() < call.arguments.size()) return std::nullopt;
  const Operand &x = call.operands[at.input], &w = call.operands[at.input + 1];
  if (x.shape.size() < 3) return std::nullopt;
  const std::size_t spatial = x.shape.size() - 2;
  const auto expand = [&](Shape list) { return list.size() == 1 ? Shape(spatial, list.front()) : list; };
  const Shape stride = expand(parse_list(call, at.stride)), padding = expand(parse_list(call, at.padding)),
              dilation = expand(parse_list(call, at.dilation));
  if (w.shape.size() != x.shape.size() || stride.size() != spatial || padding.size() != spatial ||
      dilation.size() != spatial)
    return std::nullopt;
  if (at.transposed >= 0 && call.arguments[static_cast<std::size_t>(at.transposed)] == "True") return std::nullopt;
  OperatorWork out;
  if (!set_product_type(out, x, w)) return std::nullopt;
  constexpr std::int64_t max_option = 1 << 16;
  Count pairs = 1, result = multiply(x.shape[0], w.shape[0]);
  for (std::size_t i = 0; i < spatial; ++i) {
    SizedWindows windows{x.shape[2 + i], 1, w.shape[2 + i], stride[i], padding[i], dilation[i]};
    if (windows.kernel < 1 || windows.kernel > max_option || stride[i] < 1 || stride[i] > max_option ||
        padding[i] > max_option || dilation[i] < 1 || dilation[i] > max_option)
      return std::nullopt;
    const std::int64_t free_elements = windows.size + 2 * windows.padding - (windows.kernel - 1) * windows.dilation - 1;
    if (free_elements < 0) return std::nullopt;
    windows.windows = free_elements / windows.stride + 1;
    pairs = multiply(pairs, count_window_elements(windows));
    result = multiply(result, windows.windows);
  }
  out.flops = multiply(2 * at.products, multiply(multiply(multiply(x.shape[0], w.shape[0]), w.shape[1]), pairs));
  out.bytes_in = bytes_of(x) + bytes_of(w);
  out.bytes_out = bytes_of(x, result);
  if (at.products > 1) std::swap(out.bytes_in, out.bytes_out);
  if (at.products > 1) out.bytes_in += out.bytes_out;  // Reads all three, writes both gradients
  out.name = fmt::format("{} {} * {}", call.name, format_shape(x.shape), format_shape(w.shape));
  return out;
}

// conv2d(input, weight, bias, stride, padding, dilation, groups) and convolution(…, dilation, transposed, …).
std::optional<OperatorWork> count_conv(const Call& call) { return count_convolution(call, {0, 3, 4, 5, -1, 1}); }
std::optional<OperatorWork> count_general_convolution(const Call& call) {
  return call.arguments.size() > 6 ? count_convolution(call, {0, 3, 4, 5, 6, 1}) : std::nullopt;
}
// cudnn_convolution(self, weight, padding, stride, dilation, …) and mkldnn_convolution(self, weight, bias, padding, …).
std::optional<OperatorWork> count_cudnn_convolution(const Call& call) {
  return count_convolution(call, {0, 3, 2, 4, -1, 1});
}
std::optional<OperatorWork> count_mkldnn_convolution(const Call& call) {
  return count_convolution(call, {0, 4, 3, 5, -1, 1});
}
// convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed, …).
std::optional<OperatorWork> count_convolution_backward(const Call& call) {
  return call.arguments.size() > 7 ? count_convolution(call, {1, 4, 5, 6, 7, 2}) : std::nullopt;
}

// q, k, v [B, H, S, D] from operand `first`; `halves` counts the operations in units of half a forward pass.
// Returns the position of `is_causal` among the arguments of PyTorch's operators of attention.
std::size_t find_causal_argument(std::string_view operator_name) {
  constexpr std::pair<std::string_view, std::size_t> positions[] = {
      {"scaled_dot_product_attention", 5},
      {"_scaled_dot_product_flash_attention", 4},
      {"_scaled_dot_product_flash_attention_for_cpu", 4},
      {"_scaled_dot_product_efficient_attention", 6},
      {"_scaled_dot_product_cudnn_attention", 6},
      {"_scaled_dot_product_flash_attention_backward", 11},
      {"_scaled_dot_product_flash_attention_for_cpu_backward", 7},
      {"_scaled_dot_product_efficient_attention_backward", 11},
      {"_scaled_dot_product_cudnn_attention_backward", 14},
  };
  for (const auto& [name, position] : positions)
    if (name == operator_name) return position;
  return std::numeric_limits<std::size_t>::max();
}

std::optional<OperatorWork> count_attention_of(const Call& call, std::size_t first, int halves) {
  if (call.operands.size() < first + 3) return std::nullopt;
  const Operand &q = call.operands[first], &k = call.operands[first + 1], &v = call.operands[first + 2];
  if (q.shape.size() != 4 || k.shape.size() != 4 || v.shape.size() != 4 || k.shape[2] != v.shape[2] ||
      k.shape[3] != q.shape[3])
    return std::nullopt;
  OperatorWork out;
  if (!set_product_type(out, q, k)) return std::nullopt;
  const Count queries = q.shape[2], keys = k.shape[2];
  const std::size_t causal = find_causal_argument(call.name);
  const bool is_causal = causal < call.arguments.size() && call.arguments[causal] == "True" && queries <= keys;
  const Count pairs =
      is_causal ? multiply(queries, queries + 1) / 2 + multiply(queries, keys - queries) : multiply(queries, keys);
  const Count heads = multiply(q.shape[0], q.shape[1]);
  out.flops = multiply(multiply(heads, std::min(pairs, too_many)), Count{q.shape[3]} + v.shape[3]);
  out.flops = multiply(out.flops, halves);
  const Count result = bytes_of(q, multiply(multiply(heads, queries), v.shape[3]));
  out.bytes_in = bytes_of(q) + bytes_of(k) + bytes_of(v) + (first > 0 ? 2 * result : 0);
  out.bytes_out = first > 0 ? bytes_of(q) + bytes_of(k) + bytes_of(v) : result;
  out.name = fmt::format("{} {} {}", call.name, format_shape(q.shape), format_shape(k.shape));
  return out;
}
std::optional<OperatorWork> count_attention(const Call& call) { return count_attention_of(call, 0, 2); }
// Computes the scores again and four gradient products.
std::optional<OperatorWork> count_attention_backward(const Call& call) { return count_attention_of(call, 1, 5); }

// Returns the operand whose type a pointwise result is assumed to have: the first one, but not the condition of
// `where`, and a number in a tensor without axes only if all of them are.
const Operand* find_operand_of_type(const Call& call) {
  const Operand* out = nullptr;
  for (std::size_t i = call.name == "where" ? 1 : 0; i < call.operands.size(); ++i) {
    const Operand& each = call.operands[i];
    if (is_tensor(each) && (!out || (out->shape.empty() && !each.shape.empty()))) out = &each;
  }
  return out;
}

// Reads all tensors once and writes one of the broadcast shape: `flops` per element.
std::optional<OperatorWork> count_pointwise(const Call& call, int flops) {
  const Operand* const typed = find_operand_of_type(call);
  if (!typed) return std::nullopt;
  OperatorWork out;
  Shape shape;
  for (const Operand& each : call.operands) {
    if (!is_tensor(each)) continue;
    const auto both = broadcast(shape, each.shape);
    if (!both) return std::nullopt;
    shape = *both;
    out.bytes_in += bytes_of(each);
  }
  out.flops = multiply(flops, count_elements(shape));
  if (find_type(typed->type)->dtype == DType::f64) out.math = DType::f64;
  out.bytes_out = bytes_of(*typed, count_elements(shape));
  out.name = fmt::format("{} {}", call.name, format_shape(shape));
  return out;
}
// A comparison writes booleans, unless it overwrites its first operand.
std::optional<OperatorWork> count_comparison(const Call& call) {
  auto out = count_pointwise(call, 1);
  if (out && !call.is_in_place) out->bytes_out = out->flops;
  return out;
}
std::optional<OperatorWork> count_one_per_element(const Call& call) { return count_pointwise(call, 1); }
std::optional<OperatorWork> count_moved(const Call& call) { return count_pointwise(call, 0); }

// Writes the first operand, and reads the others: copy(to, from), fill(to, value).
std::optional<OperatorWork> count_written(const Call& call) {
  if (call.operands.empty() || !is_tensor(call.operands[0])) return std::nullopt;
  OperatorWork out;
  for (std::size_t i = 1; i < call.operands.size(); ++i) out.bytes_in += bytes_of(call.operands[i]);
  out.bytes_out = bytes_of(call.operands[0]);
  out.name = fmt::format("{} {}", call.name, format_shape(call.operands[0].shape));
  return out;
}

// Copies the parts of a list.
std::optional<OperatorWork> count_concatenation(const Call& call) {
  OperatorWork out;
  for (const Operand& each : call.operands) out.bytes_in += bytes_of(each);
  if (out.bytes_in == 0) return std::nullopt;
  out.bytes_out = out.bytes_in;
  out.name = fmt::format("{} {}", call.name, format_shape(call.operands[0].shape));
  return out;
}

// Functions along rows: `flops` for each element of operand 0, which the result is like.
std::optional<OperatorWork> count_rows(const Call& call, int flops, bool has_exp) {
  if (call.operands.empty() || !is_tensor(call.operands[0])) return std::nullopt;
  OperatorWork out;
  const Count elements = count_elements(call.operands[0].shape);
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    out.bytes_in += bytes_of(call.operands[i]);
    if (i > 0 && is_tensor(call.operands[i]) && !has_exp) flops += 1;
  }
  out.flops = multiply(flops, elements);
  if (has_exp) out.costly.push_back({Function::exp, elements});
  out.bytes_out = bytes_of(call.operands[0]);
  out.name = fmt::format("{} {}", call.name, format_shape(call.operands[0].shape));
  return out;
}
std::optional<OperatorWork> count_softmax(const Call& call) { return count_rows(call, 5, true); }
// p (g - sum(p g)) for softmax: two products, a sum and a difference. g - exp(y) sum(g) for its logarithm.
std::optional<OperatorWork> count_softmax_backward(const Call& call) {
  auto out = count_rows(call, 4, true);
  if (out && call.name == "_softmax_backward_data") out->costly.clear();
  return out;
}
std::optional<OperatorWork> count_layer_norm(const Call& call) { return count_rows(call, 5, false); }
// dy, x, the normalized shape, mean, 1 / deviation, weight and bias. Also writes the gradients of weight and bias. For
// each element 2 normalize it, 1 scales its gradient, 3 sum for its row, 4 are its result, and 3 sum for its column; 5
// of them are counted for the operands.
std::optional<OperatorWork> count_layer_norm_backward(const Call& call) {
  auto out = count_rows(call, 8, false);
  for (std::size_t i = 5; out && i < call.operands.size() && i < 7; ++i) out->bytes_out += bytes_of(call.operands[i]);
  return out;
}
std::optional<OperatorWork> count_rms_norm(const Call& call) { return count_rows(call, 3, false); }
// Scale and shift are 1 each; mean and variance are constants, or computed in the same pass.
std::optional<OperatorWork> count_batch_norm(const Call& call) { return count_rows(call, 0, false); }

// Reads all of operand 0, whose reduced result is at least nothing.
std::optional<OperatorWork> count_reduction(const Call& call) {
  if (call.operands.empty() || !is_tensor(call.operands[0])) return std::nullopt;
  OperatorWork out;
  out.flops = count_elements(call.operands[0].shape);
  out.bytes_in = bytes_of(call.operands[0]);
  out.name = fmt::format("{} {}", call.name, format_shape(call.operands[0].shape));
  return out;
}

// embedding(table, indices): the rows that indices name, read and written.
std::optional<OperatorWork> count_embedding(const Call& call) {
  if (call.operands.size() < 2 || call.operands[0].shape.size() != 2) return std::nullopt;
  const Operand &table = call.operands[0], &indices = call.operands[1];
  OperatorWork out;
  out.bytes_out = bytes_of(table, multiply(count_elements(indices.shape), table.shape[1]));
  out.bytes_in = std::min(out.bytes_out, bytes_of(table)) + bytes_of(indices);
  out.name = fmt::format("{} {} {}", call.name, format_shape(table.shape), format_shape(indices.shape));
  return out;
}

const std::map<std::string_view, WorkOf>& known_operators() {
  static const std::map<std::string_view, WorkOf> out = [] {
    std::map<std::string_view, WorkOf> table;
    const auto add = [&](WorkOf work, std::initializer_list<std::string_view> names) {
      for (const std::string_view name : names) table[name] = work;
    };
    add(count_matmul, {"mm", "bmm", "matmul", "_int_mm", "_scaled_mm", "mv", "dot"});
    add(count_added_matmul, {"addmm", "baddbmm", "addmv", "addbmm"});
    add(count_linear, {"linear"});
    add(count_conv, {"conv1d", "conv2d", "conv3d"});
    add(count_general_convolution, {"convolution", "_convolution", "convolution_overrideable"});
    add(count_cudnn_convolution, {"cudnn_convolution"});
    add(count_mkldnn_convolution, {"mkldnn_convolution", "miopen_convolution"});
    add(count_convolution_backward, {"convolution_backward"});
    add(count_attention, {"scaled_dot_product_attention", "_scaled_dot_product_flash_attention",
                          "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
                          "_scaled_dot_product_flash_attention_for_cpu"});
    add(count_attention_backward,
        {"_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_efficient_attention_backward",
         "_scaled_dot_product_cudnn_attention_backward", "_scaled_dot_product_flash_attention_for_cpu_backward"});
    add(count_one_per_element, {"abs",           "add",
                                "addcdiv",       "addcmul",
                                "bitwise_and",   "bitwise_not",
                                "bitwise_or",    "ceil",
                                "clamp",         "clamp_max",
                                "clamp_min",     "cos",
                                "div",           "erf",
                                "exp",           "floor",
                                "gelu",          "gelu_backward",
                                "hardswish",     "hardtanh",
                                "leaky_relu",    "log",
                                "masked_fill",   "maximum",
                                "minimum",       "mish",
                                "mul",           "neg",
                                "pow",           "reciprocal",
                                "relu",          "round",
                                "rsqrt",         "rsub",
                                "sigmoid",       "sigmoid_backward",
                                "sign",          "silu",
                                "silu_backward", "sin",
                                "softplus",      "sqrt",
                                "sub",           "tanh",
                                "tanh_backward", "threshold_backward",
                                "tril",          "triu",
                                "where"});
    add(count_comparison,
        {"eq", "ge", "gt", "isfinite", "isinf", "isnan", "le", "logical_and", "logical_not", "logical_or", "lt", "ne"});
    add(count_moved, {"clone", "contiguous", "flip", "roll", "native_dropout"});
    add(count_written, {"copy", "fill", "zero", "normal", "uniform", "bernoulli"});
    add(count_concatenation, {"cat", "stack"});
    add(count_softmax, {"_softmax", "_log_softmax", "softmax", "log_softmax"});
    add(count_softmax_backward, {"_softmax_backward_data", "_log_softmax_backward_data"});
    add(count_layer_norm, {"layer_norm", "native_layer_norm", "group_norm", "native_group_norm"});
    add(count_layer_norm_backward, {"native_layer_norm_backward"});
    add(count_rms_norm, {"rms_norm", "_fused_rms_norm"});
    add(count_batch_norm, {"batch_norm", "native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit"});
    add(count_reduction,
        {"sum", "mean", "amax", "amin", "max", "min", "prod", "argmax", "argmin", "any", "all", "norm"});
    add(count_embedding, {"embedding", "index_select"});
    return table;
  }();
  return out;
}

}  // namespace

std::string describe_operator(const Signature& signature) {
  std::string out = make_printable(signature.name.substr(0, 200));
  if (out.starts_with("aten::")) out = out.substr(6);
  const auto call = parse_call(signature);
  if (!call) return out;
  int shown = 0;
  constexpr int max_shown = 2;
  for (const Operand& each : call->operands)
    if (is_tensor(each) && shown++ < max_shown) out += " " + format_shape(each.shape);
  return out;
}

std::optional<OperatorWork> find_operator_work(const Signature& signature) {
  const auto call = parse_call(signature);
  if (!call) return std::nullopt;
  const auto found = known_operators().find(call->name);
  if (found == known_operators().end()) return std::nullopt;
  auto out = found->second(*call);
  if (!out || out->flops > max_operator_work || out->bytes_in + out->bytes_out > max_operator_work ||
      out->bytes_in + out->bytes_out < 1)
    return std::nullopt;
  return out;
}

}  // namespace ridge::profiler

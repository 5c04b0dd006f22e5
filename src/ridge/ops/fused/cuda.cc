#include "ridge/ops/fused/cuda.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "ridge/base/dtype_set.h"
#include "ridge/ops/chain/lower.h"

namespace ridge::ops::cuda {
namespace {

// Expressions that a chain's registers hold. Operands are indices of the chain's tensors, or -1.
struct EpilogueForm {  // activation(alpha * scale * sums of `product` + bias) * gate + beta * residual
  int product = 0;
  float alpha = 1, beta = 1;
  EpilogueActivation activation = EpilogueActivation::none;
  int scale = -1, bias = -1, gate = -1, residual = -1;
};
struct GatedForm {  // up * gate, each with at most a bias, the gate with an activation
  EpilogueForm up, gate;
};
struct ScaledOperand {  // factor * tensor
  int tensor = 0;
  float factor = 1;
};
struct Unsupported {  // Any other expression, with the reason
  std::string why;
};
using SymbolicValue = std::variant<Unsupported, float, ScaledOperand, EpilogueForm, GatedForm>;

SymbolicValue unsupported(const char* why) { return Unsupported{why}; }

// Multiplication by a power of two is exact, so it distributes over the sums and the terms added to them.
bool is_power_of_two(float x) {
  int exponent = 0;
  return std::isnormal(x) && std::fabs(std::frexp(x, &exponent)) == 0.5F;
}

bool has_only_alpha(const EpilogueForm& s) {
  return s.activation == EpilogueActivation::none && s.scale < 0 && s.bias < 0 && s.gate < 0 && s.residual < 0;
}

SymbolicValue multiply_forms(EpilogueForm s, float factor) {
  if (factor == 1) return s;
  if (has_only_alpha(s) && s.alpha == 1) {
    s.alpha = factor;
    return s;
  }
  if (s.activation != EpilogueActivation::none) return unsupported("a constant after an activation");
  if (!is_power_of_two(factor)) return unsupported("a constant after other operands");
  if (s.bias >= 0 && (s.gate >= 0 || s.residual >= 0))
    return unsupported("a constant after a bias and another operand");
  s.alpha *= factor;
  if (s.bias >= 0) {
    s.residual = std::exchange(s.bias, -1);
    s.beta = factor;
  } else if (s.residual >= 0)
    s.beta *= factor;
  const bool exact = std::isnormal(s.alpha) && std::isnormal(s.beta);
  return exact ? SymbolicValue(s) : unsupported("constants whose product exceeds f32's range");
}
SymbolicValue multiply_forms(ScaledOperand t, float factor) {
  const bool exact = (is_power_of_two(t.factor) || is_power_of_two(factor)) && std::isnormal(t.factor * factor);
  if (t.factor != 1 && factor != 1 && !exact) return unsupported("an operand with two factors");
  return ScaledOperand{t.tensor, t.factor * factor};
}
SymbolicValue multiply_forms(float a, float b) { return a * b; }
SymbolicValue multiply_forms(const EpilogueForm& sums, const ScaledOperand& t) {
  const SymbolicValue value =
      t.factor == 1 || is_power_of_two(t.factor) ? multiply_forms(sums, t.factor) : unsupported("a gate with a factor");
  if (!std::holds_alternative<EpilogueForm>(value)) return value;
  EpilogueForm s = std::get<EpilogueForm>(value);
  if (s.residual >= 0) return unsupported("a gate after a residual");
  if (has_only_alpha(s))
    s.scale = t.tensor;
  else if (s.gate < 0)
    s.gate = t.tensor;
  else
    return unsupported("a second gate");
  return s;
}
SymbolicValue multiply_forms(const EpilogueForm& a, const EpilogueForm& b) {
  if (a.product == b.product) return unsupported("the sums times themselves");
  for (const EpilogueForm* s : {&a, &b})
    if (s->alpha != 1 || s->scale >= 0 || s->gate >= 0 || s->residual >= 0)
      return unsupported("two products with more than a bias each and an activation");
  if (a.activation != EpilogueActivation::none && b.activation != EpilogueActivation::none)
    return unsupported("activations of both products");
  return a.activation == EpilogueActivation::none ? GatedForm{a, b} : GatedForm{b, a};
}

SymbolicValue add_forms(EpilogueForm s, const ScaledOperand& t) {
  const bool first = s.activation == EpilogueActivation::none && s.bias < 0 && s.gate < 0 && s.residual < 0;
  if (first && t.factor == 1)
    s.bias = t.tensor;
  else if (s.residual < 0) {
    s.residual = t.tensor;
    s.beta = t.factor;
  } else
    return unsupported("more than two terms");
  return s;
}
SymbolicValue add_forms(float a, float b) { return a + b; }

SymbolicValue apply_activation(ChainOp op, const SymbolicValue& x) {
  if (std::holds_alternative<Unsupported>(x)) return x;
  if (!std::holds_alternative<EpilogueForm>(x))
    return unsupported("a function of something other than a product's sums");
  EpilogueForm s = std::get<EpilogueForm>(x);
  if (s.activation != EpilogueActivation::none) return unsupported("a second activation");
  if (s.gate >= 0 || s.residual >= 0) return unsupported("an activation after a gate or a residual");
  static constexpr std::pair<Function, EpilogueActivation> endings[] = {
      {Function::relu, EpilogueActivation::relu},
      {Function::gelu, EpilogueActivation::gelu},
      {Function::gelu_tanh, EpilogueActivation::gelu_tanh},
      {Function::silu, EpilogueActivation::silu}};
  for (const auto& [function, activation] : endings)
    if (function == op) s.activation = activation;
  if (s.activation == EpilogueActivation::none) return unsupported("an unsupported operation");
  return s;
}

// Calls `apply`, or returns the reason of an operand that is already unsupported.
template <class Work> SymbolicValue apply_binary(const SymbolicValue& a, const SymbolicValue& b, const Work& apply) {
  for (const SymbolicValue* x : {&a, &b})
    if (std::holds_alternative<Unsupported>(*x)) return *x;
  return apply(a, b);
}

SymbolicValue multiply_values(const SymbolicValue& x, const SymbolicValue& y) {
  return apply_binary(x, y, [](const SymbolicValue& a, const SymbolicValue& b) {
    return std::visit(
        [](const auto& left, const auto& right) -> SymbolicValue {
          if constexpr (requires { multiply_forms(left, right); })
            return multiply_forms(left, right);
          else if constexpr (requires { multiply_forms(right, left); })
            return multiply_forms(right, left);
          else
            return unsupported("a product of unsupported expressions");
        },
        a, b);
  });
}
SymbolicValue add_values(const SymbolicValue& x, const SymbolicValue& y) {
  return apply_binary(x, y, [](const SymbolicValue& a, const SymbolicValue& b) {
    return std::visit(
        [](const auto& left, const auto& right) -> SymbolicValue {
          if constexpr (requires { add_forms(left, right); })
            return add_forms(left, right);
          else if constexpr (requires { add_forms(right, left); })
            return add_forms(right, left);
          else
            return unsupported("a sum of unsupported expressions");
        },
        a, b);
  });
}
SymbolicValue divide_values(const SymbolicValue& a, const SymbolicValue& b) {
  if (!std::holds_alternative<float>(b)) return unsupported("a division");
  const float factor = std::get<float>(b);
  if (std::holds_alternative<float>(a)) return std::get<float>(a) / factor;
  return is_power_of_two(factor) ? multiply_values(a, 1 / factor) : unsupported("a division by no power of two");
}
SymbolicValue recognize_relu(const SymbolicValue& a, const SymbolicValue& b) {
  const auto is_zero = [](const SymbolicValue& x) {
    return std::holds_alternative<float>(x) && std::get<float>(x) == 0;
  };
  if (is_zero(a) || is_zero(b)) return apply_activation(ChainOp::relu, is_zero(a) ? b : a);
  return unsupported("an unsupported operation");
}

struct ChainEpilogue {
  SymbolicValue value;  // EpilogueForm, GatedForm, or the reason why it is neither
  int stored = -1;      // Tensor to which the chain stores
};

SymbolicValue apply_step(const ChainStep& step, const std::vector<SymbolicValue>& registers) {
  const SymbolicValue &a = registers[step.a], &b = registers[step.b];
  if (step.op == Function::add) return add_values(a, b);
  if (step.op == Function::subtract) return add_values(a, multiply_values(b, -1.0F));
  if (step.op == Function::multiply) return multiply_values(a, b);
  if (step.op == Function::divide) return divide_values(a, b);
  if (step.op == Function::negate)
    return step.repeat == 1 ? multiply_values(a, -1.0F) : unsupported("a repeated function");
  if (step.op == Function::max) return recognize_relu(a, b);
  if (operand_count(step.op) != 1) return unsupported("an unsupported operation");
  return step.repeat == 1 ? apply_activation(step.op, a) : unsupported("a repeated function");
}

ChainEpilogue interpret_chain(const FusedMatmul& problem) {
  ChainEpilogue out{unsupported("no stored result")};
  std::vector<SymbolicValue> registers(problem.chain.registers, unsupported("an empty register"));
  for (const ChainStep& step : problem.chain.steps) {
    if (step.op == ChainOp::store) {
      if (out.stored >= 0) return {unsupported("more than one stored result")};
      out = {registers[step.a], step.slot};
      continue;
    }
    SymbolicValue value = unsupported("");
    if (step.op == ChainOp::load)
      value = step.slot < problem.product_count() ? SymbolicValue(EpilogueForm{.product = step.slot})
                                                  : SymbolicValue(ScaledOperand{step.slot});
    else
      value = step.op == ChainOp::constant ? SymbolicValue(step.constant) : apply_step(step, registers);
    registers[step.result] = std::move(value);
  }
  if (std::holds_alternative<EpilogueForm>(out.value) && problem.second)
    out.value = unsupported("a result that uses only one product");
  if (std::holds_alternative<float>(out.value) || std::holds_alternative<ScaledOperand>(out.value))
    out.value = unsupported("a result that uses no product");
  return out;
}

class CallBuilder {
 public:
  CallBuilder(const FusedMatmul& problem, std::span<void* const> data) : problem_(problem), data_(data) {}

  MatmulCall build_call(const EpilogueForm& s, int stored) const {
    MatmulCall out;
    out.problem = problem_.product;
    const ChainTensor& d = tensor_at(stored);
    out.problem.d = {d.dtype, d.strides[1], d.strides[2], d.strides[0]};
    out.a = data_[0];
    out.b = data_[1];
    out.d = address_of(stored);
    out.epilogue = {.alpha = s.alpha,
                    .beta = s.beta,
                    .activation = s.activation,
                    .scale = make_operand(s.scale),
                    .bias = make_operand(s.bias),
                    .gate = make_operand(s.gate),
                    .addend = make_operand(s.residual)};
    return out;
  }

  GatedCall build_call(const GatedForm& pair, int stored) const {
    const MatmulProblem& p = problem_.product;
    GatedCall out;
    out.size = p.size;
    out.dtype = p.a.dtype;
    out.out = tensor_at(stored).dtype;
    out.activation = pair.gate.activation;
    out.x = data_[0];
    out.up = weights_of(pair.up);
    out.gate = weights_of(pair.gate);
    out.y = address_of(stored);
    for (const int bias : {pair.up.bias, pair.gate.bias})
      if (bias >= 0) out.bias = tensor_at(bias).dtype;
    if (pair.up.bias < 0 && pair.gate.bias < 0) out.bias = out.dtype;
    out.bu = address_of(pair.up.bias);
    out.bg = address_of(pair.gate.bias);
    out.weights = weights_major();
    out.weight_line_stride = weights_line_stride(p.b);
    out.x_row_stride = p.a.row_stride;
    out.y_row_stride = tensor_at(stored).strides[1];
    return out;
  }

  // Returns why the gated kernel does not support a pair.
  Reason gated_blocker(const GatedForm& pair, int stored) const {
    const MatmulProblem& p = problem_.product;
    const ChainTensor& y = tensor_at(stored);
    if (!SixteenBitFloats::contains(p.a.dtype))
      return "its gated layer supports only bf16 and f16, and this one multiplies " +
             std::string(dtype_name(p.a.dtype));
    if (p.b.dtype != p.a.dtype)
      return fmt::format("its gated layer multiplies operands of one dtype, found {} * {}", dtype_name(p.a.dtype),
                         dtype_name(p.b.dtype));
    if (p.batch != 1) return fmt::format("its gated layer takes a batch of 1, found {}", p.batch);
    if (p.size.k > 1 && p.a.col_stride != 1) return "its gated layer needs x contiguous along the summed dimension";
    for (const MatrixLayout* weights_of : {&p.b, &*problem_.second})
      if ((weights_major() == tile::Major::k ? p.size.k > 1 && weights_of->row_stride != 1
                                             : weights_of->col_stride != 1) ||
          weights_line_stride(*weights_of) != weights_line_stride(p.b))
        return "its gated layer needs two weights of the same layout";
    if (p.size.n > 1 && y.strides[2] != 1) return "its gated layer needs a result with contiguous rows";
    std::optional<DType> bias;
    for (const int b : {pair.up.bias, pair.gate.bias}) {
      if (b < 0) continue;
      const ChainTensor& t = tensor_at(b);
      if (t.strides[1] != 0 || (p.size.n > 1 && t.strides[2] != 1))
        return "its gated layer takes biases along the columns";
      if (bias.value_or(t.dtype) != t.dtype) return "its gated layer takes biases of one dtype";
      bias = t.dtype;
    }
    return {};
  }

 private:
  const ChainTensor& tensor_at(int i) const { return problem_.chain.tensors[i]; }
  void* address_of(int i) const { return i < 0 ? nullptr : data_[3 + i - problem_.product_count()]; }
  EpilogueOperand make_operand(int i) const {
    if (i < 0) return {};
    const ChainTensor& t = tensor_at(i);
    return {address_of(i), t.dtype, t.strides[1], t.strides[2], t.strides[0]};
  }
  const void* weights_of(const EpilogueForm& s) const { return data_[s.product == 0 ? 1 : 2]; }
  tile::Major weights_major() const {
    const MatmulProblem& p = problem_.product;
    return p.size.k <= 1 || p.b.row_stride == 1 ? tile::Major::k : tile::Major::mn;
  }
  std::int64_t weights_line_stride(const MatrixLayout& weights) const {
    const MatmulProblem& p = problem_.product;
    if (weights_major() == tile::Major::mn) return weights.row_stride;
    return p.size.n > 1 ? weights.col_stride : p.size.k;
  }

  const FusedMatmul& problem_;
  std::span<void* const> data_;
};

// Returns a placeholder address for each operand of a call that is only checked and never launched.
std::vector<void*> placeholder_addresses(const FusedMatmul& x) {
  alignas(256) static std::byte address_of[256];
  return std::vector<void*>(x.chain.tensors.size() + 3, address_of);
}

}  // namespace

Reason unsupported_reason(const FusedMatmul& x) {
  if (x.chain.extents != std::vector<std::int64_t>{x.product.batch, x.product.size.m, x.product.size.n})
    return "chain: expected the extents of the product, batch, m and n";
  if (x.chain.tensors.size() < static_cast<std::size_t>(x.product_count()))
    return "chain: expected a tensor for the sums of each product";
  if (const auto gated_blocker = invalid_reason(x.chain)) return gated_blocker;
  const ChainEpilogue end = interpret_chain(x);
  if (const auto* why = std::get_if<Unsupported>(&end.value))
    return "the device's epilogue is scale, bias, activation, gate and residual; this chain has " + why->why;
  const std::vector<void*> data = placeholder_addresses(x);
  if (const auto* pair = std::get_if<GatedForm>(&end.value))
    if (const auto gated_blocker = CallBuilder(x, data).gated_blocker(*pair, end.stored))
      return "the device has no kernel for this: " + gated_blocker.text();
  return std::visit([](const auto& call) { return unsupported_reason(call); }, make_fused_call(x, data));
}

FusedCall make_fused_call(const FusedMatmul& problem) {
  return make_fused_call(problem, placeholder_addresses(problem));
}

FusedCall make_fused_call(const FusedMatmul& problem, std::span<void* const> data) {
  const ChainEpilogue end = interpret_chain(problem);
  const CallBuilder builder(problem, data);
  if (const auto* pair = std::get_if<GatedForm>(&end.value)) return builder.build_call(*pair, end.stored);
  return builder.build_call(std::get<EpilogueForm>(end.value), end.stored);
}

}  // namespace ridge::ops::cuda

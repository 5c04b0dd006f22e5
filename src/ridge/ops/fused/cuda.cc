#include "ridge/ops/fused/cuda.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "ridge/ops/chain/code.h"

namespace ridge::ops::cuda {
namespace {

// Expressions that a chain's registers hold. Operands are indices of the chain's tensors, or -1.
struct Sums {  // activation(alpha * scale * sums of `product` + bias) * gate + beta * residual
  int product = 0;
  float alpha = 1, beta = 1;
  Activation activation = Activation::none;
  int scale = -1, bias = -1, gate = -1, addend = -1;
};
struct Pair {  // up * gate, each with at most a bias, the gate with an activation
  Sums up, gate;
};
struct Scaled {  // factor * tensor
  int tensor = 0;
  float by = 1;
};
struct Other {  // Any other expression, with the reason
  std::string why;
};
using Value = std::variant<Other, float, Scaled, Sums, Pair>;

Value other(const char* why) { return Other{why}; }

// Multiplication by a power of two is exact, so it distributes over the sums and the terms added to them.
bool is_power_of_two(float x) {
  int exponent = 0;
  return std::isnormal(x) && std::fabs(std::frexp(x, &exponent)) == 0.5F;
}

bool only_sums(const Sums& s) {
  return s.activation == Activation::none && s.scale < 0 && s.bias < 0 && s.gate < 0 && s.addend < 0;
}

Value times(Sums s, float by) {
  if (by == 1) return s;
  if (only_sums(s) && s.alpha == 1) {
    s.alpha = by;
    return s;
  }
  if (s.activation != Activation::none) return other("a constant after an activation");
  if (!is_power_of_two(by)) return other("a constant after other operands");
  if (s.bias >= 0 && (s.gate >= 0 || s.addend >= 0)) return other("a constant after a bias and another operand");
  s.alpha *= by;
  if (s.bias >= 0) {
    s.addend = std::exchange(s.bias, -1);
    s.beta = by;
  } else if (s.addend >= 0)
    s.beta *= by;
  const bool exact = std::isnormal(s.alpha) && std::isnormal(s.beta);
  return exact ? Value(s) : other("constants whose product exceeds f32's range");
}
Value times(Scaled t, float by) {
  const bool exact = (is_power_of_two(t.by) || is_power_of_two(by)) && std::isnormal(t.by * by);
  if (t.by != 1 && by != 1 && !exact) return other("an operand with two factors");
  return Scaled{t.tensor, t.by * by};
}
Value times(float a, float b) { return a * b; }
Value times(const Sums& sums, const Scaled& t) {
  const Value value = t.by == 1 || is_power_of_two(t.by) ? times(sums, t.by) : other("a gate with a factor");
  if (!std::holds_alternative<Sums>(value)) return value;
  Sums s = std::get<Sums>(value);
  if (s.addend >= 0) return other("a gate after a residual");
  if (only_sums(s))
    s.scale = t.tensor;
  else if (s.gate < 0)
    s.gate = t.tensor;
  else
    return other("a second gate");
  return s;
}
Value times(const Sums& a, const Sums& b) {
  if (a.product == b.product) return other("the sums times themselves");
  for (const Sums* s : {&a, &b})
    if (s->alpha != 1 || s->scale >= 0 || s->gate >= 0 || s->addend >= 0)
      return other("two products with more than a bias each and an activation");
  if (a.activation != Activation::none && b.activation != Activation::none)
    return other("activations of both products");
  return a.activation == Activation::none ? Pair{a, b} : Pair{b, a};
}

Value plus(Sums s, const Scaled& t) {
  const bool first = s.activation == Activation::none && s.bias < 0 && s.gate < 0 && s.addend < 0;
  if (first && t.by == 1)
    s.bias = t.tensor;
  else if (s.addend < 0) {
    s.addend = t.tensor;
    s.beta = t.by;
  } else
    return other("more than two terms");
  return s;
}
Value plus(float a, float b) { return a + b; }

Value activated(ChainOp op, const Value& x) {
  if (std::holds_alternative<Other>(x)) return x;
  if (!std::holds_alternative<Sums>(x)) return other("a function of something other than a product's sums");
  Sums s = std::get<Sums>(x);
  if (s.activation != Activation::none) return other("a second activation");
  if (s.gate >= 0 || s.addend >= 0) return other("an activation after a gate or a residual");
  static constexpr std::pair<Function, Activation> endings[] = {{Function::relu, Activation::relu},
                                                                {Function::gelu, Activation::gelu},
                                                                {Function::gelu_tanh, Activation::gelu_tanh},
                                                                {Function::silu, Activation::silu}};
  for (const auto& [function, activation] : endings)
    if (function == op) s.activation = activation;
  if (s.activation == Activation::none) return other("an unsupported operation");
  return s;
}

// Calls `apply`, or returns the reason of an operand that is already unsupported.
template <class Work> Value binary(const Value& a, const Value& b, const Work& work) {
  for (const Value* x : {&a, &b})
    if (std::holds_alternative<Other>(*x)) return *x;
  return work(a, b);
}

Value multiplied(const Value& x, const Value& y) {
  return binary(x, y, [](const Value& a, const Value& b) {
    return std::visit(
        [](const auto& left, const auto& right) -> Value {
          if constexpr (requires { times(left, right); })
            return times(left, right);
          else if constexpr (requires { times(right, left); })
            return times(right, left);
          else
            return other("a product of unsupported expressions");
        },
        a, b);
  });
}
Value added(const Value& x, const Value& y) {
  return binary(x, y, [](const Value& a, const Value& b) {
    return std::visit(
        [](const auto& left, const auto& right) -> Value {
          if constexpr (requires { plus(left, right); })
            return plus(left, right);
          else if constexpr (requires { plus(right, left); })
            return plus(right, left);
          else
            return other("a sum of unsupported expressions");
        },
        a, b);
  });
}
Value divided(const Value& a, const Value& b) {
  if (!std::holds_alternative<float>(b)) return other("a division");
  const float by = std::get<float>(b);
  if (std::holds_alternative<float>(a)) return std::get<float>(a) / by;
  return is_power_of_two(by) ? multiplied(a, 1 / by) : other("a division by no power of two");
}
Value largest(const Value& a, const Value& b) {
  const auto zero = [](const Value& x) { return std::holds_alternative<float>(x) && std::get<float>(x) == 0; };
  if (zero(a) || zero(b)) return activated(ChainOp::relu, zero(a) ? b : a);
  return other("an unsupported operation");
}

struct ChainEpilogue {
  Value value;  // Sums, Pair or the reason why it is neither
  int stored = -1;
};

Value applied(const ChainStep& step, const std::vector<Value>& registers) {
  const Value &a = registers[static_cast<std::size_t>(step.a)], &b = registers[static_cast<std::size_t>(step.b)];
  if (step.op == Function::add) return added(a, b);
  if (step.op == Function::subtract) return added(a, multiplied(b, -1.0F));
  if (step.op == Function::multiply) return multiplied(a, b);
  if (step.op == Function::divide) return divided(a, b);
  if (step.op == Function::negate) return step.repeat == 1 ? multiplied(a, -1.0F) : other("a repeated function");
  if (step.op == Function::max) return largest(a, b);
  if (operands(step.op) != 1) return other("an unsupported operation");
  return step.repeat == 1 ? activated(step.op, a) : other("a repeated function");
}

ChainEpilogue read(const FusedMatmul& problem) {
  ChainEpilogue out{other("no stored result")};
  std::vector<Value> registers(static_cast<std::size_t>(problem.chain.registers), other("an empty register"));
  for (const ChainStep& step : problem.chain.steps) {
    if (step.op == ChainOp::store) {
      if (out.stored >= 0) return {other("more than one stored result")};
      out = {registers[static_cast<std::size_t>(step.a)], step.slot};
      continue;
    }
    Value value = other("");
    if (step.op == ChainOp::load)
      value = step.slot < problem.products() ? Value(Sums{.product = step.slot}) : Value(Scaled{step.slot});
    else
      value = step.op == ChainOp::constant ? Value(step.constant) : applied(step, registers);
    registers[static_cast<std::size_t>(step.result)] = std::move(value);
  }
  if (std::holds_alternative<Sums>(out.value) && problem.second)
    out.value = other("a result that uses only one product");
  if (std::holds_alternative<float>(out.value) || std::holds_alternative<Scaled>(out.value))
    out.value = other("a result that uses no product");
  return out;
}

class Caller {
 public:
  Caller(const FusedMatmul& problem, std::span<void* const> data) : problem_(problem), data_(data) {}

  MatmulCall call(const Sums& s, int stored) const {
    MatmulCall out;
    out.problem = problem_.product;
    const ChainTensor& d = tensor(stored);
    out.problem.d = {d.dtype, d.strides[1], d.strides[2], d.strides[0]};
    out.a = data_[0];
    out.b = data_[1];
    out.d = place(stored);
    out.epilogue = {.alpha = s.alpha,
                    .beta = s.beta,
                    .activation = s.activation,
                    .scale = operand(s.scale),
                    .bias = operand(s.bias),
                    .gate = operand(s.gate),
                    .addend = operand(s.addend)};
    return out;
  }

  GatedCall call(const Pair& pair, int stored) const {
    const MatmulProblem& p = problem_.product;
    GatedCall out;
    out.m = p.m;
    out.n = p.n;
    out.k = p.k;
    out.dtype = p.a.dtype;
    out.out = tensor(stored).dtype;
    out.activation = pair.gate.activation;
    out.x = data_[0];
    out.up = weights(pair.up);
    out.gate = weights(pair.gate);
    out.y = place(stored);
    for (const int bias : {pair.up.bias, pair.gate.bias})
      if (bias >= 0) out.bias = tensor(bias).dtype;
    if (pair.up.bias < 0 && pair.gate.bias < 0) out.bias = out.dtype;
    out.bu = place(pair.up.bias);
    out.bg = place(pair.gate.bias);
    out.weights = major();
    out.weight_line = line(p.b);
    out.x_line = p.a.row_stride;
    out.y_line = tensor(stored).strides[1];
    return out;
  }

  // Returns why the gated kernel does not support a pair, or nullopt if it does.
  std::optional<std::string> fault(const Pair& pair, int stored) const {
    const MatmulProblem& p = problem_.product;
    const ChainTensor& y = tensor(stored);
    if (p.a.dtype == DType::f32) return "its gated layer supports only bf16 and f16, and this one multiplies f32";
    if (p.batch != 1) return fmt::format("its gated layer takes a batch of 1, found {}", p.batch);
    if (p.k > 1 && p.a.col_stride != 1) return "its gated layer needs x contiguous along the summed dimension";
    for (const MatrixLayout* weights : {&p.b, &*problem_.second})
      if ((major() == tile::Major::k ? p.k > 1 && weights->row_stride != 1 : weights->col_stride != 1) ||
          line(*weights) != line(p.b))
        return "its gated layer needs two weights of the same layout";
    if (p.n > 1 && y.strides[2] != 1) return "its gated layer needs a result with contiguous rows";
    std::optional<DType> bias;
    for (const int b : {pair.up.bias, pair.gate.bias}) {
      if (b < 0) continue;
      const ChainTensor& t = tensor(b);
      if (t.strides[1] != 0 || (p.n > 1 && t.strides[2] != 1)) return "its gated layer takes biases along the columns";
      if (bias.value_or(t.dtype) != t.dtype) return "its gated layer takes biases of one dtype";
      bias = t.dtype;
    }
    return std::nullopt;
  }

 private:
  const ChainTensor& tensor(int i) const { return problem_.chain.tensors[static_cast<std::size_t>(i)]; }
  void* place(int i) const { return i < 0 ? nullptr : data_[static_cast<std::size_t>(3 + i - problem_.products())]; }
  EpilogueOperand operand(int i) const {
    if (i < 0) return {};
    const ChainTensor& t = tensor(i);
    return {place(i), t.dtype, t.strides[1], t.strides[2], t.strides[0]};
  }
  const void* weights(const Sums& s) const { return data_[s.product == 0 ? 1 : 2]; }
  tile::Major major() const {
    const MatmulProblem& p = problem_.product;
    return p.k <= 1 || p.b.row_stride == 1 ? tile::Major::k : tile::Major::mn;
  }
  std::int64_t line(const MatrixLayout& weights) const {
    const MatmulProblem& p = problem_.product;
    if (major() == tile::Major::mn) return weights.row_stride;
    return p.n > 1 ? weights.col_stride : p.k;
  }

  const FusedMatmul& problem_;
  std::span<void* const> data_;
};

// Returns a placeholder address for each operand of a call that is only checked and never launched.
std::vector<void*> nowhere(const FusedMatmul& x) {
  alignas(256) static std::byte place[256];
  return std::vector<void*>(x.chain.tensors.size() + 3, place);
}

}  // namespace

std::optional<std::string> refuse(const FusedMatmul& x) {
  if (x.chain.extents != std::vector<std::int64_t>{x.product.batch, x.product.m, x.product.n})
    return "chain: expected the extents of the product, batch, m and n";
  if (x.chain.tensors.size() < static_cast<std::size_t>(x.products()))
    return "chain: expected a tensor for the sums of each product";
  if (const auto fault = find_fault(x.chain)) return fault;
  const ChainEpilogue end = read(x);
  if (const auto* why = std::get_if<Other>(&end.value))
    return "the device's epilogue is scale, bias, activation, gate and residual; this chain has " +
           why->why;
  const std::vector<void*> data = nowhere(x);
  if (const auto* pair = std::get_if<Pair>(&end.value))
    if (const auto fault = Caller(x, data).fault(*pair, end.stored))
      return "the device has no kernel for this: " + *fault;
  return std::visit([](const auto& call) { return refuse(call); }, fused_call(x, data));
}

FusedCall fused_call(const FusedMatmul& problem) { return fused_call(problem, nowhere(problem)); }

FusedCall fused_call(const FusedMatmul& problem, std::span<void* const> data) {
  const ChainEpilogue end = read(problem);
  const Caller caller(problem, data);
  if (const auto* pair = std::get_if<Pair>(&end.value)) return caller.call(*pair, end.stored);
  return caller.call(std::get<Sums>(end.value), end.stored);
}

}  // namespace ridge::ops::cuda

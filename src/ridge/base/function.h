// The functions of expressions, one row each: the notation, the counts, the kernels' texts, the reference executor, the
// page docs/functions.md and the tests read it here. erf, for instance, is a name, one argument, the value of f64 that
// kernels are held to, and how far they may be from it in units of the last place. How to add one:
// docs/add_a_function.md.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace ridge {

enum class Function : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  pow,
  negate,
  exp,
  log,
  cos,
  sin,
  gelu,
  gelu_tanh,
  silu,
  relu,
  sigmoid,
  tanh,
  sqrt,
  rsqrt,
  abs,
  erf,
  softplus,
  tan,
  atan,
  log1p,
  expm1,
  floor,
  round,
  sign,
  leaky_relu,
  hard_swish,
  mish,
  max,
  min,
  where,
  clamp,
  less,  // comparisons: 1 or 0
  less_equal,
  greater,
  greater_equal,
  equal,
  sum,  // from here on along dimensions, as max and min may be too
  mean,
  softmax,
  rmsnorm,
  layernorm,
  load,  // from here on what a chain does besides: no functions, and no names in the notation
  constant,
  store,
};

// How a function is written: f(x), a sign between or before its operands, f(x over D) only, or not at all.
enum class Written : std::uint8_t { called, comparison, sum, product, power, before, along, nowhere };

struct FunctionRow {
  Function function;
  std::string_view name;  // in the notation where it is called; of the device's function (ops/function/device_math.h)
  std::string_view sign = {};
  Written written = Written::called;
  int arity = 1;                     // 0: it has no form that takes each element by itself
  std::string_view arguments = "x";  // of a call
  bool along = false;                // it has the form sum(x over D)
  int flops = 1;                     // an element; along dimensions: an element of its argument
  int reductions = 1;                // along dimensions: how often each row's parts are brought together
  int cpu_flops = 2;                 // what it takes on a CPU, in FLOPs of the vector peak; an instruction is two
  bool again_is_same = false;        // f(f(x)) is f(x), so that repeating it is doing it once
  bool keeps_error = false;          // a relative error of its operands stays what it is
  bool rough = false;                // the device has a cheaper one for results of 16 bits, name_16
  bool ends_product = false;         // it may be a product's activation (tile/epilogue.h)
  bool has_cost = false;             // a machine may say what one takes: cost_exp
  double ulps = 0, device_ulps = 0;  // the largest error of the kernels' bodies, in units of the last place
  double (*value)(double, double, double) = nullptr;  // in f64; what is infinite or NaN included
  std::string_view says = {};                         // for the reference page
};

inline constexpr double leaky_slope = 0.01f;  // of leaky_relu below 0, PyTorch's default, as f32 has it

namespace functions {
inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }
// x times what tends to 0 faster than x grows: -0 at -infinity, where the formula has no value.
inline double gated(double x, double gate) { return x == -infinity ? -0.0 : x * gate; }
inline double bent(double x) {
  return x == -infinity ? -0.0
                        : x / (1 + std::exp(-2 * std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
inline double mish_gate(double x) {  // tanh(log(1 + e^x))
  const double e = std::exp(-std::fabs(x)), of = x < 0 ? e * (e + 2) : 1 + 2 * e;
  return of / (of + (x < 0 ? 2 : 2 * e * e));
}
inline double largest(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b); }
inline double smallest(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::fmin(a, b); }
}  // namespace functions

// The column cpu_flops: measured in cache with ops/function/vector_math.h on AVX2 for what it had by 2026-11: the
// cosine that counts as 1 FLOP takes as long as 54. Of the others, from erf on, estimated, not measured.
inline constexpr std::array<FunctionRow, 48> function_rows{{
    {.function = Function::add,
     .name = "add",
     .sign = "+",
     .written = Written::sum,
     .arity = 2,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .value = [](double a, double b, double) { return a + b; }},
    {.function = Function::subtract,
     .name = "subtract",
     .sign = "-",
     .written = Written::sum,
     .arity = 2,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .value = [](double a, double b, double) { return a - b; }},
    {.function = Function::multiply,
     .name = "multiply",
     .sign = "*",
     .written = Written::product,
     .arity = 2,
     .keeps_error = true,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .value = [](double a, double b, double) { return a * b; }},
    {.function = Function::divide,
     .name = "divide",
     .sign = "/",
     .written = Written::product,
     .arity = 2,
     .cpu_flops = 15,
     .keeps_error = true,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .value = [](double a, double b, double) { return a / b; }},
    {.function = Function::pow,
     .name = "pow",
     .sign = "**",
     .written = Written::power,
     .arity = 2,
     .arguments = "a, b",
     .cpu_flops = 180,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 4,
     .value = [](double a, double b, double) { return std::pow(a, b); },
     .says = "a to the power b, as C's pow: 1 for b = 0 and for a = 1, NaN for a < 0 and a b that is no whole number"},
    {.function = Function::negate,
     .name = "negate",
     .sign = "-",
     .written = Written::before,
     .keeps_error = true,
     .value = [](double x, double, double) { return -x; }},
    {.function = Function::exp,
     .name = "exp",
     .cpu_flops = 34,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .value = [](double x, double, double) { return std::exp(x); },
     .says = "e^x"},
    {.function = Function::log,
     .name = "log",
     .cpu_flops = 54,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .value = [](double x, double, double) { return std::log(x); },
     .says = "the natural logarithm"},
    {.function = Function::cos,
     .name = "cos",
     .cpu_flops = 54,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .value = [](double x, double, double) { return std::cos(x); },
     .says = "the cosine, x in radians, however large"},
    {.function = Function::sin,
     .name = "sin",
     .cpu_flops = 54,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .value = [](double x, double, double) { return std::sin(x); },
     .says = "the sine, x in radians, however large"},
    {.function = Function::gelu,
     .name = "gelu",
     .cpu_flops = 72,
     .rough = true,
     .ends_product = true,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 7,
     .value = [](double x, double, double) { return functions::gated(x, 0.5 * std::erfc(-x / std::sqrt(2.0))); },
     .says = "x * (1 + erf(x / sqrt(2))) / 2"},
    {.function = Function::gelu_tanh,
     .name = "gelu_tanh",
     .cpu_flops = 140,
     .rough = true,
     .ends_product = true,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 7,
     .value = [](double x, double, double) { return functions::bent(x); },
     .says = "x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) / 2"},
    {.function = Function::silu,
     .name = "silu",
     .cpu_flops = 65,
     .rough = true,
     .ends_product = true,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 4,
     .value = [](double x, double, double) { return x == -functions::infinity ? -0.0 : x / (1 + std::exp(-x)); },
     .says = "x * sigmoid(x)"},
    {.function = Function::relu,
     .name = "relu",
     .again_is_same = true,
     .keeps_error = true,
     .ends_product = true,
     .value = [](double x, double, double) { return x < 0 ? 0 : x; },
     .says = "the larger of x and 0"},
    {.function = Function::sigmoid,
     .name = "sigmoid",
     .cpu_flops = 72,
     .rough = true,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 4,
     .value = [](double x, double, double) { return functions::logistic(x); },
     .says = "1 / (1 + e^-x)"},
    {.function = Function::tanh,
     .name = "tanh",
     .cpu_flops = 65,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .value = [](double x, double, double) { return std::tanh(x); },
     .says = "the hyperbolic tangent"},
    {.function = Function::sqrt,
     .name = "sqrt",
     .cpu_flops = 15,
     .has_cost = true,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .value = [](double x, double, double) { return std::sqrt(x); },
     .says = "the square root"},
    {.function = Function::rsqrt,
     .name = "rsqrt",
     .cpu_flops = 25,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 2,
     .value = [](double x, double, double) { return 1 / std::sqrt(x); },
     .says = "1 / sqrt(x)"},
    {.function = Function::abs,
     .name = "abs",
     .again_is_same = true,
     .keeps_error = true,
     .value = [](double x, double, double) { return std::fabs(x); },
     .says = "x without its sign"},
    {.function = Function::erf,
     .name = "erf",
     .cpu_flops = 70,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .value = [](double x, double, double) { return std::erf(x); },
     .says = "the error function"},
    {.function = Function::softplus,
     .name = "softplus",
     .cpu_flops = 100,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 4,
     .value = [](double x, double, double) { return functions::largest(x, 0) + std::log1p(std::exp(-std::fabs(x))); },
     .says = "log(1 + e^x), at every x by this formula"},
    {.function = Function::tan,
     .name = "tan",
     .cpu_flops = 70,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 4,
     .value = [](double x, double, double) { return std::tan(x); },
     .says = "the tangent, x in radians, however large"},
    {.function = Function::atan,
     .name = "atan",
     .cpu_flops = 50,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .value = [](double x, double, double) { return std::atan(x); },
     .says = "the angle of this tangent, in radians"},
    {.function = Function::log1p,
     .name = "log1p",
     .cpu_flops = 75,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .value = [](double x, double, double) { return std::log1p(x); },
     .says = "log(1 + x), right for small x too"},
    {.function = Function::expm1,
     .name = "expm1",
     .cpu_flops = 46,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .value = [](double x, double, double) { return std::expm1(x); },
     .says = "e^x - 1, right for small x too"},
    {.function = Function::floor,
     .name = "floor",
     .cpu_flops = 20,
     .again_is_same = true,
     .value = [](double x, double, double) { return std::floor(x); },
     .says = "the largest whole number that is not above x"},
    {.function = Function::round,
     .name = "round",
     .cpu_flops = 14,
     .again_is_same = true,
     .value = [](double x, double, double) { return std::nearbyint(x); },
     .says = "the nearest whole number, of two the even one"},
    {.function = Function::sign,
     .name = "sign",
     .cpu_flops = 8,
     .again_is_same = true,
     .value = [](double x, double, double) { return std::isnan(x) || x == 0 ? x : std::copysign(1.0, x); },
     .says = "-1, 1, or of a zero itself"},
    {.function = Function::leaky_relu,
     .name = "leaky_relu",
     .cpu_flops = 6,
     .keeps_error = true,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .value = [](double x, double, double) { return x < 0 ? leaky_slope * x : x; },
     .says = "x, below 0 times 0.01 (PyTorch's default)"},
    {.function = Function::hard_swish,
     .name = "hard_swish",
     .cpu_flops = 25,
     .ulps = 2,
     .device_ulps = 2,
     .value = [](double x, double,
                 double) { return functions::gated(x, std::isnan(x) ? x : std::fmin(std::fmax(x + 3, 0), 6) / 6); },
     .says = "x * clamp(x + 3, 0, 6) / 6"},
    {.function = Function::mish,
     .name = "mish",
     .cpu_flops = 80,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 6,
     .value = [](double x, double, double) { return functions::gated(x, functions::mish_gate(x)); },
     .says = "x * tanh(softplus(x))"},
    {.function = Function::max,
     .name = "max",
     .arity = 2,
     .arguments = "a, b",
     .along = true,
     .value = [](double a, double b, double) { return functions::largest(a, b); },
     .says = "the larger one; NaN if either is"},
    {.function = Function::min,
     .name = "min",
     .arity = 2,
     .arguments = "a, b",
     .along = true,
     .value = [](double a, double b, double) { return functions::smallest(a, b); },
     .says = "the smaller one; NaN if either is"},
    {.function = Function::where,
     .name = "where",
     .arity = 3,
     .arguments = "condition, a, b",
     .value = [](double condition, double a, double b) { return condition != 0 ? a : b; },
     .says = "a where the condition is not 0, else b"},
    {.function = Function::clamp,
     .name = "clamp",
     .arity = 3,
     .arguments = "x, lo, hi",
     .cpu_flops = 8,
     .value = [](double x, double lo, double hi) { return functions::smallest(functions::largest(x, lo), hi); },
     .says = "min(max(x, lo), hi)"},
    {.function = Function::less,
     .name = "less",
     .sign = "<",
     .written = Written::comparison,
     .arity = 2,
     .value = [](double a, double b, double) { return a < b ? 1.0 : 0.0; }},
    {.function = Function::less_equal,
     .name = "less_equal",
     .sign = "<=",
     .written = Written::comparison,
     .arity = 2,
     .value = [](double a, double b, double) { return a <= b ? 1.0 : 0.0; }},
    {.function = Function::greater,
     .name = "greater",
     .sign = ">",
     .written = Written::comparison,
     .arity = 2,
     .value = [](double a, double b, double) { return a > b ? 1.0 : 0.0; }},
    {.function = Function::greater_equal,
     .name = "greater_equal",
     .sign = ">=",
     .written = Written::comparison,
     .arity = 2,
     .value = [](double a, double b, double) { return a >= b ? 1.0 : 0.0; }},
    {.function = Function::equal,
     .name = "equal",
     .sign = "==",
     .written = Written::comparison,
     .arity = 2,
     .value = [](double a, double b, double) { return a == b ? 1.0 : 0.0; }},
    {.function = Function::sum, .name = "sum", .written = Written::along, .arity = 0, .along = true, .says = "the sum"},
    {.function = Function::mean,
     .name = "mean",
     .written = Written::along,
     .arity = 0,
     .along = true,
     .says = "the sum over how many there are"},
    {.function = Function::softmax,
     .name = "softmax",
     .written = Written::along,
     .arity = 0,
     .along = true,
     .flops = 5,
     .reductions = 2,
     .says = "e^(x - max x) over its sum"},
    {.function = Function::rmsnorm,
     .name = "rmsnorm",
     .written = Written::along,
     .arity = 0,
     .along = true,
     .flops = 3,
     .says = "x / sqrt(mean x^2 + 1e-5)"},
    {.function = Function::layernorm,
     .name = "layernorm",
     .written = Written::along,
     .arity = 0,
     .along = true,
     .flops = 5,
     .reductions = 2,
     .says = "rmsnorm of x - mean x"},
    {.function = Function::load, .name = "load", .written = Written::nowhere, .arity = 0},
    {.function = Function::constant, .name = "constant", .written = Written::nowhere, .arity = 0},
    {.function = Function::store, .name = "store", .written = Written::nowhere},
}};

constexpr const FunctionRow& row(Function function) { return function_rows[static_cast<std::size_t>(function)]; }

// The table of docs/functions.md.
std::string functions_table();

// A function as a type: bodies are chosen by it (ops/function).
template <Function f> struct Of {};

// Whether expressions' elements are computed by it, one by one.
constexpr bool is_elementwise(const FunctionRow& r) { return r.arity > 0 && r.written != Written::nowhere; }

namespace functions {
constexpr bool in_order() {
  for (std::size_t i = 0; i < function_rows.size(); ++i)
    if (static_cast<std::size_t>(function_rows[i].function) != i) return false;
  return true;
}
static_assert(in_order(), "a row a function, in the order of the enumeration");
}  // namespace functions

// work(Of<f>{}) for the function that is meant, found by halving: on a device, too.
template <std::size_t begin = 0, std::size_t end = function_rows.size(), class Work>
constexpr decltype(auto) with_function(Function function, Work&& work) {
  constexpr std::size_t middle = begin + (end - begin) / 2;
  if constexpr (end - begin == 1)
    return work(Of<static_cast<Function>(begin)>{});
  else if (static_cast<std::size_t>(function) < middle)
    return with_function<begin, middle>(function, work);
  else
    return with_function<middle, end>(function, work);
}

}  // namespace ridge

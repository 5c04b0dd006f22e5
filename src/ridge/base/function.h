// Table of the functions in expressions. The parser, the FLOP counts, the kernel generators, the reference
// implementation, docs/functions.md and the tests all read it. A row holds, for instance for erf, the name, the number
// of arguments, the f64 reference and the error that kernels may have in units of the last place. To add a function see
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
  sum,  // the following run over dimensions, as max and min can too
  mean,
  softmax,
  rmsnorm,
  layernorm,
  load,  // the following are steps of generated kernels, not functions of the notation
  constant,
  store,
};

// Syntax of a function: call f(x), infix or prefix operator, f(x over D) only, or none.
enum class FunctionSyntax : std::uint8_t { call, comparison, sum, product, power, prefix, over_dims, none };

struct FunctionInfo {
  Function function;
  std::string_view name;  // name in the notation and of the device function (ops/function/device_math.h)
  std::string_view symbol = {};
  FunctionSyntax syntax = FunctionSyntax::call;
  int arity = 1;                      // number of arguments of the elementwise form; 0 if there is none
  std::string_view arguments = "x";   // arguments in the documentation
  bool takes_dims = false;            // true if f(x over D) is valid
  int flops = 1;                      // FLOPs per element of the result, or of the argument if it runs over dimensions
  int reductions = 1;                 // reductions over a row, if it runs over dimensions
  int cpu_flops = 2;                  // time on a CPU core, in FLOPs at the vector peak; 2 per instruction
  bool is_idempotent = false;         // f(f(x)) = f(x): repetitions can be dropped
  bool keeps_relative_error = false;  // does not increase its operands' relative error
  bool has_approximate_form = false;  // a faster device function, name_16, exists for 16-bit results
  bool can_be_epilogue = false;       // may be the activation of a matmul (tile/epilogue.h)
  bool has_cost = false;              // machine files may give its cost, as cost_exp
  double ulps = 0, device_ulps = 0;   // maximum error on CPU and device, units of the last place
  double (*reference)(double, double, double) = nullptr;  // reference in f64, also for infinities and NaN
  std::string_view description = {};                      // description in docs/functions.md
};

inline constexpr double leaky_relu_slope = 0.01f;  // slope of leaky_relu below 0, PyTorch's default rounded to f32

namespace functions {
inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }
// Returns x * gate, or -0 at -infinity, where the gate is 0 and x * gate would be NaN.
inline double multiply_by_gate(double x, double gate) { return x == -infinity ? -0.0 : x * gate; }
inline double gelu_tanh_value(double x) {
  return x == -infinity ? -0.0
                        : x / (1 + std::exp(-2 * std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
inline double mish_gate(double x) {  // tanh(log(1 + e^x))
  const double e = std::exp(-std::fabs(x)), numerator = x < 0 ? e * (e + 2) : 1 + 2 * e;
  return numerator / (numerator + (x < 0 ? 2 : 2 * e * e));
}
inline double max_or_nan(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b); }
inline double min_or_nan(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::fmin(a, b); }
}  // namespace functions

// `cpu_flops` up to abs is measured in cache with ops/function/vector_math.h on AVX2, 2026-11: a cosine, which counts
// as 1 FLOP, takes as long as 54. From erf on it is estimated.
inline constexpr std::array<FunctionInfo, 48> function_table{{
    {.function = Function::add,
     .name = "add",
     .symbol = "+",
     .syntax = FunctionSyntax::sum,
     .arity = 2,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .reference = [](double a, double b, double) { return a + b; }},
    {.function = Function::subtract,
     .name = "subtract",
     .symbol = "-",
     .syntax = FunctionSyntax::sum,
     .arity = 2,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .reference = [](double a, double b, double) { return a - b; }},
    {.function = Function::multiply,
     .name = "multiply",
     .symbol = "*",
     .syntax = FunctionSyntax::product,
     .arity = 2,
     .keeps_relative_error = true,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .reference = [](double a, double b, double) { return a * b; }},
    {.function = Function::divide,
     .name = "divide",
     .symbol = "/",
     .syntax = FunctionSyntax::product,
     .arity = 2,
     .cpu_flops = 15,
     .keeps_relative_error = true,
     .has_cost = true,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .reference = [](double a, double b, double) { return a / b; }},
    {.function = Function::pow,
     .name = "pow",
     .symbol = "**",
     .syntax = FunctionSyntax::power,
     .arity = 2,
     .arguments = "a, b",
     .cpu_flops = 180,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 4,
     .reference = [](double a, double b, double) { return std::pow(a, b); },
     .description = "a to the power b, as C's pow: 1 if b = 0 or a = 1, NaN if a < 0 and b is not a whole number"},
    {.function = Function::negate,
     .name = "negate",
     .symbol = "-",
     .syntax = FunctionSyntax::prefix,
     .keeps_relative_error = true,
     .reference = [](double x, double, double) { return -x; }},
    {.function = Function::exp,
     .name = "exp",
     .cpu_flops = 34,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .reference = [](double x, double, double) { return std::exp(x); },
     .description = "e^x"},
    {.function = Function::log,
     .name = "log",
     .cpu_flops = 54,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .reference = [](double x, double, double) { return std::log(x); },
     .description = "the natural logarithm"},
    {.function = Function::cos,
     .name = "cos",
     .cpu_flops = 54,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .reference = [](double x, double, double) { return std::cos(x); },
     .description = "the cosine, x in radians, however large"},
    {.function = Function::sin,
     .name = "sin",
     .cpu_flops = 54,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .reference = [](double x, double, double) { return std::sin(x); },
     .description = "the sine, x in radians, however large"},
    {.function = Function::gelu,
     .name = "gelu",
     .cpu_flops = 72,
     .has_approximate_form = true,
     .can_be_epilogue = true,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 7,
     .reference = [](double x, double,
                     double) { return functions::multiply_by_gate(x, 0.5 * std::erfc(-x / std::sqrt(2.0))); },
     .description = "x * (1 + erf(x / sqrt(2))) / 2"},
    {.function = Function::gelu_tanh,
     .name = "gelu_tanh",
     .cpu_flops = 140,
     .has_approximate_form = true,
     .can_be_epilogue = true,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 7,
     .reference = [](double x, double, double) { return functions::gelu_tanh_value(x); },
     .description = "x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) / 2"},
    {.function = Function::silu,
     .name = "silu",
     .cpu_flops = 65,
     .has_approximate_form = true,
     .can_be_epilogue = true,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 4,
     .reference = [](double x, double, double) { return x == -functions::infinity ? -0.0 : x / (1 + std::exp(-x)); },
     .description = "x * sigmoid(x)"},
    {.function = Function::relu,
     .name = "relu",
     .is_idempotent = true,
     .keeps_relative_error = true,
     .can_be_epilogue = true,
     .reference = [](double x, double, double) { return x < 0 ? 0 : x; },
     .description = "the larger of x and 0"},
    {.function = Function::sigmoid,
     .name = "sigmoid",
     .cpu_flops = 72,
     .has_approximate_form = true,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 4,
     .reference = [](double x, double, double) { return functions::logistic(x); },
     .description = "1 / (1 + e^-x)"},
    {.function = Function::tanh,
     .name = "tanh",
     .cpu_flops = 65,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .reference = [](double x, double, double) { return std::tanh(x); },
     .description = "the hyperbolic tangent"},
    {.function = Function::sqrt,
     .name = "sqrt",
     .cpu_flops = 15,
     .has_cost = true,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .reference = [](double x, double, double) { return std::sqrt(x); },
     .description = "the square root"},
    {.function = Function::rsqrt,
     .name = "rsqrt",
     .cpu_flops = 25,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 2,
     .reference = [](double x, double, double) { return 1 / std::sqrt(x); },
     .description = "1 / sqrt(x)"},
    {.function = Function::abs,
     .name = "abs",
     .is_idempotent = true,
     .keeps_relative_error = true,
     .reference = [](double x, double, double) { return std::fabs(x); },
     .description = "the absolute value of x"},
    {.function = Function::erf,
     .name = "erf",
     .cpu_flops = 70,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .reference = [](double x, double, double) { return std::erf(x); },
     .description = "the error function"},
    {.function = Function::softplus,
     .name = "softplus",
     .cpu_flops = 100,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 4,
     .reference = [](double x, double,
                     double) { return functions::max_or_nan(x, 0) + std::log1p(std::exp(-std::fabs(x))); },
     .description = "log(1 + e^x) for every x, without a threshold"},
    {.function = Function::tan,
     .name = "tan",
     .cpu_flops = 70,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 4,
     .reference = [](double x, double, double) { return std::tan(x); },
     .description = "the tangent, x in radians, however large"},
    {.function = Function::atan,
     .name = "atan",
     .cpu_flops = 50,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .reference = [](double x, double, double) { return std::atan(x); },
     .description = "the arc tangent, in radians"},
    {.function = Function::log1p,
     .name = "log1p",
     .cpu_flops = 75,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .reference = [](double x, double, double) { return std::log1p(x); },
     .description = "log(1 + x), accurate for small x too"},
    {.function = Function::expm1,
     .name = "expm1",
     .cpu_flops = 46,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .reference = [](double x, double, double) { return std::expm1(x); },
     .description = "e^x - 1, accurate for small x too"},
    {.function = Function::floor,
     .name = "floor",
     .cpu_flops = 20,
     .is_idempotent = true,
     .reference = [](double x, double, double) { return std::floor(x); },
     .description = "the largest whole number that is not above x"},
    {.function = Function::round,
     .name = "round",
     .cpu_flops = 14,
     .is_idempotent = true,
     .reference = [](double x, double, double) { return std::nearbyint(x); },
     .description = "the nearest whole number, ties to even"},
    {.function = Function::sign,
     .name = "sign",
     .cpu_flops = 8,
     .is_idempotent = true,
     .reference = [](double x, double, double) { return std::isnan(x) || x == 0 ? x : std::copysign(1.0, x); },
     .description = "-1 or 1; a zero stays unchanged"},
    {.function = Function::leaky_relu,
     .name = "leaky_relu",
     .cpu_flops = 6,
     .keeps_relative_error = true,
     .ulps = 0.5,
     .device_ulps = 0.5,
     .reference = [](double x, double, double) { return x < 0 ? leaky_relu_slope * x : x; },
     .description = "x, or 0.01 x below 0 (PyTorch's default)"},
    {.function = Function::hard_swish,
     .name = "hard_swish",
     .cpu_flops = 25,
     .has_cost = true,
     .ulps = 2,
     .device_ulps = 2,
     .reference =
         [](double x, double, double) {
           return functions::multiply_by_gate(x, std::isnan(x) ? x : std::fmin(std::fmax(x + 3, 0), 6) / 6);
         },
     .description = "x * clamp(x + 3, 0, 6) / 6"},
    {.function = Function::mish,
     .name = "mish",
     .cpu_flops = 80,
     .has_cost = true,
     .ulps = 4,
     .device_ulps = 6,
     .reference = [](double x, double, double) { return functions::multiply_by_gate(x, functions::mish_gate(x)); },
     .description = "x * tanh(softplus(x))"},
    {.function = Function::max,
     .name = "max",
     .arity = 2,
     .arguments = "a, b",
     .takes_dims = true,
     .reference = [](double a, double b, double) { return functions::max_or_nan(a, b); },
     .description = "the larger one; NaN if either is NaN"},
    {.function = Function::min,
     .name = "min",
     .arity = 2,
     .arguments = "a, b",
     .takes_dims = true,
     .reference = [](double a, double b, double) { return functions::min_or_nan(a, b); },
     .description = "the smaller one; NaN if either is NaN"},
    {.function = Function::where,
     .name = "where",
     .arity = 3,
     .arguments = "condition, a, b",
     .reference = [](double condition, double a, double b) { return condition != 0 ? a : b; },
     .description = "a where the condition is not 0, else b"},
    {.function = Function::clamp,
     .name = "clamp",
     .arity = 3,
     .arguments = "x, lo, hi",
     .cpu_flops = 8,
     .reference = [](double x, double lo,
                     double hi) { return functions::min_or_nan(functions::max_or_nan(x, lo), hi); },
     .description = "min(max(x, lo), hi)"},
    {.function = Function::less,
     .name = "less",
     .symbol = "<",
     .syntax = FunctionSyntax::comparison,
     .arity = 2,
     .reference = [](double a, double b, double) { return a < b ? 1.0 : 0.0; }},
    {.function = Function::less_equal,
     .name = "less_equal",
     .symbol = "<=",
     .syntax = FunctionSyntax::comparison,
     .arity = 2,
     .reference = [](double a, double b, double) { return a <= b ? 1.0 : 0.0; }},
    {.function = Function::greater,
     .name = "greater",
     .symbol = ">",
     .syntax = FunctionSyntax::comparison,
     .arity = 2,
     .reference = [](double a, double b, double) { return a > b ? 1.0 : 0.0; }},
    {.function = Function::greater_equal,
     .name = "greater_equal",
     .symbol = ">=",
     .syntax = FunctionSyntax::comparison,
     .arity = 2,
     .reference = [](double a, double b, double) { return a >= b ? 1.0 : 0.0; }},
    {.function = Function::equal,
     .name = "equal",
     .symbol = "==",
     .syntax = FunctionSyntax::comparison,
     .arity = 2,
     .reference = [](double a, double b, double) { return a == b ? 1.0 : 0.0; }},
    {.function = Function::sum,
     .name = "sum",
     .syntax = FunctionSyntax::over_dims,
     .arity = 0,
     .takes_dims = true,
     .description = "the sum"},
    {.function = Function::mean,
     .name = "mean",
     .syntax = FunctionSyntax::over_dims,
     .arity = 0,
     .takes_dims = true,
     .description = "the sum divided by the number of elements"},
    {.function = Function::softmax,
     .name = "softmax",
     .syntax = FunctionSyntax::over_dims,
     .arity = 0,
     .takes_dims = true,
     .flops = 5,
     .reductions = 2,
     .description = "e^(x - max x) over its sum"},
    {.function = Function::rmsnorm,
     .name = "rmsnorm",
     .syntax = FunctionSyntax::over_dims,
     .arity = 0,
     .takes_dims = true,
     .flops = 3,
     .description = "x / sqrt(mean x^2 + 1e-5)"},
    {.function = Function::layernorm,
     .name = "layernorm",
     .syntax = FunctionSyntax::over_dims,
     .arity = 0,
     .takes_dims = true,
     .flops = 5,
     .reductions = 2,
     .description = "rmsnorm of x - mean x"},
    {.function = Function::load, .name = "load", .syntax = FunctionSyntax::none, .arity = 0},
    {.function = Function::constant, .name = "constant", .syntax = FunctionSyntax::none, .arity = 0},
    {.function = Function::store, .name = "store", .syntax = FunctionSyntax::none},
}};

constexpr const FunctionInfo& function_info(Function function) {
  return function_table[static_cast<std::size_t>(function)];
}

// Returns the Markdown table of docs/functions.md.
std::string format_function_table();

// Function as a type, to select overloads (ops/function).
template <Function f> struct FunctionTag {};

// True if the function computes each element independently.
constexpr bool is_elementwise(const FunctionInfo& r) { return r.arity > 0 && r.syntax != FunctionSyntax::none; }

namespace functions {
constexpr bool is_in_enum_order() {
  for (std::size_t i = 0; i < function_table.size(); ++i)
    if (static_cast<std::size_t>(function_table[i].function) != i) return false;
  return true;
}
static_assert(is_in_enum_order(), "one row per function, in the order of the enumeration");
}  // namespace functions

// Calls work(`FunctionTag`<f>{}) for a function known at run time, by binary search; also on the device.
template <std::size_t begin = 0, std::size_t end = function_table.size(), class Work>
constexpr decltype(auto) dispatch_function(Function function, Work&& work) {
  constexpr std::size_t middle = begin + (end - begin) / 2;
  if constexpr (end - begin == 1)
    return work(FunctionTag<static_cast<Function>(begin)>{});
  else if (static_cast<std::size_t>(function) < middle)
    return dispatch_function<begin, middle>(function, work);
  else
    return dispatch_function<middle, end>(function, work);
}

}  // namespace ridge

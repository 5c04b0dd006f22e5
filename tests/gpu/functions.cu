// Checks the functions of ops/function/device_math.h against f64 for every 13th bit pattern of f32, 330 million
// numbers. Errors are in ulp of the exact value, or of `min_magnitude` if the value is smaller: 2^-120, since e^-|x|
// may be denormal below, or 2^-24 for f16. An ulp is 2^-24 to 2^-23 of its value, so 2^-18 of a value is at most 64 ulp
// and 2^-14 at most 1024.
#include <cmath>
#include <cstring>

#include "ridge/device/device.h"
#include "ridge/ops/function/device_math.h"
#include "support.h"

namespace ridge::gpu {
namespace {

struct WorstError {
  unsigned long long error;  // bits of the largest error, a double; they have the same order as the error
  float argument;
};

__device__ double logistic(double x) { return 1 / (1 + ::exp(-x)); }
__device__ double normal_cdf(double x) { return 0.5 * ::erfc(-x * 0.70710678118654752); }
__device__ double gelu_tanh_reference(double x) {
  return x * logistic(1.5957691216057308 * (x + 0.044715 * x * x * x));
}

#define FUNCTION(name, got, exact)                                              \
  struct name {                                                                 \
    static __device__ float evaluate(float x) { return ops::device_math::got; } \
    static __device__ double reference(double x) { return exact; }              \
  };
FUNCTION(Gelu, gelu(x), x* normal_cdf(x))
FUNCTION(Gelu16, gelu_16(x), x* normal_cdf(x))
FUNCTION(GeluTanh, gelu_tanh(x), gelu_tanh_reference(x))
FUNCTION(GeluTanh16, gelu_tanh_16(x), gelu_tanh_reference(x))
FUNCTION(Silu, silu(x), x* logistic(x))
FUNCTION(Silu16, silu_16(x), x* logistic(x))
FUNCTION(Sigmoid, sigmoid(x), logistic(x))
FUNCTION(Sigmoid16, sigmoid_16(x), logistic(x))
FUNCTION(Sine, sin(x), ::sin(x))
FUNCTION(Cosine, cos(x), ::cos(x))
FUNCTION(Exponential, exp(x), ::exp(x))
FUNCTION(Erf, erf(x), ::erf(x))
FUNCTION(Softplus, softplus(x), (x > 0 ? x : 0) + ::log1p(::exp(-::fabs(x))))
FUNCTION(Tangent, tan(x), ::tan(x))
FUNCTION(Angle, atan(x), ::atan(x))
FUNCTION(Log1p, log1p(x), ::log1p(x))
FUNCTION(Expm1, expm1(x), ::expm1(x))
FUNCTION(Floor, floor(x), ::floor(x))
FUNCTION(Round, round(x), ::rint(x))
FUNCTION(HardSwish, hard_swish(x), x <= -3 ? -0.0 : x * (::fmin(x + 3, 6.0) / 6))
FUNCTION(Mish, mish(x), x < -800 ? -0.0 : x * ::tanh(::fmax(x, 0.0) + ::log1p(::exp(-::fabs(x)))))
#undef FUNCTION

template <class F> __global__ void find_max_error(WorstError* worst, double min_magnitude) {
  constexpr unsigned step = 13;
  const unsigned stride = gridDim.x * blockDim.x;
  double max_error = 0;
  float at = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < 0xffffffffu / step; i += stride) {
    const float x = __uint_as_float(i * step), got = F::evaluate(x);
    const double expected = F::reference(x);
    const bool large = !(fabs(expected) < INFINITY) || isinf(static_cast<float>(expected));
    const bool same = isnan(expected) ? isnan(got) : got == static_cast<float>(expected);
    const double unit = ldexp(1.0, ilogb(fmax(fabs(expected), min_magnitude)) - 23);
    const double of_large = same ? 0 : 1e300;
    const double error = large ? of_large : fabs(got - expected) / unit;
    if (!(error <= max_error)) {
      max_error = isnan(error) ? 1e300 : error;
      at = x;
    }
  }
  const unsigned long long bits = __double_as_longlong(max_error);
  if (atomicMax(&worst->error, bits) < bits) worst->argument = at;
}

struct FunctionCheck {
  const char* name;
  void (*find_max_error)(WorstError*, double min_magnitude);
  double allowed;  // largest allowed error in ulp
  double min_magnitude = 0x1p-120;
};

}  // namespace

int check_functions() {
  constexpr double f16 = 0x1p-24;
  const FunctionCheck all[] = {{"gelu", find_max_error<Gelu>, 7},
                               {"gelu_16", find_max_error<Gelu16>, 64, f16},
                               {"gelu_16", find_max_error<Gelu16>, 1024},
                               {"gelu_tanh", find_max_error<GeluTanh>, 7},
                               {"gelu_tanh_16", find_max_error<GeluTanh16>, 64, f16},
                               {"gelu_tanh_16", find_max_error<GeluTanh16>, 1024},
                               {"silu", find_max_error<Silu>, 4},
                               {"silu_16", find_max_error<Silu16>, 64, f16},
                               {"silu_16", find_max_error<Silu16>, 1024},
                               {"sigmoid", find_max_error<Sigmoid>, 4},
                               {"sigmoid_16", find_max_error<Sigmoid16>, 64},
                               {"sin", find_max_error<Sine>, 2},
                               {"cos", find_max_error<Cosine>, 2},
                               {"exp", find_max_error<Exponential>, 2},
                               {"erf", find_max_error<Erf>, 2},
                               {"softplus", find_max_error<Softplus>, 4},
                               {"tan", find_max_error<Tangent>, 4},
                               {"atan", find_max_error<Angle>, 2},
                               {"log1p", find_max_error<Log1p>, 2},
                               {"expm1", find_max_error<Expm1>, 2},
                               {"floor", find_max_error<Floor>, 0},
                               {"round", find_max_error<Round>, 0},
                               {"hard_swish", find_max_error<HardSwish>, 2},
                               {"mish", find_max_error<Mish>, 6}};
  const DeviceMemory result(sizeof(WorstError));
  int wrong = 0;
  for (const FunctionCheck& c : all) {
    WorstError worst{};
    check_cuda(cudaMemset(result.data(), 0, sizeof worst), "clearing the result");
    c.find_max_error<<<8 * device::multiprocessor_count(), 256>>>(reinterpret_cast<WorstError*>(result.data()),
                                                                  c.min_magnitude);
    check_cuda(cudaMemcpy(&worst, result.data(), sizeof worst, cudaMemcpyDeviceToHost), "reading the result");
    double error;
    std::memcpy(&error, &worst.error, sizeof error);
    wrong += !(error <= c.allowed);
    std::printf("%s %s from %g on: %.2f ulp at %.9g, at most %g\n", error <= c.allowed ? "ok" : "WRONG", c.name,
                c.min_magnitude, error, worst.argument, c.allowed);
  }
  return wrong > 0;
}

}  // namespace ridge::gpu

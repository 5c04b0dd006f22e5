// Checks the functions of a chain (ops/function/device_math.h) against f64 for every 13th bit pattern of f32, 330
// million numbers. The allowed errors are in ulp of the exact value. Below `least` the ulp is constant: at 2^-120
// because e^-|x| may be denormal there, at 2^-24 because f16 has no smaller values. An ulp is 2^-24 to 2^-23 of its
// value, so 2^-18 of a value is at most 64 ulp and 2^-14 at most 1024.
#include <cmath>
#include <cstring>

#include "ridge/device/device.h"
#include "ridge/ops/function/device_math.h"
#include "support.h"

namespace ridge::gpu {
namespace {

struct Worst {
  unsigned long long error;  // bits of a non-negative double, which have the same order as the value
  float at;
};

__device__ double logistic(double x) { return 1 / (1 + ::exp(-x)); }
__device__ double distribution(double x) { return 0.5 * ::erfc(-x * 0.70710678118654752); }
__device__ double bent(double x) { return x * logistic(1.5957691216057308 * (x + 0.044715 * x * x * x)); }

#define FUNCTION(name, got, exact)                                        \
  struct name {                                                           \
    static __device__ float of(float x) { return ops::device_math::got; } \
    static __device__ double want(double x) { return exact; }             \
  };
FUNCTION(Gelu, gelu(x), x* distribution(x))
FUNCTION(Gelu16, gelu_16(x), x* distribution(x))
FUNCTION(GeluTanh, gelu_tanh(x), bent(x))
FUNCTION(GeluTanh16, gelu_tanh_16(x), bent(x))
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

template <class F> __global__ void judge(Worst* worst, double least) {
  constexpr unsigned step = 13;
  const unsigned stride = gridDim.x * blockDim.x;
  double most = 0;
  float at = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < 0xffffffffu / step; i += stride) {
    const float x = __uint_as_float(i * step), got = F::of(x);
    const double want = F::want(x);
    const bool large = !(fabs(want) < INFINITY) || isinf(static_cast<float>(want));
    const bool same = isnan(want) ? isnan(got) : got == static_cast<float>(want);
    const double unit = ldexp(1.0, ilogb(fmax(fabs(want), least)) - 23);
    const double of_large = same ? 0 : 1e300;
    const double error = large ? of_large : fabs(got - want) / unit;
    if (!(error <= most)) {
      most = isnan(error) ? 1e300 : error;
      at = x;
    }
  }
  const unsigned long long bits = __double_as_longlong(most);
  if (atomicMax(&worst->error, bits) < bits) worst->at = at;
}

struct Check {
  const char* name;
  void (*judge)(Worst*, double least);
  double allowed;  // ulp
  double least = 0x1p-120;
};

}  // namespace

int check_functions() {
  constexpr double f16 = 0x1p-24;
  const Check all[] = {{"gelu", judge<Gelu>, 7},
                       {"gelu_16", judge<Gelu16>, 64, f16},
                       {"gelu_16", judge<Gelu16>, 1024},
                       {"gelu_tanh", judge<GeluTanh>, 7},
                       {"gelu_tanh_16", judge<GeluTanh16>, 64, f16},
                       {"gelu_tanh_16", judge<GeluTanh16>, 1024},
                       {"silu", judge<Silu>, 4},
                       {"silu_16", judge<Silu16>, 64, f16},
                       {"silu_16", judge<Silu16>, 1024},
                       {"sigmoid", judge<Sigmoid>, 4},
                       {"sigmoid_16", judge<Sigmoid16>, 64},
                       {"sin", judge<Sine>, 2},
                       {"cos", judge<Cosine>, 2},
                       {"exp", judge<Exponential>, 2},
                       {"erf", judge<Erf>, 2},
                       {"softplus", judge<Softplus>, 4},
                       {"tan", judge<Tangent>, 4},
                       {"atan", judge<Angle>, 2},
                       {"log1p", judge<Log1p>, 2},
                       {"expm1", judge<Expm1>, 2},
                       {"floor", judge<Floor>, 0},
                       {"round", judge<Round>, 0},
                       {"hard_swish", judge<HardSwish>, 2},
                       {"mish", judge<Mish>, 6}};
  const Memory place(sizeof(Worst));
  int wrong = 0;
  for (const Check& c : all) {
    Worst worst{};
    must(cudaMemset(place.data(), 0, sizeof worst), "clearing the verdict");
    c.judge<<<8 * device::multiprocessor_count(), 256>>>(reinterpret_cast<Worst*>(place.data()), c.least);
    must(cudaMemcpy(&worst, place.data(), sizeof worst, cudaMemcpyDeviceToHost), "reading the verdict");
    double error;
    std::memcpy(&error, &worst.error, sizeof error);
    wrong += !(error <= c.allowed);
    std::printf("%s %s from %g on: %.2f ulp at %.9g, at most %g\n", error <= c.allowed ? "ok" : "WRONG", c.name,
                c.least, error, worst.at, c.allowed);
  }
  return wrong > 0;
}

}  // namespace ridge::gpu

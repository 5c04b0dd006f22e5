// The gated layer on a device: `gated [CASES [SEED]]` compares random calls with f64, including every kernel
// configuration. Every fourth case tests the gate's gradient, every fourth the full backward (backward.cu).
#include "gated.h"

#include "ridge/device/device.h"
#include "ridge/ops/gated/config.h"
#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/gated/gradient.h"
#include "ridge/run/device_machine.h"

namespace ridge::gpu {
namespace {

namespace cuda = ops::cuda;

struct ReferenceCall {                                               // operands of the reference implementation
  std::int64_t m, n, k, x_line, weight_n, weight_k, y_line, h_line;  // weight_n and weight_k are strides of the weights
  ElementFormat in, out, bias;
  EpilogueActivation activation;
  const void *x, *up, *gate, *bu, *bg, *y, *h;
  std::int64_t step;  // every step-th element is checked
};
__global__ void check_forward(ReferenceCall c, ErrorCounts* found) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const double eps = relative_ulp(c.out), eps_h = relative_ulp(c.in);
  for (std::int64_t i = (blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x) * c.step; i < c.m * c.n;
       i += step * c.step) {
    const std::int64_t r = i / c.n, f = i % c.n;
    double u = 0, g = 0, size = 0;
    for (std::int64_t k = 0; k < c.k; ++k) {
      const double x = read_element(c.in, c.x, r * c.x_line + k),
                   a = x * read_element(c.in, c.up, f * c.weight_n + k * c.weight_k),
                   b = x * read_element(c.in, c.gate, f * c.weight_n + k * c.weight_k);
      u += a;
      g += b;
      size += fabs(a) + fabs(b);
    }
    if (c.bu) u += read_element(c.bias, c.bu, f);
    if (c.bg) g += read_element(c.bias, c.bg, f);
    const double sums = 3e-7 * size + 1e-7;  // error of f32 sums in the tensor cores
    const auto off = [&](double found, double expected, double allowed) {
      if (isnan(expected) || isnan(found)) return isnan(expected) == isnan(found) ? 0.0 : 1e9;
      if (isinf(expected) || isinf(found))
        return expected == found || fabs(expected) > 3e4 || fabs(found) > 3e4 ? 0.0 : 1e9;
      return fabs(found - expected) / allowed;
    };
    const double gate = apply_activation(c.activation, g), y = u * gate;
    const double fine = isfinite(g) ? 1.8e-4 * (1 + g * g / 2) * fabs(y) + 1e-6 * fabs(u) : 0;
    double worst = 0;
    if (c.y)
      worst = off(read_element(c.out, c.y, r * c.y_line + f), y,
                  0.51 * eps * fabs(y) + fine + sums * (fabs(u) * 1.2 + fabs(gate)) + 6e-8);
    if (c.h) {
      worst = fmax(worst, off(read_element(c.in, c.h, r * c.h_line + f), u, 0.51 * eps_h * fabs(u) + sums));
      worst = fmax(worst, off(read_element(c.in, c.h, r * c.h_line + c.n + f), g, 0.51 * eps_h * fabs(g) + sums));
    }
    if (!(worst <= 1)) {
      atomicAdd(&found->wrong, 1u);
      atomicMin(&found->first, static_cast<unsigned long long>(i));
    }
    atomicMax(&found->worst, __float_as_uint(isnan(worst) ? INFINITY : static_cast<float>(worst)));
  }
}

// Each thread checks one column. `h` is a copy from before the call, since dh may overwrite h.
__global__ void check_gradient(ops::cuda::GateGradientCall c, ElementFormat t, const void* h, ErrorCounts* found) {
  const std::int64_t f = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (f >= c.n) return;
  const auto check_value = [&](double is, double expected, double allowed) {
    const double worst = fabs(is - expected) / (0.51 * relative_ulp(t) * fabs(expected) + allowed + 6e-8);
    if (!(worst <= 1)) {
      atomicAdd(&found->wrong, 1u);
      atomicMin(&found->first, static_cast<unsigned long long>(f));
    }
    atomicMax(&found->worst, __float_as_uint(isnan(worst) ? INFINITY : static_cast<float>(worst)));
  };
  double sum_u = 0, sum_g = 0, off_u = 0, off_g = 0;
  for (std::int64_t r = 0; r < c.m; ++r) {
    const double dy = read_element(t, c.dy, r * c.dy_row_stride + f), u = read_element(t, h, r * c.h_row_stride + f),
                 g = read_element(t, h, r * c.h_row_stride + c.n + f);
    const double du = dy * apply_activation(c.activation, g), dg = dy * u * activation_slope(c.activation, g),
                 fine = 2e-4 * (1 + g * g / 2);
    const double bell = 0.4 * fabs(g) * exp(-g * g / 2);
    const double fine_u = fine * fabs(du) + 2e-6 * fabs(dy),
                 fine_g = fine * (fabs(dg) + fabs(dy * u) * bell) + 2e-6 * fabs(dy * u);
    check_value(read_element(t, c.dh, r * c.dh_row_stride + f), du, fine_u);
    check_value(read_element(t, c.dh, r * c.dh_row_stride + c.n + f), dg, fine_g);
    sum_u += du;
    sum_g += dg;
    off_u += fine_u + 1e-6 * fabs(du);
    off_g += fine_g + 1e-6 * fabs(dg);
  }
  if (c.dbu) check_value(read_element(t, c.dbu, f), sum_u, off_u);
  if (c.dbg) check_value(read_element(t, c.dbg, f), sum_g, off_g);
}

ReferenceCall make_reference_call(const cuda::GatedCall& c) {
  return {c.size.m,
          c.size.n,
          c.size.k,
          c.x_row_stride,
          c.weights == tile::Major::k ? c.weight_line_stride : 1,
          c.weights == tile::Major::k ? 1 : c.weight_line_stride,
          c.y_row_stride,
          c.h_row_stride,
          element_format(c.dtype),
          element_format(c.out),
          element_format(c.bias),
          c.activation,
          c.x,
          c.up,
          c.gate,
          c.bu,
          c.bg,
          c.y,
          c.h,
          1};
}

struct DeviceBuffers {
  DeviceMemory x{8 << 20}, up{8 << 20}, gate{8 << 20}, bu{1 << 16}, bg{1 << 16}, y{16 << 20}, h{16 << 20},
      again{16 << 20}, workspace{64 << 20};
  ErrorCounts* found = nullptr;
  unsigned* touched = nullptr;
  DeviceBuffers() {
    check_cuda(cudaMallocManaged(&found, sizeof *found), "memory");
    check_cuda(cudaMallocManaged(&touched, 4), "memory");
  }
};

bool check_one_forward(Random& r, DeviceBuffers& p, int number) {
  cuda::GatedCall c;
  const auto size = [&](int most) {
    if (r.one_in(4)) return r.below(12) + 1;
    if (r.one_in(3)) return (r.below(most / 64) + 1) * 64;
    return r.below(most) + 1;
  };
  c.size.m = size(700);
  c.size.n = size(700);
  c.size.k = r.one_in(20) ? 0 : size(900);
  const bool even = r.below(3) != 0;  // most calls are aligned for TMA
  if (even) {
    c.size.n = (c.size.n + 7) / 8 * 8;
    c.size.k = (c.size.k + 7) / 8 * 8;
  }
  c.dtype = r.pick({DType::bf16, DType::bf16, DType::f16, DType::f16, DType::f32});
  if (!r.one_in(8) && c.dtype == DType::f32) c.dtype = DType::bf16;
  c.out = r.one_in(4) ? r.pick({DType::bf16, DType::f16, DType::f32}) : c.dtype;
  c.bias = r.one_in(4) ? r.pick({DType::bf16, DType::f16, DType::f32}) : c.dtype;
  c.activation = r.pick({EpilogueActivation::none, EpilogueActivation::relu, EpilogueActivation::gelu,
                         EpilogueActivation::gelu, EpilogueActivation::gelu_tanh, EpilogueActivation::silu});
  const int pad = even ? 8 * r.below(3) : r.below(5);
  c.weights = r.pick({tile::Major::k, tile::Major::mn});
  const bool along_k = c.weights == tile::Major::k;
  const std::int64_t weights = along_k ? c.size.n : c.size.k;
  c.x_row_stride = c.size.k + pad;
  c.weight_line_stride = (along_k ? c.size.k : c.size.n) + (even ? 8 * r.below(2) : r.below(3));
  c.y_row_stride = c.size.n + pad;
  c.h_row_stride = 2 * c.size.n + pad;
  const std::int64_t in = dtype_bits(c.dtype) / 8, out = dtype_bits(c.out) / 8, shift = even ? 0 : r.below(3);
  c.x = p.x.data() + shift * in;
  c.up = p.up.data() + shift * in;
  c.gate = p.gate.data();
  const std::size_t y_begin = 4096 + static_cast<std::size_t>((even ? 0 : r.below(9)) * out),
                    h_begin = 4096 + static_cast<std::size_t>((even ? 0 : r.below(2)) * in);
  c.y = p.y.data() + y_begin;
  if (r.one_in(3)) c.h = p.h.data() + h_begin;
  if (c.h && r.one_in(3)) c.y = nullptr;
  if (!r.one_in(4)) c.bu = p.bu.data();
  if (!r.one_in(4)) c.bg = p.bg.data() + (even ? 0 : r.below(3)) * (dtype_bits(c.bias) / 8);
  const float scale = 1.5F / std::sqrt(static_cast<float>(std::max<std::int64_t>(c.size.k, 1)));
  fill_random<<<256, 256>>>(element_format(c.dtype), const_cast<void*>(c.x), c.size.m * c.x_row_stride, 7u * number + 1,
                            1);
  fill_random<<<256, 256>>>(element_format(c.dtype), const_cast<void*>(c.up), weights * c.weight_line_stride,
                            7u * number + 2, scale);
  fill_random<<<256, 256>>>(element_format(c.dtype), const_cast<void*>(c.gate), weights * c.weight_line_stride,
                            7u * number + 3, r.one_in(4) ? 4 * scale : scale);
  fill_random<<<8, 256>>>(element_format(c.bias), p.bu.data(), 1000, 7u * number + 4, 1);
  fill_random<<<8, 256>>>(element_format(c.bias), p.bg.data(), 1000, 7u * number + 5, 1);
  const char* odd = "";
  if (c.size.k > 0 && r.one_in(6)) {
    odd = "nan";
    set_element<<<1, 1>>>(element_format(c.dtype), const_cast<void*>(c.x),
                          r.below(static_cast<int>(c.size.m)) * c.x_row_stride, NAN);
  }
  if (c.bg && r.one_in(8)) {
    odd = "inf";
    set_element<<<1, 1>>>(element_format(c.bias), const_cast<void*>(c.bg), r.below(static_cast<int>(c.size.n)),
                          r.one_in(2) ? INFINITY : -INFINITY);
  }
  cudaMemset(p.y.data(), 0x5a, p.y.size());
  cudaMemset(p.h.data(), 0x5a, p.h.size());
  if (const auto why = cuda::unsupported_reason(c)) {
    std::printf("refused: %s\n", why.text().c_str());
    return false;
  }
  const std::size_t room = r.one_in(10) ? 0 : p.workspace.size();
  cuda::GatedPlan plan = cuda::choose_plan(c, room, *current_device_numbers());
  if (!r.one_in(3)) {
    const int config = r.below(static_cast<int>(ops::sm90_gated_kernel_configs.size()));
    if (const auto other =
            cuda::make_plan(c, room, *current_device_numbers(), config, r.one_in(2) ? 1 : r.below(5) + 1))
      plan = *other;
  }
  plan.raster_rows = r.pick({1, 4, 8, 16});
  const device::DeviceWorkspace workspace{p.workspace.data(), room, false};
  check_cuda(cudaDeviceSynchronize(), "filling the operands");
  *p.found = {0, 0, ~0ull};
  *p.touched = 0;
  std::string failure;
  for (int again = 0; again < 2; ++again) {
    if (const Status launched = cuda::launch(c, plan, workspace, nullptr); !launched)
      failure = launched.error().message;
    if (again == 0) cudaMemcpyAsync(p.again.data(), p.y.data(), p.y.size(), cudaMemcpyDeviceToDevice);
  }
  check_forward<<<512, 256>>>(make_reference_call(c), p.found);
  count_overwritten_bytes<<<256, 256>>>(reinterpret_cast<const std::uint8_t*>(p.y.data()), p.y.size(), y_begin,
                                        c.y ? c.size.m : 0, c.size.n * out, c.y_row_stride * out, p.touched);
  if (c.h)
    count_overwritten_bytes<<<256, 256>>>(reinterpret_cast<const std::uint8_t*>(p.h.data()), p.h.size(), h_begin,
                                          c.size.m, 2 * c.size.n * in, c.h_row_stride * in, p.touched);
  if (const cudaError_t e = cudaDeviceSynchronize(); e != cudaSuccess) failure = cudaGetErrorString(e);
  std::vector<char> first(static_cast<std::size_t>(c.size.m * c.y_row_stride * out)), second(first.size());
  if (failure.empty()) {
    cudaMemcpy(first.data(), p.again.data() + y_begin, first.size(), cudaMemcpyDeviceToHost);
    cudaMemcpy(second.data(), p.y.data() + y_begin, second.size(), cudaMemcpyDeviceToHost);
    if (first != second) failure = "the second run gave other bits";
  }
  if (failure.empty() && p.found->wrong == 0 && *p.touched == 0) return true;
  std::printf(
      "case %d: m %ld n %ld k %ld in %d out %d bias %d act %d h %d bu %d bg %d lines %ld %ld %ld config %d splits %d "
      "path "
      "%d copies %d%d%d %s: %s wrong %u worst %g first %llu touched %u\n",
      number, long(c.size.m), long(c.size.n), long(c.size.k), int(c.dtype), int(c.out), int(c.bias), int(c.activation),
      c.h != nullptr, c.bu != nullptr, c.bg != nullptr, long(c.x_row_stride), long(c.weight_line_stride),
      long(c.y_row_stride), plan.config, plan.splits, int(plan.path), plan.copy_x, plan.copy_up, plan.copy_gate, odd,
      failure.c_str(), p.found->wrong, std::bit_cast<float>(p.found->worst), p.found->first, *p.touched);
  return false;
}

bool check_one_gradient(Random& r, DeviceBuffers& p, int number) {
  cuda::GateGradientCall c;
  c.m = r.below(700) + 1;
  c.n = r.one_in(2) ? (r.below(80) + 1) * 8 : r.below(640) + 1;
  c.dtype = r.pick({DType::bf16, DType::f16});
  c.activation = r.pick({EpilogueActivation::none, EpilogueActivation::relu, EpilogueActivation::gelu,
                         EpilogueActivation::gelu_tanh, EpilogueActivation::silu});
  const int pad = r.pick({0, 0, 8, 3});
  const bool in_place = r.one_in(3);
  c.dy_row_stride = c.n + pad;
  c.h_row_stride = 2 * c.n + pad;
  c.dh_row_stride = in_place ? c.h_row_stride : 2 * c.n + r.pick({0, 8, 1});
  const std::size_t begin = 4096 + (r.one_in(4) ? 2 : 0);
  c.dy = p.x.data();
  c.h = p.up.data() + begin;
  c.dh = in_place ? p.up.data() + begin : p.y.data() + begin;
  if (!r.one_in(4)) c.dbu = p.h.data();
  if (!r.one_in(4)) c.dbg = p.h.data() + 2 * c.n;
  cudaMemset(p.y.data(), 0x5a, p.y.size());
  cudaMemset(p.up.data(), 0x5a, p.up.size());
  cudaMemset(p.h.data(), 0x5a, p.h.size());
  fill_random<<<256, 256>>>(element_format(c.dtype), p.x.data(), c.m * c.dy_row_stride, 5u * number + 1, 1);
  fill_random<<<256, 256>>>(element_format(c.dtype), p.up.data() + begin, (c.m - 1) * c.h_row_stride + 2 * c.n,
                            5u * number + 2, r.one_in(3) ? 3 : 1);
  cudaMemcpy(p.gate.data(), p.up.data(), p.up.size(), cudaMemcpyDeviceToDevice);
  check_cuda(cudaDeviceSynchronize(), "filling the operands");
  *p.found = {0, 0, ~0ull};
  *p.touched = 0;
  std::string failure;
  if (const auto why = cuda::unsupported_reason(c))
    failure = why.text();
  else if (const Status launched = cuda::launch(c, {p.workspace.data(), p.workspace.size(), false}, nullptr); !launched)
    failure = launched.error().message;
  check_gradient<<<8, 128>>>(c, element_format(c.dtype), p.gate.data() + begin, p.found);
  if (!in_place)
    count_overwritten_bytes<<<256, 256>>>(reinterpret_cast<const std::uint8_t*>(p.y.data()), p.y.size(), begin, c.m,
                                          4 * c.n, c.dh_row_stride * 2, p.touched);
  const std::int64_t sums = (c.dbu ? 2 * c.n : 0) + (c.dbg ? 2 * c.n : 0);
  count_overwritten_bytes<<<256, 256>>>(reinterpret_cast<const std::uint8_t*>(p.h.data()), p.h.size(),
                                        c.dbu ? 0 : 2 * c.n, 1, sums, std::max<std::int64_t>(sums, 1), p.touched);
  if (const cudaError_t e = cudaDeviceSynchronize(); e != cudaSuccess) failure = cudaGetErrorString(e);
  if (failure.empty() && p.found->wrong == 0 && *p.touched == 0) return true;
  std::printf(
      "case %d, gradient: m %ld n %ld in %d act %d lines %ld %ld %ld in place %d db %d%d: %s wrong %u worst %g first "
      "%llu touched %u\n",
      number, long(c.m), long(c.n), int(c.dtype), int(c.activation), long(c.dy_row_stride), long(c.h_row_stride),
      long(c.dh_row_stride), in_place, c.dbu != nullptr, c.dbg != nullptr, failure.c_str(), p.found->wrong,
      std::bit_cast<float>(p.found->worst), p.found->first, *p.touched);
  return false;
}

}  // namespace

int check_gated(int argc, char** argv) {
  const int cases = argc > 0 ? std::atoi(argv[0]) : 2000;
  Random r{argc > 1 ? static_cast<std::uint32_t>(std::atoi(argv[1])) : 1u};
  DeviceBuffers p;
  int wrong = 0, done = 0;
  for (; done < cases && wrong < 12; ++done) {
    bool right = false;
    switch (done % 4) {
      case 1: right = check_one_backward(r, done); break;
      case 3: right = check_one_gradient(r, p, done); break;
      default: right = check_one_forward(r, p, done);
    }
    wrong += !right;
  }
  std::printf("gated: %d cases of %d, %d wrong\n", done, cases, wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace ridge::gpu

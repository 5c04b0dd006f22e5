// Compiles and launches the configs of input_gradient.h with the kernel of joined_matmul.h.
#include "ridge/ops/gated/input_gradient.h"

#include "ridge/device/cuda_status.h"
#include "ridge/device/launch_kernel.h"
#include "ridge/device/tensor_maps.h"
#include "ridge/ops/gated/joined_matmul.h"
#include "ridge/ops/product/sm90.h"

namespace ridge::ops::cuda {
namespace {

constexpr int padded_depth(std::int64_t k) { return static_cast<int>((k + 63) / 64 * 64); }  // In whole stages

template <int index, class T> struct InputGradientKernel : JoinedMatmul<input_gradient_kernel_configs[index], T> {
  using Definition = JoinedMatmul<input_gradient_kernel_configs[index], T>;
  TILE_FN static void store(auto& at, const typename Definition::Globals& g, const typename Definition::State& acc) {
    at.store_rounded(g.d, acc, at.row(), at.col());
  }
};

bool encode_a(tile::TargetInput& to, const InputGradient& x, const void* data, int rows) {
  to.batched = false;
  return device::encode_tensor_map(to.map, {const_cast<void*>(data), x.size.k, x.size.m, 1, x.dh_row_stride, 0},
                                   x.dtype, {swizzled_elements(x.dtype), rows}, true);
}
bool encode_b(tile::TargetInput& to, const InputGradient& x, const void* data) {
  to.batched = false;
  return device::encode_tensor_map(to.map, {const_cast<void*>(data), x.size.n, x.size.k, 1, x.weight_line_stride, 0},
                                   x.dtype, {swizzled_elements(x.dtype), 64}, true);
}

template <int index, class T> Status launch_with_config(const InputGradient& x, int blocks, cudaStream_t stream) {
  using ConfiguredKernel = InputGradientKernel<index, T>;
  static_assert(ConfiguredKernel::config.k == 64);
  constexpr const char* doing = "launching the input's gradient";
  RIDGE_TRY_STATUS(device::to_status(allow_shared_memory<ConfiguredKernel>(), doing));
  typename ConfiguredKernel::Globals g{};
  if (!encode_a(g.a.target, x, x.du, ConfiguredKernel::config.m) ||
      !encode_a(g.second_a.target, x, x.dg, ConfiguredKernel::config.m) || !encode_b(g.b.target, x, x.up) ||
      !encode_b(g.second_b.target, x, x.gate) ||
      !device::encode_tensor_map(g.d.target.map, {x.dx, x.size.n, x.size.m, 1, x.dx_row_stride, 0}, x.dtype,
                                 {swizzled_elements(x.dtype), 64}, true))
    return device::tensor_map_error();
  g.second_begin = padded_depth(x.size.k);
  g.d.target.adds_to_output = x.add;
  tile::sm90::ProductArgs problem{};
  problem.sizes = {static_cast<int>(x.size.m), static_cast<int>(x.size.n), 2 * padded_depth(x.size.k), 1, 1, 8};
  const device::LaunchShape shape{blocks, tile::sm90::block_threads<ConfiguredKernel>,
                                  tile::sm90::shared_bytes<ConfiguredKernel>};
  return device::to_status(device::launch_dependent(tile::sm90::run_product<ConfiguredKernel>, shape, stream, g,
                                                    problem, tile::sm90::PeerRowMapsOf<ConfiguredKernel>{}),
                           doing);
}

template <class T> Status launch_with_type(const InputGradient& x, const InputGradientPlan& plan, cudaStream_t stream) {
  static_assert(input_gradient_kernel_configs.size() == 3, "one case for each config");
  switch (plan.config) {
    case 0: return launch_with_config<0, T>(x, plan.blocks, stream);
    case 1: return launch_with_config<1, T>(x, plan.blocks, stream);
    default: return launch_with_config<2, T>(x, plan.blocks, stream);
  }
}

}  // namespace

Status launch(const InputGradient& call, const InputGradientPlan& plan, CUstream_st* stream) {
  return SixteenBitFloats::dispatch_or_error("the input's gradient", call.dtype,
                                             [&]<class T>() { return launch_with_type<T>(call, plan, stream); });
}

}  // namespace ridge::ops::cuda

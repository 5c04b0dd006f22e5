// Launches a planned gated layer: copies of operands, then one kernel.
#include <cuda_runtime.h>

#include <array>

#include "ridge/device/cuda_status.h"
#include "ridge/device/tensor_maps.h"
#include "ridge/ops/gated/operands.h"
#include "ridge/ops/gated/sm90.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/gemv.h"

namespace ridge::ops::cuda {

// For gelu, z = x * p(x*x) approximates log2(Phi(x) / (1 - Phi(x))), minimax over |x| <= 5.5 with weight 1 / (1 +
// x*x/2). For silu and gelu_tanh, z is exact, and `max_square` only keeps p finite.
SigmoidCoefficients sigmoid_coefficients(EpilogueActivation activation) {
  constexpr float log2e = 1.44269504F;
  if (activation == EpilogueActivation::silu) return {{log2e}, 1};
  if (activation == EpilogueActivation::gelu_tanh)
    return {{2 * log2e * 0.79788456F, 2 * log2e * 0.79788456F * 0.044715F}, 400};
  return {{2.3013240394182284F, 0.10643267413932168F, -0.000789586687543522F, -4.045145434148047e-05F,
           1.9304666062900514e-06F, -2.4957285675198273e-08F},
          30.25F};
}

namespace {

using GatedKernels = std::array<CompiledGatedConfig, sm90_gated_kernel_configs.size()>;
// The configs of each type are instantiated in the objects of sm90.cu.
template <class T> const GatedKernels& gated_kernels_of_type() {
  static const GatedKernels configs = [] {
    GatedKernels r{};
    register_gated_configs<T>(r.data());
    return r;
  }();
  return configs;
}
Result<CompiledGatedConfig> find_gated_kernel(int config, DType in) {
  return SixteenBitFloats::dispatch_or_error(
      "a gated layer", in, [&]<class T>() { return Result<CompiledGatedConfig>(gated_kernels_of_type<T>()[config]); });
}

tile::EpilogueInput column_operand(const void* data, DType dtype) {
  return {data, tile::to_device_format(dtype), 0, 1, 0};
}

bool encode_load(tile::TargetInput& to, const TileOperand& x, int rows, int depth) {
  to.batched = false;
  return device::encode_tensor_map(
      to.map, {const_cast<void*>(x.data), x.contiguous_extent(), x.line_count(), 1, x.line_stride, 0}, x.dtype,
      {swizzled_elements(x.dtype), x.major == tile::Major::k ? rows : depth}, true);
}

// True if the copy engine can write the matrix: rows of a multiple of 16 bytes, with an aligned stride.
bool can_store_in_bulk(const TileOperand& x) { return x.bytes(x.k) % 16 == 0 && can_copy_engine_read(x, 1); }
bool encode_store(CUtensorMap& map, CUtensorMap& tail, const device::MatrixBatch& x, DType dtype, int columns) {
  const int swizzled = swizzled_elements(dtype);
  return device::encode_tensor_map(map, x, dtype, {swizzled, 64}, true) &&
         (columns % swizzled == 0 || device::encode_tensor_map(tail, x, dtype, {columns % swizzled, 64}, true));
}

bool encode_results(GatedLaunchArgs& x, const GatedCall& call, int columns) {
  const auto is_pair_aligned = [](const void* bias) { return reinterpret_cast<std::uintptr_t>(bias) % 4 == 0; };
  x.output.format = tile::to_device_format(call.out);
  const auto make_result = [&](void* data, std::int64_t line) {
    return GatedOperands::make_operand(data, call.dtype, call.size.m, call.size.n, line);
  };
  x.output.stores_in_bulk =
      (!call.y || (call.out == call.dtype && can_store_in_bulk(make_result(call.y, call.y_row_stride)))) &&
      ((!call.bu && !call.bg) || (call.bias == call.dtype && is_pair_aligned(call.bu) && is_pair_aligned(call.bg))) &&
      (!call.h || can_store_in_bulk(make_result(call.h, call.h_row_stride)));
  if (!x.output.stores_in_bulk) return true;
  const auto make_lines = [&](void* data, std::int64_t line) {
    return device::MatrixBatch{data, call.size.n, call.size.m, 1, make_result(data, line).line_stride, 0};
  };
  const device::MatrixBatch first =
      call.y ? make_lines(call.y, call.y_row_stride)
             : make_lines(call.h, call.h_row_stride);  // Kernels prefetch this map even if y is null
  if (!encode_store(x.output.map, x.output.tail, first, call.dtype, columns)) return false;
  if (!call.h) return true;
  void* const gates = static_cast<char*>(call.h) + call.size.n * operand_bytes(call.dtype);
  return encode_store(x.u_maps.map, x.u_maps.tail, make_lines(call.h, call.h_row_stride), call.dtype, columns) &&
         encode_store(x.g_maps.map, x.g_maps.tail, make_lines(gates, call.h_row_stride), call.dtype, columns);
}

// Copies the operands that the plan copies to `memory` and makes `operands` refer to the copies.
Status copy_unaligned_operands(const GatedPlan& plan, GatedOperands& operands, char* memory, cudaStream_t stream) {
  const auto copy = [&](TileOperand& x) {
    const Status copied = copy_to_aligned_lines(x, false, memory, 1, stream);
    x.data = memory;
    x.line_stride = copy_line_stride(x);
    memory += copy_size_bytes(x, 1);
    return copied;
  };
  if (plan.copy_x) RIDGE_TRY_STATUS(copy(operands.x));
  if (plan.copy_up) RIDGE_TRY_STATUS(copy(operands.up));
  if (plan.copy_gate) RIDGE_TRY_STATUS(copy(operands.gate));
  return Done{};
}

Status launch_tiles(const GatedCall& call, const GatedPlan& plan, const device::DeviceWorkspace& workspace,
                    cudaStream_t stream) {
  RIDGE_TRY(kernel, find_gated_kernel(plan.config, call.dtype));
  const MatmulConfig& c = sm90_gated_kernel_configs[plan.config];
  char* next_free = static_cast<char*>(workspace.data) + device::counter_bytes;
  GatedLaunchArgs x{};
  if (plan.splits > 1) {
    x.problem.arrived = static_cast<std::uint32_t*>(workspace.data);
    x.problem.partial = reinterpret_cast<float*>(next_free);
    next_free += partial_sum_bytes(c, plan.tiles * plan.splits);
    if (!workspace.counters_zeroed)
      RIDGE_TRY_STATUS(device::to_status(cudaMemsetAsync(x.problem.arrived, 0, device::counter_bytes, stream),
                                         "clearing the workspace's counters"));
  }
  GatedOperands operands = make_gated_operands(call);
  RIDGE_TRY_STATUS(copy_unaligned_operands(plan, operands, next_free, stream));
  if (!encode_load(x.a, operands.x, c.m, c.k) || !encode_load(x.b, operands.up, c.n / 2, c.k) ||
      !encode_load(x.c, operands.gate, c.n / 2, c.k) || !encode_results(x, call, c.n / 2))
    return device::tensor_map_error();
  x.d = call.y;
  x.h = call.h;
  x.rows = call.size.m;
  x.cols = call.size.n;
  x.d_row_stride = call.y_row_stride;
  x.h_row_stride = call.h_row_stride;
  x.activation = call.activation;
  x.bu = column_operand(call.bu, call.bias);
  x.bg = column_operand(call.bg, call.bias);
  x.problem.sizes = {static_cast<int>(call.size.m),
                     static_cast<int>(2 * call.size.n),
                     static_cast<int>(call.size.k),
                     1,
                     plan.splits,
                     plan.raster_rows};
  x.blocks = plan.blocks;
  x.stream = stream;
  return device::to_status(kernel.launch(x), "launching the gated layer");
}

// Arguments of the slow kernel for any layout and type, one element per thread.
struct PlainGatedArgs {
  tile::StorageFormat in, out;
  EpilogueActivation activation;
  std::int64_t m, n, k, x_row_stride, weight_n_stride, weight_k_stride, y_row_stride, h_row_stride;
  const void *x, *up, *gate;
  tile::EpilogueInput bu, bg;
  void *y, *h;
};
__device__ void store_element(tile::StorageFormat stored, void* data, std::int64_t i, float x) {
  if (stored == tile::StorageFormat::f32)
    static_cast<float*>(data)[i] = x;
  else
    static_cast<std::uint16_t*>(data)[i] = tile::sm90::to_stored(stored, x);
}
__global__ void plain_gated_kernel(const PlainGatedArgs p) {
  using tile::sm90::read_stored;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < p.m * p.n; i += step) {
    const std::int64_t row = i / p.n, col = i % p.n;
    float u = 0, g = 0;
    for (std::int64_t k = 0; k < p.k; ++k) {
      const float x = read_stored(p.in, p.x, row * p.x_row_stride + k);
      const std::int64_t at = col * p.weight_n_stride + k * p.weight_k_stride;
      u += x * read_stored(p.in, p.up, at);
      g += x * read_stored(p.in, p.gate, at);
    }
    if (p.bu.data) u += read_stored(p.bu.format, p.bu.data, col);
    if (p.bg.data) g += read_stored(p.bg.format, p.bg.data, col);
    if (p.h) {
      store_element(p.in, p.h, row * p.h_row_stride + col, u);
      store_element(p.in, p.h, row * p.h_row_stride + p.n + col, g);
    }
    if (p.y)
      store_element(p.out, p.y, row * p.y_row_stride + col, u * tile::sm90::Math::apply_activation(p.activation, g));
  }
}

}  // namespace

Status launch(const GatedCall& call, const GatedPlan& plan, const device::DeviceWorkspace& workspace,
              CUstream_st* stream) {
  if (plan.path == GatedPlan::Path::nothing) return Done{};
  RIDGE_TRY_STATUS(device::check_workspace(workspace, plan.workspace_bytes));
  if (plan.path == GatedPlan::Path::tiles) return launch_tiles(call, plan, workspace, stream);
  const bool along_k = call.weights == tile::Major::k;
  const PlainGatedArgs p{tile::to_device_format(call.dtype),
                         tile::to_device_format(call.out),
                         call.activation,
                         call.size.m,
                         call.size.n,
                         call.size.k,
                         call.x_row_stride,
                         along_k ? call.weight_line_stride : 1,
                         along_k ? 1 : call.weight_line_stride,
                         call.y_row_stride,
                         call.h_row_stride,
                         call.x,
                         call.up,
                         call.gate,
                         column_operand(call.bu, call.bias),
                         column_operand(call.bg, call.bias),
                         call.y,
                         call.h};
  const std::int64_t blocks = (call.size.m * call.size.n + 255) / 256;
  plain_gated_kernel<<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), 256, 0, stream>>>(p);
  return device::to_status(cudaGetLastError(), "launching the gated layer");
}

}  // namespace ridge::ops::cuda

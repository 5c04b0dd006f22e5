// Launches products with narrow weights.
#include "ridge/ops/product/weight_only/kernel.h"

#include <utility>

#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/device/kernel_sample.h"
#include "ridge/device/launch_kernel.h"
#include "ridge/device/shared_memory.h"
#include "ridge/device/tensor_maps.h"
#include "ridge/ops/product/weight_only/multiply.h"

namespace ridge::ops::cuda {
namespace {

// True for kernels in the sample: few and many rows of bf16, with the smallest block of each format of weights.
template <DType weights, class T, int columns> constexpr bool is_in_sample = std::is_same_v<T, Bf16> &&
                                                                             (columns == 8 || columns == 64) &&
                                                                             scale_block_bits(weights).elements <= 32;

template <DType weights, class T, int columns>
cudaError_t launch_kernel(const WeightOnlyArgs& args, const MatmulPlan& plan, cudaStream_t stream) {
  constexpr auto kernel = weight_only_kernel<weights, T, columns>;
  if (const cudaError_t e = device::allow_shared_memory<kernel>(BlockShape<columns>::block.shared_bytes);
      e != cudaSuccess)
    return e;
  const int bytes = args.ring * args.tile.stage_bytes(weight_box(weights), columns) + args.tile.sum_bytes(columns) +
                    Tile::barrier_bytes;
  const device::LaunchShape shape{.blocks = plan.blocks,
                                  .threads = BlockShape<columns>::threads,
                                  .shared_bytes = static_cast<std::size_t>(bytes),
                                  .cluster_blocks = plan.splits};
  return device::launch_dependent(kernel, shape, stream, args);
}
template <DType weights, class T>
cudaError_t launch_rows(const WeightOnlyArgs& args, const MatmulPlan& plan, cudaStream_t stream) {
  const auto launch = [&]<int columns>() {
    if constexpr (device::has_all_kernels || is_in_sample<weights, T, columns>)
      return launch_kernel<weights, T, columns>(args, plan, stream);
    else
      return device::kernel_absent;
  };
  switch (count_columns(args.x.rows)) {
    case 8: return launch.template operator()<8>();
    case 16: return launch.template operator()<16>();
    case 32: return launch.template operator()<32>();
    default: return launch.template operator()<64>();
  }
}
template <DType weights>
cudaError_t launch_weights(DType x, const WeightOnlyArgs& args, const MatmulPlan& plan, cudaStream_t stream) {
  if constexpr (!WeightParts<weights, 8>::scales_elements)
    if (x == DType::f16) return launch_rows<weights, F16>(args, plan, stream);
  return launch_rows<weights, Bf16>(args, plan, stream);
}
cudaError_t launch_dtypes(DType weights, DType x, const WeightOnlyArgs& args, const MatmulPlan& plan,
                          cudaStream_t stream) {
  switch (weights) {
    case DType::int8: return launch_weights<DType::int8>(x, args, plan, stream);
    case DType::e4m3: return launch_weights<DType::e4m3>(x, args, plan, stream);
    case DType::mxfp8: return launch_weights<DType::mxfp8>(x, args, plan, stream);
    case DType::mxfp4: return launch_weights<DType::mxfp4>(x, args, plan, stream);
    case DType::nvfp4: return launch_weights<DType::nvfp4>(x, args, plan, stream);
    case DType::int4_32: return launch_weights<DType::int4_32>(x, args, plan, stream);
    case DType::int4_64: return launch_weights<DType::int4_64>(x, args, plan, stream);
    case DType::int4_128: return launch_weights<DType::int4_128>(x, args, plan, stream);
    case DType::u4_32: return launch_weights<DType::u4_32>(x, args, plan, stream);
    case DType::u4_64: return launch_weights<DType::u4_64>(x, args, plan, stream);
    default: return launch_weights<DType::u4_128>(x, args, plan, stream);
  }
}

// Sets the addresses of weights. Returns false if the driver rejects their tensor map.
bool set_weights(NarrowWeights& to, const TileOperand& x, std::int64_t batch, const Tile& tile, int columns) {
  const auto plane_bytes = [&](std::int64_t elements) { return elements * dtype_bits(x.dtype) / 8; };
  const auto scale_bytes = [&](std::int64_t elements) {
    return stored_bytes(x.dtype, elements) - plane_bytes(elements);
  };
  const std::int64_t matrices = batch > 1 && x.batch_stride != 0 ? batch : 1;
  to.data = static_cast<const std::uint8_t*>(x.data);
  to.scales = to.data + plane_bytes(matrices * x.extent * x.k);
  to.line_bytes = plane_bytes(x.line_stride);
  to.batch_bytes = plane_bytes(x.batch_stride);
  to.stored_bytes = plane_bytes(x.k);
  to.line_scale_bytes = scale_bytes(x.line_stride);
  to.batch_scale_bytes = scale_bytes(x.batch_stride);
  to.stored_scale_bytes = scale_bytes(x.k);
  to.lines = static_cast<int>(x.extent);
  if (is_block_scaled(x.dtype)) {
    const std::int64_t places = reinterpret_cast<std::intptr_t>(to.scales) | to.line_scale_bytes |
                                to.batch_scale_bytes | to.stored_scale_bytes |
                                tile.boxes(columns) * weight_box(x.dtype).scale_bytes | 16;
    to.scale_copy = static_cast<int>(places & -places);
  }
  to.by_engine = x.k > 0 && can_engine_read_weights(x, batch);
  if (!to.by_engine) return true;
  // The engine validates the stride of a single line, too.
  const std::int64_t line_stride = x.extent > 1 ? to.line_bytes : ceil_div(to.stored_bytes, Index{16}) * 16;
  const device::MatrixBatch all{
      const_cast<void*>(x.data), to.stored_bytes, x.extent, matrices, line_stride, to.batch_bytes};
  return device::encode_tensor_map(to.map, all, DType::e4m3, {WeightBox::line_bytes, tile.lines}, true);
}
// Sets the addresses of activations. Returns false if the driver rejects their tensor map.
bool set_activations(Activations& to, const TileOperand& x, std::int64_t batch) {
  const bool along_k = x.major == tile::Major::k;
  to.data = static_cast<const std::uint16_t*>(x.data);
  to.row_stride = along_k ? x.line_stride : 1;
  to.k_stride = along_k ? 1 : x.line_stride;
  to.batch_stride = x.batch_stride;
  to.rows = static_cast<int>(x.extent);
  to.by_engine = x.k > 0 && along_k && can_copy_engine_read(x, batch);
  if (!to.by_engine) return true;
  const std::int64_t matrices = batch > 1 && x.batch_stride != 0 ? batch : 1,
                     line_stride = x.extent > 1 ? x.line_stride : ceil_div(x.k, Index{8}) * 8;
  const device::MatrixBatch all{const_cast<void*>(x.data), x.k, x.extent, matrices, line_stride, x.batch_stride};
  return device::encode_tensor_map(to.map, all, x.dtype, {atom_k, count_columns(x.extent)}, true);
}

}  // namespace

Status multiply_weight_only(const TileProblem& t, const tile::TargetOutput& output, const MatmulPlan& plan,
                            cudaStream_t stream) {
  const bool weights_are_rows = is_narrow_weight(t.a.dtype);
  const TileOperand &w = weights_are_rows ? t.a : t.b, &x = weights_are_rows ? t.b : t.a;
  WeightOnlyArgs args{};
  args.tile = weight_only_tiles[plan.config];
  const int columns = count_columns(x.extent);
  args.weights.are_constant = weights_are_rows ? t.constant_a : t.constant_b;
  if (!set_weights(args.weights, w, t.batch, args.tile, columns) || !set_activations(args.x, x, t.batch))
    return device::tensor_map_error();
  const WeightBox box = weight_box(w.dtype);
  args.k = t.size.k;
  args.stages = static_cast<int>(ceil_div(t.size.k, std::int64_t{args.tile.stage_k(box, columns)}));
  args.splits = plan.splits;
  args.line_tiles = static_cast<int>(ceil_div(w.extent, std::int64_t{args.tile.lines}));
  args.items = static_cast<int>(plan.tiles);
  args.ring = args.tile.count_stages(box, columns);
  args.weights_are_rows = weights_are_rows;
  args.d = {t.d, t.size.m, t.size.n, t.d_line_stride, t.d_batch_stride, output};
  return device::to_status(launch_dtypes(w.dtype, x.dtype, args, plan, stream), "launching the product");
}

}  // namespace ridge::ops::cuda

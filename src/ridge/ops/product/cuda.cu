// Queues a planned product: copies of operands, clearing of counters, then one kernel. Each call encodes tensor maps
// from the operands' addresses and passes the maps as kernel parameters, so that a captured graph is self-contained.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ridge/base/block_scale.h"
#include "ridge/base/ceil_div.h"
#include "ridge/device/cuda_status.h"
#include "ridge/device/tensor_maps.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/gemv.h"
#include "ridge/ops/product/register_loads/multiply.h"
#include "ridge/ops/product/sm90.h"
#include "ridge/ops/product/weight_only/multiply.h"

namespace ridge::ops::cuda {

namespace {

using tile::Major;

using CompiledConfigs = std::array<CompiledConfig, sm90_kernel_configs.size()>;
// The parts are instantiated in the objects of sm90.cu.
template <class T> const CompiledConfigs& compiled_configs() {
  static const CompiledConfigs configs = []<int... part>(std::integer_sequence<int, part...>) {
    CompiledConfigs r{};
    (register_configs<T, part>(r.data()), ...);
    return r;
  }
  (std::make_integer_sequence<int, config_parts>());
  return configs;
}
Result<CompiledConfig> find_kernel(int config, DType in) {
  return OperandDTypes::dispatch_or_error("a kernel with tensor cores", in, [&]<class T>() {
    return Result<CompiledConfig>(compiled_configs<T>()[config]);
  });
}

struct LoadBox {
  int rows, depth, loading_blocks;
};
// Encodes the tensor map of a tile that `loading_blocks` blocks load together: each block loads a part of the rows or,
// if its rows are not a multiple of a box, a part of k (tile/sm90/tile_loader.h).
bool encode_input(tile::TargetInput& to, const TileOperand& x, std::int64_t batch, LoadBox tile) {
  const int swizzled = swizzled_elements(x.dtype);
  to.batched = batch > 1 && x.batch_stride != 0;
  const device::MatrixBatch lines{const_cast<void*>(x.data), x.contiguous_extent(), x.line_count(),
                                  to.batched ? batch : 1,    x.line_stride,         x.batch_stride};
  const int rows = tile.rows / tile.loading_blocks;
  const int depth = rows % swizzled == 0 ? tile.depth : tile.depth / tile.loading_blocks;
  const device::TensorMapBox box = {swizzled, x.major == Major::k ? rows : depth};
  return device::encode_tensor_map(to.map, lines, is_block_scaled(x.dtype) ? DType::e4m3 : x.dtype, box, true);
}

// Returns the scales of an operand of e4m3_128, which follow its elements. Its lines have no gaps
// (`validate_scaled_pair`).
tile::BlockScales find_scales(const TileOperand& x, std::int64_t batch) {
  constexpr int block = BlockPlanes<DType::e4m3_128>::block, quad = scale_quad;
  const std::int64_t matrices = batch > 1 && x.batch_stride != 0 ? batch : 1, elements = matrices * x.extent * x.k;
  tile::BlockScales out{.data = reinterpret_cast<const float*>(static_cast<const char*>(x.data) + elements),
                        .lines = x.extent,
                        .line_stride = x.line_stride / block,
                        .batch_stride = batch > 1 ? x.batch_stride / block : 0,
                        .blocks = static_cast<int>(x.k / block)};
  out.has_aligned_quads = out.blocks % quad == 0 && out.line_stride % quad == 0 && out.batch_stride % quad == 0;
  return out;
}

// Sets the order of k, and the tensor maps of a convolution's pixels and weights.
bool encode_windows(tile::TargetInput& pixels, tile::TargetInput& weights, const TileProblem& t, LoadBox pixel_tile,
                    LoadBox weight_tile) {
  const PixelWindows& w = *t.windows;
  const int box = swizzled_elements(t.a.dtype);
  tile::TapWalk walk;
  walk.taps = static_cast<int>(w.count_taps());
  walk.channels = static_cast<int>(w.channels);
  walk.depth = tile::Divisor(t.size.k / w.count_taps());
  walk.group_rows = static_cast<int>(t.size.n);
  walk.has_three_axes = w.has_three_axes();
  device::ImageTensor image{const_cast<void*>(t.a.data), t.batch * w.channels, w.images, w.image_stride,
                            walk.has_three_axes ? 3 : 2};
  for (int i = 0; i < 3; ++i) {
    const WindowAxis& axis = w.axes[i];
    const auto stride = static_cast<int>(axis.stride), padding = static_cast<int>(axis.padding),
               dilation = static_cast<int>(axis.dilation), reach = static_cast<int>(axis.dilation * (axis.kernel - 1));
    walk.kernel[i] = tile::Divisor(axis.kernel);
    walk.out[i] = tile::Divisor(axis.out);
    walk.stride[i] = stride;
    walk.padding[i] = padding;
    walk.dilation[i] = dilation;
    image.sizes[2 - i] = axis.in;
    image.strides[2 - i] = w.axis_strides[i];
    image.first[2 - i] = -padding;
    image.last[2 - i] = padding - reach;
    image.step[2 - i] = stride;
  }
  pixels.walk = weights.walk = walk;
  const device::MatrixBatch taps{
      const_cast<void*>(t.b.data), w.channels, t.batch * t.size.n, w.count_taps(), t.b.line_stride, w.tap_stride};
  return device::encode_tensor_map(pixels.map, image, t.a.dtype, pixel_tile.rows / pixel_tile.loading_blocks) &&
         device::encode_tensor_map(weights.map, taps, t.a.dtype, {box, weight_tile.rows / weight_tile.loading_blocks},
                                   true);
}

bool encode_inputs(TileLaunchArgs& x, const TileProblem& t, const MatmulConfig& c) {
  const LoadBox box_a{c.m, c.k, c.cluster_n}, box_b{c.n, c.k, c.cluster_m};
  if (t.windows) return c.swap ? encode_windows(x.b, x.a, t, box_b, box_a) : encode_windows(x.a, x.b, t, box_a, box_b);
  const TileOperand &a = c.swap ? t.b : t.a, &b = c.swap ? t.a : t.b;
  if (c.scales_blocks) {
    x.a_scales = find_scales(a, t.batch);
    x.b_scales = find_scales(b, t.batch);
  }
  return encode_input(x.a, a, t.batch, box_a) && encode_input(x.b, b, t.batch, box_b);
}

tile::TargetOutput make_output(const MatmulCall& call, const TileProblem& t) {
  tile::TargetOutput o{};
  static_cast<tile::Epilogue&>(o) =
      to_tile_epilogue(t.d_transposed ? transpose_epilogue(call.epilogue) : call.epilogue, call.problem.d.dtype);
  const std::uintptr_t vector_bytes = 4 * operand_bytes(call.problem.d.dtype);
  o.aligned_fours = reinterpret_cast<std::uintptr_t>(t.d) % vector_bytes == 0 && t.d_line_stride % 4 == 0 &&
                    (t.result_matrices() == 1 || t.d_batch_stride % 4 == 0);
  o.vector_epilogue = has_vector_epilogue(call);
  return o;
}

// The copy engine stores D if the epilogue only rounds and rows are multiples of 16 bytes. The engine writes multiples
// of 16 bytes: after a row of 22 elements it would overwrite two elements of the next row.
bool encode_output(tile::TargetOutput& o, const MatmulCall& call, const TileProblem& t, const MatmulConfig& c) {
  const DType dtype = call.problem.d.dtype;
  o.adds_to_output = adds_rounded_sum(call);
  o.stores_in_bulk = can_store_in_bulk(call);
  if (!o.stores_in_bulk) return true;
  const int swizzled = swizzled_elements(dtype);
  const device::TensorMapBox box = {swizzled, c.swap ? c.n : 64};
  const device::MatrixBatch lines{t.d, t.size.n, t.size.m, t.result_matrices(), t.d_line_stride, t.d_batch_stride};
  if (!device::encode_tensor_map(o.map, lines, dtype, box, true)) return false;
  return c.swap || c.n % swizzled == 0 || device::encode_tensor_map(o.tail, lines, dtype, {c.n % swizzled, 64}, false);
}

bool encode_rows(tile::PeerRowMaps& o, const MatmulCall& call, const TileProblem& t, const MatmulConfig& c) {
  o.gathered = call.gathered;
  o.scattered = call.scattered;
  if (o.gathered.rows > 0) {
    TileOperand own_rows = t.a;
    own_rows.data = o.gathered.own_shard;
    own_rows.extent = o.gathered.shard_rows;
    tile::TargetInput map;
    if (!encode_input(map, own_rows, 1, {c.m, c.k, c.cluster_n})) return false;
    o.own_shard = map.map;
  }
  if (o.scattered.rows > 0)
    for (int i = 0; i < o.scattered.total_rows / o.scattered.shard_rows; ++i) {
      const device::MatrixBatch lines{o.scattered.shard_data[i], t.size.n,        o.scattered.shard_rows, 1,
                                      t.d_line_stride,           t.d_batch_stride};
      if (!device::encode_tensor_map(o.shards[i], lines, call.problem.d.dtype,
                                     {swizzled_elements(call.problem.d.dtype), 64}, true))
        return false;
    }
  return true;
}

// Returns the first address of the workspace after its counters.
template <class T> T* first_after_counters(const device::DeviceWorkspace& workspace) {
  return reinterpret_cast<T*>(static_cast<char*>(workspace.data) + device::counter_bytes);
}

Status launch_tiles(const MatmulCall& call, const MatmulPlan& plan, const device::DeviceWorkspace& workspace,
                    TileProblem t, CUstream_st* stream) {
  const DType in = call.problem.a.dtype;
  RIDGE_TRY(compiled, find_kernel(plan.config, in));
  if (!compiled.launch)
    return absent_error("config " + std::to_string(plan.config) +
                        " is not in this build: expected a build with RIDGE_MENU=WHOLE, found SAMPLE");
  const MatmulConfig c = kernel_config(plan.config, in);
  if (call.row_walk().rows > 0 && !(call.gathered.rows > 0 ? c.can_gather_rows() : c.can_scatter_rows()))
    return input_error("config " + std::to_string(plan.config) +
                       " cannot gather or scatter rows: expected a plan of choose_exchanged_rows_plan()");
  char* next_free = first_after_counters<char>(workspace);
  TileLaunchArgs x{};
  if (const std::int64_t partial = count_partial_tiles(plan); partial > 0) {
    x.problem.arrived = static_cast<std::uint32_t*>(workspace.data);
    x.problem.partial = reinterpret_cast<float*>(next_free);
    next_free += partial_sum_bytes(c, partial);
    if (!workspace.counters_zeroed)
      RIDGE_TRY_STATUS(device::to_status(cudaMemsetAsync(x.problem.arrived, 0, device::counter_bytes, stream),
                                         "clearing the workspace's counters"));
  }
  const auto copy = [&](TileOperand& x, bool transpose) {
    const Status copied = copy_to_aligned_lines(x, transpose, next_free, t.batch, stream);
    if (transpose) x = with_contiguous_k(x);
    x.data = next_free;
    x.line_stride = copy_line_stride(x);
    next_free += copy_size_bytes(x, t.batch);
    if (x.batch_stride != 0) x.batch_stride = x.line_count() * x.line_stride;
    return copied;
  };
  if (plan.copy_a) RIDGE_TRY_STATUS(copy(t.a, plan.transpose_a));
  if (plan.copy_b) RIDGE_TRY_STATUS(copy(t.b, plan.transpose_b));
  const TileOperand &a = c.swap ? t.b : t.a, &b = c.swap ? t.a : t.b;
  x.output = make_output(call, t);
  if (!encode_inputs(x, t, c) || !encode_output(x.output, call, t, c) || !encode_rows(x.shared_rows, call, t, c))
    return device::tensor_map_error();
  // Operands that are read once are evicted first from the L2, so that reused operands stay there (saves 1 to 3 % of
  // the time of a product that reads weights once).
  const auto read_once = [&](const tile::TargetInput& in) { return !t.windows && (t.batch == 1 || in.batched); };
  if (b.extent <= c.n * c.cluster_n && read_once(x.a)) x.a.cache_policy = tile::evict_first;
  if (a.extent <= c.m * c.cluster_m && read_once(x.b)) x.b.cache_policy = tile::evict_first;
  x.d = t.d;
  x.rows = t.size.m;
  x.cols = t.size.n;
  x.line_stride = t.d_line_stride;
  x.batch_stride = t.d_batch_stride;
  x.problem.sizes = {static_cast<int>(a.extent),
                     static_cast<int>(b.extent),
                     static_cast<int>(t.size.k),
                     static_cast<int>(t.batch),
                     plan.splits,
                     plan.raster_rows,
                     plan.split_mode,
                     plan.first_tile_row};
  x.problem.starts = t.starts;
  x.problem.prefetch_constants = plan.prefetch_constants;
  x.cluster = plan.split_mode == tile::SplitMode::cluster_split_k ? plan.splits : c.cluster();
  x.blocks = plan.blocks;
  x.order = plan.dependent_launch ? device::LaunchOrder::may_overlap : device::LaunchOrder::after_earlier_kernels;
  x.stream = stream;
  return device::to_status(compiled.launch(x), "launching the product");
}

}  // namespace

Status launch(const MatmulCall& call, const MatmulPlan& plan, const device::DeviceWorkspace& workspace,
              CUstream_st* stream) {
  if (plan.path == MatmulPlan::Path::nothing) return Done{};
  RIDGE_TRY_STATUS(device::check_workspace(workspace, plan.workspace_bytes));
  TileProblem t = make_tile_problem(call);
  if (plan.path == MatmulPlan::Path::tiles) return launch_tiles(call, plan, workspace, t, stream);
  if (plan.path == MatmulPlan::Path::weight_only) return multiply_weight_only(t, make_output(call, t), plan, stream);
  if (t.windows)
    return input_error("no kernel config counts the pixels of this convolution: expected fewer than 2^31",
                       "use fewer images; --on cpu takes any number");
  if (plan.path == MatmulPlan::Path::register_loads)
    return multiply_with_register_loads(t, make_output(call, t), plan, first_after_counters<float>(workspace), stream);
  if (is_block_scaled(t.a.dtype)) {
    if (t.size.k > 0)
      return input_error("no kernel with scales of blocks has a plan for this product: expected fewer than 2^31 tiles",
                         "--on cpu takes any number");
    t.a.dtype = t.b.dtype = DType::e4m3;  // Without k no element is read
  }
  if (plan.path == MatmulPlan::Path::plain) return multiply_plain(t, make_output(call, t), stream);
  const TileProblem few_rows = make_gemv_problem(call);
  return multiply_gemv(few_rows, make_output(call, few_rows), stream);
}

std::optional<KernelResources> kernel_resources(int config, DType in) {
  KernelResources properties;
  const Result<CompiledConfig> compiled = find_kernel(config, in);
  if (!compiled || !compiled->properties) return std::nullopt;
  if (compiled->properties(properties) != cudaSuccess) {
    cudaGetLastError();
    return std::nullopt;
  }
  return properties;
}

}  // namespace ridge::ops::cuda

// Instantiates a kernel config for the sm90 target: binds tensor maps and schedule to the kernel definition and
// launches the kernel. Internal to the CUDA product.
#pragma once

#include <cuda_runtime.h>

#include "ridge/device/kernel_sample.h"
#include "ridge/device/launch_kernel.h"
#include "ridge/device/shared_memory.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/tile/sm90/run_product.h"

namespace ridge::ops::cuda {

struct TileLaunchArgs {
  tile::TargetInput a, b;
  tile::BlockScales a_scales, b_scales;  // Scales of operands of e4m3_128
  tile::TargetOutput output;
  void* d;
  std::int64_t rows, cols, line_stride, batch_stride;  // Sizes and strides of D
  tile::sm90::ProductArgs problem;
  tile::PeerRowMaps shared_rows;
  int blocks, cluster;
  device::LaunchOrder order;
  cudaStream_t stream;
};

struct CompiledConfig {
  cudaError_t (*launch)(const TileLaunchArgs&);
  cudaError_t (*properties)(KernelResources&);
};

template <int index, class T> struct MatmulKernel
    : Matmul<kernel_config(index, operand_dtype<T>), typename OperandType<T>::Element, typename OperandType<T>::Element,
             typename OperandType<T>::Result, typename OperandType<T>::Sum> {};

template <class Kernel> cudaError_t allow_shared_memory() {
  return device::allow_shared_memory<tile::sm90::run_product<Kernel>>(tile::sm90::shared_bytes<Kernel>);
}

template <class Kernel> cudaError_t launch_tile_kernel(const TileLaunchArgs& x) {
  if (const cudaError_t e = allow_shared_memory<Kernel>(); e != cudaSuccess) return e;
  typename Kernel::Globals g{};
  g.a.target = x.a;
  g.b.target = x.b;
  if constexpr (Kernel::config.scales_blocks) {
    g.a_scales = x.a_scales;
    g.b_scales = x.b_scales;
  }
  g.d.target = x.output;
  g.d.data = static_cast<decltype(g.d.data)>(x.d);
  g.d.rows = x.rows;
  g.d.cols = x.cols;
  g.d.row_stride = x.line_stride;
  g.d.batch_stride = x.batch_stride;
  tile::sm90::PeerRowMapsOf<Kernel> rows{};
  if constexpr (std::is_base_of_v<tile::PeerRowMaps, decltype(rows)>)
    static_cast<tile::PeerRowMaps&>(rows) = x.shared_rows;
  const device::LaunchShape shape{.blocks = x.blocks,
                                  .threads = tile::sm90::block_threads<Kernel>,
                                  .shared_bytes = tile::sm90::shared_bytes<Kernel>,
                                  .cluster_blocks = x.cluster};
  return device::launch_kernel(tile::sm90::run_product<Kernel>, shape, x.order, x.stream, g, x.problem, rows);
}

template <class Kernel> cudaError_t read_kernel_resources(KernelResources& properties) {
  cudaFuncAttributes f{};
  const cudaError_t e = cudaFuncGetAttributes(&f, tile::sm90::run_product<Kernel>);
  properties = {f.numRegs, static_cast<int>(f.localSizeBytes), tile::sm90::shared_bytes<Kernel>};
  return e;
}

// Writes the entry points of each config r with r % config_parts == part to kernels[r]. The configs are compiled in
// `config_parts` translation units.
inline constexpr int config_parts = device::has_all_kernels ? 7 : 2;
template <class T, int part> void register_configs(CompiledConfig* kernels);

}  // namespace ridge::ops::cuda

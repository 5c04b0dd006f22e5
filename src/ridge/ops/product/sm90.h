// Instantiates a kernel config for the sm90 target: binds tensor maps and schedule to the views of the kernel
// definition and launches it. Internal to the CUDA product.
#pragma once

#include <cuda_runtime.h>

#include "ridge/device/shared_memory.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/tile/sm90/run.h"

namespace ridge::ops::cuda {

struct TilesLaunch {
  tile::InputOnTarget a, b;
  tile::OutputOnTarget output;
  void* d;
  std::int64_t rows, cols, line, batch_stride;  // Sizes and strides of D
  tile::sm90::Problem problem;
  tile::RowsOnTarget shared_rows;
  int blocks, cluster;
  bool dependent_launch;
  cudaStream_t stream;
};

struct ConfigKernel {
  cudaError_t (*launch)(const TilesLaunch&);
  cudaError_t (*facts)(ConfigFacts&);
};

template <int index, class T> struct MenuKernel : Matmul<sm90_menu[index], T, T, T> {};

template <class Kernel> cudaError_t allow_shared_memory() {
  return allow_shared_memory<tile::sm90::run<Kernel>>(tile::sm90::shared_bytes<Kernel>);
}

template <class Kernel> cudaError_t launch_config(const TilesLaunch& x) {
  if (const cudaError_t e = allow_shared_memory<Kernel>(); e != cudaSuccess) return e;
  typename Kernel::Globals g{};
  g.a.on_target = x.a;
  g.b.on_target = x.b;
  g.d.on_target = x.output;
  g.d.data = static_cast<decltype(g.d.data)>(x.d);
  g.d.rows = x.rows;
  g.d.cols = x.cols;
  g.d.row_stride = x.line;
  g.d.batch_stride = x.batch_stride;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(x.blocks));
  config.blockDim = dim3(tile::sm90::threads<Kernel>);
  config.dynamicSmemBytes = tile::sm90::shared_bytes<Kernel>;
  config.stream = x.stream;
  cudaLaunchAttribute attributes[2]{};
  config.attrs = attributes;
  if (x.dependent_launch) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (x.cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {static_cast<unsigned>(x.cluster), 1, 1};
  }
  tile::sm90::RowsOf<Kernel> rows{};
  if constexpr (std::is_base_of_v<tile::RowsOnTarget, decltype(rows)>)
    static_cast<tile::RowsOnTarget&>(rows) = x.shared_rows;
  return cudaLaunchKernelEx(&config, tile::sm90::run<Kernel>, g, x.problem, rows);
}

template <class Kernel> cudaError_t facts_of_config(ConfigFacts& facts) {
  cudaFuncAttributes f{};
  const cudaError_t e = cudaFuncGetAttributes(&f, tile::sm90::run<Kernel>);
  facts = {f.numRegs, static_cast<int>(f.localSizeBytes), tile::sm90::shared_bytes<Kernel>};
  return e;
}

// Writes the entry points of each config r with r % config_parts == part to kernels[r]. Each part is a separate
// translation unit.
inline constexpr int config_parts = 7;
template <class T, int part> void list_configs(ConfigKernel* kernels);

}  // namespace ridge::ops::cuda

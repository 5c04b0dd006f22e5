// The gated layer's kernel (ops/gated/matmul.h) for the sm90 target, with the gate's arithmetic in CUDA. Internal to
// ops/gated.
#pragma once

#include "ridge/device/launch_kernel.h"
#include "ridge/ops/gated/config.h"
#include "ridge/ops/gated/matmul.h"
#include "ridge/ops/product/sm90.h"
#include "ridge/tile/sm90/fold.h"

namespace ridge::ops::cuda {

// Coefficients of the activation x / (1 + 2^-z), z = x * p(min(x*x, max_square)). silu and gelu_tanh have this form,
// gelu approximately (ops/gated/cuda.h). Evaluation takes 12 instructions, two of them on the special function unit.
struct SigmoidCoefficients {
  float p[6], max_square;
};
SigmoidCoefficients sigmoid_coefficients(EpilogueActivation activation);

template <class T> struct Gate {
  EpilogueActivation activation;
  SigmoidCoefficients sigmoid;
  tile::EpilogueInput bu, bg;  // Biases, one per column
  bool stores_h;               // True if u and g are stored as h
  tile::sm90::BoxMaps u_maps, g_maps;
  T* h;
  std::int64_t h_row_stride;

  enum class GateForm { sigmoid, relu, none };
  template <class Run> TILE_FN void dispatch_gate_form(Run&& run) const {
    if (activation == EpilogueActivation::none) return run(std::integral_constant<GateForm, GateForm::none>{});
    if (activation == EpilogueActivation::relu) return run(std::integral_constant<GateForm, GateForm::relu>{});
    run(std::integral_constant<GateForm, GateForm::sigmoid>{});
  }
  template <GateForm form> TILE_FN float operator()(std::integral_constant<GateForm, form>, float u, float g) const {
    if constexpr (form == GateForm::none) return u * g;
    if constexpr (form == GateForm::relu) return u * (g < 0 ? 0 : g);  // Keeps NaN
    const float s = fminf(g * g, sigmoid.max_square);
    float z = sigmoid.p[5];
#pragma unroll
    for (int i = 4; i >= 0; --i) z = fmaf(z, s, sigmoid.p[i]);
    float e, r;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-g * z));
    asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + e));
    return u * (g * r);
  }
  TILE_FN tile::sm90::ColumnBias load_biases(int col, int cols) const {
    return {load_bias_pair(bu.data, col, cols), load_bias_pair(bg.data, col, cols)};
  }
  // The load is volatile, because the compiler would otherwise hoist all loads of a tile and spill registers.
  TILE_FN static std::uint32_t load_bias_pair(const void* data, int col, int cols) {
    std::uint32_t x = 0;
    if (data != nullptr && col < cols) {
      const int mine = static_cast<int>(threadIdx.x) % 4 * 2;
      asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(static_cast<const T*>(data) + (col + mine)) : "memory");
    }
    return x;
  }
  template <class View>
  TILE_FN void write_unaligned(const View& view, float u, float g, tile::Index row, tile::Index col) const {
    if (bu.data) u += tile::sm90::read_stored(bu.format, bu.data, col);
    if (bg.data) g += tile::sm90::read_stored(bg.format, bg.data, col);
    if (stores_h) {
      auto* const line = reinterpret_cast<std::uint16_t*>(h) + row * h_row_stride + col;
      line[0] = tile::sm90::round_to<T>(u).bits;
      line[view.cols] = tile::sm90::round_to<T>(g).bits;
    }
    if (view.data == nullptr) return;
    const float y = u * tile::sm90::Math::apply_activation(activation, g);
    const tile::Index i = row * view.row_stride + col;
    const tile::StorageFormat stored = view.target.format;
    if (stored == tile::StorageFormat::f32)
      reinterpret_cast<float*>(view.data)[i] = y;
    else
      reinterpret_cast<std::uint16_t*>(view.data)[i] = tile::sm90::to_stored(stored, y);
  }
};

template <int index, class T> struct GatedKernel : GatedMatmul<sm90_gated_kernel_configs[index], T, T, Gate<T>> {
  using Definition = GatedMatmul<sm90_gated_kernel_configs[index], T, T, Gate<T>>;
  TILE_FN static void load(auto& at, typename Definition::Stage& s, const typename Definition::Globals& g, Range k) {
    tile::sm90::FoldingConsumer<Definition, std::remove_reference_t<decltype(at)>> pair{at};
    Definition::load(pair, s, g, k);
  }
  TILE_FN static void store(auto& at, const typename Definition::Globals& g, const typename Definition::State& acc) {
    tile::sm90::FoldingConsumer<Definition, std::remove_reference_t<decltype(at)>> pair{at};
    Definition::store(pair, g, acc);
  }
};

struct GatedLaunchArgs {
  tile::TargetInput a, b, c;
  tile::TargetOutput output;
  void *d, *h;
  std::int64_t rows, cols, d_row_stride, h_row_stride;  // Rows, columns and row stride of D; row stride of h
  EpilogueActivation activation;
  tile::EpilogueInput bu, bg;
  tile::sm90::BoxMaps u_maps, g_maps;
  tile::sm90::ProductArgs problem;
  int blocks;
  cudaStream_t stream;
};
struct CompiledGatedConfig {
  cudaError_t (*launch)(const GatedLaunchArgs&);
  cudaError_t (*properties)(KernelResources&);
};

template <class Kernel> cudaError_t launch_gated_kernel(const GatedLaunchArgs& x) {
  if (const cudaError_t e = allow_shared_memory<Kernel>(); e != cudaSuccess) return e;
  typename Kernel::Globals g{};
  g.a.target = x.a;
  g.b.target = x.b;
  g.c.target = x.c;
  g.d.target = x.output;
  g.d.data = static_cast<decltype(g.d.data)>(x.d);
  g.d.rows = x.rows;
  g.d.cols = x.cols;
  g.d.row_stride = x.d_row_stride;
  g.combine = {x.activation, sigmoid_coefficients(x.activation),      x.bu,          x.bg, x.h != nullptr, x.u_maps,
               x.g_maps,     static_cast<decltype(g.combine.h)>(x.h), x.h_row_stride};
  const device::LaunchShape shape{x.blocks, tile::sm90::block_threads<Kernel>, tile::sm90::shared_bytes<Kernel>};
  return device::launch_dependent(tile::sm90::run_product<Kernel>, shape, x.stream, g, x.problem,
                                  tile::sm90::PeerRowMapsOf<Kernel>{});
}

template <class T> void register_gated_configs(CompiledGatedConfig* kernels);

}  // namespace ridge::ops::cuda

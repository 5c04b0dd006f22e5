// The gated layer's kernel (ops/gated/matmul.h) for the sm90 target, with the arithmetic of its pairs of sums. Internal
// to ops/gated.
#pragma once

#include "ridge/ops/gated/config.h"
#include "ridge/ops/gated/matmul.h"
#include "ridge/ops/product/sm90.h"
#include "ridge/tile/sm90/fold.h"

namespace ridge::ops::cuda {

// Coefficients of x / (1 + 2^-z), z = x * p(min(x*x, max_square)). silu and gelu_tanh have this form, gelu
// approximately (ops/gated/cuda.h). It takes 12 instructions, two of them on the special function unit.
struct SigmoidForm {
  float p[6], most;
};
SigmoidForm sigmoid_form(Activation activation);

template <class T> struct Gate {
  Activation activation;
  SigmoidForm sigmoid;
  tile::Operand bu, bg;  // Biases, one per column
  bool keep;             // Stores h
  tile::sm90::PairOfMaps kept_u, kept_g;
  T* h;
  std::int64_t h_line;

  enum class GateForm { sigmoid, relu, none };
  template <class Run> TILE_FN void with_form(Run&& run) const {
    if (activation == Activation::none) return run(std::integral_constant<GateForm, GateForm::none>{});
    if (activation == Activation::relu) return run(std::integral_constant<GateForm, GateForm::relu>{});
    run(std::integral_constant<GateForm, GateForm::sigmoid>{});
  }
  template <GateForm form> TILE_FN float operator()(std::integral_constant<GateForm, form>, float u, float g) const {
    if constexpr (form == GateForm::none) return u * g;
    if constexpr (form == GateForm::relu) return u * (g < 0 ? 0 : g);  // Keeps NaN
    const float s = fminf(g * g, sigmoid.most);
    float z = sigmoid.p[5];
#pragma unroll
    for (int i = 4; i >= 0; --i) z = fmaf(z, s, sigmoid.p[i]);
    float e, r;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-g * z));
    asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + e));
    return u * (g * r);
  }
  TILE_FN tile::sm90::Beside beside(int col, int cols) const {
    return {two(bu.data, col, cols), two(bg.data, col, cols)};
  }
  // The load is volatile; otherwise the compiler hoists all loads of a tile and spills.
  TILE_FN static std::uint32_t two(const void* data, int col, int cols) {
    std::uint32_t x = 0;
    if (data != nullptr && col < cols) {
      const int mine = static_cast<int>(threadIdx.x) % 4 * 2;
      asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(static_cast<const T*>(data) + (col + mine)) : "memory");
    }
    return x;
  }
  template <class View>
  TILE_FN void write_exact(const View& view, float u, float g, tile::Index row, tile::Index col) const {
    if (bu.data) u += tile::sm90::read_stored(bu.stored, bu.data, col);
    if (bg.data) g += tile::sm90::read_stored(bg.stored, bg.data, col);
    constexpr auto stored_as = std::is_same_v<T, Bf16> ? tile::Stored::bf16 : tile::Stored::f16;
    if (keep) {
      auto* const line = reinterpret_cast<std::uint16_t*>(h) + row * h_line + col;
      line[0] = tile::sm90::to_stored(stored_as, u);
      line[view.cols] = tile::sm90::to_stored(stored_as, g);
    }
    if (view.data == nullptr) return;
    const float y = u * tile::sm90::Math::activated(activation, g);
    const tile::Index i = row * view.row_stride + col;
    const tile::Stored stored = view.on_target.stored;
    if (stored == tile::Stored::f32)
      reinterpret_cast<float*>(view.data)[i] = y;
    else
      reinterpret_cast<std::uint16_t*>(view.data)[i] = tile::sm90::to_stored(stored, y);
  }
};

template <int index, class T> struct GatedKernel : GatedMatmul<sm90_gated_menu[index], T, T, Gate<T>> {
  using Text = GatedMatmul<sm90_gated_menu[index], T, T, Gate<T>>;
  TILE_FN static void load(auto& at, typename Text::Stage& s, const typename Text::Globals& g, Range k) {
    tile::sm90::Paired<Text, std::remove_reference_t<decltype(at)>> pair{at};
    Text::load(pair, s, g, k);
  }
  TILE_FN static void store(auto& at, const typename Text::Globals& g, const typename Text::State& acc) {
    tile::sm90::Paired<Text, std::remove_reference_t<decltype(at)>> pair{at};
    Text::store(pair, g, acc);
  }
};

struct GatedLaunch {
  tile::InputOnTarget a, b, c;
  tile::OutputOnTarget output;
  void *d, *h;
  std::int64_t rows, cols, line, h_line;  // Rows, columns and row stride of D; row stride of h
  Activation activation;
  tile::Operand bu, bg;
  tile::sm90::PairOfMaps kept_u, kept_g;
  tile::sm90::Problem problem;
  int blocks;
  cudaStream_t stream;
};
struct GatedConfigKernel {
  cudaError_t (*launch)(const GatedLaunch&);
  cudaError_t (*facts)(ConfigFacts&);
};

template <class Kernel> cudaError_t launch_gated_config(const GatedLaunch& x) {
  if (const cudaError_t e = allow_shared_memory<Kernel>(); e != cudaSuccess) return e;
  typename Kernel::Globals g{};
  g.a.on_target = x.a;
  g.b.on_target = x.b;
  g.c.on_target = x.c;
  g.d.on_target = x.output;
  g.d.data = static_cast<decltype(g.d.data)>(x.d);
  g.d.rows = x.rows;
  g.d.cols = x.cols;
  g.d.row_stride = x.line;
  g.combine = {x.activation,   sigmoid_form(x.activation),
               x.bu,           x.bg,
               x.h != nullptr, x.kept_u,
               x.kept_g,       static_cast<decltype(g.combine.h)>(x.h),
               x.h_line};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(x.blocks));
  config.blockDim = dim3(tile::sm90::threads<Kernel>);
  config.dynamicSmemBytes = tile::sm90::shared_bytes<Kernel>;
  config.stream = x.stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, tile::sm90::run<Kernel>, g, x.problem, tile::sm90::RowsOf<Kernel>{});
}

template <class T> void list_gated_configs(GatedConfigKernel* kernels);

}  // namespace ridge::ops::cuda

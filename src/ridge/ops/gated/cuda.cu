// Launches a planned gated layer: the operand copies that it needs, then one kernel.
#include <cuda_runtime.h>

#include <array>

#include "ridge/device/tensor_maps.h"
#include "ridge/ops/gated/operands.h"
#include "ridge/ops/gated/sm90.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/gemv.h"

namespace ridge::ops::cuda {

extern template void list_gated_configs<Bf16>(GatedConfigKernel*);
extern template void list_gated_configs<F16>(GatedConfigKernel*);

// For gelu z = x * p(x*x) approximates log2 of the odds of Phi(x), minimax over |x| <= 5.5 with weight 1 / (1 + x*x/2).
// For silu and gelu_tanh it is exact, and the limit only keeps p finite.
SigmoidForm sigmoid_form(Activation activation) {
  constexpr float log2e = 1.44269504F;
  if (activation == Activation::silu) return {{log2e}, 1};
  if (activation == Activation::gelu_tanh) return {{2 * log2e * 0.79788456F, 2 * log2e * 0.79788456F * 0.044715F}, 400};
  return {{2.3013240394182284F, 0.10643267413932168F, -0.000789586687543522F, -4.045145434148047e-05F,
           1.9304666062900514e-06F, -2.4957285675198273e-08F},
          30.25F};
}

namespace {

using GatedConfigs = std::array<GatedConfigKernel, sm90_gated_menu.size()>;
template <class T> const GatedConfigs& gated_configs_of() {
  static const GatedConfigs configs = [] {
    GatedConfigs r{};
    list_gated_configs<T>(r.data());
    return r;
  }();
  return configs;
}
const GatedConfigKernel& gated_kernel(int config, DType in) {
  return (in == DType::bf16 ? gated_configs_of<Bf16>() : gated_configs_of<F16>())[static_cast<std::size_t>(config)];
}

tile::Operand along_columns(const void* data, DType dtype) { return {data, stored(dtype), 0, 1, 0}; }

std::string failure(const char* what, cudaError_t e) {
  cudaGetLastError();
  return std::string(what) + ": " + cudaGetErrorString(e);
}

bool encode_load(tile::InputOnTarget& to, const TileOperand& x, DType dtype, int rows, int depth) {
  to.batched = false;
  return encode(to.map, {const_cast<void*>(x.data), x.contiguous(), x.lines(), 1, x.line, 0}, dtype,
                {64, x.major == tile::Major::k ? rows : depth}, true);
}

// True if the copy engine can write a matrix of `cols` columns: rows of a multiple of 16 bytes, with an aligned stride.
bool bulk_stores(const void* data, std::int64_t cols, std::int64_t lines, std::int64_t line) {
  return cols % 8 == 0 && copy_engine_reads(GatedOperands::of(data, lines, cols, line), 1);
}
bool encode_store(CUtensorMap& map, CUtensorMap& tail, const Lines& x, DType dtype, int columns) {
  return encode(map, x, dtype, {64, 64}, true) &&
         (columns % 64 == 0 || encode(tail, x, dtype, {columns % 64, 64}, true));
}

bool encode_results(GatedLaunch& x, const GatedCall& call, int columns) {
  const auto two = [](const void* bias) { return reinterpret_cast<std::uintptr_t>(bias) % 4 == 0; };
  x.output.stored = stored(call.out);
  x.output.bulk = (!call.y || (call.out == call.dtype && bulk_stores(call.y, call.n, call.m, call.y_line))) &&
                  ((!call.bu && !call.bg) || (call.bias == call.dtype && two(call.bu) && two(call.bg))) &&
                  (!call.h || bulk_stores(call.h, call.n, call.m, call.h_line));
  if (!x.output.bulk) return true;
  const auto lines = [&](void* data, std::int64_t line) {
    return Lines{data, call.n, call.m, 1, GatedOperands::of(data, call.m, call.n, line).line, 0};
  };
  const Lines first = call.y ? lines(call.y, call.y_line) : lines(call.h, call.h_line);  // All kernels fetch its map
  if (!encode_store(x.output.map, x.output.tail, first, call.dtype, columns)) return false;
  if (!call.h) return true;
  void* const gates = static_cast<char*>(call.h) + call.n * 2;
  return encode_store(x.kept_u.map, x.kept_u.tail, lines(call.h, call.h_line), call.dtype, columns) &&
         encode_store(x.kept_g.map, x.kept_g.tail, lines(gates, call.h_line), call.dtype, columns);
}

std::optional<std::string> launch_tiles(const GatedCall& call, const GatedPlan& plan, const Workspace& workspace,
                                        cudaStream_t stream) {
  const MatmulConfig& c = sm90_gated_menu[static_cast<std::size_t>(plan.config)];
  char* free = static_cast<char*>(workspace.data) + counter_bytes;
  GatedLaunch x{};
  if (plan.splits > 1) {
    x.problem.arrived = static_cast<std::uint32_t*>(workspace.data);
    x.problem.partial = reinterpret_cast<float*>(free);
    free += partial_bytes(c, plan.tiles * plan.splits);
    if (!workspace.prepared)
      if (const cudaError_t e = cudaMemsetAsync(x.problem.arrived, 0, counter_bytes, stream); e != cudaSuccess)
        return failure("clearing the workspace's counters", e);
  }
  GatedOperands o = gated_operands(call);
  const auto copy = [&](TileOperand& x) {
    const cudaError_t e = copy_lines(x, false, free, 1, stream);
    x.data = free;
    x.line = copied_line(x);
    free += copied_bytes(x, 1);
    return e;
  };
  cudaError_t copied = cudaSuccess;
  if (plan.copy_x) copied = copy(o.x);
  if (plan.copy_up && copied == cudaSuccess) copied = copy(o.up);
  if (plan.copy_gate && copied == cudaSuccess) copied = copy(o.gate);
  if (copied != cudaSuccess) return failure("copying an operand", copied);
  if (!encode_load(x.a, o.x, call.dtype, c.m, c.k) || !encode_load(x.b, o.up, call.dtype, c.n / 2, c.k) ||
      !encode_load(x.c, o.gate, call.dtype, c.n / 2, c.k) || !encode_results(x, call, c.n / 2))
    return "the driver rejected a tensor map";
  x.d = call.y;
  x.h = call.h;
  x.rows = call.m;
  x.cols = call.n;
  x.line = call.y_line;
  x.h_line = call.h_line;
  x.activation = call.activation;
  x.bu = along_columns(call.bu, call.bias);
  x.bg = along_columns(call.bg, call.bias);
  x.problem.sizes = {static_cast<int>(call.m), static_cast<int>(2 * call.n), static_cast<int>(call.k), 1, plan.splits,
                     plan.raster_rows};
  x.blocks = plan.blocks;
  x.stream = stream;
  if (const cudaError_t e = gated_kernel(plan.config, call.dtype).launch(x); e != cudaSuccess)
    return failure("launching the gated layer", e);
  return std::nullopt;
}

// Arguments of the slow kernel for any layout and type, one element per thread.
struct PlainGated {
  tile::Stored in, out;
  Activation activation;
  std::int64_t m, n, k, x_line, weight_n, weight_k, y_line, h_line;
  const void *x, *up, *gate;
  tile::Operand bu, bg;
  void *y, *h;
};
__device__ void put(tile::Stored stored, void* data, std::int64_t i, float x) {
  if (stored == tile::Stored::f32)
    static_cast<float*>(data)[i] = x;
  else
    static_cast<std::uint16_t*>(data)[i] = tile::sm90::to_stored(stored, x);
}
__global__ void gate_plainly(const PlainGated p) {
  using tile::sm90::read_stored;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < p.m * p.n; i += step) {
    const std::int64_t row = i / p.n, col = i % p.n;
    float u = 0, g = 0;
    for (std::int64_t k = 0; k < p.k; ++k) {
      const float x = read_stored(p.in, p.x, row * p.x_line + k);
      const std::int64_t at = col * p.weight_n + k * p.weight_k;
      u += x * read_stored(p.in, p.up, at);
      g += x * read_stored(p.in, p.gate, at);
    }
    if (p.bu.data) u += read_stored(p.bu.stored, p.bu.data, col);
    if (p.bg.data) g += read_stored(p.bg.stored, p.bg.data, col);
    if (p.h) {
      put(p.in, p.h, row * p.h_line + col, u);
      put(p.in, p.h, row * p.h_line + p.n + col, g);
    }
    if (p.y) put(p.out, p.y, row * p.y_line + col, u * tile::sm90::Math::activated(p.activation, g));
  }
}

}  // namespace

std::optional<std::string> launch(const GatedCall& call, const GatedPlan& plan, const Workspace& workspace,
                                  CUstream_st* stream) {
  if (plan.path == GatedPlan::Path::nothing) return std::nullopt;
  if (plan.workspace_bytes > workspace.bytes)
    return "workspace: expected " + std::to_string(plan.workspace_bytes) + " bytes, found " +
           std::to_string(workspace.bytes);
  if (plan.workspace_bytes > 0 && reinterpret_cast<std::uintptr_t>(workspace.data) % 256 != 0)
    return "workspace: expected a multiple of 256 as its address";
  if (plan.path == GatedPlan::Path::tiles) return launch_tiles(call, plan, workspace, stream);
  const bool along_k = call.weights == tile::Major::k;
  const PlainGated p{stored(call.dtype),
                     stored(call.out),
                     call.activation,
                     call.m,
                     call.n,
                     call.k,
                     call.x_line,
                     along_k ? call.weight_line : 1,
                     along_k ? 1 : call.weight_line,
                     call.y_line,
                     call.h_line,
                     call.x,
                     call.up,
                     call.gate,
                     along_columns(call.bu, call.bias),
                     along_columns(call.bg, call.bias),
                     call.y,
                     call.h};
  const std::int64_t blocks = (call.m * call.n + 255) / 256;
  gate_plainly<<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), 256, 0, stream>>>(p);
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess) return failure("launching the gated layer", e);
  return std::nullopt;
}

}  // namespace ridge::ops::cuda

// Queues a planned product: copies of operands, clearing of counters, then one kernel. Each call encodes tensor maps
// from the operands' addresses and passes them as kernel parameters, so that a captured graph is self-contained.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>

#include "ridge/device/tensor_maps.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/gemv.h"
#include "ridge/ops/product/sm90.h"

namespace ridge::ops::cuda {

extern template void list_configs<Bf16, 0>(ConfigKernel*);
extern template void list_configs<Bf16, 1>(ConfigKernel*);
extern template void list_configs<Bf16, 2>(ConfigKernel*);
extern template void list_configs<Bf16, 3>(ConfigKernel*);
extern template void list_configs<Bf16, 4>(ConfigKernel*);
extern template void list_configs<Bf16, 5>(ConfigKernel*);
extern template void list_configs<Bf16, 6>(ConfigKernel*);
extern template void list_configs<F16, 0>(ConfigKernel*);
extern template void list_configs<F16, 1>(ConfigKernel*);
extern template void list_configs<F16, 2>(ConfigKernel*);
extern template void list_configs<F16, 3>(ConfigKernel*);
extern template void list_configs<F16, 4>(ConfigKernel*);
extern template void list_configs<F16, 5>(ConfigKernel*);
extern template void list_configs<F16, 6>(ConfigKernel*);

namespace {

using tile::Major;

using Configs = std::array<ConfigKernel, sm90_menu.size()>;
template <class T> const Configs& configs_of() {
  static const Configs configs = [] {
    static_assert(config_parts == 7, "one call for each part");
    Configs r{};
    list_configs<T, 0>(r.data());
    list_configs<T, 1>(r.data());
    list_configs<T, 2>(r.data());
    list_configs<T, 3>(r.data());
    list_configs<T, 4>(r.data());
    list_configs<T, 5>(r.data());
    list_configs<T, 6>(r.data());
    return r;
  }();
  return configs;
}
const ConfigKernel& kernel(int config, DType in) {
  return (in == DType::bf16 ? configs_of<Bf16>() : configs_of<F16>())[static_cast<std::size_t>(config)];
}

struct SharedBox {
  int rows, depth, sharers;
};
// Encodes the tensor map of a tile that `loading_blocks` blocks load together: each loads a part of the rows or, if
// that is not a multiple of 64, a part of k (tile/sm90/tile_operations.h).
bool encode_input(tile::InputOnTarget& to, const TileOperand& x, std::int64_t batch, DType dtype, SharedBox tile) {
  to.batched = batch > 1 && x.batch_stride != 0;
  const Lines lines{const_cast<void*>(x.data), x.contiguous(), x.lines(),
                    to.batched ? batch : 1,    x.line,         x.batch_stride};
  const int rows = tile.rows / tile.sharers;
  const int depth = rows % 64 == 0 ? tile.depth : tile.depth / tile.sharers;
  const Box box = {64, x.major == Major::k ? rows : depth};
  return encode(to.map, lines, dtype, box, true);
}

tile::OutputOnTarget finishing(const MatmulCall& call, const TileProblem& t) {
  tile::OutputOnTarget o{};
  static_cast<tile::Finish&>(o) =
      finish_of(t.exchanged ? exchanged(call.epilogue) : call.epilogue, call.problem.d.dtype);
  const std::uintptr_t four = o.stored == tile::Stored::f32 ? 16 : 8;
  o.vectors = reinterpret_cast<std::uintptr_t>(t.d) % four == 0 && t.d_line % 4 == 0 &&
              (t.results() == 1 || t.d_batch_stride % 4 == 0);
  o.vector_epilogue = has_vector_epilogue(call);
  return o;
}

// The copy engine stores D if the epilogue only rounds and rows are aligned. It reads single elements but writes
// multiples of 16 bytes: after a row of 22 elements it would overwrite two elements of the next row.
bool encode_output(tile::OutputOnTarget& o, const MatmulCall& call, const TileProblem& t, const MatmulConfig& c) {
  const DType dtype = call.problem.d.dtype;
  o.adds = adds_rounded(call);
  o.bulk = stores_in_bulk(call);
  if (!o.bulk) return true;
  const Box box = {64, c.swap ? c.n : 64};
  const Lines lines{t.d, t.n, t.m, t.results(), t.d_line, t.d_batch_stride};
  if (!encode(o.map, lines, dtype, box, true)) return false;
  return c.swap || c.n % 64 == 0 || encode(o.tail, lines, dtype, {c.n % 64, 64}, false);
}

bool encode_rows(tile::RowsOnTarget& o, const MatmulCall& call, const TileProblem& t, const MatmulConfig& c) {
  o.gathered = call.gathered;
  o.scattered = call.scattered;
  if (o.gathered.rows > 0) {
    TileOperand own = t.a;
    own.data = o.gathered.own;
    own.extent = o.gathered.piece;
    tile::InputOnTarget map;
    if (!encode_input(map, own, 1, call.problem.a.dtype, {c.m, c.k, c.cluster_n})) return false;
    o.own = map.map;
  }
  if (o.scattered.rows > 0)
    for (int i = 0; i < o.scattered.all / o.scattered.piece; ++i) {
      const Lines lines{o.scattered.places[i], t.n, o.scattered.piece, 1, t.d_line, t.d_batch_stride};
      if (!encode(o.pieces[i], lines, call.problem.d.dtype, {64, 64}, true)) return false;
    }
  return true;
}

std::string failure(const char* what, cudaError_t e) {
  cudaGetLastError();
  return std::string(what) + ": " + cudaGetErrorString(e);
}

std::optional<std::string> launch_tiles(const MatmulCall& call, const MatmulPlan& plan, const Workspace& workspace,
                                        TileProblem t, CUstream_st* stream) {
  const MatmulConfig& c = sm90_menu[static_cast<std::size_t>(plan.config)];
  if (call.walk().rows > 0 && !(call.gathered.rows > 0 ? c.gathers_rows() : c.scatters_rows()))
    return "config " + std::to_string(plan.config) +
           " cannot gather or scatter rows: expected a plan of choose_chunked_plan()";
  char* free = static_cast<char*>(workspace.data) + counter_bytes;
  TilesLaunch x{};
  if (const std::int64_t partial = partial_tiles(plan); partial > 0) {
    x.problem.arrived = static_cast<std::uint32_t*>(workspace.data);
    x.problem.partial = reinterpret_cast<float*>(free);
    free += partial_bytes(c, partial);
    if (!workspace.prepared)
      if (const cudaError_t e = cudaMemsetAsync(x.problem.arrived, 0, counter_bytes, stream); e != cudaSuccess)
        return failure("clearing the workspace's counters", e);
  }
  const auto copy = [&](TileOperand& x, bool turn) {
    const cudaError_t e = copy_lines(x, turn, free, t.batch, stream);
    if (turn) x = turned(x);
    x.data = free;
    x.line = copied_line(x);
    free += copied_bytes(x, t.batch);
    if (x.batch_stride != 0) x.batch_stride = x.lines() * x.line;
    return e;
  };
  cudaError_t copied = cudaSuccess;
  if (plan.copy_a) copied = copy(t.a, plan.transpose_a);
  if (plan.copy_b && copied == cudaSuccess) copied = copy(t.b, plan.transpose_b);
  if (copied != cudaSuccess) return failure("copying an operand", copied);
  const TileOperand &a = c.swap ? t.b : t.a, &b = c.swap ? t.a : t.b;
  const DType in = call.problem.a.dtype;
  x.output = finishing(call, t);
  if (!encode_input(x.a, a, t.batch, in, {c.m, c.k, c.cluster_n}) ||
      !encode_input(x.b, b, t.batch, in, {c.n, c.k, c.cluster_m}) || !encode_output(x.output, call, t, c) ||
      !encode_rows(x.shared_rows, call, t, c))
    return "the driver rejected a tensor map";
  // Operands that are read once are evicted from the L2 first, to keep those that are reused (saves 1 to 3 % of a
  // product that reads weights once).
  const auto read_once = [&](const tile::InputOnTarget& in) { return t.batch == 1 || in.batched; };
  if (b.extent <= c.n * c.cluster_n && read_once(x.a)) x.a.kept = tile::drops_first;
  if (a.extent <= c.m * c.cluster_m && read_once(x.b)) x.b.kept = tile::drops_first;
  x.d = t.d;
  x.rows = t.m;
  x.cols = t.n;
  x.line = t.d_line;
  x.batch_stride = t.d_batch_stride;
  x.problem.sizes = {static_cast<int>(a.extent),
                     static_cast<int>(b.extent),
                     static_cast<int>(t.k),
                     static_cast<int>(t.batch),
                     plan.splits,
                     plan.raster_rows,
                     plan.split_mode,
                     plan.first_row};
  x.problem.starts = t.starts;
  x.problem.prefetch_constants = plan.prefetch_constants;
  x.cluster = plan.split_mode == tile::SplitMode::cluster_split_k ? plan.splits : c.cluster();
  x.blocks = plan.blocks;
  x.dependent_launch = plan.dependent_launch;
  x.stream = stream;
  const ConfigKernel& compiled = kernel(plan.config, in);
  if (!compiled.launch)
    return "config " + std::to_string(plan.config) +
           " is not in this build: expected a build with RIDGE_MENU=WHOLE, found SAMPLE";
  if (const cudaError_t e = compiled.launch(x); e != cudaSuccess) return failure("launching the product", e);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> launch(const MatmulCall& call, const MatmulPlan& plan, const Workspace& workspace,
                                  CUstream_st* stream) {
  if (plan.path == MatmulPlan::Path::nothing) return std::nullopt;
  if (plan.workspace_bytes > workspace.bytes)
    return "workspace: expected " + std::to_string(plan.workspace_bytes) + " bytes, found " +
           std::to_string(workspace.bytes);
  if (plan.workspace_bytes > 0 && reinterpret_cast<std::uintptr_t>(workspace.data) % 256 != 0)
    return "workspace: expected a multiple of 256 as its address";
  const TileProblem t = tile_problem(call);
  if (plan.path == MatmulPlan::Path::tiles) return launch_tiles(call, plan, workspace, t, stream);
  const auto multiply = plan.path == MatmulPlan::Path::gemv ? multiply_gemv : multiply_plainly;
  const cudaError_t e = multiply(t, stored(call.problem.a.dtype), finishing(call, t), stream);
  if (e != cudaSuccess) return failure("launching the product", e);
  return std::nullopt;
}

std::optional<ConfigFacts> config_facts(int config, DType in) {
  ConfigFacts facts;
  const ConfigKernel& compiled = kernel(config, in);
  if (!compiled.facts) return std::nullopt;
  if (compiled.facts(facts) != cudaSuccess) {
    cudaGetLastError();
    return std::nullopt;
  }
  return facts;
}

}  // namespace ridge::ops::cuda

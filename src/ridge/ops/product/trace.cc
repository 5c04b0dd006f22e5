#include "ridge/ops/product/trace.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ridge/base/float16.h"
#include "ridge/ops/fused/matmul.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/layout.h"
#include "ridge/ops/product/scaled/operand.h"
#include "ridge/tile/trace/count_traffic.h"

namespace ridge::ops {
namespace {

// Tile sizes are only upper limits, because tracing allocates no tiles; the schedule sets the real sizes.
inline constexpr MatmulConfig unlimited_tile{.m = 1 << 30, .n = 1 << 30, .k = 1 << 30};

OperandTraffic to_traffic(const tile::trace::ViewTraffic& x) {
  return {x.requested_bytes, x.global_bytes, x.memory_bytes, x.shared_bytes, x.register_bytes};
}

struct TracedProduct {
  const MatmulProblem& p;
  const MatmulEpilogue& epilogue;
};

// Traces the kernel definition under a schedule of the trace target, without swapping operands. Only the sizes of the
// element types matter; Out has that of D, so the format of D in the epilogue is unused.
template <class Left, class Right, class Out, class Sum, class Schedule>
MatmulTraffic count_traffic(const TracedProduct& x, const Schedule& schedule) {
  using Kernel = Matmul<unlimited_tile, Left, Right, Out, Sum>;
  const MatmulProblem& p = x.p;
  typename Kernel::Globals g;
  g.a.rows = p.size.m;
  g.a.cols = p.size.k;
  g.b.rows = p.size.n;
  g.b.cols = p.size.k;
  g.d.rows = p.size.m;
  g.d.cols = p.size.n;
  const tile::Epilogue& f = g.d.target.epilogue = to_tile_epilogue(x.epilogue, DType::f32);
  const tile::trace::TrafficCounts c = tile::trace::count_traffic_of<Kernel>(g, schedule);
  MatmulTraffic t;
  t.a = to_traffic(c.load(&g.a));
  t.b = to_traffic(c.load(&g.b));
  t.d = to_traffic(c.store(&g.d));
  t.scale = to_traffic(c.load(&f.scale));
  t.bias = to_traffic(c.load(&f.bias));
  t.gate = to_traffic(c.load(&f.gate));
  t.addend = to_traffic(c.load(&f.addend));
  t.flops = c.flops;
  t.issued_flops = c.issued_flops;
  t.partial_bytes = c.partial_written_bytes + c.partial_read_bytes;
  t.items = c.items;
  t.stages = c.stages;
  return t;
}

template <class Left, class Right, class Sum, class Schedule>
MatmulTraffic count_for_output(const TracedProduct& x, const Schedule& schedule) {
  switch (dtype_bits(x.p.d.dtype)) {
    case 8: return count_traffic<Left, Right, std::int8_t, Sum>(x, schedule);
    case 16: return count_traffic<Left, Right, Bf16, Sum>(x, schedule);
    default: return count_traffic<Left, Right, Sum, Sum>(x, schedule);
  }
}

template <class Schedule> MatmulTraffic count_traffic(const TracedProduct& x, const Schedule& schedule) {
  switch (dtype_bits(x.p.a.dtype) * 100 + dtype_bits(decoded_dtype(x.p.b.dtype, x.p.a.dtype))) {
    case 808: return count_for_output<std::int8_t, std::int8_t, std::int32_t>(x, schedule);
    case 816: return count_for_output<std::int8_t, Bf16, float>(x, schedule);
    case 832: return count_for_output<std::int8_t, float, float>(x, schedule);
    case 1608: return count_for_output<Bf16, std::int8_t, float>(x, schedule);
    case 1616: return count_for_output<Bf16, Bf16, float>(x, schedule);
    case 1632: return count_for_output<Bf16, float, float>(x, schedule);
    case 3208: return count_for_output<float, std::int8_t, float>(x, schedule);
    default: return count_for_output<float, float, float>(x, schedule);
  }
}

// Returns the traffic of the tensors that the chain reads or writes, in their order in the problem.
std::vector<OperandTraffic> chain_traffic(const FusedMatmul& x, const TileChain& chain,
                                          const tile::trace::TrafficCounts& c) {
  std::vector<OperandTraffic> out;
  auto read = chain.operands().begin(), written = chain.results().begin();
  for (std::size_t t = x.product_count(); t < x.chain.tensors.size(); ++t) {
    const bool is_written = std::any_of(x.chain.steps.begin(), x.chain.steps.end(), [&](const ChainStep& s) {
      return s.op == ChainOp::store && static_cast<std::size_t>(s.slot) == t;
    });
    out.push_back(to_traffic(is_written ? c.store(&*written++) : c.load(&*read++)));
  }
  return out;
}

template <class Left, class Right>
FusedTraffic count_fused_traffic(const FusedMatmul& x, const tile::trace::CpuTileSchedule& schedule) {
  FusedTraffic t;
  const auto shape = [&](auto& a, auto& b, auto& d) {
    a.rows = x.product.size.m;
    b.rows = d.cols = x.product.size.n;
    d.rows = x.product.size.m;
    a.cols = b.cols = x.product.size.k;
  };
  const auto add = [&](const tile::trace::TrafficCounts& c, const void* a, const void* b, const TileChain& chain) {
    t.a = to_traffic(c.load(a));
    t.b = to_traffic(c.load(b));
    t.chain = chain_traffic(x, chain, c);
    t.flops = c.flops;
  };
  if (!x.second) {
    using Kernel = MatmulWithChain<unlimited_tile, Left, Right>;
    typename Kernel::Globals g;
    shape(g.a, g.b, g.d);
    g.chain = TileChain(x, {});
    add(tile::trace::count_traffic_of<Kernel>(g, schedule), &g.a, &g.b, g.chain);
    return t;
  }
  using Kernel = GatedMatmul<unlimited_tile, Left, float, TileChain, Right>;
  typename Kernel::Globals g;
  shape(g.a, g.b, g.d);
  g.c.rows = g.b.rows;
  g.c.cols = g.b.cols;
  g.combine = TileChain(x, {});
  const tile::trace::TrafficCounts c = tile::trace::count_traffic_of<Kernel>(g, schedule);
  add(c, &g.a, &g.b, g.combine);
  t.second = to_traffic(c.load(&g.c));
  return t;
}

MatmulTraffic swap_operands(MatmulTraffic t) {
  std::swap(t.a, t.b);
  return t;
}

// Returns the schedule of the cpu target for one product, or for two products with the same left operand.
tile::trace::CpuTileSchedule make_cpu_schedule(const MatmulProblem& p, const std::optional<MatrixLayout>& second,
                                               int threads, const pool::Cpu& cpu) {
  static const tile::ComputedOperand windows;  // the schedule depends only on whether and how B is computed
  tile::ComputedOperand scaled{.along_k = true};
  const tile::Matrix a = to_tile_matrix(p.a, nullptr, p.size.m, p.size.k);
  tile::Matrix b = to_tile_matrix(transpose_layout(p.b), nullptr, p.size.n, p.size.k);
  if (p.windows) b.computed = &windows;
  if (is_block_scaled(p.b.dtype)) {
    scaled.k_multiple = dtype_info(p.b.dtype).block;
    b.computed = &scaled;
  }
  const DType right = decoded_dtype(p.b.dtype, p.a.dtype);
  tile::cpu::MatmulOperands operands{nullptr, dtype_bits(p.a.dtype) / 8, dtype_bits(right) / 8, &a, &b};
  operands.caches = cpu.caches;
  if (second) {
    const tile::Matrix c = to_tile_matrix(transpose_layout(*second), nullptr, p.size.n, p.size.k);
    operands.right_parts = 2;
    operands.right_uniform = (c.col_stride == 1) == (b.col_stride == 1) && (c.row_stride == 1) == (b.row_stride == 1);
  }
  tile::trace::CpuTileSchedule s;
  s.problem = {p.batch, p.size};
  const tile::cpu::Engine& engine =
      choose_engine(s.problem, *tile::cpu::find_engine(p.a.dtype, right, cpu), b, operands.right_uniform, cpu.caches);
  operands.engine = &engine;
  s.schedule =
      choose_schedule(s.problem, operands, {cpu_kernel_configs[0].m, cpu_kernel_configs[0].n, cpu_kernel_configs[0].k},
                      choose_thread_count(p, threads));
  s.row_granularity = engine.row_multiple;
  s.k_granularity = stage_multiple(engine, b);
  s.col_granularity = engine.cols;
  s.registers = {engine.rows, engine.cols};
  return s;
}

// Returns the bytes of elements of a block-scaled B in memory, from their bytes in the format that is multiplied.
std::int64_t to_stored_bytes(const MatmulProblem& p, std::int64_t multiplied_bytes) {
  const std::int64_t bits = dtype_bits(decoded_dtype(p.b.dtype, p.a.dtype));
  return stored_bytes(p.b.dtype, multiplied_bytes * 8 / bits);
}

}  // namespace

MatmulTraffic count_tile_traffic(const MatmulProblem& p, const TileScheduleOptions& schedule,
                                 const MatmulEpilogue& epilogue) {
  if (schedule.swap) {
    TileScheduleOptions unswapped = schedule;
    unswapped.swap = false;
    return swap_operands(count_tile_traffic(transpose_problem(p), unswapped, transpose_epilogue(epilogue)));
  }
  tile::trace::TileSchedule s;
  s.tile_shape = {schedule.m, schedule.n, schedule.k, schedule.cluster_m, schedule.cluster_n};
  s.sizes = {static_cast<int>(p.size.m),
             static_cast<int>(p.size.n),
             static_cast<int>(p.size.k),
             static_cast<int>(p.batch),
             schedule.splits,
             schedule.raster_rows,
             schedule.split_mode};
  s.blocks = schedule.blocks;
  s.cache_bytes = schedule.cache_bytes;
  s.starts = schedule.starts;
  MatmulTraffic out = count_traffic(TracedProduct{p, epilogue}, s);
  if (is_block_scaled(p.a.dtype))  // Both operands are; their elements were counted
    for (OperandTraffic* x : {&out.a, &out.b})
      for (std::int64_t* bytes : {&x->requested_bytes, &x->global_bytes, &x->memory_bytes})
        *bytes = stored_bytes(p.a.dtype, *bytes);
  return out;
}

MatmulTraffic count_cpu_traffic(const MatmulProblem& p, int threads, const MatmulEpilogue& epilogue,
                                const pool::Cpu& cpu) {
  if (p.batch == 0 || p.size.m == 0 || p.size.n == 0) return {};
  if (computes_transposed(p))
    return swap_operands(count_cpu_traffic(transpose_problem(p), threads, transpose_epilogue(epilogue), cpu));
  MatmulTraffic out = count_traffic(TracedProduct{p, epilogue}, make_cpu_schedule(p, std::nullopt, threads, cpu));
  if (is_block_scaled(p.b.dtype))
    for (std::int64_t* bytes : {&out.b.requested_bytes, &out.b.global_bytes}) *bytes = to_stored_bytes(p, *bytes);
  return out;
}

FusedTraffic count_cpu_traffic(const FusedMatmul& x, int threads, const pool::Cpu& cpu) {
  const MatmulProblem& p = x.product;
  FusedTraffic none;
  none.chain.resize(x.chain.tensors.size() - static_cast<std::size_t>(x.product_count()));
  if (p.batch == 0 || p.size.m == 0 || p.size.n == 0) return none;
  const tile::trace::CpuTileSchedule s = make_cpu_schedule(p, x.second, threads, cpu);
  switch (dtype_bits(p.a.dtype) * 100 + dtype_bits(p.b.dtype)) {
    case 3232: return count_fused_traffic<float, float>(x, s);
    case 3208: return count_fused_traffic<float, std::int8_t>(x, s);
    case 1616: return count_fused_traffic<Bf16, Bf16>(x, s);
    case 1608: return count_fused_traffic<Bf16, std::int8_t>(x, s);
    case 832: return count_fused_traffic<std::int8_t, float>(x, s);
    default: return count_fused_traffic<std::int8_t, Bf16>(x, s);
  }
}

}  // namespace ridge::ops

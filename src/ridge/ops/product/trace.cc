#include "ridge/ops/product/trace.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ridge/base/float16.h"
#include "ridge/ops/fused/matmul.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/layout.h"
#include "ridge/tile/trace/count.h"

namespace ridge::ops {
namespace {

// Tile sizes are only upper limits here, because no memory is allocated; the schedule sets the real extents.
inline constexpr MatmulConfig any_tile{.m = 1 << 30, .n = 1 << 30, .k = 1 << 30};

OperandTraffic traffic(const tile::trace::Moved& x) {
  return {x.asked_bytes, x.global_bytes, x.memory_bytes, x.shared_bytes, x.register_bytes};
}

struct Traced {
  const MatmulProblem& p;
  const MatmulEpilogue& epilogue;
};

// Traces the kernel definition under a schedule of the trace target, without exchanging operands. Only the sizes of the
// types matter.
template <class Left, class Right, class Out, class Sum, class Schedule>
MatmulTraffic counted(const Traced& x, const Schedule& schedule) {
  using Kernel = Matmul<any_tile, Left, Right, Out, Sum>;
  const MatmulProblem& p = x.p;
  typename Kernel::Globals g;
  g.a.rows = p.m;
  g.a.cols = p.k;
  g.b.rows = p.n;
  g.b.cols = p.k;
  g.d.rows = p.m;
  g.d.cols = p.n;
  const tile::Finish& f = g.d.on_target.finish = finish_of(x.epilogue, p.d.dtype);
  const tile::trace::Counts c = tile::trace::count<Kernel>(g, schedule);
  MatmulTraffic t;
  t.a = traffic(c.load(&g.a));
  t.b = traffic(c.load(&g.b));
  t.d = traffic(c.store(&g.d));
  t.scale = traffic(c.load(&f.scale));
  t.bias = traffic(c.load(&f.bias));
  t.gate = traffic(c.load(&f.gate));
  t.addend = traffic(c.load(&f.addend));
  t.flops = c.flops;
  t.issued_flops = c.issued_flops;
  t.partial_bytes = c.partial_written_bytes + c.partial_read_bytes;
  t.items = c.items;
  t.stages = c.stages;
  return t;
}

template <class Left, class Right, class Sum, class Schedule>
MatmulTraffic counted_in(const Traced& x, const Schedule& schedule) {
  switch (bits(x.p.d.dtype)) {
    case 8: return counted<Left, Right, std::int8_t, Sum>(x, schedule);
    case 16: return counted<Left, Right, Bf16, Sum>(x, schedule);
    default: return counted<Left, Right, Sum, Sum>(x, schedule);
  }
}

template <class Schedule> MatmulTraffic counted(const Traced& x, const Schedule& schedule) {
  switch (bits(x.p.a.dtype) * 100 + bits(x.p.b.dtype)) {
    case 808: return counted_in<std::int8_t, std::int8_t, std::int32_t>(x, schedule);
    case 816: return counted_in<std::int8_t, Bf16, float>(x, schedule);
    case 832: return counted_in<std::int8_t, float, float>(x, schedule);
    case 1608: return counted_in<Bf16, std::int8_t, float>(x, schedule);
    case 1616: return counted_in<Bf16, Bf16, float>(x, schedule);
    case 3208: return counted_in<float, std::int8_t, float>(x, schedule);
    default: return counted_in<float, float, float>(x, schedule);
  }
}

// Returns the traffic of the chain's tensors that follow the sums, in their order.
std::vector<OperandTraffic> of_chain(const FusedMatmul& x, const TileChain& chain, const tile::trace::Counts& c) {
  std::vector<OperandTraffic> out;
  auto read = chain.operands().begin(), written = chain.results().begin();
  for (std::size_t t = static_cast<std::size_t>(x.products()); t < x.chain.tensors.size(); ++t) {
    const bool is_written = std::any_of(x.chain.steps.begin(), x.chain.steps.end(), [&](const ChainStep& s) {
      return s.op == ChainOp::store && static_cast<std::size_t>(s.slot) == t;
    });
    out.push_back(traffic(is_written ? c.store(&*written++) : c.load(&*read++)));
  }
  return out;
}

template <class Left, class Right>
FusedTraffic fused_count(const FusedMatmul& x, const tile::trace::CutSchedule& schedule) {
  FusedTraffic t;
  const auto shape = [&](auto& a, auto& b, auto& d) {
    a.rows = x.product.m;
    b.rows = d.cols = x.product.n;
    d.rows = x.product.m;
    a.cols = b.cols = x.product.k;
  };
  const auto add = [&](const tile::trace::Counts& c, const void* a, const void* b, const TileChain& chain) {
    t.a = traffic(c.load(a));
    t.b = traffic(c.load(b));
    t.chain = of_chain(x, chain, c);
    t.flops = c.flops;
  };
  if (!x.second) {
    using Kernel = MappedMatmul<any_tile, Left, Right>;
    typename Kernel::Globals g;
    shape(g.a, g.b, g.d);
    g.chain = TileChain(x, {});
    add(tile::trace::count<Kernel>(g, schedule), &g.a, &g.b, g.chain);
    return t;
  }
  using Kernel = GatedMatmul<any_tile, Left, float, TileChain, Right>;
  typename Kernel::Globals g;
  shape(g.a, g.b, g.d);
  g.c.rows = g.b.rows;
  g.c.cols = g.b.cols;
  g.combine = TileChain(x, {});
  const tile::trace::Counts c = tile::trace::count<Kernel>(g, schedule);
  add(c, &g.a, &g.b, g.combine);
  t.second = traffic(c.load(&g.c));
  return t;
}

MatmulTraffic named_back(MatmulTraffic t) {
  std::swap(t.a, t.b);
  return t;
}

// Returns the schedule of the cpu target for one product, or for two products with the same left operand.
tile::trace::CutSchedule cut_schedule(const MatmulProblem& p, const std::optional<MatrixLayout>& second, int threads,
                                      const tile::cpu::Cpu& cpu) {
  const tile::Matrix a = seen(p.a, nullptr, p.m, p.k), b = seen(transposed(p.b), nullptr, p.n, p.k);
  tile::cpu::Operands operands{nullptr, bits(p.a.dtype) / 8, bits(p.b.dtype) / 8, &a, &b};
  operands.caches = cpu.caches;
  if (second) {
    const tile::Matrix c = seen(transposed(*second), nullptr, p.n, p.k);
    operands.right_parts = 2;
    operands.right_alike = (c.col_stride == 1) == (b.col_stride == 1) && (c.row_stride == 1) == (b.row_stride == 1);
  }
  tile::trace::CutSchedule s;
  s.problem = {p.batch, p.m, p.n, p.k};
  const tile::cpu::Engine& engine =
      engine_for(s.problem, *tile::cpu::engine(p.a.dtype, p.b.dtype, cpu), b, operands.right_alike, cpu.caches);
  operands.engine = &engine;
  s.schedule = choose(s.problem, operands, {cpu_menu[0].m, cpu_menu[0].n, cpu_menu[0].k}, threads_for(p, threads));
  s.grain_m = engine.row_grain;
  s.grain_k = engine.k_grain;
  s.grain_n = engine.cols;
  s.registers = {engine.rows, engine.cols};
  return s;
}

}  // namespace

MatmulTraffic trace_tiles(const MatmulProblem& p, const TileOrder& order, const MatmulEpilogue& epilogue) {
  if (order.swap) {
    TileOrder straight = order;
    straight.swap = false;
    return named_back(trace_tiles(transposed(p), straight, exchanged(epilogue)));
  }
  tile::trace::TileSchedule s;
  s.cut = {order.m, order.n, order.k, order.cluster_m, order.cluster_n};
  s.sizes = {static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), static_cast<int>(p.batch),
             order.splits,          order.raster_rows,     order.split_mode};
  s.blocks = order.blocks;
  s.cache_bytes = order.cache_bytes;
  s.starts = order.starts;
  return counted(Traced{p, epilogue}, s);
}

MatmulTraffic trace_cpu(const MatmulProblem& p, int threads, const MatmulEpilogue& epilogue,
                        const tile::cpu::Cpu& cpu) {
  if (p.batch == 0 || p.m == 0 || p.n == 0) return {};
  if (p.d.col_stride != 1 && p.n > 1) {  // Contiguous columns of D are transposed, as in matmul()
    return named_back(trace_cpu(transposed(p), threads, exchanged(epilogue), cpu));
  }
  return counted(Traced{p, epilogue}, cut_schedule(p, std::nullopt, threads, cpu));
}

FusedTraffic trace_cpu(const FusedMatmul& x, int threads, const tile::cpu::Cpu& cpu) {
  const MatmulProblem& p = x.product;
  FusedTraffic none;
  none.chain.resize(x.chain.tensors.size() - static_cast<std::size_t>(x.products()));
  if (p.batch == 0 || p.m == 0 || p.n == 0) return none;
  const tile::trace::CutSchedule s = cut_schedule(p, x.second, threads, cpu);
  switch (bits(p.a.dtype) * 100 + bits(p.b.dtype)) {
    case 3232: return fused_count<float, float>(x, s);
    case 3208: return fused_count<float, std::int8_t>(x, s);
    case 1616: return fused_count<Bf16, Bf16>(x, s);
    case 1608: return fused_count<Bf16, std::int8_t>(x, s);
    case 832: return fused_count<std::int8_t, float>(x, s);
    default: return fused_count<std::int8_t, Bf16>(x, s);
  }
}

}  // namespace ridge::ops

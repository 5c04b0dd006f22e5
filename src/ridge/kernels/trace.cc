#include "ridge/kernels/trace.h"

#include <utility>

#include "ridge/base/float16.h"
#include "ridge/kernels/epilogue.h"
#include "ridge/kernels/matmul.h"
#include "ridge/tile/target/cpu/isa.h"
#include "ridge/tile/target/trace/count.h"

namespace ridge::kernels {
namespace {

// Limits only: a tile that exists nowhere has no need of an exact size. The schedule hands out the real extents.
inline constexpr MatmulConfig any_tile{.m = 1 << 30, .n = 1 << 30, .k = 1 << 30};

OperandTraffic traffic(const tile::trace::Moved& x) {
  return {x.asked_bytes, x.global_bytes, x.memory_bytes, x.shared_bytes, x.register_bytes};
}

struct Traced {
  const MatmulProblem& p;
  const MatmulEpilogue& epilogue;
};

// Runs the text with its operands as they stand under any schedule of the trace target. Of the types only the sizes
// matter.
template <class Left, class Right, class Out, class Sum, class Schedule>
MatmulTraffic counted(const Traced& x, const Schedule& schedule) {
  using Kernel = Matmul<any_tile, Left, Right, Out, Sum>;
  const MatmulProblem& p = x.p;
  typename Kernel::Globals g;
  g.a.rows = p.m, g.a.cols = p.k;
  g.b.rows = p.n, g.b.cols = p.k;
  g.d.rows = p.m, g.d.cols = p.n;
  const tile::Finish& f = g.d.on_target.finish = finish_of(x.epilogue, p.d.dtype);
  const tile::trace::Counts c = tile::trace::count<Kernel>(g, schedule);
  MatmulTraffic t;
  t.a = traffic(c.load(&g.a)), t.b = traffic(c.load(&g.b)), t.d = traffic(c.store(&g.d));
  t.scale = traffic(c.load(&f.scale)), t.bias = traffic(c.load(&f.bias));
  t.gate = traffic(c.load(&f.gate)), t.addend = traffic(c.load(&f.addend));
  t.flops = c.flops, t.issued_flops = c.issued_flops;
  t.partial_bytes = c.partial_written_bytes + c.partial_read_bytes;
  t.items = c.items, t.stages = c.stages;
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

MatmulProblem transposed(const MatmulProblem& p) {
  const auto turned = [](MatrixLayout x) {
    std::swap(x.row_stride, x.col_stride);
    return x;
  };
  return {p.batch, p.n, p.m, p.k, turned(p.b), turned(p.a), turned(p.d)};
}

MatmulTraffic named_back(MatmulTraffic t) {
  std::swap(t.a, t.b);
  return t;
}

tile::Matrix seen(const MatrixLayout& x, std::int64_t rows, std::int64_t k) {
  tile::Matrix m{nullptr, rows, k, x.row_stride, x.col_stride, x.batch_stride};
  if (k <= 1) m.col_stride = 1;
  if (rows <= 1 && m.col_stride != 1) m.row_stride = 1;
  return m;
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
  s.sizes = {static_cast<int>(p.m),
             static_cast<int>(p.n),
             static_cast<int>(p.k),
             static_cast<int>(p.batch),
             order.pieces,
             order.band,
             order.cuts};
  s.blocks = order.blocks, s.cache_bytes = order.cache_bytes;
  return counted(Traced{p, epilogue}, s);
}

MatmulTraffic trace_cpu(const MatmulProblem& p, int threads, const MatmulEpilogue& epilogue) {
  if (p.batch == 0 || p.m == 0 || p.n == 0) return {};
  if (p.d.col_stride != 1 && p.n > 1) {  // as matmul() does: D's columns are contiguous
    return named_back(trace_cpu(transposed(p), threads, exchanged(epilogue)));
  }
  using Kernel = Matmul<cpu_menu[0], float, float, float>;
  const tile::cpu::Engine& engine = *tile::cpu::engine(p.a.dtype, p.b.dtype);
  const MatrixLayout right = transposed(p).a;
  const tile::Matrix a = seen(p.a, p.m, p.k), b = seen(right, p.n, p.k);
  tile::trace::CutSchedule s;
  s.problem = {p.batch, p.m, p.n, p.k};
  s.schedule = choose(s.problem, {&engine, bits(p.a.dtype) / 8, bits(p.b.dtype) / 8, &a, &b},
                      {Kernel::config.m, Kernel::config.n, Kernel::config.k}, threads);
  s.grain_n = engine.cols;
  s.registers = {engine.rows, engine.cols};
  return counted(Traced{p, epilogue}, s);
}

}  // namespace ridge::kernels

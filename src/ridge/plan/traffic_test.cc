// Compares the traffic that a plan predicts with that of the real kernel, to the byte. On Hopper it is compared with
// the compiled kernel config under the trace target's schedule of full tiles, and with the closed form; on the CPU the
// trace is compared with the requests that the same kernel made while it ran.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "ridge/base/ceil_div.h"
#include "ridge/base/float16.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/describe.h"
#include "ridge/ops/product/layout.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/ops/product/register_loads/register_loads.h"
#include "ridge/ops/product/testing/placeholder_address.h"
#include "ridge/ops/product/trace.h"
#include "ridge/plan/kernel_list.h"
#include "ridge/plan/plan.h"
#include "ridge/plan/predict.h"
#include "ridge/plan/testing/hopper.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/testing/test_cpus.h"
#include "ridge/tile/cpu/run_matmul.h"
#include "ridge/tile/trace/count_traffic.h"

namespace ridge {
namespace {

using ops::MatmulConfig, ops::MatmulProblem, ops::MatmulTraffic, ops::sm90_kernel_configs;
using tile::Index, tile::Range;

// Returns the bytes that config `row` requests on four blocks; the number of blocks matters only for stream-K.
template <std::size_t index, class Out>
Index traffic_by_config(const MatmulProblem& p, const ops::cuda::MatmulPlan& plan) {
  constexpr MatmulConfig c = sm90_kernel_configs[index];
  using Kernel = ops::Matmul<c, Bf16, Bf16, Out>;
  typename Kernel::Globals g;
  const Index m = c.swap ? p.size.n : p.size.m, n = c.swap ? p.size.m : p.size.n;
  g.a.rows = m;
  g.b.rows = n;
  g.a.cols = g.b.cols = p.size.k;
  g.d.rows = m;
  g.d.cols = n;
  tile::trace::TileSchedule s;
  s.tile_shape = {c.m, c.n, c.k, c.cluster_m, c.cluster_n, c.can_split()};
  s.blocks = 4 * c.cluster();
  if (plan.split_mode == tile::SplitMode::stream_k) s.blocks = plan.blocks;
  s.sizes = {static_cast<int>(m), static_cast<int>(n), static_cast<int>(p.size.k), static_cast<int>(p.batch),
             plan.splits};
  s.sizes.split_mode = plan.split_mode;
  const tile::trace::TrafficCounts x = tile::trace::count_traffic_of<Kernel>(g, s);
  EXPECT_EQ(x.flops, 2 * p.batch * p.size.m * p.size.n * p.size.k);
  return x.load(&g.a).global_bytes + x.load(&g.b).global_bytes + x.store(&g.d).global_bytes + x.partial_written_bytes +
         x.partial_read_bytes;
}
using TrafficByConfig = Index (*)(const MatmulProblem&, const ops::cuda::MatmulPlan&);
template <class Out, std::size_t... rows> constexpr auto traffic_table(std::index_sequence<rows...>) {
  return std::array<TrafficByConfig, sizeof...(rows)>{traffic_by_config<rows, Out>...};
}
constexpr auto rows = std::make_index_sequence<sm90_kernel_configs.size()>{};
constexpr auto short_out = traffic_table<Bf16>(rows), long_out = traffic_table<float>(rows);

Index matrices(const ops::MatrixLayout& x, const MatmulProblem& p) { return x.batch_stride == 0 ? 1 : p.batch; }

// Returns the number of tiles whose partial sums are combined in memory.
Index partial_tiles(const ops::cuda::MatmulPlan& plan, Index tiles, Index stages) {
  if (plan.split_mode == tile::SplitMode::cluster_split_k) return 0;
  if (plan.split_mode != tile::SplitMode::stream_k) return plan.splits == 1 ? 0 : plan.splits * tiles;
  std::vector<Index> runs(tiles);  // runs that contribute to a tile
  const Index each = tiles * stages / plan.blocks, more = tiles * stages % plan.blocks;
  for (Index block = 0, at = 0; block < plan.blocks; ++block) {
    const Index end = at + each + (block < more ? 1 : 0);
    for (Index tile = at / stages; tile * stages < end; ++tile) ++runs[tile];
    at = end;
  }
  Index all = 0;
  for (const Index of_tile : runs) all += of_tile > 1 ? of_tile : 0;
  return all;
}

// Operands that a plan copies are read and written once more; the plain kernel uses tiles of 32 x 32.
Index expected(const MatmulProblem& p, const GroupPrediction& op) {
  ops::MatmulCall call;
  call.problem = p;
  call.a = call.b = call.d = ops::placeholder_address();
  const auto plan = ops::cuda::choose_plan(call, std::size_t{512} << 20, h200_numbers());
  const Index in = dtype_bits(p.a.dtype) / 8, out = dtype_bits(p.d.dtype) / 8;
  if (plan.path == ops::cuda::MatmulPlan::Path::plain)
    return p.batch * (in * p.size.k * (p.size.m * ceil_div(p.size.n, 32) + p.size.n * ceil_div(p.size.m, 32)) +
                      out * p.size.m * p.size.n);
  if (plan.path == ops::cuda::MatmulPlan::Path::gemv) {
    const Index rows = plan.d_transposed ? p.size.n : p.size.m, columns = plan.d_transposed ? p.size.m : p.size.n;
    const int group = ops::cuda::GemvLineWarps::columns(rows, static_cast<int>(in));
    return p.batch * (in * p.size.k * (rows * ceil_div(columns, group) + columns) + out * p.size.m * p.size.n);
  }
  if (plan.path == ops::cuda::MatmulPlan::Path::register_loads) {
    const ops::cuda::RegisterLoadsConfig c = ops::cuda::register_loads_configs[plan.config];
    const Index down = ceil_div(p.size.m, plan.swapped_tile ? c.n : c.m),
                across = ceil_div(p.size.n, plan.swapped_tile ? c.m : c.n),
                sums = plan.splits > 1 ? 2 * plan.splits * p.size.m * ceil_div(p.size.n, 4) * 4 : 0;
    return p.batch * (in * p.size.k * (p.size.m * across + p.size.n * down) + out * p.size.m * p.size.n + 4 * sums);
  }
  EXPECT_EQ(ops::config_name(plan.config), op.plan.kernel);
  const MatmulConfig& c = sm90_kernel_configs[plan.config];
  // A cluster's tiles are adjacent and are loaded as one.
  const Index high = c.m * c.cluster_m, wide = c.n * c.cluster_n, down = ceil_div(p.size.m, c.swap ? wide : high),
              across = ceil_div(p.size.n, c.swap ? high : wide);
  const Index partial =
      2 * 4 * c.m * c.n * partial_tiles(plan, p.batch * down * across * c.cluster(), ceil_div(p.size.k, c.k));
  const Index text = (out == 2 ? short_out : long_out)[plan.config](p, plan);
  EXPECT_EQ(text,
            p.batch * (in * p.size.k * (p.size.m * across + p.size.n * down) + out * p.size.m * p.size.n) + partial);
  return text + (plan.copy_a ? 2 * in * p.size.m * p.size.k * matrices(p.a, p) : 0) +
         (plan.copy_b ? 2 * in * p.size.n * p.size.k * matrices(p.b, p) : 0);
}

constexpr const char* programs[] = {
    "bf16[B, D] * bf16[D, F] -> bf16[B, F]", "bf16[B, D] * bf16[F, D] -> bf16[B, F]",
    "bf16[D, B] * bf16[D, F] -> bf16[B, F]", "bf16[D, B] * bf16[F, D] -> f32[B, F]",
    "bf16[B, D] * bf16[F, D] -> bf16[F, B]", "f16[B, D] * f16[D, F] -> f16[B, F]",
    "f32[B, D] * f32[F, D] -> f32[B, F]",    "bf16[H, B, D] * bf16[H, F, D] -> bf16[H, B, F]",
    "bf16[B, D] * f32[D, F] -> f32[B, F]",
};
struct Extents {
  Index b, d, f;
};
constexpr Extents extents[] = {{1, 64, 1},      {1, 1000, 4096}, {2, 33, 70},       {7, 512, 600},  {16, 4096, 1024},
                               {127, 500, 129}, {200, 40, 2000}, {300, 2048, 1000}, {1025, 96, 513}};

// Calls `check` for each product of each program, with its operation.
template <class Check> int for_each_product(Target target, const Check& check) {
  int products = 0;
  for (const char* text : programs)
    for (const Extents& e : extents) {
      const auto program = parse(text);
      Bindings dims{{"B", e.b}, {"D", e.d}, {"F", e.f}};
      if (std::string_view(text).find('H') != std::string_view::npos) dims["H"] = 3;
      const Plan lowered = make_plan(*program, *program->bind_sizes(dims), {.target = target}).value();
      for (const PlanStep& step : lowered.steps)
        if (const auto* p = std::get_if<MatmulProblem>(&step.kernel)) {
          SCOPED_TRACE(std::string(text) + " with B, D, F = " + std::to_string(e.b) + ", " + std::to_string(e.d) +
                       ", " + std::to_string(e.f));
          check(*program, dims, lowered, *p);
          ++products;
        }
    }
  return products;
}

TEST(Traffic, HopperPlanEqualsTheKernelTrace) {
  int cut = 0, swapped = 0;
  const auto check = [&](const Program& program, const Bindings& dims, const Plan& lowered, const MatmulProblem& p) {
    const GroupPrediction op = predict_program(program, *explain(program, *find_machine("h200"), dims))->kernels.at(0);
    Index copies = 0;  // steps that only reorder or convert
    for (const PlanStep& step : lowered.steps)
      if (!step.copy_description.empty())
        for (const int buffer : step.buffers) copies += lowered.buffers[buffer].size_bytes();
    EXPECT_EQ(op.traffic_bytes, copies + expected(p, op)) << op.plan.kernel;
    cut += op.plan.split.value_or(1) > 1;
    swapped += op.plan.kernel.find("swap") != std::string::npos;
  };
  EXPECT_EQ(for_each_product(Target::cuda, check), static_cast<int>(std::size(programs) * std::size(extents)));
  EXPECT_GT(cut, 0) << "no plan cut k: partial sums were not looked at";
  EXPECT_GT(swapped, 0) << "no plan exchanged the operands";
}

// The kernel definition, instrumented to count the bytes that it requests and stores, and its operations.
std::atomic<Index> recorded_a, recorded_b, recorded_d, recorded_flops;
template <class In, class Out> struct RecordingMatmul : ops::Matmul<ops::cpu_kernel_configs[0], In, In, Out> {
  using Base = ops::Matmul<ops::cpu_kernel_configs[0], In, In, Out>;
  static void load(auto& at, typename Base::Stage& s, const typename Base::Globals& g, Range k) {
    recorded_a += at.row().size * k.size * Index{sizeof(In)};
    recorded_b += at.col().size * k.size * Index{sizeof(In)};
    Base::load(at, s, g, k);
  }
  static void compute(auto& at, typename Base::State& acc, const typename Base::Stage& s) {
    recorded_flops += 2 * s.a.parts[0].rows.size * s.b.parts[0].rows.size * s.a.parts[0].k.size;
    Base::compute(at, acc, s);
  }
  static void store(auto& at, const typename Base::Globals& g, const typename Base::State& acc) {
    recorded_d += at.row().size * at.col().size * Index{sizeof(Out)};
    Base::store(at, g, acc);
  }
};

template <class In, class Out> void run_recorded(const MatmulProblem& p, int threads) {
  const auto seen = [&p](const ops::MatrixLayout& x, const void* data, Index lines, Index line, Index k) {
    tile::Matrix m{data, lines, p.size.k, line, k, x.batch_stride};
    if (p.size.k <= 1) m.col_stride = 1;
    if (lines <= 1 && m.col_stride != 1) m.row_stride = 1;
    return m;
  };
  const std::vector<In> a(p.batch * p.size.m * p.size.k), b(static_cast<std::size_t>(p.batch * p.size.n * p.size.k));
  std::vector<Out> d(p.batch * p.size.m * p.size.n);
  using Kernel = RecordingMatmul<In, Out>;
  typename Kernel::Globals g;
  static_cast<tile::Matrix&>(g.a) = seen(p.a, a.data(), p.size.m, p.a.row_stride, p.a.col_stride);
  static_cast<tile::Matrix&>(g.b) = seen(p.b, b.data(), p.size.n, p.b.col_stride, p.b.row_stride);
  g.d.data = d.data();
  g.d.rows = p.size.m;
  g.d.cols = p.size.n;
  g.d.row_stride = p.d.row_stride;
  g.d.col_stride = p.d.col_stride;
  g.d.batch_stride = p.d.batch_stride;
  recorded_a = recorded_b = recorded_d = recorded_flops = 0;
  tile::cpu::run_kernel<Kernel>(g, {p.batch, p.size}, *tile::cpu::find_engine(p.a.dtype, p.b.dtype), threads);
}

// On any CPU: each operand is read at least once, and at most as often as the kernel requests it.
void expect_consistent_traffic(const MatmulProblem& p, int threads) {
  const Index in = dtype_bits(p.a.dtype) / 8, out = dtype_bits(p.d.dtype) / 8;
  for (const pool::Cpu& cpu : pool::all_test_cpus()) {
    const MatmulTraffic x = ops::count_cpu_traffic(p, threads, {}, cpu);
    SCOPED_TRACE(pool::describe_cpu(cpu));
    EXPECT_EQ(x.flops, 2 * p.batch * p.size.m * p.size.n * p.size.k);
    EXPECT_EQ(x.d.global_bytes, out * p.batch * p.size.m * p.size.n);
    EXPECT_GE(x.a.global_bytes, in * p.batch * p.size.m * p.size.k);
    EXPECT_LE(x.a.global_bytes, x.a.requested_bytes);
    EXPECT_GE(x.b.global_bytes, in * p.batch * p.size.n * p.size.k);
    EXPECT_LE(x.b.global_bytes, x.b.requested_bytes);
  }
}

TEST(Traffic, CpuPlanEqualsTheRecordedRun) {
  const auto check = [&](const Program&, const Bindings&, const Plan&, const MatmulProblem& p) {
    const Index in = dtype_bits(p.a.dtype) / 8, out = dtype_bits(p.d.dtype) / 8;
    if (p.a.dtype == DType::f16) return;  // the same sizes as bf16
    for (const int asked : {1, 3}) {
      expect_consistent_traffic(p, asked);
      const int threads = ops::choose_thread_count(p, asked);
      if (in == 4)
        run_recorded<float, float>(p, threads);
      else if (out == 4)
        run_recorded<Bf16, float>(p, threads);
      else
        run_recorded<Bf16, Bf16>(p, threads);
      const MatmulTraffic x = ops::count_cpu_traffic(p, asked);
      EXPECT_EQ(x.a.requested_bytes, recorded_a);
      EXPECT_EQ(x.b.requested_bytes, recorded_b);
      EXPECT_EQ(x.d.global_bytes, recorded_d);
      EXPECT_EQ(x.flops, recorded_flops);
    }
  };
  const pool::Isa before = pool::active_isa();
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    SCOPED_TRACE(isa_name(isa));
    EXPECT_EQ(for_each_product(Target::cpu, check), static_cast<int>(std::size(programs) * std::size(extents)));
  }
  pool::set_active_isa(before);
}

}  // namespace
}  // namespace ridge

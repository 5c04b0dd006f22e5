// A matmul kernel for compile-time checks. Each file here is compiled twice: without BAD it must compile; with BAD,
// which adds an invalid line, it must fail with the message in the file's first line.
#pragma once

#include "ridge/ops/product/config.h"
#include "ridge/tile/cpu/run_matmul.h"
#include "ridge/tile/trace/count_traffic.h"
#include "ridge/tile/trace/record.h"

using namespace ridge::tile;  // used by tests only
using ridge::ops::MatmulConfig;

inline constexpr MatmulConfig config{.m = 128, .n = 128, .k = 64};

template <class A = SharedTile<float, 128, 64>, class B = SharedTile<float, 128, 64>, class Sum = float>
struct TestKernel {
  static constexpr MatmulConfig config = ::config;
  struct Globals {
    GlobalView<SharedTile<float, 128, 64>, Row> a;
    GlobalView<SharedTile<float, 128, 64>, Col> b;
    OutputView<float, 128, 128> d;
  };
  struct Stage {
    A a;
    B b;
  };
  using State = Accumulator<128, 128, 1, Sum>;
  static void load(auto& at, Stage& s, const Globals& g, Range k) {
    at.load(s.a, g.a, at.row(), k);
    at.load(s.b, g.b, at.col(), k);
  }
  static void compute(auto& at, State& acc, const Stage& s) { at.mma(acc, s.a, transposed(s.b)); }
  static void store(auto& at, const Globals& g, const State& acc) { at.store(g.d, acc, at.row(), at.col()); }
};

template <class Kernel> void compile_kernel() {
  (void)trace::count_traffic_of<Kernel>({}, trace::TileSchedule{});
  (void)trace::record_program<Kernel>({});
}
template <class Kernel> void compile_cpu_kernel() { cpu::run_kernel<Kernel>({}, {}, *cpu::plain_engine({}, {}), 1); }

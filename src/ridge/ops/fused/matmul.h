// Kernel definitions of fused products. A chain maps the sums of one product, or folds the sums of two
// (ops/gated/matmul.h), on each tile while it is in the cache. Internal to the kernels.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ridge/ops/chain/lower.h"
#include "ridge/ops/fused/problem.h"
#include "ridge/ops/gated/matmul.h"

namespace ridge::ops {

// Runs a chain on tiles of sums. `data` has the chain's tensors after the sums; null if nothing runs.
class TileChain {
 public:
  TileChain() = default;
  TileChain(const FusedMatmul& problem, std::span<void* const> data);
  void tile(const tile::EpilogueTile& x) const;  // CPU only
  // Return the tensors that each tile reads and stores, in the order of the chain's tensors after the sums.
  const std::vector<tile::EpilogueInput>& operands() const { return tensors_->reads; }
  const std::vector<tile::EpilogueInput>& results() const { return tensors_->writes; }

 private:
  LoweredChain lower_for_tile(const tile::EpilogueTile& x) const;
  const FusedMatmul* problem_ = nullptr;
  std::span<void* const> data_;
  std::uint64_t call_number_ = 0;  // Cache key of the lowered chain
  struct ChainOperands {
    std::vector<tile::EpilogueInput> reads, writes;
  };
  std::shared_ptr<const ChainOperands> tensors_;  // Shared by all copies: the trace identifies tensors by address
};

template <MatmulConfig C, class Left, class Right> struct MatmulWithChain {
  static constexpr MatmulConfig config = C;
  using A = SharedTile<Left, C.m, C.k>;
  using B = SharedTile<Right, C.n, C.k>;
  struct Globals {
    GlobalView<A, Row> a;
    GlobalView<B, Col, tile::constant> b;
    OutputView<float, C.m, C.n> d;
    TileChain chain;
  };
  struct Stage {
    A a;
    B b;
  };
  using State = Accumulator<C.m, C.n, C.warpgroups_per_tile()>;

  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) {
    at.load(s.a, g.a, at.row(), k);
    at.load(s.b, g.b, at.col(), k);
  }
  TILE_FN static void compute(auto& at, State& acc, const Stage& s) { at.mma(acc, s.a, transposed(s.b)); }
  TILE_FN static void store(auto& at, const Globals& g, const State& acc) {
    at.store(g.d, at.map(acc, g.chain), at.row(), at.col());
  }
};

template <class Left, class Right> using CpuMatmulWithChain = MatmulWithChain<cpu_kernel_configs[0], Left, Right>;
inline constexpr MatmulConfig cpu_pair_config{
    .m = cpu_kernel_configs[0].m, .n = 2 * cpu_kernel_configs[0].n, .k = cpu_kernel_configs[0].k};
template <class Left, class Right> using CpuMatmulPairWithChain =
    GatedMatmul<cpu_pair_config, Left, float, TileChain, Right>;

}  // namespace ridge::ops

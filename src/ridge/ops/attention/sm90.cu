// Compiles all configs of the attention kernel for one input type, RIDGE_TYPE: Bf16 or F16.
#include "ridge/ops/attention/sm90.h"

#include <algorithm>
#include <utility>

#include "ridge/device/kernel_sample.h"
#include "ridge/device/launch_kernel.h"
#include "ridge/device/shared_memory.h"

namespace ridge::ops::cuda {
namespace {

using tile::sm90::run_steps, tile::sm90::step_shared_bytes, tile::sm90::step_threads, tile::sm90::StepKernelArgs;

template <class View> void set_view(View& view, const CUtensorMap& map, std::int64_t rows, std::int64_t heads) {
  view.target.map = map;
  view.rows = rows;
  view.inner = heads;
}
template <class Tile> void set_key_view(tile::RaggedView<Tile>& view, const AttentionLaunchArgs& x) {
  const AttentionProblem& p = x.problem;
  view.may_end_early = true;
  view.box_lines = keys_per_box(p, x.config);
  if (p.pages) {
    view.rows = p.pages->rows;
    view.pages = x.call.pages;
    view.pages_per_matrix = static_cast<int>(p.keys / p.pages->rows);
  } else if (p.packed) {
    view.starts = x.call.key_starts;
  }
}
void set_packed_view(auto& view, const AttentionLaunchArgs& x) {
  view.may_end_early = true;
  view.starts = x.call.row_starts;
  view.outer_stride = 0;
}

// Sets the views of a kernel for ragged sequences, where each row of a tile has a line per head that shares the tile.
template <class Kernel> void set_ragged_views(typename Kernel::Globals& g, const AttentionLaunchArgs& x) {
  const AttentionProblem& p = x.problem;
  const int heads_per_tile = x.plan.heads_per_tile;
  set_key_view(g.k, x);
  set_key_view(g.v, x);
  g.q.lines_per_row = g.o.lines_per_row = g.lse.lines_per_row = heads_per_tile;
  g.q.box_lines = Kernel::config.m / heads_per_tile * heads_per_tile;
  g.o.line_stride = p.o.head;
  g.lse.line_stride = p.rows;
  for (tile::Matrices* const row_view : std::initializer_list<tile::Matrices*>{&g.q, &g.o, &g.lse}) {
    row_view->inner /= heads_per_tile;
    row_view->inner_stride *= heads_per_tile;
  }
  g.heads_per_key_head /= heads_per_tile;
  set_ragged_args(g, p, x.call.lengths);
  if (!p.packed) return;
  set_packed_view(g.q, x);
  set_packed_view(g.o, x);
  set_packed_view(g.lse, x);
  g.lse.inner_stride = p.packed->rows;
}

template <class Kernel> cudaError_t launch_attention(const AttentionLaunchArgs& x) {
  if (const cudaError_t e = device::allow_shared_memory<run_steps<Kernel>>(step_shared_bytes<Kernel>); e != cudaSuccess)
    return e;
  const AttentionProblem& p = x.problem;
  typename Kernel::Globals g{};
  set_view(g.q, x.maps.q, p.rows, p.heads);
  set_view(g.k, x.maps.k, p.keys, p.key_heads);
  set_view(g.v, x.maps.v, p.keys, p.key_heads);
  set_view(g.o, x.maps.o, p.rows, p.heads);
  g.o.data = x.o;
  g.o.cols = p.width;
  g.o.row_stride = p.o.row;
  g.o.inner_stride = p.o.head;
  g.o.outer_stride = p.o.outer;
  g.lse.data = x.lse;
  g.lse.rows = p.rows;
  g.lse.row_stride = 1;
  g.lse.inner = p.heads;
  g.lse.inner_stride = p.rows;
  g.lse.outer_stride = p.heads * p.rows;
  set_scalar_args(g, p);
  if constexpr (Kernel::config.ragged) set_ragged_views<Kernel>(g, x);
  const int heads_per_tile = x.plan.heads_per_tile;
  const tile::ItemOrder order{static_cast<int>(p.outer * p.heads / heads_per_tile), static_cast<int>(p.rows),
                              Kernel::config.m / heads_per_tile, x.plan.concurrent_heads, x.plan.key_splits};
  const device::LaunchShape shape{std::min<std::int64_t>(x.plan.items, x.multiprocessors), step_threads<Kernel>,
                                  step_shared_bytes<Kernel>};
  return device::launch_dependent(run_steps<Kernel>, shape, x.stream, g, StepKernelArgs{order, x.counters, x.states});
}

constexpr AttentionConfig select_config(std::size_t i, bool is_ragged) {
  return is_ragged ? make_ragged(attention_kernel_configs[i]) : attention_kernel_configs[i];
}
template <class T, bool is_ragged, std::size_t i> cudaError_t launch_config(const AttentionLaunchArgs& x) {
  if constexpr (device::is_compiled<T>(i))
    return launch_attention<Attention<select_config(i, is_ragged), T>>(x);
  else
    return device::kernel_absent;
}
template <class T, bool is_ragged, std::size_t... i>
constexpr std::array<AttentionLauncher, sizeof...(i)> make_launchers(std::index_sequence<i...>) {
  return {launch_config<T, is_ragged, i>...};
}

}  // namespace

template <class T>
const std::array<AttentionLauncher, attention_kernel_configs.size()>& attention_launchers(bool is_ragged) {
  constexpr auto indices = std::make_index_sequence<attention_kernel_configs.size()>{};
  static constexpr auto uniform_kernels = make_launchers<T, false>(indices),
                        ragged_kernels = make_launchers<T, true>(indices);
  return is_ragged ? ragged_kernels : uniform_kernels;
}
template const std::array<AttentionLauncher, attention_kernel_configs.size()>& attention_launchers<RIDGE_TYPE>(bool);

}  // namespace ridge::ops::cuda

// Compiles all configs of the attention kernel for one input type, RIDGE_TYPE: Bf16 or F16.
#include "ridge/ops/attention/sm90.h"

#include <algorithm>
#include <utility>

#include "ridge/device/shared_memory.h"

namespace ridge::ops::cuda {
namespace {

using tile::sm90::run_steps, tile::sm90::step_shared_bytes, tile::sm90::step_threads, tile::sm90::StepProblem;

template <class View> void place(View& view, const CUtensorMap& map, std::int64_t rows, std::int64_t heads) {
  view.on_target.map = map;
  view.rows = rows;
  view.inner = heads;
}
template <class Tile> void place_keys(tile::RaggedView<Tile>& view, const AttentionLaunch& x) {
  const AttentionProblem& p = x.problem;
  view.ends = true;
  view.lines = rows_of_box(p, x.config);
  if (p.pages) {
    view.rows = p.pages->rows;
    view.pages = x.call.pages;
    view.pages_each = static_cast<int>(p.keys / p.pages->rows);
  } else if (p.packed) {
    view.starts = x.call.key_starts;
  }
}
void place_packed(auto& view, const AttentionLaunch& x) {
  view.ends = true;
  view.starts = x.call.row_starts;
  view.outer_stride = 0;
}

// Sets the views of a kernel for ragged sequences, where the heads of a group may be lines of a row.
template <class Kernel> void place_ragged(typename Kernel::Globals& g, const AttentionLaunch& x) {
  const AttentionProblem& p = x.problem;
  const int group = x.plan.group;
  place_keys(g.k, x);
  place_keys(g.v, x);
  g.q.group = g.o.group = g.lse.group = group;
  g.q.lines = Kernel::config.m / group * group;
  g.o.line_stride = p.o.head;
  g.lse.line_stride = p.rows;
  for (tile::Matrices* const of_rows : std::initializer_list<tile::Matrices*>{&g.q, &g.o, &g.lse}) {
    of_rows->inner /= group;
    of_rows->inner_stride *= group;
  }
  g.heads_of_keys /= group;
  set_lengths(g, p, x.call.lengths);
  if (!p.packed) return;
  place_packed(g.q, x);
  place_packed(g.o, x);
  place_packed(g.lse, x);
  g.lse.inner_stride = p.packed->rows;
}

template <class Kernel> cudaError_t launch_attention(const AttentionLaunch& x) {
  if (const cudaError_t e = allow_shared_memory<run_steps<Kernel>>(step_shared_bytes<Kernel>); e != cudaSuccess)
    return e;
  const AttentionProblem& p = x.problem;
  typename Kernel::Globals g{};
  place(g.q, x.maps.q, p.rows, p.heads);
  place(g.k, x.maps.k, p.keys, p.key_heads);
  place(g.v, x.maps.v, p.keys, p.key_heads);
  place(g.o, x.maps.o, p.rows, p.heads);
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
  set_numbers(g, p);
  if constexpr (Kernel::config.ragged) place_ragged<Kernel>(g, x);
  const int group = x.plan.group;
  const tile::StepOrder order{static_cast<int>(p.outer * p.heads / group), static_cast<int>(p.rows),
                              Kernel::config.m / group, x.plan.width, x.plan.parts};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(std::min<std::int64_t>(x.plan.items, x.multiprocessors)));
  config.blockDim = dim3(step_threads<Kernel>);
  config.dynamicSmemBytes = step_shared_bytes<Kernel>;
  config.stream = x.stream;
  cudaLaunchAttribute dependent{};
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &dependent;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, run_steps<Kernel>, g, StepProblem{order, x.counters, x.states});
}

constexpr AttentionConfig of_menu(std::size_t i, bool is_ragged) {
  return is_ragged ? ragged(attention_menu[i]) : attention_menu[i];
}
template <class T, bool is_ragged, std::size_t... i>
constexpr std::array<LaunchAttention, sizeof...(i)> all_of_menu(std::index_sequence<i...>) {
  return {launch_attention<Attention<of_menu(i, is_ragged), T>>...};
}

}  // namespace

template <> const std::array<LaunchAttention, attention_menu.size()>& attention_kernels<RIDGE_TYPE>(bool is_ragged) {
  constexpr auto each = std::make_index_sequence<attention_menu.size()>{};
  static constexpr auto alike = all_of_menu<RIDGE_TYPE, false>(each), differ = all_of_menu<RIDGE_TYPE, true>(each);
  return is_ragged ? differ : alike;
}

}  // namespace ridge::ops::cuda

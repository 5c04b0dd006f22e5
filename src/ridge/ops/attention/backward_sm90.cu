// Compiles all configs of attention's backward kernel for one input type, RIDGE_TYPE: Bf16 or F16.
#include "ridge/ops/attention/backward_sm90.h"

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

template <class Kernel> typename Kernel::Globals globals_of(const AttentionBackwardLaunch& x) {
  constexpr double log2_e = 1.4426950408889634;
  constexpr int of_tile = 2 * Kernel::config.q;
  const AttentionProblem& p = x.problem.forward;
  typename Kernel::Globals g{};
  place(g.k, x.maps.k, p.keys, p.key_heads);
  place(g.v, x.maps.v, p.keys, p.key_heads);
  place(g.dk, x.maps.dk, p.keys, p.key_heads);
  place(g.dv, x.maps.dv, p.keys, p.key_heads);
  place(g.q, x.maps.q, p.rows, p.heads);
  place(g.dout, x.maps.dout, p.rows, p.heads);
  g.numbers.data = x.numbers;
  g.numbers.row_stride = of_tile;
  g.numbers.outer_stride = x.plan.tiles * of_tile;
  g.dq = {x.sums, x.turns, static_cast<int>(x.plan.tiles)};
  g.band = {static_cast<int>(p.low), static_cast<int>(p.high), static_cast<int>(p.keys), 1};
  g.rows = static_cast<int>(p.rows);
  g.scale = static_cast<float>(p.scale);
  g.scale_log2 = static_cast<float>(p.scale * log2_e);
  g.heads_of_keys = static_cast<int>(p.heads / p.key_heads);
  return g;
}

template <class Kernel> cudaError_t launch_items(const AttentionBackwardLaunch& x) {
  if (x.plan.items == 0) return cudaSuccess;
  if (const cudaError_t e = allow_shared_memory<run_steps<Kernel>>(step_shared_bytes<Kernel>); e != cudaSuccess)
    return e;
  const AttentionProblem& p = x.problem.forward;
  const SeenKeys seen = seen_keys(p);
  tile::StepOrder order{static_cast<int>(p.outer * p.key_heads), static_cast<int>(seen.end), Kernel::config.m,
                        x.plan.width};
  order.ascending = !Kernel::config.ordered;
  order.first_row = static_cast<int>(seen.first / Kernel::config.m * Kernel::config.m);
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
  return cudaLaunchKernelEx(&config, run_steps<Kernel>, globals_of<Kernel>(x), StepProblem{order, x.counters, nullptr});
}

// Returns the keys that no item covers; items store full tiles of m keys.
UnseenKeys unseen_of(const AttentionProblem& p, const AttentionBackwardPlan& plan, int m) {
  UnseenKeys out{0, 0, static_cast<int>(p.keys), static_cast<int>(p.width)};
  if (plan.items == 0) return out;
  const SeenKeys seen = seen_keys(p);
  out.first = static_cast<int>(seen.first / m * m);
  out.end = static_cast<int>(std::min<std::int64_t>(p.keys, (seen.end + m - 1) / m * m));
  return out;
}

template <class Kernel> cudaError_t launch_backward(const AttentionBackwardLaunch& x) {
  const AttentionBackwardProblem& all = x.problem;
  const AttentionProblem& p = all.forward;
  const AttentionBackwardData& d = x.data;
  const BackwardRows rows{static_cast<int>(p.heads), static_cast<int>(p.rows), static_cast<int>(p.width),
                          static_cast<int>(x.plan.tiles)};
  const dim3 grid(static_cast<unsigned>(x.plan.tiles), static_cast<unsigned>(p.heads), static_cast<unsigned>(p.outer));
  prepare_backward<Kernel><<<grid, backward_pass_threads, 0, x.stream>>>(
      rows, {const_cast<void*>(d.o), p.o}, {const_cast<void*>(d.dout), all.dout}, d.lse, x.numbers, x.sums, x.turns);
  const UnseenKeys unseen = unseen_of(p, x.plan, Kernel::config.m);
  if (unseen.first > 0 || unseen.end < unseen.keys)
    clear_unseen<typename Kernel::Q::type>
        <<<dim3(static_cast<unsigned>(x.multiprocessors), static_cast<unsigned>(p.key_heads),
                static_cast<unsigned>(p.outer)),
           backward_pass_threads, 0, x.stream>>>(unseen, {d.dk, all.dk}, {d.dv, all.dv});
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess) return e;
  if (const cudaError_t e = launch_items<Kernel>(x); e != cudaSuccess) return e;
  finish_backward<Kernel>
      <<<grid, backward_pass_threads, 0, x.stream>>>(rows, x.sums, {d.dq, all.dq}, static_cast<float>(p.scale));
  return cudaGetLastError();
}

constexpr AttentionBackwardConfig with_order(AttentionBackwardConfig config, bool ordered) {
  config.ordered = ordered;
  return config;
}
template <class T, bool ordered, std::size_t... i>
constexpr std::array<LaunchAttentionBackward, sizeof...(i)> all_of_menu(std::index_sequence<i...>) {
  return {launch_backward<AttentionBackward<with_order(attention_backward_menu[i], ordered), T>>...};
}

}  // namespace

template <>
const std::array<LaunchAttentionBackward, attention_backward_menu.size()>& attention_backward_kernels<RIDGE_TYPE>(
    bool ordered) {
  using Menu = std::make_index_sequence<attention_backward_menu.size()>;
  static constexpr auto fast = all_of_menu<RIDGE_TYPE, false>(Menu{}), in_order = all_of_menu<RIDGE_TYPE, true>(Menu{});
  return ordered ? in_order : fast;
}

}  // namespace ridge::ops::cuda

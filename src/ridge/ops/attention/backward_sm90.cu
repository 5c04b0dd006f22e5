// Compiles all configs of attention's backward kernel for one input type, RIDGE_TYPE: Bf16 or F16.
#include "ridge/ops/attention/backward_sm90.h"

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

template <class Kernel> typename Kernel::Globals make_globals(const BackwardLaunchArgs& x) {
  constexpr double log2_e = 1.4426950408889634;
  constexpr int floats_per_tile = 2 * Kernel::config.q;
  const AttentionProblem& p = x.problem.forward;
  typename Kernel::Globals g{};
  set_view(g.k, x.maps.k, p.keys, p.key_heads);
  set_view(g.v, x.maps.v, p.keys, p.key_heads);
  set_view(g.dk, x.maps.dk, p.keys, p.key_heads);
  set_view(g.dv, x.maps.dv, p.keys, p.key_heads);
  set_view(g.q, x.maps.q, p.rows, p.heads);
  set_view(g.dout, x.maps.dout, p.rows, p.heads);
  g.row_stats.data = x.row_stats;
  g.row_stats.row_stride = floats_per_tile;
  g.row_stats.outer_stride = x.plan.tiles_per_head * floats_per_tile;
  g.dq = {x.dq_sums, x.add_counts, static_cast<int>(x.plan.tiles_per_head)};
  g.band = {static_cast<int>(p.low), static_cast<int>(p.high), static_cast<int>(p.keys), 1};
  g.rows = static_cast<int>(p.rows);
  g.scale = static_cast<float>(p.scale);
  g.scale_log2 = static_cast<float>(p.scale * log2_e);
  g.heads_per_key_head = static_cast<int>(p.heads / p.key_heads);
  return g;
}

template <class Kernel> cudaError_t launch_backward_kernel(const BackwardLaunchArgs& x) {
  if (x.plan.items == 0) return cudaSuccess;
  if (const cudaError_t e = device::allow_shared_memory<run_steps<Kernel>>(step_shared_bytes<Kernel>); e != cudaSuccess)
    return e;
  const AttentionProblem& p = x.problem.forward;
  const VisibleKeys visible = find_visible_keys(p);
  tile::ItemOrder order{static_cast<int>(p.outer * p.key_heads), static_cast<int>(visible.end), Kernel::config.m,
                        x.plan.concurrent_heads};
  order.ascending = !Kernel::config.ordered;
  order.first_row = static_cast<int>(visible.first / Kernel::config.m * Kernel::config.m);
  const device::LaunchShape shape{std::min<std::int64_t>(x.plan.items, x.multiprocessors), step_threads<Kernel>,
                                  step_shared_bytes<Kernel>};
  return device::launch_dependent(run_steps<Kernel>, shape, x.stream, make_globals<Kernel>(x),
                                  StepKernelArgs{order, x.counters, nullptr});
}

// Returns the keys that no item of the backward kernel covers; an item covers a full tile of m keys.
MaskedKeys find_masked_keys(const AttentionProblem& p, const AttentionBackwardPlan& plan, int m) {
  MaskedKeys out{0, 0, static_cast<int>(p.keys), static_cast<int>(p.width)};
  if (plan.items == 0) return out;
  const VisibleKeys visible = find_visible_keys(p);
  out.visible_begin = static_cast<int>(visible.first / m * m);
  out.visible_end = static_cast<int>(std::min<std::int64_t>(p.keys, (visible.end + m - 1) / m * m));
  return out;
}

template <class Kernel> cudaError_t launch_backward(const BackwardLaunchArgs& x) {
  const AttentionBackwardProblem& problem = x.problem;
  const AttentionProblem& p = problem.forward;
  const AttentionBackwardData& d = x.data;
  const BackwardShape rows{static_cast<int>(p.heads), static_cast<int>(p.rows), static_cast<int>(p.width),
                           static_cast<int>(x.plan.tiles_per_head)};
  const dim3 grid(static_cast<unsigned>(x.plan.tiles_per_head), static_cast<unsigned>(p.heads),
                  static_cast<unsigned>(p.outer));
  prepare_backward<Kernel><<<grid, backward_pass_threads, 0, x.stream>>>(rows, {const_cast<void*>(d.o), p.o},
                                                                         {const_cast<void*>(d.dout), problem.dout},
                                                                         d.lse, x.row_stats, x.dq_sums, x.add_counts);
  const MaskedKeys masked = find_masked_keys(p, x.plan, Kernel::config.m);
  if (masked.visible_begin > 0 || masked.visible_end < masked.keys)
    clear_masked_keys<typename Kernel::Q::type>
        <<<dim3(static_cast<unsigned>(x.multiprocessors), static_cast<unsigned>(p.key_heads),
                static_cast<unsigned>(p.outer)),
           backward_pass_threads, 0, x.stream>>>(masked, {d.dk, problem.dk}, {d.dv, problem.dv});
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess) return e;
  if (const cudaError_t e = launch_backward_kernel<Kernel>(x); e != cudaSuccess) return e;
  finish_backward<Kernel>
      <<<grid, backward_pass_threads, 0, x.stream>>>(rows, x.dq_sums, {d.dq, problem.dq}, static_cast<float>(p.scale));
  return cudaGetLastError();
}

constexpr AttentionBackwardConfig with_order(AttentionBackwardConfig config, bool ordered) {
  config.ordered = ordered;
  return config;
}
template <class T, bool ordered, std::size_t i> cudaError_t launch_config(const BackwardLaunchArgs& x) {
  if constexpr (device::is_compiled<T>(i))
    return launch_backward<AttentionBackward<with_order(attention_backward_kernel_configs[i], ordered), T>>(x);
  else
    return device::kernel_absent;
}
template <class T, bool ordered, std::size_t... i>
constexpr std::array<BackwardLauncher, sizeof...(i)> make_launchers(std::index_sequence<i...>) {
  return {launch_config<T, ordered, i>...};
}

}  // namespace

template <class T>
const std::array<BackwardLauncher, attention_backward_kernel_configs.size()>& backward_launchers(bool ordered) {
  using ConfigIndices = std::make_index_sequence<attention_backward_kernel_configs.size()>;
  static constexpr auto unordered_kernels = make_launchers<T, false>(ConfigIndices{}),
                        ordered_kernels = make_launchers<T, true>(ConfigIndices{});
  return ordered ? ordered_kernels : unordered_kernels;
}
template const std::array<BackwardLauncher, attention_backward_kernel_configs.size()>& backward_launchers<RIDGE_TYPE>(
    bool);

}  // namespace ridge::ops::cuda

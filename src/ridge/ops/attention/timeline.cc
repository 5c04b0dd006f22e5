// Predicts timelines of attention kernels from their recorded traces.
#include <array>
#include <utility>

#include "ridge/base/float16.h"
#include "ridge/ops/attention/attention.h"
#include "ridge/ops/attention/backward.h"
#include "ridge/ops/attention/model.h"
#include "ridge/tile/trace/record_steps.h"
#include "ridge/tile/trace/timing_model.h"

namespace ridge::ops::cuda {
namespace {

tile::trace::BlockRates make_rates(const BlockThroughput& throughput, double clock_hz) {
  return {.ticks_per_second = clock_hz,
          .copy_bytes_per_tick = throughput.load_bytes_per_cycle,
          .copy_latency = static_cast<std::int64_t>(throughput.load_latency),
          .flops_per_tick = throughput.flops_per_cycle,
          .store_bytes_per_tick = throughput.store_bytes_per_cycle,
          .store_latency = static_cast<std::int64_t>(throughput.store_latency),
          .thread_bytes_per_tick = 2 * exponentials_per_cycle};
}

template <class Kernel> Timeline make_timeline(const tile::ItemOrder& order, const typename Kernel::Globals& g,
                                               const tile::trace::BlockRates& rates) {
  return tile::trace::simulate_timeline(tile::trace::record_steps<Kernel>({.kernel = "attention", .order = order}, g),
                                        rates);
}

template <std::size_t index> Timeline forward_timeline(int items, int steps, const tile::trace::BlockRates& rates) {
  using TracedAttention = Attention<attention_kernel_configs[index], tile::trace::RecordedElement<Bf16>>;
  constexpr AttentionConfig c = attention_kernel_configs[index];
  AttentionProblem p{.rows = c.m, .keys = std::int64_t{steps} * c.kv, .width = c.d};
  p.outer = items;
  typename TracedAttention::Globals g{};
  set_scalar_args(g, p);
  return make_timeline<TracedAttention>({items, c.m, c.m, 1, 1}, g, rates);
}

// Records the backward pass without a mask.
template <std::size_t index> Timeline backward_timeline(int items, int steps, const tile::trace::BlockRates& rates) {
  using TracedBackward =
      AttentionBackward<attention_backward_kernel_configs[index], tile::trace::RecordedElement<Bf16>>;
  constexpr AttentionBackwardConfig c = attention_backward_kernel_configs[index];
  typename TracedBackward::Globals g{};
  g.rows = steps * c.q;
  g.band = {-(1 << 30), 1 << 30, c.m};
  tile::ItemOrder order{items, c.m, c.m, 1, 1};
  order.ascending = true;
  return make_timeline<TracedBackward>(order, g, rates);
}

using TimelineFunction = Timeline (*)(int items, int steps, const tile::trace::BlockRates&);
template <std::size_t... rows>
constexpr std::array<TimelineFunction, sizeof...(rows)> all_forward_timelines(std::index_sequence<rows...>) {
  return {&forward_timeline<rows>...};
}
template <std::size_t... rows>
constexpr std::array<TimelineFunction, sizeof...(rows)> all_backward_timelines(std::index_sequence<rows...>) {
  return {&backward_timeline<rows>...};
}

}  // namespace

Timeline attention_timeline(int config, int items, int steps, const BlockThroughput& throughput, double clock_hz) {
  static constexpr auto timelines = all_forward_timelines(std::make_index_sequence<attention_kernel_configs.size()>{});
  return timelines[config](items, steps, make_rates(throughput, clock_hz));
}

Timeline attention_backward_timeline(int config, int items, int steps, const BlockThroughput& throughput,
                                     double clock_hz) {
  static constexpr auto timelines =
      all_backward_timelines(std::make_index_sequence<attention_backward_kernel_configs.size()>{});
  return timelines[config](items, steps, make_rates(throughput, clock_hz));
}

}  // namespace ridge::ops::cuda

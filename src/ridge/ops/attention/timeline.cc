#include <array>
#include <utility>

#include "ridge/base/float16.h"
#include "ridge/ops/attention/attention.h"
#include "ridge/ops/attention/backward.h"
#include "ridge/ops/attention/model.h"
#include "ridge/tile/trace/pace.h"
#include "ridge/tile/trace/record_steps.h"

namespace ridge::ops::cuda {
namespace {

tile::trace::Rates rates_of(const BlockPace& pace, double clock_hz) {
  return {.ticks_per_second = clock_hz,
          .copy_bytes_per_tick = pace.load_bytes,
          .copy_latency = static_cast<std::int64_t>(pace.load_latency),
          .flops_per_tick = pace.flops,
          .store_bytes_per_tick = pace.store_bytes,
          .store_latency = static_cast<std::int64_t>(pace.store_latency),
          .thread_bytes_per_tick = 2 * exponentials_a_cycle};
}

template <class Kernel>
Timeline timeline_of(const tile::StepOrder& order, const typename Kernel::Globals& g, const tile::trace::Rates& rates) {
  return tile::trace::pace(tile::trace::record_steps<Kernel>({.kernel = "attention", .order = order}, g), rates);
}

template <std::size_t index> Timeline forward(int items, int steps, const tile::trace::Rates& rates) {
  using Kernel = Attention<attention_menu[index], tile::trace::Noted<Bf16>>;
  constexpr AttentionConfig c = attention_menu[index];
  AttentionProblem p{.rows = c.m, .keys = std::int64_t{steps} * c.kv, .width = c.d};
  p.outer = items;
  typename Kernel::Globals g{};
  set_numbers(g, p);
  return timeline_of<Kernel>({items, c.m, c.m, 1, 1}, g, rates);
}

// Records the backward pass without a mask.
template <std::size_t index> Timeline backward(int items, int steps, const tile::trace::Rates& rates) {
  using Kernel = AttentionBackward<attention_backward_menu[index], tile::trace::Noted<Bf16>>;
  constexpr AttentionBackwardConfig c = attention_backward_menu[index];
  typename Kernel::Globals g{};
  g.rows = steps * c.q;
  g.band = {-(1 << 30), 1 << 30, c.m};
  tile::StepOrder order{items, c.m, c.m, 1, 1};
  order.ascending = true;
  return timeline_of<Kernel>(order, g, rates);
}

using Drawn = Timeline (*)(int items, int steps, const tile::trace::Rates&);
template <std::size_t... rows> constexpr std::array<Drawn, sizeof...(rows)> all_forward(std::index_sequence<rows...>) {
  return {&forward<rows>...};
}
template <std::size_t... rows> constexpr std::array<Drawn, sizeof...(rows)> all_backward(std::index_sequence<rows...>) {
  return {&backward<rows>...};
}

}  // namespace

Timeline attention_timeline(int config, int items, int steps, const BlockPace& pace, double clock_hz) {
  static constexpr auto all = all_forward(std::make_index_sequence<attention_menu.size()>{});
  return all[static_cast<std::size_t>(config)](items, steps, rates_of(pace, clock_hz));
}

Timeline attention_backward_timeline(int config, int items, int steps, const BlockPace& pace, double clock_hz) {
  static constexpr auto all = all_backward(std::make_index_sequence<attention_backward_menu.size()>{});
  return all[static_cast<std::size_t>(config)](items, steps, rates_of(pace, clock_hz));
}

}  // namespace ridge::ops::cuda

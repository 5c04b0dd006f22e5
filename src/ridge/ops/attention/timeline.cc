#include <utility>

#include "ridge/base/float16.h"
#include "ridge/ops/attention/attention.h"
#include "ridge/ops/attention/model.h"
#include "ridge/tile/trace/pace.h"
#include "ridge/tile/trace/record_steps.h"

namespace ridge::ops::cuda {
namespace {

template <std::size_t index> Timeline drawn(int items, int steps, const BlockPace& pace, double clock_hz) {
  using Kernel = Attention<attention_menu[index], tile::trace::Noted<Bf16>>;
  constexpr AttentionConfig c = attention_menu[index];
  AttentionProblem p{.rows = c.m, .keys = std::int64_t{steps} * c.kv, .width = c.d};
  p.outer = items;
  typename Kernel::Globals g{};
  set_numbers(g, p);
  const tile::StepOrder order{items, c.m, c.m, 1, 1};
  const tile::trace::Rates rates{.ticks_per_second = clock_hz,
                                 .copy_bytes_per_tick = pace.load_bytes,
                                 .copy_latency = static_cast<std::int64_t>(pace.load_latency),
                                 .flops_per_tick = pace.flops,
                                 .store_bytes_per_tick = pace.store_bytes,
                                 .store_latency = static_cast<std::int64_t>(pace.store_latency),
                                 .thread_bytes_per_tick = 2 * exponentials_a_cycle};
  return tile::trace::pace(tile::trace::record_steps<Kernel>({.kernel = "attention", .order = order}, g), rates);
}

template <std::size_t... rows> constexpr auto all_drawn(std::index_sequence<rows...>) {
  return std::array{&drawn<rows>...};
}

}  // namespace

Timeline attention_timeline(int config, int items, int steps, const BlockPace& pace, double clock_hz) {
  static constexpr auto all = all_drawn(std::make_index_sequence<attention_menu.size()>{});
  return all[static_cast<std::size_t>(config)](items, steps, pace, clock_hz);
}

}  // namespace ridge::ops::cuda

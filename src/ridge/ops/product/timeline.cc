#include "ridge/ops/product/model.h"

#include <utility>

#include "ridge/base/float16.h"
#include "ridge/ops/product/closed_form.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/tile/trace/pace.h"
#include "ridge/tile/trace/record.h"

namespace ridge::ops {
namespace {

struct Asked {
  int config, tiles, stages;
  double clock_hz;
};

template <std::size_t index> void draw(const Asked& asked, Timeline& out) {
  constexpr MatmulConfig config = sm90_menu[index];
  if constexpr (config.a == tile::Major::k && config.b == tile::Major::k) {
    if (asked.config != static_cast<int>(index)) return;
    const BlockPace pace = cuda::block_pace(config);
    const tile::trace::Rates rates{.ticks_per_second = asked.clock_hz,
                                   .copy_bytes_per_tick = pace.load_bytes,
                                   .copy_latency = static_cast<std::int64_t>(pace.load_latency),
                                   .flops_per_tick = pace.flops,
                                   .store_bytes_per_tick = pace.store_bytes,
                                   .store_latency = static_cast<std::int64_t>(pace.store_latency)};
    tile::trace::RecordOptions options{
        .kernel = "matmul", .sizes = {.m = asked.tiles * config.m, .n = config.n, .k = asked.stages * config.k}};
    if constexpr (config.grouped)  // One group has all rows
      options.starts = {0, config.swap ? options.sizes.n : options.sizes.m};
    out = tile::trace::pace(tile::trace::record<Matmul<config, Bf16, Bf16, Bf16>>(options), rates);
  }
}

template <std::size_t... rows> Timeline drawn(const Asked& asked, std::index_sequence<rows...>) {
  Timeline out;
  (draw<rows>(asked, out), ...);
  return out;
}

}  // namespace

BlockPace matmul_pace(int config) { return cuda::block_pace(sm90_menu[static_cast<std::size_t>(config)]); }

Timeline matmul_timeline(int config, int tiles, int stages, double clock_hz) {
  return drawn({config, tiles, stages, clock_hz}, std::make_index_sequence<sm90_menu.size()>());
}

}  // namespace ridge::ops

#include "ridge/ops/product/model.h"

#include <utility>

#include "ridge/base/float16.h"
#include "ridge/ops/product/closed_form.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/tile/trace/record.h"
#include "ridge/tile/trace/timing_model.h"

namespace ridge::ops {
namespace {

struct TimelineArgs {
  int config, tiles, stages;
  double clock_hz;
};

template <std::size_t index> void add_timeline(const TimelineArgs& args, Timeline& out) {
  constexpr MatmulConfig config = sm90_kernel_configs[index];
  if constexpr (config.a == tile::Major::k && config.b == tile::Major::k) {
    if (args.config != static_cast<int>(index)) return;
    const BlockThroughput throughput = cuda::block_throughput(config);
    const tile::trace::BlockRates rates{.ticks_per_second = args.clock_hz,
                                        .copy_bytes_per_tick = throughput.load_bytes_per_cycle,
                                        .copy_latency = static_cast<std::int64_t>(throughput.load_latency),
                                        .flops_per_tick = throughput.flops_per_cycle,
                                        .store_bytes_per_tick = throughput.store_bytes_per_cycle,
                                        .store_latency = static_cast<std::int64_t>(throughput.store_latency)};
    tile::trace::RecordOptions options{
        .kernel = "matmul", .sizes = {.m = args.tiles * config.m, .n = config.n, .k = args.stages * config.k}};
    if constexpr (config.grouped)  // One group has all rows
      options.starts = {0, config.swap ? options.sizes.n : options.sizes.m};
    out = tile::trace::simulate_timeline(tile::trace::record_program<Matmul<config, Bf16, Bf16, Bf16>>(options), rates);
  }
}

template <std::size_t... rows> Timeline make_timeline(const TimelineArgs& args, std::index_sequence<rows...>) {
  Timeline out;
  (add_timeline<rows>(args, out), ...);
  return out;
}

}  // namespace

BlockThroughput matmul_throughput(int config) { return cuda::block_throughput(sm90_kernel_configs[config]); }

Timeline matmul_timeline(int config, int tiles, int stages, double clock_hz) {
  return make_timeline({config, tiles, stages, clock_hz}, std::make_index_sequence<sm90_kernel_configs.size()>());
}

}  // namespace ridge::ops

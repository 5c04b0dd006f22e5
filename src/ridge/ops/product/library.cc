#include "ridge/ops/product/library.h"

#include <algorithm>
#include <cmath>

#include "ridge/base/portable_math.h"

namespace ridge::ops {
namespace {

// Tile shapes of library kernels; each is also tried with rows and columns exchanged.
constexpr LibraryTile tiles[] = {{64, 8},    {64, 16},  {64, 32},   {64, 64},   {64, 96},   {64, 128},  {64, 192},
                                 {64, 256},  {128, 32}, {128, 64},  {128, 96},  {128, 128}, {128, 160}, {128, 192},
                                 {128, 256}, {256, 64}, {256, 128}, {192, 128}, {256, 96}};
constexpr double split_counts[] = {1, 2, 3, 4, 6, 8, 12, 16};
constexpr double step_depth = 64;            // k per step
constexpr double small_tile_results = 4096;  // Tiles of up to this many results have shorter steps
constexpr double small_tile_factor = 0.8;

double overlap_times(double x, double y, double power) {
  const double longer = std::max(x, y), shorter = std::min(x, y);
  // Skips two powers if the shorter time hardly counts.
  if (shorter < 0.02 * longer) return longer;
  return longer * base::pow(1 + base::pow(shorter / longer, power), 1 / power);
}

struct ProductContext {
  const LibraryProduct& p;
  const DatasheetRates& machine;
  const LibraryNumbers& n;
  double memory_s, results_s;  // Time to move all bytes; time to move the results in f32
};

double estimate_step_seconds(const ProductContext& x, const LibraryTile& tile) {
  const double cores = x.machine.cores, operand_bytes = x.p.operand_bytes;
  const double multiply = 2 * tile.m * tile.n * step_depth * cores / (x.n.compute_fraction * x.machine.flops_per_s);
  const double load = (tile.m + tile.n) * step_depth * operand_bytes * cores / x.n.l2_bytes_per_s;
  const double waits = x.n.step_s * (tile.m * tile.n <= small_tile_results ? small_tile_factor : 1);
  return std::max({multiply, load, waits});
}

// Replaces `best` by the fastest kernel of this tile if that is faster.
void try_tile(const ProductContext& x, const LibraryTile& tile, LibraryChoice& best) {
  const double items = x.p.batch * std::ceil(x.p.m / tile.m) * std::ceil(x.p.n / tile.n);
  const double step = estimate_step_seconds(x, tile), steps = std::ceil(x.p.k / step_depth);
  const double end = x.n.tile_s * tile.m * tile.n / 16384;
  for (const double split : split_counts) {
    const double waves = std::ceil(items * split / x.machine.cores);
    const double busy = waves * (std::ceil(steps / split) * step + end);
    const double reached = std::min(1.0, items * split * x.n.core_bandwidth_factor / x.machine.cores);
    const double split_seconds = split > 1 ? x.n.split_s + split * x.results_s : 0;
    if (std::max(busy, x.memory_s / reached) + split_seconds >= best.seconds) continue;
    const double seconds = overlap_times(busy, x.memory_s / reached, x.n.overlap_exponent) + split_seconds;
    if (seconds < best.seconds) best = {tile, split, items * split, waves, seconds};
  }
}

}  // namespace

double min_traffic_bytes(const LibraryProduct& p) {
  return p.batch * (p.k * (p.m + p.n) * p.operand_bytes + p.m * p.n * p.result_bytes);
}

LibraryChoice choose_library_kernel(const LibraryProduct& p, const DatasheetRates& machine, const LibraryNumbers& n,
                                    const std::optional<LibraryTile>& given) {
  const double memory = n.memory_fraction * machine.memory_bytes_per_s, results = p.batch * p.m * p.n;
  const ProductContext context{p, machine, n, min_traffic_bytes(p) / memory, 4 * results / memory};
  LibraryChoice out;
  if (given) {
    try_tile(context, *given, out);
  } else {
    for (const LibraryTile& tile : tiles) {
      try_tile(context, tile, out);
      if (tile.m != tile.n) try_tile(context, {tile.n, tile.m}, out);
    }
  }
  const double busy = std::min(1.0, 2 * results * p.k / (n.compute_fraction * machine.flops_per_s) / out.seconds);
  out.seconds *= 1 + n.power_slowdown * busy * busy * std::clamp((1e6 * out.seconds - 20) / 200, 0.0, 1.0);
  out.seconds += n.launch_s;
  return out;
}

double estimate_library_seconds(const LibraryProduct& p, const DatasheetRates& machine, const LibraryNumbers& n) {
  return choose_library_kernel(p, machine, n).seconds;
}

}  // namespace ridge::ops

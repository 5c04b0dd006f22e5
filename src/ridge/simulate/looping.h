// What a call costs when a token is made layer by layer: T = calls·t_sync + bytes/bandwidth. Kernel by kernel, every
// operation is a call and what it hands on goes through memory; fused, a layer is one call; looped, all layers are one
// call and the next layer's weights load while this one computes (a metapipe across the loop's back edge). 32 layers of
// 10 kernels and 1 µs a call: 320 µs, 32 µs and 1 µs of synchronisation.
//
// No time per call is published for SN40L or for the GPUs it is compared with: t_sync is the caller's, sync_sweep shows
// what it does, and sync_for_speedup tells which t_sync a published ratio would imply.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/quantity.h"
#include "ridge/base/result.h"
#include "ridge/simulate/metapipe.h"

namespace ridge {

// One token, or one step of any model whose layers are alike.
struct LayeredStep {
  std::int64_t layers = 1;
  std::int64_t kernels_per_layer = 1;
  double layer_bytes = 0;  // read from memory however it is called: weights and cache
  double layer_flops = 0;
  double handed_on_bytes = 0;    // from a kernel to the next; written and read again where a call lies between
  std::int64_t other_calls = 0;  // embedding, head, sampling
  double other_bytes = 0, other_flops = 0;
};

struct LayeredMachine {
  double bytes_per_second = 0;
  double flops_per_second = 0;
  double sync_seconds = 0;  // from one call's end to the next one's work
};

enum class Calling : std::uint8_t { kernel_by_kernel, fused, looped };
std::string_view name(Calling calling);

struct CallingCost {
  Calling calling = Calling::kernel_by_kernel;
  std::int64_t calls = 0;
  double bytes = 0;
  double sync_seconds = 0;
  double work_seconds = 0;  // max(bytes/bandwidth, FLOPs/peak)
  double seconds = 0;
  double bandwidth_fraction = 0;  // of the peak, over the whole time
  bool possible = true;           // false: what it calls does not fit onto the chip, and the times are none
};

struct CallingReport {
  std::array<CallingCost, 3> costs;  // in the order of Calling
  const CallingCost& of(Calling calling) const { return costs[static_cast<std::size_t>(calling)]; }
  double speedup(Calling from, Calling to) const { return of(from).seconds / of(to).seconds; }
  std::string text() const;
};

// Errors of all: a count below 1 (other_calls: 0), a number negative or not finite, a rate of 0.
Result<CallingReport> compare_calling(const LayeredStep& step, const LayeredMachine& machine);
Result<std::vector<CallingReport>> sync_sweep(const LayeredStep& step, const LayeredMachine& machine,
                                              std::span<const double> sync_seconds);
// The t_sync at which `to` is `ratio` times as fast as `from`; an error where none is.
struct Speedup {
  Calling from = Calling::fused, to = Calling::looped;
  double ratio = 1;
};
Result<double> sync_for_speedup(const LayeredStep& step, const LayeredMachine& machine, const Speedup& speedup);
// The t_sync at which `calling` reaches this fraction of the peak bandwidth.
Result<double> sync_for_bandwidth(const LayeredStep& step, const LayeredMachine& machine, Calling calling,
                                  double fraction);

// What published figures imply for t_sync here, were synchronisation all that keeps a call from the peak.
struct ImpliedSync {
  std::string_view figure, source;
  std::optional<double> seconds;  // none: no t_sync gives it here
  std::string why_not;
};
std::vector<ImpliedSync> implied_syncs(const LayeredStep& step, const LayeredMachine& machine);

// Seconds as `--sync` takes them: "5e-6", "0,1e-6,1e-5", "1e-7..1e-4:*10" (its ends included). Error: usage.
Result<std::vector<double>> parse_syncs(std::string_view text);

// The looped layers as a pipe in nanoseconds, for the clock: weights load in one stage and are used in the next.
Result<Metapipe> looped_pipe(const LayeredStep& step, const LayeredMachine& machine);

// Llama-3.1-8B, one token, bf16: 32 layers of 218 112 000 parameters, 4096 bytes of cache a layer and position, and (as
// the kernel-looping paper, arXiv 2410.23668 table 1, counts them: 14.9 GiB) the whole embedding and head.
LayeredStep llama_8b_decode(std::int64_t context);

}  // namespace ridge

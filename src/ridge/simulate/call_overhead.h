// Call overhead of decoding a token layer by layer: T = calls·t_sync + bytes/bandwidth. Kernel by kernel, every
// operation is a call and its result goes through memory. Fused, a layer is one call. Looped, all layers are one call,
// and the next layer's weights load while the current one computes (a metapipe across the loop's back edge). With 32
// layers of 10 kernels and 1 µs for each call, synchronisation takes 320 µs, 32 µs and 1 µs.
//
// No time per call is published for SN40L or for the GPUs that it is compared with. The caller chooses t_sync,
// `sweep_call_overhead` shows its effect, and `call_overhead_for_speedup` returns the t_sync that a published ratio
// implies.
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

// One token, or one step of any model with identical layers.
struct LayeredStep {
  std::int64_t layers = 1;
  std::int64_t kernels_per_layer = 1;
  double layer_bytes = 0;  // read from memory in every mode: weights and cache
  double layer_flops = 0;
  double intermediate_bytes = 0;  // between two kernels; written and read again if these are separate calls
  std::int64_t other_calls = 0;   // embedding, head, sampling
  double other_bytes = 0, other_flops = 0;
};

struct LayeredMachine {
  double bytes_per_second = 0;
  double flops_per_second = 0;
  double sync_seconds = 0;  // from the end of one call to the work of the next
};

enum class CallMode : std::uint8_t { kernel_by_kernel, fused, looped };
std::string_view call_mode_name(CallMode mode);

struct CallModeCost {
  CallMode mode = CallMode::kernel_by_kernel;
  std::int64_t calls = 0;
  double bytes = 0;
  double sync_seconds = 0;
  double work_seconds = 0;  // max(bytes/bandwidth, FLOPs/peak)
  double seconds = 0;
  double bandwidth_fraction = 0;  // achieved fraction of the peak bandwidth
  bool is_possible = true;        // false if the calls do not fit onto the chip; the times are invalid then
};

struct CallModeReport {
  std::array<CallModeCost, 3> costs;  // in the order of the enum
  const CallModeCost& cost_of(CallMode mode) const { return costs[static_cast<std::size_t>(mode)]; }
  double speedup_over(CallMode from, CallMode to) const { return cost_of(from).seconds / cost_of(to).seconds; }
  std::string to_text() const;
};

// Errors of all functions here: a count below 1 (other_calls: below 0), a negative or infinite number, a rate of 0.
Result<CallModeReport> compare_call_modes(const LayeredStep& step, const LayeredMachine& machine);
Result<std::vector<CallModeReport>> sweep_call_overhead(const LayeredStep& step, const LayeredMachine& machine,
                                                        std::span<const double> sync_seconds);
// Speed-up for which `call_overhead_for_speedup` returns the t_sync: `to` is `ratio` times as fast as `from`.
struct Speedup {
  CallMode from = CallMode::fused, to = CallMode::looped;
  double ratio = 1;
};
Result<double> call_overhead_for_speedup(const LayeredStep& step, const LayeredMachine& machine,
                                         const Speedup& speedup);
// Returns the t_sync at which `mode` reaches this fraction of the peak bandwidth.
Result<double> call_overhead_for_bandwidth(const LayeredStep& step, const LayeredMachine& machine, CallMode mode,
                                           double fraction);

// The t_sync that a published figure implies if synchronisation were the only loss.
struct ImpliedCallOverhead {
  std::string_view figure, source;
  std::optional<double> seconds;  // nullopt if no t_sync gives the figure
  std::string why_not;
};
std::vector<ImpliedCallOverhead> implied_call_overheads(const LayeredStep& step, const LayeredMachine& machine);

// Parses the seconds of `--sync`: "5e-6", "0,1e-6,1e-5", or "1e-7..1e-4:*10" with both ends included.
Result<std::vector<double>> parse_sync_seconds(std::string_view text);

// Returns the looped layers as a pipe in nanoseconds: one stage loads weights, the next uses them.
Result<Metapipe> make_looped_pipe(const LayeredStep& step, const LayeredMachine& machine);

}  // namespace ridge

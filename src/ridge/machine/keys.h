// Keys of machine files, used by the parser, its hints and the printer.
#pragma once

#include <array>
#include <string_view>

#include "ridge/base/function.h"

namespace ridge {

struct NumberKey {
  std::string_view key;
  std::string_view unit;  // "1" for a number without unit
};

// Keys of [numbers], without the costs of functions.
inline constexpr std::array<NumberKey, 49> hardware_keys{{
    {"cores", "1"},             // SMs, CUs, TensorCores or CPU cores
    {"clock_hz", "Hz"},         // highest sustained clock or boost clock
    {"matrix_clock_hz", "Hz"},  // clock assumed in the matrix peaks, if it differs
    {"line_bytes", "B"},        // cache line of the main memory
    {"sector_bytes", "B"},      // smallest memory transfer, part of a line
    {"launch_s", "s"},          // from the end of a kernel to the start of the next
    {"base_clock_hz", "Hz"},    // clock without boost
    {"scratch_bytes", "B"},     // software-managed memory of one core: shared memory, VMEM, LDS
    {"register_bytes", "B"},    // registers of one core
    {"lanes", "1"},             // f32 operations per cycle and core that the vector unit issues
    {"host_chips", "1"},        // chips per host
    {"pod_chips", "1"},         // maximum number of chips connected by the first link
    {"wrap_chips", "1"},        // mesh axes with fewer chips are lines, not rings; default: all are rings
    {"wrap_slice_chips", "1"},  // with fewer chips altogether, no mesh axis is a ring
    {"leaf_chips", "1"},        // chips per leaf switch of the scale-out network
    {"spine_part", "1"},        // oversubscription of the spine: link rate / spine rate of a chip; default 1
    {"switch_reduces", "1"},    // 1 if the first link's switch reduces in the network
    // Fitted model of a collective library (tools/fit_collectives.py): time of a call and of a ring step; rates of
    // narrow (small) and wide (large) messages, the wide ones with an extra latency; local copy rate; the same for
    // exchanges between pairs.
    {"collective_call_s", "s"},
    {"collective_step_s", "s"},
    {"collective_narrow_rate", "B/s"},
    {"collective_wide_rate", "B/s"},
    {"collective_wide_s", "s"},
    {"collective_copy_rate", "B/s"},
    {"collective_pair_narrow_rate", "B/s"},
    {"collective_pair_wide_rate", "B/s"},
    {"collective_pair_wide_s", "s"},
    {"collective_switch_rate", "B/s"},  // all-reduce bytes per second with in-network reduction
    {"collective_issue_s", "s"},        // minimum time of a single call issued by a framework
    // Fitted model of the vendor library's matmuls (`ridge calibrate`, ops/product/library.h) and its error: 80 % of
    // the ratios measured/predicted are between low and high.
    {"library_launch_s", "s"},
    {"library_compute", "1"},
    {"library_memory", "1"},
    {"library_step_s", "s"},
    {"library_tile_s", "s"},
    {"library_split_s", "s"},
    {"library_overlap", "1"},
    {"library_slowdown", "1"},
    {"library_l2_bytes_per_s", "B/s"},
    {"library_reach", "1"},
    {"library_low", "1"},
    {"library_middle", "1"},
    {"library_high", "1"},
    {"arrays", "1"},  // systolic arrays
    {"array_rows", "1"},
    {"array_columns", "1"},
    {"tile_m", "1"},  // tile of one bf16 or f16 matrix instruction; n is the maximum
    {"tile_n", "1"},
    {"tile_k", "1"},
    {"power_w", "W"},  // thermal design power
    // 2: the vector peaks count a fused multiply-add as two FLOPs, and other operations reach half the peak; 1: the
    // unit has no fused multiply-add
    {"vector_multiply_add", "1"},
}};

// Keys of [plan]. Plans also use the number of cores, the L2 capacity and launch_s. See ops/model.h.
inline constexpr std::array<NumberKey, 5> plan_keys{{
    {"clock_hz", "Hz"},             // clock of memory-bound kernels
    {"busy_clock_hz", "Hz"},        // clock of compute-bound kernels under the power limit
    {"memory_bytes_per_s", "B/s"},  // memory bandwidth of a kernel
    {"l2_bytes_per_s", "B/s"},      // L2 bandwidth
    {"launch_s", "s"},              // launch time of a kernel in a CUDA graph
}};

namespace machine_keys {
constexpr std::size_t cost_count = [] {
  std::size_t count = 0;
  for (const FunctionInfo& f : function_table) count += f.has_cost ? 1 : 0;
  return count;
}();
struct CostName {  // "cost_exp"
  std::array<char, 24> text{};
  std::size_t size = 0;
  constexpr void append(std::string_view more) {
    for (const char c : more) text[size++] = c;
  }
};
inline constexpr std::array<CostName, cost_count> cost_names = [] {
  std::array<CostName, cost_count> names{};
  std::size_t at = 0;
  for (const FunctionInfo& f : function_table) {
    if (!f.has_cost) continue;
    names[at].append("cost_");
    names[at++].append(f.name);
  }
  return names;
}();
}  // namespace machine_keys

// All keys of [numbers]. cost_exp is the time of one exp on the vector unit, in FLOPs at its peak.
inline constexpr std::array<NumberKey, hardware_keys.size() + machine_keys::cost_count> number_keys = [] {
  std::array<NumberKey, hardware_keys.size() + machine_keys::cost_count> keys{};
  std::size_t at = 0;
  for (const NumberKey& key : hardware_keys) keys[at++] = key;
  for (const machine_keys::CostName& name : machine_keys::cost_names)
    keys[at++] = {std::string_view(name.text.data(), name.size), "FLOP"};
  return keys;
}();

constexpr std::string_view unit_of_key(std::string_view key) {
  for (const NumberKey& known : number_keys)
    if (known.key == key) return known.unit;
  return "1";
}

// Returns the unit of peaks: OP/s for integer formats, else FLOP/s.
constexpr std::string_view rate_unit(bool integer) { return integer ? "OP/s" : "FLOP/s"; }

}  // namespace ridge

// The words that a machine file may use, in one table that the parser, its hints and the printer share.
#pragma once

#include <array>
#include <string_view>

#include "ridge/base/function.h"

namespace ridge {

struct NumberKey {
  std::string_view key;
  std::string_view unit;  // "1": a count
};

// What [numbers] may hold besides the costs of functions.
inline constexpr std::array<NumberKey, 48> size_keys{{
    {"cores", "1"},             // what the machine calls its core: SM, CU, TensorCore, CPU core
    {"clock_hz", "Hz"},         // highest sustained or boost clock
    {"matrix_clock_hz", "Hz"},  // the clock behind the matrix peaks, where it is another
    {"line_bytes", "B"},        // of the memory that tensors live in
    {"sector_bytes", "B"},      // the least that memory moves, a part of a line
    {"launch_s", "s"},          // from one kernel's end to the next one's start
    {"base_clock_hz", "Hz"},    // what it runs at without boost
    {"scratch_bytes", "B"},     // software-managed memory of one core: shared memory, VMEM, LDS
    {"register_bytes", "B"},    // registers of one core
    {"lanes", "1"},             // f32 operations that one core's vector unit starts in a cycle
    {"host_chips", "1"},        // chips of one host
    {"pod_chips", "1"},         // chips that the first link joins, at most
    {"wrap_chips", "1"},        // a mesh axis of fewer chips is no ring but a line; none: rings close whatever they are
    {"leaf_chips", "1"},        // chips below one leaf of the network behind a node
    {"spine_part", "1"},        // leaves share the spine: a chip has its link's rate over this there; none: all of it
    {"switch_reduces", "1"},    // 1: the first link's switch adds up what passes
    // What a collective library takes, fitted (tools/fit_collectives.py): a call, a step round a ring; up to some size
    // over narrow messages, above over wide ones that begin later; what a device copies itself; pairs exchange
    // likewise.
    {"collective_call_s", "s"},
    {"collective_step_s", "s"},
    {"collective_narrow_rate", "B/s"},
    {"collective_wide_rate", "B/s"},
    {"collective_wide_s", "s"},
    {"collective_copy_rate", "B/s"},
    {"collective_pair_narrow_rate", "B/s"},
    {"collective_pair_wide_rate", "B/s"},
    {"collective_pair_wide_s", "s"},
    {"collective_switch_rate", "B/s"},  // of an all-reduce's V bytes, where the switch adds up
    {"collective_issue_s", "s"},        // a call by itself, by the host of a framework: it then takes no less
    // What products take in the vendor's library, fitted (`ridge calibrate`, ops/product/library.h), and how far that
    // is off: eight of ten measured over predicted times lie between low and high.
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
    {"tile_m", "1"},  // the product that one instruction of the matrix unit does, in bf16 or f16; n: at most
    {"tile_n", "1"},
    {"tile_k", "1"},
    {"power_w", "W"},  // thermal design power
    // 2: the vector peaks count a fused multiply-add as two FLOPs, and what has none reaches half; 1: the unit has
    // none, and every operation counts once
    {"vector_multiply_add", "1"},
}};

// All of [plan], beside which plans take the cores, the L2's capacity and launch_s. See ops/model.h.
inline constexpr std::array<NumberKey, 5> plan_keys{{
    {"clock_hz", "Hz"},             // while bytes bound what runs
    {"busy_clock_hz", "Hz"},        // that the power limit leaves where multiplies bound it
    {"memory_bytes_per_s", "B/s"},  // that a kernel gets
    {"l2_bytes_per_s", "B/s"},      // that the L2 serves
    {"launch_s", "s"},              // of a kernel in a graph
}};

namespace machine_keys {
constexpr std::size_t costs = [] {
  std::size_t count = 0;
  for (const FunctionRow& f : function_rows) count += f.has_cost ? 1 : 0;
  return count;
}();
struct CostName {  // "cost_exp"
  std::array<char, 24> text{};
  std::size_t size = 0;
  constexpr void add(std::string_view more) {
    for (const char c : more) text[size++] = c;
  }
};
inline constexpr std::array<CostName, costs> cost_names = [] {
  std::array<CostName, costs> names{};
  std::size_t at = 0;
  for (const FunctionRow& f : function_rows) {
    if (!f.has_cost) continue;
    names[at].add("cost_");
    names[at++].add(f.name);
  }
  return names;
}();
}  // namespace machine_keys

// All of [numbers]; cost_exp is what one application takes on the vector unit, in FLOPs of its peak.
inline constexpr std::array<NumberKey, size_keys.size() + machine_keys::costs> number_keys = [] {
  std::array<NumberKey, size_keys.size() + machine_keys::costs> keys{};
  std::size_t at = 0;
  for (const NumberKey& key : size_keys) keys[at++] = key;
  for (const machine_keys::CostName& name : machine_keys::cost_names)
    keys[at++] = {std::string_view(name.text.data(), name.size), "FLOP"};
  return keys;
}();

constexpr std::string_view unit_of(std::string_view key) {
  for (const NumberKey& known : number_keys)
    if (known.key == key) return known.unit;
  return "1";
}

// The unit in which a peak is written: integer formats count OP, the others FLOP.
constexpr std::string_view rate_unit(bool integer) { return integer ? "OP/s" : "FLOP/s"; }

}  // namespace ridge

// The words that a machine file may use, in one table that the parser, its hints and the printer share.
#pragma once

#include <array>
#include <string_view>

namespace ridge {

struct NumberKey {
  std::string_view key;
  std::string_view unit;  // "1": a count
};

// What [numbers] may hold.
inline constexpr std::array<NumberKey, 25> number_keys{{
    {"cores", "1"},             // what the machine calls its core: SM, CU, TensorCore, CPU core
    {"clock_hz", "Hz"},         // highest sustained or boost clock
    {"matrix_clock_hz", "Hz"},  // the clock behind the matrix peaks, where it is another
    {"line_bytes", "B"},        // of the memory that tensors live in
    {"sector_bytes", "B"},      // the least that memory moves, a part of a line
    {"launch_s", "s"},          // from one kernel's end to the next one's start
    {"scratch_bytes", "B"},     // software-managed memory of one core: shared memory, VMEM, LDS
    {"arrays", "1"},            // systolic arrays
    {"array_rows", "1"},
    {"array_columns", "1"},
    {"tile_m", "1"},  // the product that one instruction of the matrix unit does, in bf16 or f16; n: at most
    {"tile_n", "1"},
    {"tile_k", "1"},
    {"power_w", "W"},      // thermal design power
    {"cost_exp", "FLOP"},  // what one application takes on the vector unit, in FLOPs of its peak
    {"cost_log", "FLOP"},
    {"cost_cos", "FLOP"},
    {"cost_sin", "FLOP"},
    {"cost_gelu", "FLOP"},
    {"cost_gelu_tanh", "FLOP"},
    {"cost_silu", "FLOP"},
    {"cost_sigmoid", "FLOP"},
    {"cost_tanh", "FLOP"},
    {"cost_sqrt", "FLOP"},
    {"cost_rsqrt", "FLOP"},
}};

constexpr std::string_view unit_of(std::string_view key) {
  for (const NumberKey& known : number_keys)
    if (known.key == key) return known.unit;
  return "1";
}

// The unit in which a peak is written: integer formats count OP, the others FLOP.
constexpr std::string_view rate_unit(bool integer) { return integer ? "OP/s" : "FLOP/s"; }

}  // namespace ridge

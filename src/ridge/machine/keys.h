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
inline constexpr std::array<NumberKey, 9> number_keys{{
    {"cores", "1"},             // what the machine calls its core: SM, CU, TensorCore, CPU core
    {"clock_hz", "Hz"},         // highest sustained or boost clock
    {"matrix_clock_hz", "Hz"},  // the clock behind the matrix peaks, where it is another
    {"line_bytes", "B"},        // of the memory that tensors live in
    {"launch_s", "s"},          // from one kernel's end to the next one's start
    {"scratch_bytes", "B"},     // software-managed memory of one core: shared memory, VMEM, LDS
    {"arrays", "1"},            // systolic arrays
    {"array_rows", "1"},
    {"array_columns", "1"},
}};

// The unit in which a peak is written: integer formats count OP, the others FLOP.
constexpr std::string_view rate_unit(bool integer) { return integer ? "OP/s" : "FLOP/s"; }

}  // namespace ridge

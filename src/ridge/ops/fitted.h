// Reads the CSV files of data/models, which the build embeds: numbers fitted to timings, each with its unit and
// meaning. The files' header lines name the tool, timings, device and day. The numbers are cycles, bytes and fractions,
// which are the same on every Hopper; `DeviceNumbers` (model.h) has the rates that differ between machines.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ridge/base/fitted_file.h"
#include "ridge/base/result.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

// Values of data/models/kernels.csv, which has their meaning. Shares are relative to a rate of the device.
struct KernelConstants {
  double gemv_cycles_per_line, gemv_cycles_per_word, gemv_wait_cycles;
  double f32_load_cycles, f32_unaligned_cycles;
  double register_load_cycles, register_transpose_cycles, tf32_load_cycles;
  double piece_cycles, scaled_stage_cycles, scaled_column_cycles, left_load_cycles;
  double register_item_cycles, register_split_cycles;
  double weight_part_8bit_cycles, weight_part_mxfp8_cycles, weight_part_e2m1_cycles;  // Products with narrow weights
  double weight_part_int4_cycles, weight_block_cycles, weight_wgmma_cycles;
  double weight_group_cycles, weight_wait_cycles, weight_split_cycles, weight_activation_share;
  double gated_pass_launch_cycles, gated_pass_memory_share;  // Backward pass over h of a gated layer
  double plain_flops_per_cycle, lanes_per_multiprocessor, multiply_adds_per_cycle;
  double attention_multiply_share, exposed_exponential_share, attention_l2_share;
  double attention_item_cycles, attention_tail_share, attention_merge_cycles, attention_split_cycles;
  double backward_multiply_share;  // The same for attention's backward pass
  double epilogue_step_cycles, epilogue_vector_cycles, epilogue_matrix_cycles, epilogue_hidden_share;
  double gather_wait_cycles, gather_item_instructions;
  double scatter_wait_cycles, scatter_time_factor;
  double running_sum_wait_cycles, sum_along_factor, sum_across_factor;
  double recurrence_load_cycles, recurrence_access_cycles;
  double select_wait_cycles, select_key_cycles;
  double sort_line_wait_cycles, sort_launch_wait_cycles;
  double column_load_instructions, column_row_instructions;  // Depthwise convolution with channels second
  double depthwise_factor;                                   // The same with channels last
  double routed_time_factor;
  double kernel_switch_cycles;
  double rotary_wait_cycles, rotary_time_factor;
};
const KernelConstants& kernel_constants();
Result<KernelConstants> parse_kernel_constants(std::string_view csv, const std::string& source);

std::span<const NamedNumber<KernelConstants>> named_kernel_constants();

// Returns by how many seconds a kernel that starts after another one of a program takes longer than in timings of it
// alone.
double kernel_switch_seconds(const DeviceNumbers& device);

// While an object of this class exists, kernel_constants() returns `numbers`. For fitting. Not thread-safe; do not
// nest.
class KernelConstantsOverride {
 public:
  explicit KernelConstantsOverride(const KernelConstants& numbers);
  ~KernelConstantsOverride();
  KernelConstantsOverride(const KernelConstantsOverride&) = delete;
  KernelConstantsOverride& operator=(const KernelConstantsOverride&) = delete;
};

// Values of data/models/devices.csv, measured on the timed Hopper devices and assumed for other Hopper devices. Shares
// are relative to the machine file's rates; `cluster4_share` is the share of multiprocessors usable by clusters of 4.
struct HopperRates {
  double clock_share, busy_clock_share, memory_share, l2_bytes_per_cycle, launch_s;
  double cluster1_share, cluster2_share, cluster3_share, cluster4_share, cluster5_share, cluster6_share, cluster7_share,
      cluster8_share;
};
const HopperRates& hopper_rates();
Result<HopperRates> parse_hopper_rates(std::string_view csv, const std::string& source);

// Values of data/models/functions.csv: instructions per lane for one call of a function, for each further call if it is
// applied repeatedly, and for a call whose result is stored in 16 bits.
struct FunctionCost {
  double first_call = 1, repeated_call = 1, approximate_call = 1;
};
FunctionCost function_cost(std::string_view function);

// Returns the spread of a kind, which must exist. Kinds by file in data/models: product_spread.csv: "product";
// advice.csv: "advice_order", …; device_advice.csv: "device_advice_order", …; spreads.csv: "streamed", "untimed", ….
const PredictionSpread& find_spread(std::string_view kind);

}  // namespace ridge::ops

namespace ridge {
// Contents of the files at build time.
std::string_view kernels_csv();
std::string_view devices_csv();
std::string_view functions_csv();
std::string_view spreads_csv();
std::string_view product_spread_csv();
std::string_view advice_csv();
std::string_view device_advice_csv();
}  // namespace ridge

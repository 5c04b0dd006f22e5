#include "ridge/ops/fitted.h"

#include <map>

#include "ridge/base/check.h"

namespace ridge::ops {
namespace {

constexpr NamedNumber<KernelConstants> kernel_constant_fields[] = {
    {"gemv_line", &KernelConstants::gemv_cycles_per_line},
    {"gemv_word", &KernelConstants::gemv_cycles_per_word},
    {"gemv_wait", &KernelConstants::gemv_wait_cycles},
    {"f32_load", &KernelConstants::f32_load_cycles},
    {"f32_unaligned", &KernelConstants::f32_unaligned_cycles},
    {"register_load", &KernelConstants::register_load_cycles},
    {"tf32_load", &KernelConstants::tf32_load_cycles},
    {"piece", &KernelConstants::piece_cycles},
    {"scaled_stage", &KernelConstants::scaled_stage_cycles},
    {"scaled_column", &KernelConstants::scaled_column_cycles},
    {"left_load", &KernelConstants::left_load_cycles},
    {"register_transpose", &KernelConstants::register_transpose_cycles},
    {"register_item", &KernelConstants::register_item_cycles},
    {"register_split", &KernelConstants::register_split_cycles},
    {"weight_part_8bit", &KernelConstants::weight_part_8bit_cycles},
    {"weight_part_mxfp8", &KernelConstants::weight_part_mxfp8_cycles},
    {"weight_part_e2m1", &KernelConstants::weight_part_e2m1_cycles},
    {"weight_part_int4", &KernelConstants::weight_part_int4_cycles},
    {"weight_block", &KernelConstants::weight_block_cycles},
    {"weight_wgmma", &KernelConstants::weight_wgmma_cycles},
    {"weight_group", &KernelConstants::weight_group_cycles},
    {"weight_wait", &KernelConstants::weight_wait_cycles},
    {"weight_split", &KernelConstants::weight_split_cycles},
    {"weight_activations", &KernelConstants::weight_activation_share},
    {"backward_pass", &KernelConstants::gated_pass_launch_cycles},
    {"backward_bandwidth", &KernelConstants::gated_pass_memory_share},
    {"plain_flops", &KernelConstants::plain_flops_per_cycle},
    {"lanes", &KernelConstants::lanes_per_multiprocessor},
    {"multiplies", &KernelConstants::multiply_adds_per_cycle},
    {"attention_multiplies", &KernelConstants::attention_multiply_share},
    {"attention_exponentials", &KernelConstants::exposed_exponential_share},
    {"attention_l2", &KernelConstants::attention_l2_share},
    {"attention_item", &KernelConstants::attention_item_cycles},
    {"attention_tail", &KernelConstants::attention_tail_share},
    {"attention_merge", &KernelConstants::attention_merge_cycles},
    {"attention_part", &KernelConstants::attention_split_cycles},
    {"attention_backward_multiplies", &KernelConstants::backward_multiply_share},
    {"epilogue_step", &KernelConstants::epilogue_step_cycles},
    {"epilogue_vector", &KernelConstants::epilogue_vector_cycles},
    {"epilogue_matrix", &KernelConstants::epilogue_matrix_cycles},
    {"epilogue_hidden", &KernelConstants::epilogue_hidden_share},
    {"gather_wait", &KernelConstants::gather_wait_cycles},
    {"gather_item", &KernelConstants::gather_item_instructions},
    {"scatter_wait", &KernelConstants::scatter_wait_cycles},
    {"scatter_time", &KernelConstants::scatter_time_factor},
    {"running_sum_wait", &KernelConstants::running_sum_wait_cycles},
    {"sum_along", &KernelConstants::sum_along_factor},
    {"sum_across", &KernelConstants::sum_across_factor},
    {"recurrence_load", &KernelConstants::recurrence_load_cycles},
    {"recurrence_access", &KernelConstants::recurrence_access_cycles},
    {"select_wait", &KernelConstants::select_wait_cycles},
    {"select_key", &KernelConstants::select_key_cycles},
    {"sort_line_wait", &KernelConstants::sort_line_wait_cycles},
    {"sort_launch_wait", &KernelConstants::sort_launch_wait_cycles},
    {"column_load", &KernelConstants::column_load_instructions},
    {"column_row", &KernelConstants::column_row_instructions},
    {"depthwise", &KernelConstants::depthwise_factor},
    {"routed_time", &KernelConstants::routed_time_factor},
    {"kernel_switch", &KernelConstants::kernel_switch_cycles},
    {"rotary_wait", &KernelConstants::rotary_wait_cycles},
    {"rotary_time", &KernelConstants::rotary_time_factor},
};
constexpr NamedNumber<HopperRates> hopper_rate_fields[] = {
    {"clock", &HopperRates::clock_share},         {"busy_clock", &HopperRates::busy_clock_share},
    {"memory", &HopperRates::memory_share},       {"l2", &HopperRates::l2_bytes_per_cycle},
    {"launch", &HopperRates::launch_s},           {"clusters_1", &HopperRates::cluster1_share},
    {"clusters_2", &HopperRates::cluster2_share}, {"clusters_3", &HopperRates::cluster3_share},
    {"clusters_4", &HopperRates::cluster4_share}, {"clusters_5", &HopperRates::cluster5_share},
    {"clusters_6", &HopperRates::cluster6_share}, {"clusters_7", &HopperRates::cluster7_share},
    {"clusters_8", &HopperRates::cluster8_share},
};

const KernelConstants* override_numbers = nullptr;

using FunctionCostTable = std::map<std::string, FunctionCost, std::less<>>;
using Spreads = std::map<std::string, PredictionSpread, std::less<>>;

template <class Numbers, std::size_t count>
Numbers parse_embedded(const NamedNumber<Numbers> (&names)[count], std::string_view csv, const std::string& source) {
  const auto parsed = parse_named_numbers(std::span<const NamedNumber<Numbers>>(names), csv, source);
  RIDGE_CHECK(parsed, parsed.error().to_string());
  return *parsed;
}

FunctionCostTable load_function_costs() {
  const auto file =
      parse_fitted_file(functions_csv(), "data/models/functions.csv", "function,first,again,rough,origin");
  RIDGE_CHECK(file, file.error().to_string());
  const auto rows = read_named_rows(*file, 1, 3);
  RIDGE_CHECK(rows, rows.error().to_string());
  FunctionCostTable out;
  for (const auto& [name, row] : *rows) out[name] = {row[0], row[1], row[2]};
  return out;
}

void add_spreads(std::string_view csv, const char* source, Spreads& to) {
  const auto file = parse_fitted_file(csv, source, "kind,low,middle,high,meaning");
  RIDGE_CHECK(file, file.error().to_string());
  const auto rows = read_named_rows(*file, 1, 3);
  RIDGE_CHECK(rows, rows.error().to_string());
  for (const auto& [name, row] : *rows) to[name] = {row[0], row[1], row[2]};
}
Spreads load_spreads() {
  Spreads out;
  add_spreads(product_spread_csv(), "data/models/product_spread.csv", out);
  add_spreads(spreads_csv(), "data/models/spreads.csv", out);
  add_spreads(advice_csv(), "data/models/advice.csv", out);
  add_spreads(device_advice_csv(), "data/models/device_advice.csv", out);
  return out;
}

}  // namespace

Result<KernelConstants> parse_kernel_constants(std::string_view csv, const std::string& source) {
  return parse_named_numbers(named_kernel_constants(), csv, source);
}
Result<HopperRates> parse_hopper_rates(std::string_view csv, const std::string& source) {
  return parse_named_numbers(std::span<const NamedNumber<HopperRates>>(hopper_rate_fields), csv, source);
}

const KernelConstants& kernel_constants() {
  static const KernelConstants all = parse_embedded(kernel_constant_fields, kernels_csv(), "data/models/kernels.csv");
  return override_numbers == nullptr ? all : *override_numbers;
}
std::span<const NamedNumber<KernelConstants>> named_kernel_constants() { return kernel_constant_fields; }

double kernel_switch_seconds(const DeviceNumbers& device) {
  return kernel_constants().kernel_switch_cycles / device.clock_hz;
}

KernelConstantsOverride::KernelConstantsOverride(const KernelConstants& numbers) { override_numbers = &numbers; }
KernelConstantsOverride::~KernelConstantsOverride() { override_numbers = nullptr; }

const HopperRates& hopper_rates() {
  static const HopperRates all = parse_embedded(hopper_rate_fields, devices_csv(), "data/models/devices.csv");
  return all;
}

FunctionCost function_cost(std::string_view function) {
  static const FunctionCostTable all = load_function_costs();
  const auto found = all.find(function);
  return found == all.end() ? FunctionCost{} : found->second;
}

const PredictionSpread& find_spread(std::string_view kind) {
  static const Spreads all = load_spreads();
  const auto found = all.find(kind);
  RIDGE_CHECK(found != all.end(), kind);
  return found->second;
}

}  // namespace ridge::ops
